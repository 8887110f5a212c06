package control

import (
	"encoding/hex"
	"net"
	"net/http"
	"strings"

	"codingrelay/actors"
	"codingrelay/lease"
	"codingrelay/wire"
)

// hashPrefix begins a daemon that is named by its hash (protocol section 6).
const hashPrefix = "sha256:"

// bulkMax is how many fences one request may clear.
const bulkMax = 1000

func (s *Server) listDaemons(w http.ResponseWriter, r *http.Request) {
	list, err := s.hub.Daemons(r.Context())
	if err != nil {
		s.fail(w, err)
		return
	}
	s.answer(w, http.StatusOK, daemonList{mapped(list, daemonOf)})
}

func (s *Server) listFences(w http.ResponseWriter, r *http.Request) {
	list, err := s.hub.Fences(r.Context())
	if err != nil {
		s.fail(w, err)
		return
	}
	s.answer(w, http.StatusOK, fenceList{mapped(list, fenceOf)})
}

func (s *Server) showFence(w http.ResponseWriter, r *http.Request) {
	daemon, key, fault := s.daemonIn(r.PathValue("daemon_id"))
	if fault != nil {
		s.fail(w, fault)
		return
	}
	list, err := s.hub.Fences(r.Context())
	if err != nil {
		s.fail(w, err)
		return
	}
	for _, f := range list {
		if f.Key == key {
			s.answer(w, http.StatusOK, fenceOf(f))
			return
		}
	}
	s.fail(w, s.refusal(CodeNotFound, "daemon %q is not fenced", daemon))
}

// daemonIn reads a daemon as paths name it: an id, or sha256:<hash>. It returns
// what the hub calls it, and its key in the store.
func (s *Server) daemonIn(text string) (daemon, key string, fault *APIError) {
	if hash, ok := strings.CutPrefix(text, hashPrefix); ok {
		hash = strings.ToLower(hash)
		if b, err := hex.DecodeString(hash); err != nil || len(b) != 32 {
			return "", "", s.refusal(actors.CodeInvalidRequest, "after sha256: come 64 hex digits")
		}
		return hashPrefix + hash, hash, nil
	}
	id, err := wire.ValidDaemonID(text)
	if err != nil {
		return "", "", s.refusal(actors.CodeInvalidRequest, "%v", err)
	}
	return id, lease.Key(id), nil
}

func (s *Server) clearFence(w http.ResponseWriter, r *http.Request) {
	daemon, _, fault := s.daemonIn(r.PathValue("daemon_id"))
	var req clearRequest
	if fault == nil {
		fault = s.smallBody(w, r, &req)
	}
	if fault == nil {
		fault = s.clearable(req.FenceID, req.Reason)
	}
	if fault != nil {
		s.fail(w, fault)
		return
	}
	where, err := s.hub.ClearFence(r.Context(), daemon, req.FenceID, req.Reason, operator(r))
	if err != nil {
		s.fail(w, err)
		return
	}
	s.answer(w, http.StatusOK, Cleared{FenceID: req.FenceID, MovedTo: where})
}

// clearFences clears a list, each item judged alone.
func (s *Server) clearFences(w http.ResponseWriter, r *http.Request) {
	var req bulkClearRequest
	fault := s.smallBody(w, r, &req)
	switch {
	case fault != nil:
	case len(req.Items) == 0 || len(req.Items) > bulkMax:
		fault = s.refusal(actors.CodeInvalidRequest, "items holds 1 to %d fences", bulkMax)
	case strings.TrimSpace(req.Reason) == "":
		fault = s.refusal(actors.CodeInvalidRequest, "give a reason: what was looked at")
	}
	if fault != nil {
		s.fail(w, fault)
		return
	}
	answer := bulkClearAnswer{Results: make([]ClearResult, 0, len(req.Items))}
	for _, item := range req.Items {
		if r.Context().Err() != nil {
			return // nobody reads the answer; what was not begun is not done
		}
		answer.Results = append(answer.Results, s.clearItem(r, item, req.Reason))
	}
	s.answer(w, http.StatusOK, answer)
}

func (s *Server) clearItem(r *http.Request, item ClearItem, reason string) ClearResult {
	result := ClearResult{ClearItem: item}
	name := item.DaemonID
	if item.SHA256 != "" {
		name = hashPrefix + strings.TrimPrefix(item.SHA256, hashPrefix)
	}
	if (item.DaemonID == "") == (item.SHA256 == "") {
		result.Error = s.refusal(actors.CodeInvalidRequest, "name the daemon by daemon_id or by sha256, not by both")
		return result
	}
	daemon, _, fault := s.daemonIn(name)
	if fault == nil {
		fault = s.clearable(item.FenceID, reason)
	}
	if fault != nil {
		result.Error = fault
		return result
	}
	where, err := s.hub.ClearFence(r.Context(), daemon, item.FenceID, reason, operator(r))
	if err != nil {
		result.Error = s.fromHub(err)
		return result
	}
	result.Cleared, result.MovedTo = true, where
	return result
}

func (s *Server) clearable(fenceID, reason string) *APIError {
	if fenceID == "" || strings.TrimSpace(reason) == "" {
		return s.refusal(actors.CodeInvalidRequest, "clearing a fence needs its fence_id, as GET /v1/fences shows it, and a reason: what was looked at")
	}
	return nil
}

// operator is who did it, for the audit: all that one shared token can tell.
func operator(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return "api from " + host
}

// smallBody reads and decodes the body of a request without a payload.
func (s *Server) smallBody(w http.ResponseWriter, r *http.Request, into any) *APIError {
	text, release, fault := s.body(w, r, smallBodyMax)
	defer release()
	if fault != nil {
		return fault
	}
	return s.decodeInto(text, into)
}
