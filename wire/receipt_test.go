package wire

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func intp(n int) *int { return &n }

// Protocol section 2: receipt keys are optional, and a run.finished without
// usable ones is an acknowledgement all the same.
func TestParseReceipt(t *testing.T) {
	for name, tt := range map[string]struct {
		keys string
		want *Receipt
	}{
		"none":              {``, nil},
		"full":              {`,"mechanism":"supervisor","exit_code":3,"signal":"SIGKILL","killed":2,"survivors":1,"duration_ms":5012,"weak":true`, &Receipt{"supervisor", intp(3), "SIGKILL", 2, 1, 5012, true}},
		"least":             {`,"mechanism":"supervisor"`, &Receipt{Mechanism: "supervisor"}},
		"exit_zero":         {`,"mechanism":"m","exit_code":0,"weak":false`, &Receipt{Mechanism: "m", ExitCode: intp(0)}},
		"unknown_keys":      {`,"mechanism":"m","x":[],"Killed":"x"`, &Receipt{Mechanism: "m"}},
		"no_mechanism":      {`,"killed":2`, nil},
		"mechanism_empty":   {`,"mechanism":""`, nil},
		"mechanism_number":  {`,"mechanism":1`, nil},
		"mechanism_long":    {`,"mechanism":"` + strings.Repeat("m", 65) + `"`, nil},
		"mechanism_longest": {`,"mechanism":"` + strings.Repeat("m", 64) + `"`, &Receipt{Mechanism: strings.Repeat("m", 64)}},
		"mechanism_control": {`,"mechanism":"a\u001b[0m"`, nil},
		"signal_number":     {`,"mechanism":"m","signal":9`, nil},
		"signal_empty":      {`,"mechanism":"m","signal":""`, nil},
		"exit_text":         {`,"mechanism":"m","exit_code":"3"`, nil},
		"exit_null":         {`,"mechanism":"m","exit_code":null`, nil},
		"exit_fraction":     {`,"mechanism":"m","exit_code":1.0`, nil},
		"exit_exponent":     {`,"mechanism":"m","exit_code":1e3`, nil},
		"exit_negative":     {`,"mechanism":"m","exit_code":-1`, &Receipt{Mechanism: "m", ExitCode: intp(-1)}},
		"exit_huge":         {`,"mechanism":"m","exit_code":4294967296`, nil},
		"killed_negative":   {`,"mechanism":"m","killed":-1`, nil},
		"survivors_true":    {`,"mechanism":"m","survivors":true`, nil},
		"duration_largest":  {`,"mechanism":"m","duration_ms":9223372036854775807`, &Receipt{Mechanism: "m", DurationMS: math.MaxInt64}},
		"duration_huge":     {`,"mechanism":"m","duration_ms":9223372036854775808`, nil},
		"weak_number":       {`,"mechanism":"m","weak":1`, nil},
		"weak_null":         {`,"mechanism":"m","weak":null`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := NewDecoder().Decode([]byte(`{"type":"run.finished","job_id":"j"` + tt.keys + `}`))
			if f.Type != RunFinished || f.JobID != "j" {
				t.Fatalf("keys %s: the acknowledgement is %v, %s", tt.keys, f.Type, f.Why)
			}
			if diff := cmp.Diff(tt.want, ParseReceipt(f)); diff != "" {
				t.Errorf("keys %s (-want +got):\n%s", tt.keys, diff)
			}
		})
	}
}

// Only a run.finished carries a receipt.
func TestParseReceiptOfOtherFrames(t *testing.T) {
	f := NewDecoder().Decode([]byte(`{"type":"run.event","job_id":"j","event":{"mechanism":"m"}}`))
	if r := ParseReceipt(f); f.Type != RunEvent || r != nil {
		t.Errorf("a %v gave the receipt %+v", f.Type, r)
	}
}
