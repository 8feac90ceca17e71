// Command habits lists phrases that make prose hard to read, with the share of the
// comment blocks and paragraphs that have them.
//
//	go run ./habits [-list] [-shown] FILE-OR-DIRECTORY…
//
// It reads comments of Go and TypeScript files and paragraphs of Markdown files; with -shown, instead of comments, the
// texts that people see: sentences in the strings of Go files and in the pages, and the descriptions of the contract.
// Generated files, test data and installed modules are left out. Nothing fails because
// of its output: see docs/contributing/style.md.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// habits are the phrases, by the name that the output shows.
var habits = []struct {
	name    string
	pattern *regexp.Regexp
}{
	{`definition by a clause ("X is how many …")`, regexp.MustCompile(`(?m)(^|\. |: |; )(An? |The )?[\w.\[\]]+ (is|are) (what|who|whose|how|why|when|where)\b`)},
	{`"is no X", "has none"`, regexp.MustCompile(`\b(is|are|was) no\b|\b(is|are|has|have|was|there is) none\b`)},
	{`old words (whoever, anew, beside, in place of …)`, regexp.MustCompile(`(?i)\b(whoever|whomever|nobody|somebody|anew|told|beside|in place of|but for|for itself|of its own|of their own)\b`)},
	{`placeholders (so many, that much …)`, regexp.MustCompile(`(?i)\b(so|that) (many|much|far|long)\b`)},
	{`personification (knows, tells, wants …)`, regexp.MustCompile(`\b(knows|tells|wants|sees|hears|looks|learns|thinks|hopes|believes)\b`)},
	{`results by a clause ("what comes of")`, regexp.MustCompile(`\b[Ww]hat (comes|came|becomes|became|is known|was|there is)\b`)},
	{`"may" for "can"`, regexp.MustCompile(`\bmay (only|not|at most|have (at most|up to|%d)|choose|use|list|open|make %d|be (sent|repeated|used))\b`)},
	{`words that other products do not use (under way, at once, lately …)`, regexp.MustCompile(`(?i)\b(under way|lately|at once|carry out|carried out|holds (no|an?)|takes the place|is not right|did not work)\b`)},
}

// usual are phrases of messages in every product, which -shown leaves out.
var usual = regexp.MustCompile(`(?i)\bthere (is|are|was|were) (no|none)\b|\bno longer\b`)

// shown reports whether the texts that people see are read instead of comments.
var shown = flag.Bool("shown", false, "read the texts that people see instead of comments")

// A block is one comment or one paragraph.
type block struct{ at, text string }

func main() {
	log.SetFlags(0)
	list := flag.Bool("list", false, "list each place")
	flag.Parse()
	var blocks []block
	lines, comments := 0, 0
	for _, root := range flag.Args() {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				switch d.Name() {
				case "node_modules", "testdata", ".git", "static":
					return filepath.SkipDir
				}
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			found := read(path, string(text))
			blocks = append(blocks, found...)
			if strings.HasSuffix(path, ".go") && len(found) > 0 {
				lines += strings.Count(string(text), "\n")
				for _, b := range found {
					comments += strings.Count(b.text, "\n") + 1
				}
			}
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	for _, h := range habits {
		n := 0
		for _, b := range blocks {
			if m := h.pattern.FindString(b.text); m != "" {
				if n++; *list {
					fmt.Printf("%s: %s\n", b.at, strings.Join(strings.Fields(b.text), " "))
				}
			}
		}
		fmt.Printf("%5.2f %%  %4d  %s\n", 100*float64(n)/float64(max(1, len(blocks))), n, h.name)
	}
	fmt.Printf("%d blocks", len(blocks))
	if comments > 0 {
		fmt.Printf("; %.1f %% of the lines of Go files are comments", 100*float64(comments)/float64(lines))
	}
	fmt.Println()
}

// read returns the blocks of a file.
func read(path, text string) []block {
	switch {
	case strings.Contains(text[:min(len(text), 200)], "DO NOT EDIT"):
		return nil
	case *shown && strings.HasSuffix(path, "_test.go"):
		return nil
	case *shown && strings.HasSuffix(path, ".md"):
		return nil
	case *shown && regexp.MustCompile(`\.(go|tsx?|yaml|html)$`).MatchString(path):
		return sentences(path, text)
	case strings.HasSuffix(path, ".go"):
		return goComments(path, text)
	case strings.HasSuffix(path, ".ts"), strings.HasSuffix(path, ".tsx"):
		return lineComments(path, text)
	case strings.HasSuffix(path, ".md"):
		return paragraphs(path, text)
	}
	return nil
}

// sentence matches a text of several words between quotation marks, between tags, or after a key of YAML.
var sentence = regexp.MustCompile(`"((?:[^"\\]|\\.)*[a-z,] (?:[^"\\]|\\.)*)"|>([^<>{}]*[a-z,] [^<>{}]*)[<{]|(?:description|summary): ([^"{\s].*)`)

// sentences returns the texts of a file that people see.
func sentences(path, text string) (blocks []block) {
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		if strings.HasPrefix(strings.TrimSpace(line), "//") {
			continue
		}
		for _, m := range sentence.FindAllStringSubmatch(line, -1) {
			blocks = append(blocks, block{fmt.Sprintf("%s:%d", path, n), usual.ReplaceAllString(strings.Join(m[1:], ""), "…")})
		}
	}
	return blocks
}

func goComments(path, text string) (blocks []block) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.ParseComments)
	if err != nil {
		log.Fatal(err)
	}
	for _, group := range file.Comments {
		if plain := (&ast.CommentGroup{List: group.List}).Text(); plain != "" {
			blocks = append(blocks, block{fset.Position(group.Pos()).String(), strings.TrimSpace(plain)})
		}
	}
	return blocks
}

func lineComments(path, text string) (blocks []block) {
	var lines []string
	from, n := 0, 0
	flush := func() {
		if len(lines) > 0 {
			blocks = append(blocks, block{fmt.Sprintf("%s:%d", path, from), strings.Join(lines, "\n")})
		}
		lines = nil
	}
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		n++
		comment, ok := strings.CutPrefix(strings.TrimSpace(s.Text()), "//")
		if !ok {
			flush()
			continue
		}
		if len(lines) == 0 {
			from = n
		}
		lines = append(lines, strings.TrimSpace(comment))
	}
	flush()
	return blocks
}

func paragraphs(path, text string) (blocks []block) {
	line := 1
	for part := range strings.SplitSeq(text, "\n\n") {
		if trimmed := strings.TrimSpace(part); trimmed != "" && !strings.HasPrefix(trimmed, "```") {
			blocks = append(blocks, block{fmt.Sprintf("%s:%d", path, line), trimmed})
		}
		line += strings.Count(part, "\n") + 2
	}
	return blocks
}
