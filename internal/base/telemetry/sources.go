package telemetry

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Sources are the functions that return the gauges on each scrape. A nil one is omitted.
type Sources struct {
	Requests     func() int64 // requests in progress
	Calls        func() int64 // model calls in progress
	BodyBytes    func() int64 // size of bodies in memory
	Followers    func() int64 // readers of sessions' events
	TurnsRunning func() int64 // turns in this process
	Connections  func() int64 // open connections
	Broken       func() int64 // tool servers that are temporarily not called
	Refused      func() (ofAddress, inAll uint64)
	Latched      func() map[string]bool // databases that do not commit
	Providers    func() []Provider
	// Sessions counts the unfinished sessions by status. It is called at most every 10 s, because it may
	// read rows.
	Sessions func(context.Context) (map[string]int64, error)
	// Waiting counts the inputs that sessions wait for, by kind, with the age of each kind's oldest. It is called equally
	// rarely.
	Waiting func(context.Context) (map[string]Waiting, error)
	Exports func() (sent, failed uint64) // numbers of spans
	// Outbox counts the pending webhook deliveries of all nodes, and returns the delay of the oldest.
	Outbox       func() (pending int, lag time.Duration)
	LinesDropped func() uint64 // dropped lines of the log
}

// Waiting contains the number of pending inputs of a kind, and the age of the oldest.
type Waiting struct {
	Count int64
	Age   time.Duration
}

// A Provider contains the counters of a configured provider.
type Provider struct {
	Name     string
	InFlight int64
	Refused  uint64
	Models   []ProviderModel
}

// A ProviderModel contains the counters of one model of a provider, under the provider's name for it. That
// name is bounded, because it comes from the configuration.
type ProviderModel struct {
	Name                                  string
	Requests, Retries, Failures, TimedOut uint64
	Circuit                               float64 // 0 closed, 1 half-open, 2 open
}

// Watch lets the metrics read the sources. It must be called once.
func (m *Metrics) Watch(s Sources) {
	if m != nil {
		m.registry.MustRegister(newCollector(s))
	}
}

// The lifetime of counted rows, so that frequent scrapes do not load the database, and the timeout for counting.
const (
	countAgain = 10 * time.Second
	countTime  = 2 * time.Second
)

type collector struct {
	Sources
	descs []*prometheus.Desc

	requests, calls, bodies, followers, turns, connections, refused, latched, broken,
	providerInFlight, providerRefused, providerRequests, providerRetries, providerFailures, providerTimeouts, circuit,
	sessions, waiting, waitingAge, exports, outbox, outboxLag, linesDropped *prometheus.Desc

	mu      sync.Mutex
	counted map[string]int64
	inputs  map[string]Waiting
	at      time.Time
}

func newCollector(s Sources) *collector {
	c := &collector{Sources: s}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		d := prometheus.NewDesc(name, help, labels, nil)
		c.descs = append(c.descs, d)
		return d
	}
	c.requests = desc("stoa_http_requests_in_flight", "Requests being served.")
	c.calls = desc("stoa_calls_in_flight", "Model calls that wait for or read from a provider.")
	c.bodies = desc("stoa_body_bytes", "Bytes of request bodies in memory.")
	c.followers = desc("stoa_event_followers", "Open streams of sessions' events.")
	c.turns = desc("stoa_turns_running", "Turns that run in this process.")
	c.connections = desc("stoa_connections", "Open connections of callers.")
	c.broken = desc("stoa_tool_connections_broken", "Connections to tool servers of which at least one tool is not called for the moment, since several calls of it in a row have failed.")
	c.refused = desc("stoa_connections_refused_total", "Connections that were refused, by the bound that was reached.", "bound")
	c.latched = desc("stoa_store_latched", "1 while a database does not commit and new work is refused.", "database")
	c.providerInFlight = desc("stoa_provider_in_flight", "Calls in flight at a provider.", "provider")
	c.providerRefused = desc("stoa_provider_refused_total", "Attempts that were not made because the provider was at its maxInFlight.", "provider")
	c.providerRequests = desc("stoa_provider_requests_total", "Requests to a provider, retries included.", "provider", "model")
	c.providerRetries = desc("stoa_provider_retries_total", "Requests that were sent again.", "provider", "model")
	c.providerFailures = desc("stoa_provider_failures_total", "Requests that failed by the provider's fault, timeouts included.", "provider", "model")
	c.providerTimeouts = desc("stoa_provider_timeouts_total", "Requests that a timeout ended.", "provider", "model")
	c.circuit = desc("stoa_provider_circuit_state", "0 closed, 1 half-open, 2 open, also where it is so for one account alone.", "provider", "model")
	c.sessions = desc("stoa_sessions", "Sessions that have not ended.", "status")
	c.waiting = desc("stoa_inputs_waiting", "Inputs that sessions wait for, by their kind.", "kind")
	c.waitingAge = desc("stoa_input_age_seconds", "For how long the oldest of them has been waited for, by its kind.", "kind")
	c.exports = desc("stoa_spans_total", "Spans handed to the OTLP exporter, by what became of them.", "outcome")
	c.outbox = desc("stoa_webhook_deliveries_pending", "Events that wait to be sent to webhooks, of all nodes, up to 100,000; counted each minute.")
	c.outboxLag = desc("stoa_webhook_lag_seconds", "How long after its time the oldest of them waits for a place; counted each minute.")
	c.linesDropped = desc("stoa_log_lines_dropped_total", "Lines of the log that were dropped, as they came faster than they could be written, or could not be.")
	return c
}

