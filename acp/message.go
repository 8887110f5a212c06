package acp

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// errRPC is the error code for a method that is not offered (JSON-RPC 2.0,
// section 5.1).
const errMethodNotFound = -32601

// errAuthRequired is ACP's error code for an agent that wants a login first.
const errAuthRequired = -32000

// lenient reads what agents write: bad UTF-8 and lone surrogates become U+FFFD,
// and of a name that comes twice the last counts.
var lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// message is one JSON-RPC message of the agent. Members are kept as they came.
type message struct {
	ID     jsontext.Value `json:"id"`
	Method jsontext.Value `json:"method"`
	Params jsontext.Value `json:"params"`
	Result jsontext.Value `json:"result"`
	Error  jsontext.Value `json:"error"`

	method string
}

// errNoise is what parseMessage says of a line that is no JSON-RPC message.
var errNoise = errors.New("no JSON-RPC message")

// parseMessage reads one line. A JSON-RPC message is an object with a method that
// is a string, or with an id and a result or an error; the version member is not
// asked for, since some agents leave it out.
func parseMessage(text []byte) (message, error) {
	var m message
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != '{' {
		return m, errNoise
	}
	if json.Unmarshal(text, &m, lenient) != nil {
		return m, errNoise
	}
	if len(m.Method) > 0 {
		if m.Method.Kind() != '"' {
			return m, errNoise
		}
		m.method = stringOf(m.Method)
		return m, nil
	}
	if m.hasID() && (len(m.Result) > 0 || len(m.Error) > 0) {
		return m, nil
	}
	return m, errNoise
}

// hasID reports whether the message wants an answer, or is one. An id of null is
// none: nobody could tell whose answer it is.
func (m *message) hasID() bool { return len(m.ID) > 0 && m.ID.Kind() != 'n' }

// rpcError is the error member of an answer.
type rpcError struct {
	Code    float64 `json:"code"`
	Message string  `json:"message"`
}

// failed gives the error of an answer, nil when there is none.
func (m *message) failed() *rpcError {
	if len(m.Error) == 0 || m.Error.Kind() == 'n' {
		return nil
	}
	e := &rpcError{}
	if json.Unmarshal(m.Error, e, lenient) != nil || e.Message == "" {
		e.Message = headOf(string(m.Error), 256)
	}
	return e
}

// stringOf gives the text of a JSON string, empty for anything else.
func stringOf(v jsontext.Value) string {
	if v.Kind() != '"' {
		return ""
	}
	var s string
	if json.Unmarshal(v, &s, lenient) != nil {
		return ""
	}
	return s
}

// object is a JSON object, member by member, as it came.
type object map[string]jsontext.Value

// objectOf reads an object, nil for anything else.
func objectOf(v jsontext.Value) object {
	if v.Kind() != '{' {
		return nil
	}
	var o object
	if json.Unmarshal(v, &o, lenient) != nil {
		return nil
	}
	return o
}

// truth reports whether a capability is there: true, or an object, as ACP says
// both. Absent, null and false are not.
func truth(v jsontext.Value) bool { return len(v) > 0 && (v.Kind() == 't' || v.Kind() == '{') }

// appendRequest makes a request of ours; params is the JSON of an object.
func appendRequest(id int, method string, params []byte) []byte {
	b := strconv.AppendInt([]byte(`{"jsonrpc":"2.0","id":`), int64(id), 10)
	b = appendText(append(b, `,"method":`...), method)
	b = append(append(b, `,"params":`...), params...)
	return append(b, "}\n"...)
}

// appendNotification is like appendRequest for what has no answer.
func appendNotification(method string, params []byte) []byte {
	b := appendText([]byte(`{"jsonrpc":"2.0","method":`), method)
	b = append(append(b, `,"params":`...), params...)
	return append(b, "}\n"...)
}

// appendAnswer answers a request; id goes back byte for byte.
func appendAnswer(id jsontext.Value, result []byte) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	b = append(append(b, `,"result":`...), result...)
	return append(b, "}\n"...)
}

// appendRefusal answers a request whose method is not offered.
func appendRefusal(id jsontext.Value, method string) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	b = strconv.AppendInt(append(b, `,"error":{"code":`...), errMethodNotFound, 10)
	b = appendText(append(b, `,"message":`...), "this client does not offer "+headOf(method, 128))
	return append(b, "}}\n"...)
}

// appendText appends a JSON string; bad UTF-8 becomes U+FFFD.
func appendText(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}
