package telemetry

import (
	"time"
)

// A HookResult is the result of an attempt to send an event to a webhook.
type HookResult int

const (
	HookDelivered HookResult = iota
	HookFailed               // another attempt follows
	HookGivenUp              // the last attempt of a delivery
	hookResults
)

var hookNames = [hookResults]string{"delivered", "failed", "given_up"}

// WebhookAttempt counts a request to a webhook.
func (m *Metrics) WebhookAttempt(result HookResult, took time.Duration) {
	if m == nil {
		return
	}
	m.hooks[result].Inc()
	m.hookTime.Observe(took.Seconds())
}
