package api_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"stoa/internal/agents/drive"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

const refundsText = "---\nname: refunds\ndescription: Pays refunds.\nlicense: MIT\ncompatibility: Needs a bank\nallowed-tools: Bash\nmetadata:\n  author: ann\nkind: 7\n---\nRead references/limits.md.\n"

// archived returns a zip archive of files.
func archived(t *testing.T, files map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(files[name]))
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// importSkills imports an archive of files.
func (a author) importSkills(t *testing.T, files map[string]string) contract.SkillList {
	t.Helper()
	var list contract.SkillList
	a.With("Content-Type", "application/zip").Want(200, "POST", a.agent+"/skills/import", archived(t, files)).JSON(&list)
	return list
}

func (a author) skill(t *testing.T, name string) contract.Skill {
	t.Helper()
	var s contract.Skill
	a.Want(200, "GET", a.agent+"/skills/"+name, nil).JSON(&s)
	return s
}

func (a author) reviewSkill(t *testing.T, name string) contract.Skill {
	t.Helper()
	var s contract.Skill
	a.Want(200, "PUT", a.agent+"/skills/"+name, object{"digest": orNone(a.skill(t, name).Digest)}).JSON(&s)
	return s
}

// shownFiles returns the files of a skill with their changes and texts.
func shownFiles(s contract.Skill) (lines []string) {
	for _, f := range s.Files {
		lines = append(lines, fmt.Sprintf("%s %s %q %q", f.Path, orNone(f.Change), orNone(f.ReviewedText), orNone(f.Text)))
	}
	return lines
}

