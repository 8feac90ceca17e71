package web_test

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// operatorReplies contains the stub's replies about nodes and the request log, by
// operation.
func operatorReplies() map[string]string {
	at := func(ago time.Duration) string { return time.Now().UTC().Add(-ago).Format("2006-01-02T15:04:05.000Z") }
	node := func(id, version, address, hash string, self bool) string {
		return fmt.Sprintf(`{"id":%q,"version":%q,"address":%q,"startedAt":%q,"seenAt":%q,"calls":12,"sessions":3,"configHash":%q,"configVersion":7,"configProblem":null,"self":%v}`,
			id, version, address, at(26*time.Hour), at(time.Second), hash, self)
	}
	calls := func(calls, errors int, took string) string {
		return fmt.Sprintf(`{"calls":%d,"errors":%d,"p50Milliseconds":%s,"p95Milliseconds":%s}`, calls, errors, took, took)
	}
	return map[string]string{
		"GET /providers/recent": fmt.Sprintf(`{"rows":20000,"since":%q,"cut":true,"unserved":{"hour":2,"day":12},"data":[{"name":"claude","hour":%s,"day":%s,"lastError":{"at":%q,"code":"upstream_error","text":"The model's provider failed.","status":502,"requestId":"req_01k9zqd3m8w5x7y2c4b6n8found"},"models":[{"model":"alpha-sonnet-5-5","hour":%s,"day":%s}]},{"name":"openai","hour":%s,"day":%s,"lastError":null,"models":[]}]}`,
			at(5*time.Hour), calls(412, 7, "1834"), calls(19_571, 31, "1702"), at(time.Minute), calls(400, 2, "1600"), calls(19_000, 4, "1650"), calls(0, 0, "null"), calls(3, 0, "900")),
		"POST /providers/{name}/test of openai": `{"provider":"openai","model":"gpt-5.2","ok":true,"status":null,"errorCode":null,"text":"It responded.","attempts":1,"timeToFirstTokenMilliseconds":312,"durationMilliseconds":641}`,
		"POST /providers/{name}/test of claude": `{"provider":"claude","model":"claude-haiku-4-5","ok":false,"status":401,"errorCode":"upstream_error","text":"The provider rejects the key or its permissions.","attempts":1,"timeToFirstTokenMilliseconds":null,"durationMilliseconds":93}`,
		"GET /config": `{"version":7,"latestVersion":7,"problem":null,"data":[` + strings.Join([]string{
			`{"kind":"provider","name":"claude","source":"managed","where":null,"shadowed":false,"value":{"name":"claude","wire":"messages","baseURL":"https://api.anthropic.com","apiKey":"********"}}`,
			`{"kind":"provider","name":"gpu","source":"file","where":"/etc/stoa/stoa.yaml:14:5","shadowed":false,"value":{"name":"gpu","wire":"chat","dialect":"compatible","baseURL":"http://gpu.internal:8000/v1"}}`,
			`{"kind":"model","name":"alpha-sonnet-5-5","source":"shipped","where":null,"shadowed":false,"value":{"family":"alpha","price":{"input":3000000,"cachedInput":300000,"cacheWrite":3750000,"cacheWriteLong":6000000,"output":15000000}}}`,
			`{"kind":"family","name":"alpha","source":"managed","where":null,"shadowed":false,"value":{"routes":[{"provider":"claude","weight":1},{"provider":"backup","weight":3}]}}`,
			`{"kind":"family","name":"local","source":"file","where":"/etc/stoa/stoa.yaml:18:3","shadowed":false,"value":{"routes":[{"provider":"gpu","model":"llama3.2"}]}}`,
			`{"kind":"auto","name":"auto","source":"managed","where":null,"shadowed":false,"value":{"models":["alpha-sonnet-5-5"]}}`,
			`{"kind":"alias","name":"gpt-4o*","source":"file","where":"/etc/stoa/stoa.yaml:30:5","shadowed":false,"value":{"match":"gpt-4o*","model":"alpha-sonnet-5-5"}}`,
			`{"kind":"plan","name":"free","source":"shipped","where":null,"shadowed":false,"value":{"name":"Free","gatedModels":false,"requestsPerMinute":60,"activeSessions":20}}`,
		}, ",") + `]}`,
		"GET /config/draft":                       stubDraft,
		"PUT /config/draft":                       stubDraft,
		"POST /config/draft/check":                `{"ok":true,"baseVersion":7,"problems":[],"warnings":[],"effects":[{"kind":"models_stop","text":"12 models stop, which the sandbox answers now: the draft has no provider for alpha-sonnet-5-5, alpha-opus-5-5, …","models":["alpha-sonnet-5-5"],"agents":0,"confirm":false},{"kind":"auto_stops","text":"` + "`auto`" + ` will have no model: calls and agents that use it are answered 503.","models":[],"agents":0,"confirm":true}],"changes":[{"path":"providers.claude","before":{"apiKey":"********","name":"claude","wire":"messages"},"after":{"apiKey":"********","maxInFlight":64,"name":"claude","wire":"messages"}},{"path":"models.alpha-sonnet-5-5","before":null,"after":{"price":{"input":4000000,"output":16000000}}}],"prices":[{"model":"alpha-sonnet-5-5","before":{"input":3000000,"cachedInput":300000,"cacheWrite":3750000,"cacheWriteLong":6000000,"output":15000000},"after":{"input":4000000,"cachedInput":4000000,"cacheWrite":5000000,"cacheWriteLong":8000000,"output":16000000}}]}`,
		"POST /config/draft/test":                 `{"provider":"claude","model":"claude-haiku-4-5","ok":true,"status":null,"errorCode":null,"text":"It responded.","attempts":1,"timeToFirstTokenMilliseconds":312,"durationMilliseconds":641}`,
		"POST /config/draft/apply":                stubVersion(8, `["models.alpha-sonnet-5-5 added","providers.claude changed"]`),
		"POST /config/versions/{version}/restore": stubVersion(9, `["providers.claude changed"]`),
		"GET /config/versions":                    `{"data":[` + stubVersion(7, `["plans.team added"]`) + "," + stubVersion(6, `["providers.claude added","families.alpha added"]`) + `],"nextCursor":null,"hasMore":false}`,
		"GET /nodes": `{"data":[` + strings.Join([]string{
			node("node_01JQ8Z6W5T3S9K2M4N6P8R0V1X", "1.4.0", "10.0.0.7:8080", "5f2d8e0c9a41", true),
			node("node_01JQ8Z6W5T3S9K2M4N6P8R0V2X", "1.4.0", "10.0.0.8:8080", "5f2d8e0c9a41", false),
			node("node_01JQ8Z6W5T3S9K2M4N6P8R0V3X", "1.4.1", "10.0.0.9:8080", "77aa12e0f3bc", false),
		}, ",") + `],"database":"postgresql","sameConfig":false}`,
		"GET /requests": stubRequests([]string{
			stubRequest("a", 200, ""), stubRequest("b", 429, "insufficient_quota"), stubRequest("c", 502, "upstream_error"), stubRequest("d", 200, "stream_interrupted"),
		}, "page2", `{"count":17,"since":"2026-11-20T11:58:00.000Z","until":"2026-11-20T11:59:00.000Z"}`),
		"GET /requests/summary":         stubSums(""),
		"GET /requests/summary by time": stubSums(`"from":"` + at(0) + `",`),
		"GET /audit": `{"data":[` + strings.Join([]string{
			stubChange(3, "updateWebhook", `{"id":"whk_1","enabled":false,"url":"https://example.com/(masked)#0a1b2c3d4e5f"}`, `{"id":"whk_1","enabled":true,"url":"https://example.net/(masked)#998877665544"}`),
			stubChange(2, "deleteAgent", `{"id":"agt_1","name":"Helper"}`, ""),
			stubChange(1, "createSpace", "", `{"id":"spc_1","name":"Support"}`),
		}, ",") + `],"nextCursor":null,"hasMore":false}`,
		"GET /audit/actions": `{"data":[{"action":"createSpace"},{"action":"updateWebhook"},{"action":"webhook.disabled"}],"nextCursor":null,"hasMore":false}`,
		"GET /effects":       `{"object":"effects","text":"12 keys, 3 schedules and 2 embeds stop.","data":[{"kind":"keys","count":12,"outcome":"stop"},{"kind":"tasks","count":3,"outcome":"stop"},{"kind":"embeds","count":2,"outcome":"stop"}]}`,
		"GET /budgets": `{"data":[` + strings.Join([]string{
			stubBudget("1", "account", "null", "3200000", "40000"), stubBudget("2", "end_user", `"*"`, "null", "null"),
		}, ",") + `],"nextCursor":null,"hasMore":false}`,
		"GET /budgets/{id}/windows": `{"data":[{"subject":"ann@example.com","startsAt":"2026-10-31T23:00:00.000Z","resetsAt":"2026-11-30T23:00:00.000Z","limitMicro":5000000,"spentMicro":4100000,"heldMicro":0,"openingMicro":0}],"nextCursor":null,"hasMore":false}`,
		"GET /statements/{month}":   stubStatements(),
		"POST /budgets":             stubBudget("3", "account", "null", "0", "0"),
		"GET /accounts/{id}/budgets": `{"data":[` + strings.Join([]string{
			stubBudget("4", "account", "null", "3200000", "40000"), stubBudget("5", "key", `"*"`, "null", "null"),
		}, ",") + `],"nextCursor":null,"hasMore":false}`,
		"POST /accounts/{id}/budgets":        stubBudget("4", "account", "null", "0", "0"),
		"DELETE /accounts/{id}":              stubErasure,
		"DELETE /end-users/{externalUserId}": stubErasure,
		"GET /requests/{id}":                 stubRequest("found", 404, "model_not_found"),
	}
}

