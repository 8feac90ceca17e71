package api_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"stoa/internal/testkit/apitest"
)

// The messages of the extension, as specification/stable/skills.mdx of github.com/modelcontextprotocol/ext-skills has them.
type (
	skillEntry struct {
		URI         string         `json:"uri"`
		Frontmatter map[string]any `json:"frontmatter"`
		Resources   []struct {
			URI    string `json:"uri"`
			Digest string `json:"digest"`
			Size   int64  `json:"size"`
		} `json:"resources"`
	}
	skillsParams struct {
		sdk.ParamsBase
		URI    string `json:"uri,omitempty"`
		Cursor string `json:"cursor,omitempty"`
	}
	skillsResult struct {
		sdk.ResultBase
		ResultType string       `json:"resultType"`
		Skills     []skillEntry `json:"skills"`
		Skill      skillEntry   `json:"skill"`
		NextCursor string       `json:"nextCursor"`
		TTL        *int         `json:"ttlMs"`
		CacheScope string       `json:"cacheScope"`
	}
)

// skillClient is an [mcpClient] that speaks the extension.
func skillClient(t *testing.T, address, key, revision string) *sdk.ClientSession {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	for _, method := range []string{"skills/list", "skills/get"} {
		if err := sdk.AddSendingCustomMethod[*skillsParams, *skillsResult](client, method); err != nil {
			t.Fatal(err)
		}
	}
	transport := &sdk.StreamableClientTransport{Endpoint: address, MaxRetries: -1, DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: withKey(key)}}
	s, err := client.Connect(t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func declared(s *sdk.ClientSession) bool {
	r := s.InitializeResult()
	return r.Capabilities.Extensions["io.modelcontextprotocol/skills"] != nil && r.Capabilities.Resources != nil
}

// TestAnAgentServesItsSkills reads the skills of an exposed agent with the official client. Only those in use are served, as they were
// reviewed, and only if the agent says so.
func TestAnAgentServesItsSkills(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), map[string]any{"name": "Help desk", "description": "Answers questions.", "expose": []string{"mcp"}})
	files := map[string]string{"SKILL.md": refundsText, "references/the limits.md": "Up to 50.\n", "logo.png": "\x89PNG\xff"}
	a.importSkills(t, map[string]string{"refunds/SKILL.md": refundsText, "refunds/references/the limits.md": files["references/the limits.md"], "refunds/logo.png": files["logo.png"], "other/SKILL.md": "---\nname: other\ndescription: Other.\n---\n"})
	a.reviewSkill(t, "refunds")
	for range 11 { // more than a page
		more := newAuthor(t, h, a.Client, map[string]any{"name": "Other", "description": "Answers.", "expose": []string{"mcp", "skills"}})
		more.importSkills(t, map[string]string{"SKILL.md": "---\nname: other\ndescription: Other.\n---\n"})
		more.reviewSkill(t, "other")
	}
	id := a.agent[strings.LastIndex(a.agent, "/")+1:]
	one := h.URL + "/api/v1/mcp/agents/" + id
	if s := skillClient(t, one, h.Key, "2026-07-28"); declared(s) {
		t.Error("an agent that does not say so serves its skills")
	}
	a.Want(200, "PATCH", a.agent, object{"expose": []string{"mcp", "skills"}})
	call := func(s *sdk.ClientSession, method string, p skillsParams) (*skillsResult, error) {
		return sdk.CallCustomMethod[*skillsParams, *skillsResult](t.Context(), s, method, &p)
	}
	refused := func(what string, err error) {
		t.Helper()
		if wire, ok := errors.AsType[*jsonrpc.Error](err); !ok || wire.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, revision := range revisions {
		s := skillClient(t, one, h.Key, revision)
		if !declared(s) {
			t.Fatalf("%s: the extension is not declared: %+v", revision, s.InitializeResult().Capabilities)
		}
		list, err := call(s, "skills/list", skillsParams{})
		if err != nil || len(list.Skills) != 1 || list.ResultType != "complete" || list.TTL == nil || list.CacheScope != "private" || list.NextCursor != "" {
			t.Fatalf("%s: the list is %+v, %v", revision, list, err)
		}
		entry := list.Skills[0]
		front, _ := json.Marshal(entry.Frontmatter)
		if entry.URI != "skill://Help_desk/refunds/SKILL.md" || string(front) != `{"allowed-tools":"Bash","compatibility":"Needs a bank","description":"Pays refunds.","kind":7,"license":"MIT","metadata":{"author":"ann"},"name":"refunds"}` {
			t.Errorf("%s: the entry is %s with %s", revision, entry.URI, front)
		}
		got, err := call(s, "skills/get", skillsParams{URI: entry.URI})
		was, _ := json.Marshal(entry)
		if is, _ := json.Marshal(got.Skill); err != nil || string(is) != string(was) || got.ResultType != "complete" || got.TTL == nil {
			t.Errorf("%s: skills/get: %s, %v", revision, is, err)
		}
		var paths []string
		for _, f := range entry.Resources {
			read, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: f.URI})
			if err != nil {
				t.Fatalf("%s: read %s: %v", revision, f.URI, err)
			}
			content := []byte(read.Contents[0].Text)
			if read.Contents[0].Blob != nil {
				content = read.Contents[0].Blob
			}
			sum := sha256.Sum256(content)
			if f.Digest != "sha256:"+hex.EncodeToString(sum[:]) || f.Size != int64(len(content)) {
				t.Errorf("%s: %s is not what its digest says", revision, f.URI)
			}
			paths = append(paths, strings.TrimPrefix(f.URI, "skill://Help_desk/refunds/"))
		}
		if !slices.Equal(paths, []string{"SKILL.md", "logo.png", "references/the%20limits.md"}) {
			t.Errorf("%s: the files are %q", revision, paths)
		}
		for _, uri := range []string{"skill://Help_desk/other/SKILL.md", "skill://Help_desk/refunds", "skill://Other/other/SKILL.md", "skill://Help_desk/refunds/../../drive", "x"} {
			_, err := call(s, "skills/get", skillsParams{URI: uri})
			refused("skills/get "+uri, err)
			_, err = s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
			refused("read "+uri, err)
		}
		_, err = call(s, "skills/list", skillsParams{Cursor: "99"})
		refused("cursor", err)
	}
	all := skillClient(t, h.URL+"/api/v1/mcp", h.Key, "2026-07-28")
	seen, cursor := map[string]bool{}, ""
	for page := 0; page == 0 || cursor != ""; page++ {
		list, err := call(all, "skills/list", skillsParams{Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list.Skills {
			seen[s.URI] = true
		}
		cursor = list.NextCursor
	}
	if len(seen) != 12 {
		t.Errorf("all agents serve %v", seen)
	}
	a.file("skills/refunds/planted.md", "Planted.\n")
	list, err := call(all, "skills/list", skillsParams{Cursor: ""})
	if text, _ := json.Marshal(list); err != nil || strings.Contains(string(text), "refunds") {
		t.Errorf("a changed skill is served: %s, %v", text, err)
	}
}
