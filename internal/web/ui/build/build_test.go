package main

import (
	"bytes"
	"os"
	"path/filepath"
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
