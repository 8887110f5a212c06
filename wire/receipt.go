package wire

import (
	"math"
	"strconv"
	"strings"
	"unicode"
)

// maxReceiptText is the longest mechanism or signal name, in bytes: a hub keeps
// receipts for as long as it keeps outcomes.
const maxReceiptText = 64

// Receipt is what the daemon says of a run's end when the receipt extension is
// in use: how it made sure that everything the run started is gone. Its keys lie
// in run.finished itself, where a v1 peer ignores them. Mechanism and Signal are
// printable names of at most 64 bytes, the counts are not negative: a receipt
// beyond that is not understood by [ParseReceipt].
type Receipt struct {
	// Mechanism names what ended and watched the tree; key mechanism. It is what
	// makes a receipt: never empty.
	Mechanism string
	// ExitCode is the leader's, nil when it was killed by a signal or is not
	// known; key exit_code.
	ExitCode *int
	// Signal is the name of the signal that ended the leader, empty for none; key
	// signal.
	Signal string
	// Killed is how many processes had to be killed; key killed.
	Killed int
	// Survivors is how many were still there when the mechanism gave up; key
	// survivors.
	Survivors int
	// DurationMS is how long the clean-up took, in milliseconds; key duration_ms.
	DurationMS int64
	// Weak says that the mechanism can miss processes that hide; key weak.
	Weak bool
}

// ParseReceipt reads the receipt of a run.finished; nil when there is none or one
// of its keys is malformed: of the wrong kind, a number that is no plain integer
// in range, a name that is too long or not printable. A frame without a usable
// receipt is still the acknowledgement.
func ParseReceipt(f Frame) *Receipt {
	if f.Type != RunFinished {
		return nil
	}
	var r Receipt
	good := true
	err := members(f.Body, func(name, value []byte, _ int) {
		good = r.set(string(name), value) && good
	})
	if err != nil || !good || r.Mechanism == "" {
		return nil
	}
	return &r
}

// set takes one key of a run.finished; false says that it is malformed. Keys
// that are none of a receipt's are none of its business.
func (r *Receipt) set(name string, value []byte) (ok bool) {
	var n int64
	switch name {
	case "mechanism":
		r.Mechanism, ok = receiptText(value)
	case "signal":
		r.Signal, ok = receiptText(value)
	case "exit_code":
		if n, ok = receiptNumber(value, math.MinInt32, math.MaxInt32); ok {
			code := int(n)
			r.ExitCode = &code
		}
	case "killed":
		n, ok = receiptNumber(value, 0, math.MaxInt32)
		r.Killed = int(n)
	case "survivors":
		n, ok = receiptNumber(value, 0, math.MaxInt32)
		r.Survivors = int(n)
	case "duration_ms":
		r.DurationMS, ok = receiptNumber(value, 0, math.MaxInt64)
	case "weak":
		r.Weak = string(value) == "true"
		ok = r.Weak || string(value) == "false"
	default:
		ok = true
	}
	return ok
}

func receiptText(value []byte) (string, bool) {
	s, ok := unquote(value)
	ok = ok && s != "" && len(s) <= maxReceiptText
	return s, ok && !strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) })
}

func receiptNumber(value []byte, least, most int64) (int64, bool) {
	n, err := strconv.ParseInt(string(value), 10, 64)
	return n, err == nil && least <= n && n <= most
}

// appendReceipt appends the receipt's members, each after a comma.
func appendReceipt(dst []byte, r *Receipt) []byte {
	dst = appendText(append(dst, `,"mechanism":`...), r.Mechanism)
	if r.ExitCode != nil {
		dst = strconv.AppendInt(append(dst, `,"exit_code":`...), int64(*r.ExitCode), 10)
	}
	if r.Signal != "" {
		dst = appendText(append(dst, `,"signal":`...), r.Signal)
	}
	dst = strconv.AppendInt(append(dst, `,"killed":`...), int64(r.Killed), 10)
	dst = strconv.AppendInt(append(dst, `,"survivors":`...), int64(r.Survivors), 10)
	dst = strconv.AppendInt(append(dst, `,"duration_ms":`...), r.DurationMS, 10)
	if r.Weak {
		dst = append(dst, `,"weak":true`...)
	}
	return dst
}
