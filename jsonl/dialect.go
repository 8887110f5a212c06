package jsonl

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Dialect is how one kind of agent says that it is done.
type Dialect struct {
	// Name is part of its events' type: jsonl.<name>. It has letters, digits and
	// hyphens only.
	Name string
	// Done and Failed are the values of the member type in the line that ends a
	// good run, and a bad one. A line of type Done is a bad end, too, when its
	// member is_error is true. Both empty: only the process's end ends the run.
	Done, Failed string
}

// The dialects that are known.
var (
	Claude = Dialect{Name: "claude-code", Done: "result"}
	Codex  = Dialect{Name: "codex", Done: "turn.completed", Failed: "turn.failed"}
	// Plain is for agents of which nothing is known.
	Plain = Dialect{Name: "line"}
)

// lenient reads what agents print: bad UTF-8 and lone surrogates become U+FFFD.
var lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// result is what an agent's last line says.
type result struct {
	failed bool
	text   string // of a failure, for people
}

// judge looks whether a line is the agent's result.
func (d Dialect) judge(object []byte) (result, bool) {
	var l struct {
		Type    jsontext.Value `json:"type"`
		IsError jsontext.Value `json:"is_error"`
		Result  jsontext.Value `json:"result"`
		Error   jsontext.Value `json:"error"`
	}
	if d.Done == "" && d.Failed == "" || json.Unmarshal(object, &l, lenient) != nil {
		return result{}, false
	}
	switch kind := textOf(l.Type); {
	case kind == "", kind != d.Done && kind != d.Failed:
		return result{}, false
	case kind == d.Done && l.IsError.Kind() != 't':
		return result{}, true
	}
	r := result{failed: true, text: textOf(l.Result)}
	if r.text == "" {
		r.text = textOf(l.Error)
	}
	var e struct {
		Message jsontext.Value `json:"message"`
	}
	if r.text == "" && l.Error.Kind() == '{' && json.Unmarshal(l.Error, &e, lenient) == nil {
		r.text = textOf(e.Message)
	}
	return r, true
}

func textOf(v jsontext.Value) string {
	var s string
	if v.Kind() != '"' || json.Unmarshal(v, &s, lenient) != nil {
		return ""
	}
	return s
}

// depthMax is how deep a line may be nested: a frame takes 512 levels in all
// (protocol section 1), and two stand around it.
const depthMax = 500

// objectOf gives the JSON object of a line as an event can hold it, and false for a
// line that is none. Numbers stay as they are written.
func objectOf(text []byte) (jsontext.Value, bool) {
	v := jsontext.Value(append([]byte(nil), text...))
	if v.Kind() != '{' || v.Format(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)) != nil || deep(v) {
		return nil, false
	}
	return v, true
}

func deep(v jsontext.Value) bool {
	depth, quoted := 0, false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > depthMax {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}
