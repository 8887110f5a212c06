package lease

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func full() Record {
	at := time.Date(2026, 11, 5, 7, 8, 9, 123456789, time.UTC)
	return Record{
		Version:  Version,
		DaemonID: "dämon-7 \"q\"",
		FenceID:  "0b9e0d5c",
		Reason:   "daemon_disconnected",
		Runs: []Run{
			{RunID: "r1", Incarnation: "i1", LeasedAt: at},
			{RunID: "r2", Incarnation: "i1", LeasedAt: at, Unresolved: true, Reason: "cancel_timeout", UnresolvedAt: &at},
		},
		Metadata:  json.RawMessage(`{"pid":18446744073709551616,"cwd":"\u00e9\/x","x":1.0}`),
		UpdatedAt: at,
	}
}

// Weakness 38: a marker that holds only the id cannot say which run, when or
// why. The text is fixed here, since a later version must still read it.
func TestEncodeWritesJobTimeAndReason(t *testing.T) {
	want := `{"version":1,"daemon_id":"dämon-7 \"q\"","fence_id":"0b9e0d5c","reason":"daemon_disconnected","runs":[` +
		`{"run_id":"r1","incarnation":"i1","leased_at":"2026-11-05T07:08:09.123456789Z"},` +
		`{"run_id":"r2","incarnation":"i1","leased_at":"2026-11-05T07:08:09.123456789Z","unresolved":true,` +
		`"reason":"cancel_timeout","unresolved_at":"2026-11-05T07:08:09.123456789Z"}],` +
		`"metadata":{"pid":18446744073709551616,"cwd":"\u00e9\/x","x":1.0},"updated_at":"2026-11-05T07:08:09.123456789Z"}` + "\n"
	got, err := Encode(full())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("Encode (-want +got):\n%s", diff)
	}
}

// I2: what a store accepted, a restart reads, number and escape tokens of the
// metadata byte for byte (protocol section 1).
func TestDecodeTakesBackWhatEncodeWrote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rec := drawRecord(t)
		data, err := Encode(rec)
		if err != nil {
			t.Fatalf("Encode(%+v): %v", rec, err)
		}
		got, err := Decode(data)
		if err != nil {
			t.Fatalf("Decode(%s): %v", data, err)
		}
		if diff := cmp.Diff(rec, got); diff != "" {
			t.Fatalf("Decode(Encode(rec)) (-want +got):\n%s", diff)
		}
		again, err := Encode(got)
		if err != nil || string(again) != string(data) {
			t.Fatalf("Encode is not canonical: %s then %s (%v)", data, again, err)
		}
	})
}

func drawRecord(t *rapid.T) Record {
	text := rapid.StringN(1, 20, -1)
	moment := rapid.Map(rapid.Int64Range(-62135596800, 253402300799), func(s int64) time.Time {
		return time.Unix(s, s&0xfffffff).UTC()
	})
	rec := Record{
		Version:   Version,
		DaemonID:  text.Draw(t, "daemon"),
		FenceID:   text.Draw(t, "fence"),
		Reason:    rapid.StringN(0, 20, -1).Draw(t, "reason"),
		UpdatedAt: moment.Draw(t, "updated"),
	}
	for _, id := range rapid.SliceOfNDistinct(text, 1, 5, rapid.ID[string]).Draw(t, "runs") {
		run := Run{RunID: id, Incarnation: text.Draw(t, "incarnation"), LeasedAt: moment.Draw(t, "leased")}
		if run.Unresolved = rapid.Bool().Draw(t, "unresolved"); run.Unresolved {
			at := moment.Draw(t, "unresolved at")
			run.UnresolvedAt = &at
			run.Reason = text.Draw(t, "run reason")
		}
		rec.Runs = append(rec.Runs, run)
	}
	rec.Metadata = rapid.SampledFrom([]json.RawMessage{
		nil,
		json.RawMessage(`{}`),
		json.RawMessage(`{"pid":1e400,"big":123456789012345678901234567890,"esc":"\u0041\/"}`),
	}).Draw(t, "metadata")
	return rec
}

