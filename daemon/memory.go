package daemon

import (
	"crypto/sha256"
	"slices"
)

// rememberMax is how many ended, and how many cancelled, runs are remembered
// (protocol section 8).
const rememberMax = 1024

// jobKey stands for a job id, whose length is the hub's choice.
type jobKey [sha256.Size]byte

// memory remembers the last job ids that were added.
type memory struct {
	order []jobKey
	set   map[jobKey]struct{}
}

func (m *memory) add(job string) {
	key := jobKey(sha256.Sum256([]byte(job)))
	if _, known := m.set[key]; known {
		return
	}
	if m.set == nil {
		m.set = make(map[jobKey]struct{})
	}
	if len(m.order) == rememberMax {
		delete(m.set, m.order[0])
		m.order = append(m.order[:0], m.order[1:]...)
	}
	m.order = append(m.order, key)
	m.set[key] = struct{}{}
}

func (m *memory) has(job string) bool {
	_, known := m.set[jobKey(sha256.Sum256([]byte(job)))]
	return known
}

// take forgets a job id and reports whether it was known.
func (m *memory) take(job string) bool {
	key := jobKey(sha256.Sum256([]byte(job)))
	if _, known := m.set[key]; !known {
		return false
	}
	delete(m.set, key)
	m.order = slices.DeleteFunc(m.order, func(k jobKey) bool { return k == key })
	return true
}

func (m *memory) clear() { m.order, m.set = nil, nil }

// sum is for hashing a state.
func (m *memory) sum() []byte {
	h := sha256.New()
	for _, k := range m.order {
		h.Write(k[:])
	}
	return h.Sum(nil)[:4]
}
