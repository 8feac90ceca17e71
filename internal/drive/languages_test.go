package drive_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stoa/internal/drive"
)

// The texts and questions of testdata/languages were written for this test; no rule or weight
// of the search is fitted to them. A line is a file, "name: text", or a question with the
// name of the file that answers it, "? question = name".
func TestLanguages(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/languages/*.txt")
	if err != nil || len(files) != 12 {
		t.Fatal(files, err)
	}
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		for _, file := range files {
			language := strings.TrimSuffix(filepath.Base(file), ".txt")
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			owner := drive.Owner{AccountID: "acc_1", AgentID: "agt_" + language}
			var questions [][2]string
			for line := range strings.Lines(string(text)) {
				line = strings.TrimSuffix(line, "\n")
				if question, ok := strings.CutPrefix(line, "? "); ok {
					question, name, _ := strings.Cut(question, " = ")
					questions = append(questions, [2]string{question, name})
					continue
				}
				name, text, _ := strings.Cut(line, ": ")
				if _, err := d.PutText(t.Context(), owner, drive.Claim{}, path(t, name+".md"), text, ""); err != nil {
					t.Fatal(err)
				}
			}
			recall, rank := 0.0, 0.0
			for _, q := range questions {
				hits, err := searchDrive(d, t.Context(), owner, q[0], "", 10)
				if err != nil {
					t.Fatal(err)
				}
				at := -1
				for i, h := range hits {
					if h.Path == q[1]+".md" {
						at = i
						rank += 1 / float64(i+1)
						break
					}
				}
				if at >= 0 && at < 5 {
					recall++
				}
				if at != 0 {
					t.Logf("%s: %q has its answer at %d", language, q[0], at+1)
				}
			}
			n := float64(len(questions))
			recall, rank = recall/n, rank/n
			t.Logf("%s: %d questions, recall@5 %.2f, MRR %.3f", language, len(questions), recall, rank)
			if len(questions) < 10 || recall < 0.85 || rank < 0.70 {
				t.Errorf("%s: below 10 questions, recall@5 0.85 or MRR 0.70", language)
			}
		}
	})
}
