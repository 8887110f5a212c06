package wire

// fewNames is how many unknown names are compared one by one; for more, a set
// keeps a hostile frame from costing the square of its size.
const fewNames = 8

// envelope is what the top level of one frame holds: the raw tokens of the known
// names (nil: absent), and the unknown names, which count only when one repeats.
type envelope struct {
	typ, job, request, event, payload, daemon []byte
	// whole is the frame object without white space around it.
	whole []byte
	// eventAt is where the event begins, if it is the last member; else 0.
	eventAt int
	// dirty says that the text is JSON only to a tolerant decoder.
	dirty bool

	names []byte // the first unknown names, one after the other
	ends  []int
	more  map[string]struct{} // all of them, when they are many
}

// reset makes the envelope ready for another object.
func (e *envelope) reset() {
	*e = envelope{names: e.names[:0], ends: e.ends[:0]}
}

// add takes one member; false says that its name was there before.
func (e *envelope) add(name, value []byte) bool {
	slot := e.slot(name)
	if slot == nil {
		return e.addUnknown(name)
	}
	if *slot != nil {
		return false
	}
	*slot = value
	return true
}

// slot is where the value of a known name goes; nil for other names.
func (e *envelope) slot(name []byte) *[]byte {
	switch string(name) {
	case "type":
		return &e.typ
	case "job_id":
		return &e.job
	case "request_id":
		return &e.request
	case "event":
		return &e.event
	case "payload":
		return &e.payload
	case "daemon_id":
		return &e.daemon
	default:
		return nil
	}
}

func (e *envelope) addUnknown(name []byte) bool {
	if e.more != nil {
		_, there := e.more[string(name)]
		e.more[string(name)] = struct{}{}
		return !there
	}
	start := 0
	for _, end := range e.ends {
		if string(e.names[start:end]) == string(name) {
			return false
		}
		start = end
	}
	e.names = append(e.names, name...)
	e.ends = append(e.ends, len(e.names))
	if len(e.ends) == fewNames {
		e.more = make(map[string]struct{}, 2*fewNames)
		start = 0
		for _, end := range e.ends {
			e.more[string(e.names[start:end])] = struct{}{}
			start = end
		}
	}
	return true
}

// value gives the part of the frame that is its body, or says why it has none.
func (e *envelope) value(kind bodyKind) (value []byte, why string) {
	switch kind {
	case eventBody:
		if !isObject(e.event) {
			return nil, whyEvent
		}
		return e.event, ""
	case objectBody:
		if !isObject(e.payload) {
			return nil, whyPayload
		}
		return e.payload, ""
	case payloadBody:
		if e.payload == nil {
			return []byte(null), ""
		}
		return e.payload, ""
	case frameBody:
		return e.whole, ""
	default:
		return nil, ""
	}
}
