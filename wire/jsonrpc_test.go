package wire

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

// asked is a payload of an mcp.request and the ids its errors carry: "none" when
// it is owed no answer, "[…]" when it is answered by a batch.
var asked = map[string]struct{ payload, ids string }{
	"request":             {`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `1`},
	"id_text":             {`{"jsonrpc":"2.0","id":"1","method":"ping"}`, `"1"`},
	"id_zero":             {`{"id":0,"method":"ping"}`, `0`},
	"id_float":            {`{"id":1.0,"method":"ping"}`, `1.0`},
	"id_exponent":         {`{"id":-1.50e+3,"method":"ping"}`, `-1.50e+3`},
	"id_large":            {`{"id":12345678901234567890,"method":"ping"}`, `12345678901234567890`},
	"id_escaped":          {`{"id":"\u0061\/\"","method":"ping"}`, `"\u0061\/\""`},
	"id_empty":            {`{"id":"","method":"ping"}`, `""`},
	"id_last":             {` { "method" : "ping" , "id" : 7 } `, `7`},
	"id_null":             {`{"id":null,"method":"ping"}`, `null`},
	"id_true":             {`{"id":true,"method":"ping"}`, `null`},
	"id_object":           {`{"id":{},"method":"ping"}`, `null`},
	"id_array":            {`{"id":[1],"method":"ping"}`, `null`},
	"id_twice":            {`{"id":1,"id":2,"method":"ping"}`, `null`},
	"id_in_params":        {`{"method":"ping","params":{"id":1}}`, `none`},
	"id_in_capitals":      {`{"ID":1,"method":"ping"}`, `none`},
	"notification":        {`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `none`},
	"response":            {`{"jsonrpc":"2.0","id":"srv-1","result":{}}`, `none`},
	"error_response":      {`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`, `none`},
	"no_method":           {`{"jsonrpc":"2.0","id":3}`, `3`},
	"empty_object":        {`{}`, `null`},
	"method_number":       {`{"jsonrpc":"2.0","method":1}`, `null`},
	"text":                {`"ping"`, `null`},
	"number":              {`1`, `null`},
	"null":                {`null`, `null`},
	"empty":               {``, `null`},
	"white_space":         {" \n", `null`},
	"broken":              {`{"jsonrpc":"2.0","id":4,`, `null`},
	"two":                 {`{"id":4,"method":"a"}{"id":5,"method":"b"}`, `null`},
	"bad_utf8":            {"{\"id\":4,\"method\":\"\xff\"}", `null`},
	"batch":               {`[{"id":1,"method":"a"},{"id":"2","method":"b"}]`, `[1 "2"]`},
	"batch_of_one":        {` [ {"id":1.0,"method":"a"} ] `, `[1.0]`},
	"batch_mixed":         {`[{"method":"n"},{"id":1,"method":"a"},{"id":9,"result":1},{"method":"n"}]`, `[1]`},
	"batch_notifications": {`[{"method":"n"},{"method":"n"}]`, `none`},
	"batch_invalid":       {`[1,{"id":2,"method":"a"},[]]`, `[null 2 null]`},
	"batch_empty":         {`[]`, `null`},
	"batch_empty_spaced":  {"[ \n]", `null`},
	"batch_broken":        {`[{"id":1,"method":"a"},`, `null`},
	"batch_trailing":      {`[{"id":1,"method":"a"}]]`, `null`},
	"batch_comma":         {`[{"method":"a"},]`, `null`},
	"batch_too_deep":      {strings.Repeat("[", 600) + strings.Repeat("]", 600), `null`},
	"batch_too_large":     {"[" + strings.Repeat("1,", 20_000) + "1]", `null`},
}

// ids gives the id tokens of an answer, in the notation of [asked].
func ids(t *testing.T, answer []byte) string {
	t.Helper()
	type rpcError struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if string(answer) == "null" {
		return "none"
	}
	var list []rpcError
	batch := answer[0] == '['
	if !batch {
		answer = []byte("[" + string(answer) + "]")
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		t.Fatalf("answer %s: %v", answer, err)
	}
	var said []string
	for _, e := range list {
		if e.JSONRPC != "2.0" || e.Error.Code != -32000 || e.Error.Message != `tools "gone"` {
			t.Errorf("answer %s", answer)
		}
		said = append(said, string(e.ID))
	}
	if batch {
		return "[" + strings.Join(said, " ") + "]"
	}
	return said[0]
}

// Protocol sections 1, 4 and 8, JSON-RPC 2.0 sections 4 to 6, case D19: an error
// carries the request's id token byte for byte, and notifications get none.
func TestJSONRPCErrorsEchoIDs(t *testing.T) {
	for name, tt := range asked {
		t.Run(name, func(t *testing.T) {
			answer := JSONRPCErrors([]byte(tt.payload), -32000, `tools "gone"`)
			if got := ids(t, answer); got != tt.ids {
				t.Errorf("payload %.80s: ids %s, want %s", tt.payload, got, tt.ids)
			}
			if got := JSONRPCNotification([]byte(tt.payload)); got != (tt.ids == "none") {
				t.Errorf("payload %.80s: notification %t", tt.payload, got)
			}
		})
	}
}

// I14: an answer is bounded whatever was asked.
func TestJSONRPCErrorsAreBounded(t *testing.T) {
	batch := []byte("[" + strings.Repeat(`{"id":1,"method":"a"},`, 4000) + `{"id":1,"method":"a"}]`)
	if n := len(JSONRPCErrors(batch, -32000, "x")); n < 4000*50 || n > maxErrors {
		t.Errorf("4,001 requests were answered with %d bytes", n)
	}
	batch = []byte("[" + strings.Repeat("1,", 4<<20) + "1]")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	answer := JSONRPCErrors(batch, -32000, "x")
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; len(answer) > 100 || took > 64*maxErrors {
		t.Errorf("4 million elements were answered with %d bytes, made with %d", len(answer), took)
	}
	if answer := JSONRPCErrors(nil, -32000, "x"); !bytes.Contains(answer, []byte(`"id":null`)) {
		t.Errorf("no payload was answered with %s", answer)
	}
}
