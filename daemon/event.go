package daemon

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// mechanismNone is the mechanism in the receipt of a run that started no process
// under a supervisor.
const mechanismNone = "none"

// Failure is why a run failed: the data of its run.failed. A [Runner] returns one
// as its error to say more than a text.
type Failure struct {
	// Text is for people; at most 4 KiB of it are sent.
	Text string
	// Code is for programs, such as "exec.exit".
	Code string
	// ExitCode is the process's exit code, nil when there is none; Signal the name
	// of the signal that ended it, empty for none.
	ExitCode *int
	Signal   string
	// StderrTail is the end of what it wrote to stderr.
	StderrTail string
	// Retryable says that the same run may well succeed later.
	Retryable bool
}

// Error gives the text.
func (f *Failure) Error() string { return f.Text }

// codeFailed is the code of a failure that says none.
const codeFailed = "daemon.run_failed"

// textMax bounds what is said in an event, in bytes.
const textMax = 4 << 10

// failedEvent makes a run.failed (protocol sections 8 and 9).
func failedEvent(f Failure) []byte {
	if f.Code == "" {
		f.Code = codeFailed
	}
	b := append([]byte(nil), `{"type":"run.failed","data":{"error":`...)
	b = appendText(b, headOf(f.Text, textMax))
	b = appendText(append(b, `,"code":`...), f.Code)
	if f.ExitCode != nil {
		b = strconv.AppendInt(append(b, `,"exit_code":`...), int64(*f.ExitCode), 10)
	}
	if f.Signal != "" {
		b = appendText(append(b, `,"signal":`...), f.Signal)
	}
	if f.StderrTail != "" {
		b = appendText(append(b, `,"stderr_tail":`...), f.StderrTail)
	}
	b = strconv.AppendBool(append(b, `,"retryable":`...), f.Retryable)
	return append(b, "}}"...)
}

// cancelledEvent is the event of protocol section 8, word for word.
func cancelledEvent() []byte {
	return []byte(`{"type":"run.failed","data":{"error":"daemon run cancelled","code":"agent_runtime.daemon_cancelled"}}`)
}

// stoppedEvent is the terminal event of a run that was ended for a cause.
func stoppedEvent(cause StopCause) []byte {
	if cause == StopCancelled {
		return cancelledEvent()
	}
	return failedEvent(Failure{Text: "the run was ended because this daemon is stopping", Code: codeStopping})
}

// terminalEvent is the last event of a run that ended by itself.
func terminalEvent(m Returned) []byte {
	if m.Failed {
		return failedEvent(m.Failure)
	}
	data := m.Completed
	if data == nil {
		data = []byte(`{"finish_reason":"stop"}`)
	}
	b := append([]byte(nil), `{"type":"run.completed","data":`...)
	return append(append(b, data...), '}')
}

// outputEvent makes the event of a piece of output. partial says that the line
// goes on in the stream's next event.
func outputEvent(stream string, text []byte, partial bool) []byte {
	const frame = len(`{"type":"output","data":{"stream":"stdout","text":"","partial":true}}`)
	b := append(make([]byte, 0, len(text)+frame+16), `{"type":"output","data":{"stream":`...)
	b = appendText(b, stream)
	b, _ = jsontext.AppendQuote(append(b, `,"text":`...), text) // bad UTF-8 becomes U+FFFD
	if partial {
		b = append(b, `,"partial":true`...)
	}
	return append(b, "}}"...)
}

func appendText(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // bad UTF-8 becomes U+FFFD
	return dst
}

// headOf and tailOf give at most limit bytes of a text, cut between characters.
func headOf(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !startsRune(s[limit]) {
		limit--
	}
	return s[:limit]
}

func tailOf(b []byte, limit int) []byte {
	if len(b) <= limit {
		return b
	}
	b = b[len(b)-limit:]
	// At most three bytes of a character can be left over; what is no UTF-8 at all
	// is kept as it is.
	for i := 0; i < 3 && i < len(b); i++ {
		if startsRune(b[i]) {
			return b[i:]
		}
	}
	return b
}

func startsRune(c byte) bool { return c&0xc0 != 0x80 }
