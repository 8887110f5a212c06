package wire

// Link is one end of an open connection as its owner (a hub's connection actor,
// a daemon's session actor) sees it. All methods return at once and are called
// from one goroutine, the owner's. They never report an error: what goes wrong
// ends in [Sink.Closed].
type Link interface {
	// Write hands one flush to the writer: complete frames, sent in this order,
	// one text message each. At most one flush is under way: the next Write
	// comes after [Sink.Flushed]. The frames belong to the link until then.
	Write(frames [][]byte)
	// Ping sends a WebSocket ping; its answer is [Sink.Pong].
	Ping()
	// Credit gives n bytes of inbound room back to the reader.
	Credit(n int)
	// Close starts the closing handshake with a code and a reason (cut to 123
	// bytes on a character) after the flush under way, waits for the peer for at
	// most a second, and ends the connection in any case.
	Close(code int, reason string)
	// Drop ends the connection at once, without a closing handshake.
	Drop()
	// Progress counts the bytes read from and taken by the peer so far,
	// protocol overhead, pings and pongs included. It is how silence and a
	// stalled writer are noticed; it never decreases.
	Progress() (read, written uint64)
}

// Sink is where one connection's inbound side goes. The methods are called from
// the reader's goroutine, in order, never concurrently, except [Sink.Flushed],
// which comes from the writer's. Frame blocks while the inbound credit is used
// up: that is how a hub does not read a socket.
type Sink interface {
	// Frame takes one validated frame; the sink owns it and all it refers to.
	Frame(f Frame)
	// Pong is called when an answer to a [Link.Ping] was read.
	Pong()
	// Flushed is called when the kernel has taken the flush under way.
	Flushed()
	// Closed is called exactly once, after the last Frame.
	Closed(end End)
}

// End says how a connection ended.
type End struct {
	// Code is the WebSocket close code the peer sent, or 1006 when it sent none.
	Code int
	// Reason is the peer's close reason, or the local error's text when the
	// connection broke. It is for logs and never holds a secret.
	Reason string
}
