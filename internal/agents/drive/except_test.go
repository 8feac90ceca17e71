package drive_test

import (
	"strings"
	"testing"

	"stoa/internal/agents/drive"
	"stoa/internal/base/stoa"
)

// TestAFolderCanBeLeftOut lists, searches and reads a drive without one folder.
func TestAFolderCanBeLeftOut(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		ctx := t.Context()
		for _, p := range []string{"skills/a/SKILL.md", "skills/b.md", "skills.md", "notes/skills/a.md"} {
			if _, err := d.PutText(ctx, who, drive.Claim{}, path(t, p), "A common word in "+p+".\n", ""); err != nil {
				t.Fatal(err)
			}
		}
		const left = "notes/skills/a.md skills.md"
		page, err := d.List(ctx, who, drive.Listing{Except: "skills/"})
		if got := pathsOf(page.Files); err != nil || got != left {
			t.Errorf("listed %s, %v", got, err)
		}
		if page, err = d.List(ctx, who, drive.Listing{Prefix: "skills", Except: "skills/"}); err != nil || pathsOf(page.Files) != "skills.md" {
			t.Errorf("listed %s, %v", pathsOf(page.Files), err)
		}
		for _, query := range []string{"common word", "common skills -none"} {
			for prefix, want := range map[string]int{"": 2, "skills": 1, "skills/": 0} {
				found, err := d.SearchExcept(ctx, who, query, prefix, "skills/", 10)
				if err != nil || len(found.Hits) != want {
					t.Errorf("%q below %q: %d hits, %v", query, prefix, len(found.Hits), err)
				}
				for _, h := range found.Hits {
					if strings.HasPrefix(h.Path, "skills/") {
						t.Errorf("found %s", h.Path)
					}
				}
			}
		}
		k, err := d.Knowledge(ctx, who, 1_000, "skills/")
		if err != nil || !k.Whole || k.Stats.Files != 2 || strings.Contains(k.Text, "in skills/") || !strings.Contains(k.Text, "in skills.md") {
			t.Errorf("known: %+v, %v", k, err)
		}
		if all, err := d.Knowledge(ctx, who, 1_000, ""); err != nil || all.Stats.Files != 4 || !strings.Contains(all.Text, "in skills/b.md") {
			t.Errorf("known without a limit: %+v, %v", all, err)
		}
	})
}

// TestStoredContentOutlivesItsFile reads content by its hash after the file was replaced, but not that of another drive.
func TestStoredContentOutlivesItsFile(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		ctx, text := t.Context(), strings.Repeat("A long text. ", 30_000) // of several pieces
		c, err := d.PutText(ctx, who, drive.Claim{}, path(t, "a.md"), text, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.PutText(ctx, who, drive.Claim{}, path(t, "a.md"), "Replaced.", ""); err != nil {
			t.Fatal(err)
		}
		hash := c.File.SHA256
		if got, ok, err := d.Stored(ctx, who, hash, 1<<20); err != nil || !ok || string(got) != text {
			t.Errorf("%d bytes, %v, %v", len(got), ok, err)
		}
		if _, _, err := d.Stored(ctx, who, hash, 1_000); stoa.CodeOf(err) != stoa.CodeTooLarge {
			t.Errorf("above the limit: %v", err)
		}
		other := drive.Owner{AccountID: who.AccountID, AgentID: "agt_other"}
		for _, of := range []drive.Owner{other, {AccountID: "acc_other", AgentID: who.AgentID}} {
			if _, ok, err := d.Stored(ctx, of, hash, 1<<20); err != nil || ok {
				t.Errorf("another drive has it: %v, %v", ok, err)
			}
		}
	})
}

func pathsOf(files []drive.File) string {
	var list []string
	for _, f := range files {
		list = append(list, f.Path)
	}
	return strings.Join(list, " ")
}
