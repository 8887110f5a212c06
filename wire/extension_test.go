package wire

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Protocol section 10: unknown names and bad values are ignored, numbers have
// bounds.
func TestParseExtensions(t *testing.T) {
	for name, tt := range map[string]struct {
		list  []string
		want  Extensions
		limit int
	}{
		"v1_peer":          {nil, Extensions{}, 1 << 20},
		"all":              {[]string{"max-frame=8388608", "cancel-timeout=10000", "receipt"}, Extensions{MaxFrame: 8 << 20, CancelTimeout: 10 * time.Second, Receipt: true}, 8 << 20},
		"unknown":          {[]string{"", "=", "teleport", "max-frames=9", "Receipt", " receipt"}, Extensions{}, 1 << 20},
		"receipt_valued":   {[]string{"receipt=1"}, Extensions{}, 1 << 20},
		"without_value":    {[]string{"max-frame", "cancel-timeout"}, Extensions{}, 1 << 20},
		"bad_numbers":      {[]string{"max-frame=", "max-frame=0", "max-frame=-1", "max-frame=+9", "max-frame=1e9", "max-frame=0x99999", "max-frame= 99999", "max-frame=9_9999", "max-frame=99999999999999999999"}, Extensions{}, 1 << 20},
		"below_1_MiB":      {[]string{"max-frame=100000"}, Extensions{MaxFrame: 100_000}, 100_000},
		"below_the_bound":  {[]string{"max-frame=1"}, Extensions{MaxFrame: 64 << 10}, 64 << 10},
		"above_the_bound":  {[]string{"max-frame=9223372036854775807"}, Extensions{MaxFrame: 64 << 20}, 64 << 20},
		"first_good_one":   {[]string{"max-frame=x", "max-frame=200000", "max-frame=300000"}, Extensions{MaxFrame: 200_000}, 200_000},
		"cancel_bounds":    {[]string{"cancel-timeout=0", "cancel-timeout=86400001", "cancel-timeout=9223372036854775807"}, Extensions{}, 1 << 20},
		"cancel_least":     {[]string{"cancel-timeout=1"}, Extensions{CancelTimeout: time.Millisecond}, 1 << 20},
		"cancel_most":      {[]string{"cancel-timeout=86400000"}, Extensions{CancelTimeout: 24 * time.Hour}, 1 << 20},
		"unknown_is_alone": {[]string{"x=y", "receipt"}, Extensions{Receipt: true}, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			got := ParseExtensions(tt.list)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("ParseExtensions(%q) (-want +got):\n%s", tt.list, diff)
			}
			if got.FrameLimit() != tt.limit {
				t.Errorf("ParseExtensions(%q).FrameLimit() = %d, want %d", tt.list, got.FrameLimit(), tt.limit)
			}
		})
	}
}

// A program that sets MaxFrame by hand is held to the same bounds.
func TestFrameLimitIsBounded(t *testing.T) {
	for set, want := range map[int]int{0: 1 << 20, 1: 64 << 10, -1: 64 << 10, 1 << 40: 64 << 20, OurMaxFrame: OurMaxFrame} {
		if got := (Extensions{MaxFrame: set}).FrameLimit(); got != want {
			t.Errorf("MaxFrame %d: limit %d, want %d", set, got, want)
		}
	}
}

// genExtensions makes what a side can announce.
func genExtensions() *rapid.Generator[Extensions] {
	return rapid.Custom(func(t *rapid.T) Extensions {
		var e Extensions
		if rapid.Bool().Draw(t, "has max-frame") {
			e.MaxFrame = rapid.IntRange(minMaxFrame, maxMaxFrame).Draw(t, "max-frame")
		}
		e.CancelTimeout = time.Duration(rapid.Int64Range(0, maxCancelTimeout.Milliseconds()).Draw(t, "ms")) * time.Millisecond
		e.Receipt = rapid.Bool().Draw(t, "receipt")
		return e
	})
}

// Protocol section 10: what one side announces is what the other side reads.
func TestExtensionsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genExtensions().Draw(t, "extensions")
		if got := ParseExtensions(e.Strings()); got != e {
			t.Fatalf("%+v went out as %q and came in as %+v", e, e.Strings(), got)
		}
	})
}
