// Package telemetry shows operators the activity of the service: metrics for Prometheus,
// traces over OTLP, and the handler of the listener that serves /metrics, /livez, /readyz
// and, if enabled, profiles.
//
// It contains no text of callers or models, and the values of its labels are bounded: models
// and providers are those of the configuration, codes those of the contract. It does not read
// a clock or a row for a metric by itself: packages report finished events ([Metrics.Call],
// [Metrics.Request], …), and gauges are read on each scrape ([Sources]). A nil [*Metrics] and
// a nil [*Tracer] are valid and do nothing, so that callers need no checks when they are disabled.
//
// Start at [NewMetrics], [NewTracer] and [Admin]; docs/metrics.md lists every metric.
//
// Counters are bound once and counted at the end of a call, so that nothing happens for each piece
// of text. The ids of a session's trace derive from the session's id, so that its turns belong
// together although processes die and nothing about traces is stored.
package telemetry

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"stoa/internal/base/stoa"
)

// Other replaces unknown values of a label, so that callers cannot add time series.
const Other = "other"

// None is the provider of a call that no provider accepted, and the route of a request that
// matches no route.
const None = "none"

// MetricsConfig configures [NewMetrics].
type MetricsConfig struct {
	Version, Commit string
	Codes           []stoa.Code // contract's codes, for the label code
	Routes          []string    // patterns of the API, for the label route
	// Accounts is the maximum number of accounts with separate metrics; 0 disables them. The first ones that call
	// get them, and the calls of others count as those of [Other].
	Accounts int
}

// Metrics counts the activity of the service. It is safe for use by many goroutines. All methods of a nil
// Metrics do nothing.
type Metrics struct {
	registry *prometheus.Registry
	codes    map[stoa.Code]bool

	requests    map[string]*[statusClasses]prometheus.Counter // by route
	errors      map[stoa.Code]prometheus.Counter
	replays     prometheus.Counter
	disconnects prometheus.Counter

	duration, tokens, firstToken *prometheus.HistogramVec
	charged                      *prometheus.CounterVec
	cacheRead, cacheWritten      *prometheus.CounterVec
	charges                      map[string]prometheus.Counter // by state
	calls                        atomic.Pointer[map[callKey]*callMeter]
	others                       *callMeter
	learning                     sync.Mutex // guards changes of calls

	accounts *accountMeters // nil if disabled

	batchSize, batchTime prometheus.Observer

	transitions map[stoa.SessionStatus]prometheus.Counter
	failures    map[stoa.Code]prometheus.Counter // codes of failed turns
	steps       [2]prometheus.Counter            // recorded and failed steps
	tools       map[string]*[2]prometheus.Counter
	external    map[stoa.CallOutcome]prometheus.Counter
	serverCalls prometheus.Observer // requests to tool servers
	lag         prometheus.Observer

	hooks    [hookResults]prometheus.Counter
	hookTime prometheus.Observer
}

// Buckets of the histograms. They are few, so that an observation is a short search and a
// scrape stays small.
var (
	secondsBuckets = []float64{0.1, 0.3, 1, 3, 10, 30, 100, 300}
	firstBuckets   = []float64{0.03, 0.1, 0.3, 1, 3, 10, 30}
	tokenBuckets   = []float64{16, 64, 256, 1024, 4096, 16384, 65536, 262144}
	batchBuckets   = []float64{1, 4, 16, 64, 256, 1024}
	commitBuckets  = []float64{0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 1, 10}
	lagBuckets     = []float64{0.1, 1, 3, 10, 60, 600, 3600}
)

var callLabels = []string{"gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"}

// operation is the value of gen_ai_operation_name of every call.
const operation = "chat"

// NewMetrics returns metrics with a separate registry.
func NewMetrics(cfg MetricsConfig) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), codes: map[stoa.Code]bool{}}
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	for _, c := range cfg.Codes {
		m.codes[c] = true
	}
	m.addRequests(cfg)
	m.addCalls()
	m.addSessions(cfg)
	attempts := m.counters("stoa_webhook_attempts_total", "Requests to webhooks, by outcome.", "outcome")
	m.hooks = [hookResults]prometheus.Counter{}
	for i, name := range hookNames {
		m.hooks[i] = attempts.WithLabelValues(name)
	}
	m.hookTime = m.histogram("stoa_webhook_attempt_duration_seconds", "Time of a request to a webhook.", secondsBuckets)
	if cfg.Accounts > 0 {
		a := &accountMeters{
			calls:   m.counters("stoa_account_calls_total", "Model calls of an account.", "account"),
			charged: m.counters("stoa_account_charged_microcredits_total", "Micro-credits charged to an account.", "account"),
			most:    cfg.Accounts, of: map[string]*accountMeter{},
		}
		a.rest = a.bind(Other)
		m.accounts = a
	}
	m.batchSize = m.histogram("stoa_commit_charges", "Charges in one commit.", batchBuckets)
	m.batchTime = m.histogram("stoa_commit_duration_seconds", "Time of one commit of charges, its retries included.", commitBuckets)
	m.gauges("stoa_build_info", "1; the labels say which program runs.", "version", "commit").WithLabelValues(cfg.Version, cfg.Commit).Set(1)
	return m
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) counter(name, help string) prometheus.Counter {
	return m.counters(name, help).WithLabelValues()
}

func (m *Metrics) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) histogram(name, help string, buckets []float64) prometheus.Observer {
	return m.histograms(name, help, buckets).WithLabelValues()
}

// byCode returns a counter for each code, and one under the key "" for all others.
func byCode(v *prometheus.CounterVec, codes []stoa.Code) map[stoa.Code]prometheus.Counter {
	out := map[stoa.Code]prometheus.Counter{"": v.WithLabelValues(Other)}
	for _, c := range codes {
		out[c] = v.WithLabelValues(string(c))
	}
	return out
}

// Committed counts a finished commit of charges, whether or not it succeeded.
func (m *Metrics) Committed(charges int, took time.Duration) {
	if m == nil || charges == 0 {
		return
	}
	m.batchSize.Observe(float64(charges))
	m.batchTime.Observe(took.Seconds())
}
