package control_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"codingrelay/control"
)

// A mistyped or doubled field, and whatever is no request, starts nothing: no
// answer is a success, and the daemon hears of none.
func TestBadRunRequestsAreRefused(t *testing.T) {
	h := open(t, setup{})
	p := h.connect("d")
	for _, body := range []string{
		``, ` `, `null`, `[]`, `"x"`, `{`, `{"daemon_id":"d","payload":{}`, `{"daemon_id":"d","payload":{}}x`, `{"daemon_id":"d","payload":{}}{}`,
		"\ufeff" + `{"daemon_id":"d","payload":{}}`, `{"daemon_id":"d","payload":{},}`, `{'daemon_id':'d'}`,
		`{"payload":{}}`, `{"daemon_id":"d"}`, `{"daemon_id":"d","payload":null}`, `{"daemon_id":"d","payload":[]}`, `{"daemon_id":"d","payload":"{}"}`,
		`{"daemon_id":1,"payload":{}}`, `{"daemon_id":"","payload":{}}`, `{"daemon_id":" ","payload":{}}`, `{"daemon_id":"a\u0001","payload":{}}`,
		`{"daemon_id":"` + strings.Repeat("d", 129) + `","payload":{}}`,
		`{"daemon_id":"d","payload":{},"timeout":5}`, `{"daemon_id":"d","payload":{},"Timeout_ms":5}`, `{"DAEMON_ID":"d","payload":{}}`,
		`{"daemon_id":"d","payload":{},"payload":{}}`, `{"daemon_id":"d","daemon_id":"d","payload":{}}`, `{"daemon_id":"d","payload":{"a":1,"a":2}}`,
		`{"daemon_id":"d","payload":{},"timeout_ms":-1}`, `{"daemon_id":"d","payload":{},"timeout_ms":1.5}`, `{"daemon_id":"d","payload":{},"timeout_ms":"5"}`,
		`{"daemon_id":"d","payload":{},"timeout_ms":9223372036854775807}`, `{"daemon_id":"d","payload":{},"timeout_ms":1e99}`,
		`{"daemon_id":"d","payload":{},"wait_ms":-1}`, `{"daemon_id":"d","payload":{},"wait_ms":86400001}`,
		`{"daemon_id":"d","payload":{},"on_disconnect":"ignore"}`, `{"daemon_id":"d","payload":{},"on_overflow":"block"}`,
		`{"daemon_id":"d","payload":{},"tools":{"mcp_url":"http://127.0.0.1:1"}}`, `{"daemon_id":"d","payload":{},"tools":{}}`, `{"daemon_id":"d","payload":{},"tools":false}`,
		`{"daemon_id":"d","payload":{},"idempotency_key":"` + strings.Repeat("k", 256) + `"}`, `{"daemon_id":"d","payload":{},"idempotency_key":5}`,
		"{\"daemon_id\":\"d\xff\",\"payload\":{}}", `{"daemon_id":"d\ud800","payload":{}}`, "{\"daemon_id\":\"d\",\"payload\":{\"x\":\"\xff\"}}",
		`{"daemon_id":"d","payload":` + strings.Repeat(`{"a":`, 600) + `1` + strings.Repeat(`}`, 601),
	} {
		a := h.ask("POST", "/v1/runs", body, header("Content-Type", "application/json"))
		if a.status != http.StatusBadRequest || a.code(t) != "invalid_request" {
			t.Errorf("%.80q answered %d %s", body, a.status, a.body)
		}
	}
	if runs, err := h.client.Runs(testContext(t)); err != nil || len(runs) != 0 {
		t.Errorf("runs are %v, %v", runs, err)
	}
	p.send(`{"type":"daemon.ping"}`)
	p.expect("daemon.pong") // and nothing before it
}

