package acp

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// What a payload that does not say gets (protocol section 9).
const (
	TimeoutDefault           = 300 * time.Second
	StartupTimeoutDefault    = 30 * time.Second
	InitializeTimeoutDefault = 30 * time.Second
	MCPTimeoutDefault        = 60 * time.Second
	PermissionDefault        = "allow_once"
)

// PermissionAsk is the permission decision that leaves questions to
// [Options].Ask.
const PermissionAsk = "ask"

// Request is what a payload asks for (protocol section 9).
type Request struct {
	// Command is the agent's command and its arguments.
	Command []string
	// Dir is the working folder of the agent's process, SessionDir that of its
	// session, as the caller named them; empty where it did not. Both are for the
	// embedder to check and to make absolute before [Run].
	Dir, SessionDir string
	// Env is what the caller adds to the agent's environment, NAME=value, sorted.
	Env []string
	// Provider names the kind of agent, such as claude-code; empty for none.
	Provider string

	// Prompt is the text to give to the agent.
	Prompt string
	// Attachments are what comes with the text.
	Attachments []Attachment

	// MCPServers are objects that are passed to the agent as they came.
	MCPServers []jsontext.Value
	// Assets says that the agent is to be offered the caller's tools
	// ([Options].MCPURL).
	Assets bool
	// MCPTimeout bounds one tool call; it is for whoever serves MCPURL.
	MCPTimeout time.Duration

	// Timeout bounds the opening of the session, and anew the turn.
	Timeout time.Duration
	// StartupTimeout bounds the start of the process, which is the embedder's part.
	StartupTimeout time.Duration
	// InitializeTimeout bounds the answer to initialize.
	InitializeTimeout time.Duration

	// Permission is how the agent's questions are answered: the kind of option to
	// pick (allow_once, allow_always, reject_once, reject_always), the id of an
	// option, "first", or [PermissionAsk]. A question without such an option is
	// answered cancelled: what was not allowed is never picked in its place.
	Permission string

	// StoredSession is the session to take up, if Reuse is set; CreateSession
	// allows a new one when there is none, or the agent knows it no more.
	StoredSession string
	Reuse         bool
	CreateSession bool

	// Streaming says that each piece of text is sent when it comes, and not only
	// the whole message.
	Streaming bool
}

// configFields are the members of config that count, unread.
type configFields struct {
	Command           jsontext.Value `json:"acp_command"`
	Workspace         jsontext.Value `json:"workspace"`
	Dir               jsontext.Value `json:"cwd"`
	SessionDir        jsontext.Value `json:"session_cwd"`
	Env               jsontext.Value `json:"env"`
	Provider          jsontext.Value `json:"provider"`
	MCPServers        jsontext.Value `json:"mcp_servers"`
	Assets            jsontext.Value `json:"langbot_assets_enabled"`
	MCPTimeout        jsontext.Value `json:"mcp_request_timeout"`
	Timeout           jsontext.Value `json:"timeout"`
	StartupTimeout    jsontext.Value `json:"startup_timeout"`
	InitializeTimeout jsontext.Value `json:"initialize_timeout"`
	Permission        jsontext.Value `json:"permission_decision"`
	StoredSession     jsontext.Value `json:"stored_session_id"`
	Reuse             jsontext.Value `json:"reuse_session"`
	CreateSession     jsontext.Value `json:"create_session_if_missing"`
	Streaming         jsontext.Value `json:"streaming"`
}

// ParsePayload reads the payload of a run.start (protocol section 9). Members it
// does not know are ignored; null, and a time or a text that is empty, are as if
// they were not there. The error is a [*Failure] that names the member which is
// wrong.
func ParsePayload(payload []byte) (Request, error) {
	var p struct {
		Prompt jsontext.Value `json:"prompt_text"`
		Input  jsontext.Value `json:"input"`
		Config jsontext.Value `json:"config"`
	}
	var c configFields
	if json.Unmarshal(payload, &p, lenient) != nil {
		return Request{}, wrong("payload", "one JSON object")
	}
	if !absent(p.Config) && (p.Config.Kind() != '{' || json.Unmarshal(p.Config, &c, lenient) != nil) {
		return Request{}, wrong("config", "an object")
	}
	r := memberReader{}
	q := Request{
		Command:           r.command("config.acp_command", c.Command),
		Dir:               r.text("config.cwd", c.Dir),
		SessionDir:        r.text("config.session_cwd", c.SessionDir),
		Env:               r.environment("config.env", c.Env),
		Provider:          r.text("config.provider", c.Provider),
		Prompt:            r.text("prompt_text", p.Prompt),
		MCPServers:        r.objects("config.mcp_servers", c.MCPServers),
		Assets:            r.flag("config.langbot_assets_enabled", c.Assets),
		MCPTimeout:        r.seconds("config.mcp_request_timeout", c.MCPTimeout, MCPTimeoutDefault),
		Timeout:           r.seconds("config.timeout", c.Timeout, TimeoutDefault),
		StartupTimeout:    r.seconds("config.startup_timeout", c.StartupTimeout, StartupTimeoutDefault),
		InitializeTimeout: r.seconds("config.initialize_timeout", c.InitializeTimeout, InitializeTimeoutDefault),
		Permission:        r.text("config.permission_decision", c.Permission),
		StoredSession:     strings.TrimSpace(r.text("config.stored_session_id", c.StoredSession)),
		Reuse:             r.flag("config.reuse_session", c.Reuse),
		CreateSession:     r.flag("config.create_session_if_missing", c.CreateSession),
		Streaming:         r.flag("config.streaming", c.Streaming),
	}
	workspace := r.text("config.workspace", c.Workspace)
	said := r.input(p.Input, &q)
	if r.err != nil {
		return Request{}, r.err
	}
	q.settle(workspace, said)
	if strings.TrimSpace(q.Prompt) == "" && len(q.Attachments) == 0 {
		return Request{}, &Failure{
			Code: CodeEmptyPrompt, Member: "prompt_text", Text: `the payload's "prompt_text" is empty and "input" has no attachment: there is nothing to ask the agent`,
		}
	}
	return q, nil
}

