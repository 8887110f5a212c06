package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// answerMax is the largest answer that a client reads, streams aside.
	answerMax = 64 << 20
	// reconnectFor is the default of [Client.ReconnectFor]: the hub's grace.
	reconnectFor = 10 * time.Second
	// dialTimeout bounds one try to connect.
	dialTimeout = 5 * time.Second
	// silenceMax is how long a stream may be silent: three comments are missing.
	silenceMax = 45 * time.Second
)

// Client asks a hub's API. Its methods are safe for concurrent use; its fields
// are to be set before the first call.
//
// Methods fail with an [*APIError] when the hub refused, with an
// [*UnreachableError] when there was no answer, and with the context's error when
// that ended.
type Client struct {
	// ReconnectFor bounds how long a stream whose connection was lost tries to come
	// back without having got anything. Default 10s, the grace in which an attached
	// run waits for its caller.
	ReconnectFor time.Duration

	base    *url.URL
	baseErr error
	token   string
	http    *http.Client
	silence time.Duration
}

// NewClient makes a client of the API at baseURL, such as
// "http://127.0.0.1:8090", with its token. A bad address is told by the first
// call. [Client.Close] lets go of its connections.
func NewClient(baseURL, token string) *Client {
	c := &Client{ReconnectFor: reconnectFor, token: token, silence: silenceMax}
	c.base, c.baseErr = parseBase(baseURL)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true
	transport.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext
	c.http = &http.Client{
		Transport: transport,
		// A redirect would carry the token to wherever it points.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

func parseBase(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.User != nil, u.RawQuery != "", u.Fragment != "":
		// The text is not repeated: somebody may have put a password into it.
		return nil, errors.New("control: the API's address must be like http://127.0.0.1:8090; its token is given apart")
	}
	return u, nil
}

// String names the client without its token.
func (c *Client) String() string { return "client of " + c.address() }

// GoString is [Client.String], so that %#v does not print the token either.
func (c *Client) GoString() string { return c.String() }

func (c *Client) address() string {
	if c.base == nil {
		return "an unusable address"
	}
	return c.base.String()
}

// Close lets go of idle connections. Streams that are being read go on.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// UnreachableError says that the API did not answer.
type UnreachableError struct {
	// Address is where it was looked for.
	Address string
	Err     error
}

// Error says which address, why, and what to do.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("cannot reach the hub's API at %s: %v; check that the hub runs there (relay serve), or give the address it printed as api", e.Address, e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// StartRun starts a detached run and returns when run.start was sent to its
// daemon. With an idempotency key it may be an earlier run.
func (c *Client) StartRun(ctx context.Context, req RunRequest) (Run, error) {
	return call[Run](ctx, c, "POST", "/v1/runs", req)
}

// Runs lists the runs that are open or still readable, oldest first.
func (c *Client) Runs(ctx context.Context) ([]Run, error) {
	list, err := call[runList](ctx, c, "GET", "/v1/runs", nil)
	return list.Runs, err
}

// Run describes a run.
func (c *Client) Run(ctx context.Context, runID string) (Run, error) {
	return call[Run](ctx, c, "GET", "/v1/runs/"+segment(runID), nil)
}

// Cancel ends a run and returns its outcome after the barrier. When ctx ends
// before, the barrier goes on.
func (c *Client) Cancel(ctx context.Context, runID string) (CancelResult, error) {
	return call[CancelResult](ctx, c, "POST", "/v1/runs/"+segment(runID)+"/cancel", struct{}{})
}

// Daemons lists the connected daemons by id.
func (c *Client) Daemons(ctx context.Context) ([]Daemon, error) {
	list, err := call[daemonList](ctx, c, "GET", "/v1/daemons", nil)
	return list.Daemons, err
}

// Fences lists every fence, by hash.
func (c *Client) Fences(ctx context.Context) ([]Fence, error) {
	list, err := call[fenceList](ctx, c, "GET", "/v1/fences", nil)
	return list.Fences, err
}

// Fence describes the fence of a daemon, named by its id or "sha256:<hash>".
// When it is not fenced the error's code is [CodeNotFound].
func (c *Client) Fence(ctx context.Context, daemon string) (Fence, error) {
	return call[Fence](ctx, c, "GET", "/v1/fences/"+segment(daemon), nil)
}

// ClearFence lifts a fence on an operator's word. daemon is an id or
// "sha256:<hash>"; fenceID is the raising that was looked at, reason what was
// seen there.
func (c *Client) ClearFence(ctx context.Context, daemon, fenceID, reason string) (Cleared, error) {
	return call[Cleared](ctx, c, "POST", "/v1/fences/"+segment(daemon)+"/clear", clearRequest{FenceID: fenceID, Reason: reason})
}

// ClearFences lifts many fences, each judged alone: the results are in the order
// of the items, and an item that failed says why.
func (c *Client) ClearFences(ctx context.Context, items []ClearItem, reason string) ([]ClearResult, error) {
	answer, err := call[bulkClearAnswer](ctx, c, "POST", "/v1/fences/clear", bulkClearRequest{Items: items, Reason: reason})
	return answer.Results, err
}

// Ready asks whether the hub takes work; a hub that does not is no error.
func (c *Client) Ready(ctx context.Context) (Readiness, error) {
	var ready Readiness
	resp, err := c.send(ctx, "GET", "/readyz", nil, nil)
	if err != nil {
		return ready, err
	}
	defer resp.Body.Close() // only read
	if resp.StatusCode == http.StatusServiceUnavailable {
		text, err := c.read(ctx, resp)
		var other errorAnswer
		if err == nil && json.Unmarshal(text, &other) == nil && other.Error != nil {
			other.Error.Status = resp.StatusCode
			return ready, other.Error // the API is stopping, not the hub unready
		}
		return ready, c.decode(text, err, &ready)
	}
	return ready, c.take(ctx, resp, &ready)
}

// call asks one question with a JSON answer.
func call[T any](ctx context.Context, c *Client, method, path string, body any) (T, error) {
	var answer T
	resp, err := c.send(ctx, method, path, body, nil)
	if err != nil {
		return answer, err
	}
	defer resp.Body.Close() // only read
	return answer, c.take(ctx, resp, &answer)
}

// send sends a request and returns whatever answer comes.
func (c *Client) send(ctx context.Context, method, path string, body any, header http.Header) (*http.Response, error) {
	if c.baseErr != nil {
		return nil, c.baseErr
	}
	var text io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("control: the request does not encode: %w", err)
		}
		text = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.base.String(), "/")+path, text)
	if err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if text != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.lost(ctx, err)
	}
	return resp, nil
}

