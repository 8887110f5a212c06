package control

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"codingrelay/actors"
	"codingrelay/wire"
)

const (
	// bodyMax is the largest request body: a payload of the hub's own limit and
	// what stands around it.
	bodyMax = wire.OurMaxFrame + 64<<10
	// smallBodyMax is the largest body of a request without a payload. A bulk
	// clear of a thousand daemons fits.
	smallBodyMax = 1 << 20
	// bodyTimeout bounds the reading of a body.
	bodyTimeout = 2 * time.Minute
	// bodiesInMemory bounds the bodies that are being read, judged or waiting for
	// their daemon, all together (invariant I14). Those of up to bodyFree bytes are
	// not counted, so that no crowd of large ones keeps a cancel out: the number of
	// connections bounds them.
	bodiesInMemory = 128 << 20
	bodyFree       = 64 << 10
)

// body reads a request's body of at most limit bytes, to its end: only then the
// server watches the connection and ends the request's context with it. Whoever
// calls release has let go of the bytes.
func (s *Server) body(w http.ResponseWriter, r *http.Request, limit int64) (text []byte, release func(), fault *APIError) {
	release = func() {}
	if r.ContentLength > limit {
		return nil, release, s.tooLarge(limit)
	}
	if r.ContentLength == 0 {
		return nil, release, nil
	}
	if fault := s.jsonOnly(r); fault != nil {
		return nil, release, fault
	}
	weight := r.ContentLength
	if weight < 0 {
		weight = limit
	}
	if weight > bodyFree {
		if !s.bodies.TryAcquire(weight) {
			return nil, release, s.refusal(actors.CodeBusy, "too many large requests at once (their memory is limited); try again later")
		}
		release = func() { s.bodies.Release(weight) }
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // a writer without deadlines is for who serves it
	buf := bytes.NewBuffer(make([]byte, 0, max(r.ContentLength, 512)))
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	_ = rc.SetReadDeadline(time.Time{})
	if err == nil {
		return buf.Bytes(), release, nil
	}
	release()
	return nil, func() {}, s.unreadable(err, limit)
}

func (s *Server) unreadable(err error, limit int64) *APIError {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return s.tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return s.refusal(actors.CodeInvalidRequest, "the body did not come within %v; send it faster", bodyTimeout)
	default:
		return s.refusal(actors.CodeInvalidRequest, "the body ended early")
	}
}

func (s *Server) tooLarge(limit int64) *APIError {
	return s.refusal(actors.CodePayloadTooLarge, "the body is above the limit of %d bytes", limit)
}

// jsonOnly refuses what a web form could send.
func (s *Server) jsonOnly(r *http.Request) *APIError {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := params["charset"]
	if err != nil || kind != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return s.refusal(actors.CodeInvalidRequest, "a body must be JSON: send Content-Type: application/json")
	}
	if r.Header.Get("Content-Encoding") != "" {
		return s.refusal(actors.CodeInvalidRequest, "compressed bodies are not taken: send it without Content-Encoding")
	}
	return nil
}

// noBody refuses a body where none has a meaning: unread, it would also keep the
// server from noticing that the client has gone.
func (s *Server) noBody(r *http.Request) *APIError {
	if r.ContentLength != 0 {
		return s.refusal(actors.CodeInvalidRequest, "a %s request takes no body", r.Method)
	}
	return nil
}

// decodeInto reads exactly one JSON object. Unknown names are refused, since a
// mistyped option must not pass as absent; so are names that come twice, names in
// another case, bad UTF-8, and anything after the object.
func (s *Server) decodeInto(text []byte, into any) *APIError {
	if first := bytes.TrimLeft(text, " \t\r\n"); len(first) == 0 || first[0] != '{' {
		return s.refusal(actors.CodeInvalidRequest, "the body must be one JSON object")
	}
	if err := json.Unmarshal(text, into, json.RejectUnknownMembers(true)); err != nil {
		return s.refusal(actors.CodeInvalidRequest, "the body: %s", whyNot(err))
	}
	return nil
}

// whyNot says in few words what is wrong with a body. It names fields, never
// values.
func whyNot(err error) string {
	var meaning *json.SemanticError
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the JSON does not end"
	case errors.Is(err, json.ErrUnknownName) && errors.As(err, &meaning):
		return "unknown field " + shown(meaning.JSONPointer) + "; check its spelling"
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntax):
		return "the field " + shown(syntax.JSONPointer) + " comes twice"
	case errors.As(err, &syntax):
		return "not valid JSON at " + shown(syntax.JSONPointer)
	case errors.As(err, &meaning):
		return "the field " + shown(meaning.JSONPointer) + " has a value of the wrong kind"
	default:
		return "not valid JSON"
	}
}

// shown is a JSON pointer as an error text may hold it: short, printable.
func shown(p jsontext.Pointer) string {
	const most = 80
	text := strings.ToValidUTF8(strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return utf8.RuneError
		}
		return c
	}, string(p)), "\ufffd")
	if text == "" {
		return "its beginning"
	}
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