// stubSums is a summary of the request log, whose group begins with these members.
func stubSums(more string) string {
	const sums = `"requests":4,"errors":3,"inputTokens":56,"outputTokens":164,"creditsMicro":987,"medianDurationMilliseconds":1204,"p95DurationMilliseconds":1204,"medianTimeToFirstTokenMilliseconds":312,"p95TimeToFirstTokenMilliseconds":312`
	return `{"totals":{` + sums + `},"data":[{` + more + `"provider":"claude","model":"beta-3.8-flash","accountId":"acc_01k9zqd3m8w5x7y2c4b6n8p0rz","accountName":"Acme",` + sums + `}],"complete":true}`
}

// stubDraft is a draft of the managed settings.
const stubDraft = `{"settings":{"providers":[{"apiKey":"********","maxInFlight":64,"name":"claude","wire":"messages"}],"families":{"alpha":[{"provider":"claude","weight":1},{"provider":"backup","weight":3}]},"models":{"alpha-sonnet-5-5":{"price":{"input":4000000,"output":16000000}}}},"exists":true,"baseVersion":7,"author":"key_01k9zqd3m8w5x7y2c4b6n8p0ra","updatedAt":"2026-11-20T11:57:00.000Z"}`

// stubVersion is a version of the managed settings.
func stubVersion(n int, changes string) string {
	return fmt.Sprintf(`{"id":"cfg_%d","version":%d,"author":"key_01k9zqd3m8w5x7y2c4b6n8p0ra","authorName":"first key","note":"A note","changes":%s,"createdAt":"2026-11-20T11:57:00.000Z"}`, n, n, changes)
}

