package store_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// change finds statements that would rewrite the books. To add a column changes no row.
var change = regexp.MustCompile(`(?is)\b(update|delete\s+from|truncate(\s+table)?|replace\s+into|drop\s+table(\s+if\s+exists)?)\s+"?(charges|grants)\b|\balter\s+table\s+"?(charges|grants)\b"?\s+(a[^d]|[^a\s])|into\s+"?(charges|grants)\b.*\bdo\s+update\b`)

// purge is the only file that may remove charges, by its only such statement: it keeps
// their sum, and a minimum age limits the removed rows.
const purge = "store/purge.go"

// erased has the only statements that change texts of the books: they name no column with an amount.
const erased = "store/erased.go"

var erasing = []string{`UPDATE charges SET end_user = $3 WHERE id IN (`, `UPDATE grants SET reason = '' WHERE account_id = $1`}

// TestChargesAndGrantsAreOnlyAddedTo reads all SQL: every string in the Go sources
// and every migration. Books that can be rewritten prove nothing.
func TestChargesAndGrantsAreOnlyAddedTo(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"UPDATE charges SET x = 1": true, "delete from\n grants where 1=1": true, "DROP TABLE charges": true,
		"ALTER TABLE charges DROP COLUMN x": true, "ALTER TABLE charges ALTER x TYPE text": true, "alter table \"grants\" rename to x": true, "ALTER TABLE charges ADD COLUMN x BIGINT": false,
		"INSERT INTO charges VALUES (1) ON CONFLICT (id) DO UPDATE SET x = 1": true,
		"INSERT INTO charges VALUES (1) ON CONFLICT (id) DO NOTHING":          false, "UPDATE leases SET a = (SELECT 1 FROM charges)": false,
	} {
		if change.MatchString(text) != want {
			t.Fatalf("the pattern is wrong about %q", text)
		}
	}
	root := os.DirFS("..")
	inserts, purges, erasures := 0, 0, 0
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		switch {
		case strings.HasSuffix(path, "_test.go"):
		case filepath.Ext(path) == ".go":
			src, err := fs.ReadFile(root, path)
			if err != nil {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, src, parser.SkipObjectResolution)
			if err != nil {
				return nil // the compiler's business
			}
			ast.Inspect(file, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				text, _ := strconv.Unquote(lit.Value)
				if path == purge && strings.HasPrefix(text, "DELETE FROM charges WHERE id IN (SELECT id FROM charges WHERE account_id = $1 AND created_at < $2 ") {
					purges++
					return true
				}
				if path == erased && slices.ContainsFunc(erasing, func(s string) bool { return strings.HasPrefix(text, s) }) {
					erasures++
					return true
				}
				if change.MatchString(text) {
					t.Errorf("%s: %.80q rewrites the books; add a correcting row instead", path, text)
				}
				if strings.Contains(text, "INSERT INTO charges") {
					inserts++
				}
				return true
			})
		case filepath.Ext(path) == ".sql":
			src, err := fs.ReadFile(root, path)
			if err != nil {
				return err
			}
			up, _, _ := strings.Cut(string(src), "-- +goose Down")
			if m := change.FindString(up); m != "" {
				t.Errorf("%s: %q rewrites the books", path, m)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if inserts == 0 || purges != 1 || erasures != len(erasing) {
		t.Error("no INSERT INTO charges, or not the one purge and the two erasures, was found: this test no longer reads the right files")
	}
}
