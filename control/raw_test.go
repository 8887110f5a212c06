package control_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"codingrelay/actors"
	"codingrelay/control"
)

// raw is a stream read by hand, from a socket whose end the test decides.
type raw struct {
	t    *testing.T
	conn net.Conn
	body *bufio.Reader
	pad  int // how its events are padded
}

// message is a server-sent event as it stands on the wire.
type message struct{ id, name, data string }

// stream sends a request for a stream and reads the answer's header.
func (h *house) stream(method, path, body string, headers ...string) *raw {
	h.t.Helper()
	conn := h.dial()
	if h.small { // a reader that stops is then soon one that takes nothing
		if err := conn.(*net.TCPConn).SetReadBuffer(16 << 10); err != nil {
			h.t.Fatal(err)
		}
	}
	if err := conn.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		h.t.Fatal(err)
	}
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n", method, path, apiToken)
	for _, line := range headers {
		head += line + "\r\n"
	}
	if body != "" {
		head += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	write(h.t, conn, head+"\r\n"+body)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		h.t.Fatalf("%s %s: %v", method, path, err)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, h.base+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	description.check(h.t, req, resp.StatusCode, resp.Header.Get("Content-Type"), nil)
	return &raw{t: h.t, conn: conn, body: bufio.NewReader(resp.Body)}
}

// attached starts an attached run, takes its run.start from the daemon, and reads
// the stream's first fact.
func (h *house) attached(p *peer, fields string) (*raw, string) {
	h.t.Helper()
	r := h.stream("POST", "/v1/runs", `{"daemon_id":`+strconv.Quote(p.id)+`,"payload":{}`+fields+`}`)
	run := p.expect("run.start").JobID
	m := r.next()
	if err := description.validText("Run", m.data); m.name != "started" || m.id != "" || err != nil || !strings.Contains(m.data, run) {
		h.t.Fatalf("the stream begins with %+v (%v), want that run %s started", m, err, run)
	}
	return r, run
}

// next reads one event, comments left out.
func (r *raw) next() message {
	r.t.Helper()
	m, err := r.read()
	if err != nil {
		r.t.Fatalf("stream: %v", err)
	}
	return m
}

func (r *raw) read() (m message, err error) {
	for {
		line, err := r.body.ReadString('\n')
		if err != nil {
			return m, err
		}
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch {
		case line == "\n" && m != (message{}):
			return m, nil
		case line == "\n", name == "":
		case name == "id" && ok && m.id == "":
			m.id = value
		case name == "event" && ok && m.name == "":
			m.name = value
		case name == "data" && ok && m.data == "":
			m.data = value
		default:
			return m, fmt.Errorf("line %q after %+v", line, m)
		}
	}
}

// grow gives a small socket room again: a small one is slow to drain.
func (r *raw) grow() {
	r.t.Helper()
	if err := r.conn.(*net.TCPConn).SetReadBuffer(1 << 20); err != nil {
		r.t.Fatal(err)
	}
}

// wants reads one event and compares it.
func (r *raw) wants(want message) {
	r.t.Helper()
	if got := r.next(); got != want {
		r.t.Fatalf("stream gives %+v, want %+v", got, want)
	}
}

// wantsEnd reads the end, holds it to its schema, and then expects nothing more.
func (r *raw) wantsEnd(result string) {
	r.t.Helper()
	m := r.next()
	if err := description.validText("Outcome", m.data); m.name != "end" || m.id != "" || err != nil || !strings.Contains(m.data, `"result":"`+result+`"`) {
		r.t.Fatalf("stream gives %+v (%v), want the end: %s", m, err, result)
	}
	if m, err := r.read(); err != io.EOF {
		r.t.Fatalf("after the end comes %+v, %v", m, err)
	}
}

// rest reads the stream to its end and checks that what it gives is gap-free, but
// for what it says is gone. It returns how many events came, how many are gone,
// and the last message.
func (r *raw) rest(after uint64) (came, gone uint64, last message) {
	r.t.Helper()
	r.grow()
	for {
		m, err := r.read()
		if err != nil {
			if err != io.EOF {
				r.t.Fatalf("stream ends with %v after %+v", err, last)
			}
			return came, gone, last
		}
		last = m
		id, _ := strconv.ParseUint(m.id, 10, 64)
		switch m.name {
		case "event":
			came++
			if id != after+1 || m.data != eventText(int(id), r.pad) {
				r.t.Fatalf("stream gives %.200v after %d", m, after)
			}
		case "truncated":
			var from, to uint64
			if _, err := fmt.Sscanf(m.data, `{"from":%d,"to":%d}`, &from, &to); err != nil || from != after+1 || to != id {
				r.t.Fatalf("stream gives %+v after %d", m, after)
			}
			gone += to - from + 1
		case "end":
			continue
		default:
			r.t.Fatalf("stream gives %+v", m)
		}
		after = id
	}
}

// graceIsOver returns when a grace that began before this call has ended: one
// that begins here, of a run whose caller leaves, has.
func (h *house) graceIsOver() {
	h.t.Helper()
	p := h.connect("clock")
	defer p.leave()
	r, run := h.attached(p, "")
	_ = r.conn.Close()
	p.expect("run.cancel")
	p.finish(run)
	if out := h.ended(run); out.Reason != "caller_gone" || !out.Clean {
		h.t.Fatalf("outcome of the clock is %+v", out)
	}
}

// outcome of a run that has ended or will.
func wantsOutcome(t *testing.T, out control.Outcome, result actors.Result, clean bool, reason string) {
	t.Helper()
	if out.Result != string(result) || out.Clean != clean || out.Reason != reason {
		t.Fatalf("outcome is %+v, want %s, clean %t, %q", out, result, clean, reason)
	}
}
