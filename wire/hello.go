package wire

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxDaemonID is the length of the longest daemon id, in code points.
const MaxDaemonID = 128

// RefusedError is why a handshake frame is refused. Its text is a sentence for
// the peer, fit for a close reason (see [CutReason]): it says what to do and
// holds no token and no path.
type RefusedError struct{ Reason string }

// Error gives the reason.
func (e *RefusedError) Error() string { return e.Reason }

func refuse(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...)}
}

// Hello is a daemon's first frame (protocol section 2). None of it carries
// authority.
type Hello struct {
	DaemonID string
	// Token is the secret as sent; empty when none, or no string, was sent.
	// Printing a Hello leaves it out.
	Token string `json:"-"`
	// Protocol is what the daemon speaks; empty when it did not say.
	Protocol string
	// Metadata is the metadata object's JSON, at most [MaxMetadata] bytes; nil
	// when there is none or it was left out.
	Metadata   []byte
	Extensions Extensions
}

// String prints the hello without its token.
func (h Hello) String() string {
	return fmt.Sprintf("hello of %q, %q, %d bytes of metadata, extensions %q",
		h.DaemonID, h.Protocol, len(h.Metadata), h.Extensions.Strings())
}

// GoString is [Hello.String], so that %#v does not print the token either.
func (h Hello) GoString() string { return h.String() }

// ParseHello judges a connection's first frame, whatever its type, by checks (a)
// and (b) of protocol section 3.2: it is a daemon.hello object of at most
// [HelloMaxFrame] bytes, and its daemon_id is an id (see [ValidDaemonID]; a JSON
// number counts as its text). The error is a [*RefusedError]. Metadata that is no
// object or above [MaxMetadata], extensions that are no array of strings, and a
// token or protocol that is no string are left out: checks (c) and (d), which are
// the hub's, then find them missing.
func ParseHello(f Frame) (Hello, error) {
	switch {
	case f.Type == Oversize || f.Bytes > HelloMaxFrame:
		return Hello{}, refuse("first frame above %d bytes: send a daemon.hello with less metadata", HelloMaxFrame)
	case f.Type == Ignored:
		return Hello{}, refuse("first frame is no daemon.hello: %s", f.Why)
	case f.Type != DaemonHello:
		return Hello{}, refuse("first frame is %s: send daemon.hello first", f.Type)
	}
	var h Hello
	var daemon []byte
	err := members(f.Body, func(name, value []byte, _ int) {
		switch string(name) {
		case "daemon_id":
			daemon = value
		case "token":
			h.Token, _ = unquote(value)
		case "protocol":
			h.Protocol, _ = unquote(value)
		case "metadata":
			if isObject(value) && len(value) <= MaxMetadata {
				h.Metadata = append([]byte(nil), value...)
			}
		case "extensions":
			h.Extensions = ParseExtensions(extensionStrings(value))
		}
	})
	if err != nil {
		return Hello{}, refuse("first frame is no daemon.hello: %s", whyBroken(err))
	}
	id, ok := scalarText(daemon)
	if !ok {
		return Hello{}, refuse("daemon_id missing or no string: send a name of 1 to %d characters", MaxDaemonID)
	}
	if h.DaemonID, err = ValidDaemonID(id); err != nil {
		return Hello{}, err
	}
	return h, nil
}

// scalarText gives the text of a string, or of a number as it was written.
func scalarText(token []byte) (string, bool) {
	if len(token) > 0 && (token[0] == '-' || '0' <= token[0] && token[0] <= '9') {
		return string(token), true
	}
	return unquote(token)
}

// ValidDaemonID gives an id as it is used everywhere: without white space at its
// ends, 1 to [MaxDaemonID] code points of valid UTF-8, no control characters
// (Unicode category Cc) inside (protocol section 3.2 b). The error is a
// [*RefusedError].
func ValidDaemonID(id string) (string, error) {
	if !utf8.ValidString(id) {
		return "", refuse("daemon_id is not valid UTF-8: choose another name")
	}
	id = strings.TrimSpace(id)
	switch n := utf8.RuneCountInString(id); {
	case n == 0:
		return "", refuse("daemon_id is empty: send a name of 1 to %d characters", MaxDaemonID)
	case n > MaxDaemonID:
		return "", refuse("daemon_id has %d characters: at most %d are allowed", n, MaxDaemonID)
	}
	if strings.ContainsFunc(id, unicode.IsControl) {
		return "", refuse("daemon_id holds a control character: choose a name without")
	}
	return id, nil
}

// TokenEqual reports whether two tokens are the same, in a time that does not
// depend on where they differ: it compares hashes, whole. An empty token equals
// none, not even another empty one.
func TokenEqual(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	same := subtle.ConstantTimeCompare(x[:], y[:]) == 1
	return same && a != "" && b != ""
}

// Ready is the hub's answer to a hello it admits (protocol section 2).
type Ready struct {
	DaemonID, Protocol string
	Extensions         Extensions
}

// ParseReady reads a daemon.ready. It must be one and say [Protocol] exactly
// (protocol section 8). A daemon_id that is no string or number is left empty, and
// extensions that are no array of strings are left out: neither decides anything.
// The error is a [*RefusedError] that says what the hub sent instead.
func ParseReady(f Frame) (Ready, error) {
	switch f.Type {
	case DaemonReady:
	case Ignored, Oversize:
		return Ready{}, refuse("hub's first frame is no daemon.ready: %s", f.Why)
	default:
		return Ready{}, refuse("hub's first frame is %s, not daemon.ready", f.Type)
	}
	var r Ready
	var daemon []byte
	err := members(f.Body, func(name, value []byte, _ int) {
		switch string(name) {
		case "daemon_id":
			daemon = value
		case "protocol":
			r.Protocol, _ = unquote(value)
		case "extensions":
			r.Extensions = ParseExtensions(extensionStrings(value))
		}
	})
	if err != nil {
		return Ready{}, refuse("hub's first frame is no daemon.ready: %s", whyBroken(err))
	}
	r.DaemonID, _ = scalarText(daemon)
	if r.Protocol != Protocol {
		return Ready{}, refuse("hub speaks %s, this daemon speaks %s: upgrade the older of the two", clip(r.Protocol), Protocol)
	}
	return r, nil
}
