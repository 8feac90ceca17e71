package archtest

import (
	"flag"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
)

var update = flag.Bool("update", false, "after a release: record what it has in testdata/released.txt")

// TestChangelogNamesEveryAddition: each migration, setting, scope and event that is not in testdata/released.txt,
// which lists those of the last release, is named in the part "Unreleased" of CHANGELOG.md; a migration by its number.
func TestChangelogNamesEveryAddition(t *testing.T) {
	t.Parallel()
	const file = "testdata/released.txt"
	all := upgradeable(t)
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(all, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	released, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, unreleased, found := strings.Cut(read(t, "CHANGELOG.md"), "\n## Unreleased\n")
	unreleased, _, _ = strings.Cut(unreleased, "\n## ")
	if !found {
		t.Fatal("CHANGELOG.md has no part Unreleased")
	}
	known := strings.Split(string(released), "\n")
	for _, one := range all {
		_, name, _ := strings.Cut(one, " ")
		if number, _, found := strings.Cut(path.Base(name), "_"); found && strings.HasSuffix(name, ".sql") {
			name = number
		}
		if !slices.Contains(known, one) && !strings.Contains(unreleased, name) {
			t.Errorf("CHANGELOG.md does not name the %s; say under Unreleased what operators need to know about %s", one, name)
		}
	}
}

// upgradeable returns all migrations, settings, scopes and events, each with its kind.
func upgradeable(t *testing.T) (all []string) {
	t.Helper()
	for _, pattern := range []string{"../../base/store/migrations/*.sql", "../../agents/drive/migrations/*/*.sql"} {
		migrations, err := filepath.Glob(pattern)
		if err != nil || len(migrations) == 0 {
			t.Fatal(pattern, err)
		}
		for _, p := range migrations {
			all = append(all, "migration "+filepath.ToSlash(p))
		}
	}
	for _, scope := range stoa.Scopes {
		all = append(all, "scope "+scope)
	}
	for kind, source := range map[string][2]string{
		"setting": {`(?m)^\| ` + "`([^`]+)`" + ` \|[^|]*\|[^|]*\|`, read(t, "docs/settings-server.md") + read(t, "docs/settings-models.md") + read(t, "docs/settings-limits.md") + read(t, "docs/settings-people.md")}, // a test compares its rows with the code
		"event":   {`= "([a-z_]+\.[a-z_]+)"`, read(t, "internal/agents/webhook/event.go")},
	} {
		names := regexp.MustCompile(source[0]).FindAllStringSubmatch(source[1], -1)
		if len(names) < 10 {
			t.Fatalf("only %d of the kind %s were found", len(names), kind)
		}
		for _, m := range names {
			all = append(all, kind+" "+m[1])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
