package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stoa/internal/base/stoa"
)

// A Call is the outcome of one model call that had a hold, for a caller or a session's step.
type Call struct {
	Model     string // catalog identifier that served, or that was tried last
	Provider  string // provider that accepted the call; may be empty
	Account   string
	Duration  time.Duration
	FirstText time.Duration // time from the beginning; 0 if there was no text
	Code      stoa.Code     // code of the failure; empty if it succeeded
	State     string        // state of its charge; empty if nothing was charged
	Usage     stoa.Usage    // charged usage
	Amount    stoa.Credits  // charged amount
}

// A Route is a model of the catalog at a provider that may serve it.
type Route struct{ Model, Provider string }

type callKey = Route

// A callMeter contains the metrics of one model at one provider. They are bound once, so that a call needs no
// search by labels.
type callMeter struct {
	key             callKey
	duration, first prometheus.Observer
	input, output   prometheus.Observer
	read, written   prometheus.Counter // input tokens from and to the provider's cache
	charged         prometheus.Counter
}

// maxMeters is the maximum number of routes with separate metrics, so that the time series stay bounded.
const maxMeters = 10_000

// disconnected is the error_type of a call whose caller disconnected.
const disconnected = "client_disconnected"

func (m *Metrics) addCalls() {
	m.duration = m.histograms("gen_ai_client_operation_duration_seconds", "Time of a model call from its hold to its end, all attempts included.", secondsBuckets, append(callLabels[:3:3], "error_type")...)
	m.firstToken = m.histograms("gen_ai_server_time_to_first_token_seconds", "Time of a model call from its hold to its first text or tool call.", firstBuckets, callLabels...)
	m.tokens = m.histograms("gen_ai_client_token_usage", "Tokens of a charged call.", tokenBuckets, append(callLabels[:3:3], "gen_ai_token_type")...)
	m.cacheRead = m.counters("gen_ai_usage_cache_read_input_tokens_total", "Input tokens of charged calls that were read from the provider's cache.", callLabels...)
	m.cacheWritten = m.counters("gen_ai_usage_cache_creation_input_tokens_total", "Input tokens of charged calls that were written to the provider's cache.", callLabels...)
	m.charged = m.counters("stoa_charged_microcredits_total", "Micro-credits charged.", callLabels[1:]...)
	states := m.counters("stoa_charges_total", "Charges, by how their call ended.", "state")
	m.charges = map[string]prometheus.Counter{}
	for _, s := range []string{"completed", "incomplete", "cancelled"} {
		m.charges[s] = states.WithLabelValues(s)
	}
	m.others = m.bind(callKey{Other, Other})
	m.calls.Store(&map[callKey]*callMeter{})
}

func (m *Metrics) bind(k callKey) *callMeter {
	tokens := func(kind string) prometheus.Observer {
		return m.tokens.WithLabelValues(operation, k.Provider, k.Model, kind)
	}
	return &callMeter{
		key:      k,
		duration: m.duration.WithLabelValues(operation, k.Provider, k.Model, ""),
		first:    m.firstToken.WithLabelValues(operation, k.Provider, k.Model),
		input:    tokens("input"), output: tokens("output"),
		read: m.cacheRead.WithLabelValues(operation, k.Provider, k.Model), written: m.cacheWritten.WithLabelValues(operation, k.Provider, k.Model),
		charged: m.charged.WithLabelValues(k.Provider, k.Model),
	}
}

// Learn registers the models and providers, at the start and after a change of the configuration. Calls of others
// count as those of [Other]. Known ones stay registered, so that their counters continue.
//
// Routes after the first [maxMeters] count as [Other], because the models that servers list may change without
// end.
func (m *Metrics) Learn(routes []Route) {
	if m == nil {
		return
	}
	m.learning.Lock()
	defer m.learning.Unlock()
	next := map[callKey]*callMeter{}
	for k, c := range *m.calls.Load() {
		next[k] = c
	}
	add := func(k callKey) {
		if next[k] == nil && len(next) < maxMeters {
			next[k] = m.bind(k)
		}
	}
	for _, r := range routes {
		add(r)
		add(callKey{r.Model, None})
	}
	m.calls.Store(&next)
}

// Call counts a finished model call. It allocates only if the call failed.
func (m *Metrics) Call(c *Call) {
	if m == nil {
		return
	}
	k := callKey{c.Model, c.Provider}
	if k.Provider == "" {
		k.Provider = None
	}
	of := (*m.calls.Load())[k]
	if of == nil {
		of = m.others
	}
	if c.FirstText > 0 {
		of.first.Observe(c.FirstText.Seconds())
	}
	if c.Code == "" {
		of.duration.Observe(c.Duration.Seconds())
	} else {
		kind := string(c.Code)
		if !m.codes[c.Code] && kind != disconnected {
			kind = "_OTHER" // required by the semantic conventions for unknown values
		}
		m.duration.WithLabelValues(operation, of.key.Provider, of.key.Model, kind).Observe(c.Duration.Seconds())
	}
	m.accounts.call(c)
	if c.State == "" {
		return
	}
	of.input.Observe(float64(c.Usage.InputTokens))
	of.output.Observe(float64(c.Usage.OutputTokens))
	of.read.Add(float64(c.Usage.CachedTokens))
	of.written.Add(float64(c.Usage.CacheWriteTokens))
	of.charged.Add(float64(c.Amount))
	if n, ok := m.charges[c.State]; ok {
		n.Inc()
	}
}

// Disconnected is the code of a call whose caller disconnected.
const Disconnected stoa.Code = disconnected

// accountMeters contains the metrics of accounts. They are optional, because each account adds time series.
type accountMeters struct {
	calls, charged *prometheus.CounterVec

	mu   sync.RWMutex
	most int
	of   map[string]*accountMeter
	rest *accountMeter
}

type accountMeter struct{ calls, charged prometheus.Counter }

func (a *accountMeters) bind(id string) *accountMeter {
	return &accountMeter{a.calls.WithLabelValues(id), a.charged.WithLabelValues(id)}
}

func (a *accountMeters) call(c *Call) {
	if a == nil {
		return
	}
	a.mu.RLock()
	of := a.of[c.Account]
	full := len(a.of) >= a.most
	a.mu.RUnlock()
	if of == nil && full {
		of = a.rest
	}
	if of == nil {
		of = a.add(c.Account)
	}
	of.calls.Inc()
	of.charged.Add(float64(c.Amount))
}

// add registers separate metrics for an account if the limit allows it.
func (a *accountMeters) add(id string) *accountMeter {
	a.mu.Lock()
	defer a.mu.Unlock()
	if of := a.of[id]; of != nil {
		return of
	}
	if len(a.of) >= a.most {
		return a.rest
	}
	of := a.bind(id)
	a.of[id] = of
	return of
}
