package app

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"stoa/internal/base/config"
)

func TestAStartWarnsOfTheMachine(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("modes of directories mean nothing here")
	}
	private, shared := filepath.Join(t.TempDir(), "private"), filepath.Join(t.TempDir(), "shared")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		data, database string
		files          uint64
		keys           []config.SecretsKey
		want           []string
	}{
		"nothing":            {data: private, files: 1024},
		"an unknown limit":   {data: private},
		"few files":          {data: private, files: 1023, want: []string{"can open 1023 files"}},
		"a shared directory": {data: shared, files: 65536, want: []string{"has the mode 0755", "chmod 700 " + shared}},
		"PostgreSQL":         {data: shared, database: "postgres://h/d", files: 65536, keys: []config.SecretsKey{{ID: "a", Env: "A"}}},
		"no key for secrets": {data: shared, database: "postgres://h/d", files: 65536, want: []string{"set secrets.keys"}},
		"no directory":       {data: private + "/none", files: 65536},
		"both":               {data: shared, files: 64, want: []string{"can open 64 files", "chmod 700"}},
	} {
		cfg := config.Defaults()
		cfg.Data, cfg.Database, cfg.Secrets.Keys = tt.data, config.Secret(tt.database), tt.keys
		got := strings.Join(warnings(cfg, tt.files), "\n")
		if len(tt.want) == 0 && got != "" {
			t.Errorf("%s: %s", name, got)
		}
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q, want it to have %q", name, got, want)
			}
		}
	}
	if runtime.GOOS == "linux" && openFileLimit() == 0 {
		t.Error("the limit on open files is not known")
	}
}

func TestNoTemporaryDirectoryIsReported(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	for _, name := range []string{"TMPDIR", "TMP"} { // TMP on Windows
		t.Setenv(name, missing)
	}
	cfg := config.Defaults()
	cfg.Database = "postgres://h/d"
	if got := strings.Join(warnings(cfg, 65536), "\n"); !strings.Contains(got, "uploads above 1 MiB will fail") || !strings.Contains(got, missing) {
		t.Errorf("got %q", got)
	}
}