// A record is in UTC whatever zone its maker had, so that the same facts are the
// same bytes (invariant I2 is checked by comparing them in simulation).
func TestEncodeIsInUTC(t *testing.T) {
	rec := full()
	want, err := Encode(rec)
	if err != nil {
		t.Fatal(err)
	}
	zone := time.FixedZone("far", 5*3600)
	rec.UpdatedAt = rec.UpdatedAt.In(zone)
	rec.Runs[0].LeasedAt = rec.Runs[0].LeasedAt.In(zone)
	at := rec.Runs[1].UnresolvedAt.In(zone)
	rec.Runs[1].UnresolvedAt = &at
	got, err := Encode(rec)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("Encode in another zone:\n got %s\nwant %s", got, want)
	}
	if rec.Runs[1].UnresolvedAt.Location() != zone {
		t.Error("Encode changed the caller's record")
	}
}

// Protocol section 6: what cannot be read fences by its name, so whatever is
// not exactly a record must be an error, never a guess.
func TestDecodeRefusesAllElse(t *testing.T) {
	good, err := Encode(full())
	if err != nil {
		t.Fatal(err)
	}
	text := string(good)
	swap := func(from, to string) string {
		if !strings.Contains(text, from) {
			t.Fatalf("%s is not in %s", from, text)
		}
		return strings.Replace(text, from, to, 1)
	}
	for name, in := range map[string]string{
		"empty":            "",
		"zero_bytes":       string(make([]byte, len(good))),
		"null":             "null",
		"array":            "[" + text + "]",
		"text":             `"text"`,
		"two":              text + text,
		"trailing":         text + "x",
		"byte_order_mark":  "\ufeff" + text,
		"unknown_name":     swap(`"reason"`, `"raeson"`),
		"other_case":       swap(`"daemon_id"`, `"Daemon_id"`),
		"name_twice":       swap(`"version":1`, `"version":1,"version":1`),
		"bad_utf8":         swap("dämon", "d\xe4mon"),
		"lone_surrogate":   swap("dämon", `\ud800`),
		"no_version":       swap(`"version":1,`, ``),
		"version_text":     swap(`"version":1`, `"version":"1"`),
		"next_version":     swap(`"version":1`, `"version":2`),
		"no_daemon":        swap(`"daemon_id":"dämon-7 \"q\""`, `"daemon_id":""`),
		"no_fence":         swap(`"fence_id":"0b9e0d5c"`, `"fence_id":""`),
		"runs_null":        swap(`"runs":[`, `"runs":null,"reason":[`),
		"run_without_id":   swap(`"run_id":"r1"`, `"run_id":""`),
		"run_unknown_name": swap(`"run_id":"r1"`, `"run_id":"r1","x":1`),
		"run_twice":        swap(`"run_id":"r2"`, `"run_id":"r1"`),
		"no_incarnation":   swap(`"incarnation":"i1"`, `"incarnation":""`),
		"metadata_array":   swap(`"metadata":{`, `"metadata":[1],"reason":{`),
		"metadata_null":    `{"version":1,"daemon_id":"d","fence_id":"f","runs":[{"run_id":"r","incarnation":"i"}],"metadata":null}`,
		"bad_time":         swap("2026-11-05T07", "2026-13-05T07"),
		"too_large":        text + strings.Repeat(" ", MaxBytes),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Decode([]byte(in)); err == nil {
				t.Errorf("Decode(%.80q) = %+v, want an error", in, got)
			}
		})
	}
}

// D29: a record cut anywhere is never taken for a record.
func TestDecodeRefusesEveryPrefix(t *testing.T) {
	good, err := Encode(full())
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(good) - 1 { // without its newline it is still whole
		if got, err := Decode(good[:n]); err == nil {
			t.Fatalf("Decode of the first %d of %d bytes = %+v, want an error", n, len(good), got)
		}
	}
}

// A document of a later version says so, also when it has names of its own.
func TestDecodeNamesTheOtherVersion(t *testing.T) {
	_, err := Decode([]byte(`{"version":7,"news":[1]}`))
	var version *VersionError
	if !errors.As(err, &version) || version.Got != 7 {
		t.Fatalf("Decode of version 7: got %v, want a VersionError of 7", err)
	}
	if !strings.Contains(err.Error(), "version 7") {
		t.Errorf("the error does not name the version: %v", err)
	}
}

