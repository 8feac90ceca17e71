package web_test

import (
	"fmt"
	"strings"
)

// stubProviders is the stub's reply about providers: a healthy one, and one with a
// model whose circuit is open.
func stubProviders() string {
	const failed = `{"at":"2026-11-20T11:59:00.000Z","code":"server_is_overloaded","text":"The service or a provider is overloaded.","status":529}`
	route := func(model, state, until, last string, failures int) string {
		return fmt.Sprintf(`{"model":%q,"state":%q,"openUntil":%s,"inFlight":2,"requests":1482,"retries":%d,"failures":%d,"timeouts":1,"lastFailure":%s}`, model, state, until, failures, failures, last)
	}
	provider := func(name, wire string, failures int, last string, routes ...string) string {
		return fmt.Sprintf(`{"name":%q,"wire":%q,"disabled":false,"models":["alpha-sonnet-5-5","alpha-opus-5-5"],"listProblem":null,"inFlight":4,"maxInFlight":512,"refused":3,"requests":%d,"retries":1,"failures":%d,"timeouts":1,"lastFailure":%s,"routes":[%s]}`, name, wire, 1482*len(routes), failures, last, strings.Join(routes, ","))
	}
	return `{"active":8,"retrying":1,"data":[` + strings.Join([]string{
		provider("claude", "messages", 31, failed, route("claude-opus-4-8", "open", `"2026-11-20T12:00:30.000Z"`, failed, 30), route("claude-sonnet-4-6", "closed", "null", "null", 0), route("claude-haiku-4-5", "half_open", "null", failed, 1)),
		provider("openai", "responses", 0, "null", route("gpt-5.2", "closed", "null", "null", 0)),
		provider("sandbox", "sandbox", 0, "null"),
	}, ",") + `]}`
}

