package web_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
)

// TestAmountsAreThoseOfTheCommandLine formats the amounts of the command line's test with the
// code of the console.
func TestAmountsAreThoseOfTheCommandLine(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	amounts, err := os.ReadFile("../cli/testdata/amounts.json")
	if err != nil {
		t.Fatal(err)
	}
	built := api.Build(api.BuildOptions{EntryPoints: []string{"ui/src/lib/format.ts"}, Bundle: true, GlobalName: "format"})
	if len(built.Errors) > 0 {
		t.Fatal(built.Errors)
	}
	_, srv := serve(t)
	p := open(t, browser, srv.URL, "/", sizes()[0])
	const different = `(() => { %s; return %s.flatMap((a) => [[a.text, format.credits], [a.column, format.columnCredits], [a.receipt, format.exactCredits], [a.ledger, format.exactColumn]]
		.filter(([want, of]) => of(a.micro) !== want).map(([want, of]) => a.micro + " is " + of(a.micro) + ", want " + want)).join("\n"); })()`
	if found := eval[string](p, fmt.Sprintf(different, built.OutputFiles[0].Contents, amounts)); found != "" {
		t.Error(found)
	}
}
