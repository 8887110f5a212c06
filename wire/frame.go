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
	// MaxDepth is the deepest nesting accepted.
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
	// JobID (when it could be found, see [Decode]) and Why are set.
	Ignored Type = iota
	// Oversize is a message above this side's limit that was read to its end
	// and thrown away. Only Bytes and JobID (when found) are set.
	Oversize
	DaemonHello
	DaemonPing
	RunEvent
	RunFinished
	MCPRequest
	DaemonReady
	RunStart
	RunCancel
	MCPResponse
	DaemonPong
)

// Frame is one inbound message, proven to be one complete JSON object (or
// marked Ignored or Oversize). It owns its memory.
type Frame struct {
	Type Type
	// Bytes is the size of the whole message as it came, in bytes.
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
