package containment

import "slices"

// process is one entry of the system's process table, as it was when it was read.
type process struct {
	Identity
	ppid  int
	pgid  int
	sid   int
	ended bool // a zombie: it runs no more, and waits for its parent
}

// descendants are the processes below root, parents before their children.
//
// A table is read entry by entry while the world goes on. An entry whose parent
// has ended in between is missing from the result (it is found at the next look,
// below its new parent); an entry whose parent's number was given to another
// process in between is recognised, since no parent is younger than its child.
func descendants(table []process, root int) []process {
	byParent := make(map[int][]process, len(table))
	var top []process
	for _, p := range table {
		if p.PID == root {
			top = append(top, p)
			continue
		}
		byParent[p.ppid] = append(byParent[p.ppid], p)
	}
	found := top
	for i := 0; i < len(found); i++ {
		for _, child := range byParent[found[i].PID] {
			if child.Start >= found[i].Start {
				found = append(found, child)
			}
		}
		// Each number is visited once, whatever a torn table says.
		delete(byParent, found[i].PID)
	}
	return slices.Clip(found[len(top):])
}

// kin is descendants for systems that give orphans away: it also finds who is in
// root's session, and, below whatever parent, whom an earlier look has found. It
// adds what it finds to known.
func kin(table []process, root int, known map[Identity]bool) []process {
	found := descendants(table, root)
	have := make(map[Identity]bool, len(found))
	for _, p := range found {
		have[p.Identity] = true
	}
	for _, p := range table {
		if p.PID == root || have[p.Identity] || (p.sid != root && !known[p.Identity]) {
			continue
		}
		for _, q := range append([]process{p}, descendants(table, p.PID)...) {
			if q.PID != root && !have[q.Identity] {
				have[q.Identity] = true
				found = append(found, q)
			}
		}
	}
	for _, p := range found {
		known[p.Identity] = true
	}
	return found
}
