package control_test

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"codingrelay/control"
)

// DNS rebinding: a page whose own name points at the hub is refused by its Host,
// with the right token, and also where no token is needed.
func TestForgedHostIsRefused(t *testing.T) {
	h := open(t, setup{api: control.Options{Hosts: []string{"Relay.Example:8443"}}})
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(h.base, "http://"))
	for host, want := range map[string]int{
		"127.0.0.1:" + port: 200, "localhost:" + port: 200, "LOCALHOST.": 200, "[::1]:" + port: 200, "127.9.9.9": 200,
		"relay.example": 200, "RELAY.example:1": 200,
		"evil.example": 403, "evil.example:" + port: 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403,
		"192.0.2.7": 403, "[2001:db8::1]": 403, "0.0.0.0": 403, "relay.example@evil.example": 403,
	} {
		for _, path := range []string{"/v1/daemons", "/healthz"} {
			a := h.ask("GET", path, "", func(r *http.Request) { r.Host = host })
			if a.status != want {
				t.Errorf("GET %s with Host %q answered %d, want %d", path, host, a.status, want)
			}
		}
	}
}

// A web page's Origin is refused unless it is listed; the absence of one is no
// page's. CORS is granted to nobody.
func TestForeignOriginIsRefused(t *testing.T) {
	h := open(t, setup{api: control.Options{Origins: []string{"https://ops.example"}}})
	for _, origin := range []string{"http://evil.example", "null", "", "https://ops.example.evil.example", "http://ops.example", h.base} {
		for _, ask := range []struct{ method, path, body string }{{"GET", "/v1/runs", ""}, {"POST", "/v1/runs", `{}`}, {"GET", "/readyz", ""}} {
			a := h.ask(ask.method, ask.path, ask.body, func(r *http.Request) { r.Header["Origin"] = []string{origin} })
			if a.status != http.StatusForbidden {
				t.Errorf("%s %s with Origin %q answered %d, want 403", ask.method, ask.path, origin, a.status)
			}
		}
	}
	if a := h.ask("GET", "/v1/runs", "", header("Origin", "https://ops.example")); a.status != http.StatusOK {
		t.Errorf("a listed origin got %d", a.status)
	}
	both := func(r *http.Request) { r.Header["Origin"] = []string{"https://ops.example", "http://evil.example"} }
	if a := h.ask("GET", "/v1/runs", "", both); a.status != http.StatusForbidden {
		t.Errorf("a second, foreign Origin got %d", a.status)
	}
	a := h.ask("POST", "/v1/runs", `{}`, header("Sec-Fetch-Site", "cross-site"))
	h.wants(a, http.StatusForbidden, "forbidden")
	for _, a := range []answer{
		h.ask("GET", "/healthz", ""),
		h.ask("OPTIONS", "/v1/runs", "", noToken, header("Origin", "http://evil.example"), header("Access-Control-Request-Method", "POST")),
		h.ask("GET", "/v1/runs", "", header("Origin", "https://ops.example")),
	} {
		for name := range a.header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("answer %d grants CORS: %s", a.status, name)
			}
		}
		if a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Content-Security-Policy") == "" {
			t.Errorf("answer %d lacks nosniff or CSP", a.status)
		}
	}
}

