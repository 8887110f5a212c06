package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWordsAreSplitAsAShellSplits(t *testing.T) {
	for line, want := range map[string][]string{
		`a b  c`:                 {"a", "b", "c"},
		" \ta\nb ":               {"a", "b"},
		`'a b' "c d"`:            {"a b", "c d"},
		`a'b'"c"d`:               {"abcd"},
		`'' ""`:                  {"", ""},
		`a\ b \'`:                {"a b", "'"},
		`"a\"b\\c\d\$e"`:         {`a"b\c\d$e`},
		`'a\'`:                   {`a\`},
		`$HOME *.go # x | y`:     {"$HOME", "*.go", "#", "x", "|", "y"},
		"a\\\nb \"c\\\nd\"":      {"ab", "cd"},
		`bash -c 'echo "$1"'`:    {"bash", "-c", `echo "$1"`},
		``:                       nil,
		`grüße '你好' \≤`:          {"grüße", "你好", "≤"},
		`--x="a b" --y='c'\''d'`: {"--x=a b", "--y=c'd"},
	} {
		got, err := splitWords(line)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is %q, %v; want %q", line, got, err, want)
		}
	}
	for _, line := range []string{`a 'b`, `a "b`, `a\`, `"a\"`} {
		if got, err := splitWords(line); err == nil {
			t.Errorf("%q is %q, want an error", line, got)
		}
	}
}

// docs/exec.md: what a payload may say.
func TestPayloadsAreUnderstood(t *testing.T) {
	for payload, want := range map[string]execRequest{
		`{"command":["a","b c"]}`: {command: []string{"a", "b c"}},
		`{"agent":"exec","command":"a 'b c'","prompt_text":"hi","workspace":"w","timeout":1.5,"env":{"B":"2","A":"1"},"other":[1]}`: {
			command: []string{"a", "b c"}, prompt: "hi", workspace: "w", timeout: 1500 * time.Millisecond, env: []string{"A=1", "B=2"},
		},
		`{"prompt_text":"p","config":{"command":["a"],"workspace":"w","env":{"A":"1"},"timeout":2,"acp_command":"x"}}`: {
			command: []string{"a"}, prompt: "p", workspace: "w", timeout: 2 * time.Second, env: []string{"A=1"},
		},
		`{"command":["a"],"config":{"command":["b"],"workspace":"w"}}`:                                               {command: []string{"a"}, workspace: "w"},
		`{"command":["a"],"agent":null,"workspace":null,"env":null,"timeout":null,"prompt_text":null,"config":null}`: {command: []string{"a"}},
		`{"command":["a"],"command":["b"],"env":{"A":"1","A":"2"}}`:                                                  {command: []string{"b"}, env: []string{"A=2"}},
	} {
		got, err := parseExec([]byte(payload))
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(execRequest{})); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", payload, err, diff)
		}
	}
}

// A bad payload is a failure that names the member, and no value of env.
func TestBadPayloadsNameTheMember(t *testing.T) {
	for payload, want := range map[string][2]string{
		`{}`:                                         {codeExecPayload, `"command"`},
		`{"command":[]}`:                             {codeExecPayload, `"command"`},
		`{"command":[""]}`:                           {codeExecPayload, `"command"`},
		`{"command":" "}`:                            {codeExecPayload, `"command"`},
		`{"command":"a 'b"}`:                         {codeExecPayload, "quote"},
		`{"command":7}`:                              {codeExecPayload, `"command"`},
		`{"command":["a",7]}`:                        {codeExecPayload, `"command"`},
		`{"command":["a"],"agent":"acp"}`:            {codeExecAgent, `"acp"`},
		`{"command":["a"],"workspace":7}`:            {codeExecPayload, `"workspace"`},
		`{"command":["a"],"prompt_text":{}}`:         {codeExecPayload, `"prompt_text"`},
		`{"command":["a"],"timeout":-1}`:             {codeExecPayload, `"timeout"`},
		`{"command":["a"],"timeout":"5"}`:            {codeExecPayload, `"timeout"`},
		`{"command":["a"],"timeout":1e300}`:          {codeExecPayload, `"timeout"`},
		`{"command":["a"],"env":[]}`:                 {codeExecEnv, `"env"`},
		`{"command":["a"],"env":{"A":7}}`:            {codeExecEnv, `"env"`},
		`{"command":["a"],"env":{"":"s3cret"}}`:      {codeExecEnv, `"env"`},
		`{"command":["a"],"env":{"A=B":"s3cr"}}`:     {codeExecEnv, `"env"`},
		`{"command":["a"],"env":{"RELAY_X":"s"}}`:    {codeExecEnv, "RELAY_"},
		`{"command":["a"],"env":{"relay_x":"s"}}`:    {codeExecEnv, "RELAY_"},
		`{"command":["a"],"env":{"A":"s3cr\u0000"}}`: {codeExecEnv, "A has one"},
		`{"command":["a"],"config":[]}`:              {codeExecPayload, `"config"`},
	} {
		_, err := parseExec([]byte(payload))
		var f *Failure
		if !errors.As(err, &f) || f.Code != want[0] || !strings.Contains(f.Text, want[1]) || strings.Contains(f.Text, "s3cr") {
			t.Errorf("%s: %v, want %s and %s", payload, err, want[0], want[1])
		}
	}
}

