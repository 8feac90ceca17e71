package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestTheCommittedBundlesAreWhatTheSourcesMake(t *testing.T) {
	installed(t)
	files, err := bundle("..")
	if err != nil {
		t.Fatal(err)
	}
	fonts := 0
	for name := range files {
		if isFont(name) {
			fonts++
		}
	}
	if fonts == 0 || len(files) != len(entries)+1+fonts {
		t.Errorf("%d bundles, with %d fonts, from %d entries", len(files), fonts, len(entries))
	}
	committed, err := os.ReadDir(filepath.Join("..", "..", "static"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range committed {
		if isFont(e.Name()) && files[e.Name()] == nil {
			t.Errorf("no style refers to static/%s: run go generate ./internal/faces/web/...", e.Name())
		}
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", "..", "static", name))
		if err != nil {
			t.Error(err)
			continue
		}
		if !bytes.Equal(got, want) {
			t.Errorf("static/%s differs from what its sources make (%d bytes, want %d): run go generate ./internal/faces/web/...", name, len(got), len(want))
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
		t.Errorf("ui/%s is stale: run go generate ./internal/faces/web/...", typesFile)
	}
}

// installed skips a test where the libraries of the pages are not installed. CI installs
// them, and compares the committed bundles.
func installed(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("../node_modules/preact"); err != nil {
		t.Skip("the libraries of the pages are not installed: run npm ci in internal/faces/web/ui")
	}
}

func TestABundleIsTheSameEachTime(t *testing.T) {
	installed(t)
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
