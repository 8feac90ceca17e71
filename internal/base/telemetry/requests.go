package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"stoa/internal/base/stoa"
)

// Indexes of the counters of a route.
const (
	class2xx = iota
	class3xx
	class4xx
	class5xx
	classGone // the client disconnected before the reply began
	statusClasses
)

var classNames = [statusClasses]string{"2xx", "3xx", "4xx", "5xx", "disconnected"}

func (m *Metrics) addRequests(cfg MetricsConfig) {
	requests := m.counters("stoa_http_requests_total", "Requests that have ended.", "route", "status")
	m.requests = map[string]*[statusClasses]prometheus.Counter{}
	for _, route := range append(cfg.Routes[:len(cfg.Routes):len(cfg.Routes)], None) {
		of := &[statusClasses]prometheus.Counter{}
		for i, name := range classNames {
			of[i] = requests.WithLabelValues(route, name)
		}
		m.requests[route] = of
	}
	m.errors = byCode(m.counters("stoa_errors_total", "Requests that failed or were refused, by the code of the error.", "code"), cfg.Codes)
	m.replays = m.counter("stoa_replays_total", "Requests that were answered with the stored reply of an Idempotency-Key.")
	m.disconnects = m.counter("stoa_client_disconnects_total", "Requests whose client disconnected before the reply was complete.")
}

func classOf(status int) int {
	switch {
	case status == stoa.StatusDisconnected:
		return classGone
	case status >= 500:
		return class5xx
	case status >= 400:
		return class4xx
	case status >= 300:
		return class3xx
	}
	return class2xx
}

// Request counts a finished request. It does not allocate or keep r, because it runs on each request.
func (m *Metrics) Request(r *stoa.Request) {
	if m == nil {
		return
	}
	of := m.requests[r.Route]
	if of == nil {
		of = m.requests[None]
	}
	of[classOf(r.Status)].Inc()
	if r.Code != "" {
		c := m.errors[r.Code]
		if c == nil {
			c = m.errors[""]
		}
		c.Inc()
	}
	if r.Replayed {
		m.replays.Inc()
	}
	if r.Disconnected {
		m.disconnects.Inc()
	}
}
