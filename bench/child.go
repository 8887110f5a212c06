package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
)

// child is a subject in a process of its own, with the daemons it talks to.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	first  report
	plays  []*daemon
	client *http.Client
}

// startChild starts a subject; command makes its process.
func startChild(ctx context.Context, command func(ctx context.Context, kind Subject, stateDir string) *exec.Cmd, kind Subject, stateDir string) (*child, error) {
	c := &child{cmd: command(ctx, kind, stateDir), client: &http.Client{Transport: &http.Transport{}}}
	c.cmd.Stderr = os.Stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(out)
	c.out.Buffer(nil, 16<<20)
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("bench: start %s: %w", kind, err)
	}
	c.first, err = c.reply()
	return c, err
}

func (c *child) reply() (report, error) {
	var r report
	if !c.out.Scan() {
		return r, errors.Join(errors.New("bench: the measured process has ended"), c.out.Err())
	}
	if err := json.Unmarshal(c.out.Bytes(), &r); err != nil {
		return r, fmt.Errorf("bench: report: %w", err)
	}
	if r.Error != "" {
		return r, errors.New("bench: " + r.Error)
	}
	return r, nil
}

func (c *child) tell(o order) error {
	return json.NewEncoder(c.in).Encode(o)
}

func (c *child) ask(o order) (report, error) {
	if err := c.tell(o); err != nil {
		return report{}, err
	}
	return c.reply()
}

// connect brings the number of daemons to n, at most parallel at a time.
func (c *child) connect(n, parallel int) error {
	first := len(c.plays)
	if n <= first {
		return nil
	}
	fresh := make([]*daemon, n-first)
	errs := make([]error, n-first)
	slots := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for i := range fresh {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			fresh[i], errs[i] = dialDaemon(c.first.Addr, daemonName(first+i), "")
		})
	}
	wg.Wait()
	c.plays = append(c.plays, fresh...)
	return errors.Join(errs...)
}

// flow is one measured flow of events over the first n daemons.
func (c *child) flow(n int, s stream, sse bool) (report, error) {
	if err := c.connect(n, 32); err != nil {
		return report{}, err
	}
	begun, err := c.ask(order{Op: "begin", Daemons: n, SSE: sse, Latency: s.stamped})
	if err != nil {
		return report{}, err
	}
	errs := make(chan error, 2*n)
	for i := range n {
		job := <-c.plays[i].starts
		if sse {
			go func() { errs <- c.follow(begun.Runs[i]) }()
		} else {
			errs <- nil
		}
		go func() { errs <- c.plays[i].play(job, s) }()
	}
	for range 2 * n {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		return report{}, err
	}
	return c.ask(order{Op: "end"})
}

// follow reads a run's stream of events to its end.
func (c *child) follow(run string) error {
	req, err := http.NewRequest(http.MethodGet, c.first.API+"/v1/runs/"+run+"/events?attach=1", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.first.Token)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("bench: events: %s", resp.Status)
	}
	_, err = io.CopyBuffer(io.Discard, struct{ io.Reader }{resp.Body}, make([]byte, 256<<10))
	return err
}

// stop ends the process.
func (c *child) stop() error {
	for _, d := range c.plays {
		if d != nil {
			_ = d.conn.Close()
		}
	}
	_ = c.in.Close()
	return c.cmd.Wait()
}
