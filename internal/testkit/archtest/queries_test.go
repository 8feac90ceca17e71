package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// manyRows are the functions of the packages with SQL that return all rows of a query. page
// and listPage, which add a LIMIT, are not among them.
var manyRows = []string{"Query", "list", "texts", "runs", "messages"}

// unlimited are the functions whose queries have no LIMIT, with the reason why their results
// are bounded.
var unlimited = map[string]string{
	"drive.allFiles": "limits.driveFiles",
	"drive.Versions": "drive.Limits.MaxVersions, which retire enforces",
	"drive.fileAt":   "one row: drive and path are unique",
	"drive.spread":   "limits.driveFiles: the files of one drive with the same content",

	"backup.schema":                    "the tables and columns of a backup whose schema is being compared",
	"store.KeysOfMember":               "limits.keysPerAccount",
	"store.LockBudgetWindows":          "the windows of the calls of one batch",
	"store.BudgetWindowStates":         "as LockBudgetWindows",
	"store.sumDifferences":             "the check of the books, which keeps sums of some thousand charges, or of one account",
	"store.windowDifferences":          "as sumDifferences",
	"store.statementDifferences":       "as sumDifferences",
	"store.hourDifferences":            "as sumDifferences, and the sums of all accounts",
	"store.checkStatements":            "the months of an account",
	"store.grantsByMonth":              "the days of an account",
	"store.hoursSince":                 "the check of the books since the last one, which keeps sums for each account",
	"store.Refusals":                   "maxRefusals, enforced where a row is added",
	"store.ActiveSessions":             "limits.queuedSessions and the plan's sessions at once",
	"store.Deltas":                     "the length of one message, which is read to be put together",
	"store.SessionsOf":                 "the sessions that one worker runs at once",
	"store.CancelledOf":                "the sessions that one worker runs at once",
	"store.calls":                      "the calls of one reply of a model, or one call",
	"store.messages":                   "the messages of a turn being written, and limits.queuedMessages",
	"store.StepsOf":                    "limits.turnSteps and the tool calls of one reply",
	"store.AccountsWaitingForCapacity": "a row for each account that has runs which wait",
	"store.HideTasksOf":                "limits.schedulesPerAgent",
	"store.ActiveRuns":                 "what the scheduler begins for one task before others have ended",
	"store.SettleRuns":                 "as ActiveRuns: a run is counted once",
}

// TestQueriesAreLimited checks that a query that may return many rows has a LIMIT, so that no
// list is read whole into memory, or that a line above names its bound.
func TestQueriesAreLimited(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, s := range sources(t) {
		if s.dir != "internal" || !slices.Contains([]string{"store", "drive", "cluster", "backup"}, s.pkg) || strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		for _, d := range s.file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			name := s.pkg + "." + fn.Name.Name
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !slices.Contains(manyRows, called(call)) {
					return true
				}
				text := literals(call)
				if !strings.Contains(text, "SELECT ") || strings.Contains(text, "LIMIT ") {
					return true
				}
				if used[name] = true; unlimited[name] == "" {
					t.Errorf("%s: the query of %s has no LIMIT: %.80q", s.path, name, strings.Join(strings.Fields(text), " "))
				}
				return true
			})
		}
	}
	for name := range unlimited {
		if !used[name] {
			t.Errorf("%s has no query without a LIMIT any more", name)
		}
	}
}

// called returns the name of the called function or method.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// literals returns the string literals among the arguments of a call, except those inside
// function literals.
func literals(call *ast.CallExpr) string {
	var text strings.Builder
	for _, arg := range call.Args {
		ast.Inspect(arg, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				return false
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					s, _ := strconv.Unquote(n.Value)
					text.WriteString(s)
				}
			}
			return true
		})
	}
	return text.String()
}
