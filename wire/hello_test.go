package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// hello is a daemon.hello with that JSON for its daemon_id and more members.
func hello(id, more string) string {
	return `{"type":"daemon.hello","daemon_id":` + id + more + `}`
}

var goodHellos = map[string]struct {
	msg  string
	want Hello
}{
	"full": {
		hello(`"d"`, `,"token":"t","protocol":"coding-relay-v1","metadata":{"pid":1, "x":NaN},"extensions":["max-frame=8388608","receipt"]`),
		Hello{DaemonID: "d", Token: "t", Protocol: Protocol, Metadata: []byte(`{"pid":1, "x":null}`), Extensions: Extensions{MaxFrame: OurMaxFrame, Receipt: true}},
	},
	"bare":                 {hello(`"d"`, ""), Hello{DaemonID: "d"}},
	"trimmed":              {hello(`" \t\nd d\u00a0\r"`, ""), Hello{DaemonID: "d d"}},
	"number":               {hello(`123`, ""), Hello{DaemonID: "123"}},
	"number_as_written":    {hello(`-1.50e3`, ""), Hello{DaemonID: "-1.50e3"}},
	"zero":                 {hello(`0`, ""), Hello{DaemonID: "0"}},
	"escapes":              {hello(`"d\u00e4mon"`, ""), Hello{DaemonID: "dämon"}},
	"longest":              {hello(`"`+strings.Repeat("🚀", 128)+`"`, ""), Hello{DaemonID: strings.Repeat("🚀", 128)}},
	"direction_override":   {hello(`"\u202ed"`, ""), Hello{DaemonID: "\u202ed"}},
	"token_number":         {hello(`"d"`, `,"token":5`), Hello{DaemonID: "d"}},
	"token_null":           {hello(`"d"`, `,"token":null`), Hello{DaemonID: "d"}},
	"token_lone_surrogate": {hello(`"d"`, `,"token":"\ud800"`), Hello{DaemonID: "d", Token: "\uFFFD"}},
	"protocol_number":      {hello(`"d"`, `,"protocol":1`), Hello{DaemonID: "d"}},
	"metadata_text":        {hello(`"d"`, `,"metadata":"x"`), Hello{DaemonID: "d"}},
	"metadata_null":        {hello(`"d"`, `,"metadata":null`), Hello{DaemonID: "d"}},
	"metadata_bad_text":    {hello(`"d"`, `,"metadata":{"a":"\udfff"}`), Hello{DaemonID: "d", Metadata: []byte(`{"a":"` + "\uFFFD" + `"}`)}},
	"metadata_at_16_KiB":   {hello(`"d"`, `,"metadata":{"a":"`+strings.Repeat("x", MaxMetadata-8)+`"}`), Hello{DaemonID: "d", Metadata: []byte(`{"a":"` + strings.Repeat("x", MaxMetadata-8) + `"}`)}},
	"metadata_too_large":   {hello(`"d"`, `,"metadata":{"a":"`+strings.Repeat("x", MaxMetadata-7)+`"}`), Hello{DaemonID: "d"}},
	"extensions_text":      {hello(`"d"`, `,"extensions":"receipt"`), Hello{DaemonID: "d"}},
	"extensions_mixed":     {hello(`"d"`, `,"extensions":[1,["receipt"],null,"receipt"]`), Hello{DaemonID: "d", Extensions: Extensions{Receipt: true}}},
	"hello_key_in_event":   {hello(`"d"`, `,"event":{"daemon_id":"e"},"job_id":7`), Hello{DaemonID: "d"}},
	"hello_at_64_KiB":      {hello(`"d"`, `,"x":"`+strings.Repeat("x", HelloMaxFrame-len(hello(`"d"`, `,"x":""`)))+`"`), Hello{DaemonID: "d"}},
}

