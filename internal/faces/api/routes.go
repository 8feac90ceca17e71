package api

import (
	"net/http"

	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/models/responses"
)

// table returns every route of the API, including those of all extensions, in the order
// of the contract.
func (s *Server) table() []rest.Route {
	return []rest.Route{
		rest.Stream("POST /api/v1/responses", "responses", s.Calls.modelCall(responses.Parse)),
		rest.Stream("POST /api/v1/responses/compact", "responses", s.Calls.modelCall(responses.ParseCompact)),
		rest.Stream("POST /api/v1/responses/input_tokens", "responses", s.Calls.countTokens("response.input_tokens", responses.Parse)),
		rest.Stream("POST /api/v1/chat/completions", "responses", s.Calls.modelCall(responses.ParseChat)),
		rest.Stream("POST /api/v1/messages", "responses", s.Calls.modelCall(responses.ParseMessages)),
		rest.Stream("POST /api/v1/messages/count_tokens", "responses", s.Calls.countTokens("", responses.ParseMessagesCount)),
		rest.Stream("POST /api/v1/models/{model}:generateContent", "responses", geminiCall[geminiParams](&s.Calls, false)),
		rest.Stream("POST /api/v1/models/{model}:streamGenerateContent", "responses", geminiCall[geminiStreamParams](&s.Calls, true)),
		rest.Stream("POST /api/v1/models/{model}:countTokens", "responses", s.Calls.countContent),
		rest.PublicGet("GET /api/v1/health", s.Status.getHealth),
		rest.PublicGet("GET /api/v1/meta", s.Status.getMeta),
		rest.Get("GET /api/v1/models", "", s.Calls.listModels),
		rest.Get("GET /api/v1/models/{id}", "", s.Calls.getModel),
		rest.PublicStream("GET /api/v1/openapi.json", s.Status.getOpenAPI),
		rest.Get("GET /api/v1/users/me", "", s.Status.getMe),
		rest.Get("GET /api/v1/notices", "", s.Status.listNotices),

		rest.Create("POST /api/v1/keys", "keys:write", s.People.createKey),
		rest.Get("GET /api/v1/keys", "keys:write", s.People.listKeys),
		rest.Get("GET /api/v1/keys/{id}", "keys:write", s.People.getKey),
		rest.Update("PATCH /api/v1/keys/{id}", "keys:write", s.People.updateKey),
		rest.Update("DELETE /api/v1/keys/{id}", "keys:write", s.People.revokeKey),
		rest.Create("POST /api/v1/keys/{id}/rotate", "keys:write", s.People.rotateKey),

		rest.Create("POST /api/v1/budgets", stoa.ScopeAccountWrite, s.Books.createBudget),
		rest.Get("GET /api/v1/budgets", stoa.ScopeAccountRead, s.Books.listBudgets),
		rest.Get("GET /api/v1/budgets/{id}", stoa.ScopeAccountRead, s.Books.getBudget),
		rest.Update("PATCH /api/v1/budgets/{id}", stoa.ScopeAccountWrite, s.Books.updateBudget),
		rest.Update("DELETE /api/v1/budgets/{id}", stoa.ScopeAccountWrite, s.Books.deleteBudget),
		rest.Get("GET /api/v1/budgets/{id}/windows", stoa.ScopeAccountRead, s.Books.listBudgetWindows),

		rest.Get("GET /api/v1/credits", "usage:read", s.Books.getCredits),
		rest.Get("GET /api/v1/credits/ledger", "usage:read", s.Books.listLedger),
		rest.Get("GET /api/v1/receipts", "usage:read", s.Books.listReceipts),
		rest.Get("GET /api/v1/receipts/summary", "usage:read", s.Books.getReceiptSummary),
		rest.Get("GET /api/v1/receipts/{id}", "usage:read", s.Books.getReceipt),
		rest.Stream("GET /api/v1/usage", "usage:read", s.Books.getUsage),
		rest.Get("GET /api/v1/usage/reconcile", "usage:read", s.Books.reconcileUsage),

		rest.Stream("GET /api/v1/statements/{month}", "usage:read", s.Books.getStatements),

		rest.CreateAfter("POST /api/v1/payments", stoa.ScopeAccountWrite, s.Books.beginPayment, s.Books.createPayment),
		rest.Get("GET /api/v1/payments", stoa.ScopeAccountRead, s.Books.listPayments),
		rest.Get("GET /api/v1/payments/packs", stoa.ScopeAccountRead, s.Books.listPacks),
		rest.Get("GET /api/v1/payments/{id}", stoa.ScopeAccountRead, s.Books.getPayment),

		rest.Get("GET /api/v1/requests", "usage:read", s.Books.listRequests),
		rest.Get("GET /api/v1/requests/summary", "usage:read", s.Books.getRequestSummary),
		rest.Get("GET /api/v1/requests/{id}", "usage:read", s.Books.getRequest),

		rest.Get("GET /api/v1/audit", stoa.ScopeAccountRead, s.Books.listAudit),
		rest.Get("GET /api/v1/audit/actions", stoa.ScopeAccountRead, s.Books.listAuditActions),
		rest.Stream("GET /api/v1/audit/export", stoa.ScopeAccountRead, s.Books.exportAudit),

		rest.Create("POST /api/v1/members", stoa.ScopeAccountWrite, s.People.inviteMember),
		rest.Get("GET /api/v1/members", stoa.ScopeAccountRead, s.People.listMembers),
		rest.Get("GET /api/v1/members/{id}", stoa.ScopeAccountRead, s.People.getMember),
		rest.Update("PATCH /api/v1/members/{id}", stoa.ScopeAccountWrite, s.People.updateMember),
		rest.Update("DELETE /api/v1/members/{id}", stoa.ScopeAccountWrite, s.People.removeMember),
		rest.Create("POST /api/v1/members/{id}/link", stoa.ScopeAccountWrite, s.People.createSignInLink),
		rest.Get("GET /api/v1/invitations", stoa.ScopeAccountRead, s.People.listInvitations),
		rest.Create("POST /api/v1/invitations/{id}/link", stoa.ScopeAccountWrite, s.People.renewInvitation),
		rest.Update("DELETE /api/v1/invitations/{id}", stoa.ScopeAccountWrite, s.People.revokeInvitation),

		rest.Create("POST /api/v1/accounts", stoa.ScopeOperator, s.People.createAccount),
		rest.Create("POST /api/v1/accounts/invitations", stoa.ScopeOperatorBilling, s.People.inviteAccount),
		rest.Get("GET /api/v1/accounts", stoa.ScopeOperatorRead, s.People.listAccounts),
		rest.Get("GET /api/v1/accounts/{id}", stoa.ScopeOperatorRead, s.People.getAccount),
		rest.Update("PATCH /api/v1/accounts/{id}", stoa.ScopeOperatorBilling, s.People.updateAccount),
		rest.Create("POST /api/v1/accounts/{id}/grants", stoa.ScopeOperatorBilling, s.People.createGrant),
		rest.Update("POST /api/v1/accounts/{id}/withdrawals", stoa.ScopeOperatorBilling, s.People.createWithdrawal),
		rest.Create("POST /api/v1/accounts/{id}/keys", stoa.ScopeOperator, s.People.createAccountKey),
		rest.Create("POST /api/v1/accounts/{id}/members", stoa.ScopeOperatorBilling, s.People.inviteAccountMember),

		rest.Get("GET /api/v1/providers", stoa.ScopeOperatorRead, s.Providers.listProviders),
		rest.Get("GET /api/v1/providers/recent", stoa.ScopeOperatorRead, s.Providers.listRecentProviders),
		rest.Update("POST /api/v1/providers/{name}/test", stoa.ScopeOperator, s.Providers.testProvider),
		rest.Get("GET /api/v1/config", stoa.ScopeOperatorRead, s.Providers.getConfig),
		rest.Get("GET /api/v1/config/draft", stoa.ScopeOperatorRead, s.Providers.getConfigDraft),
		rest.Update("PUT /api/v1/config/draft", stoa.ScopeOperator, s.Providers.setConfigDraft),
		rest.Update("DELETE /api/v1/config/draft", stoa.ScopeOperator, s.Providers.deleteConfigDraft),
		rest.Update("POST /api/v1/config/draft/check", stoa.ScopeOperatorRead, s.Providers.checkConfigDraft),
		rest.Update("POST /api/v1/config/draft/test", stoa.ScopeOperator, s.Providers.testConfigDraft),
		rest.CreateAfter("POST /api/v1/config/draft/apply", stoa.ScopeOperator, s.Providers.beforeApply, s.Providers.applyConfig),
		rest.Update("POST /api/v1/prices/preview", stoa.ScopeOperatorRead, s.Providers.previewPrices),
		rest.Get("GET /api/v1/config/versions", stoa.ScopeOperatorRead, s.Providers.listConfigVersions),
		rest.Get("GET /api/v1/config/versions/{version}", stoa.ScopeOperatorRead, s.Providers.getConfigVersion),
		rest.CreateAfter("POST /api/v1/config/versions/{version}/restore", stoa.ScopeOperator, s.Providers.beforeRestore, s.Providers.restoreConfig),
		rest.Get("GET /api/v1/doctor", stoa.ScopeOperatorRead, s.Doctor.getDiagnosis),
		rest.Get("GET /api/v1/nodes", stoa.ScopeOperatorRead, s.Doctor.listNodes),

		rest.Create("POST /api/v1/spaces", "agents:write", s.Agents.createSpace),
		rest.Get("GET /api/v1/spaces", "agents:read", s.Agents.listSpaces),
		rest.Get("GET /api/v1/spaces/{id}", "agents:read", s.Agents.getSpace),
		rest.Update("PATCH /api/v1/spaces/{id}", "agents:write", s.Agents.updateSpace),
		rest.Update("DELETE /api/v1/spaces/{id}", "agents:write", s.Agents.deleteSpace),
		rest.Get("GET /api/v1/spaces/{id}/agents", "agents:read", s.Agents.listSpaceAgents),
		rest.Get("GET /api/v1/spaces/{id}/scheduled-tasks", "schedules:read", s.Sessions.listSpaceScheduledTasks),
		rest.Create("POST /api/v1/secrets", "secrets:write", s.Agents.createSecret),
		rest.Get("GET /api/v1/secrets", "connections:read", s.Agents.listSecrets),
		rest.Get("GET /api/v1/secrets/{id}", "connections:read", s.Agents.getSecret),
		rest.Update("DELETE /api/v1/secrets/{id}", "secrets:write", s.Agents.deleteSecret),
		rest.Update("PUT /api/v1/secrets/{id}/value", "secrets:write", s.Agents.setSecretValue),
		rest.Create("POST /api/v1/connections", "connections:write", s.Agents.createConnection),
		rest.Get("GET /api/v1/connections", "connections:read", s.Agents.listConnections),
		rest.Get("GET /api/v1/connections/{id}", "connections:read", s.Agents.getConnection),
		rest.Update("PATCH /api/v1/connections/{id}", "connections:write", s.Agents.updateConnection),
		rest.Update("DELETE /api/v1/connections/{id}", "connections:write", s.Agents.deleteConnection),
		rest.Update("POST /api/v1/connections/{id}/refresh", "connections:write", s.Agents.refreshConnection),
		rest.Update("POST /api/v1/connections/{id}/authorize", "connections:write", s.Agents.authorizeConnection),
		rest.Update("POST /api/v1/connections/{id}/deauthorize", "connections:write", s.Agents.deauthorizeConnection),
		rest.Get("GET /api/v1/connections/{id}/tools", "connections:read", s.Agents.listConnectionTools),
		rest.Update("POST /api/v1/connections/{id}/tools/review", "connections:write", s.Agents.reviewConnectionTools),
		rest.Update("POST /api/v1/connections/{id}/tools/test", "connections:write", s.Agents.testConnectionTool),
		rest.Create("POST /api/v1/api-agents", "agents:write", s.Agents.createAgent),
		rest.Get("GET /api/v1/api-agents", "agents:read", s.Agents.listAgents),
		rest.Get("GET /api/v1/api-agents/{id}", "agents:read", s.Agents.getAgent),
		rest.Update("PATCH /api/v1/api-agents/{id}", "agents:write", s.Agents.updateAgent),
		rest.Update("DELETE /api/v1/api-agents/{id}", "agents:write", s.Agents.deleteAgent),
		rest.Get("GET /api/v1/api-agents/{id}/versions", "agents:read", s.Agents.listAgentVersions),
		rest.Get("GET /api/v1/api-agents/{id}/versions/{version}", "agents:read", s.Agents.getAgentVersion),
		rest.Create("POST /api/v1/api-agents/{id}/rollback", "agents:write", s.Agents.rollbackAgent),
		rest.Create("POST /api/v1/api-agents/{id}/duplicate", "agents:write", s.Agents.duplicateAgent),

		rest.Get("GET /api/v1/api-agents/{id}/drive", "drive:read", s.Drive.getDrive),
		rest.Get("GET /api/v1/api-agents/{id}/drive/files", "drive:read", s.Drive.listDriveFiles),
		rest.Stream("PUT /api/v1/api-agents/{id}/drive/files", "drive:write", s.Drive.putDriveFile),
		rest.Update("DELETE /api/v1/api-agents/{id}/drive/files", "drive:write", s.Drive.deleteDriveFiles),
		rest.Get("GET /api/v1/api-agents/{id}/drive/files/metadata", "drive:read", s.Drive.getDriveFileMetadata),
		rest.Stream("GET /api/v1/api-agents/{id}/drive/files/content", "drive:read", s.Drive.getDriveFileContent),
		rest.Stream("PUT /api/v1/api-agents/{id}/drive/files/content", "drive:write", s.Drive.putDriveFileContent),
		rest.Stream("GET /api/v1/api-agents/{id}/drive/files/text", "drive:read", s.Drive.getDriveFileText),
		rest.Stream("POST /api/v1/api-agents/{id}/drive/files/reread", "drive:write", s.Drive.rereadDriveFile),
		rest.Stream("POST /api/v1/api-agents/{id}/drive/files/move", "drive:write", s.Drive.moveDriveFile),
		rest.Get("GET /api/v1/api-agents/{id}/drive/files/versions", "drive:read", s.Drive.listDriveFileVersions),
		rest.Stream("POST /api/v1/api-agents/{id}/drive/files/restore", "drive:write", s.Drive.restoreDriveFile),
		rest.Stream("POST /api/v1/api-agents/{id}/drive/batch", "drive:write", s.Drive.batchDrive),
		rest.Get("GET /api/v1/api-agents/{id}/drive/search", "drive:read", s.Drive.searchDrive),
		rest.Stream("GET /api/v1/api-agents/{id}/drive/export", "drive:read", s.Drive.exportDrive),

		rest.Get("GET /api/v1/sessions", "sessions:read", s.Sessions.listAllSessions),
		rest.Get("GET /api/v1/sessions/{id}", "sessions:read", s.Sessions.findSession),
		rest.Stream("POST /api/v1/api-agents/{id}/uploads", "sessions:write", s.Drive.createUpload),
		rest.CreateAfter("POST /api/v1/api-agents/{id}/sessions", "sessions:write", s.Sessions.beforeSession, s.Sessions.createSession),
		rest.Get("GET /api/v1/api-agents/{id}/sessions", "sessions:read", s.Sessions.listSessions),
		rest.Get("GET /api/v1/api-agents/{id}/sessions/{sessionId}", "sessions:read", s.Sessions.getSession),
		rest.Update("PATCH /api/v1/api-agents/{id}/sessions/{sessionId}", "sessions:write", s.Sessions.updateSession),
		rest.Update("DELETE /api/v1/api-agents/{id}/sessions/{sessionId}", "sessions:write", s.Sessions.deleteSession),
		rest.Get("GET /api/v1/api-agents/{id}/sessions/{sessionId}/turns", "sessions:read", s.Sessions.listTurns),
		rest.Get("GET /api/v1/api-agents/{id}/sessions/{sessionId}/steps/{stepId}", "sessions:read", s.Sessions.getStep),
		rest.CreateAfter("POST /api/v1/api-agents/{id}/sessions/{sessionId}/messages", "sessions:write", s.Sessions.beforeMessage, s.Sessions.sendMessage),
		rest.Get("GET /api/v1/api-agents/{id}/sessions/{sessionId}/messages", "sessions:read", s.Sessions.listMessages),
		rest.Get("GET /api/v1/api-agents/{id}/sessions/{sessionId}/attachments", "sessions:read", s.Drive.listAttachments),
		rest.Stream("GET /api/v1/api-agents/{id}/sessions/{sessionId}/attachments/{uploadId}/content", "sessions:read", s.Drive.getAttachmentContent),
		rest.CreateAfter("POST /api/v1/api-agents/{id}/sessions/{sessionId}/input", "sessions:write", s.Sessions.beforeAnswer, s.Sessions.answerInput),
		rest.Update("POST /api/v1/api-agents/{id}/sessions/{sessionId}/cancel", "sessions:write", s.Sessions.cancelSession),
		rest.Update("POST /api/v1/api-agents/{id}/sessions/{sessionId}/upgrade", "sessions:write", s.Sessions.upgradeSession),
		rest.Create("POST /api/v1/api-agents/{id}/sessions/{sessionId}/retry", "sessions:write", s.Sessions.retrySession),
		rest.Stream("GET /api/v1/api-agents/{id}/sessions/{sessionId}/events", "sessions:read", s.Sessions.listSessionEvents),
		rest.Get("GET /api/v1/api-agents/{id}/sessions/{sessionId}/tool-calls", "sessions:read", s.Sessions.listSessionToolCalls),
		rest.Get("GET /api/v1/tool-calls", "sessions:read", s.Sessions.listToolCalls),
		rest.Get("GET /api/v1/tool-calls/{id}", "sessions:read", s.Sessions.getToolCall),
		rest.Update("POST /api/v1/tool-calls/{id}/resolve", "sessions:write", s.Sessions.resolveToolCall),
		rest.Get("GET /api/v1/inputs", "sessions:read", s.Sessions.listInputs),
		rest.Update("POST /api/v1/inputs/{id}/claim", "sessions:write", s.Sessions.claimInput),
		rest.Get("GET /api/v1/api-agents/{id}/sessions/{sessionId}/receipts", "sessions:read", s.Sessions.listSessionReceipts),
		rest.Get("GET /api/v1/api-agents/{id}/sessions/{sessionId}/sources", "sessions:read", s.Sessions.listSessionSources),
		rest.Stream("GET /api/v1/api-agents/{id}/sessions/{sessionId}/export", "sessions:read", s.Sessions.exportSession),

		rest.Create("POST /api/v1/api-agents/{id}/scheduled-tasks", "schedules:write", s.Sessions.createScheduledTask),
		rest.Get("GET /api/v1/api-agents/{id}/scheduled-tasks", "schedules:read", s.Sessions.listScheduledTasks),
		rest.Update("POST /api/v1/api-agents/{id}/scheduled-tasks/preview", "schedules:read", s.Sessions.previewSchedule),
		rest.Get("GET /api/v1/api-agents/{id}/scheduled-tasks/{taskId}", "schedules:read", s.Sessions.getScheduledTask),
		rest.Update("PATCH /api/v1/api-agents/{id}/scheduled-tasks/{taskId}", "schedules:write", s.Sessions.updateScheduledTask),
		rest.Update("DELETE /api/v1/api-agents/{id}/scheduled-tasks/{taskId}", "schedules:write", s.Sessions.deleteScheduledTask),
		rest.Update("POST /api/v1/api-agents/{id}/scheduled-tasks/{taskId}/pause", "schedules:write", s.Sessions.pauseScheduledTask),
		rest.Update("POST /api/v1/api-agents/{id}/scheduled-tasks/{taskId}/resume", "schedules:write", s.Sessions.resumeScheduledTask),
		rest.CreateAfter("POST /api/v1/api-agents/{id}/scheduled-tasks/{taskId}/run", "schedules:write", s.Sessions.beforeRun, s.Sessions.runScheduledTask),
		rest.Get("GET /api/v1/api-agents/{id}/scheduled-tasks/{taskId}/runs", "schedules:read", s.Sessions.listTaskRuns),

		rest.CreateAfter("POST /api/v1/webhooks", "webhooks:write", s.Webhooks.beforeWebhook, s.Webhooks.createWebhook),
		rest.Get("GET /api/v1/webhooks", "webhooks:read", s.Webhooks.listWebhooks),
		rest.Get("GET /api/v1/webhooks/{id}", "webhooks:read", s.Webhooks.getWebhook),
		rest.Update("PATCH /api/v1/webhooks/{id}", "webhooks:write", s.Webhooks.updateWebhook),
		rest.Update("DELETE /api/v1/webhooks/{id}", "webhooks:write", s.Webhooks.deleteWebhook),
		rest.Create("POST /api/v1/webhooks/{id}/test", "webhooks:write", s.Webhooks.testWebhook),
		rest.Create("POST /api/v1/webhooks/{id}/rotate-secret", "webhooks:write", s.Webhooks.rotateWebhookSecret),
		rest.Update("POST /api/v1/webhooks/{id}/enable", "webhooks:write", s.Webhooks.enableWebhook),
		rest.Update("POST /api/v1/webhooks/{id}/recover", "webhooks:write", s.Webhooks.recoverWebhook),
		rest.Get("GET /api/v1/webhooks/{id}/deliveries", "webhooks:read", s.Webhooks.listDeliveries),
		rest.Get("GET /api/v1/webhooks/{id}/deliveries/{deliveryId}", "webhooks:read", s.Webhooks.getDelivery),
		rest.Create("POST /api/v1/webhooks/{id}/deliveries/{deliveryId}/redeliver", "webhooks:write", s.Webhooks.redeliver),

		rest.Create("POST /api/v1/api-agents/{id}/embed-urls", "embeds:write", s.Embeds.createEmbedURL),
		rest.Get("GET /api/v1/api-agents/{id}/embed-urls", "embeds:write", s.Embeds.listEmbedURLs),
		rest.Get("GET /api/v1/api-agents/{id}/embed-urls/{embedId}", "embeds:write", s.Embeds.getEmbedURL),
		rest.Update("DELETE /api/v1/api-agents/{id}/embed-urls/{embedId}", "embeds:write", s.Embeds.deleteEmbedURL),
		rest.Create("POST /api/v1/api-agents/{id}/embed-sessions", "embeds:write", s.Embeds.createEmbedSession),
		rest.Get("GET /api/v1/api-agents/{id}/embed-sessions", "embeds:write", s.Embeds.listEmbedSessions),
		rest.Get("GET /api/v1/api-agents/{id}/embed-sessions/{embedId}", "embeds:write", s.Embeds.getEmbedSession),
		rest.Update("DELETE /api/v1/api-agents/{id}/embed-sessions/{embedId}", "embeds:write", s.Embeds.deleteEmbedSession),
		rest.Create("POST /api/v1/api-agents/{id}/embed-sessions/{embedId}/refresh", "embeds:write", s.Embeds.refreshEmbedSession),
		rest.Create("POST /api/v1/api-agents/{id}/embed-tags", "embeds:write", s.Embeds.createEmbedTag),
		rest.Get("GET /api/v1/api-agents/{id}/embed-tags", "embeds:write", s.Embeds.listEmbedTags),
		rest.Get("GET /api/v1/api-agents/{id}/embed-tags/{tagId}", "embeds:write", s.Embeds.getEmbedTag),
		rest.Update("PATCH /api/v1/api-agents/{id}/embed-tags/{tagId}", "embeds:write", s.Embeds.updateEmbedTag),
		rest.Update("DELETE /api/v1/api-agents/{id}/embed-tags/{tagId}", "embeds:write", s.Embeds.deleteEmbedTag),
		rest.Create("POST /api/v1/embed-logos", "embeds:write", s.Embeds.createEmbedLogo),
		rest.Get("GET /api/v1/embed-logos", "embeds:write", s.Embeds.listEmbedLogos),
		rest.Update("DELETE /api/v1/embed-logos/{id}", "embeds:write", s.Embeds.deleteEmbedLogo),
		rest.Custom("GET /api/v1/embed/logos/{logoId}", s.Embeds.getEmbedLogo),
		tagRoute(&s.Embeds, "GET /api/v1/embed/tags/{tagId}", s.Embeds.getEmbedLauncher),
		tagRoute(&s.Embeds, "POST /api/v1/embed/tags/{tagId}/tickets", s.Embeds.createEmbedTicket),
		rest.PublicUpdate("POST /api/v1/embed/exchange", s.Embeds.exchangeEmbedURL),
		visitorUpdate(&s.Embeds, "POST /api/v1/embed/refresh", s.Embeds.refreshEmbedToken),
		visitorUpdate(&s.Embeds, "GET /api/v1/embed/chat-sessions/{chatId}", s.Embeds.getEmbedChat),
		visitorCreate(&s.Embeds, "POST /api/v1/embed/chat-sessions/{chatId}/messages", s.Embeds.sendEmbedMessage),
		visitorStream(&s.Embeds, "POST /api/v1/embed/chat-sessions/{chatId}/uploads", s.Drive.createEmbedUpload),
		visitorCreate(&s.Embeds, "POST /api/v1/embed/chat-sessions/{chatId}/input", s.Embeds.answerEmbedInput),
		visitorUpdate(&s.Embeds, "POST /api/v1/embed/chat-sessions/{chatId}/cancel", s.Embeds.cancelEmbedChat),
		visitorCreate(&s.Embeds, "POST /api/v1/embed/chat-sessions/{chatId}/retry", s.Embeds.retryEmbedChat),
		visitorStream(&s.Embeds, "GET /api/v1/embed/chat-sessions/{chatId}/events", s.Embeds.listEmbedEvents),
	}
}

// Routes returns the patterns of all routes, as in the contract.
func Routes() []string {
	var list []string
	for _, rt := range new(Server).table() {
		list = append(list, rt.Pattern)
	}
	return list
}

// Handler serves every path.
func (s *Server) Handler() http.Handler {
	s.prepare()
	doc, err := s.Status.contract().Load()
	if err != nil {
		panic(err)
	}
	return s.Base.Handler(rest.NewMux(&s.Base, doc, s.table()), s.Embeds.preflight)
}
