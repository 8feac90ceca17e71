package web_test

import (
	"io/fs"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stoa/docs"
)

var (
	guideLink = regexp.MustCompile(`href="/docs/([a-z-]+)"><b>`)
	anchorID  = regexp.MustCompile(` id="([^"]*)"`)
	anchorTo  = regexp.MustCompile(`href="([^"]*)"`)
)

func TestEveryGuideIsListed(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(docs.Guides, "*.md")
	if err != nil || len(names) < 10 {
		t.Fatal(names, err)
	}
	body := bodyOf(t, ask(t, newHandler(t), "GET", "/docs"))
	var listed []string
	for _, m := range guideLink.FindAllStringSubmatch(body, -1) {
		listed = append(listed, m[1]+".md")
	}
	slices.Sort(listed)
	if !slices.Equal(listed, names) {
		t.Errorf("/docs lists %q; docs has %q", listed, names)
	}
}

// Links between the guides lead to headings that exist, and nothing of the
// Markdown reaches the page as it was.
func TestGuidesLeadSomewhere(t *testing.T) {
	t.Parallel()
	h := newHandler(t)
	names, _ := fs.Glob(docs.Guides, "*.md")
	pages := map[string]string{"/docs": bodyOf(t, ask(t, h, "GET", "/docs"))}
	for _, name := range names {
		path := "/docs/" + strings.TrimSuffix(name, ".md")
		r := ask(t, h, "GET", path)
		pages[path] = bodyOf(t, r)
		if r.StatusCode != 200 || !strings.Contains(r.Header.Get("Content-Security-Policy"), "script-src 'self'; style-src 'self'") {
			t.Errorf("%s: %d with the policy %q", path, r.StatusCode, r.Header.Get("Content-Security-Policy"))
		}
		if strings.Contains(pages[path], ` style="`) || strings.Contains(pages[path], "raw HTML omitted") && name != "cli.md" {
			t.Errorf("%s: there are styles or HTML in the Markdown", path)
		}
	}
	for path, body := range pages {
		for _, m := range anchorTo.FindAllStringSubmatch(body, -1) {
			page, fragment, _ := strings.Cut(m[1], "#")
			if page == "" {
				page = path
			}
			target, isGuide := pages[page]
			switch {
			case isGuide && fragment != "":
				if !slices.ContainsFunc(anchorID.FindAllStringSubmatch(target, -1), func(id []string) bool { return id[1] == fragment }) {
					t.Errorf("%s leads to %s, and there is no such heading", path, m[1])
				}
			case isGuide || strings.Contains(page, "://"):
			case page == "/api/v1/openapi.json" || page == "/api/v1/health":
			default:
				if r := ask(t, h, "GET", page); r.StatusCode != 200 {
					t.Errorf("%s leads to %s, which answers %d", path, m[1], r.StatusCode)
				}
			}
		}
	}
	for _, path := range []string{"/docs/nothing", "/docs/docs.go", "/docs/decisions"} {
		if r := ask(t, h, "GET", path); r.StatusCode != 404 {
			t.Errorf("%s answers %d", path, r.StatusCode)
		}
	}
}

