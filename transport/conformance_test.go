package transport_test

import (
	"bytes"
	"strings"
	"testing"

	"codingrelay/transport"
	"codingrelay/wire"
)

// rawCase is what a peer sends, frame by frame, and what must come of it.
type rawCase struct {
	send [][]byte
	// jobs are the frames the sink is told, by job_id.
	jobs string
	// code is the close frame the peer gets; 0: the connection ends without one.
	code int
}

func text(s string) []byte { return frame(fin|opText, []byte(s)) }

const (
	doneA = `{"type":"run.finished","job_id":"a"}`
	doneB = `{"type":"run.finished","job_id":"b"}`
)

// bye is a correct close frame; its answer ends a case that is about messages.
var bye = frame(fin|opClose, []byte{0x03, 0xe8})

// RFC 6455 sections 5.2 to 5.5: frames and fragments that are allowed.
var allowed = map[string]rawCase{
	"text":                  {[][]byte{text(doneA), bye}, "a", 1000},
	"binary_json":           {[][]byte{frame(fin|opBinary, []byte(doneA)), bye}, "a", 1000},
	"two_fragments":         {[][]byte{frame(opText, []byte(doneA[:9])), frame(fin|opContinuation, []byte(doneA[9:])), bye}, "a", 1000},
	"empty_fragments":       {[][]byte{frame(opText, nil), frame(opContinuation, []byte(doneA)), frame(fin|opContinuation, nil), bye}, "a", 1000},
	"ping_within_fragments": {[][]byte{frame(opText, []byte(doneA[:9])), frame(fin|opPing, nil), frame(fin|opContinuation, []byte(doneA[9:])), bye}, "a", 1000},
	"long_form_of_length": {[][]byte{
		append([]byte{fin | opText, 0x80 | 127, 0, 0, 0, 0, 0, 0, 0, byte(len(doneA)), 0, 0, 0, 0}, doneA...), bye,
	}, "a", 1000},
	"unasked_pong":     {[][]byte{frame(fin|opPong, []byte("x")), text(doneA), bye}, "a", 1000},
	"ping_of_125":      {[][]byte{frame(fin|opPing, bytes.Repeat([]byte("p"), 125)), text(doneA), bye}, "a", 1000},
	"close_without":    {[][]byte{text(doneA), frame(fin|opClose, nil)}, "a", 0},
	"close_of_4999":    {[][]byte{frame(fin|opClose, []byte{0x13, 0x87, 'x'})}, "", 4999},
	"data_after_close": {[][]byte{text(doneA), bye, text(doneB)}, "a", 1000},
	"empty_message":    {[][]byte{text(""), text(doneA), bye}, "- a", 1000},
	"not_json":         {[][]byte{text("hello"), text(doneA), bye}, "- a", 1000},
	"bad_utf8_text":    {[][]byte{frame(fin|opText, []byte("{\"type\":\"run.finished\",\"job_id\":\"a\",\"x\":\"\xff\"}")), bye}, "a", 1000},
}

// RFC 6455: what is forbidden ends the connection, with 1002 where the library
// still answers; what came before counts, what follows does not.
var forbidden = map[string]rawCase{
	"rsv1":                      {[][]byte{text(doneA), frame(fin|rsv1|opText, []byte(doneB)), text(doneB)}, "a", 1002},
	"rsv2":                      {[][]byte{frame(fin|rsv2|opText, []byte(doneB))}, "", 1002},
	"rsv3_on_ping":              {[][]byte{frame(fin|rsv3|opPing, nil)}, "", 1002},
	"opcode_3":                  {[][]byte{frame(fin|0x3, []byte(doneB))}, "", 1002},
	"opcode_15":                 {[][]byte{frame(fin|0xf, nil)}, "", 1002},
	"fragmented_ping":           {[][]byte{frame(opPing, []byte("x"))}, "", 1002},
	"fragmented_close":          {[][]byte{frame(opClose, []byte{0x03, 0xe8})}, "", 1002},
	"ping_of_126":               {[][]byte{frame(fin|opPing, bytes.Repeat([]byte("p"), 126))}, "", 1002},
	"continuation_alone":        {[][]byte{frame(fin|opContinuation, []byte(doneB))}, "", 1002},
	"continuation_after_fin":    {[][]byte{text(doneA), frame(opContinuation, []byte(doneB))}, "a", 1002},
	"text_within_message":       {[][]byte{frame(opText, []byte(doneB[:9])), text(doneA)}, "", 1002},
	"close_of_1005":             {[][]byte{frame(fin|opClose, []byte{0x03, 0xed})}, "", 1002},
	"close_of_999":              {[][]byte{frame(fin|opClose, []byte{0x03, 0xe7})}, "", 1002},
	"close_of_one_byte":         {[][]byte{frame(fin|opClose, []byte{0x03})}, "", 1002},
	"unmasked":                  {[][]byte{text(doneA), append(header(fin|opText, false, len(doneB)), doneB...)}, "a", 0},
	"negative_length":           {[][]byte{{fin | opText, 0x80 | 127, 0x80, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}}, "", 0},
	"message_cut_by_close":      {[][]byte{frame(opText, []byte(doneB)), bye}, "", 1000},
	"message_cut_by_next_error": {[][]byte{frame(opText, []byte(doneB)), frame(fin|rsv1|opContinuation, nil)}, "", 1002},
}

