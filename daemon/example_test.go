package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"os"

	"codingrelay/actors"
	"codingrelay/containment"
	"codingrelay/daemon"
	"codingrelay/persist"
	"codingrelay/transport"
	"codingrelay/wire"
)

// memory is a hub's listener that daemons of the same process reach without a
// network.
type memory struct{ accept actors.Accept }

func (m *memory) Listen(_ context.Context, _ string, accept actors.Accept) (actors.Listening, error) {
	m.accept = accept
	return m, nil
}
func (m *memory) Addr() net.Addr { return &net.TCPAddr{} }
func (m *memory) Close() error   { return nil }

// dial is a daemon's way to it.
func (m *memory) dial(_ context.Context, open func(wire.Link) wire.Sink) error {
	return transport.Pipe(transport.Limits{}, transport.Accept(m.accept), open)
}

// startMemoryHub starts a hub and its door.
func startMemoryHub(ctx context.Context) (*actors.Hub, *memory) {
	door := &memory{}
	hub, err := actors.Start(nil, actors.Config{}, actors.Ports{Store: persist.NewMemory(), Listener: door})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := hub.Listen(ctx, actors.ListenConfig{Host: "127.0.0.1"}); err != nil {
		log.Fatal(err)
	}
	return hub, door
}

// greet is a runner: it reads its payload, starts a process in the run's
// containment, and emits what that said.
func greet(ctx context.Context, job *daemon.Job) error {
	var p struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(job.Payload, &p); err != nil {
		return &daemon.Failure{Code: "greet.payload", Text: "the payload needs a name"}
	}
	tree, err := job.Command(containment.Spec{Argv: []string{"echo", "hello", p.Name}, Dir: "/"})
	if err != nil {
		return err
	}
	said, err := io.ReadAll(tree.Stdout())
	if err != nil {
		return err
	}
	event, err := json.Marshal(map[string]any{"type": "greeting", "data": string(said)})
	if err != nil {
		return err
	}
	return job.Emit(ctx, event)
}

// A program embeds a daemon with a runner of its own. Its main, or TestMain, calls
// daemon.SupervisorMain first.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	hub, door := startMemoryHub(ctx)
	state, err := os.MkdirTemp("", "relay-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(state) }()
	d, err := daemon.New(daemon.Config{
		DaemonID: "laptop", Dial: door.dial, StateDir: state, Runner: daemon.RunnerFunc(greet),
	})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()

	if _, err := hub.WaitForDaemon(ctx, "laptop"); err != nil {
		log.Fatal(err)
	}
	run, err := hub.Run(ctx, actors.RunRequest{DaemonID: "laptop", Payload: []byte(`{"name":"world"}`)})
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range run.Events(ctx, 0) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(ev.Data))
	}
	out, err := run.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Result, "clean:", out.Clean, "proven by:", out.Receipt.Mechanism)

	if err := d.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("daemon ended:", <-ended)
	if err := hub.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// {"data":"hello world\n","type":"greeting"}
	// {"type":"run.completed","data":{"finish_reason":"stop"}}
	// finished clean: true proven by: supervisor
	// daemon ended: <nil>
}