func TestGuidesAreSearched(t *testing.T) {
	t.Parallel()
	h := newHandler(t)
	found := func(q string) string {
		r := ask(t, h, "GET", "/docs?q="+url.QueryEscape(q))
		if r.StatusCode != 200 {
			t.Fatalf("%q answers %d", q, r.StatusCode)
		}
		_, body, _ := strings.Cut(bodyOf(t, r), `id="main"`)
		return body
	}
	if body := found("Idempotency-Key"); !strings.Contains(body, `<mark>Idempotency-Key</mark>`) {
		t.Errorf("no section with the word is shown: %s", body)
	}
	// A word in a heading comes before one in the text.
	if body := found("SYSTEMD"); !regexp.MustCompile(`(?s)^[^§]{0,200}href="/docs/install#systemd"`).MatchString(body) {
		t.Errorf("the section systemd is not the first: %.400s", body)
	}
	// Not every word must be there, and words match from their beginnings.
	for q, want := range map[string]string{
		"add a provider key without restart": "managed-settings connect-a-vendor", "alerts": "alerts", "alert": "alerts",
		"invoice": "sell-access billing", "invoices": "sell-access billing", "sso": "members", "rate limit": "settings-models budgets", "rate limits of a key": "",
		"how do I approve a tool call": "approvals", "approve": "approvals", "kubernetes": "nodes", "helm": "nodes", "cors": "embeds",
		"monthly report in slack": "reports", "slack report": "reports", "webhook": "webhooks", "webhooks": "webhooks", "from openai": "migrate",
		"litellm": "migrate", "backup": "backup", "restore": "backup nodes", "upgrade": "install nodes", "nginx": "proxy", "prometheus": "alerts monitoring metrics",
		"grafana": "monitoring metrics", "ollama": "model-servers", "docker": "install", "oauth": "connection-secrets", "openapi": "http-tools", "mcp": "connections",
		"scaling": "nodes", "client tools": "tools", "sdk": "sdks", "generate client": "sdks", "typescript client": "sdks", "webook": "webhooks", "aproval": "approvals", "secheduled tasks": "schedules", "logs": "monitoring",
	} {
		body := found(q)
		if first := regexp.MustCompile(`href="/docs/([a-z-]+)#`).FindStringSubmatch(body); first == nil || want != "" && !slices.Contains(strings.Fields(want), first[1]) {
			t.Errorf("%q leads to %v, want %s", q, first, want)
		}
		if m := regexp.MustCompile(`[A-Za-z]<mark>`).FindString(body); m != "" {
			t.Errorf("%q is marked inside of a word: %s", q, m)
		}
	}
	// The words of readers that differ from those of the guides lead to the right page among the first three.
	for q, want := range map[string]string{
		"how much does it cost": "billing", "send email": "reports", "sse": "agents", "https tls certificate": "proxy", "forgot owner key": "install",
		"lost password": "members", "invite colleague": "members", "chat widget": "embeds", "human in the loop": "approvals", "knowledge base rag": "drives",
		"top up": "sell-access", "stuck session": "agents", "multi node cluster": "nodes", "delete data gdpr": "erasure", "delete a customer gdpr": "erasure", "right to be forgotten": "erasure", "erase end user": "erasure", "images vision": "extensions",
		"json schema structured output": "extensions", "error codes": "conventions", "retry": "conventions", "idempotency": "conventions", "revoke a leaked key": "audit",
		"embed logo": "embeds", "curl": "clients", "stripe": "sell-access", "langchain": "clients", "environment variables": "configuration",
	} {
		links := regexp.MustCompile(`<li><a href="/docs/([a-z-]+)#`).FindAllStringSubmatch(found(q), 3)
		if !slices.ContainsFunc(links, func(link []string) bool { return link[1] == want }) {
			t.Errorf("%q leads to %v, not to %s", q, links, want)
		}
	}
	// Questions of newcomers lead to the page, or the section, in the first two results.
	for q, want := range map[string]string{
		"ollama": "model-servers", "why was I charged": "billing", "restore": "backup", "pdf in agents": "drives", "rate limit": "settings-models#rate-limits",
		"invite": "members", "price change": "billing", "CORS": "embeds", "upgrade": "install#upgrade", "docker": "install#image", "kubernetes": "nodes",
		"SSO": "members", "json schema": "agents#answers-by-a-schema", "embeddings and images": "migrate", "webhook signature": "webhooks#check-the-signature",
		"streaming of an agent": "agents#the-event-stream", "log prompts": "monitoring", "retention": "ledger#retention", "reset lost owner key": "troubleshooting#a-lost-key",
		"lost key": "troubleshooting#a-lost-key", "I lost my key": "troubleshooting#a-lost-key", "Slack notification": "reports slack", "export data CSV": "export", "csv": "export", "call an agent from Python": "python", "python": "python", "is there an SDK": "sdks", "sdk": "sdks",
		"import from Dify": "migrate#from-dify-flowise-or-openais-assistants", "free trial credits": "sell-access#free-trial-credits", "free trial": "sell-access#free-trial-credits",
		"fallback when provider is down": "connect-a-vendor#a-fallback-when-a-provider-is-down", "fallback": "connect-a-vendor#a-fallback-when-a-provider-is-down",
		"customer's monthly budget": "budgets", "budgets of customers": "budgets", "delete a customer GDPR": "erasure", "erase a customer": "erasure", "right to be forgotten": "erasure",
	} {
		links := regexp.MustCompile(`<li><a href="/docs/([a-z-]+#[a-z0-9-]*)`).FindAllStringSubmatch(found(q), 2)
		if !slices.ContainsFunc(links, func(link []string) bool {
			page, _, _ := strings.Cut(link[1], "#")
			return slices.Contains(strings.Fields(want), page) || slices.Contains(strings.Fields(want), link[1])
		}) {
			t.Errorf("%q leads to %v, not to %s", q, links, want)
		}
	}
	if body := found("rotateWebhookSecret"); !strings.Contains(body, `href="/docs/api-openapi/webhooks#rotateWebhookSecret"`) {
		t.Error("the search does not find an operation")
	}
	for _, q := range []string{"nowhere-to-be-found", "", "   ", "systemd nowhere-to-be-found"} {
		if body := found(q); strings.Contains(body, "<mark>") || !strings.Contains(body, "No results. Try fewer") {
			t.Errorf("%q finds something: %.400s", q, body)
		}
	}
	for _, q := range []string{`"><script>alert(1)</script>`, strings.Repeat("a ", 5000), "\xff\xfe", "İ ı ẞ"} {
		if body := found(q); strings.Contains(body, "<script>") {
			t.Errorf("%.40q is not escaped", q)
		}
	}
}

// Addresses of sections that have moved to other pages lead there.
func TestMovedSectionsAreFound(t *testing.T) {
	t.Parallel()
	h := newHandler(t)
	for page, ids := range map[string]string{
		"operations":    "install start stop-and-other-signals systemd upgrade behind-a-proxy sizes connections-bodies-and-memory pools-and-queues documents health metrics-traces-and-profiles logs log-keys the-request-log problems-that-need-attention when-a-vendor-fails a-wrong-clock the-ledger durability retention backup-and-restore keys-of-stored-secrets moving-a-store postgresql large-files-in-a-bucket several-nodes what-nodes-share accounts",
		"configuration": "managed-settings server extensions keys-of-stored-secrets requests-to-addresses-of-callers providers-families-models plans rate-limits limits drives sign-in mail payments retention request-log",
		"connections":   "an-api-with-an-openapi-document an-api-without-a-document a-server-that-requires-a-token a-server-that-requires-oauth secrets-of-a-session what-becomes-of-a-call results-of-a-test-call limits conformance-and-what-is-left-out",
	} {
		body := bodyOf(t, ask(t, h, "GET", "/docs/"+page))
		for id := range strings.FieldsSeq(ids) {
			if !regexp.MustCompile(`<a href="/docs/[a-z-]+#` + id + `" id="` + id + `">`).MatchString(body) {
				t.Errorf("/docs/%s#%s leads nowhere", page, id)
			}
		}
	}
}