// laterReplies contains the stub's replies about schedules and embeds, by operation.
func laterReplies() map[string]string {
	const at = `"2026-11-20T11:58:00.000Z"`
	list := func(items ...string) string {
		return `{"data":[` + strings.Join(items, ",") + `],"nextCursor":null,"hasMore":false}`
	}
	run := func(n int, status, reason, through, session string, instants int) string {
		return fmt.Sprintf(`{"id":"run_01k9zqd3m8w5x7y2c4b6n8p0r%c","object":"task_run","taskId":%q,"scheduledFor":%s,"trigger":"schedule","status":%q,"skipReason":%s,"waitingFor":null,"instants":%d,"throughScheduledFor":%s,"sessionId":%s,"turn":null,"delaySeconds":null,"createdAt":%s,"startedAt":null,"finishedAt":null}`,
			'a'+n, stubTask, at, status, reason, instants, through, session, at)
	}
	failed := strings.Replace(run(2, "failed", "null", "null", `"`+stubSession+`"`, 1), `"startedAt":null,"finishedAt":null`,
		`"startedAt":"2026-11-20T11:58:00.000Z","finishedAt":"2026-11-20T11:58:04.000Z","error":{"code":"upstream_error","message":"The model's provider failed. Try again.","retryable":true},"creditsMicro":4200`, 1)
	completed := run(0, "completed", "null", "null", `"`+stubSession+`"`, 1)
	task := func(id, name, status, reason, next, upcoming string) string {
		return fmt.Sprintf(`{"id":%q,"object":"scheduled_task","agentId":%q,"name":%q,"message":"Write the report of the day.","mode":"once","schedule":{"type":"cron","expression":"0 9 * * MON-FRI","timezone":"Europe/Berlin"},"startAt":null,"endAt":null,"maxRuns":null,"enabled":true,"status":%q,"pauseReason":%s,"sessionPolicy":"new","missedRunPolicy":"run_latest","catchUpWindowSeconds":3600,"overlapPolicy":"skip","pauseAfterFailures":5,"maxCreditsMicroPerRun":null,"sessionId":null,"nextRunAt":%s,"upcomingRunsAt":[%s],"lastRun":%s,"counters":{"started":41,"completed":38,"failed":2,"cancelled":1,"skipped":6,"consecutiveFailures":1},"createdAt":%s,"updatedAt":%s}`,
			id, stubAgent, name, status, reason, next, upcoming, completed, at, at)
	}
	daily := task(stubTask, "Daily report", "active", "null", `"2099-11-23T08:00:00.000Z"`, `"2099-11-23T08:00:00.000Z","2099-11-24T08:00:00.000Z"`)
	paused := task("tsk_01k9zqd3m8w5x7y2c4b6n8p0rb", "Hourly check", "paused", `"failures"`, "null", "")
	embed := func(id, status, with string, sent, refused int) string {
		origins := ""
		if refused > 0 {
			origins = fmt.Sprintf(`{"origin":"https://elsewhere.example","times":%d,"lastAt":%s}`, refused, at)
		}
		return fmt.Sprintf(`{"id":%q,"object":%q,%s"agentId":%q,"chatSessionId":%q,"status":%q,"allowedOrigins":["https://www.example.com"],"externalUserId":"user-1042","greeting":null,"feedback":true,"contact":false,"theme":"auto","messagesPerMinute":10,"maxMessages":50,"maxMessageChars":4000,"maxCreditsMicro":null,"messagesSent":%d,"lastMessageAt":null,"refusedRequests":%d,"refusedOrigins":[%s],"chatExpiresAt":null,"revokedAt":null,"createdAt":%s}`,
			id, map[string]string{"emu": "embed_url", "ems": "embed_session"}[id[:3]], with, stubAgent, stubSession, status, sent, refused, origins, at)
	}
	hook := func(more string) string {
		return fmt.Sprintf(`{"id":%q,"object":"hook","agentId":%q,"name":"Slack","url":"https://stoa.example.com/api/v1/hooks/%s","signature":{"kind":"slack"},"message":"/event","externalId":"/event/channel","externalUserId":"/event/user","eventId":null,"mode":"chat","networks":[],"turnsPerDay":200,"maxCreditsMicroPerTurn":null,"enabled":true,"disabledReason":null,"createdAt":%s,"updatedAt":%s%s}`,
			stubSigned, stubAgent, stubSigned, at, at, more)
	}
	const ends = `"expiresAt":` + at + `,`
	const token = "ems_01k9zqd3m8w5x7y2c4b6n8p0ra"
	return map[string]string{
		"GET /api-agents/{id}/scheduled-tasks":                  list(daily, paused),
		"POST /api-agents/{id}/scheduled-tasks":                 daily,
		"POST /api-agents/{id}/scheduled-tasks/preview":         `{"runs":[{"at":"2026-11-23T08:00:00.000Z","localTime":"2026-11-23T09:00:00+01:00","adjustment":null},{"at":"2027-03-28T01:00:00.000Z","localTime":"2027-03-28T03:00:00+02:00","adjustment":"gap"}]}`,
		"GET /api-agents/{id}/scheduled-tasks/{taskId}":         daily,
		"PATCH /api-agents/{id}/scheduled-tasks/{taskId}":       daily,
		"POST /api-agents/{id}/scheduled-tasks/{taskId}/pause":  paused,
		"POST /api-agents/{id}/scheduled-tasks/{taskId}/resume": daily,
		"POST /api-agents/{id}/scheduled-tasks/{taskId}/run":    run(1, "queued", "null", "null", "null", 1),
		"GET /api-agents/{id}/scheduled-tasks/{taskId}/runs":    list(completed, failed, run(3, "skipped", `"overlap"`, "null", "null", 1), run(4, "skipped", `"catch_up_window"`, at, "null", 40)),
		"GET /api-agents/{id}/hooks":                            list(hook("")),
		"POST /api-agents/{id}/hooks":                           hook(`,"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="`),
		"PATCH /api-agents/{id}/hooks/{hookId}":                 hook(""),
		"POST /api-agents/{id}/hooks/{hookId}/rotate-secret":    hook(`,"secret":"8f742231b10e8888abcd99yyyzzz85a5"`),
		"GET /api-agents/{id}/embed-tags":                       list(),
		"GET /api-agents/{id}/embed-urls":                       list(embed(stubEmbed, "active", `"exchangedAt":null,`+ends, 4, 3), embed("emu_01k9zqd3m8w5x7y2c4b6n8p0rb", "revoked", `"exchangedAt":null,`+ends, 0, 0)),
		"POST /api-agents/{id}/embed-urls":                      embed(stubEmbed, "pending", `"exchangedAt":null,"url":"https://stoa.example.com/embed/emu_01k9zqd3m8w5x7y2c4b6n8p0ra#t=dGhlLXRpY2tldA",`+ends, 0, 0),
		"GET /api-agents/{id}/embed-sessions":                   list(),
		"POST /api-agents/{id}/embed-sessions":                  embed(token, "active", `"token":"est_dGhlLXRva2VuLW9mLXRoZS1lbWJlZA",`+ends, 0, 0),
	}
}
