package archtest

import (
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestLogKeysAreDocumented compares the keys of all log calls with the table of
// docs/monitoring.md, in both directions, because people who search logs look them up there.
func TestLogKeysAreDocumented(t *testing.T) {
	t.Parallel()
	used := map[string]string{} // key → one place that logs it
	for _, s := range sources(t) {
		if s.test || s.dir != "internal" || slices.Contains(testPackages, s.pkg) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			for _, key := range logKeys(n) {
				used[key] = s.at(n)
			}
			return true
		})
	}
	_, section, _ := strings.Cut(read(t, "docs/monitoring.md"), "\n### Log keys\n")
	section, _, _ = strings.Cut(section, "\nChanged on ")
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|").FindAllStringSubmatch(section, -1) {
		for key := range strings.SplitSeq(m[1], ", ") {
			documented[strings.Trim(key, "`")] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(used)) {
		if !documented[key] {
			t.Errorf("%s logs %q, which the table \"Log keys\" of docs/monitoring.md does not have", used[key], key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(documented)) {
		if used[key] == "" {
			t.Errorf("docs/monitoring.md has the log key %q, which nothing logs", key)
		}
	}
}

// logMethods are the methods of a slog.Logger that accept keys and values, with the number of
// arguments before the first key.
var logMethods = map[string]int{
	"Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "Log": 3, "LogAttrs": 3, "With": 0,
	"DebugContext": 2, "InfoContext": 2, "WarnContext": 2, "ErrorContext": 2,
}

// attributes are the functions of slog whose first argument is a key.
var attributes = []string{"Any", "String", "Int", "Int64", "Uint64", "Bool", "Float64", "Duration", "Time", "Group"}

// logKeys returns the literal keys of a call on a logger, of slog's functions for
// attributes, and of a list of keys and values that is called attrs.
func logKeys(n ast.Node) (keys []string) {
	if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == 1 {
		name, isIdent := a.Lhs[0].(*ast.Ident)
		if list, ok := a.Rhs[0].(*ast.CompositeLit); ok && isIdent && name.Name == "attrs" {
			for i := 0; i < len(list.Elts); i += 2 {
				keys = append(keys, literal(list.Elts[i])...)
			}
		}
		return keys
	}
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return nil
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	if x, ok := sel.X.(*ast.Ident); ok && x.Name == "slog" && slices.Contains(attributes, sel.Sel.Name) && len(call.Args) > 0 {
		return literal(call.Args[0])
	}
	before, ok := logMethods[sel.Sel.Name]
	if !ok || !isLogger(sel.X) {
		return nil
	}
	for i := before; i < len(call.Args); i++ {
		if key := literal(call.Args[i]); key != nil {
			keys, i = append(keys, key...), i+1 // the next one is its value
		}
	}
	return keys
}

// isLogger reports whether an expression is a logger by its name: log,
// s.log, cfg.Logger, logger().
func isLogger(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return strings.HasSuffix(strings.ToLower(e.Name), "log") || strings.HasSuffix(strings.ToLower(e.Name), "logger")
	case *ast.SelectorExpr:
		return isLogger(e.Sel)
	case *ast.CallExpr:
		return isLogger(e.Fun)
	}
	return false
}

func literal(e ast.Expr) []string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return nil
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return nil
	}
	return []string{text}
}

// TestGuidesSetTheVariablesThatTheyUse: a guide that relies on the shell of another one prints curl errors to whoever
// begins there.
func TestGuidesSetTheVariablesThatTheyUse(t *testing.T) {
	t.Parallel()
	use := regexp.MustCompile(`(?m)^.*\$\{?(STOA_BASE_URL|STOA_API_KEY|AGENT_ID)\b`)
	other := regexp.MustCompile(`(?:\$\{?|env\.|os\.environ\["|os\.Getenv\("|export )STOA\b`)
	names, err := fs.Glob(root, "docs/*.md")
	if err != nil || len(names) < 10 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if name == "docs/cli.md" { // the help of commands
			continue
		}
		text := read(t, name)
		if m := other.FindString(text); m != "" {
			t.Errorf("%s has %q: the address is STOA_BASE_URL everywhere", name, m)
		}
		for _, m := range use.FindAllStringSubmatchIndex(text, -1) {
			variable := text[m[2]:m[3]]
			if !regexp.MustCompile(`(?m)^\s*(export )?` + variable + `=`).MatchString(text[:m[0]]) {
				t.Errorf("%s uses %s before it sets it: begin with the two exports of docs/quickstart.md", name, variable)
				break
			}
		}
	}
}