// I2: a store must refuse what a restart could not read.
func TestEncodeRefusesWhatDecodeWould(t *testing.T) {
	for name, spoil := range map[string]func(*Record){
		"no_daemon":       func(r *Record) { r.DaemonID = "" },
		"no_fence":        func(r *Record) { r.FenceID = "" },
		"no_runs":         func(r *Record) { r.Runs = nil },
		"run_without_id":  func(r *Record) { r.Runs[0].RunID = "" },
		"no_incarnation":  func(r *Record) { r.Runs[1].Incarnation = "" },
		"run_twice":       func(r *Record) { r.Runs[1].RunID = "r1" },
		"bad_utf8":        func(r *Record) { r.Reason = "\xff" },
		"metadata_broken": func(r *Record) { r.Metadata = json.RawMessage(`{"a":`) },
		"metadata_text":   func(r *Record) { r.Metadata = json.RawMessage(`"a"`) },
		"year_10000":      func(r *Record) { r.UpdatedAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"too_large": func(r *Record) {
			r.Metadata = json.RawMessage(`{"a":"` + strings.Repeat("x", MaxBytes) + `"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			rec := full()
			spoil(&rec)
			if got, err := Encode(rec); err == nil {
				t.Errorf("Encode = %.120q, want an error", got)
			}
		})
	}
}

// The largest record that Encode makes is one that Decode takes.
func TestEncodeAndDecodeAgreeOnTheLimit(t *testing.T) {
	rec := full()
	rec.Metadata = nil
	base, err := Encode(rec)
	if err != nil {
		t.Fatal(err)
	}
	fill := MaxBytes - len(base) - len(`"metadata":{"a":""},`)
	for _, extra := range []int{0, 1} {
		rec.Metadata = json.RawMessage(`{"a":"` + strings.Repeat("x", fill+extra) + `"}`)
		data, err := Encode(rec)
		if extra == 1 {
			if err == nil {
				t.Errorf("Encode made %d bytes, more than %d", len(data), MaxBytes)
			}
			continue
		}
		if err != nil || len(data) != MaxBytes {
			t.Fatalf("Encode at the limit: %d bytes, %v; want %d", len(data), err, MaxBytes)
		}
		if _, err := Decode(data); err != nil {
			t.Errorf("Decode at the limit: %v", err)
		}
	}
}

// The Python hub names its markers by the same hash (protocol section 6); the
// sums were made with sha256sum.
func TestKeyIsTheHashOfTheBytes(t *testing.T) {
	for id, want := range map[string]string{
		"d1":    "8b53639f152c8fc6ef30802fde462ba0be9cf085f7580dc69efd72e002abbb35",
		"dämon": "a7a2f6bd476c88fcafc096596013449c59c5d01fd1499e162e56f90397d5ee77",
	} {
		if got := Key(id); got != want {
			t.Errorf("Key(%q) = %s, want %s", id, got, want)
		}
	}
}

// FuzzDecode: whatever the bytes, no panic, and what is taken is a record that
// is written back the same.
func FuzzDecode(f *testing.F) {
	good, err := Encode(full())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"version":1,"daemon_id":"d","fence_id":"f","runs":[{"run_id":"r","incarnation":"i"}]}`))
	f.Add([]byte(`{"version":1,"daemon_id":"d","fence_id":"f","runs":[{"run_id":"r","incarnation":"i"}],"metadata":{ "a" : 1 }}`))
	f.Add([]byte(`{"version":1,"daemon_id":"d","fence_id":"f","runs":[{"run_id":"r","incarnation":"i"}],` +
		`"updated_at":"0000-01-01T00:00:00+01:00"}`))
	f.Add([]byte(`{"version":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := Decode(data)
		if err != nil {
			return
		}
		back, err := Encode(rec)
		if err != nil {
			t.Fatalf("Decode took %q but Encode refuses it: %v", data, err)
		}
		again, err := Decode(back)
		if err != nil {
			t.Fatalf("Decode(%q): %v", back, err)
		}
		if diff := cmp.Diff(rec, again); diff != "" {
			t.Fatalf("(-first +second):\n%s", diff)
		}
	})
}
