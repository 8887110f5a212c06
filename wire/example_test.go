package wire_test

import (
	"fmt"

	"codingrelay/wire"
)

// A message becomes a frame only whole: the same message without its last byte
// says nothing but whose it was.
func ExampleDecoder() {
	msg := wire.AppendEvent(nil, "run-1", []byte(`{"type":"output","data":{"stream":"stdout","text":"hi"}}`))
	d := wire.NewDecoder()
	f := d.Decode(msg)
	fmt.Printf("%v of %s: %s\n", f.Type, f.JobID, f.Body)
	f = d.Decode(msg[:len(msg)-1])
	fmt.Printf("%v of %s: %s\n", f.Type, f.JobID, f.Why)
	// Output:
	// run.event of run-1: {"type":"output","data":{"stream":"stdout","text":"hi"}}
	// ignored of run-1: cut short: the JSON does not end
}

// The first frame is judged, whatever it is, and a refusal is a close reason.
func ExampleParseHello() {
	d := wire.NewDecoder()
	h, err := wire.ParseHello(d.Decode([]byte(`{"type":"daemon.hello","daemon_id":" laptop ","token":"s3cret","protocol":"coding-relay-v1"}`)))
	fmt.Println(h, err)
	_, err = wire.ParseHello(d.Decode([]byte(`{"type":"daemon.ping"}`)))
	fmt.Println(wire.CutReason(err.Error()))
	// Output:
	// hello of "laptop", "coding-relay-v1", 0 bytes of metadata, extensions [] <nil>
	// first frame is daemon.ping: send daemon.hello first
}

// What cannot be answered by a tool is answered by an error under the same id.
func ExampleJSONRPCErrors() {
	request := []byte(`{"jsonrpc":"2.0","id":7.0,"method":"tools/call"}`)
	fmt.Printf("%s\n", wire.JSONRPCErrors(request, -32000, "the tools of this run are revoked"))
	// Output: {"jsonrpc":"2.0","id":7.0,"error":{"code":-32000,"message":"the tools of this run are revoked"}}
}
