package config

import (
	"slices"
	"strings"
	"testing"
)

func TestExtensionsAreReadFromEverySource(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, yaml, env string
		flags           Flags
		want            []string
	}{
		{name: "nothing", want: nil},
		{name: "the file", yaml: "extensions: {models: true}\n", want: []string{"models"}},
		{name: "the variable in place of the file", yaml: "extensions: {models: true}\n", env: "v1Alias", want: []string{"v1Alias"}},
		{name: "the flag in place of the variable", env: "v1Alias", flags: Flags{Extensions: " models , v1Alias"}, want: []string{"models", "v1Alias"}},
		{name: "all", env: "all", want: AllExtensions().Names()},
		{name: "none", yaml: "extensions: {models: true}\n", env: "none", want: nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.yaml != "" {
				c.flags.Config = "stoa.yaml"
			}
			cfg, err := Load(c.flags, func(name string) string {
				return map[string]string{"STOA_EXTENSIONS": c.env}[name]
			}, func(string) ([]byte, error) { return []byte(c.yaml), nil })
			if err != nil {
				t.Fatal(err)
			}
			if got := cfg.Extensions.Names(); !slices.Equal(got, c.want) {
				t.Errorf("%v are on, want %v", got, c.want)
			}
		})
	}
}

func TestUnknownExtensionsAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"model", "models,,", "All", "models v1Alias"} {
		_, err := Load(Flags{Extensions: text}, func(string) string { return "" }, nil)
		if err == nil || !strings.Contains(err.Error(), "--extensions: extensions: there is no extension") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := parseExtensions("model"); err == nil || !strings.Contains(err.Error(), `did you mean "models"?`) {
		t.Errorf("the hint is %v", err)
	}
}
