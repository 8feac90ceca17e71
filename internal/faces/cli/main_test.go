package cli

import (
	"os"
	"testing"

	"stoa/internal/base/extract/extracttest"
)

func TestMain(m *testing.M) {
	if code, ran := extracttest.Child(); ran {
		os.Exit(code)
	}
	os.Exit(m.Run())
}
