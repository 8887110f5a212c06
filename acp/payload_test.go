package acp

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// Protocol section 9: every member, and what is used when it is not there.
func TestParsePayload(t *testing.T) {
	least := Request{
		Command: []string{"agent"}, Prompt: "p", Assets: true, MCPTimeout: time.Minute, Timeout: 300 * time.Second,
		StartupTimeout: 30 * time.Second, InitializeTimeout: 30 * time.Second, Permission: "allow_once", Reuse: true, CreateSession: true, Streaming: true,
	}
	with := func(change func(*Request)) Request { r := least; change(&r); return r }
	for payload, want := range map[string]Request{
		`{"prompt_text":"p","config":{"acp_command":"agent"}}`:                                                                    least,
		`{"prompt_text":"p","other":1,"config":{"acp_command":["agent"],"timeout":0,"env":null,"permission_decision":"","x":{}}}`: least,
		`{"prompt_text":"p","config":{"acp_command":"a 'b c' \"d $e\" f\\ g","workspace":"/w","timeout":1.5,"startup_timeout":2,"initialize_timeout":3,"mcp_request_timeout":4,"provider":"claude-code"}}`: with(func(r *Request) {
			r.Command, r.Dir, r.SessionDir, r.Provider = []string{"a", "b c", "d $e", "f g"}, "/w", "/w", "claude-code"
			r.Timeout, r.StartupTimeout, r.InitializeTimeout, r.MCPTimeout = 1500*time.Millisecond, 2*time.Second, 3*time.Second, 4*time.Second
		}),
		`{"prompt_text":"p","config":{"acp_command":"agent","workspace":"/w","cwd":"/c","session_cwd":"/s"}}`: with(func(r *Request) { r.Dir, r.SessionDir = "/c", "/s" }),
		`{"prompt_text":"p","config":{"acp_command":"agent","cwd":"/c"}}`:                                     with(func(r *Request) { r.Dir, r.SessionDir = "/c", "/c" }),
		`{"prompt_text":"p","config":{"acp_command":"agent","env":{"B":"2","A":"x=y","N":8080}}}`:             with(func(r *Request) { r.Env = []string{"A=x=y", "B=2", "N=8080"} }),
		`{"prompt_text":"p","config":{"acp_command":"agent","langbot_assets_enabled":false,"reuse_session":false,"create_session_if_missing":false,"streaming":false,"stored_session_id":" s ","permission_decision":"ask"}}`: with(func(r *Request) {
			r.Assets, r.Reuse, r.CreateSession, r.Streaming, r.StoredSession, r.Permission = false, false, false, false, "s", "ask"
		}),
		"{\"prompt_text\":\"p\",\"config\":{\"acp_command\":\"agent\",\"mcp_servers\":[{\"name\":\"x\",\n \"n\": 1.50}]}}": with(func(r *Request) {
			r.MCPServers = []jsontext.Value{jsontext.Value(`{"name":"x","n":1.50}`)}
		}),
		`{"input":{"contents":[{"type":"text","text":"p"},{"type":"other"}]},"config":{"acp_command":"agent"}}`: least,
		`{"prompt_text":" ","input":{"text":"p","attachments":[]},"config":{"acp_command":"agent"}}`:            least,
	} {
		got, err := ParsePayload([]byte(payload))
		if err != nil {
			t.Errorf("%s: %v", payload, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", payload, diff)
		}
	}
}

// Protocol section 9: what is wrong is named, and its value is not repeated.
func TestParsePayloadNamesWhatIsWrong(t *testing.T) {
	for payload, member := range map[string]string{
		`[]`:                              "payload",
		`{`:                               "payload",
		`{"prompt_text":"p","config":[]}`: "config",
		`{"prompt_text":1,"config":{"acp_command":"a"}}`:                              "prompt_text",
		`{"prompt_text":"p","input":"x","config":{"acp_command":"a"}}`:                "input",
		`{"input":{"attachments":{}},"config":{"acp_command":"a"}}`:                   "input.attachments",
		`{"input":{"contents":[1]},"config":{"acp_command":"a"}}`:                     "input.contents",
		`{"prompt_text":"p","config":{}}`:                                             "config.acp_command",
		`{"prompt_text":"p"}`:                                                         "config.acp_command",
		`{"prompt_text":"p","config":{"acp_command":""}}`:                             "config.acp_command",
		`{"prompt_text":"p","config":{"acp_command":"a 'b"}}`:                         "config.acp_command",
		`{"prompt_text":"p","config":{"acp_command":"a\\"}}`:                          "config.acp_command",
		`{"prompt_text":"p","config":{"acp_command":[1]}}`:                            "config.acp_command",
		`{"prompt_text":"p","config":{"acp_command":"a","workspace":1}}`:              "config.workspace",
		`{"prompt_text":"p","config":{"acp_command":"a","cwd":[]}}`:                   "config.cwd",
		`{"prompt_text":"p","config":{"acp_command":"a","timeout":-1}}`:               "config.timeout",
		`{"prompt_text":"p","config":{"acp_command":"a","timeout":"1"}}`:              "config.timeout",
		`{"prompt_text":"p","config":{"acp_command":"a","timeout":1e300}}`:            "config.timeout",
		`{"prompt_text":"p","config":{"acp_command":"a","streaming":1}}`:              "config.streaming",
		`{"prompt_text":"p","config":{"acp_command":"a","env":[]}}`:                   "config.env",
		`{"prompt_text":"p","config":{"acp_command":"a","env":{"A":["hush"]}}}`:       "config.env",
		`{"prompt_text":"p","config":{"acp_command":"a","env":{"A=B":"hush"}}}`:       "config.env",
		`{"prompt_text":"p","config":{"acp_command":"a","env":{"A":"hush\u0000"}}}`:   "config.env",
		`{"prompt_text":"p","config":{"acp_command":"a","mcp_servers":{}}}`:           "config.mcp_servers",
		`{"prompt_text":"p","config":{"acp_command":"a","mcp_servers":["x"]}}`:        "config.mcp_servers",
		`{"prompt_text":"p","config":{"acp_command":"a","stored_session_id":{}}}`:     "config.stored_session_id",
		`{"prompt_text":"p","config":{"acp_command":"a","permission_decision":true}}`: "config.permission_decision",
	} {
		_, err := ParsePayload([]byte(payload))
		f := (*Failure)(nil)
		if !errors.As(err, &f) || f.Code != CodePayload || f.Member != member || !strings.Contains(f.Text, member) || strings.Contains(f.Text, "hush") {
			t.Errorf("%s: got %+v, want the member %s", payload, err, member)
		}
	}
	_, err := ParsePayload([]byte(`{"prompt_text":" \n","input":{},"config":{"acp_command":"a"}}`))
	if codeOf(err) != CodeEmptyPrompt {
		t.Errorf("an empty prompt: %v", err)
	}
}

// XCU 2.2: quoting, and nothing else of a shell.
func TestSplitWords(t *testing.T) {
	for line, want := range map[string][]string{
		``:                         nil,
		" \t\n":                    nil,
		`npx -y @scope/agent@1`:    {"npx", "-y", "@scope/agent@1"},
		`a ''  ""`:                 {"a", "", ""},
		`'a b'"c d"e\ f`:           {"a bc de f"},
		`"\"\$\` + "`" + `\\\n\x"`: {"\"$`\\\\n\\x"},
		"a\\\nb \"c\\\nd\"":        {"ab", "cd"},
		`$HOME *.go ; x | y # z`:   {"$HOME", "*.go", ";", "x", "|", "y", "#", "z"},
		`'it'\''s'`:                {"it's"},
	} {
		got, err := splitWords(line)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", line, err, diff)
		}
	}
	for _, line := range []string{`'`, `"`, `a "b\"`, `\`, `a\`} {
		if got, err := splitWords(line); err == nil {
			t.Errorf("%q gave %q", line, got)
		}
	}
}

// Protocol section 9 and ACP's promptCapabilities: each attachment goes as content the
// agent takes, else as a link, else as text, and of the rest the agent is told.
func TestAttachmentsFitTheAgent(t *testing.T) {
	const input = `{"prompt_text":"look","config":{"acp_command":"a"},"input":{"attachments":[
		{"artifact_type":"image","name":"a.png","content":"aWNv"},
		{"artifact_type":"image","url":"https://x/b.webp?s=1"},
		{"type":"voice","content":"data:audio/wav;base64,UklG"},
		{"type":"file","name":"n.md","content":"IyBoaQ=="},
		{"type":"file","artifact_id":"blob 1","mime_type":"application/zip","content":"UEsD"},
		{"type":"file","name":"c.pdf","content":"UEsD","url":"https://x/c.pdf"},
		{"type":"file","name":"bad.txt","content":"***"}]}}`
	const contents = `{"input":{"contents":[
		{"type":"text","text":"look"},
		{"type":"image_base64","image_base64":"data:image/gif;base64,R0lG"},
		{"type":"image_url","image_url":{"url":"https://x/d.jpg"}},
		{"type":"file_url","file_url":"https://x/e.bin","file_name":"e.bin"},
		{"type":"file_base64","file_base64":"aGk=","file_name":"f.txt"}]},"config":{"acp_command":"a"}}`
	var b strings.Builder
	for _, payload := range []string{input, contents} {
		req, err := ParsePayload([]byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		for _, can := range []promptCapabilities{{}, {image: true}, {audio: true}, {embedded: true}, {image: true, audio: true, embedded: true}} {
			fmt.Fprintf(&b, "%+v\n", can)
			var blocks []jsontext.Value
			if err := unmarshal(promptBlocks(&req, can), &blocks); err != nil {
				t.Fatal(err)
			}
			for _, block := range blocks {
				fmt.Fprintf(&b, "  %s\n", block)
			}
		}
	}
	golden(t, "blocks.golden", b.String())
}
