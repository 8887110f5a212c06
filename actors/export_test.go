package actors

import "codingrelay/step"

// Poke sends an actor a message that no actor accepts: the way to see what a bug
// costs.
func (h *Hub) Poke(ref step.Ref) { h.host.Send(HubRef, ref, struct{}{}) }

// Refs lists the live actors of a kind.
func (h *Hub) Refs(kind string) []step.Ref {
	var refs []step.Ref
	for _, r := range h.host.Refs() {
		if r.Kind == kind {
			refs = append(refs, r)
		}
	}
	return refs
}
