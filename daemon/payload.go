package daemon

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Codes of the exec agent's failures.
const (
	codeExecPayload   = "exec.payload"
	codeExecAgent     = "exec.agent"
	codeExecEnv       = "exec.env"
	codeExecWorkspace = "exec.workspace"
	codeExecNotFound  = "exec.not_found"
	codeExecTooLong   = "exec.too_long"
	codeExecStart     = "exec.start"
	codeExecExit      = "exec.exit"
	codeExecSignal    = "exec.signal"
	codeExecTimeout   = "exec.timeout"
)

// execRequest is what a payload asks of the exec agent.
type execRequest struct {
	command   []string
	workspace string   // empty: the default
	env       []string // NAME=value, by name
	prompt    string
	timeout   time.Duration // 0: none
}

// execFields are the members of a payload that count, unread. docs/exec.md says
// what they mean.
type execFields struct {
	Agent     jsontext.Value `json:"agent"`
	Command   jsontext.Value `json:"command"`
	Workspace jsontext.Value `json:"workspace"`
	Env       jsontext.Value `json:"env"`
	Timeout   jsontext.Value `json:"timeout"`
}

// parseExec reads a payload. The error is a [*Failure] that names the member
// which is wrong; it holds no value of the environment.
func parseExec(payload []byte) (execRequest, error) {
	var p struct {
		execFields
		Prompt jsontext.Value `json:"prompt_text"`
		Config *execFields    `json:"config"`
	}
	// The payload is one object; members twice are the caller's affair: the last counts.
	if err := json.Unmarshal(payload, &p, jsontext.AllowDuplicateNames(true)); err != nil {
		return execRequest{}, payloadFailure(codeExecPayload, "config", "an object")
	}
	if p.Config != nil {
		p.fill(*p.Config)
	}
	var r execRequest
	var err error
	if agent, err := text("agent", p.Agent); err != nil {
		return r, err
	} else if agent != "" && agent != "exec" {
		return r, &Failure{Code: codeExecAgent, Text: fmt.Sprintf("this daemon has no agent %q; it runs commands (agent exec)", headOf(agent, 64))}
	}
	if r.command, err = command(p.Command); err != nil {
		return r, err
	}
	if r.workspace, err = text("workspace", p.Workspace); err != nil {
		return r, err
	}
	if r.prompt, err = text("prompt_text", p.Prompt); err != nil {
		return r, err
	}
	if r.env, err = entries(p.Env); err != nil {
		return r, err
	}
	r.timeout, err = seconds(p.Timeout)
	return r, err
}

// fill takes what is not there from the config object, where callers of other
// agents put such things (protocol section 9).
func (f *execFields) fill(config execFields) {
	for _, m := range []struct{ to, from *jsontext.Value }{
		{&f.Agent, &config.Agent},
		{&f.Command, &config.Command},
		{&f.Workspace, &config.Workspace},
		{&f.Env, &config.Env},
		{&f.Timeout, &config.Timeout},
	} {
		if absent(*m.to) {
			*m.to = *m.from
		}
	}
}

func absent(v jsontext.Value) bool { return len(v) == 0 || v.Kind() == 'n' }

func payloadFailure(code, member, want string) error {
	return &Failure{Code: code, Text: fmt.Sprintf("the payload's %q must be %s", member, want)}
}

func text(member string, v jsontext.Value) (string, error) {
	if absent(v) {
		return "", nil
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return "", payloadFailure(codeExecPayload, member, "a string")
	}
	return s, nil
}

func command(v jsontext.Value) ([]string, error) {
	const want = "a command: an array of strings, or a string that is split like a shell splits it"
	var words []string
	switch v.Kind() {
	case '"':
		line, err := text("command", v)
		if err != nil {
			return nil, err
		}
		if words, err = splitWords(line); err != nil {
			return nil, payloadFailure(codeExecPayload, "command", want+"; "+err.Error())
		}
	case '[':
		if json.Unmarshal(v, &words) != nil {
			return nil, payloadFailure(codeExecPayload, "command", want)
		}
	default:
		return nil, payloadFailure(codeExecPayload, "command", want)
	}
	if len(words) == 0 || words[0] == "" {
		return nil, payloadFailure(codeExecPayload, "command", want+"; it names nothing to run")
	}
	return words, nil
}

func entries(v jsontext.Value) ([]string, error) {
	if absent(v) {
		return nil, nil
	}
	var m map[string]string
	if json.Unmarshal(v, &m, jsontext.AllowDuplicateNames(true)) != nil {
		return nil, payloadFailure(codeExecEnv, "env", "an object of strings")
	}
	env := make([]string, 0, len(m))
	for name, value := range m {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			return nil, payloadFailure(codeExecEnv, "env", "an object of names without = and NUL")
		case reserved(name):
			return nil, payloadFailure(codeExecEnv, "env", "free of names that begin with "+reservedPrefix+", which are this program's own")
		case strings.ContainsRune(value, 0):
			return nil, payloadFailure(codeExecEnv, "env", "free of NUL; the value of "+headOf(name, 64)+" has one")
		}
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env, nil
}

func seconds(v jsontext.Value) (time.Duration, error) {
	if absent(v) {
		return 0, nil
	}
	var s float64
	if v.Kind() != '0' || json.Unmarshal(v, &s) != nil || s < 0 || s > math.MaxInt64/float64(2*time.Second) {
		return 0, payloadFailure(codeExecPayload, "timeout", "a number of seconds that is not negative; 0 is none")
	}
	return time.Duration(s * float64(time.Second)), nil
}
