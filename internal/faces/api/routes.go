package api

import (
	"net/http"

	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/models/responses"
)

// table returns every route of the API, including those of all extensions, in the order
// of the contract.
func table() []rest.Route[*Server] {
	return []rest.Route[*Server]{
		rest.Stream("POST /api/v1/responses", "responses", modelCall(responses.Parse)),
		rest.Stream("POST /api/v1/responses/compact", "responses", modelCall(responses.ParseCompact)),
		rest.Stream("POST /api/v1/responses/input_tokens", "responses", countTokens("response.input_tokens", responses.Parse)),
		rest.Stream("POST /api/v1/chat/completions", "responses", modelCall(responses.ParseChat)),
		rest.Stream("POST /api/v1/messages", "responses", modelCall(responses.ParseMessages)),
		rest.Stream("POST /api/v1/messages/count_tokens", "responses", countTokens("", responses.ParseMessagesCount)),
		rest.Stream("POST /api/v1/models/{model}:generateContent", "responses", geminiCall[geminiParams](false)),
		rest.Stream("POST /api/v1/models/{model}:streamGenerateContent", "responses", geminiCall[geminiStreamParams](true)),
		rest.Stream("POST /api/v1/models/{model}:countTokens", "responses", countContent),
		rest.PublicGet("GET /api/v1/health", (*Server).getHealth),
		rest.PublicGet("GET /api/v1/meta", (*Server).getMeta),
		rest.Get("GET /api/v1/models", "", (*Server).listModels),
		rest.Get("GET /api/v1/models/{id}", "", (*Server).getModel),
		rest.PublicStream("GET /api/v1/openapi.json", (*Server).getOpenAPI),
		rest.Get("GET /api/v1/users/me", "", (*Server).getMe),
		rest.Get("GET /api/v1/notices", "", (*Server).listNotices),

		rest.Create("POST /api/v1/keys", "keys:write", (*Server).createKey),
		rest.Get("GET /api/v1/keys", "keys:write", (*Server).listKeys),
		rest.Get("GET /api/v1/keys/{id}", "keys:write", (*Server).getKey),
		rest.Update("PATCH /api/v1/keys/{id}", "keys:write", (*Server).updateKey),
		rest.Update("DELETE /api/v1/keys/{id}", "keys:write", (*Server).revokeKey),
		rest.Create("POST /api/v1/keys/{id}/rotate", "keys:write", (*Server).rotateKey),

		rest.Create("POST /api/v1/budgets", stoa.ScopeAccountWrite, (*Server).createBudget),
		rest.Get("GET /api/v1/budgets", stoa.ScopeAccountRead, (*Server).listBudgets),
		rest.Get("GET /api/v1/budgets/{id}", stoa.ScopeAccountRead, (*Server).getBudget),
		rest.Update("PATCH /api/v1/budgets/{id}", stoa.ScopeAccountWrite, (*Server).updateBudget),
		rest.Update("DELETE /api/v1/budgets/{id}", stoa.ScopeAccountWrite, (*Server).deleteBudget),
		rest.Get("GET /api/v1/budgets/{id}/windows", stoa.ScopeAccountRead, (*Server).listBudgetWindows),

		rest.Get("GET /api/v1/credits", "usage:read", (*Server).getCredits),
		rest.Get("GET /api/v1/credits/ledger", "usage:read", (*Server).listLedger),
		rest.Get("GET /api/v1/receipts", "usage:read", (*Server).listReceipts),
		rest.Get("GET /api/v1/receipts/summary", "usage:read", (*Server).getReceiptSummary),
		rest.Get("GET /api/v1/receipts/{id}", "usage:read", (*Server).getReceipt),
		rest.Stream("GET /api/v1/usage", "usage:read", (*Server).getUsage),
		rest.Get("GET /api/v1/usage/reconcile", "usage:read", (*Server).reconcileUsage),

		rest.Stream("GET /api/v1/statements/{month}", "usage:read", (*Server).getStatements),

		rest.CreateAfter("POST /api/v1/payments", stoa.ScopeAccountWrite, (*Server).beginPayment, (*Server).createPayment),
		rest.Get("GET /api/v1/payments", stoa.ScopeAccountRead, (*Server).listPayments),
		rest.Get("GET /api/v1/payments/packs", stoa.ScopeAccountRead, (*Server).listPacks),
		rest.Get("GET /api/v1/payments/{id}", stoa.ScopeAccountRead, (*Server).getPayment),

		rest.Get("GET /api/v1/requests", "usage:read", (*Server).listRequests),
		rest.Get("GET /api/v1/requests/summary", "usage:read", (*Server).getRequestSummary),
		rest.Get("GET /api/v1/requests/{id}", "usage:read", (*Server).getRequest),

		rest.Get("GET /api/v1/audit", stoa.ScopeAccountRead, (*Server).listAudit),
		rest.Get("GET /api/v1/audit/actions", stoa.ScopeAccountRead, (*Server).listAuditActions),
		rest.Stream("GET /api/v1/audit/export", stoa.ScopeAccountRead, (*Server).exportAudit),

		rest.Create("POST /api/v1/members", stoa.ScopeAccountWrite, (*Server).inviteMember),
		rest.Get("GET /api/v1/members", stoa.ScopeAccountRead, (*Server).listMembers),
		rest.Get("GET /api/v1/members/{id}", stoa.ScopeAccountRead, (*Server).getMember),
		rest.Update("PATCH /api/v1/members/{id}", stoa.ScopeAccountWrite, (*Server).updateMember),
		rest.Update("DELETE /api/v1/members/{id}", stoa.ScopeAccountWrite, (*Server).removeMember),
		rest.Create("POST /api/v1/members/{id}/link", stoa.ScopeAccountWrite, (*Server).createSignInLink),
		rest.Get("GET /api/v1/invitations", stoa.ScopeAccountRead, (*Server).listInvitations),
		rest.Create("POST /api/v1/invitations/{id}/link", stoa.ScopeAccountWrite, (*Server).renewInvitation),
		rest.Update("DELETE /api/v1/invitations/{id}", stoa.ScopeAccountWrite, (*Server).revokeInvitation),

		rest.Create("POST /api/v1/accounts", stoa.ScopeOperator, (*Server).createAccount),
		rest.Create("POST /api/v1/accounts/invitations", stoa.ScopeOperatorBilling, (*Server).inviteAccount),
		rest.Get("GET /api/v1/accounts", stoa.ScopeOperatorRead, (*Server).listAccounts),
		rest.Get("GET /api/v1/accounts/{id}", stoa.ScopeOperatorRead, (*Server).getAccount),
		rest.Update("PATCH /api/v1/accounts/{id}", stoa.ScopeOperatorBilling, (*Server).updateAccount),
		rest.Create("POST /api/v1/accounts/{id}/grants", stoa.ScopeOperatorBilling, (*Server).createGrant),
		rest.Update("POST /api/v1/accounts/{id}/withdrawals", stoa.ScopeOperatorBilling, (*Server).createWithdrawal),
		rest.Create("POST /api/v1/accounts/{id}/keys", stoa.ScopeOperator, (*Server).createAccountKey),
		rest.Create("POST /api/v1/accounts/{id}/members", stoa.ScopeOperatorBilling, (*Server).inviteAccountMember),

		rest.Get("GET /api/v1/providers", stoa.ScopeOperatorRead, (*Server).listProviders),
		rest.Get("GET /api/v1/providers/recent", stoa.ScopeOperatorRead, (*Server).listRecentProviders),
		rest.Update("POST /api/v1/providers/{name}/test", stoa.ScopeOperator, (*Server).testProvider),
		rest.Get("GET /api/v1/config", stoa.ScopeOperatorRead, (*Server).getConfig),
		rest.Get("GET /api/v1/config/draft", stoa.ScopeOperatorRead, (*Server).getConfigDraft),
		rest.Update("PUT /api/v1/config/draft", stoa.ScopeOperator, (*Server).setConfigDraft),
		rest.Update("DELETE /api/v1/config/draft", stoa.ScopeOperator, (*Server).deleteConfigDraft),
		rest.Update("POST /api/v1/config/draft/check", stoa.ScopeOperatorRead, (*Server).checkConfigDraft),
		rest.Update("POST /api/v1/config/draft/test", stoa.ScopeOperator, (*Server).testConfigDraft),
		rest.CreateAfter("POST /api/v1/config/draft/apply", stoa.ScopeOperator, (*Server).beforeApply, (*Server).applyConfig),
		rest.Update("POST /api/v1/prices/preview", stoa.ScopeOperatorRead, (*Server).previewPrices),
		rest.Get("GET /api/v1/config/versions", stoa.ScopeOperatorRead, (*Server).listConfigVersions),
		rest.Get("GET /api/v1/config/versions/{version}", stoa.ScopeOperatorRead, (*Server).getConfigVersion),
		rest.CreateAfter("POST /api/v1/config/versions/{version}/restore", stoa.ScopeOperator, (*Server).beforeRestore, (*Server).restoreConfig),
		rest.Get("GET /api/v1/doctor", stoa.ScopeOperatorRead, (*Server).getDiagnosis),
		rest.Get("GET /api/v1/nodes", stoa.ScopeOperatorRead, (*Server).listNodes),

		rest.Create("POST /api/v1/spaces", "agents:write", (*Server).createSpace),
		rest.Get("GET /api/v1/spaces", "agents:read", (*Server).listSpaces),
		rest.Get("GET /api/v1/spaces/{id}", "agents:read", (*Server).getSpace),
		rest.Update("PATCH /api/v1/spaces/{id}", "agents:write", (*Server).updateSpace),
		rest.Update("DELETE /api/v1/spaces/{id}", "agents:write", (*Server).deleteSpace),
		rest.Get("GET /api/v1/spaces/{id}/agents", "agents:read", (*Server).listSpaceAgents),
		rest.Get("GET /api/v1/spaces/{id}/scheduled-tasks", "schedules:read", (*Server).listSpaceScheduledTasks),
		rest.Create("POST /api/v1/secrets", "secrets:write", (*Server).createSecret),
		rest.Get("GET /api/v1/secrets", "connections:read", (*Server).listSecrets),
		rest.Get("GET /api/v1/secrets/{id}", "connections:read", (*Server).getSecret),
		rest.Update("DELETE /api/v1/secrets/{id}", "secrets:write", (*Server).deleteSecret),
		rest.Update("PUT /api/v1/secrets/{id}/value", "secrets:write", (*Server).setSecretValue),
		rest.Create("POST /api/v1/connections", "connections:write", (*Server).createConnection),
		rest.Get("GET /api/v1/connections", "connections:read", (*Server).listConnections),
		rest.Get("GET /api/v1/connections/{id}", "connections:read", (*Server).getConnection),
		rest.Update("PATCH /api/v1/connections/{id}", "connections:write", (*Server).updateConnection),
		rest.Update("DELETE /api/v1/connections/{id}", "connections:write", (*Server).deleteConnection),
		rest.Update("POST /api/v1/connections/{id}/refresh", "connections:write", (*Server).refreshConnection),
		rest.Update("POST /api/v1/connections/{id}/authorize", "connections:write", (*Server).authorizeConnection),
		rest.Update("POST /api/v1/connections/{id}/deauthorize", "connections:write", (*Server).deauthorizeConnection),
		rest.Get("GET /api/v1/connections/{id}/tools", "connections:read", (*Server).listConnectionTools),
		rest.Update("POST /api/v1/connections/{id}/tools/review", "connections:write", (*Server).reviewConnectionTools),
		rest.Update("POST /api/v1/connections/{id}/tools/test", "connections:write", (*Server).testConnectionTool),
		rest.Create("POST /api/v1/api-agents", "agents:write", (*Server).createAgent),
		rest.Get("GET /api/v1/api-agents", "agents:read", (*Server).listAgents),
		rest.Get("GET /api/v1/api-agents/{id}", "agents:read", (*Server).getAgent),
		rest.Update("PATCH /api/v1/api-agents/{id}", "agents:write", (*Server).updateAgent),
		rest.Update("DELETE /api/v1/api-agents/{id}", "agents:write", (*Server).deleteAgent),
		rest.Get("GET /api/v1/api-agents/{id}/versions", "agents:read", (*Server).listAgentVersions),
		rest.Get("GET /api/v1/api-agents/{id}/versions/{version}", "agents:read", (*Server).getAgentVersion),
		rest.Create("POST /api/v1/api-agents/{id}/rollback", "agents:write", (*Server).rollbackAgent),
		rest.Create("POST /api/v1/api-agents/{id}/duplicate", "agents:write", (*Server).duplicateAgent),

		rest.Get("GET /api/v1/api-agents/{id}/drive", "drive:read", (*Server).getDrive),
		rest.Get("GET /api/v1/api-agents/{id}/drive/files", "drive:read", (*Server).listDriveFiles),
		rest.Stream("PUT /api/v1/api-agents/{id}/drive/files", "drive:write", (*Server).putDriveFile),
		rest.Update("DELETE /api/v1/api-agents/{id}/drive/files", "drive:write", (*Server).deleteDriveFiles),
		rest.Get("GET /api/v1/api-agents/{id}/drive/files/metadata", "drive:read", (*Server).getDriveFileMetadata),
		rest.Stream("GET /api/v1/api-agents/{id}/drive/files/content", "drive:read", (*Server).getDriveFileContent),
		rest.Stream("PUT /api/v1/api-agents/{id}/drive/files/content", "drive:write", (*Server).putDriveFileContent),
		rest.Stream("GET /api/v1/api-agents/{id}/drive/files/text", "drive:read", (*Server).getDriveFileText),
		rest.Stream("POST /api/v1/api-agents/{id}/drive/files/reread", "drive:write", (*Server).rereadDriveFile),
		rest.Stream("POST /api/v1/api-agents/{id}/drive/files/move", "drive:write", (*Server).moveDriveFile),
		rest.Get("GET /api/v1/api-agents/{id}/drive/files/versions", "drive:read", (*Server).listDriveFileVersions),
		rest.Stream("POST /api/v1/api-agents/{id}/drive/files/restore", "drive:write", (*Server).restoreDriveFile),
		rest.Stream("POST /api/v1/api-agents/{id}/drive/batch", "drive:write", (*Server).batchDrive),
		rest.Get("GET /api/v1/api-agents/{id}/drive/search", "drive:read", (*Server).searchDrive),
		rest.Stream("GET /api/v1/api-agents/{id}/drive/export", "drive:read", (*Server).exportDrive),

		rest.Get("GET /api/v1/sessions", "sessions:read", (*Server).listAllSessions),
		rest.Get("GET /api/v1/sessions/{id}", "sessions:read", (*Server).findSession),
		rest.Stream("POST /api/v1/api-agents/{id}/uploads", "sessions:write", (*Server).createUpload),
		rest.CreateAfter("POST /api/v1/api-agents/{id}/sessions", "sessions:write", (*Server).beforeSession, (*Server).createSession),
		rest.Get("GET /api/v1/api-agents/{id}/sessions", "sessions:read", (*Server).listSessions),
		rest.Get("GET /api/v1/api-agents/{id}/sessions/{sessionId}", "sessions:read", (*Server).getSession),
		rest.Update("PATCH /api/v1/api-agents/{id}/sessions/{sessionId}", "sessions:write", (*Server).updateSession),
		rest.Update("DELETE /api/v1/api-agents/{id}/sessions/{sessionId}", "sessions:write", (*Server).deleteSession),
		rest.Get("GET /api/v1/api-agents/{id}/sessions/{sessionId}/turns", "sessions:read", (*Server).listTurns),
		rest.Get("GET /api/v1/api-agents/{id}/sessions/{sessionId}/steps/{stepId}", "sessions:read", (*Server).getStep),
		rest.CreateAfter("POST /api/v1/api-agents/{id}/sessions/{sessionId}/messages", "sessions:write", (*Server).beforeMessage, (*Server).sendMessage),
		rest.Get("GET /api/v1/api-agents/{id}/sessions/{sessionId}/messages", "sessions:read", (*Server).listMessages),
		rest.Get("GET /api/v1/api-agents/{id}/sessions/{sessionId}/attachments", "sessions:read", (*Server).listAttachments),
		rest.Stream("GET /api/v1/api-agents/{id}/sessions/{sessionId}/attachments/{uploadId}/content", "sessions:read", (*Server).getAttachmentContent),
		rest.CreateAfter("POST /api/v1/api-agents/{id}/sessions/{sessionId}/input", "sessions:write", (*Server).beforeAnswer, (*Server).answerInput),
		rest.Update("POST /api/v1/api-agents/{id}/sessions/{sessionId}/cancel", "sessions:write", (*Server).cancelSession),
		rest.Update("POST /api/v1/api-agents/{id}/sessions/{sessionId}/upgrade", "sessions:write", (*Server).upgradeSession),
		rest.Create("POST /api/v1/api-agents/{id}/sessions/{sessionId}/retry", "sessions:write", (*Server).retrySession),
		rest.Stream("GET /api/v1/api-agents/{id}/sessions/{sessionId}/events", "sessions:read", (*Server).listSessionEvents),
		rest.Get("GET /api/v1/api-agents/{id}/sessions/{sessionId}/tool-calls", "sessions:read", (*Server).listSessionToolCalls),
		rest.Get("GET /api/v1/tool-calls", "sessions:read", (*Server).listToolCalls),
		rest.Get("GET /api/v1/tool-calls/{id}", "sessions:read", (*Server).getToolCall),
		rest.Update("POST /api/v1/tool-calls/{id}/resolve", "sessions:write", (*Server).resolveToolCall),
		rest.Get("GET /api/v1/inputs", "sessions:read", (*Server).listInputs),
		rest.Update("POST /api/v1/inputs/{id}/claim", "sessions:write", (*Server).claimInput),
		rest.Get("GET /api/v1/api-agents/{id}/sessions/{sessionId}/receipts", "sessions:read", (*Server).listSessionReceipts),
		rest.Get("GET /api/v1/api-agents/{id}/sessions/{sessionId}/sources", "sessions:read", (*Server).listSessionSources),
		rest.Stream("GET /api/v1/api-agents/{id}/sessions/{sessionId}/export", "sessions:read", (*Server).exportSession),

		rest.Create("POST /api/v1/api-agents/{id}/scheduled-tasks", "schedules:write", (*Server).createScheduledTask),
		rest.Get("GET /api/v1/api-agents/{id}/scheduled-tasks", "schedules:read", (*Server).listScheduledTasks),
		rest.Update("POST /api/v1/api-agents/{id}/scheduled-tasks/preview", "schedules:read", (*Server).previewSchedule),
		rest.Get("GET /api/v1/api-agents/{id}/scheduled-tasks/{taskId}", "schedules:read", (*Server).getScheduledTask),
		rest.Update("PATCH /api/v1/api-agents/{id}/scheduled-tasks/{taskId}", "schedules:write", (*Server).updateScheduledTask),
		rest.Update("DELETE /api/v1/api-agents/{id}/scheduled-tasks/{taskId}", "schedules:write", (*Server).deleteScheduledTask),
		rest.Update("POST /api/v1/api-agents/{id}/scheduled-tasks/{taskId}/pause", "schedules:write", (*Server).pauseScheduledTask),
		rest.Update("POST /api/v1/api-agents/{id}/scheduled-tasks/{taskId}/resume", "schedules:write", (*Server).resumeScheduledTask),
		rest.CreateAfter("POST /api/v1/api-agents/{id}/scheduled-tasks/{taskId}/run", "schedules:write", (*Server).beforeRun, (*Server).runScheduledTask),
		rest.Get("GET /api/v1/api-agents/{id}/scheduled-tasks/{taskId}/runs", "schedules:read", (*Server).listTaskRuns),

		rest.CreateAfter("POST /api/v1/webhooks", "webhooks:write", (*Server).beforeWebhook, (*Server).createWebhook),
		rest.Get("GET /api/v1/webhooks", "webhooks:read", (*Server).listWebhooks),
		rest.Get("GET /api/v1/webhooks/{id}", "webhooks:read", (*Server).getWebhook),
		rest.Update("PATCH /api/v1/webhooks/{id}", "webhooks:write", (*Server).updateWebhook),
		rest.Update("DELETE /api/v1/webhooks/{id}", "webhooks:write", (*Server).deleteWebhook),
		rest.Create("POST /api/v1/webhooks/{id}/test", "webhooks:write", (*Server).testWebhook),
		rest.Create("POST /api/v1/webhooks/{id}/rotate-secret", "webhooks:write", (*Server).rotateWebhookSecret),
		rest.Update("POST /api/v1/webhooks/{id}/enable", "webhooks:write", (*Server).enableWebhook),
		rest.Update("POST /api/v1/webhooks/{id}/recover", "webhooks:write", (*Server).recoverWebhook),
		rest.Get("GET /api/v1/webhooks/{id}/deliveries", "webhooks:read", (*Server).listDeliveries),
		rest.Get("GET /api/v1/webhooks/{id}/deliveries/{deliveryId}", "webhooks:read", (*Server).getDelivery),
		rest.Create("POST /api/v1/webhooks/{id}/deliveries/{deliveryId}/redeliver", "webhooks:write", (*Server).redeliver),

		rest.Create("POST /api/v1/api-agents/{id}/embed-urls", "embeds:write", (*Server).createEmbedURL),
		rest.Get("GET /api/v1/api-agents/{id}/embed-urls", "embeds:write", (*Server).listEmbedURLs),
		rest.Get("GET /api/v1/api-agents/{id}/embed-urls/{embedId}", "embeds:write", (*Server).getEmbedURL),
		rest.Update("DELETE /api/v1/api-agents/{id}/embed-urls/{embedId}", "embeds:write", (*Server).deleteEmbedURL),
		rest.Create("POST /api/v1/api-agents/{id}/embed-sessions", "embeds:write", (*Server).createEmbedSession),
		rest.Get("GET /api/v1/api-agents/{id}/embed-sessions", "embeds:write", (*Server).listEmbedSessions),
		rest.Get("GET /api/v1/api-agents/{id}/embed-sessions/{embedId}", "embeds:write", (*Server).getEmbedSession),
		rest.Update("DELETE /api/v1/api-agents/{id}/embed-sessions/{embedId}", "embeds:write", (*Server).deleteEmbedSession),
		rest.Create("POST /api/v1/api-agents/{id}/embed-sessions/{embedId}/refresh", "embeds:write", (*Server).refreshEmbedSession),
		rest.Create("POST /api/v1/api-agents/{id}/embed-tags", "embeds:write", (*Server).createEmbedTag),
		rest.Get("GET /api/v1/api-agents/{id}/embed-tags", "embeds:write", (*Server).listEmbedTags),
		rest.Get("GET /api/v1/api-agents/{id}/embed-tags/{tagId}", "embeds:write", (*Server).getEmbedTag),
		rest.Update("PATCH /api/v1/api-agents/{id}/embed-tags/{tagId}", "embeds:write", (*Server).updateEmbedTag),
		rest.Update("DELETE /api/v1/api-agents/{id}/embed-tags/{tagId}", "embeds:write", (*Server).deleteEmbedTag),
		rest.Create("POST /api/v1/embed-logos", "embeds:write", (*Server).createEmbedLogo),
		rest.Get("GET /api/v1/embed-logos", "embeds:write", (*Server).listEmbedLogos),
		rest.Update("DELETE /api/v1/embed-logos/{id}", "embeds:write", (*Server).deleteEmbedLogo),
		rest.Custom("GET /api/v1/embed/logos/{logoId}", (*Server).getEmbedLogo),
		tagRoute("GET /api/v1/embed/tags/{tagId}", (*Server).getEmbedLauncher),
		tagRoute("POST /api/v1/embed/tags/{tagId}/tickets", (*Server).createEmbedTicket),
		rest.PublicUpdate("POST /api/v1/embed/exchange", (*Server).exchangeEmbedURL),
		visitorUpdate("POST /api/v1/embed/refresh", (*Server).refreshEmbedToken),
		visitorUpdate("GET /api/v1/embed/chat-sessions/{chatId}", (*Server).getEmbedChat),
		visitorCreate("POST /api/v1/embed/chat-sessions/{chatId}/messages", (*Server).sendEmbedMessage),
		visitorStream("POST /api/v1/embed/chat-sessions/{chatId}/uploads", (*Server).createEmbedUpload),
		visitorCreate("POST /api/v1/embed/chat-sessions/{chatId}/input", (*Server).answerEmbedInput),
		visitorUpdate("POST /api/v1/embed/chat-sessions/{chatId}/cancel", (*Server).cancelEmbedChat),
		visitorCreate("POST /api/v1/embed/chat-sessions/{chatId}/retry", (*Server).retryEmbedChat),
		visitorStream("GET /api/v1/embed/chat-sessions/{chatId}/events", (*Server).listEmbedEvents),
	}
}

// Routes returns the patterns of all routes, as in the contract.
func Routes() []string {
	var list []string
	for _, rt := range table() {
		list = append(list, rt.Pattern)
	}
	return list
}

// Handler serves every path.
func (s *Server) Handler() http.Handler {
	s.prepare()
	doc, err := s.contract().Load()
	if err != nil {
		panic(err)
	}
	return s.Base.Handler(rest.NewMux(s, doc, table()), s.preflight)
}
