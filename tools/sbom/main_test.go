package main

import "testing"

func TestPartsOfThePages(t *testing.T) {
	t.Parallel()
	parts, err := pageParts("../..")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, p := range parts {
		found[p.Name] = p.Version != "" && p.Licenses[0].Expression != ""
	}
	for _, name := range []string{"preact", "marked", "dompurify", "@fontsource-variable/inter"} {
		if !found[name] {
			t.Errorf("%s is missing: %+v", name, parts)
		}
	}
	if found["typescript"] || found["axe-core"] {
		t.Error("tools are not parts of the pages")
	}
}
