package extract_test

import (
	"os"
	"testing"

	"stoa/internal/extract"
	"stoa/internal/extract/extracttest"
)

func TestMain(m *testing.M) {
	if code, ran := extracttest.Child(); ran {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// service returns a service whose children are this test binary.
func service(cfg extract.Config) *extract.Service {
	if cfg.Cache == "" {
		cfg.Cache = extracttest.Cache()
	}
	return extract.New(cfg)
}
