package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// notes are what the stub wrote into its log.
func notes(t *testing.T, c *child) string {
	t.Helper()
	b, err := os.ReadFile(c.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Protocol section 9: the events of a plain turn, in their order and form.
func TestTurnOfPoliteAgent(t *testing.T) {
	for name, more := range map[string]string{
		"turn.golden":          "",
		"turn_at_once.golden":  `,"streaming":false`,
		"turn_lost_one.golden": `,"stored_session_id":"old"`, // the stub cannot take it up
	} {
		t.Run(strings.TrimSuffix(name, ".golden"), func(t *testing.T) {
			got, err := play(t, t.Context(), startStub(t), request(t, more), Options{}, nil)
			if err != nil {
				t.Error(err)
			}
			golden(t, name, got)
		})
	}
}

// D07: an agent that floods stderr is not held up, and ends in seconds.
func TestStderrFloodDoesNotBlockTurn(t *testing.T) {
	begun := time.Now()
	got, _ := play(t, t.Context(), startStub(t, "--stderr-flood", "4096"), request(t, ""), Options{}, nil)
	golden(t, "turn.golden", got)
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}

// content is what the deltas say, put together, and the last message.
func content(t *testing.T, stream string) (deltas, message string) {
	t.Helper()
	var b strings.Builder
	for l := range strings.Lines(stream) {
		var e struct {
			Type string
			Data struct {
				Chunk   struct{ Content string }
				Message struct{ Content string }
			}
		}
		if strings.HasPrefix(l, "{") {
			if err := json.Unmarshal([]byte(l), &e); err != nil {
				t.Fatalf("%v in %.200s", err, l)
			}
			if len(l) > EventBytesMaxDefault+1 {
				t.Errorf("an event of %d bytes", len(l))
			}
		}
		b.WriteString(e.Data.Chunk.Content)
		if e.Type == "message.completed" {
			message = e.Data.Message.Content
		}
	}
	return b.String(), message
}

// D11: a line of 3 MiB arrives whole in the deltas; the message says that it is cut;
// the turn goes on to its end.
func TestBigLineArrivesWhole(t *testing.T) {
	got, err := play(t, t.Context(), startStub(t, "--big-line", "3"), request(t, ""), Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	deltas, message := content(t, got)
	big := strings.Repeat("0123456789abcdef", 3<<20/16)
	if want := "chunk 0 chunk 1 chunk 2 " + big; deltas != want {
		t.Errorf("the deltas have %d bytes, want %d", len(deltas), len(want))
	}
	if !strings.HasPrefix(deltas, message) || len(message) < EventBytesMaxDefault-64<<10 || !strings.Contains(got, `"truncated":true,"bytes":3145752`) {
		t.Errorf("the message has %d bytes and no mark", len(message))
	}
	if !strings.HasSuffix(got, "completed {\"finish_reason\":\"stop\"}\n") {
		t.Error("the turn did not complete")
	}
}

// D11: a line above the limit is told as dropped, and what follows is handled.
func TestTooLongLineIsMarked(t *testing.T) {
	got, err := play(t, t.Context(), startStub(t, "--big-line", "16", "--bad-utf8"), request(t, ""), Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The line holds the session's id, which holds the stub's process id.
	golden(t, "too_long.golden", regexp.MustCompile(`"bytes":16777\d{3},`).ReplaceAllString(got, `"bytes":16777NNN,`))
}

// D12: banners, escape codes and JSON that is no message are skipped and kept as log.
func TestNoiseIsSkippedAndKept(t *testing.T) {
	var noise [][]byte
	got, _ := play(t, t.Context(), startStub(t, "--noise", "8"), request(t, ""), Options{
		Noise: func(l []byte) { noise = append(noise, bytes.Clone(l)) },
	}, nil)
	golden(t, "turn.golden", got)
	if all := string(bytes.Join(noise, []byte("\n"))); !strings.Contains(all, "\x1b[2K\x1b[33mwarn") || !strings.Contains(all, `"a bare string"`) || !strings.Contains(all, `"not rpc"`) {
		t.Errorf("the log lacks lines: %q", all)
	}
}

// D13: bad bytes become U+FFFD, characters cut apart by reads stay whole.
func TestBytesBecomeValidText(t *testing.T) {
	got, _ := play(t, t.Context(), startStub(t, "--bad-utf8", "--split-utf8"), request(t, ""), Options{}, nil)
	golden(t, "utf8.golden", got)
	if deltas, _ := content(t, got); !strings.HasSuffix(deltas, "bad [\ufffd(\ufffd] endsplit [≤ 你好 🚀] end") {
		t.Errorf("got %q", deltas)
	}
}

// The policy answers a question by the option's kind, at once.
func TestPermissionPolicyPicksByKind(t *testing.T) {
	for decision, want := range map[string]string{
		"allow_once":  `"outcome": "selected", "optionId": "yes"`,
		"reject_once": `"outcome": "selected", "optionId": "no"`,
		"no":          `"outcome": "selected", "optionId": "no"`,
		"first":       `"outcome": "selected", "optionId": "yes"`,
	} {
		c := startStub(t, "--ask-permission")
		if got, err := play(t, t.Context(), c, request(t, `,"permission_decision":"`+decision+`"`), Options{}, nil); err != nil {
			t.Errorf("%s: %s", decision, got)
		}
		if !strings.Contains(notes(t, c), want) {
			t.Errorf("%s: the stub was not told %s:\n%s", decision, want, notes(t, c))
		}
	}
	// What was not allowed is not picked in its place: the stub ends its turn.
	got, err := play(t, t.Context(), startStub(t, "--ask-permission"), request(t, `,"permission_decision":"allow_always"`), Options{}, nil)
	if f := (*Failure)(nil); !errors.As(err, &f) || f.Code != CodeAgentCancelled {
		t.Errorf("allow_always: %s", got)
	}
}

// D14: a question that is open when the run is cancelled is answered cancelled, the
// turn ends, and a late answer does nothing.
func TestCancelSettlesOpenQuestion(t *testing.T) {
	c := startStub(t, "--ask-permission", "--ignore-term")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	asked := make(chan []byte, 1)
	begun := time.Now()
	got, err := play(t, ctx, c, request(t, `,"permission_decision":"ask"`), Options{
		Ask: func(ctx context.Context, params []byte) (string, error) {
			asked <- params
			cancel(errors.New("enough"))
			<-ctx.Done()
			return "yes", nil // too late
		},
	}, nil)
	if err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("ended with %v", err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	if q := string(<-asked); !strings.Contains(q, `"call-1"`) {
		t.Errorf("the question was %s", q)
	}
	log := notes(t, c)
	if !strings.Contains(log, `"outcome": "cancelled"`) || !strings.Contains(log, `"what": "turn end", "stop": "cancelled"`) || strings.Contains(log, "selected") {
		t.Errorf("the stub's log:\n%s", log)
	}
	golden(t, "cancelled.golden", got)
}

// A cancel is asked for politely first: the agent ends its turn and says so.
func TestCancelEndsHeldTurn(t *testing.T) {
	c := startStub(t, "--hold")
	ctx, cancel := context.WithCancelCause(t.Context())
	got, err := play(t, ctx, c, request(t, ""), Options{}, func(event string) {
		if strings.Contains(event, "chunk 2") {
			cancel(errors.New("enough"))
		}
	})
	if err == nil || !strings.Contains(notes(t, c), `"what": "turn end", "stop": "cancelled"`) {
		t.Errorf("ended with %v; the stub's log:\n%s", err, notes(t, c))
	}
	golden(t, "cancelled_turn.golden", got)
}

// config.timeout bounds the turn; the agent is asked to end it.
func TestTimeoutEndsTurn(t *testing.T) {
	c := startStub(t, "--hold")
	got, err := play(t, t.Context(), c, request(t, `,"timeout":1`), Options{}, nil)
	golden(t, "timeout.golden", got)
	if f := (*Failure)(nil); !errors.As(err, &f) || f.Code != CodeTimeout || !strings.Contains(notes(t, c), "turn end") {
		t.Errorf("ended with %v", err)
	}
}

// D15: an unknown request is answered -32601 with its id, an unknown notification
// is ignored, and the turn ends.
func TestUnknownRequestIsRefused(t *testing.T) {
	c := startStub(t, "--unknown-request")
	got, _ := play(t, t.Context(), c, request(t, ""), Options{}, nil)
	golden(t, "turn.golden", got)
	if log := notes(t, c); !strings.Contains(log, `"id": "u-1", "error": {"code": -32601`) {
		t.Errorf("the stub's log:\n%s", log)
	}
}

// D16: an agent that dies in its turn fails the run within 2 s, says how it died and
// what it last wrote to stderr; the next run works.
func TestDeathInTurnIsTold(t *testing.T) {
	for how, want := range map[string]string{"kill": "signal 9", "exit": "exit 7"} {
		var chunk time.Time
		got, err := play(t, t.Context(), startStub(t, "--die", how, "--stderr-flood", "8"), request(t, ""), Options{}, func(event string) {
			if strings.Contains(event, "chunk 0") {
				chunk = time.Now()
			}
		})
		if took := time.Since(chunk); took > 2*time.Second {
			t.Errorf("%s: told %v after the last word", how, took)
		}
		golden(t, "die_"+how+".golden", got)
		f := (*Failure)(nil)
		if !errors.As(err, &f) || f.Exit == nil || f.Exit.String() != want || !strings.Contains(f.StderrTail, "stderr filler") {
			t.Errorf("%s: ended with %+v", how, err)
		}
	}
	got, _ := play(t, t.Context(), startStub(t), request(t, ""), Options{}, nil)
	golden(t, "turn.golden", got)
}