// settle fills what follows from other members. said is the text inside input,
// for callers that give no other.
func (q *Request) settle(workspace, said string) {
	if q.Dir == "" {
		q.Dir = workspace
	}
	if q.SessionDir == "" {
		q.SessionDir = workspace
	}
	if q.SessionDir == "" {
		q.SessionDir = q.Dir
	}
	if q.Permission == "" {
		q.Permission = PermissionDefault
	}
	if strings.TrimSpace(q.Prompt) == "" {
		q.Prompt = said
	}
}

func absent(v jsontext.Value) bool { return len(v) == 0 || v.Kind() == 'n' }

func wrong(member, want string) *Failure {
	return &Failure{Code: CodePayload, Member: member, Text: fmt.Sprintf("the payload's %q must be %s", member, want)}
}

// memberReader reads members and keeps the first thing that is wrong.
type memberReader struct{ err *Failure }

func (r *memberReader) fail(member, want string) {
	if r.err == nil {
		r.err = wrong(member, want)
	}
}

func (r *memberReader) text(member string, v jsontext.Value) string {
	if absent(v) {
		return ""
	}
	if v.Kind() != '"' {
		r.fail(member, "a string")
		return ""
	}
	return stringOf(v)
}

// flag reads a boolean that is true when it is not there.
func (r *memberReader) flag(member string, v jsontext.Value) bool {
	switch {
	case absent(v), v.Kind() == 't':
		return true
	case v.Kind() != 'f':
		r.fail(member, "true or false")
	}
	return false
}

// seconds reads a time; 0 is the default, as callers in the field expect it.
func (r *memberReader) seconds(member string, v jsontext.Value, other time.Duration) time.Duration {
	if absent(v) {
		return other
	}
	var s float64
	if v.Kind() != '0' || json.Unmarshal(v, &s) != nil || s < 0 || s > math.MaxInt64/float64(2*time.Second) {
		r.fail(member, fmt.Sprintf("a number of seconds that is not negative; 0 is %v", other))
		return 0
	}
	if s == 0 {
		return other
	}
	return time.Duration(s * float64(time.Second))
}

func (r *memberReader) command(member string, v jsontext.Value) []string {
	const want = "the agent's command: an array of strings, or a string that is split like a shell splits it"
	var words []string
	switch {
	case v.Kind() == '"':
		var err error
		if words, err = splitWords(stringOf(v)); err != nil {
			r.fail(member, want+"; "+err.Error())
			return nil
		}
	case v.Kind() == '[' && json.Unmarshal(v, &words, lenient) == nil:
	default:
		r.fail(member, want)
		return nil
	}
	if len(words) == 0 || words[0] == "" {
		r.fail(member, want+"; it names nothing to run")
		return nil
	}
	return words
}

// environment reads an object of strings; numbers are taken as they are written.
// What it says of a value that is wrong does not hold the value.
func (r *memberReader) environment(member string, v jsontext.Value) []string {
	if absent(v) {
		return nil
	}
	vars := objectOf(v)
	if vars == nil {
		r.fail(member, "an object of strings")
		return nil
	}
	env := make([]string, 0, len(vars))
	for name, value := range vars {
		text := string(value)
		if value.Kind() == '"' {
			text = stringOf(value)
		} else if value.Kind() != '0' {
			r.fail(member, "an object of strings")
			return nil
		}
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(text, 0) {
			r.fail(member, "an object of names without = and NUL, and values without NUL")
			return nil
		}
		env = append(env, name+"="+text)
	}
	slices.Sort(env)
	return env
}

func (r *memberReader) objects(member string, v jsontext.Value) []jsontext.Value {
	if absent(v) {
		return nil
	}
	var list []jsontext.Value
	if v.Kind() != '[' || json.Unmarshal(v, &list, lenient) != nil {
		r.fail(member, "an array of objects")
		return nil
	}
	for i, item := range list {
		if item.Kind() != '{' || tidy(&list[i]) != nil {
			r.fail(member, "an array of objects")
			return nil
		}
	}
	return list
}

// tidy makes a value fit for a line of its own: no newline between its tokens,
// bad UTF-8 and lone surrogates as U+FFFD. Numbers stay as they are written.
func tidy(v *jsontext.Value) error {
	return v.Format(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}
