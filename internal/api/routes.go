package api

import (
	"net/http"
	"strings"

	"stoa/internal/responses"
	"stoa/internal/stoa"
)

// table is every route of the API, those of all extensions included, in the order of
// the contract.
func table() []route {
	return []route{
		stream("POST /api/v1/responses", "responses", modelCall(responses.Parse)),
		stream("POST /api/v1/responses/input_tokens", "responses", countTokens("response.input_tokens", responses.Parse)),
		stream("POST /api/v1/chat/completions", "responses", modelCall(responses.ParseChat)),
		stream("POST /api/v1/messages", "responses", modelCall(responses.ParseMessages)),
		stream("POST /api/v1/messages/count_tokens", "responses", countTokens("", responses.ParseMessagesCount)),
		publicGet("GET /api/v1/health", (*Server).getHealth),
		publicGet("GET /api/v1/meta", (*Server).getMeta),
		get("GET /api/v1/models", "", (*Server).listModels),
		get("GET /api/v1/models/{id}", "", (*Server).getModel),
		publicStream("GET /api/v1/openapi.json", (*Server).getOpenAPI),
		get("GET /api/v1/users/me", "", (*Server).getMe),

		create("POST /api/v1/keys", "keys:write", (*Server).createKey),
		get("GET /api/v1/keys", "keys:write", (*Server).listKeys),
		get("GET /api/v1/keys/{id}", "keys:write", (*Server).getKey),
		update("PATCH /api/v1/keys/{id}", "keys:write", (*Server).updateKey),
		update("DELETE /api/v1/keys/{id}", "keys:write", (*Server).revokeKey),
		create("POST /api/v1/keys/{id}/rotate", "keys:write", (*Server).rotateKey),

		get("GET /api/v1/credits", "usage:read", (*Server).getCredits),
		get("GET /api/v1/credits/ledger", "usage:read", (*Server).listLedger),
		get("GET /api/v1/receipts", "usage:read", (*Server).listReceipts),
		get("GET /api/v1/receipts/{id}", "usage:read", (*Server).getReceipt),
		stream("GET /api/v1/usage", "usage:read", (*Server).getUsage),
		get("GET /api/v1/usage/reconcile", "usage:read", (*Server).reconcileUsage),

		get("GET /api/v1/requests", "usage:read", (*Server).listRequests),
		get("GET /api/v1/requests/{id}", "usage:read", (*Server).getRequest),

		create("POST /api/v1/accounts", stoa.ScopeOperator, (*Server).createAccount),
		get("GET /api/v1/accounts", stoa.ScopeOperator, (*Server).listAccounts),
		get("GET /api/v1/accounts/{id}", stoa.ScopeOperator, (*Server).getAccount),
		update("PATCH /api/v1/accounts/{id}", stoa.ScopeOperator, (*Server).updateAccount),
		create("POST /api/v1/accounts/{id}/grants", stoa.ScopeOperator, (*Server).createGrant),
		create("POST /api/v1/accounts/{id}/keys", stoa.ScopeOperator, (*Server).createAccountKey),

		get("GET /api/v1/providers", stoa.ScopeOperator, (*Server).listProviders),
		get("GET /api/v1/providers/recent", stoa.ScopeOperator, (*Server).listRecentProviders),
		update("POST /api/v1/providers/{name}/test", stoa.ScopeOperator, (*Server).testProvider),
		get("GET /api/v1/doctor", stoa.ScopeOperator, (*Server).getDiagnosis),
		get("GET /api/v1/nodes", stoa.ScopeOperator, (*Server).listNodes),

		create("POST /api/v1/spaces", "agents:write", (*Server).createSpace),
		get("GET /api/v1/spaces", "agents:read", (*Server).listSpaces),
		get("GET /api/v1/spaces/{id}", "agents:read", (*Server).getSpace),
		update("PATCH /api/v1/spaces/{id}", "agents:write", (*Server).updateSpace),
		update("DELETE /api/v1/spaces/{id}", "agents:write", (*Server).deleteSpace),
		get("GET /api/v1/spaces/{id}/agents", "agents:read", (*Server).listSpaceAgents),
		get("GET /api/v1/spaces/{id}/scheduled-tasks", "schedules:read", (*Server).listSpaceScheduledTasks),
		create("POST /api/v1/secrets", "secrets:write", (*Server).createSecret),
		get("GET /api/v1/secrets", "connections:read", (*Server).listSecrets),
		get("GET /api/v1/secrets/{id}", "connections:read", (*Server).getSecret),
		update("DELETE /api/v1/secrets/{id}", "secrets:write", (*Server).deleteSecret),
		update("PUT /api/v1/secrets/{id}/value", "secrets:write", (*Server).setSecretValue),
		create("POST /api/v1/connections", "connections:write", (*Server).createConnection),
		get("GET /api/v1/connections", "connections:read", (*Server).listConnections),
		get("GET /api/v1/connections/{id}", "connections:read", (*Server).getConnection),
		update("PATCH /api/v1/connections/{id}", "connections:write", (*Server).updateConnection),
		update("DELETE /api/v1/connections/{id}", "connections:write", (*Server).deleteConnection),
		update("POST /api/v1/connections/{id}/refresh", "connections:write", (*Server).refreshConnection),
		update("POST /api/v1/connections/{id}/authorize", "connections:write", (*Server).authorizeConnection),
		update("POST /api/v1/connections/{id}/deauthorize", "connections:write", (*Server).deauthorizeConnection),
		get("GET /api/v1/connections/{id}/tools", "connections:read", (*Server).listConnectionTools),
		update("POST /api/v1/connections/{id}/tools/review", "connections:write", (*Server).reviewConnectionTools),
		update("POST /api/v1/connections/{id}/tools/test", "connections:write", (*Server).testConnectionTool),
		create("POST /api/v1/api-agents", "agents:write", (*Server).createAgent),
		get("GET /api/v1/api-agents", "agents:read", (*Server).listAgents),
		get("GET /api/v1/api-agents/{id}", "agents:read", (*Server).getAgent),
		update("PATCH /api/v1/api-agents/{id}", "agents:write", (*Server).updateAgent),
		update("DELETE /api/v1/api-agents/{id}", "agents:write", (*Server).deleteAgent),
		get("GET /api/v1/api-agents/{id}/versions", "agents:read", (*Server).listAgentVersions),
		get("GET /api/v1/api-agents/{id}/versions/{version}", "agents:read", (*Server).getAgentVersion),
		create("POST /api/v1/api-agents/{id}/rollback", "agents:write", (*Server).rollbackAgent),
		create("POST /api/v1/api-agents/{id}/duplicate", "agents:write", (*Server).duplicateAgent),

		get("GET /api/v1/api-agents/{id}/drive", "drive:read", (*Server).getDrive),
		get("GET /api/v1/api-agents/{id}/drive/files", "drive:read", (*Server).listDriveFiles),
		stream("PUT /api/v1/api-agents/{id}/drive/files", "drive:write", (*Server).putDriveFile),
		update("DELETE /api/v1/api-agents/{id}/drive/files", "drive:write", (*Server).deleteDriveFiles),
		get("GET /api/v1/api-agents/{id}/drive/files/metadata", "drive:read", (*Server).getDriveFileMetadata),
		stream("GET /api/v1/api-agents/{id}/drive/files/content", "drive:read", (*Server).getDriveFileContent),
		stream("PUT /api/v1/api-agents/{id}/drive/files/content", "drive:write", (*Server).putDriveFileContent),
		stream("POST /api/v1/api-agents/{id}/drive/files/move", "drive:write", (*Server).moveDriveFile),
		get("GET /api/v1/api-agents/{id}/drive/files/versions", "drive:read", (*Server).listDriveFileVersions),
		stream("POST /api/v1/api-agents/{id}/drive/files/restore", "drive:write", (*Server).restoreDriveFile),
		stream("POST /api/v1/api-agents/{id}/drive/batch", "drive:write", (*Server).batchDrive),
		get("GET /api/v1/api-agents/{id}/drive/search", "drive:read", (*Server).searchDrive),
		stream("GET /api/v1/api-agents/{id}/drive/export", "drive:read", (*Server).exportDrive),

		get("GET /api/v1/sessions", "sessions:read", (*Server).listAllSessions),
		get("GET /api/v1/sessions/{id}", "sessions:read", (*Server).findSession),
		createAfter("POST /api/v1/api-agents/{id}/sessions", "sessions:write", (*Server).beforeSession, (*Server).createSession),
		get("GET /api/v1/api-agents/{id}/sessions", "sessions:read", (*Server).listSessions),
		get("GET /api/v1/api-agents/{id}/sessions/{sessionId}", "sessions:read", (*Server).getSession),
		update("PATCH /api/v1/api-agents/{id}/sessions/{sessionId}", "sessions:write", (*Server).updateSession),
		update("DELETE /api/v1/api-agents/{id}/sessions/{sessionId}", "sessions:write", (*Server).deleteSession),
		get("GET /api/v1/api-agents/{id}/sessions/{sessionId}/turns", "sessions:read", (*Server).listTurns),
		create("POST /api/v1/api-agents/{id}/sessions/{sessionId}/messages", "sessions:write", (*Server).sendMessage),
		get("GET /api/v1/api-agents/{id}/sessions/{sessionId}/messages", "sessions:read", (*Server).listMessages),
		createAfter("POST /api/v1/api-agents/{id}/sessions/{sessionId}/input", "sessions:write", (*Server).beforeAnswer, (*Server).answerInput),
		update("POST /api/v1/api-agents/{id}/sessions/{sessionId}/cancel", "sessions:write", (*Server).cancelSession),
		create("POST /api/v1/api-agents/{id}/sessions/{sessionId}/retry", "sessions:write", (*Server).retrySession),
		stream("GET /api/v1/api-agents/{id}/sessions/{sessionId}/events", "sessions:read", (*Server).listSessionEvents),
		get("GET /api/v1/api-agents/{id}/sessions/{sessionId}/tool-calls", "sessions:read", (*Server).listSessionToolCalls),
		get("GET /api/v1/tool-calls", "sessions:read", (*Server).listToolCalls),
		get("GET /api/v1/tool-calls/{id}", "sessions:read", (*Server).getToolCall),
		update("POST /api/v1/tool-calls/{id}/resolve", "sessions:write", (*Server).resolveToolCall),
		get("GET /api/v1/inputs", "sessions:read", (*Server).listInputs),
		update("POST /api/v1/inputs/{id}/claim", "sessions:write", (*Server).claimInput),
		get("GET /api/v1/api-agents/{id}/sessions/{sessionId}/receipts", "sessions:read", (*Server).listSessionReceipts),
		get("GET /api/v1/api-agents/{id}/sessions/{sessionId}/sources", "sessions:read", (*Server).listSessionSources),
		stream("GET /api/v1/api-agents/{id}/sessions/{sessionId}/export", "sessions:read", (*Server).exportSession),

		create("POST /api/v1/api-agents/{id}/scheduled-tasks", "schedules:write", (*Server).createScheduledTask),
		get("GET /api/v1/api-agents/{id}/scheduled-tasks", "schedules:read", (*Server).listScheduledTasks),
		update("POST /api/v1/api-agents/{id}/scheduled-tasks/preview", "schedules:read", (*Server).previewSchedule),
		get("GET /api/v1/api-agents/{id}/scheduled-tasks/{taskId}", "schedules:read", (*Server).getScheduledTask),
		update("PATCH /api/v1/api-agents/{id}/scheduled-tasks/{taskId}", "schedules:write", (*Server).updateScheduledTask),
		update("DELETE /api/v1/api-agents/{id}/scheduled-tasks/{taskId}", "schedules:write", (*Server).deleteScheduledTask),
		update("POST /api/v1/api-agents/{id}/scheduled-tasks/{taskId}/pause", "schedules:write", (*Server).pauseScheduledTask),
		update("POST /api/v1/api-agents/{id}/scheduled-tasks/{taskId}/resume", "schedules:write", (*Server).resumeScheduledTask),
		createAfter("POST /api/v1/api-agents/{id}/scheduled-tasks/{taskId}/run", "schedules:write", (*Server).beforeRun, (*Server).runScheduledTask),
		get("GET /api/v1/api-agents/{id}/scheduled-tasks/{taskId}/runs", "schedules:read", (*Server).listTaskRuns),

		createAfter("POST /api/v1/webhooks", "webhooks:write", (*Server).beforeWebhook, (*Server).createWebhook),
		get("GET /api/v1/webhooks", "webhooks:read", (*Server).listWebhooks),
		get("GET /api/v1/webhooks/{id}", "webhooks:read", (*Server).getWebhook),
		update("PATCH /api/v1/webhooks/{id}", "webhooks:write", (*Server).updateWebhook),
		update("DELETE /api/v1/webhooks/{id}", "webhooks:write", (*Server).deleteWebhook),
		create("POST /api/v1/webhooks/{id}/test", "webhooks:write", (*Server).testWebhook),
		create("POST /api/v1/webhooks/{id}/rotate-secret", "webhooks:write", (*Server).rotateWebhookSecret),
		update("POST /api/v1/webhooks/{id}/enable", "webhooks:write", (*Server).enableWebhook),
		update("POST /api/v1/webhooks/{id}/recover", "webhooks:write", (*Server).recoverWebhook),
		get("GET /api/v1/webhooks/{id}/deliveries", "webhooks:read", (*Server).listDeliveries),
		get("GET /api/v1/webhooks/{id}/deliveries/{deliveryId}", "webhooks:read", (*Server).getDelivery),
		create("POST /api/v1/webhooks/{id}/deliveries/{deliveryId}/redeliver", "webhooks:write", (*Server).redeliver),

		create("POST /api/v1/api-agents/{id}/embed-urls", "embeds:write", (*Server).createEmbedURL),
		get("GET /api/v1/api-agents/{id}/embed-urls", "embeds:write", (*Server).listEmbedURLs),
		get("GET /api/v1/api-agents/{id}/embed-urls/{embedId}", "embeds:write", (*Server).getEmbedURL),
		update("DELETE /api/v1/api-agents/{id}/embed-urls/{embedId}", "embeds:write", (*Server).deleteEmbedURL),
		create("POST /api/v1/api-agents/{id}/embed-sessions", "embeds:write", (*Server).createEmbedSession),
		get("GET /api/v1/api-agents/{id}/embed-sessions", "embeds:write", (*Server).listEmbedSessions),
		get("GET /api/v1/api-agents/{id}/embed-sessions/{embedId}", "embeds:write", (*Server).getEmbedSession),
		update("DELETE /api/v1/api-agents/{id}/embed-sessions/{embedId}", "embeds:write", (*Server).deleteEmbedSession),
		create("POST /api/v1/api-agents/{id}/embed-sessions/{embedId}/refresh", "embeds:write", (*Server).refreshEmbedSession),
		create("POST /api/v1/api-agents/{id}/embed-tags", "embeds:write", (*Server).createEmbedTag),
		get("GET /api/v1/api-agents/{id}/embed-tags", "embeds:write", (*Server).listEmbedTags),
		get("GET /api/v1/api-agents/{id}/embed-tags/{tagId}", "embeds:write", (*Server).getEmbedTag),
		update("PATCH /api/v1/api-agents/{id}/embed-tags/{tagId}", "embeds:write", (*Server).updateEmbedTag),
		update("DELETE /api/v1/api-agents/{id}/embed-tags/{tagId}", "embeds:write", (*Server).deleteEmbedTag),
		shown("GET /api/v1/embed/tags/{tagId}", (*Server).getEmbedLauncher),
		shown("POST /api/v1/embed/tags/{tagId}/tickets", (*Server).createEmbedTicket),
		publicUpdate("POST /api/v1/embed/exchange", (*Server).exchangeEmbedURL),
		visitorUpdate("POST /api/v1/embed/refresh", (*Server).refreshEmbedToken),
		visitorUpdate("GET /api/v1/embed/chat-sessions/{chatId}", (*Server).getEmbedChat),
		visitorCreate("POST /api/v1/embed/chat-sessions/{chatId}/messages", (*Server).sendEmbedMessage),
		visitorCreate("POST /api/v1/embed/chat-sessions/{chatId}/input", (*Server).answerEmbedInput),
		visitorUpdate("POST /api/v1/embed/chat-sessions/{chatId}/cancel", (*Server).cancelEmbedChat),
		visitorCreate("POST /api/v1/embed/chat-sessions/{chatId}/retry", (*Server).retryEmbedChat),
		visitorStream("GET /api/v1/embed/chat-sessions/{chatId}/events", (*Server).listEmbedEvents),
	}
}

// Routes lists the patterns of all routes, as in the contract.
func Routes() []string {
	var list []string
	for _, rt := range table() {
		list = append(list, rt.pattern)
	}
	return list
}

// largestBody is the x-max-body of the operations that limits.body is about, as it
// is unless configured.
const largestBody = 16 << 20

// routes builds the mux. It panics where a route and the contract do not fit, which
// a test would have found.
func (s *Server) routes() *http.ServeMux {
	doc, err := s.contract().Load()
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	for _, rt := range table() {
		if _, path, _ := strings.Cut(rt.pattern, " "); doc.Paths.Value(path) == nil {
			continue // of an extension that is off
		}
		op := newOperation(doc, rt.pattern)
		if op.maxBody == largestBody {
			op.maxBody = s.MaxBody
		}
		op.maxBody = min(op.maxBody, s.MaxBody)
		mux.Handle(rt.pattern, s.served(op, rt.bind(s, op)))
	}
	mux.Handle("/", s.served(&operation{}, noRoute(mux)))
	return mux
}
