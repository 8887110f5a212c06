package control

import (
	"context"
	"net/http"

	"codingrelay/actors"
)

// healthz says that the hub's process lives and its hub has not ended.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	select {
	case <-s.hub.Done():
		s.answer(w, http.StatusServiceUnavailable, health{Status: "ended"})
	default:
		s.answer(w, http.StatusOK, health{Status: "ok"})
	}
}

// readyz says whether the hub takes work; a hub that does not answer is not ready.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), statusTimeout)
	defer cancel()
	st, err := s.hub.Status(ctx)
	if err != nil {
		st = actors.Status{}
	}
	body := Readiness{
		Ready: err == nil && ready(st), Listening: st.Listening, Stopping: st.Stopping, StoreFailing: st.StoreFailing,
		Connections: st.Connections, OpenRuns: st.OpenRuns, RetainedRuns: st.RetainedRuns, Fences: st.Fences,
	}
	status := http.StatusOK
	if !body.Ready {
		status = http.StatusServiceUnavailable
	}
	s.answer(w, status, body)
}

func ready(s actors.Status) bool { return s.Listening && !s.Stopping && !s.StoreFailing }