// TestASkillIsImportedReviewedAndWithheld follows a skill from its import to its removal.
func TestASkillIsImportedReviewedAndWithheld(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	list := a.importSkills(t, map[string]string{"x/refunds/SKILL.md": refundsText, "x/refunds/references/limits.md": "Up to 50.\n", "x/refunds/logo.png": "\x89PNG\xff", "x/other/SKILL.md": "---\nname: other\ndescription: Other.\n---\n"})
	if len(list.Data) != 2 || list.Data[1].Name != "refunds" || list.Data[1].State != "new" || list.Data[1].Used || list.Tokens != 0 || list.MaxTokens != 4_000 {
		t.Fatalf("imported %+v", list)
	}
	s := a.skill(t, "refunds")
	if orNone(s.License) != "MIT" || orNone(s.Compatibility) != "Needs a bank" || orNone(s.AllowedTools) != "Bash" || s.Metadata["author"] != "ann" || orNone(s.Description) != "Pays refunds." || len(s.Warnings) != 1 || len(s.Errors) != 0 {
		t.Errorf("the skill is %+v", s)
	}
	if got := strings.Join(shownFiles(s), "\n"); got != fmt.Sprintf("SKILL.md  \"\" %q\nlogo.png  \"\" \"\"\nreferences/limits.md  \"\" \"Up to 50.\\n\"", refundsText) {
		t.Errorf("its files are\n%s", got)
	}
	tools := func(message string) (called string, sent contract.StepRequest) {
		t.Helper()
		created, path := a.begin(t, message, nil)
		a.until(t, path, "completed")
		var step contract.SessionStep
		a.Want(200, "GET", path+"/steps/"+stoa.StepID(created.ID, 1, 1), nil).JSON(&step)
		sent = orNone(step.Request)
		return string(a.Want(200, "GET", path+"/export", nil).Body), sent
	}
	const read = "call: skill_read {\"name\":\"refunds\",\"path\":\"references/limits.md\"}\nsay: read"
	tokensOf := func(r contract.StepRequest) (n int64) {
		for _, p := range r.Parts {
			if p.Kind == "skills" {
				n += p.Tokens
			}
		}
		return n
	}
	if _, sent := tools("say: before"); tokensOf(sent) != 0 {
		t.Errorf("a skill that was not reviewed is in a request: %+v", sent.Parts)
	}
	if s = a.reviewSkill(t, "refunds"); s.State != "active" || !s.Used {
		t.Errorf("after the review it is %+v", s)
	}
	export, sent := tools(read)
	if !strings.Contains(export, "Up to 50.") || tokensOf(sent) == 0 {
		t.Errorf("the skill was not read: %s", export)
	}
	if a.Want(200, "GET", a.agent+"/skills", nil).JSON(&list); len(list.Data) != 2 || list.Tokens == 0 || list.Data[0].State != "new" {
		t.Errorf("the list is %+v", list)
	}
	var agent contract.Agent
	if a.Want(200, "GET", a.agent, nil).JSON(&agent); len(agent.Skills) != 1 || len(agent.Skills[0].Files) != 3 || agent.Version != 2 {
		t.Errorf("the agent has %+v in version %d", agent.Skills, agent.Version)
	}

	a.Want(200, "PUT", a.agent+"/drive/files", object{"path": "skills/refunds/references/limits.md", "content": "Up to 5,000, to any account.\n"})
	a.file("skills/refunds/more.md", "More.\n")
	a.Want(204, "DELETE", a.agent+"/drive/files?path=skills/refunds/logo.png", nil)
	changed := a.skill(t, "refunds")
	if got := strings.Join(shownFiles(changed), "\n"); changed.State != "changed" || !changed.Used || got != "SKILL.md  \"\" \"\"\nmore.md added \"\" \"More.\\n\"\nreferences/limits.md changed \"Up to 50.\\n\" \"Up to 5,000, to any account.\\n\"\nlogo.png removed \"\" \"\"" {
		t.Errorf("the changed skill is %s\n%s", changed.State, got)
	}
	if export, sent := tools(read); strings.Contains(export, "any account") || tokensOf(sent) != 0 {
		t.Errorf("the changed skill is in a session: %s", export)
	}
	_, path := a.begin(t, "say: hello", nil)
	a.until(t, path, "completed")
	session := func() (s contract.Session) {
		a.Want(200, "GET", path, nil).JSON(&s)
		return s
	}
	if s := session(); !slices.Equal(s.SkillsWithheld, []string{"refunds"}) || len(s.ToolsWithheld) != 0 || strings.Contains(string(a.Want(200, "GET", path+"/events", nil).Body), "tools.withheld") {
		t.Errorf("the session withholds %+v and %+v", s.SkillsWithheld, s.ToolsWithheld)
	}
	if _, n := notices(t, a.Client); len(n.Data) != 1 || n.Data[0].Type != "skill.withheld" || orNone(n.Data[0].Subject) != agent.ID || !strings.HasSuffix(n.Data[0].Message, "review: Helper: refunds") || n.Data[0].ConsolePath != "agents/"+agent.ID+"/skills" {
		t.Errorf("the notices are %+v", n)
	}
	key, _ := h.NewKey(h.Account.ID, "sessions:read")
	if types, _ := notices(t, h.ClientWith(t, key)); types != "" {
		t.Errorf("a key that cannot read agents gets %s", types)
	}
	a.WantError(stoa.CodePrecondition, "PUT", a.agent+"/skills/refunds", object{"digest": orNone(s.Digest)})
	if s = a.reviewSkill(t, "refunds"); s.State != "active" || orNone(s.Digest) != orNone(changed.Digest) {
		t.Errorf("after the second review it is %+v", s)
	}
	if types, _ := notices(t, a.Client); types != "" {
		t.Errorf("after the second review there are notices: %s", types)
	}
	if export, _ := tools(read); !strings.Contains(export, "any account") {
		t.Errorf("the reviewed change is not read: %s", export)
	}
	a.Want(202, "POST", path+"/messages", object{"message": "say: again"})
	a.until(t, path, "completed")
	if s := session(); !slices.Equal(s.SkillsWithheld, []string{"refunds"}) {
		t.Errorf("a session that began without the skill withholds %+v", s.SkillsWithheld)
	}
	a.Want(200, "POST", path+"/upgrade", nil)
	a.Want(202, "POST", path+"/messages", object{"message": "say: again"})
	a.until(t, path, "completed")
	if s := session(); len(s.SkillsWithheld) != 0 {
		t.Errorf("after its upgrade the session withholds %+v", s.SkillsWithheld)
	}
	a.importSkills(t, map[string]string{"refunds/SKILL.md": refundsText}) // replaces the folder
	if s = a.skill(t, "refunds"); len(s.Files) != 3 || s.State != "changed" || orNone(s.Files[1].Change) != "removed" {
		t.Errorf("after the second import it is %v", shownFiles(s))
	}
	a.Want(200, "POST", a.agent+"/rollback", object{"version": 1})
	if s = a.skill(t, "refunds"); s.Used || s.State != "new" {
		t.Errorf("after the rollback it is %+v", s)
	}
	a.reviewSkill(t, "refunds")
	a.Want(204, "DELETE", a.agent+"/drive/files?path=skills/refunds/SKILL.md", nil)
	if s = a.skill(t, "refunds"); s.State != "missing" || orNone(s.Digest) != "" {
		t.Errorf("without its files it is %+v", s)
	}
	a.Want(204, "DELETE", a.agent+"/skills/refunds", nil)
	a.WantError(stoa.CodeNotFound, "DELETE", a.agent+"/skills/refunds", nil)
	a.WantError(stoa.CodeNotFound, "GET", a.agent+"/skills/refunds", nil)
	a.WantError(stoa.CodeNotFound, "GET", a.agent+"/skills/..%2Fother", nil)
	if a.Want(200, "GET", a.agent, nil).JSON(&agent); len(agent.Skills) != 0 {
		t.Errorf("the agent still has %+v", agent.Skills)
	}
}

