package actors_test

import (
	"net"
	"strings"
	"sync"
	"testing"

	"codingrelay/actors"
	"codingrelay/persist"
)

// I10, protocol 7: any number of concurrent starts with one configuration open
// one listener; another configuration is refused and changes nothing.
func TestConcurrentStartsOpenOneListener(t *testing.T) {
	h := start(t, persist.NewMemory(), actors.Config{})
	cfg := actors.ListenConfig{Host: "127.0.0.1", Token: token}
	addrs := make([]string, 8)
	var wg sync.WaitGroup
	for i := range addrs {
		wg.Go(func() {
			addr, err := h.Listen(testContext(t), cfg)
			if err != nil {
				t.Errorf("start %d: %v", i, err)
			}
			addrs[i] = addr
		})
	}
	wg.Wait()
	for _, a := range addrs {
		if a != addrs[0] {
			t.Fatalf("two listeners: %v", addrs)
		}
	}
	for name, other := range map[string]actors.ListenConfig{
		"another_token": {Host: "127.0.0.1", Token: token + "x"},
		"another_host":  {Host: "localhost", Token: token},
		"another_port":  {Host: "127.0.0.1", Port: 1, Token: token},
	} {
		_, err := h.Listen(testContext(t), other)
		e := refused(t, err, actors.CodeHubConflict)
		if !strings.Contains(e.Message, "already started") || !strings.Contains(e.Message, "config") {
			t.Errorf("%s: message %q lacks the words existing users match", name, e.Message)
		}
		if strings.Contains(err.Error(), token) {
			t.Errorf("%s: the error shows a token", name)
		}
	}
	connect(t, addrs[0], "still-there", token)
}

// Protocol 7: the shared profile demands a strong token and a durable store;
// without a token only loopback is listened on.
func TestWeakTokensAreRefused(t *testing.T) {
	durable := start(t, folder(t, t.TempDir()), actors.Config{})
	memory := start(t, persist.NewMemory(), actors.Config{})
	for name, weak := range map[string]string{
		"empty": "", "short": "short", "one_letter": strings.Repeat("a", 40), "padded": " " + token,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := durable.Listen(testContext(t), actors.ListenConfig{Host: "127.0.0.1", Token: weak, Shared: true})
			if e := refused(t, err, actors.CodeTokenRequired); !strings.Contains(e.Message, "token") {
				t.Errorf("message %q does not say token", e.Message)
			}
		})
	}
	_, err := memory.Listen(testContext(t), actors.ListenConfig{Host: "127.0.0.1", Token: token, Shared: true})
	refused(t, err, actors.CodeInvalidRequest)
	_, err = memory.Listen(testContext(t), actors.ListenConfig{Host: "0.0.0.0"})
	refused(t, err, actors.CodeTokenRequired)
	if _, err = durable.Listen(testContext(t), actors.ListenConfig{Host: "127.0.0.1", Token: token, Shared: true}); err != nil {
		t.Errorf("a strong token was refused: %v", err)
	}
}

// Protocol 7: a port in use names host:port and what to do, and the hub can be
// started on another one.
func TestBusyPortNamesTheFix(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }()
	h := start(t, persist.NewMemory(), actors.Config{})
	_, err = h.Listen(testContext(t), actors.ListenConfig{Host: "127.0.0.1", Port: busy.Addr().(*net.TCPAddr).Port})
	e := refused(t, err, actors.CodeBindFailed)
	if !strings.Contains(e.Message, busy.Addr().String()) || !strings.Contains(e.Message, "unique daemon-port") {
		t.Errorf("message %q lacks the address or the fix", e.Message)
	}
	if _, err := h.Listen(testContext(t), actors.ListenConfig{Host: "127.0.0.1"}); err != nil {
		t.Errorf("after a failed start: %v", err)
	}
}

// Protocol 3.2: each refusal of a hello is 1008 with a reason that says what to do.
func TestBadHellosAreRefused(t *testing.T) {
	h := open(t, persist.NewMemory(), actors.Config{})
	for name, tt := range map[string]struct{ hello, reason string }{
		"no_protocol":    {`{"type":"daemon.hello","daemon_id":"a","token":"` + token + `"}`, "upgrade"},
		"other_protocol": {`{"type":"daemon.hello","daemon_id":"a","token":"` + token + `","protocol":"coding-relay-v2"}`, "coding-relay-v1"},
		"wrong_token":    {`{"type":"daemon.hello","daemon_id":"a","token":"nope","protocol":"coding-relay-v1"}`, "token"},
		"no_token":       {`{"type":"daemon.hello","daemon_id":"a","protocol":"coding-relay-v1"}`, "token"},
		"no_id":          {`{"type":"daemon.hello","token":"` + token + `","protocol":"coding-relay-v1"}`, "daemon_id"},
		"long_id":        {`{"type":"daemon.hello","daemon_id":"` + strings.Repeat("é", 129) + `","token":"` + token + `","protocol":"coding-relay-v1"}`, "daemon_id"},
		"not_a_hello":    {`{"type":"daemon.ping"}`, "daemon.hello"},
		"not_json":       {`hello`, "daemon.hello"},
	} {
		t.Run(name, func(t *testing.T) {
			p := dial(t, h.addr)
			p.send("%s", tt.hello)
			ce := p.closed()
			if ce.Code != 1008 || !strings.Contains(ce.Reason, tt.reason) || len(ce.Reason) > 123 {
				t.Errorf("closed with %d %q, want 1008 and %q", ce.Code, ce.Reason, tt.reason)
			}
			if strings.Contains(ce.Reason, token) || strings.Contains(ce.Reason, "nope") {
				t.Errorf("the reason shows a token: %q", ce.Reason)
			}
		})
	}
	if d, err := h.Daemons(testContext(t)); err != nil || len(d) != 0 {
		t.Errorf("daemons are %v, %v, want none", d, err)
	}
}