// Options that would let everybody or nobody in are refused.
func TestUnusableListsAreRefused(t *testing.T) {
	for _, o := range []control.Options{
		{Token: apiToken, Origins: []string{"*"}},
		{Token: apiToken, Origins: []string{"https://ops.example/path"}},
		{Token: apiToken, Hosts: []string{"https://ops.example"}},
		{Token: apiToken, Hosts: []string{""}},
		{Token: apiToken, StallTimeout: -1},
		{Token: apiToken, MaxConnections: -1},
		{Token: ""},
		{Token: "two words"},
	} {
		if _, err := control.New(&hurt{}, o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// Section 7: unauthorized. No form of a wrong token gets in, and no answer holds
// the right one.
func TestOnlyTheTokenGetsIn(t *testing.T) {
	h := open(t, setup{})
	for name, set := range map[string]func(*http.Request){
		"none": noToken, "empty": header("Authorization", "Bearer "), "bare": header("Authorization", apiToken),
		"basic":  func(r *http.Request) { r.SetBasicAuth("relay", apiToken) },
		"prefix": header("Authorization", "Bearer "+apiToken[:len(apiToken)-1]),
		"longer": header("Authorization", "Bearer "+apiToken+"x"),
		"daemon": header("Authorization", "Bearer "+daemonToken),
		"twice":  func(r *http.Request) { r.Header.Add("Authorization", "Bearer x") },
		"query":  func(r *http.Request) { noToken(r); r.URL.RawQuery = "token=" + apiToken },
		"cookie": func(r *http.Request) { noToken(r); r.AddCookie(&http.Cookie{Name: "token", Value: apiToken}) },
	} {
		a := h.ask("GET", "/v1/runs", "", set)
		h.wants(a, http.StatusUnauthorized, "unauthorized")
		if a.header.Get("WWW-Authenticate") == "" || strings.Contains(a.body, apiToken) {
			t.Errorf("%s: answer has headers %v and body %s", name, a.header, a.body)
		}
	}
	if a := h.ask("GET", "/v1/runs", "", header("Authorization", "bearer   "+apiToken)); a.status != http.StatusOK {
		t.Errorf("the scheme in lower case got %d", a.status)
	}
}

// Guessing is limited by address; the right token always gets in.
func TestWrongTokensAreLimitedAndTheOwnerIsNot(t *testing.T) {
	h := open(t, setup{})
	limited := 0
	for range 30 {
		a := h.ask("GET", "/v1/runs", "", header("Authorization", "Bearer wrong"))
		if a.status == http.StatusTooManyRequests {
			limited++
			if a.header.Get("Retry-After") == "" || a.code(t) != "unauthorized" {
				t.Fatalf("answer is %v %s", a.header, a.body)
			}
		}
		if got := h.ask("GET", "/v1/runs", ""); got.status != http.StatusOK {
			t.Fatalf("the owner got %d", got.status)
		}
	}
	if limited < 19 || limited > 20 { // one more may come back in six seconds
		t.Errorf("%d of 30 wrong tokens were limited, want 20", limited)
	}
}

// The limit is per IPv4 address and per IPv6 /64, refills, and remembers a
// bounded number of addresses.
func TestLoginLimitFollowsTheAddress(t *testing.T) {
	fail, now := control.FailLogin(), time.Unix(1e9, 0)
	use := func(remote string, n int) (refused int) {
		for range n {
			if fail(now, remote) > 0 {
				refused++
			}
		}
		return refused
	}
	for _, step := range []struct {
		remote        string
		tries, refuse int
	}{
		{"192.0.2.1:1", 12, 2},
		{"192.0.2.1:2", 1, 1},
		{"192.0.2.2:1", 10, 0},
		{"[::ffff:192.0.2.1]:3", 1, 1}, // the same, mapped
		{"[2001:db8::1]:1", 10, 0},
		{"[2001:db8::2]:1", 1, 1}, // the same /64
		{"[2001:db8:0:1::1]:1", 1, 0},
	} {
		if got := use(step.remote, step.tries); got != step.refuse {
			t.Errorf("%s: %d of %d refused, want %d", step.remote, got, step.tries, step.refuse)
		}
	}
	if wait := fail(now, "192.0.2.1:1"); wait <= 0 || wait > 6*time.Second {
		t.Errorf("wait is %v, want up to 6s", wait)
	}
	now = now.Add(6 * time.Second)
	if got := use("192.0.2.1:1", 2); got != 1 {
		t.Errorf("after 6s %d of 2 refused, want 1", got)
	}
	for i := range 5000 { // fills the memory; then strangers share a bucket
		fail(now, net.JoinHostPort(net.IPv4(10, 1, byte(i>>8), byte(i)).String(), "1"))
	}
	if got := use("198.51.100.7:1", 3); got != 3 {
		t.Errorf("beyond the memory %d of 3 refused, want 3", got)
	}
	now = now.Add(time.Hour)
	if got := use("198.51.100.7:1", 3); got != 0 {
		t.Errorf("an hour later %d of 3 refused, want 0", got)
	}
}
