package control

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"codingrelay/actors"
)

// Metrics counts what happens in a hub, as its observer, and in the API. It has
// a registry of its own. Make it before the hub, give it to [actors.Ports] and to
// [Options]. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	facts       map[actors.FactKind]prometheus.Counter
	runsEnded   *prometheus.CounterVec
	runSeconds  prometheus.Histogram
	endSeconds  prometheus.Histogram
	dropped     prometheus.Counter
	requests    *prometheus.CounterVec
	refusals    *prometheus.CounterVec
	streams     *prometheus.GaugeVec
	streamEnds  *prometheus.CounterVec
	eventsSent  prometheus.Counter
	connections prometheus.Gauge
}

var _ actors.Observer = (*Metrics)(nil)

// counted are the facts that are plain counters.
var counted = map[actors.FactKind]struct{ name, help string }{
	actors.FactConnected:    {"daemons_connected_total", "Daemons that were admitted."},
	actors.FactRefusedHello: {"hellos_refused_total", "Handshakes that were refused."},
	actors.FactGone:         {"daemons_gone_total", "Connections of daemons that ended."},
	actors.FactRunStarted:   {"runs_started_total", "Runs whose start was given to a daemon."},
	actors.FactFenced:       {"fences_raised_total", "Fences that were raised."},
	actors.FactUnfenced:     {"fences_lifted_total", "Fences that were lifted, for whatever cause."},
	actors.FactFenceCleared: {"fences_cleared_total", "Fences that an operator cleared."},
	actors.FactStoreFailed:  {"store_failures_total", "Records that could not be written or removed."},
	actors.FactFrameIgnored: {"frames_ignored_total", "Messages of daemons that meant nothing."},
	actors.FactHold:         {"holds_total", "Times a slow reader held a daemon's connection back."},
	actors.FactFailure:      {"actor_failures_total", "Panics inside the hub: each is a bug."},
}

// NewMetrics makes the counters.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		facts:    make(map[actors.FactKind]prometheus.Counter, len(counted)),
		runsEnded: prometheus.NewCounterVec(opts("runs_ended_total",
			"Runs that ended, by how, and by whether their processes are known to be gone."), []string{"result", "clean"}),
		runSeconds: prometheus.NewHistogram(seconds("run_duration_seconds",
			"From the start given to the daemon until the outcome.", prometheus.ExponentialBuckets(0.1, 4, 9))),
		endSeconds: prometheus.NewHistogram(seconds("run_ending_seconds",
			"From the first cause of a run's end until its outcome.", prometheus.ExponentialBuckets(0.005, 3, 9))),
		dropped: prometheus.NewCounter(prometheus.CounterOpts(opts("messages_dropped_total",
			"Messages of ended runs that could not be taken."))),
		requests: prometheus.NewCounterVec(opts("api_requests_total",
			"Answers of the API, by route and status."), []string{"route", "status"}),
		refusals: prometheus.NewCounterVec(opts("api_refused_total",
			"Requests that were not let in, by why."), []string{"why"}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("api_streams",
			"Open event streams.")), []string{"kind"}),
		streamEnds: prometheus.NewCounterVec(opts("api_streams_ended_total",
			"Event streams that ended, by why."), []string{"why"}),
		eventsSent: prometheus.NewCounter(prometheus.CounterOpts(opts("api_events_sent_total",
			"Events and marks written to streams."))),
		connections: prometheus.NewGauge(prometheus.GaugeOpts(opts("api_connections",
			"Open connections to the API."))),
	}
	for kind, c := range counted {
		m.facts[kind] = prometheus.NewCounter(prometheus.CounterOpts(opts(c.name, c.help)))
		m.registry.MustRegister(m.facts[kind])
	}
	m.registry.MustRegister(m.runsEnded, m.runSeconds, m.endSeconds, m.dropped, m.requests, m.refusals,
		m.streams, m.streamEnds, m.eventsSent, m.connections,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

const namespace = "relay"

func opts(name, help string) prometheus.CounterOpts {
	return prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}
}

func seconds(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}
}

// Observe implements [actors.Observer]. It only adds to numbers.
func (m *Metrics) Observe(f actors.Fact) {
	if c := m.facts[f.Kind]; c != nil {
		c.Inc()
	}
	if f.Kind != actors.FactRunEnded || f.Outcome == nil {
		return
	}
	o := f.Outcome
	m.runsEnded.WithLabelValues(string(o.Result), strconv.FormatBool(o.Clean)).Inc()
	m.dropped.Add(float64(o.Dropped))
	if o.StartedAt != nil {
		m.runSeconds.Observe(o.EndedAt.Sub(*o.StartedAt).Seconds())
	}
	if o.EndingAt != nil {
		m.endSeconds.Observe(o.EndedAt.Sub(*o.EndingAt).Seconds())
	}
}

func (m *Metrics) refused(why string) { m.refusals.WithLabelValues(why).Inc() }

func (m *Metrics) answered(route string, status int) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
}

// handler serves the numbers, in any format a scraper asks for.
func (m *Metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		Registry: m.registry, ErrorHandling: promhttp.ContinueOnError, DisableCompression: true,
	})
}

// of adds what the hub says of itself when it is asked.
func (m *Metrics) of(hub Hub) error {
	if err := m.registry.Register(&statusCollector{hub}); err != nil {
		return fmt.Errorf("control: these metrics belong to another server: %w", err)
	}
	return nil
}

// statusCollector asks the hub for its numbers at each scrape.
type statusCollector struct{ hub Hub }

var (
	descUp        = desc("up", "1 while the hub answers.")
	descReady     = desc("ready", "1 while the hub takes work.")
	descDaemons   = desc("daemons", "Connected daemons.")
	descOpenRuns  = desc("runs_open", "Runs that have not ended.")
	descRetained  = desc("runs_retained", "Ended runs that can still be read.")
	descFences    = desc("fences", "Fenced daemon ids.")
	descStoreFail = desc("store_failing", "1 while a fence is not written down.")
)

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, nil, nil)
}

// Describe implements [prometheus.Collector].
func (c *statusCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descUp, descReady, descDaemons, descOpenRuns, descRetained, descFences, descStoreFail} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *statusCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	gauge := func(d *prometheus.Desc, v float64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	s, err := c.hub.Status(ctx)
	gauge(descUp, truth(err == nil))
	if err != nil {
		return
	}
	gauge(descReady, truth(ready(s)))
	gauge(descDaemons, float64(s.Connections))
	gauge(descOpenRuns, float64(s.OpenRuns))
	gauge(descRetained, float64(s.RetainedRuns))
	gauge(descFences, float64(s.Fences))
	gauge(descStoreFail, truth(s.StoreFailing))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// statusTimeout bounds how long a probe or a scrape waits for the hub.
const statusTimeout = 2 * time.Second
