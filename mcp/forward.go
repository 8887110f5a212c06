package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Defaults of a [Forwarder].
const (
	// DefaultAnswerBytes bounds an answer.
	DefaultAnswerBytes = 4 << 20
	// noticeTimeout bounds what is said to the server after the caller is gone.
	noticeTimeout = 2 * time.Second
)

// ForwardConfig says where a run's tool calls go.
type ForwardConfig struct {
	// URL is the caller's MCP endpoint, http or https.
	URL string
	// Headers are sent with each request, such as Authorization. They are secrets:
	// they are never logged, and never follow a redirect.
	Headers map[string]string
	// AnswerBytes bounds an answer; 0 means [DefaultAnswerBytes].
	AnswerBytes int
	// Client is used for the requests; nil means one that follows no redirect and
	// uses the environment's proxy.
	Client *http.Client
}

// Forwarder answers one run's tool calls from the caller's MCP server. It
// implements the hub's Tools and io.Closer; its methods are safe for concurrent
// use.
type Forwarder struct {
	cfg    ForwardConfig
	client *http.Client

	mu       sync.Mutex
	session  string // Mcp-Session-Id, once the server gave one
	protocol string // MCP-Protocol-Version, once it was negotiated
}

// NewForwarder checks the configuration. Nothing is dialled before the first call.
func NewForwarder(cfg ForwardConfig) (*Forwarder, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("mcp: mcp_url must be an http or https URL with a host")
	}
	for name, value := range cfg.Headers {
		if !validHeader(name, value) {
			return nil, fmt.Errorf("mcp: header %q cannot be sent", name)
		}
	}
	if cfg.AnswerBytes == 0 {
		cfg.AnswerBytes = DefaultAnswerBytes
	}
	f := &Forwarder{cfg: cfg, client: cfg.Client}
	if f.client == nil {
		f.client = &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return f, nil
}

// hopHeaders belong to one connection or to this side; a caller may not set them.
var hopHeaders = map[string]bool{
	"Connection": true, "Content-Length": true, "Content-Type": true, "Accept": true, "Host": true,
	"Transfer-Encoding": true, "Upgrade": true, "Te": true, "Trailer": true, "Mcp-Session-Id": true, "Mcp-Protocol-Version": true,
}

func validHeader(name, value string) bool {
	if name == "" || hopHeaders[http.CanonicalHeaderKey(name)] {
		return false
	}
	for _, r := range name {
		if r <= ' ' || r >= 0x7f || r == ':' {
			return false
		}
	}
	for _, r := range value {
		if r < ' ' && r != '\t' || r == 0x7f {
			return false
		}
	}
	return true
}

// Call sends one JSON-RPC message, or batch, and returns its answer; nil for what
// has none. When ctx ends first the server is told that the request is cancelled.
func (f *Forwarder) Call(ctx context.Context, payload []byte) ([]byte, error) {
	answer, err := f.post(ctx, payload)
	if ctx.Err() != nil {
		f.tellCancelled(payload)
	}
	return answer, err
}

func (f *Forwarder) post(ctx context.Context, payload []byte) ([]byte, error) {
	req, err := f.request(ctx, http.MethodPost, payload)
	if err != nil {
		return nil, err
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, errors.New("mcp: the caller's MCP server cannot be reached: " + plainCause(err))
	}
	defer func() { _ = resp.Body.Close() }()
	f.note(resp.Header.Get("Mcp-Session-Id"))
	switch {
	case resp.StatusCode == http.StatusAccepted || resp.StatusCode == http.StatusNoContent:
		return nil, nil
	case resp.StatusCode == http.StatusNotFound && f.hasSession():
		return nil, errors.New("mcp: the caller's MCP server has ended the session")
	case resp.StatusCode/100 != 2:
		// A JSON-RPC error in the body says more than the status.
		if body, err := f.body(resp.Body); err == nil && isAnswer(body) {
			return body, nil
		}
		return nil, fmt.Errorf("mcp: the caller's MCP server answered with status %d", resp.StatusCode)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	var answer []byte
	if kind == "text/event-stream" {
		answer, err = f.fromStream(resp.Body, payload)
	} else {
		answer, err = f.body(resp.Body)
	}
	if err != nil {
		return nil, err
	}
	return f.checked(payload, answer)
}

// checked wants JSON, or nothing, and remembers the negotiated protocol.
func (f *Forwarder) checked(payload, answer []byte) ([]byte, error) {
	answer = bytes.TrimSpace(answer)
	if len(answer) == 0 {
		return nil, nil
	}
	if !json.Valid(answer) {
		return nil, errors.New("mcp: the caller's MCP server answered with something that is not JSON")
	}
	var asked struct{ Method string }
	var told struct {
		Result struct {
			ProtocolVersion string `json:"protocolVersion"`
		}
	}
	if json.Unmarshal(payload, &asked) == nil && asked.Method == "initialize" && json.Unmarshal(answer, &told) == nil {
		f.mu.Lock()
		f.protocol = told.Result.ProtocolVersion
		f.mu.Unlock()
	}
	return answer, nil
}

func (f *Forwarder) request(ctx context.Context, method string, payload []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, f.cfg.URL, bytes.NewReader(payload))
	if err != nil {
		return nil, errors.New("mcp: the request cannot be made")
	}
	for name, value := range f.cfg.Headers {
		req.Header.Set(name, value)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session != "" {
		req.Header.Set("Mcp-Session-Id", f.session)
	}
	if f.protocol != "" {
		req.Header.Set("Mcp-Protocol-Version", f.protocol)
	}
	return req, nil
}

func (f *Forwarder) note(session string) {
	if session != "" {
		f.mu.Lock()
		f.session = session
		f.mu.Unlock()
	}
}

func (f *Forwarder) hasSession() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.session != ""
}

func (f *Forwarder) body(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, int64(f.cfg.AnswerBytes)+1))
	if err != nil {
		return nil, errors.New("mcp: the caller's MCP server broke off its answer: " + plainCause(err))
	}
	if len(b) > f.cfg.AnswerBytes {
		return nil, fmt.Errorf("mcp: the answer is above the limit of %d bytes", f.cfg.AnswerBytes)
	}
	return b, nil
}

// isAnswer reports whether b is a JSON-RPC answer.
func isAnswer(b []byte) bool {
	var m struct {
		JSONRPC string          `json:"jsonrpc"`
		Result  json.RawMessage `json:"result"`
		Error   json.RawMessage `json:"error"`
	}
	return json.Unmarshal(b, &m) == nil && m.JSONRPC == "2.0" && (m.Result != nil || m.Error != nil)
}

// tellCancelled tells the server that nobody waits any more (MCP, cancellation).
func (f *Forwarder) tellCancelled(payload []byte) {
	for _, id := range requestIDs(payload) {
		notice := append(append([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`), id...),
			`,"reason":"the run was ended or its time is up"}}`...)
		f.notify(http.MethodPost, notice)
	}
}

// notify sends something whose answer does not matter, within a bound.
func (f *Forwarder) notify(method string, payload []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), noticeTimeout)
	defer cancel()
	req, err := f.request(ctx, method, payload)
	if err != nil {
		return
	}
	if resp, err := f.client.Do(req); err == nil {
		_ = resp.Body.Close()
	}
}

// Close ends the session with the server, if there is one. The hub calls it once,
// when the run's tools are revoked.
func (f *Forwarder) Close() error {
	if f.hasSession() {
		f.notify(http.MethodDelete, nil)
	}
	f.client.CloseIdleConnections()
	return nil
}

// plainCause is an error's text without the URL, which may hold a secret.
func plainCause(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err.Error()
	}
	return err.Error()
}
