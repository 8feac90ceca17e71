package api

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"stoa/internal/agents/drive"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
)

// TestBodiesOfTheDriveAreCheckedAsTheContractSays gives many bodies to the contract's check,
// with their contents and without.
func TestBodiesOfTheDriveAreCheckedAsTheContractSays(t *testing.T) {
	t.Parallel()
	doc, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	members := []string{"path", "content", "mimeType", "encoding", "textEncoding", "from", "to", "overwrite", "version", "operations", "op", "ifMatch", "ifNoneMatch", "other"}
	values := []string{`"a"`, `"b/c"`, `""`, `"utf-8"`, `"base64"`, `"text/plain"`, `"YQ=="`, `null`, `true`, `false`, `0`, `1`, `-1`, `1.5`, `1e2`, `[]`, `{}`, `"*"`, `"put"`, `"\u00e9"`}
	for _, c := range []struct {
		pattern string
		verb    drive.Verb
		own     []string // members of a good body, first
		good    []string
	}{
		{"PUT /api/v1/api-agents/{id}/drive/files", drive.VerbPut, []string{"path", "content", "mimeType", "encoding", "textEncoding"}, []string{`"a"`, `"YQ=="`, `"text/plain"`, `"base64"`, `"utf-8"`}},
		{"POST /api/v1/api-agents/{id}/drive/files/move", drive.VerbMove, []string{"from", "to", "overwrite"}, []string{`"a"`, `"b"`, `true`}},
		{"POST /api/v1/api-agents/{id}/drive/files/reread", verbReread, []string{"path", "textEncoding"}, []string{`"a"`, `"utf-8"`}},
		{"POST /api/v1/api-agents/{id}/drive/files/restore", drive.VerbRestore, []string{"path", "version"}, []string{`"a"`, `3`}},
		{
			"POST /api/v1/api-agents/{id}/drive/batch", "",
			[]string{"operations"},
			[]string{`[{"op":"put","path":"a","content":"x"},{"op":"move","from":"a","to":"b"},{"op":"delete","path":"b"}]`},
		},
	} {
		op := rest.NewOperation(doc, c.pattern)
		compare := func(raw string) {
			t.Helper()
			_, want := op.CheckBody([]byte(raw))
			_, got := parseDrive([]byte(raw), c.verb, op.CheckBody)
			// Paths, media types, encodings and base64 are rules beyond the schema.
			if want == nil {
				if e := stoa.AsError(got); got != nil && e.Code != stoa.CodeInvalidPath && e.Param != "mimeType" && e.Param != "textEncoding" && e.Param != "content" && !strings.HasPrefix(e.Param, "operations[") {
					t.Errorf("%s: the contract takes %s, we say %v", c.pattern, raw, got)
				}
				return
			}
			if got == nil {
				t.Errorf("%s: the contract refuses %s (%v), we take it", c.pattern, raw, want)
				return
			}
			w, g := stoa.AsError(want), stoa.AsError(got)
			if w.Code != g.Code || w.Param != g.Param {
				t.Errorf("%s: %s is %s at %q by the contract, %s at %q by us", c.pattern, raw, w.Code, w.Param, g.Code, g.Param)
			}
		}
		var whole []string
		for i, name := range c.own {
			whole = append(whole, fmt.Sprintf("%q:%s", name, c.good[i]))
		}
		good := "{" + strings.Join(whole, ",") + "}"
		if _, err := parseDrive([]byte(good), c.verb, op.CheckBody); err != nil {
			t.Errorf("%s is good: %v", good, err)
		}
		for _, raw := range []string{good, " \n" + good + "\t", "", "  ", "null", "[]", `"x"`, "1", "{", good + "x", `{"path":"a","path":"b"}`, "{\"path\":\"\xff\"}", `{"path":"\ud800","content":""}`, "{}", `{"other":1}`} {
			compare(raw)
		}
		for i := range c.own { // one member wrong at a time
			for _, v := range values {
				parts := append([]string{}, whole...)
				parts[i] = fmt.Sprintf("%q:%s", c.own[i], v)
				compare("{" + strings.Join(parts, ",") + "}")
			}
			compare("{" + strings.Join(append(append([]string{}, whole[:i]...), whole[i+1:]...), ",") + "}")
		}
		compare("{" + strings.Join(append(append([]string{}, whole...), `"other":1`), ",") + "}")
		r := rand.New(rand.NewPCG(1, 2))
		for range 3000 {
			var parts []string
			for _, i := range r.Perm(len(members))[:r.IntN(6)] {
				parts = append(parts, fmt.Sprintf("%q:%s", members[i], values[r.IntN(len(values))]))
			}
			raw := "{" + strings.Join(parts, ",") + "}"
			if strings.Contains(c.pattern, "batch") {
				raw = `{"operations":[{"op":"delete","path":"x"},` + raw + `]}`
			}
			compare(raw)
		}
	}
}

func TestABatchIsReadWhereverItsVerbStands(t *testing.T) {
	t.Parallel()
	doc, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	check := rest.NewOperation(doc, "POST /api/v1/api-agents/{id}/drive/batch").CheckBody
	raw, err := json.Marshal(map[string]any{"operations": []map[string]any{
		{"path": "a", "content": "Zm9v", "op": "put", "encoding": "base64", "ifMatch": `"x", W/"y"`, "mimeType": "Text/Plain"},
		{"from": "a", "to": "b", "overwrite": true, "op": "move"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	ops, err := parseDrive(raw, "", check)
	if err != nil || len(ops) != 2 || ops[0].Content.Size() != 3 || ops[0].MimeType != "text/plain" || len(ops[0].If.Match) != 1 || ops[1].To.String() != "b" || !ops[1].Overwrite {
		t.Errorf("%+v, %v", ops, err)
	}
	many := `{"operations":[` + strings.Repeat(`{"op":"delete","path":"a"},`, 500) + `{"op":"delete","path":"a"}]}`
	if _, err := parseDrive([]byte(many), "", check); stoa.CodeOf(err) != stoa.CodeInvalidValue || stoa.AsError(err).Param != "operations" {
		t.Error(err)
	}
}
