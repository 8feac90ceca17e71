package api_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"stoa/internal/agents/drive"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakemcp"
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
	if e := a.WantError(stoa.CodeInvalidValue, "PATCH", a.agent, object{"expose": []string{"skills"}}); e.Param == nil || *e.Param != "expose" {
		t.Errorf("skills without mcp: %+v", e)
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

// TestSkillsAreImportedFromAServer imports the skills that one service serves into an agent of another.
func TestSkillsAreImportedFromAServer(t *testing.T) {
	t.Parallel()
	from := start(t, apitest.Config{})
	source := newAuthor(t, from, from.Client(t), map[string]any{"name": "Help desk", "description": "Answers questions.", "expose": []string{"mcp", "skills"}})
	source.importSkills(t, map[string]string{"refunds/SKILL.md": refundsText, "refunds/references/the limits.md": "Up to 50.\n", "refunds/logo.png": "\x89PNG\xff", "other/SKILL.md": "---\nname: other\ndescription: Other.\n---\n"})
	source.reviewSkill(t, "refunds")
	source.reviewSkill(t, "other")

	h := start(t, apitest.Config{Allow: toLoopback})
	a := newAuthor(t, h, h.Client(t), nil)
	var secret contract.Secret
	a.Want(201, "POST", "/api/v1/secrets", object{"name": "key", "kind": "bearer", "value": from.Key, "origin": from.URL}).JSON(&secret)
	var made contract.Connection
	a.Want(201, "POST", "/api/v1/connections", object{"kind": "mcp", "name": "desk", "url": from.URL + "/api/v1/mcp", "auth": object{"type": "secret", "secretId": secret.ID}}).JSON(&made)
	body := object{"connectionId": made.ID, "skills": []string{"refunds"}}
	var list contract.SkillList
	a.Want(200, "POST", a.agent+"/skills", body).JSON(&list)
	const uri = "skill://Help_desk/refunds/SKILL.md"
	if s := list.Data[0]; len(list.Data) != 1 || s.State != "new" || s.Used || orNone(s.Source) != "desk "+uri || len(s.Files) != 3 {
		t.Fatalf("imported %+v", list)
	}
	if got := a.skill(t, "refunds"); orNone(got.Digest) != orNone(source.skill(t, "refunds").Digest) {
		t.Errorf("the files are %v", shownFiles(got))
	}
	if s := a.reviewSkill(t, "refunds"); s.State != "active" || orNone(s.Source) != "desk "+uri {
		t.Errorf("after the review it is %+v", s)
	}
	created, path := a.begin(t, "call: skill_read {\"name\":\"refunds\",\"path\":\"references/the limits.md\"}\nsay: read", nil)
	a.until(t, path, "completed")
	export := string(a.Want(200, "GET", path+"/export", nil).Body)
	var step contract.SessionStep
	a.Want(200, "GET", path+"/steps/"+stoa.StepID(created.ID, 1, 1), nil).JSON(&step)
	if request, _ := json.Marshal(step.Request); !strings.Contains(string(request), "refunds (server desk "+uri+")") || !strings.Contains(export, `\"server\":\"desk `+uri) {
		t.Errorf("the model is not told where the skill is from: %s\n%s", request, export)
	}
	source.Want(200, "PUT", source.agent+"/drive/files", object{"path": "skills/refunds/references/the limits.md", "content": "Up to 5,000.\n"})
	source.reviewSkill(t, "refunds")
	a.Want(200, "POST", a.agent+"/skills", body)
	if s := a.skill(t, "refunds"); s.State != "changed" || !s.Used {
		t.Errorf("after a change at the server it is %+v", s)
	}
	a.file("skills/other/SKILL.md", "---\nname: other\ndescription: My own.\n---\n")
	a.WantError(stoa.CodeConflict, "POST", a.agent+"/skills", object{"connectionId": made.ID})
	if e := a.WantError(stoa.CodeToolServer, "POST", a.agent+"/skills", object{"connectionId": made.ID, "skills": []string{"missing"}}); !strings.HasSuffix(e.Message, "URI missing. It lists: skill://Help_desk/other/SKILL.md, "+uri+".") {
		t.Errorf("for a wrong name: %s", e.Message)
	}
	a.WantError(stoa.CodeConnectionNotFound, "POST", a.agent+"/skills", object{"connectionId": "con_missing"})
	a.Want(200, "PATCH", "/api/v1/connections/"+made.ID, object{"enabled": false})
	a.WantError(stoa.CodeConnectionDisabled, "POST", a.agent+"/skills", body)
	var http contract.Connection
	a.Want(201, "POST", "/api/v1/connections", object{"kind": "mcp", "name": "inner", "url": "http://169.254.169.254/mcp"}).JSON(&http)
	a.WantError(stoa.CodeAddressNotAllowed, "POST", a.agent+"/skills", object{"connectionId": http.ID})
}

// TestAServerCannotImportWhatItDoesNotList has a server whose skills are not what its list says.
func TestAServerCannotImportWhatItDoesNotList(t *testing.T) {
	t.Parallel()
	const text = "---\nname: a\ndescription: b\n---\n"
	sum := sha256.Sum256([]byte(text))
	good := `{"uri":"skill://a/SKILL.md","digest":"sha256:` + hex.EncodeToString(sum[:]) + `","size":31}`
	entry := func(front, resources string) string {
		return `{"uri":"skill://a/SKILL.md","frontmatter":` + front + `,"resources":` + resources + `}`
	}
	const front = `{"name":"a","description":"b"}`
	var skills atomic.Pointer[string]
	var declares atomic.Bool
	server := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server {
		caps := &sdk.ServerCapabilities{Resources: &sdk.ResourceCapabilities{}}
		if declares.Load() {
			caps.AddExtension("io.modelcontextprotocol/skills", map[string]any{})
		}
		s := sdk.NewServer(&sdk.Implementation{Name: "evil", Version: "1"}, &sdk.ServerOptions{Capabilities: caps})
		if err := sdk.AddReceivingCustomMethod(s, "skills/list", func(context.Context, *sdk.ServerSession, *skillsParams) (*rawSkills, error) {
			return &rawSkills{Skills: json.RawMessage("[" + *skills.Load() + "]")}, nil
		}); err != nil {
			t.Error(err)
		}
		s.AddResourceTemplate(&sdk.ResourceTemplate{Name: "all", URITemplate: "skill://{+path}"}, func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, Text: text}}}, nil
		})
		return s
	}, &sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(server.Close)
	h := start(t, apitest.Config{Allow: toLoopback, Drive: drive.Limits{MaxBytes: 20}})
	a := newAuthor(t, h, h.Client(t), nil)
	var made contract.Connection
	a.Want(201, "POST", "/api/v1/connections", object{"kind": "mcp", "name": "evil", "url": server.URL}).JSON(&made)
	for want, list := range map[string]string{
		"does not declare":    entry(front, "["+good+"]"),
		"lists 0 skills":      "",
		"no list of files":    entry(front, `"dynamic"`),
		"digest says":         entry(front, `[`+good+`,{"uri":"skill://a/b.md","digest":"sha256:00","size":31}]`),
		"outside its folder":  entry(front, `[`+good+`,{"uri":"skill://b/b.md","digest":"sha256:00","size":31}]`),
		"or there twice":      entry(front, `[`+good+`,`+good+`]`),
		"outside its folder,": entry(front, `[{"uri":"skill://a/..%2Fb.md","digest":"sha256:00","size":31}]`),
		"has no SKILL.md":     entry(front, `[]`),
		"more than 8 MiB":     entry(front, `[{"uri":"skill://a/SKILL.md","digest":"sha256:00","size":9000000}]`),
		"cannot be stored":    entry(front, "["+good+","+strings.Replace(good, "SKILL.md", "b%01.md", 1)+"]"),
		"cannot be stored, ":  entry(front, "["+good+","+strings.Replace(good, "SKILL.md", "%E2%80%AE.md", 1)+"]"),
		"than 200 bytes":      entry(front, "["+good+","+strings.Replace(good, "SKILL.md", strings.Repeat("b", 201), 1)+"]"),
		"another front":       entry(`{"name":"a","description":"c"}`, "["+good+"]"),
	} {
		skills.Store(&list)
		declares.Store(want != "does not declare")
		if e := a.WantError(stoa.CodeToolServer, "POST", a.agent+"/skills", object{"connectionId": made.ID}); !strings.Contains(e.Message, want) {
			t.Errorf("want %q: %s", want, e.Message)
		}
	}
	var list contract.SkillList
	if a.Want(200, "GET", a.agent+"/skills", nil).JSON(&list); len(list.Data) != 0 {
		t.Errorf("stored %+v", list)
	}
	fits := entry(front, "["+good+"]")
	skills.Store(&fits)
	declares.Store(true) // the case without it can be the last of the map
	a.WantError(stoa.CodeStorageFull, "POST", a.agent+"/skills", object{"connectionId": made.ID})
	a.file("skills", "x")
	a.WantError(stoa.CodePathConflict, "POST", a.agent+"/skills", object{"connectionId": made.ID})
}