// stubStatements are the statements of a customer, for each month.
func stubStatements() string {
	return `{"data":[{"accountId":"acc_01k9zqd3m8w5x7y2c4b6n8p0ra","accountName":"Acme","month":"2026-11","from":"2026-11-01T00:00:00.000Z","to":"2026-12-01T00:00:00.000Z","final":false,
		"openingMicro":2500000,"grantedMicro":5000000,"withdrawnMicro":0,"chargedMicro":1234567,"closingMicro":6265433,"grants":[{"kind":"grant","count":1,"amountMicro":5000000}],"withdrawals":[],
		"charges":[{"day":"2026-11-20","model":"alpha-sonnet-5-5","calls":12,"inputTokens":48000,"outputTokens":9000,"amountMicro":1234567}]}],"nextCursor":null,"hasMore":false,
		"totals":[{"model":"alpha-sonnet-5-5","calls":12,"inputTokens":48000,"outputTokens":9000,"amountMicro":1234567}]}`
}

// stubBudget is a budget of 5 credits a month.
func stubBudget(number, scope, subject, spent, held string) string {
	return fmt.Sprintf(`{"id":"bud_%s","scope":%q,"subject":%s,"period":"month","timeZone":"Europe/Vienna","limitMicro":5000000,"atCap":"shorten","notifyAt":[80,100],"setByOperator":%v,"effectiveAt":"2026-11-01T08:00:00.000Z","startsAt":"2026-10-31T23:00:00.000Z","resetsAt":"2026-11-30T23:00:00.000Z","spentMicro":%s,"heldMicro":%s,"openingMicro":%s,"createdAt":"2026-11-01T08:00:00.000Z","updatedAt":"2026-11-01T08:00:00.000Z"}`,
		number, scope, subject, number == "4", spent, held, map[bool]string{true: "0", false: "null"}[spent != "null"])
}

