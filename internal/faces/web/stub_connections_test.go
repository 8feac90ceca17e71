package web_test

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	stubConnection = "cnn_01k9zqd3m8w5x7y2c4b6n8p0ra"
	stubHook       = "whk_01k9zqd3m8w5x7y2c4b6n8p0ra"
	stubWaiting    = 120 // inputs that wait for an approval, if the stub asks
)

// connectionReplies contains the stub's replies about a connection, a webhook, and the tool calls
// that wait for an approval, by operation.
func connectionReplies() map[string]string {
	const at = `"2026-11-20T11:58:00.000Z"`
	list := func(items ...string) string {
		return `{"data":[` + strings.Join(items, ",") + `],"nextCursor":null,"hasMore":false}`
	}
	tool := func(name, state, effects string) string {
		return fmt.Sprintf(`{"name":%q,"modelName":"shop__%s","title":"Find an order","description":"Finds an order by its number","state":%q,"effects":%s,"approval":"always","onUnknown":"tell_model","visitors":"confirm","visitorTitle":"Find your order","publicFields":["/order_id"],"timeoutSeconds":30,"idempotencyArgument":null,"annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","properties":{"order_id":{"type":"string"}}},"outputSchema":null,"request":null,"previous":null,"suggested":{"approval":"always","effects":"once"},"warnings":["The text of the tool changed."],"definitionTokens":120,"sha256":"2b3c4d5e6f70","approvedSha256":null}`, name, name, state, effects)
	}
	delivery := func(n int, status string) string {
		return fmt.Sprintf(`{"id":"dlv_01k9zqd3m8w5x7y2c4b6n8p%03d","object":"delivery","webhookId":%q,"eventId":"evn_01k9zqd3m8w5x7y2c4b6n8p%03d","type":"session.waiting_for_input","status":%q,"attemptCount":3,"lastStatus":503,"lastError":"The server answered 503 Service Unavailable.","nextAttemptAt":%s,"createdAt":%s,"finishedAt":null}`, n, stubHook, n, status, at, at)
	}
	call := func(n int, outcome, result string) string {
		return fmt.Sprintf(`{"id":"call_01k9zqd3m8w5x7y2c4b6n8p%03d","object":"tool_call","agentId":%q,"agentName":"Helper","sessionId":%q,"tool":"refund_order","title":"Refund an order","type":"client","arguments":{"order_id":"A-17","reason":"It came twice, and the second parcel was broken"},"definitionSha256":"2b3c4d5e6f70","effects":"once","status":"done","outcome":%q,"errorCode":null,"isError":false,"approval":null,"approvalInputId":null,"inputId":null,"needsApproval":false,"attempts":1,"previousOutcome":null,"resolution":null,"lateOutput":null,"resultText":%q,"resultBytes":42,"secretId":null,"durationMs":120,"step":1,"place":0,"turn":1,"expiresAt":null,"startedAt":%s,"finishedAt":%s,"createdAt":%s}`, n, stubAgent, stubSession, outcome, result, at, at, at)
	}
	hook := fmt.Sprintf(`{"id":%q,"object":"webhook","url":"https://hooks.example.com/stoa","description":"Tells the shop","events":["session.completed","session.failed","credits.low"],"scope":"account","spaceIds":[],"status":"enabled","disabledReason":null,"creditsLowMicro":1000000,"failedDeliveries":12,"failingSince":%s,"lastSuccessAt":%s,"createdAt":%s,"updatedAt":%s}`, stubHook, at, at, at, at)
	return map[string]string{
		"GET /tool-calls":               list(call(1, "ok", "Refunded 4,200 credits to the customer."), call(2, "denied", "The operator rejected the call."), call(3, "unknown", "")),
		"GET /webhooks":                 list(hook, strings.Replace(hook, `"failingSince":`+at, `"failingSince":null`, 1)),
		"GET /secrets":                  list(fmt.Sprintf(`{"id":"sec_01k9zqd3m8w5x7y2c4b6n8p0ra","name":"Shop token","kind":"bearer","origin":"https://mcp.shop.example.com","hint":"9f2a","headerName":null,"parameterName":null,"externalUserId":null,"spaceId":null,"connectionIds":[%q],"usedBy":[],"unreadable":false,"version":2,"expiresAt":null,"lastUsedAt":%s,"createdAt":%s,"updatedAt":%s}`, stubConnection, at, at, at)),
		"GET /connections/{id}":         fmt.Sprintf(`{"id":%q,"spaceId":"spc_01k9zqd3m8w5x7y2c4b6n8p0ra","spaceName":"Support","kind":"mcp","name":"shop","url":"https://mcp.shop.example.com/mcp","documentUrl":null,"status":"review_needed","enabled":true,"auth":{"type":"secret","secretId":"sec_01k9zqd3m8w5x7y2c4b6n8p0ra"},"credentialsPerSession":"optional","headers":{"X-Tenant":"museum"},"instructions":null,"filter":null,"lastAuthorization":null,"lastCheckedAt":%s,"lastError":{"code":"unreachable","message":"The server did not answer within 30 seconds."},"limits":{"callsPerMinute":60,"maxConcurrent":4,"maxResultBytes":262144,"timeoutSeconds":30},"metadata":{},"onChange":"block","operations":null,"protocol":{"era":"modern","serverName":"Shop","serverVersion":"2.4.0","version":"2026-06-18"},"sessions":"turn","toolCounts":{"approved":1,"changed":1,"invalid":0,"missing":0,"new":1,"rejected":0},"createdAt":%s,"updatedAt":%s}`, stubConnection, at, at, at),
		"GET /connections/{id}/tools":   `{"data":[` + tool("cancel_order", "new", `null`) + "," + tool("find_order", "approved", `"read"`) + "," + tool("refund_order_of_customer", "changed", `"once"`) + `]}`,
		"GET /webhooks/{id}":            hook,
		"GET /webhooks/{id}/deliveries": list(delivery(1, "failed"), delivery(2, "pending"), delivery(3, "delivered"), delivery(4, "held")),
		"GET /embed-logos":              list(`{"id":"lgo_01k9zqd3m8w5x7y2c4b6n8p0ra","object":"embed_logo","mimeType":"image/png","size":68,"width":1,"height":1,"url":"/favicon.ico","createdAt":"2026-11-20T11:58:00.000Z"}`),
		"GET /inputs of many":           stubInputs("", 50),
	}
}

