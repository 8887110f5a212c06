package wire

import "bytes"

// headMax is the longest beginning of a run.event that is kept, in bytes.
const headMax = 256

// head is all of a run.event before its event, as it came last, and the job it
// names. A run's events begin alike, byte for byte, and the same bytes mean the
// same: they need no second look.
type head struct {
	text []byte
	job  string
}

// usual makes the frame of a message of which the scanner is certain and of which
// nothing is refused. All else is for the strict walk, which alone decides.
func (d *Decoder) usual(msg []byte) (Frame, bool) {
	if f, ok := d.again(msg); ok {
		return f, true
	}
	if !d.env.scan(msg) {
		return Frame{}, false
	}
	f, why := d.judge()
	if why != "" {
		return Frame{}, false
	}
	f.Bytes = len(msg)
	if at := d.env.eventAt; f.Type == RunEvent && 0 < at && at <= headMax {
		d.last = head{text: append(d.last.text[:0], msg[:at]...), job: f.JobID}
	}
	d.env.reset()
	d.env.names = keep(d.env.names)
	return f, true
}

// again makes the frame of an event that begins as the last one did and whose
// event is its last member. All else, right or wrong, is looked at in full.
func (d *Decoder) again(msg []byte) (Frame, bool) {
	start := len(d.last.text)
	if start == 0 || len(msg) <= start || msg[start] != '{' || !bytes.Equal(msg[:start], d.last.text) {
		return Frame{}, false
	}
	end := scanValue(msg, start)
	if end < 0 {
		return Frame{}, false
	}
	i := skipSpace(msg, end)
	if i >= len(msg) || msg[i] != '}' || skipSpace(msg, i+1) != len(msg) {
		return Frame{}, false
	}
	return Frame{Type: RunEvent, Bytes: len(msg), JobID: d.last.job, Body: d.own(msg[start:end])}, true
}