const stubErasure = `{"id":"era_01k9zqd3m8w5x7y2c4b6n8p0ra","kind":"account","accountId":"acc_01k9zqd3m8w5x7y2c4b6n8p0rz","status":"running","replacementId":null,"removed":{"sessions":0,"drives":0,"rows":0},"changed":{"receipts":0,"auditEntries":0},"backups":"Backups still contain the data.","createdAt":"2026-11-20T11:58:00.000Z","completedAt":null}`

// stubChange is an entry of the audit log.
func stubChange(seq int, action, before, after string) string {
	text := func(s string) string {
		if s == "" {
			return "null"
		}
		return strconv.Quote(s)
	}
	return fmt.Sprintf(`{"accountId":"acc_01k9zqd3m8w5x7y2c4b6n8p0rz","seq":%d,"at":"2026-11-20T11:57:00.000Z","actor":"key_01k9zqd3m8w5x7y2c4b6n8p0ra","actorName":"first key","action":%q,"object":"obj_01k9zqd3m8w5x7y2c4b6n8p0ra","requestId":"req_01k9zqd3m8w5x7y2c4b6n8p0ra","address":null,"before":%s,"after":%s,"prev":null,"hash":%q}`,
		seq, action, text(before), text(after), strings.Repeat("9b1c5f0e", 8))
}

// stubRequest is a row of the request log. Its id ends in the given word.
func stubRequest(word string, status int, code string) string {
	served, receipt, errorCode := `"beta-3.8-flash"`, `"resp_01k9zqd3m8w5x7y2c4b6n8p0ra"`, "null"
	if code != "" {
		errorCode = `"` + code + `"`
	}
	if status != 200 {
		served, receipt = "null", "null"
	}
	return fmt.Sprintf(`{"id":"req_01k9zqd3m8w5x7y2c4b6n8%s","accountId":"acc_01k9zqd3m8w5x7y2c4b6n8p0rz","accountName":"Acme","keyId":"key_01k9zqd3m8w5x7y2c4b6n8p0ra","keyName":"first key","model":{"requested":"auto","served":%s},"provider":"claude","attempts":2,"status":%d,"errorCode":%s,"errorParam":null,"inputTokens":1400,"cachedInputTokens":0,"outputTokens":41,"creditsMicro":42000,"responseId":%s,"receiptId":%s,"stream":true,"timeToFirstTokenMilliseconds":312,"durationMilliseconds":1204,"estimated":false,"clamped":false,"disconnected":false,"replayed":false,"clientAddress":null,"startedAt":"2026-11-20T11:57:00.000Z","createdAt":"2026-11-20T11:57:02.000Z"}`,
		word, served, status, errorCode, receipt, receipt)
}

// stubRequests is a page of the request log.
func stubRequests(rows []string, next, dropped string) string {
	cursor := "null"
	if next != "" {
		cursor = `"` + next + `"`
	}
	return fmt.Sprintf(`{"data":[%s],"nextCursor":%s,"hasMore":%v,"followCursor":"follow","dropped":%s}`, strings.Join(rows, ","), cursor, next != "", dropped)
}
