package control

import (
	"context"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"codingrelay/actors"
)

const (
	// timeoutMax and waitMax keep milliseconds from overflowing a duration, and
	// mistyped ones from passing.
	timeoutMax = 366 * 24 * time.Hour
	waitMax    = 24 * time.Hour
	// sequenceMax is the largest cursor: what every JSON reader can count to.
	sequenceMax = 1 << 53
)

// startRun starts a run: attached when the caller takes a stream, else detached.
func (s *Server) startRun(w http.ResponseWriter, r *http.Request) {
	attached := wantsStream(r.Header)
	run, fault := s.placeRun(w, r, attached)
	if fault != nil {
		s.fail(w, fault)
		return
	}
	w.Header().Set("Location", "/v1/runs/"+url.PathEscape(run.ID()))
	status := http.StatusCreated
	if run.Existing() {
		status = http.StatusOK
	}
	if attached {
		s.stream(w, r, run, actors.Reading{Hold: true, Caller: true}, status)
		return
	}
	info, err := run.Info(r.Context())
	if err != nil {
		s.fail(w, err)
		return
	}
	s.answer(w, status, s.runOf(info))
}

// placeRun reads the request and asks the hub for the run. The body is let go of
// before the run's life begins.
func (s *Server) placeRun(w http.ResponseWriter, r *http.Request, attached bool) (*actors.Run, *APIError) {
	text, release, fault := s.body(w, r, bodyMax)
	defer release()
	if fault != nil {
		return nil, fault
	}
	req, fault := s.runRequest(text)
	if fault != nil {
		return nil, fault
	}
	req.Attached = attached
	ctx, settle := callerContext(r.Context(), req)
	defer settle()
	run, err := s.hub.Run(ctx, req)
	if err != nil {
		return nil, s.fromHub(err)
	}
	return run, nil
}

// callerContext is the context that a run lives by. The request's own would
// cancel the run with the connection, which for a detached run means nothing and
// for an attached one begins the grace. But until run.start is sent there is
// nothing that anybody could take over: settle ends this time.
func callerContext(request context.Context, req actors.RunRequest) (ctx context.Context, settle func()) {
	if !req.Attached || req.OnCallerEnd == actors.CallerEndContinue {
		return context.Background(), func() {}
	}
	ctx, giveUp := context.WithCancel(context.Background())
	stop := context.AfterFunc(request, giveUp)
	return ctx, func() { stop() }
}

// runRequest reads the body of POST /v1/runs. It decides nothing by the request's
// other parts: the same body with the same key must be the same run.
func (s *Server) runRequest(text []byte) (actors.RunRequest, *APIError) {
	var in RunRequest
	if fault := s.decodeInto(text, &in); fault != nil {
		return actors.RunRequest{}, fault
	}
	invalid := func(format string, args ...any) (actors.RunRequest, *APIError) {
		return actors.RunRequest{}, s.refusal(actors.CodeInvalidRequest, format, args...)
	}
	req := actors.RunRequest{
		DaemonID: in.DaemonID, Payload: in.Payload, IdempotencyKey: in.IdempotencyKey,
		OnOverflow: actors.Overflow(in.OnOverflow), OnCallerEnd: actors.CallerEnd(in.OnDisconnect),
		Wait: time.Duration(in.WaitMS) * time.Millisecond,
	}
	switch {
	case len(in.Tools) > 0 && string(in.Tools) != "null":
		return invalid("tools over HTTP are not available yet; leave tools out, or embed the hub and give it Go tools")
	case in.DaemonID == "":
		return invalid("daemon_id is missing: name the daemon that shall run it")
	case len(in.Payload) == 0:
		return invalid("payload is missing: give the object that the daemon shall get")
	case in.WaitMS < 0 || in.WaitMS > waitMax.Milliseconds():
		return invalid("wait_ms is 0 to %d", waitMax.Milliseconds())
	case in.TimeoutMS == nil: // the hub's default
	case *in.TimeoutMS < 0 || *in.TimeoutMS > timeoutMax.Milliseconds():
		return invalid("timeout_ms is 1 to %d, or 0 for no limit", timeoutMax.Milliseconds())
	case *in.TimeoutMS == 0:
		req.Timeout = actors.NoTimeout
	default:
		req.Timeout = time.Duration(*in.TimeoutMS) * time.Millisecond
	}
	return req, nil
}

