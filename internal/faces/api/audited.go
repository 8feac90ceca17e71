package api

import (
	"context"
	"encoding/json"

	"stoa/internal/agents/embed"
	"stoa/internal/base/audit"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
)

const (
	readsOnly   = "It changes nothing."
	isWork      = "It is part of the work of a session, whose rows and events record it."
	isModelCall = "It is a model call: the request log and the receipts record it."
	isDrive     = "It writes an agent's files, whose versions record it."
	isDelivery  = "It sends events again and changes no settings; the deliveries record it."
	isMemory    = "It writes what an agent remembers of a person, whose name and texts the audit log must not keep."
	isVisitor   = "It is a request of a visitor, in a chat whose session records it."
	isDraft     = "It changes nothing in force: the row of the version that is applied records it."
	isTrial     = "It calls a server to test it; the tool calls record it."
)

// notAudited are the operations without a row in the audit log, each with the reason.
var notAudited = map[string]string{
	"POST /api/v1/responses":                                       isModelCall,
	"POST /api/v1/responses/compact":                               isModelCall,
	"POST /api/v1/responses/input_tokens":                          readsOnly,
	"POST /api/v1/chat/completions":                                isModelCall,
	"POST /api/v1/messages":                                        isModelCall,
	"POST /api/v1/messages/count_tokens":                           readsOnly,
	"POST /api/v1/models/{model}:generateContent":                  isModelCall,
	"POST /api/v1/models/{model}:streamGenerateContent":            isModelCall,
	"POST /api/v1/models/{model}:countTokens":                      readsOnly,
	"POST /api/v1/providers/{name}/test":                           isModelCall,
	"PUT /api/v1/config/draft":                                     isDraft,
	"DELETE /api/v1/config/draft":                                  isDraft,
	"POST /api/v1/config/draft/check":                              readsOnly,
	"POST /api/v1/prices/preview":                                  readsOnly,
	"POST /api/v1/config/draft/test":                               isModelCall,
	"DELETE /api/v1/end-users/{externalUserId}":                    "It writes its own entry, whose object is the erasure instead of the name of a person.",
	"POST /api/v1/connections/{id}/refresh":                        "It reads the server's tools, of which none works before a review, which is recorded.",
	"POST /api/v1/connections/{id}/tools/test":                     isTrial,
	"PUT /api/v1/api-agents/{id}/drive/files":                      isDrive,
	"DELETE /api/v1/api-agents/{id}/drive/files":                   isDrive,
	"PUT /api/v1/api-agents/{id}/drive/files/content":              isDrive,
	"POST /api/v1/api-agents/{id}/drive/files/move":                isDrive,
	"POST /api/v1/api-agents/{id}/drive/files/restore":             isDrive,
	"POST /api/v1/api-agents/{id}/drive/files/reread":              isDrive,
	"POST /api/v1/api-agents/{id}/drive/batch":                     isDrive,
	"PUT /api/v1/api-agents/{id}/memory/notes":                     isMemory,
	"DELETE /api/v1/api-agents/{id}/memory/notes":                  isMemory,
	"POST /api/v1/api-agents/{id}/skills/import":                   isDrive,
	"POST /api/v1/api-agents/{id}/uploads":                         isWork,
	"POST /api/v1/api-agents/{id}/sessions":                        isWork,
	"PATCH /api/v1/api-agents/{id}/sessions/{sessionId}":           isWork,
	"POST /api/v1/api-agents/{id}/sessions/{sessionId}/messages":   isWork,
	"POST /api/v1/api-agents/{id}/sessions/{sessionId}/cancel":     isWork,
	"POST /api/v1/responses/{id}/cancel":                           isWork,
	"POST /api/v1/mcp":                                             isWork,
	"POST /api/v1/mcp/agents/{id}":                                 isWork,
	"POST /api/v1/api-agents/{id}/ag-ui":                           isWork,
	"POST /api/v1/api-agents/{id}/sessions/{sessionId}/upgrade":    isWork,
	"POST /api/v1/api-agents/{id}/sessions/{sessionId}/retry":      isWork,
	"POST /api/v1/inputs/{id}/claim":                               isWork,
	"POST /api/v1/api-agents/{id}/scheduled-tasks/preview":         readsOnly,
	"POST /api/v1/api-agents/{id}/scheduled-tasks/{taskId}/run":    isWork,
	"POST /api/v1/webhooks/{id}/test":                              isDelivery,
	"POST /api/v1/webhooks/{id}/recover":                           isDelivery,
	"POST /api/v1/webhooks/{id}/deliveries/{deliveryId}/redeliver": isDelivery,
	"POST /api/v1/hooks/{hookId}":                                  isWork,
	"POST /api/v1/embed/tags/{tagId}/tickets":                      isVisitor,
	"POST /api/v1/embed/exchange":                                  isVisitor,
	"POST /api/v1/embed/refresh":                                   isVisitor,
	"POST /api/v1/embed/chat-sessions/{chatId}/messages":           isVisitor,
	"POST /api/v1/embed/chat-sessions/{chatId}/uploads":            isVisitor,
	"POST /api/v1/embed/chat-sessions/{chatId}/input":              isVisitor,
	"POST /api/v1/embed/chat-sessions/{chatId}/cancel":             isVisitor,
	"POST /api/v1/embed/chat-sessions/{chatId}/retry":              isVisitor,

	"POST /api/v1/api-agents/{id}/test-sets/{setId}/runs":                isWork,
	"POST /api/v1/api-agents/{id}/test-sets/{setId}/runs/{runId}/cancel": isWork,

	"PUT /api/v1/api-agents/{id}/sessions/{sessionId}/messages/{messageId}/feedback":    isWork,
	"DELETE /api/v1/api-agents/{id}/sessions/{sessionId}/messages/{messageId}/feedback": isWork,
	"POST /api/v1/embed/chat-sessions/{chatId}/person":                                  isVisitor,
	"PUT /api/v1/embed/chat-sessions/{chatId}/messages/{messageId}/feedback":            isVisitor,
	"DELETE /api/v1/embed/chat-sessions/{chatId}/messages/{messageId}/feedback":         isVisitor,
}

