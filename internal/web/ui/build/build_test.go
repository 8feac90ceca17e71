package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheCommittedBundlesAreWhatTheSourcesMake(t *testing.T) {
	files, err := bundle("..")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(entries)+1 {
		t.Errorf("%d bundles from %d entries", len(files), len(entries))
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", "..", "static", name))
		if err != nil {
			t.Error(err)
			continue
		}
		if !bytes.Equal(got, want) {
			t.Errorf("static/%s differs from what its sources make (%d bytes, want %d): run go generate ./internal/web/...", name, len(got), len(want))
		}
	}
}

func TestTheTypesAreThoseOfTheContract(t *testing.T) {
	want, err := types()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join("..", typesFile))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("ui/%s is stale: run go generate ./internal/web/...", typesFile)
	}
}

// The types that CI checks the pages against are those of the vendored versions.
func TestTheCheckedVersionsAreVendored(t *testing.T) {
	readme, err := os.ReadFile("../vendor/README.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../package.json")
	if err != nil {
		t.Fatal(err)
	}
	var pkg struct {
		DevDependencies map[string]string `json:"devDependencies"`
	}
	if err := json.Unmarshal(text, &pkg); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"preact", "marked", "dompurify"} {
		if row := "| `" + name + "/` | " + pkg.DevDependencies[name] + " |"; !strings.Contains(string(readme), row) {
			t.Errorf("package.json has %s %s, and vendor/README.md has no row %q", name, pkg.DevDependencies[name], row)
		}
	}
}

func TestABundleIsTheSameEachTime(t *testing.T) {
	one, err := bundle("..")
	if err != nil {
		t.Fatal(err)
	}
	two, err := bundle("..")
	if err != nil {
		t.Fatal(err)
	}
	for name := range one {
		if !bytes.Equal(one[name], two[name]) {
			t.Errorf("%s differs from one build to the next", name)
		}
	}
}
