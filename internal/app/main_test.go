package app

import (
	"os"
	"testing"

	"stoa/internal/extract/extracttest"
	"stoa/internal/storetest"
)

func TestMain(m *testing.M) {
	if code, ran := extracttest.Child(); ran {
		os.Exit(code)
	}
	os.Exit(storetest.Both(m).Run())
}