// What a request says wrong is named, what it holds is not repeated.
func TestRefusalNamesTheFieldAndNoValue(t *testing.T) {
	h := open(t, setup{})
	for body, want := range map[string]string{
		`{"daemon_id":"d","payload":{},"timeuot_ms":12345678}`:             "/timeuot_ms",
		`{"daemon_id":"d","payload":{"k":"s3cret"},"payload":{}}`:          "/payload",
		`{"daemon_id":"d","payload":{},"timeout_ms":"s3cret"}`:             "/timeout_ms",
		`{"daemon_id":"d","payload":{},"tools":{"x":"s3cret"}}`:            "not available yet",
		`{"daemon_id":"d","payload":{"k":"s3cret"`:                         "does not end",
		`{"` + strings.Repeat("x", 9999) + `":1}`:                          "…",
		`{"daemon_id":"d","payload":{},"on_overflow":"s3cret"}`:            "on_overflow is",
		`{"daemon_id":"d","payload":{"k":tru}}`:                            "/payload",
		`{"daemon_id":"d","payload":{},"wait_ms":99999999999,"a\u0007":1}`: "unknown field",
	} {
		a := h.ask("POST", "/v1/runs", body)
		if !strings.Contains(a.body, want) || strings.Contains(a.body, "s3cret") || len(a.body) > 500 {
			t.Errorf("%.80q answered %s, want it to say %q", body, a.body, want)
		}
	}
}

// A form, a compressed body and a body above the limit are refused; a GET takes
// none.
func TestBodiesOfAnotherKindAreRefused(t *testing.T) {
	h := open(t, setup{})
	const good = `{"daemon_id":"d","payload":{}}`
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json; charset=latin1", "application/jsonx", ""} {
		h.wants(h.ask("POST", "/v1/runs", good, header("Content-Type", kind)), 400, "invalid_request")
	}
	h.wants(h.ask("POST", "/v1/runs", good, header("Content-Type", "application/json; charset=UTF-8")), 503, "daemon_offline")
	h.wants(h.ask("POST", "/v1/runs", good, header("Content-Encoding", "gzip")), 400, "invalid_request")
	h.wants(h.ask("GET", "/v1/runs/x/events", good), 400, "invalid_request")
	h.wants(h.ask("POST", "/v1/runs", "", tooLarge, header("Content-Type", "application/json")), 413, "payload_too_large")
	chunked := func(r *http.Request) { r.ContentLength = -1 }
	huge := good + strings.Repeat(" ", control.BodyMax)
	h.wants(h.ask("POST", "/v1/runs", huge, chunked), 413, "payload_too_large")
	// A body may be as large as the limit says; then the hub's own limit speaks.
	fits := fmt.Sprintf(`{"daemon_id":"d","payload":{"x":%q}}`, strings.Repeat("x", control.BodyMax-100))
	h.wants(h.ask("POST", "/v1/runs", fits), 413, "payload_too_large")
}

// FuzzRunRequest holds the decoder to a promise: a body that is taken says, read
// by a decoder of another kind, exactly what the API took it for.
func FuzzRunRequest(f *testing.F) {
	for _, seed := range []string{
		`{"daemon_id":"d","payload":{}}`, `{"daemon_id":"d","payload":{"a":[1e400,-0,"\u0041"]},"timeout_ms":0,"wait_ms":5}`,
		`{"daemon_id":"d","payload":{},"tools":null,"on_disconnect":"continue","on_overflow":"cancel","idempotency_key":"k"}`,
		`{"daemon_id":"d","payload":{},"payload":{}}`, `{"Daemon_id":"d"}`, `{`, `null`, "\ufeff{}",
	} {
		f.Add([]byte(seed))
	}
	decode, err := control.Decoder()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, refusal := decode(body)
		if refusal != nil {
			if refusal.Status != http.StatusBadRequest || refusal.Message == "" || len(refusal.Message) > 500 {
				t.Fatalf("%q is refused with %+v", body, refusal)
			}
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("%q is taken, and is no object: %v", body, err)
		}
		var id string
		if err := json.Unmarshal(want["daemon_id"], &id); err != nil || id != got.DaemonID {
			t.Fatalf("%q: daemon_id is %q, want %q", body, got.DaemonID, id)
		}
		if string(got.Payload) != string(want["payload"]) {
			t.Fatalf("%q: payload is %q, want it verbatim: %q", body, got.Payload, want["payload"])
		}
		for name := range want {
			switch name {
			case "daemon_id", "payload", "timeout_ms", "wait_ms", "tools", "on_disconnect", "on_overflow", "idempotency_key":
			default:
				t.Fatalf("%q is taken with an unknown field %q", body, name)
			}
		}
		if got.Wait < 0 || got.Timeout < -1 {
			t.Fatalf("%q: times are %v and %v", body, got.Wait, got.Timeout)
		}
	})
}
