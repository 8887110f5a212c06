package control

import (
	_ "embed"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"codingrelay/actors"
)

// route is one operation of the API.
type route struct {
	method, path string
	public       bool // needs no token
	serve        http.HandlerFunc
}

func (s *Server) table() []route {
	return []route{
		{"POST", "/v1/runs", false, s.startRun},
		{"GET", "/v1/runs", false, s.listRuns},
		{"GET", "/v1/runs/{run_id}", false, s.showRun},
		{"GET", "/v1/runs/{run_id}/events", false, s.readRun},
		{"POST", "/v1/runs/{run_id}/cancel", false, s.cancelRun},
		{"GET", "/v1/daemons", false, s.listDaemons},
		{"GET", "/v1/fences", false, s.listFences},
		{"POST", "/v1/fences/clear", false, s.clearFences},
		{"GET", "/v1/fences/{daemon_id}", false, s.showFence},
		{"POST", "/v1/fences/{daemon_id}/clear", false, s.clearFence},
		{"GET", "/healthz", true, s.healthz},
		{"GET", "/readyz", true, s.readyz},
		{"GET", "/openapi.json", true, s.openAPI},
		{"GET", "/metrics", s.opts.MetricsOpen, s.metrics.handler().ServeHTTP},
	}
}

// everyMethod are those of RFC 9110 and RFC 5789 that a client may try.
var everyMethod = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodOptions, http.MethodTrace, http.MethodConnect,
}

// routes is the API: one mux whose every pattern is guarded.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	methods := make(map[string][]string)
	public := make(map[string]bool)
	for _, rt := range s.table() {
		pattern := rt.method + " " + rt.path
		mux.HandleFunc(pattern, rt.serve)
		public[pattern] = rt.public
		methods[rt.path] = append(methods[rt.path], rt.method)
	}
	for path, allowed := range methods {
		slices.Sort(allowed)
		var patterns []string
		for _, method := range everyMethod {
			// HEAD comes with GET, except on a stream, where it would take the
			// caller's place. GET of the bulk clear's path is a daemon of that name.
			served := slices.Contains(allowed, method) ||
				method == http.MethodHead && slices.Contains(allowed, http.MethodGet) && !strings.HasSuffix(path, "/events")
			if !served && !(strings.HasSuffix(path, "/fences/clear") && (method == http.MethodGet || method == http.MethodHead)) {
				patterns = append(patterns, method+" "+path)
			}
		}
		for _, pattern := range patterns {
			mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Allow", strings.Join(allowed, ", "))
				s.fail(w, s.refusal(CodeMethodNotAllowed, "%s is not possible here; see /openapi.json", r.Method))
			})
		}
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, s.refusal(CodeNotFound, "there is no such route; see /openapi.json"))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := mux.Handler(r)
		s.serve(mux, w, r, pattern, public[pattern])
	})
}

// serve is what happens around every handler.
func (s *Server) serve(mux *http.ServeMux, rw http.ResponseWriter, r *http.Request, pattern string, public bool) {
	w := &response{ResponseWriter: rw}
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	// The last answer on this connection left its deadline behind.
	_ = http.NewResponseController(rw).SetWriteDeadline(time.Time{})
	if !s.enter() {
		s.fail(w, s.refusal(actors.CodeHubStopping, "the API is stopping; try again when it is back"))
		return
	}
	defer s.handlers.Done()
	began := time.Now()
	defer func() {
		s.recovered(recover(), w, r, pattern)
		s.metrics.answered(pattern, w.status)
		s.log.Debug("request", "route", pattern, "status", w.status, "remote", r.RemoteAddr, "took", time.Since(began))
	}()
	if fault := s.guard.check(r, public); fault != nil {
		if fault.Status == http.StatusUnauthorized {
			h.Set("WWW-Authenticate", `Bearer realm="relay"`)
		}
		h.Set("Connection", "close") // a stranger keeps no connection
		s.fail(w, fault)
		return
	}
	mux.ServeHTTP(w, r)
}

// recovered answers for a handler that panicked: a bug, logged with its stack.
func (s *Server) recovered(v any, w *response, r *http.Request, pattern string) {
	if v == nil {
		return
	}
	s.log.Error("a handler failed", "route", pattern, "panic", v, "stack", string(debug.Stack()))
	if w.status != 0 {
		panic(http.ErrAbortHandler) // half an answer must not look whole
	}
	s.fail(w, s.refusal(actors.CodeInternal, "the API failed; the hub's log says why"))
}

// response remembers the status.
type response struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements [http.ResponseWriter].
func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets [http.ResponseController] find the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

//go:embed openapi.json
var openAPIText []byte

// OpenAPI returns the description of the API, an OpenAPI 3.1 document in JSON.
func OpenAPI() []byte { return slices.Clone(openAPIText) }

func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPIText) // a reader that went away misses nothing
}
