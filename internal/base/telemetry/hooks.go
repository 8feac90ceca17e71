package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A HookResult is the result of an attempt to send an event to a webhook.
type HookResult int

// The results.
const (
	HookDelivered HookResult = iota
	HookFailed               // it will be sent again
	HookGivenUp              // the last attempt of a delivery
	hookResults
)

var hookNames = [hookResults]string{"delivered", "failed", "given_up"}

func (m *Metrics) addHooks() {
	attempts := m.counters("stoa_webhook_attempts_total", "Requests to webhooks, by what they came to.", "outcome")
	m.hooks = [hookResults]prometheus.Counter{}
	for i, name := range hookNames {
		m.hooks[i] = attempts.WithLabelValues(name)
	}
	m.hookTime = m.histogram("stoa_webhook_attempt_duration_seconds", "Time of a request to a webhook.", secondsBuckets)
}

// WebhookAttempt counts a request to a webhook.
func (m *Metrics) WebhookAttempt(result HookResult, took time.Duration) {
	if m == nil {
		return
	}
	m.hooks[result].Inc()
	m.hookTime.Observe(took.Seconds())
}
