package app

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"stoa/internal/base/config"
)

// The catalog contains the variable that enables a family and the wire of its vendor, for its
// messages; the configuration implements that. They must agree.
func TestSettingsAndCatalogAgreeOnTheVendors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../models/catalog/models.json")
	if err != nil {
		t.Fatal(err)
	}
	var shipped struct {
		Families []struct{ Name, Wire, Dialect, Switch string }
	}
	if err := json.Unmarshal(text, &shipped); err != nil {
		t.Fatal(err)
	}
	if len(shipped.Families) < 4 {
		t.Fatalf("the catalog has %d families; the test reads it wrongly", len(shipped.Families))
	}
	var names []string
	for _, f := range shipped.Families {
		names = append(names, f.Name)
		cfg, err := config.Load(config.Flags{}, func(name string) string {
			if name == f.Switch {
				return "a-key"
			}
			return ""
		}, os.ReadFile)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		if len(cfg.Families) != 1 || len(cfg.Families[f.Name]) != 1 {
			t.Errorf("%s switches on the families %v; the catalog says %s", f.Switch, cfg.Families, f.Name)
			continue
		}
		p := cfg.Upstreams()[0]
		if p.Wire != f.Wire || p.Dialect != f.Dialect {
			t.Errorf("%s: the settings make a provider of wire %q and dialect %q; the catalog says %q and %q", f.Name, p.Wire, p.Dialect, f.Wire, f.Dialect)
		}
	}
	all, err := config.Load(config.Flags{}, func(name string) string {
		if len(name) > 8 && name[len(name)-8:] == "_API_KEY" {
			return "a-key"
		}
		return ""
	}, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	for name := range all.Families {
		if !slices.Contains(names, name) {
			t.Errorf("the settings know a family %q that the catalog does not", name)
		}
	}
}
