package extract_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"stoa/internal/base/extract"
	"stoa/internal/base/extract/extracttest"
)

func TestMain(m *testing.M) {
	if code, ran := extracttest.Child(); ran {
		os.Exit(code)
	}
	if len(os.Args) == 3 && os.Args[1] == "parent" { // see TestAChildEndsWithItsParent
		_, err := service(extract.Config{Command: []string{"/bin/sh", "-c", os.Args[2]}}).Read(context.Background(), extract.Document{Content: strings.NewReader("x")})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
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
