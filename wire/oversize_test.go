package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// output is an output event with that JSON for its text.
func output(text string) []byte {
	return []byte(`{"type":"output","data":{"stream":"stdout","text":` + text + `}}`)
}

// outputs gives what output events say, and that they are output events.
func outputs(t interface{ Fatalf(string, ...any) }, events [][]byte) []string {
	var said []string
	for _, event := range events {
		var e struct {
			Type string
			Data struct{ Stream, Text string }
		}
		if err := json.Unmarshal(event, &e); err != nil || e.Type != "output" || e.Data.Stream != "stdout" {
			t.Fatalf("no output event: %q, %v", event, err)
		}
		said = append(said, e.Data.Text)
	}
	return said
}

// Protocol section 1, Sizes: an oversize output event is cut into pieces that all
// fit, between characters, and together say what it said.
func TestSplitOutputKeepsEveryCharacter(t *testing.T) {
	d := NewDecoder()
	rapid.Check(t, func(t *rapid.T) {
		// Plain text and rare long escapes, so that borders fall everywhere.
		piece := rapid.OneOf(genText(), rapid.Just(`"`+strings.Repeat("a", 50)+`"`), rapid.Just(`"`+strings.Repeat(`\ud83d\ude80`, 9)+`"`))
		token := `"`
		for _, p := range rapid.SliceOfN(piece, 0, 40).Draw(t, "text") {
			token += p[1 : len(p)-1]
		}
		token += `"`
		event := output(token)
		var want string
		if err := json.Unmarshal([]byte(token), &want); err != nil {
			t.Fatal(err)
		}
		limit := rapid.IntRange(240, 600).Draw(t, "limit")
		job := rapid.StringMatching(`[a-z"é]{0,12}`).Draw(t, "job")
		pieces, ok := SplitOutput(job, event, limit)
		if !ok {
			t.Fatalf("not split: %s", event)
		}
		if got := strings.Join(outputs(t, pieces), ""); got != want {
			t.Fatalf("said %q, want %q", got, want)
		}
		for i, p := range pieces {
			frame := AppendEvent(nil, job, p)
			if f := d.Decode(frame); f.Type != RunEvent || !bytes.Equal(f.Body, p) || len(frame) > limit {
				t.Fatalf("piece %d of %d bytes (limit %d): %v, %s", i, len(frame), limit, f.Type, f.Why)
			}
			if i < len(pieces)-1 && len(frame) <= limit-maxEscape {
				t.Fatalf("piece %d has %d bytes, limit %d: more would have fitted", i, len(frame), limit)
			}
		}
	})
}

// Whatever else the event holds is in every piece.
func TestSplitOutputRepeatsTheRest(t *testing.T) {
	event := []byte(`{ "sequence":7, "data" : {"text":"` + strings.Repeat("x", 300) + `","stream":"stderr","n":1.0} ,"type":"\u006futput"}`)
	pieces, ok := SplitOutput("j", event, 400)
	if !ok || len(pieces) < 2 {
		t.Fatalf("split into %d, %t", len(pieces), ok)
	}
	text := ""
	for _, p := range pieces {
		before, after, _ := strings.Cut(string(p), `"text":"`)
		x, tail, _ := strings.Cut(after, `"`)
		text += x
		if before != `{ "sequence":7, "data" : {` || tail != `,"stream":"stderr","n":1.0} ,"type":"\u006futput"}` {
			t.Errorf("piece %s", p)
		}
	}
	if text != strings.Repeat("x", 300) {
		t.Errorf("texts have %d characters, want 300", len(text))
	}
}

// An event that fits at the last byte is sent as it is; one byte more is not.
func TestSplitOutputAtTheBorder(t *testing.T) {
	event := output(`"` + strings.Repeat("x", 500) + `"`)
	size := len(AppendEvent(nil, "job", event))
	if pieces, ok := SplitOutput("job", event, size); !ok || len(pieces) != 1 || !bytes.Equal(pieces[0], event) {
		t.Errorf("an event that fits became %d pieces, %t", len(pieces), ok)
	}
	if pieces, ok := SplitOutput("job", event, size-1); !ok || len(pieces) != 2 {
		t.Errorf("an event one byte too large became %d pieces, %t", len(pieces), ok)
	}
	other := []byte(`{"type":"x"}`)
	size = len(AppendEvent(nil, "j", other))
	if pieces, ok := SplitOutput("j", other, size); !ok || !bytes.Equal(pieces[0], other) {
		t.Errorf("a fitting event of another type became %q, %t", pieces, ok)
	}
}

// What is no output event, or would be sent over and over, is not split.
func TestSplitOutputRefuses(t *testing.T) {
	long := `"` + strings.Repeat("x", 1000) + `"`
	for name, event := range map[string]string{
		"other_type":    `{"type":"log","data":{"stream":"stdout","text":` + long + `}}`,
		"no_type":       `{"data":{"stream":"stdout","text":` + long + `}}`,
		"type_number":   `{"type":1,"data":{"text":` + long + `}}`,
		"type_twice":    `{"type":"output","type":"output","data":{"text":` + long + `}}`,
		"data_array":    `{"type":"output","data":[` + long + `]}`,
		"data_twice":    `{"type":"output","data":{"text":"a"},"data":{"text":` + long + `}}`,
		"text_object":   `{"type":"output","data":{"text":{"a":` + long + `}}}`,
		"text_twice":    `{"type":"output","data":{"text":"a","text":` + long + `}}`,
		"large_besides": `{"type":"output","data":{"stream":` + long + `,"text":` + long + `}}`,
		"half_besides":  `{"type":"output","data":{"stream":"` + long[1:200] + `","text":` + long + `}}`,
		"broken":        `{"type":"output","data":{"text":` + long + `}`,
		"no_object":     long,
	} {
		t.Run(name, func(t *testing.T) {
			if pieces, ok := SplitOutput("j", []byte(event), 400); ok {
				t.Errorf("split into %q", pieces)
			}
		})
	}
	if pieces, ok := SplitOutput(strings.Repeat("j", 400), output(long), 400); ok {
		t.Errorf("split into %d although the job id alone is too large", len(pieces))
	}
}

// Protocol section 1, Sizes: what becomes of an event on its way to a peer.
func TestEventFramesFit(t *testing.T) {
	d := NewDecoder()
	long := strings.Repeat("x", 1000)
	for name, tt := range map[string]struct {
		event string
		want  []string
	}{
		"fits":  {`{"type":"x"}`, []string{`{"type":"x"}`}},
		"split": {string(output(`"` + long[:300] + `"`)), []string{string(output(`"` + long[:204] + `"`)), string(output(`"` + long[:96] + `"`))}},
		"other": {`{"type":"x","data":"` + long + `"}`, []string{`{"type":"event.dropped","data":{"bytes":1064,"limit":300}}`}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, frame := range EventFrames("j", []byte(tt.event), 300) {
				f := d.Decode(frame)
				if f.Type != RunEvent || f.JobID != "j" || len(frame) > 300 {
					t.Errorf("frame of %d bytes is %v, %s", len(frame), f.Type, f.Why)
				}
				got = append(got, string(f.Body))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A stand-in is an event, and says what protocol section 1 wants it to say.
func ExampleDroppedEvent() {
	fmt.Printf("%s\n", DroppedEvent(3<<20, 1<<20))
	// Output: {"type":"event.dropped","data":{"bytes":3145728,"limit":1048576}}
}
