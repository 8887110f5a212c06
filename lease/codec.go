package lease

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// VersionError is returned by [Decode] for a document of another format version.
type VersionError struct {
	// Got is the version the document names; 0 when it names none.
	Got int
}

func (e *VersionError) Error() string {
	if e.Got == 0 {
		return "the record names no format version"
	}
	return fmt.Sprintf("the record has format version %d, this program reads version %d: "+
		"start the program that wrote it, or clear the fence", e.Got, Version)
}

// Encode gives the text form of rec: one line of JSON that ends in a newline,
// the same bytes for the same record, times in UTC. It stamps [Version] itself.
//
// It fails on a record that [Decode] would not take back: without daemon id,
// fence id or runs, with a run that has no id or no incarnation or that is there
// twice, with metadata that is no JSON object, with text that is not UTF-8, or
// above [MaxBytes]. A store must not hold what a restart cannot read (invariant
// I2).
func Encode(rec Record) ([]byte, error) {
	if err := rec.check(); err != nil {
		return nil, err
	}
	data, err := json.Marshal(rec.canonical(), jsontext.PreserveRawStrings(true))
	if err != nil {
		return nil, fmt.Errorf("lease: encode the record: %w", err)
	}
	if len(data) >= MaxBytes {
		return nil, fmt.Errorf("lease: the record has %d bytes, more than the %d a store takes", len(data), MaxBytes)
	}
	return append(data, '\n'), nil
}

// Decode reads what [Encode] wrote, and nothing else: one JSON object, no name
// twice, no unknown name, valid UTF-8, this [Version] (else a [VersionError]).
// The result shares no memory with data.
func Decode(data []byte) (Record, error) {
	if len(data) > MaxBytes {
		return Record{}, fmt.Errorf("lease: %d bytes are more than a record has (%d)", len(data), MaxBytes)
	}
	// The version is looked at alone first: a document of another version may
	// well have names this program does not know, and that is the lesser news.
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return Record{}, fmt.Errorf("lease: %w", err)
	}
	if head.Version != Version {
		return Record{}, &VersionError{Got: head.Version}
	}
	var rec Record
	if err := json.Unmarshal(data, &rec, json.RejectUnknownMembers(true)); err != nil {
		return Record{}, fmt.Errorf("lease: %w", err)
	}
	if err := rec.check(); err != nil {
		return Record{}, err
	}
	return rec.canonical(), nil
}

// check says what is missing in a record that could stand for nothing.
func (r Record) check() error {
	switch {
	case r.DaemonID == "":
		return errors.New("lease: the record names no daemon")
	case r.FenceID == "":
		return errors.New("lease: the record has no fence id")
	case len(r.Runs) == 0:
		return errors.New("lease: the record has no run")
	}
	seen := make(map[string]bool, len(r.Runs))
	for i, run := range r.Runs {
		switch {
		case run.RunID == "":
			return fmt.Errorf("lease: run %d of the record has no id", i)
		case run.Incarnation == "":
			return fmt.Errorf("lease: run %q of the record names no incarnation", run.RunID)
		case seen[run.RunID]:
			return fmt.Errorf("lease: run %q is in the record twice", run.RunID)
		}
		if badYear(run.LeasedAt) || run.UnresolvedAt != nil && badYear(*run.UnresolvedAt) {
			return fmt.Errorf("lease: run %q of the record has a time that cannot be written", run.RunID)
		}
		seen[run.RunID] = true
	}
	if badYear(r.UpdatedAt) {
		return errors.New("lease: the record has a time that cannot be written")
	}
	if len(r.Metadata) > 0 && jsontext.Value(r.Metadata).Kind() != '{' {
		return errors.New("lease: the metadata is no JSON object")
	}
	return nil
}

// badYear tells whether t has no RFC 3339 form in UTC.
func badYear(t time.Time) bool {
	y := t.UTC().Year()
	return y < 0 || y > 9999
}

// canonical is the one form a record has in memory: [Version] set, times in UTC
// without a monotonic part, metadata without white space, nil when empty. It copies what it changes.
func (r Record) canonical() Record {
	r.Version = Version
	r.UpdatedAt = r.UpdatedAt.UTC().Round(0)
	runs := make([]Run, len(r.Runs))
	for i, run := range r.Runs {
		run.LeasedAt = run.LeasedAt.UTC().Round(0)
		if run.UnresolvedAt != nil {
			at := run.UnresolvedAt.UTC().Round(0)
			run.UnresolvedAt = &at
		}
		runs[i] = run
	}
	r.Runs = runs
	if len(r.Metadata) == 0 {
		r.Metadata = nil
	} else {
		meta := jsontext.Value(bytes.Clone(r.Metadata))
		_ = meta.Compact() // what is no JSON stays as it is and fails to encode
		r.Metadata = []byte(meta)
	}
	return r
}