// lost explains a connection that failed.
func (c *Client) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var known *UnreachableError
	if errors.As(err, &known) {
		return known
	}
	var where *url.Error
	if errors.As(err, &where) {
		err = where.Err // the address is said once
	}
	return &UnreachableError{Address: c.address(), Err: err}
}

// take reads an answer: what was asked for, or the error.
func (c *Client) take(ctx context.Context, resp *http.Response, into any) error {
	text, err := c.read(ctx, resp)
	if err == nil && (resp.StatusCode < 200 || resp.StatusCode > 299) {
		return refused(resp, text)
	}
	return c.decode(text, err, into)
}

func (c *Client) read(ctx context.Context, resp *http.Response) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(resp.Body, answerMax+1))
	switch {
	case err != nil:
		return nil, c.lost(ctx, err)
	case len(text) > answerMax:
		return nil, fmt.Errorf("control: the answer is above %d bytes", answerMax)
	}
	return text, nil
}

func (c *Client) decode(text []byte, err error, into any) error {
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("control: what answers at %s is no relay API: %w", c.address(), err)
	}
	return nil
}

// refused makes the error of an answer that is none of success.
func refused(resp *http.Response, text []byte) error {
	var answer errorAnswer
	if json.Unmarshal(text, &answer) != nil || answer.Error == nil || answer.Error.Code == "" {
		answer.Error = &APIError{
			Code:    "unexpected_status",
			Message: fmt.Sprintf("the answer was %s, and not a relay API's; check the address, and whether a proxy stands before it", resp.Status),
		}
	}
	e := answer.Error
	e.Status = resp.StatusCode
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

// segment makes any id one segment of a path. A segment of dots only would be
// taken for a way up.
func segment(id string) string {
	if strings.Trim(id, ".") == "" {
		return strings.ReplaceAll(id, ".", "%2E")
	}
	return url.PathEscape(id)
}