// audited returns the operations that the audit log records.
func (s *Server) audited() map[string]*rest.Audited {
	rules := map[string]*rest.Audited{}
	creates := func(account func(x *rest.Exchange, id string) string, patterns ...string) {
		for _, p := range patterns {
			rules[p] = &rest.Audited{Account: account}
		}
	}
	changes := func(param string, read func(context.Context, *store.Tx, *rest.Exchange) (string, any, error), patterns ...string) {
		for _, p := range patterns {
			rules[p] = &rest.Audited{Param: param, Read: read}
		}
	}
	records := func(param string, body func([]byte) any, patterns ...string) {
		for _, p := range patterns {
			rules[p] = &rest.Audited{Param: param, Body: body}
		}
	}

	creates(nil, "POST /api/v1/keys", "POST /api/v1/budgets", "POST /api/v1/payments", "POST /api/v1/spaces", "POST /api/v1/secrets", "POST /api/v1/connections", "POST /api/v1/webhooks",
		"POST /api/v1/api-agents", "POST /api/v1/api-agents/{id}/duplicate", "POST /api/v1/api-agents/{id}/scheduled-tasks",
		"POST /api/v1/api-agents/{id}/embed-urls", "POST /api/v1/api-agents/{id}/embed-sessions", "POST /api/v1/api-agents/{id}/embed-tags", "POST /api/v1/api-agents/{id}/hooks", "POST /api/v1/api-agents/{id}/test-sets", "POST /api/v1/embed-logos",
		"POST /api/v1/accounts/invitations", "POST /api/v1/members", "POST /api/v1/members/{id}/link")
	creates(func(*rest.Exchange, string) string { return audit.Service }, "POST /api/v1/config/draft/apply", "POST /api/v1/config/versions/{version}/restore")
	creates(func(_ *rest.Exchange, id string) string { return id }, "POST /api/v1/accounts")
	creates(func(x *rest.Exchange, _ string) string { return x.HTTP.PathValue("id") }, "POST /api/v1/accounts/{id}/grants", "POST /api/v1/accounts/{id}/budgets", "POST /api/v1/accounts/{id}/keys", "POST /api/v1/accounts/{id}/members")

	changes("id", func(ctx context.Context, tx *store.Tx, x *rest.Exchange) (string, any, error) {
		k, err := keyOf(ctx, tx, x.Log.Caller, x.HTTP.PathValue("id"), stoa.ScopeOperator)
		return k.AccountID, s.People.contractKey(k), err
	}, "PATCH /api/v1/keys/{id}", "DELETE /api/v1/keys/{id}", "POST /api/v1/keys/{id}/rotate")
	changes("id", func(ctx context.Context, tx *store.Tx, x *rest.Exchange) (string, any, error) {
		a, err := tx.Books().AccountRow(ctx, x.HTTP.PathValue("id"))
		if err != nil {
			return "", nil, err
		}
		return a.ID, contractAccount(a, s.People.Ledger.BalanceOf(a.ID, a.Funds)), nil
	}, "PATCH /api/v1/accounts/{id}", "DELETE /api/v1/accounts/{id}", "POST /api/v1/accounts/{id}/withdrawals")
	changes("id", owned(func(ctx context.Context, tx *store.Tx, account, _, id string) (any, error) {
		m, err := tx.People().Member(ctx, account, id)
		return auditedMember(m), err
	}), "PATCH /api/v1/members/{id}", "DELETE /api/v1/members/{id}")
	changes("id", owned(func(ctx context.Context, tx *store.Tx, account, _, id string) (any, error) {
		i, err := tx.People().Invitation(ctx, account, id)
		return contractInvitation(i), err
	}), "DELETE /api/v1/invitations/{id}", "POST /api/v1/invitations/{id}/link")
	changes("id", func(ctx context.Context, tx *store.Tx, x *rest.Exchange) (string, any, error) {
		account, err := readBudget(ctx, tx, x.Log.Caller, x.HTTP.PathValue("id"))
		if err != nil {
			return "", nil, err
		}
		b, err := tx.Books().Budget(ctx, account, x.HTTP.PathValue("id"))
		return account, contractBudget(b, billing.BudgetUse{}), err
	}, "PATCH /api/v1/budgets/{id}", "DELETE /api/v1/budgets/{id}")
	changes("id", owned(func(ctx context.Context, tx *store.Tx, account, _, id string) (any, error) {
		space, err := tx.Setup().Space(ctx, account, id)
		return contractSpace(space), err
	}), "PATCH /api/v1/spaces/{id}", "DELETE /api/v1/spaces/{id}")
	changes("id", owned(func(ctx context.Context, tx *store.Tx, account, _, id string) (any, error) {
		secret, err := tx.Setup().AnySecret(ctx, account, id)
		if err != nil {
			return nil, err
		}
		users, err := tx.Setup().SecretUsers(ctx, account, id, maxSecretUsers)
		return s.Agents.contractSecret(secret, users), err
	}), "DELETE /api/v1/secrets/{id}", "PUT /api/v1/secrets/{id}/value")
	changes("id", owned(func(ctx context.Context, tx *store.Tx, account, _, id string) (any, error) {
		c, err := showConnection(ctx, tx, account, id)
		return c.Connection, err
	}), "PATCH /api/v1/connections/{id}", "DELETE /api/v1/connections/{id}", "POST /api/v1/connections/{id}/deauthorize")
	changes("id", owned(func(ctx context.Context, tx *store.Tx, account, _, id string) (any, error) {
		a, err := tx.Setup().Agent(ctx, account, id)
		return contractAgent(a), err
	}), "PATCH /api/v1/api-agents/{id}", "DELETE /api/v1/api-agents/{id}", "POST /api/v1/api-agents/{id}/rollback", "POST /api/v1/api-agents/{id}/skills", "PUT /api/v1/api-agents/{id}/skills/{name}", "DELETE /api/v1/api-agents/{id}/skills/{name}")
	changes("taskId", owned(func(ctx context.Context, tx *store.Tx, account, agent, id string) (any, error) {
		t, err := task(ctx, tx, account, agent, id)
		if err != nil {
			return nil, err
		}
		return s.Sessions.contractTask(t), nil
	}), "PATCH /api/v1/api-agents/{id}/scheduled-tasks/{taskId}", "DELETE /api/v1/api-agents/{id}/scheduled-tasks/{taskId}",
		"POST /api/v1/api-agents/{id}/scheduled-tasks/{taskId}/pause", "POST /api/v1/api-agents/{id}/scheduled-tasks/{taskId}/resume")
	changes("hookId", owned(func(ctx context.Context, tx *store.Tx, account, agent, id string) (any, error) {
		h, err := tx.Work().Hook(ctx, account, agent, id)
		return s.Sessions.contractHook(h), err
	}), "PATCH /api/v1/api-agents/{id}/hooks/{hookId}", "DELETE /api/v1/api-agents/{id}/hooks/{hookId}", "POST /api/v1/api-agents/{id}/hooks/{hookId}/rotate-secret")
	changes("setId", owned(func(ctx context.Context, tx *store.Tx, account, agent, id string) (any, error) {
		set, err := tx.Work().TestSet(ctx, account, agent, id, false)
		return contractTestSet(set), err
	}), "PATCH /api/v1/api-agents/{id}/test-sets/{setId}", "DELETE /api/v1/api-agents/{id}/test-sets/{setId}")
	changes("id", owned(func(ctx context.Context, tx *store.Tx, account, _, id string) (any, error) {
		w, err := tx.Operations().Webhook(ctx, account, id)
		return s.Webhooks.contractWebhook(w), err
	}), "PATCH /api/v1/webhooks/{id}", "DELETE /api/v1/webhooks/{id}", "POST /api/v1/webhooks/{id}/rotate-secret", "POST /api/v1/webhooks/{id}/enable")
	changes("embedId", owned(func(ctx context.Context, tx *store.Tx, account, agent, id string) (any, error) {
		e, err := tx.Setup().Embed(ctx, account, agent, stoa.EmbedURL, id)
		return contractEmbedURL(embed.Stored{Embed: e}, tx.Now), err
	}), "DELETE /api/v1/api-agents/{id}/embed-urls/{embedId}")
	changes("embedId", owned(func(ctx context.Context, tx *store.Tx, account, agent, id string) (any, error) {
		e, err := tx.Setup().Embed(ctx, account, agent, stoa.EmbedSession, id)
		return contractEmbedSession(embed.Stored{Embed: e}, tx.Now), err
	}), "DELETE /api/v1/api-agents/{id}/embed-sessions/{embedId}", "POST /api/v1/api-agents/{id}/embed-sessions/{embedId}/refresh")
	changes("tagId", owned(func(ctx context.Context, tx *store.Tx, account, agent, id string) (any, error) {
		t, err := tx.Setup().EmbedTag(ctx, account, agent, id)
		return s.Embeds.contractTag(embed.StoredTag{EmbedTag: t}), err
	}), "PATCH /api/v1/api-agents/{id}/embed-tags/{tagId}", "DELETE /api/v1/api-agents/{id}/embed-tags/{tagId}")
	changes("id", owned(func(ctx context.Context, tx *store.Tx, account, _, id string) (any, error) {
		l, err := tx.Setup().EmbedLogo(ctx, account, id)
		return s.Embeds.contractLogo(l), err
	}), "DELETE /api/v1/embed-logos/{id}")
	changes("sessionId", owned(func(ctx context.Context, tx *store.Tx, account, agent, id string) (any, error) {
		row, err := tx.Work().Session(ctx, account, agent, id)
		return auditedSession{ID: row.ID, AgentID: row.AgentID, CreatedAt: contract.Time(row.CreatedAt)}, err
	}), "DELETE /api/v1/api-agents/{id}/sessions/{sessionId}")

	records("id", func(body []byte) any { return json.RawMessage(body) }, "POST /api/v1/connections/{id}/tools/review", "POST /api/v1/tool-calls/{id}/resolve")
	records("id", func([]byte) any { return struct{}{} }, "POST /api/v1/connections/{id}/authorize")
	records("sessionId", decisions, "POST /api/v1/api-agents/{id}/sessions/{sessionId}/input")
	for _, p := range []string{"POST /api/v1/members", "POST /api/v1/accounts/invitations", "POST /api/v1/accounts/{id}/members", "DELETE /api/v1/invitations/{id}", "POST /api/v1/invitations/{id}/link"} {
		rules[p].Personal = []string{"name", "email"}
	}
	return rules
}

