package agent_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stoa/internal/agents/drive"
	"stoa/internal/agents/httptool"
	"stoa/internal/agents/remote"
)

// githubTags select the operations of GitHub's document that a connection accepts.
var githubTags = []string{"repos", "issues", "pulls", "activity", "gists", "users", "search", "reactions", "git", "checks"}

// realTools returns the tools of a public document: github or stripe. The test is skipped without the folder that nightly checks fill.
func realTools(t *testing.T, name string) []remote.Tool {
	t.Helper()
	dir := os.Getenv("STOA_TEST_DOCUMENTS")
	if dir == "" {
		t.Skip("STOA_TEST_DOCUMENTS is not set; .ci/documents fetches the documents")
	}
	text, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	s := httptool.Server{Document: string(text)}
	s.URL = "https://api.example.com"
	s.Document = strings.ReplaceAll(s.Document, `"style":"deepObject"`, `"style":"form"`) // because a connection refuses it in queries, which a search does not matter for
	s.Document = strings.ReplaceAll(s.Document, `"style": "deepObject"`, `"style": "form"`)
	if name == "github" {
		if s.Document, err = httptool.Reduce(t.Context(), s.Document, httptool.Filter{Tags: githubTags}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Catalog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got.Tools
}

type labelled struct {
	document, task string
	operations     []string
	held           bool
}

func labelledTasks(t *testing.T) (list []labelled) {
	t.Helper()
	text, err := os.ReadFile("testdata/toolsearch.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if parts := strings.Split(strings.TrimSpace(line), "\t"); len(parts) == 3 {
			n := (len(list) + 1) % 10
			list = append(list, labelled{document: parts[0], operations: strings.Split(parts[1], "|"), task: parts[2], held: n == 3 || n == 6 || n == 9})
		}
	}
	return list
}

func TestX(t *testing.T) {
	var list []drive.Described
	var names []string
	size := 0
	for _, doc := range []string{"github", "stripe"} {
		tools := realTools(t, doc)
		t.Log(doc, len(tools))
		for _, tool := range tools {
			if tool.Problem != "" {
				continue
			}
			d := remote.Parse(tool.Definition)
			props, _ := d.InputSchema["properties"].(map[string]any)
			var p []string
			for n := range props {
				p = append(p, n)
			}
			list = append(list, drive.Described{Name: doc + "__" + tool.Name, Title: d.Title, Description: d.Description, Details: strings.Join(p, " "), Reads: reads(d)})
			names = append(names, doc+" "+tool.Name)
			size += len(tool.Definition)
		}
	}
	t.Log(len(list), size)
	dump, _ := json.Marshal(map[string]any{"list": list, "names": names})
	os.WriteFile("/tmp/tools.json", dump, 0o600)
	ranking := drive.NewRanking(list)
	n, right, held, heldRight := 0, 0, 0, 0
	for _, one := range labelledTasks(t) {
		best := ranking.Best(one.task, 8)
		at := slices.IndexFunc(best, func(i int) bool {
			doc, name, _ := strings.Cut(names[i], " ")
			return doc == one.document && slices.Contains(one.operations, name)
		})
		ok := at >= 0 && at < 3
		if one.held {
			held++
			if ok {
				heldRight++
			}
			continue
		}
		n++
		if ok {
			right++
			continue
		}
		var got []string
		for _, i := range best[:min(len(best), 4)] {
			got = append(got, names[i])
		}
		t.Logf("%q wants %v (at %d), got %v", one.task, one.operations, at, got)
	}
	t.Logf("%d of %d; held %d of %d", right, n, heldRight, held)
}

func reads(d remote.Definition) bool {
	_, effects := remote.Suggested(d)
	return effects == "read"
}
