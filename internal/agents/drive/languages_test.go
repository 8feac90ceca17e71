package drive_test

import (
	"bufio"
	"compress/gzip"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"stoa/internal/agents/drive"
)

// A labelled set contains texts of one language and questions that people would ask. No rule
// or weight of the search is fitted to it.
type labelled struct {
	name      string
	files     [][2]string // path and text
	questions []question
}

// A question and the passages that answer it.
type question struct {
	text    string
	answers func(drive.Hit) bool
}

// smallSets reads testdata/languages. A line is a file, "name: text", or a question with the
// name of the file that answers it, "? question = name".
func smallSets(t *testing.T) (sets []labelled) {
	files, err := filepath.Glob("testdata/languages/*.txt")
	if err != nil || len(files) != 12 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		set := labelled{name: strings.TrimSuffix(filepath.Base(file), ".txt")}
		for _, line := range linesOf(t, file) {
			if text, ok := strings.CutPrefix(line, "? "); ok {
				text, name, _ := strings.Cut(text, " = ")
				set.questions = append(set.questions, question{text, func(h drive.Hit) bool { return h.Path == name+".md" }})
				continue
			}
			name, text, _ := strings.Cut(line, ": ")
			set.files = append(set.files, [2]string{name + ".md", text})
		}
		sets = append(sets, set)
	}
	return sets
}

// largeSets reads testdata/languages/large: about 300 passages and 40 questions in each
// language. A compressed text contains files that begin with "=== path". A question names
// the lines that answer it, "question = file:line, file:line".
func largeSets(t *testing.T) (sets []labelled) {
	files, err := filepath.Glob("testdata/languages/large/*.txt")
	if err != nil || len(files) != 12 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		set := labelled{name: strings.TrimSuffix(filepath.Base(file), ".txt")}
		text := map[string][]string{}
		path := ""
		for _, line := range linesOf(t, file+".gz") {
			if name, ok := strings.CutPrefix(line, "=== "); ok {
				path = name
			} else {
				text[path] = append(text[path], line)
			}
		}
		for path, lines := range text {
			set.files = append(set.files, [2]string{path, strings.Join(lines, "\n") + "\n"})
		}
		slices.SortFunc(set.files, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
		for _, line := range linesOf(t, file) {
			line, places, _ := strings.Cut(line, " = ")
			answers := map[string][]int64{}
			for place := range strings.SplitSeq(places, ", ") {
				name, number, _ := strings.Cut(place, ":")
				n, err := strconv.Atoi(number)
				if lines := text[name+".md"]; err != nil || n < 1 || n > len(lines) || lines[n-1] == "" {
					t.Fatalf("%s: %q has no answer at %q", set.name, line, place)
				}
				answers[name+".md"] = append(answers[name+".md"], int64(n))
			}
			set.questions = append(set.questions, question{line, func(h drive.Hit) bool {
				return slices.ContainsFunc(answers[h.Path], func(n int64) bool { return h.FirstLine <= n && n <= h.LastLine })
			}})
		}
		sets = append(sets, set)
	}
	return sets
}

func linesOf(t *testing.T, file string) (lines []string) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	if strings.HasSuffix(file, ".gz") {
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		in = bufio.NewScanner(z)
	}
	for in.Scan() {
		lines = append(lines, in.Text())
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

// A quality is the share of questions with an answer among the first five hits, and the mean
// reciprocal rank of the first answer among ten.
type quality struct{ recall, rank float64 }

// measure searches the answers of questions.
func measure(t *testing.T, d *drive.Drives, set labelled, questions []question, show bool) (q quality) {
	for _, ask := range questions {
		hits, err := searchDrive(d, t.Context(), ownerOf(set), ask.text, "", 10)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(hits, ask.answers)
		if at >= 0 {
			q.rank += 1 / float64(at+1)
		}
		if 0 <= at && at < 5 {
			q.recall++
		}
		if at != 0 && show {
			t.Logf("%q has its answer at %d", ask.text, at+1)
		}
	}
	n := float64(len(questions))
	return quality{q.recall / n, q.rank / n}
}

func ownerOf(set labelled) drive.Owner {
	return drive.Owner{AccountID: "acc_" + set.name, AgentID: "agt_1"}
}

func (s labelled) write(t *testing.T, d *drive.Drives) {
	var ops []drive.Op
	for _, f := range s.files {
		ops = append(ops, drive.Op{Verb: drive.VerbPut, Path: path(t, f[0]), Content: drive.BytesContent([]byte(f[1]))})
	}
	if _, err := d.Apply(t.Context(), ownerOf(s), drive.Claim{}, ops); err != nil {
		t.Fatal(err)
	}
}

func TestLanguages(t *testing.T) {
	t.Parallel()
	sets := smallSets(t)
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		for _, set := range sets {
			set.write(t, d)
			q := measure(t, d, set, set.questions, true)
			t.Logf("%s: %d questions, recall@5 %.2f, MRR %.3f", set.name, len(set.questions), q.recall, q.rank)
			if len(set.questions) < 10 || q.recall < 0.85 || q.rank < 0.70 {
				t.Errorf("%s: below 10 questions, recall@5 0.85 or MRR 0.70", set.name)
			}
		}
	})
}

// Rules may be changed because of failures of the odd questions, which the test prints; the
// even ones show whether the rules hold for others.
func TestLanguagesOfManyPassages(t *testing.T) {
	t.Parallel()
	sets := largeSets(t)
	var mu sync.Mutex
	ranks := map[string][]float64{} // by language, of each database
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		for _, set := range sets {
			set.write(t, d)
		}
		t.Run("search", func(t *testing.T) {
			for _, set := range sets {
				t.Run(set.name, func(t *testing.T) {
					t.Parallel()
					var odd, even []question
					for i, q := range set.questions {
						if i%2 == 0 {
							odd = append(odd, q)
						} else {
							even = append(even, q)
						}
					}
					a, b := measure(t, d, set, odd, true), measure(t, d, set, even, false)
					all := quality{(a.recall + b.recall) / 2, (a.rank + b.rank) / 2}
					t.Logf("recall@5 %.2f, MRR %.3f; odd questions %.2f, %.3f, even ones %.2f, %.3f",
						all.recall, all.rank, a.recall, a.rank, b.recall, b.rank)
					if len(odd) != 20 || len(even) != 20 || all.recall < 0.85 || all.rank < 0.70 {
						t.Error("not 40 questions, or recall@5 is below 0.85 or MRR below 0.70")
					}
					mu.Lock()
					defer mu.Unlock()
					ranks[set.name] = append(ranks[set.name], all.rank)
				})
			}
		})
	})
	for name, of := range ranks {
		if len(of) == 2 && math.Abs(of[0]-of[1]) > 0.03 {
			t.Errorf("%s: MRR %.3f on one database, %.3f on the other", name, of[0], of[1])
		}
	}
}
