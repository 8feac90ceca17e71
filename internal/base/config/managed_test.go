package config_test

import (
	"errors"
	"strings"
	"testing"

	"stoa/internal/base/config"
)

// TestTheFileShadowsManagedSettings combines managed settings with a file that has some of the
// same names.
func TestTheFileShadowsManagedSettings(t *testing.T) {
	t.Parallel()
	file, err := config.Load(config.Flags{Config: "stoa.yaml"}, func(string) string { return "" }, func(string) ([]byte, error) {
		return []byte("providers:\n  - {name: gpu, wire: chat, baseURL: \"http://127.0.0.1:1/v1\", discover: true}\nplans:\n  team: {name: File}\n"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := config.ParseManaged([]byte(`{"providers":[{"name":"gpu","wire":"messages"},{"name":"claude","wire":"messages","apiKey":"ref"},{"name":"bad","wire":"fax"}],
		"families":{"alpha":[{"provider":"gpu","model":"x"}]},"plans":{"team":{"name":"Managed"},"free":{"requestsPerMinute":7}},
		"models":{"m":{"family":"own","price":{"input":5,"output":6},"routes":[{"provider":"claude"}]}},"auto":["m"]}`))
	if err != nil {
		t.Fatal(err)
	}
	cfg, shadowed, err := file.With(m, func(p config.Provider, _, _ string) (string, error) {
		if p.Name == "bad" {
			return "", errors.New("it is missing")
		}
		return "the key of " + p.Name, nil
	})
	if len(shadowed) != 2 || shadowed[0] != (config.Shadowed{Path: "plans.team", Where: "stoa.yaml:4:3"}) || shadowed[1].Path != "providers.gpu" {
		t.Errorf("shadowed are %+v", shadowed)
	}
	if err == nil || !strings.Contains(err.Error(), "providers[2].apiKey: it is missing") {
		t.Errorf("the problem is %v", err)
	}
	ups := cfg.Upstreams()
	if len(ups) != 3 || ups[0].Wire != "chat" || ups[1].APIKey != "the key of claude" {
		t.Errorf("the providers are %+v", ups)
	}
	if plans := cfg.AccountPlans(); plans["team"].Name != "File" || plans["free"].RequestsPerMinute != 7 || plans["free"].ConcurrentPerKey != 8 {
		t.Errorf("the plans are %+v", plans)
	}
	if p := cfg.Models["m"].Price; p.CachedInput != 5 {
		t.Errorf("cached input costs %d", p.CachedInput)
	}
	// gpu, which is left out, has the same place in the document as in the file.
	for in, want := range map[string]string{"providers[1].wire": "providers[1].wire", "providers[2]": "providers[2]", "providers[0].wire": "providers[0].wire", "auto[0]": "auto[0]"} {
		if got := cfg.ManagedPath(in); got != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
	for path, want := range map[string]string{"providers[2].wire": config.ManagedSource, "providers[0].wire": "stoa.yaml:2:23", "plans.free": config.ManagedSource, "auto": config.ManagedSource, "limits.body": ""} {
		if got := cfg.Where(path); got != want {
			t.Errorf("%s is set in %q, want %q", path, got, want)
		}
	}
	if len(file.Providers) != 1 || len(file.Models) != 0 || file.Plans["free"].RequestsPerMinute == nil || *file.Plans["free"].RequestsPerMinute != 60 {
		t.Error("the settings of the file have changed")
	}
	items, err := cfg.Items()
	if err != nil || items[1].Value["apiKey"] != config.Masked || items[0].Value["apiKey"] != nil {
		t.Errorf("the items are %+v, %v", items, err)
	}
}
