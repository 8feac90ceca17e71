package app

import (
	"os"
	"testing"

	"stoa/internal/base/extract/extracttest"
	"stoa/internal/testkit/storetest"
)

func TestMain(m *testing.M) {
	if code, ran := extracttest.Child(); ran {
		os.Exit(code)
	}
	os.Exit(storetest.Both(m).Run())
}
