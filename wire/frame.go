package wire

// Protocol is the name both sides must say, exactly.
const Protocol = "coding-relay-v1"

// Sizes in bytes (protocol section 1).
const (
	// DefaultMaxFrame is what a peer takes that announced nothing.
	DefaultMaxFrame = 1 << 20
	// OurMaxFrame is what this side takes and announces.
	OurMaxFrame = 8 << 20
	// HardMaxFrame closes the socket with 1009.
	HardMaxFrame = 64 << 20
	// HelloMaxFrame bounds the first frame.
	HelloMaxFrame = 64 << 10
	// MaxMetadata bounds a hello's metadata; larger is left out.
	MaxMetadata = 16 << 10
	// MaxDepth is the deepest nesting accepted. The frame's own object is the
	// first level, so an event or payload may nest 511 deep.
	MaxDepth = 512
	// PrefixMax is how much of an oversize or broken frame may be looked at to
	// find whose it was.
	PrefixMax = 4 << 10
)

// Type is the kind of a frame.
type Type uint8

// The frame types of protocol section 2, and the two ways in which a message
// can be none of them.
const (
	// Ignored is a message that is not a frame this side acts on. Only Bytes,
	// JobID (when it could be found, see [Decoder.Decode]) and Why are set.
	Ignored Type = iota
	// Oversize is a message above this side's limit that was read to its end
	// and thrown away. Only Bytes, JobID (when found) and Why are set.
	Oversize
	// DaemonHello is a daemon's first frame; see [ParseHello].
	DaemonHello
	// DaemonPing asks for a [DaemonPong].
	DaemonPing
	// RunEvent is one event of a run; Body is the event object.
	RunEvent
	// RunFinished acknowledges the end of a run; see [ParseReceipt].
	RunFinished
	// MCPRequest is a tool call of the agent; Body is its payload.
	MCPRequest
	// DaemonReady is the hub's answer to a hello; see [ParseReady].
	DaemonReady
	// RunStart starts a run; Body is its payload object.
	RunStart
	// RunCancel asks for a run's end.
	RunCancel
	// MCPResponse answers an [MCPRequest]; Body is its payload.
	MCPResponse
	// DaemonPong answers a [DaemonPing].
	DaemonPong

	typeCount
)

// bodyKind says what of a frame is its Body.
type bodyKind uint8

const (
	noBody      bodyKind = iota
	eventBody            // the event, an object
	objectBody           // the payload, an object
	payloadBody          // the payload, any JSON; null when it is left out
	frameBody            // the whole frame object
)

// shape is what protocol section 2 says of one frame type: which of the known
// keys it must have. Other names are unknown to it and ignored, known or not.
type shape struct {
	name    string
	job     bool
	request bool
	body    bodyKind
}

var shapes = [typeCount]shape{
	Ignored:     {name: "ignored"},
	Oversize:    {name: "oversize"},
	DaemonHello: {name: "daemon.hello", body: frameBody},
	DaemonPing:  {name: "daemon.ping"},
	RunEvent:    {name: "run.event", job: true, body: eventBody},
	RunFinished: {name: "run.finished", job: true, body: frameBody},
	MCPRequest:  {name: "mcp.request", job: true, request: true, body: payloadBody},
	DaemonReady: {name: "daemon.ready", body: frameBody},
	RunStart:    {name: "run.start", job: true, body: objectBody},
	RunCancel:   {name: "run.cancel", job: true},
	MCPResponse: {name: "mcp.response", job: true, request: true, body: payloadBody},
	DaemonPong:  {name: "daemon.pong"},
}

// types finds a frame type by its name on the wire.
var types = func() map[string]Type {
	m := make(map[string]Type, typeCount)
	for t := DaemonHello; t < typeCount; t++ {
		m[shapes[t].name] = t
	}
	return m
}()

// String gives the type's name on the wire, or "ignored" or "oversize".
func (t Type) String() string {
	if t >= typeCount {
		return "unknown"
	}
	return shapes[t].name
}

// Frame is one inbound message, proven to be one complete JSON object (or
// marked Ignored or Oversize). It owns its memory.
//
// The Body of a DaemonHello holds the daemon's token: never log it.
type Frame struct {
	Type Type
	// Bytes is the size of the whole message as it came, in bytes. Body is never
	// larger, unless the message was mended: then at most three times.
	Bytes int
	// JobID is the job the frame names; empty where the type has none.
	JobID string
	// RequestID is the request of mcp.request and mcp.response.
	RequestID string
	// Body is the valid JSON of event, payload, or, for run.finished and the
	// handshake frames, the whole frame object.
	Body []byte
	// Why says in a few words why an Ignored frame is ignored.
	Why string
}
