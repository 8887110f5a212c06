package actors_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/coder/websocket"

	"codingrelay/actors"
	"codingrelay/persist"
)

// BenchmarkEvents measures one event from a daemon's socket to an in-process
// reader, with the generator on the same machine.
func BenchmarkEvents(b *testing.B) {
	for _, size := range []int{200, 16 << 10, 256 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			hub, err := actors.Start(nil, actors.Config{}, actors.Ports{Store: persist.NewMemory(), Listener: sockets()})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = hub.Stop(ctx) }()
			addr, err := hub.Listen(ctx, actors.ListenConfig{Host: "127.0.0.1"})
			if err != nil {
				b.Fatal(err)
			}
			conn, _, err := websocket.Dial(ctx, "ws://"+addr, nil)
			if err != nil {
				b.Fatal(err)
			}
			conn.SetReadLimit(-1)
			_ = conn.Write(ctx, websocket.MessageText, []byte(`{"type":"daemon.hello","daemon_id":"b","protocol":"coding-relay-v1"}`))
			_, _, _ = conn.Read(ctx)
			run, err := hub.Run(ctx, actors.RunRequest{DaemonID: "b", Payload: []byte(`{}`), Attached: true})
			if err != nil {
				b.Fatal(err)
			}
			event := fmt.Appendf(nil, `{"type":"run.event","job_id":%q,"event":{"type":"output","text":"%s"}}`, run.ID(), bytes.Repeat([]byte("the quick fox "), size/14))
			b.SetBytes(int64(len(event)))
			b.ReportAllocs()
			b.ResetTimer()
			go func() {
				bg := context.Background()
				for range b.N {
					if conn.Write(bg, websocket.MessageText, event) != nil {
						return
					}
				}
				_ = conn.Write(bg, websocket.MessageText, fmt.Appendf(nil, `{"type":"run.finished","job_id":%q}`, run.ID()))
				_, _, _ = conn.Read(bg)
			}()
			n := 0
			for ev, err := range run.Read(ctx, actors.Reading{Hold: true, Caller: true}) {
				if err != nil || ev.Truncated != nil {
					b.Fatal(err, ev.Truncated)
				}
				n++
			}
			b.StopTimer()
			if n != b.N {
				b.Fatalf("read %d events, want %d", n, b.N)
			}
		})
	}
}
