package persist

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"time"
	"unicode/utf8"

	"codingrelay/lease"
)

const (
	recordExt = ".json"
	markerExt = ".pending"
)

// tooLarge is the problem of a file that is not read to its end.
var tooLarge = fmt.Sprintf("is larger than %d bytes", lease.MaxBytes)

// splitName gives the key and the extension of an entry's file name; ok is false
// for any other name.
func splitName(name string) (key, ext string, ok bool) {
	for _, ext := range []string{recordExt, markerExt} {
		if key, cut := strings.CutSuffix(name, ext); cut && validKey(key) {
			return key, ext, true
		}
	}
	return "", "", false
}

// found is one file of an entry, as far as it could be read.
type found struct {
	name string
	mod  time.Time
	// data is the content, cut after one byte more than [lease.MaxBytes].
	data []byte
	size int64
	// problem is why data cannot be what it should be; a predicate.
	problem string
}

// newEntry makes the fence that a record file and a marker file of one key are;
// either may be nil. It never fails: what cannot be read fences its name
// (protocol section 6).
func newEntry(key string, record, marker *found) lease.Entry {
	e := lease.Entry{Key: key}
	if marker != nil {
		e.ModTime = marker.mod
		e.DaemonID, e.Problem = readMarker(key, marker)
	}
	if record != nil {
		e.ModTime = record.mod
		rec, problem := readRecord(key, record)
		if problem == "" {
			e.Record, e.DaemonID, e.FenceID, e.Problem = &rec, rec.DaemonID, rec.FenceID, ""
			return e
		}
		e.Problem = problem
	}
	e.FenceID = deriveFenceID(record, marker)
	return e
}

// readRecord gives the record, or says why there is none.
func readRecord(key string, f *found) (lease.Record, string) {
	if f.problem != "" {
		return lease.Record{}, "the record " + f.problem
	}
	rec, err := lease.Decode(f.data)
	if err != nil {
		return lease.Record{}, "the record cannot be read: " + oneLine(err.Error())
	}
	if lease.Key(rec.DaemonID) != key {
		// The name is what is fenced; whom the content names is innocent.
		return lease.Record{}, "the record is of another daemon than its file name says"
	}
	return rec, ""
}

// readMarker gives the daemon id that a Python hub's marker names, when that id
// hashes to the file's name, and what the marker means. A torn marker can name
// another daemon, which must not be fenced by it.
func readMarker(key string, f *found) (daemonID, problem string) {
	if f.problem != "" {
		return "", "the marker of a Python hub " + f.problem
	}
	const left = "a Python hub left this marker: a run of the daemon may still be alive"
	if utf8.Valid(f.data) {
		for _, id := range []string{string(f.data), strings.TrimSpace(string(f.data))} {
			if lease.Key(id) == key {
				return id, left
			}
		}
	}
	return "", left + "; its content names no daemon that hashes to its name"
}

// deriveFenceID names the raising of an entry without a fence id of its own. It
// is the same after a restart and another one when the entry was changed.
func deriveFenceID(files ...*found) string {
	h := sha256.New()
	for _, f := range files {
		if f != nil {
			fmt.Fprintf(h, "%s\x00%s\x00%d\x00", f.name, f.problem, f.size)
			h.Write(f.data)
		}
	}
	return "file-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// irregular says what a thing is that is no regular file; "" for one that is.
func irregular(mode fs.FileMode) string {
	switch t := mode.Type(); {
	case t == 0:
		return ""
	case t&fs.ModeDir != 0:
		return "is a directory"
	case t&fs.ModeSymlink != 0:
		return "is a symbolic link, which is never followed"
	default:
		return "is a special file"
	}
}

// oneLine keeps a decoder's words fit for a table and a log.
func oneLine(s string) string {
	const most = 300
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == '\u007f' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