// D08, D21: only what is allowed comes through; loopback is never proxied.
func TestEnvironmentIsScrubbed(t *testing.T) {
	own := []string{
		"HOME=/h", "PATH=/bin", "LC_TIME=C", "LANG=C", "RELAY_TOKEN=x", "ANTHROPIC_API_KEY=k", "AWS_SECRET=s", "MY_A=1", "MY_B=2",
		"HTTP_PROXY=http://127.0.0.1:9", "NO_PROXY=corp.example", "no_proxy= other.example ,localhost",
	}
	got := runEnviron(own, []string{"ANTHROPIC_API_KEY", "MY_*"}, []string{"PATH=/opt", "X=1", "X=2"})
	want := []string{
		"ANTHROPIC_API_KEY=k", "HOME=/h", "HTTP_PROXY=http://127.0.0.1:9", "LANG=C", "LC_TIME=C", "MY_A=1", "MY_B=2",
		"NO_PROXY=corp.example,other.example,localhost,127.0.0.1,::1", "PATH=/opt", "X=2",
		"no_proxy=corp.example,other.example,localhost,127.0.0.1,::1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	kept, out := guardEnviron(
		[]string{"A=1", "RELAY_X=1", "relay_y=1", "B=secret-token", "C=Bearer secret-token", "D=secre", "E=tok", "F=token"},
		[]string{"secret-token", "tok"},
	)
	if !slices.Equal(kept, []string{"A=1", "D=secre", "F=token"}) || !slices.Equal(out, []string{"RELAY_X", "relay_y", "B", "C", "E"}) {
		t.Errorf("kept %q, took out %q", kept, out)
	}
}

// The workspace must lie in a root after all links are followed; the text says
// what is wrong with it (D09).
func TestWorkspaceStaysInsideItsRoots(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"root/in/deep", "root2", "outside", "rootless"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"root/out": "../outside", "root/back": "in", "root/dangling": "../nowhere", "alias": "root"} {
		if err := os.Symlink(to, filepath.Join(base, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(base, "root/file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	roots, err := resolveRoots([]string{filepath.Join(base, "alias"), filepath.Join(base, "root2")})
	if err != nil {
		t.Fatal(err)
	}
	for asked, want := range map[string]string{
		"": "root", ".": "root", "in": "root/in", "in/deep": "root/in/deep", "back": "root/in",
		base + "/root2": "root2", base + "/alias/in": "root/in", "../root2": "root2", "in/../in": "root/in",
	} {
		got, err := resolveWorkspace(roots, asked)
		if err != nil || got != filepath.Join(base, want) {
			t.Errorf("workspace %q is %q, %v; want %s", asked, got, err, want)
		}
	}
	for asked, want := range map[string]string{
		"out": "outside the folders", "..": "outside the folders", "/": "outside the folders", base + "/outside/none": "outside the folders",
		base + "/rootless": "outside the folders", "out/none": "outside the folders", "dangling": "does not exist",
		"none": "does not exist", "in/none": "does not exist", "file": "is not a folder", "file/x": "cannot be entered", "a\x00b": "NUL",
	} {
		got, err := resolveWorkspace(roots, asked)
		var f *Failure
		if !errors.As(err, &f) || f.Code != codeExecWorkspace || !strings.Contains(f.Text, want) {
			t.Errorf("workspace %q is %q, %v; want %q", asked, got, err, want)
		}
	}
	if _, err := resolveRoots([]string{base + "/none"}); err == nil {
		t.Error("a root that does not exist was taken")
	}
}
