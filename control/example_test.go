package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/coder/websocket"

	"codingrelay/actors"
	"codingrelay/control"
	"codingrelay/persist"
)

// exampleDaemon stands for a daemon: it answers each run with one event and
// acknowledges its end when it is cancelled.
func exampleDaemon(ctx context.Context, addr string) {
	conn, _, err := websocket.Dial(ctx, "ws://"+addr, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow() // the hub has closed it, or the example is over
	write := func(format string, args ...any) {
		_ = conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, format, args...))
	}
	write(`{"type":"daemon.hello","daemon_id":"laptop","token":"","protocol":"coding-relay-v1"}`)
	for {
		_, data, err := conn.Read(ctx)
		var f frame
		if err != nil || json.Unmarshal(data, &f) != nil {
			return
		}
		switch f.Type {
		case "run.start":
			write(`{"type":"run.event","job_id":%q,"event":{"type":"hello"}}`, f.JobID)
		case "run.cancel":
			write(`{"type":"run.finished","job_id":%q}`, f.JobID)
		}
	}
}

// A program serves the API over its hub; another one, here the same, starts a run
// as its caller, reads its events live, and cancels it. The cancel returns when
// everything the run started is gone.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	hub, err := actors.Start(nil, actors.Config{}, actors.Ports{Store: persist.NewMemory(), Listener: sockets()})
	if err != nil {
		log.Fatal(err)
	}
	token := control.NewToken()
	api, err := control.New(hub, control.Options{Token: token})
	if err != nil {
		log.Fatal(err)
	}
	at, err := api.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	daemons, err := hub.Listen(ctx, actors.ListenConfig{Host: "127.0.0.1"})
	if err != nil {
		log.Fatal(err)
	}
	go exampleDaemon(ctx, daemons)

	client := control.NewClient("http://"+at.String(), token)
	defer client.Close()
	stream, err := client.StartAttached(ctx, control.RunRequest{
		DaemonID: "laptop", Payload: json.RawMessage(`{"prompt_text":"hi"}`), WaitMS: 10_000,
	})
	if err != nil {
		log.Fatal(err)
	}
	for e, err := range stream.Events() {
		switch {
		case err != nil:
			log.Fatal(err)
		case e.Kind == control.KindEvent:
			fmt.Println(e.Seq, string(e.Data))
			if _, err := client.Cancel(ctx, stream.Run.RunID); err != nil {
				log.Fatal(err)
			}
		case e.Kind == control.KindEnd:
			fmt.Println(e.Outcome.Result, "clean:", e.Outcome.Clean)
		}
	}
	_ = hub.Stop(ctx)
	_ = api.Shutdown(ctx)
	// Output:
	// 1 {"type":"hello"}
	// cancelled clean: true
}