func TestASkillIsRefused(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	zipFiles := a.With("Content-Type", "application/zip")
	for want, body := range map[string]string{
		"neither zip nor":  "text",
		"not empty":        "",
		"no file SKILL.md": archived(t, map[string]string{"a.md": "a"}),
		"lower case":       archived(t, map[string]string{"A/SKILL.md": "---\nname: A\ndescription: b\n---\n"}),
		"not a path":       archived(t, map[string]string{"a/SKILL.md": "---\nname: a\ndescription: b\n---\n", "../b": "c"}),
	} {
		if e := zipFiles.WantError(stoa.CodeInvalidValue, "POST", a.agent+"/skills/import", body); !strings.Contains(e.Message, want) {
			t.Errorf("want %q, got %q", want, e.Message)
		}
	}
	if e := a.With("Content-Type", "multipart/form-data; boundary=x").WantError(stoa.CodeInvalidValue, "POST", a.agent+"/skills/import", "--x\r\n\r\nPK"); !strings.Contains(e.Message, "not a form") {
		t.Errorf("for a form: %q", e.Message)
	}
	zipFiles.WantError(stoa.CodeInvalidPath, "POST", a.agent+"/skills/import", archived(t, map[string]string{"a/SKILL.md": "---\nname: a\ndescription: b\n---\n", "a/\u202ex.md": "c"}))
	zipFiles.WantError(stoa.CodeTooLarge, "POST", a.agent+"/skills/import", strings.Repeat("x", 8<<20+1))
	zipFiles.With("Content-Encoding", "gzip").WantError(stoa.CodeMediaType, "POST", a.agent+"/skills/import", "x")
	a.file("skills", "a file where the folder would be")
	zipFiles.WantError(stoa.CodePathConflict, "POST", a.agent+"/skills/import", archived(t, map[string]string{"a/SKILL.md": "---\nname: a\ndescription: b\n---\n"}))
	a.Want(204, "DELETE", a.agent+"/drive/files?path=skills", nil)
	a.file("skills/bad/SKILL.md", "no front matter")
	s := a.skill(t, "bad")
	if s.State != "invalid" || len(s.Errors) != 1 {
		t.Errorf("the skill is %+v", s)
	}
	if e := a.WantError(stoa.CodeInvalidValue, "PUT", a.agent+"/skills/bad", object{"digest": orNone(s.Digest)}); !strings.Contains(e.Message, "front matter") {
		t.Errorf("it says %q", e.Message)
	}
	a.WantError(stoa.CodeInvalidValue, "PUT", a.agent+"/skills/bad", object{"digest": "sha256:" + strings.Repeat("X", 64)})
	for i := range 13 { // of 340 tokens each
		name := fmt.Sprintf("long-%d", i)
		a.file("skills/"+name+"/SKILL.md", "---\nname: "+name+"\ndescription: "+strings.Repeat("words ", 170)+"\n---\n")
		s := a.skill(t, name)
		if reply := a.Do("PUT", a.agent+"/skills/"+name, object{"digest": orNone(s.Digest)}); (reply.Status == 200) != (i < 11) || i >= 11 && !strings.Contains(reply.Error().Message, "4,000 tokens") {
			t.Errorf("skill %d: %d %s", i, reply.Status, reply.Body)
		}
	}
	// Who may only write files cannot make the agent obey them.
	key, _ := h.NewKey(h.Account.ID, "drive:read", "drive:write", "agents:read")
	files := h.ClientWith(t, key)
	files.With("Content-Type", "application/zip").Want(200, "POST", a.agent+"/skills/import", archived(t, map[string]string{"a/SKILL.md": "---\nname: a\ndescription: b\n---\n"}))
	files.WantError(stoa.CodeScope, "PUT", a.agent+"/skills/a", object{"digest": orNone(a.skill(t, "a").Digest)})
}

// TestAnImportIsWholeOrNothing imports two skills of which the drive cannot store the second, and one over a folder with more files than a
// skill can have.
func TestAnImportIsWholeOrNothing(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	zipFiles := a.With("Content-Type", "application/zip")
	const front = "---\nname: %s\ndescription: b\n---\n"
	zipFiles.WantError(stoa.CodePathConflict, "POST", a.agent+"/skills/import", archived(t, map[string]string{"a/SKILL.md": fmt.Sprintf(front, "a"), "b/SKILL.md": fmt.Sprintf(front, "b"), "b/c": "a file", "b/c/d": "below it"}))
	var list contract.SkillList
	if a.Want(200, "GET", a.agent+"/skills", nil).JSON(&list); len(list.Data) != 0 {
		t.Errorf("an import that failed has stored %+v", list.Data)
	}
	for part := range 3 {
		var ops []object
		for i := range 400 {
			ops = append(ops, object{"op": "put", "path": fmt.Sprintf("skills/a/%d/%d.md", part, i), "content": "old"})
		}
		a.Want(200, "POST", a.agent+"/drive/batch", object{"operations": ops})
	}
	if list = a.importSkills(t, map[string]string{"a/SKILL.md": fmt.Sprintf(front, "a")}); orNone(list.Data[0].Digest) != orNone(a.skill(t, "a").Digest) {
		t.Errorf("the import has not replaced the folder: %d files", len(a.skill(t, "a").Files))
	}
}

func TestAnImportNeedsSpace(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Drive: drive.Limits{MaxBytes: 100}})
	a := newAuthor(t, h, h.Client(t), nil)
	a.With("Content-Type", "application/zip").WantError(stoa.CodeStorageFull, "POST", a.agent+"/skills/import", archived(t, map[string]string{"SKILL.md": "---\nname: a\ndescription: " + strings.Repeat("b", 100) + "\n---\n"}))
}
