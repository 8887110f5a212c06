package transport_test

import (
	"context"
	"fmt"

	"codingrelay/transport"
	"codingrelay/wire"
)

// printer is a sink that prints what it is told.
type printer struct {
	name string
	done chan struct{}
}

func (p printer) Frame(f wire.Frame) { fmt.Printf("%s: %v of job %s\n", p.name, f.Type, f.JobID) }
func (p printer) Pong()              {}
func (p printer) Flushed()           {}
func (p printer) Closed(e wire.End) {
	fmt.Println(p.name+": closed with", e.Code, e.Reason)
	close(p.done)
}

// A hub listens, a daemon dials, says one frame and goes.
func Example() {
	ctx := context.Background()
	hub, daemon := printer{"hub", make(chan struct{})}, printer{"daemon", make(chan struct{})}
	listener, err := transport.Listen(ctx, "127.0.0.1:0", transport.ListenConfig{},
		func(_ string, _ wire.Link, _ func()) wire.Sink { return hub })
	if err != nil {
		fmt.Println(err)
		return
	}
	defer listener.Close()
	err = transport.Dial(ctx, transport.DialConfig{URL: "ws://" + listener.Addr().String()},
		func(link wire.Link) wire.Sink {
			link.Write([][]byte{[]byte(`{"type":"run.finished","job_id":"j1"}`)})
			link.Close(1000, "done")
			return daemon
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-hub.done
	<-daemon.done
	// Unordered output:
	// hub: run.finished of job j1
	// hub: closed with 1000 done
	// daemon: closed with 1000 done
}

// Two links in memory behave as two over TCP.
func ExamplePipe() {
	hub := printer{"hub", make(chan struct{})}
	daemon := printer{"daemon", make(chan struct{})}
	var link wire.Link
	err := transport.Pipe(transport.Limits{},
		func(_ string, _ wire.Link, _ func()) wire.Sink { return hub },
		func(l wire.Link) wire.Sink { link = l; return daemon })
	if err != nil {
		fmt.Println(err)
		return
	}
	link.Write([][]byte{[]byte(`{"type":"run.finished","job_id":"j2"}`)})
	link.Close(1012, "restarting")
	<-hub.done
	<-daemon.done
	// Unordered output:
	// hub: run.finished of job j2
	// hub: closed with 1012 restarting
	// daemon: closed with 1012 restarting
}
