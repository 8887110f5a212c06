package wire

import "github.com/go-json-experiment/json/jsontext"

// The Append functions append one message to dst and return the longer slice.
// Strings are escaped (bad UTF-8 in one becomes U+FFFD); an event or payload goes
// in as it is, so the caller answers for its being valid JSON: it came out of
// [Decoder.Decode] or [NormalizeObject], or the program wrote it. Whether the
// message fits the peer is the caller's to check, on its length (see
// [Extensions.FrameLimit] and, for events, [EventFrames]).
//
// job_id comes before the body, so that the beginning of a message that is lost
// on the way still tells whose it was.

// AppendHello appends a daemon.hello. Metadata must be an object's JSON, or nil.
func AppendHello(dst []byte, h Hello) []byte {
	dst = appendText(append(dst, `{"type":"daemon.hello","daemon_id":`...), h.DaemonID)
	dst = appendText(append(dst, `,"token":`...), h.Token)
	dst = appendText(append(dst, `,"protocol":`...), h.Protocol)
	if h.Metadata != nil {
		dst = append(append(dst, `,"metadata":`...), h.Metadata...)
	}
	return append(appendExtensions(dst, h.Extensions), '}')
}

// AppendReady appends a daemon.ready.
func AppendReady(dst []byte, r Ready) []byte {
	dst = appendText(append(dst, `{"type":"daemon.ready","daemon_id":`...), r.DaemonID)
	dst = appendText(append(dst, `,"protocol":`...), r.Protocol)
	return append(appendExtensions(dst, r.Extensions), '}')
}

// AppendPing appends a daemon.ping.
func AppendPing(dst []byte) []byte { return append(dst, `{"type":"daemon.ping"}`...) }

// AppendPong appends a daemon.pong.
func AppendPong(dst []byte) []byte { return append(dst, `{"type":"daemon.pong"}`...) }

// AppendEvent appends a run.event; event is an object's JSON.
func AppendEvent(dst []byte, job string, event []byte) []byte {
	dst = append(appendHead(dst, RunEvent, job), `,"event":`...)
	return append(append(dst, event...), '}')
}

// AppendFinished appends a run.finished, with the receipt's keys unless receipt
// is nil.
func AppendFinished(dst []byte, job string, receipt *Receipt) []byte {
	dst = appendHead(dst, RunFinished, job)
	if receipt != nil {
		dst = appendReceipt(dst, receipt)
	}
	return append(dst, '}')
}

// AppendRequest appends an mcp.request; payload is any JSON, nil is null.
func AppendRequest(dst []byte, requestID, job string, payload []byte) []byte {
	return appendCall(dst, MCPRequest, requestID, job, payload)
}

// AppendResponse appends an mcp.response; payload is any JSON, nil is null (the
// answer to a notification).
func AppendResponse(dst []byte, requestID, job string, payload []byte) []byte {
	return appendCall(dst, MCPResponse, requestID, job, payload)
}

// AppendStart appends a run.start; payload is an object's JSON.
func AppendStart(dst []byte, job string, payload []byte) []byte {
	dst = append(appendHead(dst, RunStart, job), `,"payload":`...)
	return append(append(dst, payload...), '}')
}

// AppendCancel appends a run.cancel.
func AppendCancel(dst []byte, job string) []byte {
	return append(appendHead(dst, RunCancel, job), '}')
}

func appendCall(dst []byte, t Type, requestID, job string, payload []byte) []byte {
	dst = appendHead(dst, t, job)
	dst = appendText(append(dst, `,"request_id":`...), requestID)
	dst = append(dst, `,"payload":`...)
	if payload == nil {
		dst = append(dst, null...)
	}
	return append(append(dst, payload...), '}')
}

// appendHead appends what every frame of a job begins with.
func appendHead(dst []byte, t Type, job string) []byte {
	dst = append(append(dst, `{"type":"`...), shapes[t].name...)
	return appendText(append(dst, `","job_id":`...), job)
}

func appendExtensions(dst []byte, e Extensions) []byte {
	sep := `,"extensions":[`
	for _, s := range e.Strings() {
		dst = appendText(append(dst, sep...), s)
		sep = ","
	}
	if sep == "," {
		dst = append(dst, ']')
	}
	return dst
}

// appendText appends s as a JSON string. The error says only that bad UTF-8
// became U+FFFD.
func appendText(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}