// RFC 6455, as the hub's half keeps it; ecosystem findings on the library.
func TestPeerIsHeldToRFC6455(t *testing.T) {
	for group, cases := range map[string]map[string]rawCase{"allowed": allowed, "forbidden": forbidden} {
		for name, tt := range cases {
			t.Run(group+"/"+name, func(t *testing.T) {
				t.Parallel()
				h := listen(t, transport.ListenConfig{})
				peer := raw(t, h.addr())
				e := h.next(t)
				peer.send(bytes.Join(tt.send, nil))
				if code, reason := peer.verdict(); code != tt.code {
					t.Errorf("closed with %d %q, want %d", code, reason, tt.code)
				}
				_ = peer.Close()
				var jobs []string
				for _, f := range e.sink.rest(t) {
					if f.Type == wire.Ignored {
						f.JobID = "-"
					}
					jobs = append(jobs, f.JobID)
				}
				if got := strings.Join(jobs, " "); got != tt.jobs {
					t.Errorf("told of %q, want %q", got, tt.jobs)
				}
			})
		}
	}
}

// RFC 6455 section 5.5.2: a ping is answered with its own payload, before what is
// written later, also while a message is coming in.
func TestPingIsAnsweredWithItsPayload(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{})
	peer := raw(t, h.addr())
	h.next(t)
	peer.send(frame(opText, []byte(doneA[:9])))
	for _, payload := range []string{"", "x", strings.Repeat("p", 125)} {
		peer.send(frame(fin|opPing, []byte(payload)))
		if b0, got := peer.read(); b0 != fin|opPong || string(got) != payload {
			t.Errorf("ping %q was answered with %#x %q", payload, b0, got)
		}
	}
}

// wire.Link: what a link sends is what RFC 6455 asks for: whole messages up to
// 256 KiB, larger ones in fragments, pings between them, one close frame last.
func TestLinkSendsValidFrames(t *testing.T) {
	t.Parallel()
	h := listen(t, transport.ListenConfig{})
	peer := raw(t, h.addr())
	e := h.next(t)
	small, large := event("j", 256<<10), event("k", 600<<10)
	e.link.Write([][]byte{small, large, finished("l")})
	var messages [][]byte
	for len(messages) < 3 {
		b0, payload := peer.read()
		switch op := b0 & 0xf; {
		case op == opText:
			messages = append(messages, payload)
		case op == opContinuation:
			messages[len(messages)-1] = append(messages[len(messages)-1], payload...)
		}
		if len(payload) > 256<<10 {
			t.Errorf("a frame of %d bytes", len(payload))
		}
	}
	for i, want := range [][]byte{small, large, finished("l")} {
		if !bytes.Equal(messages[i], want) {
			t.Errorf("message %d has %d bytes, want %d", i, len(messages[i]), len(want))
		}
	}
	e.link.Ping()
	if b0, payload := peer.read(); b0 != fin|opPing || len(payload) > 125 {
		t.Errorf("got %#x with %d bytes, want a ping", b0, len(payload))
	}
	e.link.Close(1000, "")
	if b0, payload := peer.read(); b0 != fin|opClose || len(payload) != 2 {
		t.Errorf("got %#x with %d bytes, want a close frame", b0, len(payload))
	}
	peer.send(frame(fin|opPing, []byte("after"))) // must not be answered any more
	peer.send(bye)
	if _, _, _, err := readFrame(peer.in); err == nil {
		t.Error("something follows the close frame")
	}
	if got := e.sink.end(t); got.Code != 1000 {
		t.Errorf("got %+v", got)
	}
}