// Protocol section 3.2 (a), (b): what a hello may be.
func TestParseHelloTakes(t *testing.T) {
	for name, tt := range goodHellos {
		t.Run(name, func(t *testing.T) {
			got, err := ParseHello(NewDecoder().Decode([]byte(tt.msg)))
			if err != nil {
				t.Fatalf("ParseHello(%.100s): %v", tt.msg, err)
			}
			// By fields: a Hello prints without its token.
			if diff := cmp.Diff(tt.want, got); diff != "" || got.Token != tt.want.Token {
				t.Errorf("ParseHello(%.100s) (-want +got):\n%s token %q", tt.msg, diff, got.Token)
			}
		})
	}
}

var badHellos = map[string]struct{ msg, why string }{
	"no_json":           {`hello`, "first frame is no daemon.hello: not JSON near byte 0"},
	"cut":               {`{"type":"daemon.hello","daemon_id":"d"`, "first frame is no daemon.hello: cut short: the JSON does not end"},
	"array":             {`[]`, "first frame is no daemon.hello: no JSON object"},
	"other_type":        {`{"type":"daemon.ping"}`, "first frame is daemon.ping: send daemon.hello first"},
	"unknown_type":      {`{"type":"hello"}`, `first frame is no daemon.hello: unknown type "hello"`},
	"no_type":           {`{"daemon_id":"d"}`, "first frame is no daemon.hello: type missing or no string"},
	"id_twice":          {hello(`"d"`, `,"daemon_id":"e"`), "first frame is no daemon.hello: a name repeated at top level"},
	"too_large":         {hello(`"d"`, `,"x":"`+strings.Repeat("x", HelloMaxFrame)+`"`), "first frame above 65536 bytes: send a daemon.hello with less metadata"},
	"no_id":             {`{"type":"daemon.hello"}`, "daemon_id missing or no string: send a name of 1 to 128 characters"},
	"id_null":           {hello(`null`, ""), "daemon_id missing or no string: send a name of 1 to 128 characters"},
	"id_true":           {hello(`true`, ""), "daemon_id missing or no string: send a name of 1 to 128 characters"},
	"id_list":           {hello(`["d"]`, ""), "daemon_id missing or no string: send a name of 1 to 128 characters"},
	"id_empty":          {hello(`""`, ""), "daemon_id is empty: send a name of 1 to 128 characters"},
	"id_white_space":    {hello(`" \n\u2003"`, ""), "daemon_id is empty: send a name of 1 to 128 characters"},
	"id_too_long":       {hello(`"`+strings.Repeat("é", 129)+`"`, ""), "daemon_id has 129 characters: at most 128 are allowed"},
	"id_number_long":    {hello(strings.Repeat("1", 129), ""), "daemon_id has 129 characters: at most 128 are allowed"},
	"id_newline":        {hello(`"a\nb"`, ""), "daemon_id holds a control character: choose a name without"},
	"id_nul":            {hello(`"\u0000"`, ""), "daemon_id holds a control character: choose a name without"},
	"id_delete":         {hello(`"a\u007f"`, ""), "daemon_id holds a control character: choose a name without"},
	"id_c1":             {hello(`"a\u009bb"`, ""), "daemon_id holds a control character: choose a name without"},
	"id_lone_surrogate": {hello(`"a\udc00"`, ""), "first frame is no daemon.hello: daemon_id holds bad UTF-8 or a lone surrogate"},
	"id_bad_utf8":       {hello("\"a\xff\"", ""), "first frame is no daemon.hello: daemon_id holds bad UTF-8 or a lone surrogate"},
}

// Protocol section 3.2 (a), (b): the first frame is judged, never ignored, with a
// reason that fits a close frame.
func TestParseHelloRefuses(t *testing.T) {
	for name, tt := range badHellos {
		t.Run(name, func(t *testing.T) {
			h, err := ParseHello(NewDecoder().Decode([]byte(tt.msg)))
			var refused *RefusedError
			if !errors.As(err, &refused) || refused.Reason != tt.why {
				t.Fatalf("ParseHello(%.100s) = %v, %v; want refused: %s", tt.msg, h, err, tt.why)
			}
			if CutReason(refused.Reason) != refused.Reason {
				t.Errorf("reason has %d bytes, more than a close frame takes", len(refused.Reason))
			}
		})
	}
	if _, err := ParseHello(NewDecoder().Oversize(nil, 9<<20)); err == nil {
		t.Error("an oversize first frame was taken")
	}
}