// Describe names all metrics of the sources.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect reads the sources.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	for _, g := range []struct {
		desc *prometheus.Desc
		read func() int64
	}{
		{c.requests, c.Requests},
		{c.calls, c.Calls},
		{c.bodies, c.BodyBytes},
		{c.followers, c.Followers},
		{c.turns, c.TurnsRunning},
		{c.connections, c.Connections},
		{c.broken, c.Broken},
	} {
		if g.read != nil {
			gauge(g.desc, float64(g.read()))
		}
	}
	if c.Refused != nil {
		ofAddress, inAll := c.Refused()
		counter(c.refused, ofAddress, "address")
		counter(c.refused, inAll, "all")
	}
	if c.Latched != nil {
		for name, set := range c.Latched() {
			gauge(c.latched, map[bool]float64{true: 1}[set], name)
		}
	}
	if c.Providers != nil {
		for _, p := range c.Providers() {
			gauge(c.providerInFlight, float64(p.InFlight), p.Name)
			counter(c.providerRefused, p.Refused, p.Name)
			for _, m := range p.Models {
				counter(c.providerRequests, m.Requests, p.Name, m.Name)
				counter(c.providerRetries, m.Retries, p.Name, m.Name)
				counter(c.providerFailures, m.Failures, p.Name, m.Name)
				counter(c.providerTimeouts, m.TimedOut, p.Name, m.Name)
				gauge(c.circuit, m.Circuit, p.Name, m.Name)
			}
		}
	}
	sessions, inputs := c.count()
	for status, n := range sessions {
		gauge(c.sessions, float64(n), status)
	}
	for kind, w := range inputs {
		gauge(c.waiting, float64(w.Count), kind)
		gauge(c.waitingAge, w.Age.Seconds(), kind)
	}
	if c.Exports != nil {
		sent, failed := c.Exports()
		counter(c.exports, sent, "sent")
		counter(c.exports, failed, "failed")
	}
	if c.Outbox != nil {
		pending, lag := c.Outbox()
		gauge(c.outbox, float64(pending))
		gauge(c.outboxLag, lag.Seconds())
	}
	if c.LinesDropped != nil {
		counter(c.linesDropped, c.LinesDropped())
	}
}

// count returns the cached counts if they are less than 10 s old, otherwise it counts sessions and inputs.
// After a failure it returns nothing, so that a graph shows a gap and not an old number.
func (c *collector) count() (map[string]int64, map[string]Waiting) {
	if c.Sessions == nil {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at.IsZero() && time.Since(c.at) < countAgain {
		return c.counted, c.inputs
	}
	ctx, cancel := context.WithTimeout(context.Background(), countTime)
	defer cancel()
	c.counted, c.inputs = nil, nil
	if counted, err := c.Sessions(ctx); err == nil {
		c.counted = counted
	}
	if c.Waiting != nil {
		if inputs, err := c.Waiting(ctx); err == nil {
			c.inputs = inputs
		}
	}
	c.at = time.Now()
	return c.counted, c.inputs
}
