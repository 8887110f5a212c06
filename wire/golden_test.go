package wire

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Run with -rewrite, read the diff, commit only what you can explain: a changed
// line is a changed wire.
var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// golden compares got with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// sent is one message of each kind that this side says, in the order of protocol
// section 2.
func sent() [][]byte {
	code := 0
	full := &Receipt{Mechanism: "supervisor", ExitCode: &code, Signal: "SIGTERM", Killed: 2, Survivors: 1, DurationMS: 5012, Weak: true}
	ext := Extensions{MaxFrame: OurMaxFrame, CancelTimeout: 10 * time.Second, Receipt: true}
	return [][]byte{
		AppendHello(nil, Hello{DaemonID: "dämon", Token: "t\"\\", Protocol: Protocol, Metadata: []byte(`{"pid":1}`), Extensions: ext}),
		AppendHello(nil, Hello{DaemonID: "d", Protocol: Protocol}),
		AppendPing(nil),
		AppendEvent(nil, "j", []byte(`{ "type":"output" }`)),
		AppendFinished(nil, "j", nil),
		AppendFinished(nil, "j", full),
		AppendFinished(nil, "j", &Receipt{Mechanism: "supervisor"}),
		AppendRequest(nil, "r", "j", []byte(`{"jsonrpc":"2.0","id":1.0,"method":"ping"}`)),
		AppendRequest(nil, "r", "j", nil),
		AppendReady(nil, Ready{DaemonID: "d", Protocol: Protocol}),
		AppendReady(nil, Ready{DaemonID: "d", Protocol: Protocol, Extensions: Extensions{MaxFrame: OurMaxFrame}}),
		AppendStart(nil, "line\nfeed \u2028 <&> \xff", []byte(`{"prompt_text":"x"}`)),
		AppendCancel(nil, "j"),
		AppendResponse(nil, "r", "j", []byte(`[{"jsonrpc":"2.0","id":"1","result":{}}]`)),
		AppendResponse(nil, "r", "j", nil),
		AppendPong(nil),
	}
}

// Protocol section 2: every message this side says, byte for byte, and that the
// other side takes it.
func TestEncodedFramesAreGolden(t *testing.T) {
	var b bytes.Buffer
	d := NewDecoder()
	for _, msg := range sent() {
		fmt.Fprintf(&b, "%s\n", msg)
		if f := d.Decode(msg); f.Type < DaemonHello {
			t.Errorf("what we say is %v by ourselves: %s: %s", f.Type, f.Why, msg)
		}
	}
	golden(t, "sent.golden", b.Bytes())
}

// Protocol sections 1 and 2: what becomes of messages as Python peers write them
// (spaces after separators, \u escapes, NaN) and as nobody should. The file holds
// comment, message, decision; only the decisions are rewritten.
func TestReceivedFramesAreGolden(t *testing.T) {
	const name = "received.golden"
	was, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	d := NewDecoder()
	cases := 0
	for line := range bytes.Lines(was) {
		text := bytes.TrimSuffix(line, []byte("\n"))
		if len(text) > 0 && text[0] == '=' {
			continue
		}
		b.Write(line)
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		cases++
		f := d.Decode(text)
		fmt.Fprintf(&b, "= %v", f.Type)
		for _, part := range []struct{ name, value string }{
			{"job", f.JobID},
			{"request", f.RequestID},
			{"why", f.Why},
		} {
			if part.value != "" {
				fmt.Fprintf(&b, " %s=%q", part.name, part.value)
			}
		}
		if f.Body != nil {
			fmt.Fprintf(&b, " body=%s", f.Body)
		}
		b.WriteByte('\n')
	}
	if cases < 20 {
		t.Errorf("only %d messages in the file", cases)
	}
	golden(t, name, b.Bytes())
}
