package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"codingrelay/actors"
)

// Codes that only the API gives, beside those of protocol section 7.
const (
	CodeForbidden        actors.Code = "forbidden"          // Host, Origin or cross-site: 403
	CodeNotFound         actors.Code = "not_found"          // no such route, or no such fence: 404
	CodeMethodNotAllowed actors.Code = "method_not_allowed" // 405
)

// APIError is what the API refuses or fails with: the error object of an answer.
type APIError struct {
	// Status is the HTTP status it came with; 0 inside a bulk answer.
	Status int `json:"-"`
	// Code is prefix.code; match on [APIError.Short].
	Code string `json:"code"`
	// Message says what failed and what to do.
	Message string `json:"message"`
	// Retryable says that the same request may succeed later.
	Retryable bool `json:"retryable"`
	// FenceID is the present fence, where the error is about one.
	FenceID string `json:"fence_id,omitempty"`
	// RetryAfter is how long the server asked to wait; 0 when it did not say.
	RetryAfter time.Duration `json:"-"`
}

// Error prints code: message.
func (e *APIError) Error() string { return e.Code + ": " + e.Message }

// Short is the code without the installation's prefix.
func (e *APIError) Short() actors.Code {
	return actors.Code(e.Code[strings.LastIndexByte(e.Code, '.')+1:])
}

// answers says with which status each code is answered, and after how many
// seconds it may be asked again.
var answers = map[actors.Code]struct{ status, retryAfter int }{
	actors.CodeInvalidRequest:   {status: http.StatusBadRequest},
	actors.CodeUnauthorized:     {status: http.StatusUnauthorized},
	CodeForbidden:               {status: http.StatusForbidden},
	CodeNotFound:                {status: http.StatusNotFound},
	actors.CodeRunNotFound:      {status: http.StatusNotFound},
	CodeMethodNotAllowed:        {status: http.StatusMethodNotAllowed},
	actors.CodeFenced:           {status: http.StatusConflict},
	actors.CodeFenceChanged:     {status: http.StatusConflict},
	actors.CodeIdempotency:      {status: http.StatusConflict},
	actors.CodeCancelling:       {status: http.StatusConflict, retryAfter: 1},
	actors.CodePayloadTooLarge:  {status: http.StatusRequestEntityTooLarge},
	actors.CodeBusy:             {status: http.StatusTooManyRequests, retryAfter: 1},
	actors.CodeOffline:          {status: http.StatusServiceUnavailable, retryAfter: 2},
	actors.CodeHubNotStarted:    {status: http.StatusServiceUnavailable, retryAfter: 2},
	actors.CodeHubStopping:      {status: http.StatusServiceUnavailable, retryAfter: 5},
	actors.CodeStateUnavailable: {status: http.StatusServiceUnavailable, retryAfter: 5},
}

// refusal makes an error of this package's own.
func (s *Server) refusal(code actors.Code, format string, args ...any) *APIError {
	return s.fromHub(&actors.Error{Code: code, Message: fmt.Sprintf(format, args...)})
}

// fromHub makes the API's error of any error a handler met. What is no error of
// the hub's is a bug or the end of the server: its text is logged, not told.
func (s *Server) fromHub(err error) *APIError {
	var mine *APIError
	if errors.As(err, &mine) {
		return mine
	}
	var e *actors.Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e = &actors.Error{Code: actors.CodeHubStopping, Message: "the API is stopping, or gave up waiting; try again"}
	default:
		s.log.Error("a request failed", "error", err)
		e = &actors.Error{Code: actors.CodeInternal, Message: "the hub failed; its log says why"}
	}
	a, known := answers[e.Code]
	if !known {
		a.status = http.StatusInternalServerError
	}
	return &APIError{
		Status: a.status, Code: s.fullCode(e.Code), Message: e.Message, Retryable: e.Code.Retryable(),
		FenceID: e.FenceID, RetryAfter: time.Duration(a.retryAfter) * time.Second,
	}
}

// fullCode is prefix.code.
func (s *Server) fullCode(code actors.Code) string {
	return (&actors.Error{Prefix: s.opts.ErrorPrefix, Code: code}).FullCode()
}

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, err error) {
	e := s.fromHub(err)
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	s.answer(w, e.Status, errorAnswer{e})
}

// answer writes a JSON body.
func (s *Server) answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	// A reader that takes nothing must not keep the handler for ever. It may be
	// a writer without deadlines; then whoever serves it has to care.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.opts.StallTimeout))
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		s.log.Debug("an answer was not taken", "error", err)
	}
}
