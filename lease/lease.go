// Package lease is what a hub durably knows of one daemon id: the runs that may
// still be alive on that machine. It is the vocabulary that the fence actor and
// the stores share, and the strict text form of a record; it reads no file and
// knows no actor.
//
// A record exists from before run.start is written until every run in it was
// acknowledged (invariant I2). A hub that starts reads every record it finds as
// a fence (invariant I7), so the record of an open run already is the fence of a
// crashed hub.
package lease

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// Version is the format version written into each record.
const Version = 1

// MaxBytes bounds the text form of one record. [Encode] makes nothing larger and
// a store reads nothing larger: what would be longer fences as unreadable.
const MaxBytes = 1 << 20

// Key is the name a daemon id has in a store: the lower-case hex SHA-256 of its
// bytes. Ids are compared by it wherever a record may be unreadable.
func Key(daemonID string) string {
	sum := sha256.Sum256([]byte(daemonID))
	return hex.EncodeToString(sum[:])
}

// Record is one daemon id's document. It never holds a payload or a token. What
// makes one valid is said at [Encode].
type Record struct {
	Version  int    `json:"version"`
	DaemonID string `json:"daemon_id"`
	// FenceID names this raising; it is made with the first lease and a restart
	// shows the same one (protocol section 6).
	FenceID string `json:"fence_id"`
	// Reason says why the id is fenced; empty while it is only leased.
	Reason string `json:"reason,omitzero"`
	// Runs are the open and the unresolved ones, in the order they were leased.
	Runs []Run `json:"runs"`
	// Metadata is the hello's metadata object, kept as evidence.
	Metadata json.RawMessage `json:"metadata,omitzero"`
	// UpdatedAt is when the record was asked to be written, UTC.
	UpdatedAt time.Time `json:"updated_at"`
}

// Run is one lease: a run that was, or may have been, started on the machine.
type Run struct {
	RunID string `json:"run_id"`
	// Incarnation is the connection the run was dispatched on (invariant I3).
	Incarnation string    `json:"incarnation"`
	LeasedAt    time.Time `json:"leased_at"`
	// Unresolved is set when the run ended without an acknowledgement.
	Unresolved   bool       `json:"unresolved,omitzero"`
	Reason       string     `json:"reason,omitzero"`
	UnresolvedAt *time.Time `json:"unresolved_at,omitzero"`
}

// Entry is one thing found in a store at start: a fence, whatever it is.
type Entry struct {
	// Key is the hash the entry is named by; it is what is fenced.
	Key string
	// Record is nil when the entry could not be read or is a foreign marker.
	Record *Record
	// DaemonID is the id when it is known: from the record, or from a Python
	// hub's .pending file whose content hashes to its name.
	DaemonID string
	// FenceID is the record's, or derived from the hash of the entry's bytes.
	FenceID string
	// Problem says why Record is nil; empty otherwise.
	Problem string
	// ModTime is when the entry was last written, as far as the store knows.
	ModTime time.Time
}
