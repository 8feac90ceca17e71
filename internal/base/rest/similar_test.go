package rest

import (
	"net/http/httptest"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
)

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

func TestAPathOfOtherAPIsIsNamed(t *testing.T) {
	t.Parallel()
	for asked, want := range map[string]string{
		"/api/v1/embeddings":          `"embeddings" is not a part of this service. It serves models at POST /api/v1/responses;`,
		"/api/v1/images/generations":  `"images" is not a part`,
		"/api/v1/files/file_1":        `"files" is not a part`,
		"/api/v1/embed-logo":          "did you mean /api/v1/embed-logos?",
		"/api/v1/connections/c/files": "This path does not exist.",
	} {
		err := notFound(httptest.NewRequest("POST", asked, nil), []string{"POST /api/v1/embed-logos", "GET /api/v1/connections"})
		if stoa.CodeOf(err) != stoa.CodeNotFound || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", asked, err, want)
		}
	}
}
