// Package extracttest helps tests to read documents: [Child] makes a test binary the child of
// an [extract.Service], and [Direct] reads documents without a child.
package extracttest

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"stoa/internal/extract"
)

// Child runs the child if the process was started as one. Call it at the top of TestMain:
//
//	if code, ran := extracttest.Child(); ran {
//		os.Exit(code)
//	}
func Child() (code int, ran bool) {
	if len(os.Args) != 2 || os.Args[1] != "extract" {
		return 0, false
	}
	if err := extract.Child(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

// Cache returns the directory of the compiled PDF reader of all tests of this user. Compiling
// it takes several seconds.
func Cache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "stoa-test-pdf")
}

// Direct is a reader that reads documents in the process of the test.
type Direct struct{}

// Read implements [extract.Reader].
func (Direct) Read(ctx context.Context, d extract.Document) (extract.Result, error) {
	data, err := io.ReadAll(d.Content)
	if err != nil {
		return extract.Result{}, err
	}
	return extract.Parse(ctx, d, data, Cache()), nil
}

// Page implements [extract.Reader].
func (Direct) Page(ctx context.Context, d extract.Document, page int64) ([]byte, error) {
	data, err := io.ReadAll(d.Content)
	if err != nil {
		return nil, err
	}
	r := extract.RenderPage(ctx, data, page, Cache())
	if r.Status != extract.Ready {
		return nil, &extract.PageError{Status: r.Status, Note: r.Note}
	}
	return r.Text, nil
}
