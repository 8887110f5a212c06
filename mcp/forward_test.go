package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func forwarder(t *testing.T, cfg ForwardConfig) *Forwarder {
	t.Helper()
	f, err := NewForwarder(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// sdkServer is a real MCP server, the official SDK's.
func sdkServer(t *testing.T) *httptest.Server {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	type in struct {
		Text string `json:"text"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "echo", Description: "says it again"}, func(_ context.Context, _ *sdk.CallToolRequest, a in) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: a.Text}}}, nil, nil
	})
	s := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(s.Close)
	return s
}

// Protocol 4.7 with a real server: the handshake, a list, a call, a notification,
// and string and number ids back.
func TestForwarderTalksToARealServer(t *testing.T) {
	f := forwarder(t, ForwardConfig{URL: sdkServer(t).URL})
	ctx := testContext(t)
	for _, step := range []struct{ send, want string }{
		{`{"jsonrpc":"2.0","id":"a/1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`, `"a/1"`},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, ""},
		{`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, `"echo"`},
		{`{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"echo","arguments":{"text":"héllo"}}}`, "héllo"},
	} {
		answer, err := f.Call(ctx, []byte(step.send))
		if err != nil {
			t.Fatalf("%s: %v", step.send, err)
		}
		if step.want == "" && answer != nil || !strings.Contains(string(answer), step.want) {
			t.Errorf("%s\nanswered with %s, want %s", step.send, answer, step.want)
		}
	}
	if !f.hasSession() || f.protocol != "2025-06-18" {
		t.Errorf("session %t, protocol %q", f.hasSession(), f.protocol)
	}
}

// handler is a server in the test's hands.
func handler(t *testing.T, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// A stream may hold other messages before the answer; they have nowhere to go.
func TestForwarderFindsTheAnswerInAStream(t *testing.T) {
	url := handler(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, ": hi\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n"+
			"data: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\r\n\r\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{\"x\":1}}\n\n")
	})
	answer, err := forwarder(t, ForwardConfig{URL: url}).Call(testContext(t), []byte(`{"jsonrpc":"2.0","id":1,"method":"x"}`))
	if err != nil || !strings.Contains(string(answer), `"x":1`) || !json.Valid(answer) {
		t.Errorf("answer %s, %v", answer, err)
	}
}

// Whatever a server does, the caller gets an error that says what it was, and no
// secret is in it.
func TestForwarderNamesWhatTheServerDid(t *testing.T) {
	for name, tt := range map[string]struct {
		h    http.HandlerFunc
		want string
	}{
		"status":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, "418"},
		"not_json":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, "not JSON"},
		"too_long":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte("x"), 5000)) }, "above the limit"},
		"no_answer": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/event-stream") }, "without an answer"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
		}, "307"},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
		}, "broke off"},
	} {
		t.Run(name, func(t *testing.T) {
			f := forwarder(t, ForwardConfig{URL: handler(t, tt.h) + "/?key=s3cret", AnswerBytes: 4096, Headers: map[string]string{"Authorization": "Bearer s3cret"}})
			answer, err := f.Call(testContext(t), []byte(`{"jsonrpc":"2.0","id":1,"method":"x"}`))
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("answer %s, error %v, want %q", answer, err, tt.want)
			}
		})
	}
	f := forwarder(t, ForwardConfig{URL: "http://127.0.0.1:1/?key=s3cret"})
	if _, err := f.Call(testContext(t), []byte(`{}`)); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("unreachable: %v", err)
	}
}

// D22: when the caller is gone the upstream is told, by the request's own id.
func TestForwarderTellsTheServerOfACancel(t *testing.T) {
	entered, cancelled := make(chan struct{}), make(chan string, 1)
	url := handler(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte("notifications/cancelled")) {
			cancelled <- string(body)
			w.WriteHeader(http.StatusAccepted)
			return
		}
		close(entered)
		<-r.Context().Done()
	})
	f := forwarder(t, ForwardConfig{URL: url})
	ctx, cancel := context.WithCancel(testContext(t))
	go func() { <-entered; cancel() }()
	if _, err := f.Call(ctx, []byte(`{"jsonrpc":"2.0","id":"q-7","method":"slow"}`)); err == nil {
		t.Fatal("a cancelled call has no error")
	}
	if notice := <-cancelled; !strings.Contains(notice, `"requestId":"q-7"`) {
		t.Errorf("the server was told %s", notice)
	}
}

// Closing ends the session that the server gave.
func TestCloseEndsTheSession(t *testing.T) {
	deleted := make(chan string, 1)
	url := handler(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			deleted <- r.Header.Get("Mcp-Session-Id")
			return
		}
		w.Header().Set("Mcp-Session-Id", "s1")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
	f := forwarder(t, ForwardConfig{URL: url})
	if _, err := f.Call(testContext(t), []byte(`{"jsonrpc":"2.0","id":1,"method":"x"}`)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if id := <-deleted; id != "s1" {
		t.Errorf("session %q was ended, want s1", id)
	}
}

// A configuration that cannot work is refused before anything is dialled.
func TestForwarderRefusesBadConfiguration(t *testing.T) {
	for name, cfg := range map[string]ForwardConfig{
		"empty": {}, "scheme": {URL: "file:///etc/passwd"}, "no_host": {URL: "http://"}, "relative": {URL: "/mcp"},
		"header_value": {URL: "http://x", Headers: map[string]string{"X": "a\r\nY: b"}},
		"header_name":  {URL: "http://x", Headers: map[string]string{"a b": "c"}},
		"hop_header":   {URL: "http://x", Headers: map[string]string{"host": "elsewhere"}},
	} {
		if _, err := NewForwarder(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// The event reader never fails on bytes a server may send, and keeps its limit.
func FuzzEventReader(f *testing.F) {
	f.Add([]byte("data: {}\n\n"))
	f.Add([]byte("event: x\r\ndata:1\r\ndata: 2\r\n\r\n:c\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e := newEventReader(bytes.NewReader(b), 64)
		for {
			data, err := e.next()
			if err != nil {
				if !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "limit") {
					t.Fatal(err)
				}
				return
			}
			if len(data) > 64 {
				t.Fatalf("%d bytes of data", len(data))
			}
		}
	})
}
