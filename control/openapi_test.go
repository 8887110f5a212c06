package control_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"codingrelay/actors"
	"codingrelay/control"
)

// The description and the handlers name the same operations, and those without a
// token are the ones that say so.
func TestDescriptionNamesEveryRouteAndNoOther(t *testing.T) {
	h := open(t, setup{})
	var described []string
	for path, ops := range description.Paths {
		for method, op := range ops {
			described = append(described, strings.ToUpper(method)+" "+path)
			status := h.ask(strings.ToUpper(method), path, "", noToken).status
			if public := op.Security != nil && len(*op.Security) == 0; public != (status == http.StatusOK) {
				t.Errorf("%s %s without a token answered %d, and is described as public: %t", method, path, status, public)
			}
		}
	}
	slices.Sort(described)
	if diff := cmp.Diff(slices.Sorted(slices.Values(h.api.Routes())), described); diff != "" {
		t.Errorf("routes (-) and description (+) differ:\n%s", diff)
	}
	if a := h.ask("GET", "/openapi.json", ""); a.body != string(control.OpenAPI()) || description.OpenAPI != "3.1.0" {
		t.Error("what is served is not the document")
	}
}

// hurt is a hub that fails every question alike.
type hurt struct {
	err  error
	done chan struct{}
}

func (h *hurt) Run(context.Context, actors.RunRequest) (*actors.Run, error) { return nil, h.err }
func (h *hurt) FindRun(context.Context, string) (*actors.Run, error)        { return nil, h.err }
func (h *hurt) Runs(context.Context) ([]actors.RunInfo, error)              { return nil, h.err }
func (h *hurt) Daemons(context.Context) ([]actors.DaemonInfo, error)        { return nil, h.err }
func (h *hurt) Fences(context.Context) ([]actors.FenceInfo, error)          { return nil, h.err }
func (h *hurt) Status(context.Context) (actors.Status, error)               { return actors.Status{}, h.err }
func (h *hurt) Done() <-chan struct{}                                       { return h.done }

func (h *hurt) ClearFence(context.Context, string, string, string, string) (string, error) {
	return "", h.err
}

// overHurt serves the API over a hub that fails, through the host program's own
// server.
func overHurt(t *testing.T, err error) (*house, *control.Server, *hurt) {
	t.Helper()
	hub := &hurt{err: err, done: make(chan struct{})}
	api, newErr := control.New(hub, control.Options{Token: apiToken})
	if newErr != nil {
		t.Fatal(newErr)
	}
	host := httptest.NewServer(api.Handler())
	t.Cleanup(host.Close)
	return &house{t: t, base: host.URL}, api, hub
}

// bodies are the requests that need one.
var bodies = map[string]string{
	"POST /v1/runs":                     `{"daemon_id":"d","payload":{}}`,
	"POST /v1/runs/{run_id}/cancel":     `{}`,
	"POST /v1/fences/clear":             `{"items":[{"daemon_id":"d","fence_id":"f"}],"reason":"looked"}`,
	"POST /v1/fences/{daemon_id}/clear": `{"fence_id":"f","reason":"looked"}`,
}

// statusCodes are errors of the hub for each status that it can lead to.
var statusCodes = map[int]actors.Code{
	400: actors.CodeInvalidRequest, 404: actors.CodeRunNotFound, 409: actors.CodeFenced,
	413: actors.CodePayloadTooLarge, 429: actors.CodeBusy, 500: actors.CodeInternal, 503: actors.CodeHubStopping,
}

// Every status that is described for an operation is one that it gives, and every
// error object has the hub's own code, message and retryable.
func TestEveryDescribedErrorIsGiven(t *testing.T) {
	given := make(map[string][]string) // operation to statuses
	give := func(h *house, op string, want int, change ...func(*http.Request)) {
		t.Helper()
		method, path, _ := strings.Cut(op, " ")
		a := h.ask(method, strings.NewReplacer("{run_id}", "r", "{daemon_id}", "d").Replace(path), bodies[op], change...)
		if a.status == want {
			given[op] = append(given[op], strconv.Itoa(want))
		}
	}
	for status, code := range statusCodes {
		h, _, _ := overHurt(t, &actors.Error{Code: code, Message: "no"})
		for op, described := range operations() {
			if _, ok := described[strconv.Itoa(status)]; ok {
				give(h, op, status)
			}
		}
	}
	h, api, hub := overHurt(t, errors.New("a bug"))
	for op := range operations() {
		give(h, op, 401, noToken)
		give(h, op, 403, func(r *http.Request) { r.Host = "evil.example" })
		if bodies[op] != "" {
			give(h, op, 413, tooLarge)
		}
		give(h, op, 500)
		for range 12 {
			give(h, op, 429, header("Authorization", "Bearer wrong"))
		}
	}
	for op := range operations() {
		if bodies[op] != "" {
			give(h, op, 400, header("Content-Type", "text/plain"))
		}
	}
	give(h, "GET /v1/runs/{run_id}/events", 400, func(r *http.Request) { r.URL.RawQuery = "what" })
	give(h, "GET /v1/fences/{daemon_id}", 400, func(r *http.Request) { r.URL.Path += "\x01" })
	close(hub.done)
	for op := range operations() {
		give(h, op, 503)
	}
	if err := api.Close(); err != nil {
		t.Fatal(err)
	}
	for op := range operations() {
		give(h, op, 503)
	}
	for op, described := range operations() {
		for status := range described {
			if status >= "400" && !slices.Contains(given[op], status) {
				t.Errorf("%s never answered %s, which is described", op, status)
			}
		}
	}
}

// tooLarge announces a body above the limit; the answer comes before it is sent.
func tooLarge(r *http.Request) {
	r.Header.Set("Expect", "100-continue")
	r.ContentLength = control.BodyMax + 1
	r.Body = io.NopCloser(strings.NewReader(strings.Repeat(" ", control.BodyMax+1)))
}

// operations are the described operations with their answers.
func operations() map[string]map[string]documentedAnswer {
	all := make(map[string]map[string]documentedAnswer)
	for path, ops := range description.Paths {
		for method, op := range ops {
			all[strings.ToUpper(method)+" "+path] = maps.Clone(op.Responses)
		}
	}
	return all
}

// What a handler meets and is no refusal of the hub's is answered without its
// text: that may hold a path.
func TestUnknownFailureIsNotTold(t *testing.T) {
	h, _, _ := overHurt(t, errors.New("open /home/somebody/secret: no"))
	a := h.ask("GET", "/v1/daemons", "")
	h.wants(a, http.StatusInternalServerError, "internal")
	if strings.Contains(a.body, "secret") {
		t.Errorf("answer tells %s", a.body)
	}
}
