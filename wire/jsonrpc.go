package wire

import (
	"bytes"
	"strconv"
)

// maxErrors bounds a batch of errors in bytes. A batch of tiny requests would
// otherwise be answered with many times its size.
const maxErrors = DefaultMaxFrame / 2

// JSONRPCErrors answers a JSON-RPC 2.0 payload of an mcp.request with errors, as
// protocol sections 1 and 4 want where no tool can answer: the id token is echoed
// byte for byte. A batch is answered by a batch, one error for each request in
// it. What expects no answer gets null: a notification, a response, a batch of
// only such.
//
// The id is null when the payload is no JSON, no request or an empty batch, or
// its id is neither string nor number or is there twice (JSON-RPC 2.0 section 5).
// A batch whose errors would take more than 512 KiB gets one error with id null.
//
// An id can be as long as its request. A caller whose answer is still too large
// for the peer asks again with a nil payload, whose error is always small.
func JSONRPCErrors(payload []byte, code int, message string) []byte {
	payload = bytes.TrimLeft(payload, " \t\r\n")
	var w walker
	if len(payload) == 0 || payload[0] != '[' {
		id, expects := question(&w, payload)
		if !expects {
			return []byte(null)
		}
		return appendError(nil, id, code, message)
	}
	asked, large := 0, false
	answer := []byte{'['}
	err := elements(payload, func(element []byte) bool {
		id, expects := question(&w, element)
		if !expects {
			return true
		}
		if asked++; asked > 1 {
			answer = append(answer, ',')
		}
		answer = appendError(answer, id, code, message)
		large = len(answer) > maxErrors
		return !large
	})
	switch {
	case err != nil, large, len(answer) == 1 && emptyArray(payload):
		return appendError(nil, nil, code, message)
	case asked == 0:
		return []byte(null)
	default:
		return append(answer, ']')
	}
}

// JSONRPCNotification reports whether a JSON-RPC payload expects no answer: it is
// a notification, a response, or a batch of only such. Anything else does, also
// what is no JSON-RPC at all: it is owed an error.
func JSONRPCNotification(payload []byte) bool {
	payload = bytes.TrimLeft(payload, " \t\r\n")
	var w walker
	if len(payload) == 0 || payload[0] != '[' {
		_, expects := question(&w, payload)
		return !expects
	}
	asked := false
	err := elements(payload, func(element []byte) bool {
		_, asked = question(&w, element)
		return !asked
	})
	return err == nil && !asked && !emptyArray(payload)
}

// question judges one message of JSON-RPC: does it expect an answer, and under
// which id token (nil: null).
func question(w *walker, message []byte) (id []byte, expects bool) {
	ids := 0
	method, answer := false, false
	err := w.members(message, func(name, value []byte, _ int) {
		switch string(name) {
		case "id":
			ids++
			id = value
		case "method":
			method = isString(value)
		case "result", "error":
			answer = true
		}
	})
	switch {
	case err != nil:
		return nil, true
	case method && ids == 0, answer && !method:
		return nil, false
	}
	if _, ok := scalarText(id); !ok || ids != 1 {
		return nil, true
	}
	return id, true
}

func appendError(dst, id []byte, code int, message string) []byte {
	if id == nil {
		id = []byte(null)
	}
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
	dst = strconv.AppendInt(append(dst, `,"error":{"code":`...), int64(code), 10)
	return append(appendText(append(dst, `,"message":`...), message), "}}"...)
}

// emptyArray reports whether an array has no elements.
func emptyArray(array []byte) bool {
	rest := bytes.TrimLeft(array[1:], " \t\r\n")
	return len(rest) > 0 && rest[0] == ']'
}
