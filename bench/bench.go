package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"text/tabwriter"
	"time"
)

// Options say what to measure. The zero value measures everything once.
type Options struct {
	// Command makes the process of a subject: this program again, in the role of
	// [RunSubject]. Required.
	Command func(ctx context.Context, kind Subject, stateDir string) *exec.Cmd
	// Rounds is how often each flow is measured; medians are reported. Default 1.
	Rounds int
	// Bytes is how much each flow moves. Default 64 MiB.
	Bytes int
	// Sizes and Daemons are the flows. Defaults 200, 16 KiB, 256 KiB and 1, 8, 64,
	// 1000.
	Sizes, Daemons []int
	// Progress is told what is being measured; nil is nobody.
	Progress io.Writer
}

func (o Options) withDefaults() Options {
	o.Rounds = cmp.Or(o.Rounds, 1)
	o.Bytes = cmp.Or(o.Bytes, 64<<20)
	if o.Sizes == nil {
		o.Sizes = []int{200, 16 << 10, 256 << 10}
	}
	if o.Daemons == nil {
		o.Daemons = []int{1, 8, 64, 1000}
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	return o
}

// Flow is one line of the table of events.
type Flow struct {
	Size     int    `json:"size"`
	Daemons  int    `json:"daemons"`
	Payload  string `json:"payload"`
	Consumer string `json:"consumer"`
	// Hub and Ceiling are medians over the rounds, Ratio the median of the ratios
	// of hub to ceiling CPU of each round.
	Hub     Cost    `json:"hub"`
	Ceiling Cost    `json:"ceiling"`
	Ratio   float64 `json:"ratio"`
}

// Cost is what an event cost.
type Cost struct {
	CPUPerEvent     time.Duration `json:"cpu_per_event_ns"`
	EventsPerSecond float64       `json:"events_per_second"`
	MiBPerSecond    float64       `json:"mib_per_second"`
	AllocsPerEvent  float64       `json:"allocs_per_event"`
}

// Result is everything that was measured.
type Result struct {
	Flows  []Flow  `json:"flows"`
	Single Singles `json:"single"`
}

// Singles are the durations of single operations on the hub.
type Singles struct {
	EventLagFlood Quantiles `json:"event_lag_flood"`
	EventLagPaced Quantiles `json:"event_lag_paced"`
	Start         Quantiles `json:"start"`
	StartDurable  Quantiles `json:"start_durable"`
	Cancel        Quantiles `json:"cancel"`
	ConnectRate   float64   `json:"connects_per_second"`
	IdleBytes     int64     `json:"idle_bytes_per_connection"`
}

// Run measures and returns the result.
func Run(ctx context.Context, o Options) (*Result, error) {
	o = o.withDefaults()
	r := &Result{}
	for _, sse := range []bool{false, true} {
		for _, size := range o.Sizes {
			for _, n := range o.Daemons {
				for _, escapes := range []bool{false, true} {
					if escapes && n != 8 {
						continue // the payload matters per event, not per socket
					}
					f, err := measureFlow(ctx, o, size, n, escapes, sse)
					if err != nil {
						return nil, err
					}
					r.Flows = append(r.Flows, f)
				}
			}
		}
	}
	return r, measureSingles(ctx, o, &r.Single)
}

// measureFlow measures hub and ceiling, each in turn, round by round.
func measureFlow(ctx context.Context, o Options, size, n int, escapes, sse bool) (Flow, error) {
	f := Flow{Size: size, Daemons: n, Payload: "prose", Consumer: "in process"}
	if escapes {
		f.Payload = "escapes"
	}
	if sse {
		f.Consumer = "sse"
	}
	_, _ = fmt.Fprintf(o.Progress, "events of %d B, %d daemons, %s, %s\n", size, n, f.Payload, f.Consumer)
	events := max(o.Bytes/size/n, 1)
	var hubs, ceilings []Cost
	var ratios []float64
	for range o.Rounds {
		var costs [2]Cost
		for i, kind := range []Subject{SubjectCeiling, SubjectHub} {
			rep, err := flowOnce(ctx, o, kind, n, stream{events: events, size: size, escapes: escapes}, sse)
			if err != nil {
				return f, fmt.Errorf("%s: %w", kind, err)
			}
			costs[i] = costOf(rep, size)
		}
		ceilings, hubs = append(ceilings, costs[0]), append(hubs, costs[1])
		ratios = append(ratios, float64(costs[1].CPUPerEvent)/float64(max(costs[0].CPUPerEvent, 1)))
	}
	f.Hub, f.Ceiling, f.Ratio = medianCost(hubs), medianCost(ceilings), median(ratios)
	return f, nil
}

func flowOnce(ctx context.Context, o Options, kind Subject, n int, s stream, sse bool) (report, error) {
	c, err := startChild(ctx, o.Command, kind, "")
	if err != nil {
		return report{}, err
	}
	rep, err := c.flow(n, s, sse)
	if stopErr := c.stop(); err == nil {
		err = stopErr
	}
	return rep, err
}

func costOf(r report, size int) Cost {
	n := float64(max(r.Events, 1))
	return Cost{
		CPUPerEvent:     time.Duration(float64(r.CPU) / n),
		EventsPerSecond: n / r.Wall.Seconds(),
		MiBPerSecond:    n * float64(size) / r.Wall.Seconds() / (1 << 20),
		AllocsPerEvent:  float64(r.Allocs) / n,
	}
}

func median[T cmp.Ordered](v []T) T {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

func medianCost(c []Cost) Cost {
	pick := func(get func(Cost) float64) float64 {
		var v []float64
		for _, x := range c {
			v = append(v, get(x))
		}
		return median(v)
	}
	return Cost{
		CPUPerEvent:     time.Duration(pick(func(c Cost) float64 { return float64(c.CPUPerEvent) })),
		EventsPerSecond: pick(func(c Cost) float64 { return c.EventsPerSecond }),
		MiBPerSecond:    pick(func(c Cost) float64 { return c.MiBPerSecond }),
		AllocsPerEvent:  pick(func(c Cost) float64 { return c.AllocsPerEvent }),
	}
}

// measureSingles measures what is not a flow.
func measureSingles(ctx context.Context, o Options, s *Singles) error {
	for _, step := range []struct {
		name string
		f    func(context.Context, Options, *Singles) error
	}{
		{"event lag while 64 daemons flood", lagFlood},
		{"event lag at 1,600 events/s", lagPaced},
		{"start and cancel, 64 at once", startCancel},
		{"durable start, 64 at once", startDurable},
		{"connections", connections},
	} {
		_, _ = fmt.Fprintln(o.Progress, step.name)
		if err := step.f(ctx, o, s); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

func lagFlood(ctx context.Context, o Options, s *Singles) error {
	rep, err := flowOnce(ctx, o, SubjectHub, 64, stream{events: 4000, size: 200, stamped: true}, false)
	s.EventLagFlood = rep.Latency
	return err
}

func lagPaced(ctx context.Context, o Options, s *Singles) error {
	rep, err := flowOnce(ctx, o, SubjectHub, 64, stream{events: 100, size: 200, stamped: true, pace: 40 * time.Millisecond}, false)
	s.EventLagPaced = rep.Latency
	return err
}

func startCancel(ctx context.Context, o Options, s *Singles) error {
	start, cancel, err := starts(ctx, o, "")
	s.Start, s.Cancel = start, cancel
	return err
}

func startDurable(ctx context.Context, o Options, s *Singles) error {
	dir, err := os.MkdirTemp("", "relay-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s.StartDurable, _, err = starts(ctx, o, dir)
	return err
}

// starts measures start to accepted, and cancel to acknowledged, on 64 daemons.
func starts(ctx context.Context, o Options, stateDir string) (start, cancel Quantiles, err error) {
	c, err := startChild(ctx, o.Command, SubjectHub, stateDir)
	if err != nil {
		return start, cancel, err
	}
	defer func() { _ = c.stop() }()
	if err := c.connect(64, 32); err != nil {
		return start, cancel, err
	}
	var began, ended []time.Duration
	for range 10 {
		b, err := c.ask(order{Op: "begin", Daemons: 64, SSE: true})
		if err != nil {
			return start, cancel, err
		}
		for i := range 64 {
			<-c.plays[i].starts
		}
		e, err := c.ask(order{Op: "cancel"})
		if err != nil {
			return start, cancel, err
		}
		began, ended = append(began, b.Took...), append(ended, e.Took...)
	}
	return quantilesOf(began), quantilesOf(ended), nil
}

// connections measures the connect rate and what an idle connection weighs.
func connections(ctx context.Context, o Options, s *Singles) error {
	const n = 2000
	c, err := startChild(ctx, o.Command, SubjectHub, "")
	if err != nil {
		return err
	}
	defer func() { _ = c.stop() }()
	before, err := c.ask(order{Op: "idle"})
	if err != nil {
		return err
	}
	began := time.Now()
	if err := c.connect(n, 64); err != nil {
		return err
	}
	s.ConnectRate = n / time.Since(began).Seconds()
	after, err := c.ask(order{Op: "idle"})
	s.IdleBytes = (after.RSS - before.RSS) / n
	return err
}

// Print writes the result as a table for people.
func (r *Result) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "consumer\tpayload\tsize\tdaemons\tCPU/event\tceiling\tratio\tevents/s\tMiB/s\tallocs/event\t")
	for _, f := range r.Flows {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%v\t%v\t%.2f\t%.0f\t%.0f\t%.2f\t\n", f.Consumer, f.Payload, f.Size, f.Daemons,
			f.Hub.CPUPerEvent, f.Ceiling.CPUPerEvent, f.Ratio, f.Hub.EventsPerSecond, f.Hub.MiBPerSecond, f.Hub.AllocsPerEvent)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	s := r.Single
	t = tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "\n\tp50\tp99\tmax")
	for _, l := range []struct {
		name string
		q    Quantiles
	}{
		{"event lag, 64 daemons flood", s.EventLagFlood},
		{"event lag, 1,600 events/s", s.EventLagPaced},
		{"start, 64 at once", s.Start},
		{"start, 64 at once, durable", s.StartDurable},
		{"cancel to acknowledged, 64 at once", s.Cancel},
	} {
		_, _ = fmt.Fprintf(t, "%s\t%v\t%v\t%v\n", l.name, l.q.P50, l.q.P99, l.q.Max)
	}
	_, _ = fmt.Fprintf(t, "connections per second\t%.0f\n", s.ConnectRate)
	_, _ = fmt.Fprintf(t, "memory per idle connection\t%.1f KiB\n", float64(s.IdleBytes)/1024)
	return t.Flush()
}
