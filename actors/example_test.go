package actors_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/anthdm/hollywood/actor"
	"github.com/coder/websocket"

	"codingrelay/actors"
	"codingrelay/persist"
	"codingrelay/transport"
)

// exampleDaemon stands for a daemon somewhere behind NAT: it dials, answers each
// run with one event, and acknowledges its end when it is cancelled.
func exampleDaemon(ctx context.Context, addr, id string) {
	conn, _, err := websocket.Dial(ctx, "ws://"+addr, nil)
	if err != nil {
		log.Fatal(err)
	}
	write := func(format string, args ...any) {
		_ = conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, format, args...))
	}
	write(`{"type":"daemon.hello","daemon_id":%q,"token":%q,"protocol":"coding-relay-v1"}`, id, token)
	for {
		_, data, err := conn.Read(ctx)
		if err != nil {
			return
		}
		var f struct {
			Type  string `json:"type"`
			JobID string `json:"job_id"`
		}
		if json.Unmarshal(data, &f) != nil {
			continue
		}
		switch f.Type {
		case "run.start":
			write(`{"type":"run.event","job_id":%q,"event":{"type":"hello"}}`, f.JobID)
		case "run.cancel":
			write(`{"type":"run.finished","job_id":%q}`, f.JobID)
		}
	}
}

// A program embeds the hub: it gives it a store and a listener, waits for a
// daemon, runs something there, reads its events live, and cancels it. The cancel
// returns when everything the run started is gone.
func ExampleStart() {
	ctx := context.Background()
	listener := actors.ListenerFunc(func(ctx context.Context, addr string, accept actors.Accept) (actors.Listening, error) {
		return transport.Listen(ctx, addr, transport.ListenConfig{}, transport.Accept(accept))
	})
	hub, err := actors.Start(nil, actors.Config{}, actors.Ports{Store: persist.NewMemory(), Listener: listener})
	if err != nil {
		log.Fatal(err)
	}
	addr, err := hub.Listen(ctx, actors.ListenConfig{Host: "127.0.0.1", Token: token})
	if err != nil {
		log.Fatal(err)
	}
	go exampleDaemon(ctx, addr, "laptop")
	if _, err := hub.WaitForDaemon(ctx, "laptop"); err != nil {
		log.Fatal(err)
	}
	run, err := hub.Run(ctx, actors.RunRequest{DaemonID: "laptop", Payload: []byte(`{"prompt_text":"hi"}`)})
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range run.Events(ctx, 0) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ev.Seq, string(ev.Data))
		break
	}
	out, err := run.Cancel(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Result, "clean:", out.Clean, "durable:", out.Durable)
	if err := hub.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1 {"type":"hello"}
	// cancelled clean: true durable: false
}

// A program with actors of its own gives the hub its engine; the hub's actors run
// beside them and leave nothing behind when they stop.
func ExampleStart_hostEngine() {
	ctx := context.Background()
	engine, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		log.Fatal(err)
	}
	greeted := make(chan string)
	mine := engine.SpawnFunc(func(c *actor.Context) {
		if name, ok := c.Message().(string); ok {
			greeted <- "hello " + name
		}
	}, "greeter")
	hub, err := actors.Start(engine, actors.Config{}, actors.Ports{Store: persist.NewMemory(), Listener: sockets()})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := hub.Listen(ctx, actors.ListenConfig{Host: "127.0.0.1", Token: token}); err != nil {
		log.Fatal(err)
	}
	if err := hub.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	engine.Send(mine, "again")
	fmt.Println(<-greeted)
	// Output:
	// hello again
}
