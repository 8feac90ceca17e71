package telemetry

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stoa/internal/base/stoa"
)

// Tools contains the names of an agent's tools. A test compares it with package agent.
var Tools = []string{"drive_list", "drive_read", "drive_search", "drive_write", "memory_read", "memory_write", "table_list", "table_query", "ask_user", stoa.FindTool}

// TurnCodes are the codes of failed turns that do not occur in HTTP replies. A test compares
// them with package session.
var TurnCodes = []stoa.Code{
	"queue_timeout", "turn_timeout", "step_limit_reached", "credit_limit_reached", "input_expired", "worker_lost", "content_filter",
	"tool_timeout", "tool_outcome_unknown", "tool_limit_reached", "too_many_waits",
}

func (m *Metrics) addSessions(cfg MetricsConfig) {
	moved := m.counters("stoa_session_transitions_total", "Changes of a session's status; running counts the claims.", "status")
	m.transitions = map[stoa.SessionStatus]prometheus.Counter{}
	for _, s := range slices.Concat(stoa.ActiveStatuses, stoa.EndedStatuses) {
		m.transitions[s] = moved.WithLabelValues(string(s))
	}
	m.failures = byCode(m.counters("stoa_turn_failures_total", "Failed turns, by code.", "code"), append(cfg.Codes[:len(cfg.Codes):len(cfg.Codes)], TurnCodes...))
	steps := m.counters("stoa_steps_total", "Steps of turns.", "outcome")
	m.steps = [2]prometheus.Counter{steps.WithLabelValues("recorded"), steps.WithLabelValues("failed")}
	tools := m.counters("stoa_tool_calls_total", "Tool calls of agents.", "tool", "outcome")
	m.tools = map[string]*[2]prometheus.Counter{}
	for _, name := range append(Tools[:len(Tools):len(Tools)], Other) {
		m.tools[name] = &[2]prometheus.Counter{tools.WithLabelValues(name, "ok"), tools.WithLabelValues(name, "error")}
	}
	external := m.counters("stoa_external_tool_calls_total", "Calls of tools that are carried out outside of the service, by what came of them.", "outcome")
	m.external = map[stoa.CallOutcome]prometheus.Counter{}
	for _, outcome := range []stoa.CallOutcome{stoa.OutcomeOK, stoa.OutcomeError, stoa.OutcomeUnknown, stoa.OutcomeDenied, stoa.OutcomeExpired, stoa.OutcomeCancelled} {
		m.external[outcome] = external.WithLabelValues(string(outcome))
	}
	m.serverCalls = m.histogram("stoa_tool_server_duration_seconds", "Time of a request to the server of a connection.", secondsBuckets)
	m.lag = m.histogram("stoa_schedule_lag_seconds", "Time from the instant of a scheduled run to the start of its session.", lagBuckets)
}

// Became counts committed status changes of sessions. failure is the code of a failed turn.
func (m *Metrics) Became(status stoa.SessionStatus, failure stoa.Code) {
	if m == nil {
		return
	}
	if c := m.transitions[status]; c != nil {
		c.Inc()
	}
	if status != stoa.SessionFailed {
		return
	}
	c := m.failures[failure]
	if c == nil {
		c = m.failures[""]
	}
	c.Inc()
}

// ServerCall records the duration of a call to the server of a connection.
func (m *Metrics) ServerCall(d time.Duration) {
	if m != nil {
		m.serverCalls.Observe(d.Seconds())
	}
}

// ExternalCall counts a call of an external tool.
func (m *Metrics) ExternalCall(outcome stoa.CallOutcome) {
	if m != nil && m.external[outcome] != nil {
		m.external[outcome].Inc()
	}
}

// Step counts a step of a turn: recorded, or failed in any way.
func (m *Metrics) Step(recorded bool) {
	switch {
	case m == nil:
	case recorded:
		m.steps[0].Inc()
	default:
		m.steps[1].Inc()
	}
}

// Tool counts a tool call of an agent. failed means that the model received an error.
func (m *Metrics) Tool(name string, failed bool) {
	if m == nil {
		return
	}
	of := m.tools[name]
	if of == nil {
		of = m.tools[Other]
	}
	if failed {
		of[1].Inc()
	} else {
		of[0].Inc()
	}
}

// Scheduled counts a session that a scheduled task started, with its delay after the instant.
func (m *Metrics) Scheduled(late time.Duration) {
	if m != nil {
		m.lag.Observe(late.Seconds())
	}
}