// wantsStream reports whether the Accept header names text/event-stream, and does
// not weigh it 0 (RFC 9110 section 12.5.1). A wildcard names nothing.
func wantsStream(h http.Header) bool {
	for _, line := range h.Values("Accept") {
		for _, part := range strings.Split(line, ",") {
			kind, params, err := mime.ParseMediaType(part)
			if err != nil || kind != "text/event-stream" {
				continue
			}
			q, err := strconv.ParseFloat(params["q"], 64)
			return err != nil || q > 0
		}
	}
	return false
}

func (s *Server) listRuns(w http.ResponseWriter, r *http.Request) {
	list, err := s.hub.Runs(r.Context())
	if err != nil {
		s.fail(w, err)
		return
	}
	s.answer(w, http.StatusOK, runList{mapped(list, s.runOf)})
}

func (s *Server) showRun(w http.ResponseWriter, r *http.Request) {
	_, info, err := s.find(r)
	if err != nil {
		s.fail(w, err)
		return
	}
	s.answer(w, http.StatusOK, s.runOf(info))
}

// cancelRun answers after the barrier. When the client goes away before, the
// barrier goes on without it.
func (s *Server) cancelRun(w http.ResponseWriter, r *http.Request) {
	text, release, fault := s.body(w, r, smallBodyMax)
	defer release()
	if fault == nil && len(text) > 0 {
		fault = s.decodeInto(text, &struct{}{})
	}
	if fault != nil {
		s.fail(w, fault)
		return
	}
	run, err := s.hub.FindRun(r.Context(), r.PathValue("run_id"))
	if err != nil {
		s.fail(w, err)
		return
	}
	out, err := run.Cancel(r.Context())
	if err != nil {
		s.fail(w, err)
		return
	}
	answer := CancelResult{RunID: run.ID(), Outcome: s.outcomeOf(out)}
	if out.EndingAt != nil {
		answer.TookMS = out.EndedAt.Sub(*out.EndingAt).Milliseconds()
	}
	s.answer(w, http.StatusOK, answer)
}

// readRun streams a run's log from a cursor.
func (s *Server) readRun(w http.ResponseWriter, r *http.Request) {
	how, fault := s.reading(r)
	if fault == nil {
		fault = s.noBody(r)
	}
	if fault != nil {
		s.fail(w, fault)
		return
	}
	run, info, err := s.find(r)
	if err != nil {
		s.fail(w, err)
		return
	}
	how.After = min(how.After, info.Events) // what a cursor beyond the end would skip has not come yet
	s.stream(w, r, run, how, http.StatusOK)
}

// find finds the run that the path names, as it is now.
func (s *Server) find(r *http.Request) (*actors.Run, actors.RunInfo, error) {
	run, err := s.hub.FindRun(r.Context(), r.PathValue("run_id"))
	if err != nil {
		return nil, actors.RunInfo{}, err
	}
	info, err := run.Info(r.Context())
	return run, info, err
}

// reading is where and how to read. Last-Event-ID wins over after: a browser
// that comes back asks for the same address again.
func (s *Server) reading(r *http.Request) (actors.Reading, *APIError) {
	var how actors.Reading
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return how, s.refusal(actors.CodeInvalidRequest, "the query cannot be read")
	}
	for name, values := range q {
		if name != "after" && name != "attach" || len(values) > 1 {
			return how, s.refusal(actors.CodeInvalidRequest, "the query takes after=N and attach=1, each once")
		}
	}
	switch q.Get("attach") {
	case "", "0":
	case "1":
		how.Hold, how.Caller = true, true
	default:
		return how, s.refusal(actors.CodeInvalidRequest, "attach is 1 or 0")
	}
	from := q.Get("after")
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		from = last
	}
	if from == "" {
		return how, nil
	}
	how.After, err = strconv.ParseUint(from, 10, 64)
	if err != nil || how.After > sequenceMax {
		return how, s.refusal(actors.CodeInvalidRequest, "after and Last-Event-ID are the number of the last event that was read, or 0")
	}
	return how, nil
}