// TestAServerMayAnswerNothing has a server whose results are null where an object is due.
func TestAServerMayAnswerNothing(t *testing.T) {
	t.Parallel()
	const (
		empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
		entry = `{"skills":[{"uri":"skill://a/SKILL.md","frontmatter":{},"resources":[{"uri":"skill://a/SKILL.md","digest":"sha256:` + empty + `","size":0}]}]}`
	)
	var list, file atomic.Pointer[string]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.NewDecoder(r.Body).Decode(&m) != nil || m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result, ok := map[string]string{
			"initialize": `{"protocolVersion":"2025-06-18","serverInfo":{"name":"null","version":"1"},"capabilities":{"tools":{},"resources":{},"extensions":{"io.modelcontextprotocol/skills":{}}}}`,
			"tools/list": `{"tools":[]}`, "skills/list": *list.Load(), "resources/read": *file.Load(),
		}[m.Method]
		w.Header().Set("Content-Type", "application/json")
		if !ok {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.ID)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(server.Close)
	h := start(t, apitest.Config{Allow: toLoopback})
	a := newAuthor(t, h, h.Client(t), nil)
	answers := func(skills, content string) { list.Store(&skills); file.Store(&content) }
	answers(entry, `null`)
	var made contract.Connection
	a.Want(201, "POST", "/api/v1/connections", object{"kind": "mcp", "name": "null", "url": server.URL}).JSON(&made)
	for _, c := range [][2]string{
		{`null`, `null`},
		{`{"skills":null}`, `null`},
		{`{"skills":[null]}`, `null`},
		{entry, `null`},
		{entry, `{"contents":null}`},
		{entry, `{"contents":[null]}`},
		{strings.Replace(entry, `"resources":[`, `"resources":[null,`, 1), `null`},
		{strings.Replace(entry, `"frontmatter":{}`, `"frontmatter":null`, 1), `{"contents":[{"uri":"skill://a/SKILL.md","text":""}]}`},
	} {
		answers(c[0], c[1])
		a.WantError(stoa.CodeToolServer, "POST", a.agent+"/skills", object{"connectionId": made.ID})
	}
}

type rawSkills struct {
	sdk.ResultBase
	Skills json.RawMessage `json:"skills"`
}

func TestAServerThatNeverSaysItsSkills(t *testing.T) {
	t.Parallel()
	f := fakemcp.Start(t)
	f.Always("server/discover", "hang")
	h := start(t, apitest.Config{Idle: true, Allow: toLoopback, Server: func(s *api.Server) { s.Agents.Tools.Refreshes = time.Millisecond }})
	a := newAuthor(t, h, h.Client(t), nil)
	var made contract.Connection
	a.Want(201, "POST", "/api/v1/connections", object{"kind": "mcp", "name": "git", "url": f.URL}).JSON(&made)
	a.WantError(stoa.CodeToolServerTimeout, "POST", a.agent+"/skills", object{"connectionId": made.ID})
}
