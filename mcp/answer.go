package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// message is what of a JSON-RPC message decides where it goes.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method *string         `json:"method"`
}

// messages splits a payload into its messages: one, or those of a batch.
func messages(payload []byte) []message {
	var one message
	if json.Unmarshal(payload, &one) == nil {
		return []message{one}
	}
	var many []message
	if json.Unmarshal(payload, &many) == nil {
		return many
	}
	return nil
}

// requestIDs are the ids, byte for byte, of the requests in a payload.
func requestIDs(payload []byte) [][]byte {
	var ids [][]byte
	for _, m := range messages(payload) {
		if m.Method != nil && len(m.ID) > 0 && !bytes.Equal(m.ID, []byte("null")) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// fromStream reads a stream of events until the answers to payload have come.
// What else the server says there (progress, log messages) has nowhere to go.
func (f *Forwarder) fromStream(r io.Reader, payload []byte) ([]byte, error) {
	due := make(map[string]bool)
	for _, id := range requestIDs(payload) {
		due[string(id)] = true
	}
	batch := bytes.HasPrefix(bytes.TrimSpace(payload), []byte("["))
	var answers [][]byte
	events := newEventReader(r, f.cfg.AnswerBytes)
	for len(due) > 0 {
		data, err := events.next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("mcp: the caller's MCP server ended its stream without an answer")
		}
		if err != nil {
			return nil, err
		}
		for _, m := range messages(data) {
			if m.Method == nil && due[string(m.ID)] {
				delete(due, string(m.ID))
				answers = append(answers, data)
			}
		}
	}
	if !batch {
		if len(answers) == 0 {
			return nil, nil
		}
		return answers[0], nil
	}
	return append(append([]byte("["), bytes.Join(answers, []byte(","))...), ']'), nil
}

// eventReader reads the data of server-sent events (WHATWG HTML, 9.2).
type eventReader struct {
	in    *bufio.Reader
	limit int
}

func newEventReader(r io.Reader, limit int) *eventReader {
	return &eventReader{in: bufio.NewReader(r), limit: limit}
}

// next returns the data of the next event that has any.
func (e *eventReader) next() ([]byte, error) {
	var data []byte
	has := false
	for {
		line, err := e.line()
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			if has {
				return data, nil
			}
			continue
		}
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		if has {
			data = append(data, '\n')
		}
		data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		has = true
		if len(data) > e.limit {
			return nil, e.tooLong()
		}
	}
}

func (e *eventReader) tooLong() error {
	return fmt.Errorf("mcp: the answer is above the limit of %d bytes", e.limit)
}

// line reads one line of any length within the limit, without its end.
func (e *eventReader) line() ([]byte, error) {
	var line []byte
	for {
		piece, err := e.in.ReadSlice('\n')
		line = append(line, piece...)
		if len(line) > e.limit+len("data: \r\n") {
			return nil, e.tooLong()
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return nil, err
		default:
			return bytes.TrimRight(line, "\r\n"), nil
		}
	}
}