// stubInputs returns a page of the inputs that wait for an approval; the cursor is the number of
// the first.
func stubInputs(cursor string, limit int) string {
	first, _ := strconv.Atoi(cursor) // 0 on the first page
	var rows []string
	for n := first; n < min(first+limit, stubWaiting); n++ {
		rows = append(rows, fmt.Sprintf(`{"id":"inp_01k9zqd3m8w5x7y2c4b6n8p%03d","object":"input","kind":"tool_approval","agentId":%q,"agentName":"Helper","sessionId":%q,"sessionTitle":"Order %03d","externalUserId":"customer-7","prompt":"May the agent do this?","turn":1,"claimId":null,"claimedUntil":null,"calls":[{"callId":"call_%03d","tool":"refund_order","title":"Refund an order","arguments":{"order_id":"A-%03d","credits":4200},"effects":"once","status":"waiting","expiresAt":"2026-11-21T11:58:00.000Z"}],"createdAt":"2026-11-20T11:58:00.000Z","expiresAt":"2026-11-21T11:58:00.000Z"}`, n, stubAgent, stubSession, n, n, n))
	}
	next, more := "null", first+limit < stubWaiting
	if more {
		next = strconv.Quote(strconv.Itoa(first + limit))
	}
	return fmt.Sprintf(`{"data":[%s],"nextCursor":%s,"hasMore":%t}`, strings.Join(rows, ","), next, more)
}
