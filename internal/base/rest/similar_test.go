package rest

import "testing"

func TestAMistypedPathIsNamed(t *testing.T) {
	t.Parallel()
	patterns := []string{"POST /api/v1/responses", "GET /api/v1/api-agents", "GET /api/v1/api-agents/{agentId}", "GET /api/v1/receipts/{receiptId}", "GET /api/v1/keys"}
	for asked, want := range map[string]string{
		"/api/v1/response":       "/api/v1/responses",
		"/api/v1/agents":         "/api/v1/api-agents",
		"/api/v1/agents/agt_1":   "/api/v1/api-agents/{agentId}",
		"/api/v1/recepts/resp_1": "/api/v1/receipts/{receiptId}",
		"/api/v2/responses":      "/api/v1/responses",
		"/api/v1/invoices":       "",
		"/v1/agent":              "",
		"/":                      "",
	} {
		if got := similarPath(asked, patterns); got != want {
			t.Errorf("%s is similar to %q, want %q", asked, got, want)
		}
	}
}
