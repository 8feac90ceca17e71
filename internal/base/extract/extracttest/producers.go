package extracttest

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Producers is the directory of the documents that programs have written, with what they contain; see make.sh there.
// Its argument is the path of the repository's root.
func Producers(root string) string {
	return filepath.Join(root, "internal/base/extract/testdata/producers")
}

// A Made is a document that a program has written.
type Made struct {
	Name      string
	Content   []byte // nil: the program is not installed
	Sentences []Sentence
	Table     [][]string // with the covered cells, as the table shows it; nil without one
	Form      string     // of the table in the text: "padded", "carried" or "csv"
}

// A Sentence is a sentence of a document. It occurs in no other document.
type Sentence struct{ Text, Language, Place string }

// ReadMade returns the documents in a directory; sources is that of make.sh.
func ReadMade(sources, dir string) (list []Made, err error) {
	texts := map[string][]string{}
	rows, err := tsv(filepath.Join(sources, "texts.tsv"))
	for _, row := range rows {
		texts[row[0]] = append(texts[row[0]], row[1])
	}
	table, fault := tsv(filepath.Join(sources, "table.tsv"))
	expected, missing := tsv(filepath.Join(dir, "expected.tsv"))
	if err := cmp.Or(err, fault, missing); err != nil {
		return nil, err
	}
	table = table[1:] // the kinds of the columns
	for r, row := range table {
		for c, text := range row {
			switch text {
			case "=":
				row[c] = row[c-1]
			case `"`:
				row[c] = table[r-1][c]
			}
		}
	}
	for _, row := range expected {
		name, number, place, what := row[0], row[1], row[2], row[3:]
		i := slices.IndexFunc(list, func(m Made) bool { return m.Name == name })
		if i < 0 {
			content, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil && !os.IsNotExist(err) {
				return nil, err
			}
			i, list = len(list), append(list, Made{Name: name, Content: content})
		}
		for _, lang := range what {
			if texts[lang] == nil {
				list[i].Table, list[i].Form = table, lang
			}
			for _, text := range texts[lang] {
				list[i].Sentences = append(list[i].Sentences, Sentence{strings.ReplaceAll(text, "{n}", number), lang, place})
			}
		}
	}
	return list, nil
}

func tsv(name string) (rows [][]string, err error) {
	content, err := os.ReadFile(name)
	for line := range strings.Lines(string(content)) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return rows, err
}

// CellsUnderHeads returns the number of cells of the table that a text has under their heads, and a line for each
// other cell. Where a cell covers others, a form shows its value in each ("carried") or leaves them empty.
func (m Made) CellsUnderHeads(text string) (found int, wrong []string) {
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return strings.HasPrefix(line, "|-") }) // Markdown
	cells := func(line string) []string {
		if m.Form == "csv" {
			row, _ := csv.NewReader(strings.NewReader(line)).Read()
			return row
		}
		if line, ok := strings.CutPrefix(line, "| "); ok {
			return strings.Split(strings.TrimSuffix(line, " |"), " | ")
		}
		return strings.Split(line, " | ")
	}
	at := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, m.Table[0][0]) })
	if at < 0 || len(lines) < at+len(m.Table) {
		return 0, []string{"no table"}
	}
	// The shown cell, or an empty one that a cell to the left or above covers.
	shown := func(r, c int) bool {
		row := cells(lines[at+r])
		got := ""
		if c < len(row) {
			got = strings.TrimSpace(row[c])
		}
		covered := c > 0 && m.Table[r][c] == m.Table[r][c-1] || r > 0 && m.Table[r][c] == m.Table[r-1][c]
		return got == m.Table[r][c] || got == "" && covered && m.Form != "carried"
	}
	for r := range m.Table[2:] {
		r += 2
		for c, want := range m.Table[r] {
			if shown(0, c) && shown(1, c) && shown(r, c) {
				found++
			} else {
				wrong = append(wrong, fmt.Sprintf("%s: %q under %q %q in %q", m.Name, want, m.Table[0][c], m.Table[1][c], lines[at+r]))
			}
		}
	}
	return found, wrong
}