// owned reads an object of the caller's account. agent is the parameter {id} of the path, and id is the last one.
func owned(read func(ctx context.Context, tx *store.Tx, account, agent, id string) (any, error)) func(context.Context, *store.Tx, *rest.Exchange) (string, any, error) {
	return func(ctx context.Context, tx *store.Tx, x *rest.Exchange) (string, any, error) {
		account, id := x.Log.Caller.Account.ID, x.HTTP.PathValue("id")
		last := id
		for _, name := range []string{"taskId", "embedId", "tagId", "hookId", "setId", "sessionId"} {
			if v := x.HTTP.PathValue(name); v != "" {
				last = v
			}
		}
		object, err := read(ctx, tx, account, id, last)
		return account, object, err
	}
}

// auditedSession omits the texts of a deleted session, because the audit log must not keep texts of people or models.
type auditedSession struct {
	ID        string        `json:"id"`
	AgentID   string        `json:"agentId"`
	CreatedAt contract.Time `json:"createdAt"`
}

// decisions returns the decisions about tool calls in an answer, or nil if the answer is a
// message.
func decisions(body []byte) any {
	var b struct {
		InputID   string          `json:"inputId"`
		Decision  *string         `json:"decision,omitempty"`
		Decisions json.RawMessage `json:"decisions,omitempty"`
	}
	if json.Unmarshal(body, &b) != nil || b.Decision == nil && (len(b.Decisions) == 0 || string(b.Decisions) == "null") {
		return nil
	}
	return b
}