// House rule: secrets never reach logs or error texts.
func TestHelloPrintsWithoutToken(t *testing.T) {
	h := Hello{DaemonID: "d", Token: "secret"}
	list, err := json.Marshal([]any{h, &h})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{fmt.Sprint(h), fmt.Sprintf("%+v %#v %s", h, h, &h), fmt.Sprintf("%v", []Hello{h}), string(list)} {
		if strings.Contains(s, "secret") || !strings.Contains(s, "d") {
			t.Errorf("a hello printed as %s", s)
		}
	}
	_, err = ParseHello(NewDecoder().Decode([]byte(hello(`"d"`, `,"token":"secret",`))))
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("refused with %v", err)
	}
}

// Protocol section 3.2 (b), where an id comes from elsewhere than a hello.
func TestValidDaemonIDRefusesBadUTF8(t *testing.T) {
	for id, want := range map[string]string{"a\xff": "", "\xed\xa0\x80": "", "\uFFFD": "\uFFFD", " a ": "a"} {
		if got, err := ValidDaemonID(id); got != want || (err == nil) != (want != "") {
			t.Errorf("ValidDaemonID(%q) = %q, %v; want %q", id, got, err, want)
		}
	}
}

// Protocol section 3.2 (c): an empty token equals none (case D30).
func TestTokenEqualNeverTakesEmpty(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"", "", false},
		{"a", "", false},
		{"", "a", false},
		{"a", "a", true},
		{"a", "b", false},
		{"a", "a ", false},
		{"A", "a", false},
		{strings.Repeat("a", 99), strings.Repeat("a", 99), true},
		{strings.Repeat("a", 99), strings.Repeat("a", 98), false},
	} {
		if got := TokenEqual(tt.a, tt.b); got != tt.want {
			t.Errorf("TokenEqual(%q, %q) = %t, want %t", tt.a, tt.b, got, tt.want)
		}
	}
}

// Protocol section 8: a daemon expects daemon.ready with the same protocol.
func TestParseReady(t *testing.T) {
	for name, tt := range map[string]struct {
		msg  string
		want Ready
		why  string
	}{
		"full": {
			`{"type":"daemon.ready","daemon_id":"d","protocol":"coding-relay-v1","extensions":["cancel-timeout=10000"]}`,
			Ready{DaemonID: "d", Protocol: Protocol, Extensions: Extensions{CancelTimeout: 10 * time.Second}},
			"",
		},
		"id_number":        {`{"type":"daemon.ready","daemon_id":7,"protocol":"coding-relay-v1"}`, Ready{DaemonID: "7", Protocol: Protocol}, ""},
		"id_missing":       {`{"type":"daemon.ready","protocol":"coding-relay-v1","extensions":{}}`, Ready{Protocol: Protocol}, ""},
		"other_protocol":   {`{"type":"daemon.ready","daemon_id":"d","protocol":"coding-relay-v2"}`, Ready{}, `hub speaks "coding-relay-v2", this daemon speaks coding-relay-v1: upgrade the older of the two`},
		"protocol_missing": {`{"type":"daemon.ready","daemon_id":"d"}`, Ready{}, `hub speaks "", this daemon speaks coding-relay-v1: upgrade the older of the two`},
		"other_type":       {`{"type":"daemon.pong"}`, Ready{}, "hub's first frame is daemon.pong, not daemon.ready"},
		"no_json":          {`HTTP`, Ready{}, "hub's first frame is no daemon.ready: not JSON near byte 0"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseReady(NewDecoder().Decode([]byte(tt.msg)))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (err == nil) != (tt.why == "") || err != nil && err.Error() != tt.why {
				t.Errorf("got error %v, want %q", err, tt.why)
			}
		})
	}
}
