package actors

import "math"

// ItemKind says what an entry of a run's log is.
type ItemKind uint8

// The kinds of entries.
const (
	// ItemEvent is an event of the daemon that owns the run.
	ItemEvent ItemKind = iota + 1
	// ItemHub is the hub's own event (protocol section 5, disconnect).
	ItemHub
	// ItemDropped marks a message of the run that could not be taken.
	ItemDropped
)

// Item is one entry of a run's log. Each has a sequence number, from 1, by its
// place. Data is never changed after it was made.
type Item struct {
	Kind ItemKind
	Data []byte
	// Bytes is the size of the message it came in.
	Bytes int
	// credit is what goes back to the connection once the log has it.
	credit int
}

const (
	chunkBytes   = 64 << 10
	itemOverhead = 64 // what an entry costs beside its data
)

func (it Item) cost() int { return len(it.Data) + itemOverhead }

// chunk is a piece of a log that is dropped as a whole.
type chunk struct {
	first uint64
	items []Item
	bytes int
}

func (c *chunk) last() uint64 { return c.first + uint64(len(c.items)) - 1 }

// runLog is the append-only event log of a run (design section 6). Readers get
// slices of its chunks, which stay valid when the log goes on or evicts.
type runLog struct {
	limit  int
	chunks []*chunk
	next   uint64
	bytes  int
	hash   uint64
}

func newRunLog(limit int) runLog { return runLog{limit: limit, next: 1} }

// fits reports whether an item can be added within the limit. An item above the
// limit passes alone.
func (l *runLog) fits(it Item) bool {
	return l.bytes == 0 || l.bytes+it.cost() <= l.limit
}

// makeRoom drops the oldest chunks until it fits, but nothing after keep.
func (l *runLog) makeRoom(it Item, keep uint64) bool {
	for !l.fits(it) && len(l.chunks) > 0 && l.chunks[0].last() <= keep {
		l.bytes -= l.chunks[0].bytes
		l.chunks[0] = nil
		l.chunks = l.chunks[1:]
	}
	return l.fits(it)
}

// add appends, whatever the limit.
func (l *runLog) add(it Item) {
	var c *chunk
	if n := len(l.chunks); n > 0 && l.chunks[n-1].bytes+it.cost() <= chunkBytes {
		c = l.chunks[n-1]
	} else {
		// Events of a run are much alike: room for as many as the first says.
		c = &chunk{first: l.next, items: make([]Item, 0, l.expect(it))}
		l.chunks = append(l.chunks, c)
	}
	c.items = append(c.items, it)
	c.bytes += it.cost()
	l.bytes += it.cost()
	l.next++
	const prime = 1099511628211 // FNV-1a, over lengths and kinds: cheap and enough to tell logs apart
	l.hash = (l.hash ^ uint64(len(it.Data))<<8 ^ uint64(it.Kind)) * prime
}

// expect is how many items like this one are given room in a fresh chunk: few in
// the first, as most runs are short, and never more than would weigh against the
// chunk's data.
func (l *runLog) expect(it Item) int {
	most := 256
	if len(l.chunks) == 0 {
		most = 8
	}
	return min(chunkBytes/it.cost()+1, most)
}

// first is the oldest sequence number that is still there, or next.
func (l *runLog) first() uint64 {
	if len(l.chunks) == 0 {
		return l.next
	}
	return l.chunks[0].first
}

// last is the newest sequence number, 0 when there is none.
func (l *runLog) last() uint64 { return l.next - 1 }

// read returns what follows after, at most about maxBytes of one chunk, and the
// gap before it when some of it is gone.
func (l *runLog) read(after uint64, maxBytes int) (items []Item, first uint64, gap *Range) {
	if f := l.first(); after+1 < f {
		gap = &Range{From: after + 1, To: f - 1}
		after = f - 1
	}
	first = after + 1
	for _, c := range l.chunks {
		if c.last() <= after {
			continue
		}
		from := int(first - c.first)
		to, bytes := from, 0
		for to < len(c.items) && (to == from || bytes < maxBytes) {
			bytes += c.items[to].cost()
			to++
		}
		return c.items[from:to:to], first, gap
	}
	return nil, first, gap
}

const everything = math.MaxUint64
