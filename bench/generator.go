package bench

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// daemon is a played daemon: a raw socket that costs the generator next to
// nothing, with frames built before the clock starts.
type daemon struct {
	id   string
	conn net.Conn
	in   *bufio.Reader

	starts chan string // run ids, as run.start comes
	ready  chan struct{}
	gone   chan struct{}

	mu sync.Mutex // one writer at a time: answers and events
}

// The stamp in an event: when it was written, nanoseconds, always so long.
const (
	stampKey    = `"t":`
	stampDigits = 19
)

// dialDaemon connects, says hello and waits for daemon.ready.
func dialDaemon(addr, id, token string) (*daemon, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("bench: dial %s: %w", addr, err)
	}
	d := &daemon{
		id: id, conn: conn, in: bufio.NewReaderSize(conn, 1<<10),
		starts: make(chan string, 16), ready: make(chan struct{}), gone: make(chan struct{}),
	}
	if err := d.upgrade(addr); err != nil {
		_ = conn.Close()
		return nil, err
	}
	go d.read()
	hello, err := json.Marshal(map[string]string{"type": "daemon.hello", "daemon_id": id, "token": token, "protocol": "coding-relay-v1"})
	if err != nil {
		return nil, err
	}
	if err := d.write(appendFrame(nil, 1, hello)); err != nil {
		return nil, err
	}
	select {
	case <-d.ready:
		return d, nil
	case <-d.gone:
		return nil, fmt.Errorf("bench: daemon %s was refused", id)
	}
}

// upgrade does the opening handshake of RFC 6455; the accept key is not checked,
// the peer is our own child.
func (d *daemon) upgrade(addr string) error {
	if _, err := fmt.Fprintf(d.conn, "GET / HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", addr); err != nil {
		return err
	}
	status, err := d.in.ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.Contains(status, "101") {
		return fmt.Errorf("bench: upgrade refused: %s", strings.TrimSpace(status))
	}
	for {
		line, err := d.in.ReadString('\n')
		if err != nil {
			return err
		}
		if line == "\r\n" {
			return nil
		}
	}
}

// appendFrame appends a client frame, masked with the zero key: the receiver
// does the work of unmasking all the same.
func appendFrame(b []byte, opcode byte, payload []byte) []byte {
	b = append(b, 0x80|opcode)
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n <= 0xffff:
		b = append(b, 0x80|126)
		b = binary.BigEndian.AppendUint16(b, uint16(n))
	default:
		b = append(b, 0x80|127)
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = append(b, 0, 0, 0, 0)
	return append(b, payload...)
}

func (d *daemon) write(b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.conn.Write(b)
	return err
}

// read answers pings and cancels and notes starts, until the socket ends.
func (d *daemon) read() {
	defer close(d.gone)
	var payload []byte
	for {
		var head [2]byte
		if _, err := io.ReadFull(d.in, head[:]); err != nil {
			return
		}
		n, err := d.length(head[1])
		if err != nil {
			return
		}
		if cap(payload) < n {
			payload = make([]byte, n)
		}
		payload = payload[:n]
		if _, err := io.ReadFull(d.in, payload); err != nil {
			return
		}
		switch head[0] & 0x0f {
		case 1:
			d.frame(payload)
		case 8:
			_ = d.write(appendFrame(nil, 8, payload[:min(n, 2)]))
			return
		case 9:
			_ = d.write(appendFrame(nil, 10, payload))
		}
	}
}

func (d *daemon) length(b byte) (int, error) {
	switch n := int(b & 0x7f); n {
	case 126:
		var x [2]byte
		_, err := io.ReadFull(d.in, x[:])
		return int(binary.BigEndian.Uint16(x[:])), err
	case 127:
		var x [8]byte
		_, err := io.ReadFull(d.in, x[:])
		return int(binary.BigEndian.Uint64(x[:])), err
	default:
		return n, nil
	}
}

func (d *daemon) frame(payload []byte) {
	job := string(between(payload, `"job_id":"`, `"`))
	switch {
	case bytes.Contains(payload, []byte(`"daemon.ready"`)):
		close(d.ready)
	case bytes.Contains(payload, []byte(`"run.start"`)):
		d.starts <- job
	case bytes.Contains(payload, []byte(`"run.cancel"`)):
		_ = d.finish(job)
	}
}

func (d *daemon) finish(job string) error {
	return d.write(appendFrame(nil, 1, []byte(`{"type":"run.finished","job_id":"`+job+`"}`)))
}

// eventFrame is a whole run.event frame of about size bytes, with a stamp.
func eventFrame(job string, size int, escapes bool) []byte {
	head := `{"type":"run.event","job_id":"` + job + `","event":{"type":"output",` + stampKey + strings.Repeat("1", stampDigits) + `,"data":{"text":"`
	const tail = `"}}}`
	filler := "The quick brown fox jumps over the lazy dog and says so. "
	if escapes {
		filler = `{\"a\":\"b\\n\",\"c\":[1,2]}\n`
	}
	var b strings.Builder
	b.WriteString(head)
	for b.Len()+len(filler)+len(tail) <= size {
		b.WriteString(filler)
	}
	b.WriteString(tail)
	return appendFrame(nil, 1, []byte(b.String()))
}

// stream says what a daemon sends in its run.
type stream struct {
	events  int
	size    int
	escapes bool
	// pace is the pause between events; 0 is flat out.
	pace time.Duration
	// stamped gives each event its own time; else they are sent in blocks.
	stamped bool
}

// play sends a run's events and its run.finished.
func (d *daemon) play(job string, s stream) error {
	frame := eventFrame(job, s.size, s.escapes)
	if !s.stamped {
		return errors.Join(d.flood(frame, s.events), d.finish(job))
	}
	at := bytes.Index(frame, []byte(stampKey)) + len(stampKey)
	next := time.Now()
	for range s.events {
		if s.pace > 0 {
			next = next.Add(s.pace)
			if wait := time.Until(next); wait > 0 {
				timer := time.NewTimer(wait)
				<-timer.C
			}
		}
		copy(frame[at:], fmt.Appendf(nil, "%0*d", stampDigits, time.Now().UnixNano()))
		if err := d.write(frame); err != nil {
			return err
		}
	}
	return d.finish(job)
}

// flood writes a frame n times, in blocks of about 64 KiB.
func (d *daemon) flood(frame []byte, n int) error {
	each := max(1, (64<<10)/len(frame))
	block := bytes.Repeat(frame, each)
	for n > 0 {
		k := min(n, each)
		if err := d.write(block[:k*len(frame)]); err != nil {
			return err
		}
		n -= k
	}
	return nil
}
