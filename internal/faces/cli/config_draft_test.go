package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
)

// TestSettingsAreChangedFromTheCommandLine adds a vendor, changes its price, and restores the
// first version.
func TestSettingsAreChangedFromTheCommandLine(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{Idle: true})
	up := fakeup.Start(t)
	p := newPerson(t, "STOA_BASE_URL="+h.URL, "STOA_API_KEY="+h.Key)
	file := filepath.Join(t.TempDir(), "draft.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if said := p.runs(0, "", "config", "draft", "get"); !strings.HasPrefix(said, "# There are no managed settings") {
		t.Errorf("without settings: %q", said)
	}
	write(p.runs(0, "", "config", "draft", "get"))
	p.runs(0, "", "config", "draft", "set", file)
	write("providers:\n  - {name: claude, wire: messages, apiKey: " + fakeup.Key + ", baseURL: \"" + up.URL + "\"}\nfamilies:\n  alpha: [{provider: claude}]\n")
	if said := p.runs(0, "", "config", "draft", "set", file); !strings.Contains(said, "providers.claude") || strings.Contains(said, fakeup.Key) {
		t.Errorf("set: %s", said)
	}
	p.runs(0, "", "config", "draft", "test", "claude")
	p.runs(0, "", "config", "draft", "apply", "--note", "First vendor")
	draft := p.runs(0, "", "config", "draft", "get")
	if !strings.Contains(draft, "'********'") && !strings.Contains(draft, `"********"`) {
		t.Errorf("the draft is %s", draft)
	}
	write(draft + "models:\n  alpha-haiku-4-5: {price: {input: 2000000, output: 7000000}}\n")
	if said := p.runs(0, "", "config", "draft", "set", file); !strings.Contains(said, "price of alpha-haiku-4-5") || !strings.Contains(said, "2.00 / 7.00 credits") {
		t.Errorf("set with a price: %s", said)
	}
	p.runs(0, "", "config", "draft", "apply")
	p.runs(0, "", "config", "restore", "1", "--yes")
	if said := p.runs(0, "", "config", "history"); !strings.Contains(said, "First vendor") || strings.Count(said, "\n") != 3 {
		t.Errorf("history: %s", said)
	}
	if said := p.runs(0, "", "config", "list"); !strings.Contains(said, "managed") || !strings.Contains(said, "shipped") {
		t.Errorf("list: %s", said)
	}
	write("providers:\n  - {name: claude, wire: fax}\n")
	p.runs(1, "", "config", "draft", "set", file)
	p.runs(1, "", "config", "draft", "check")
	// A draft without a model for auto is applied after a confirmation.
	write("providers:\n  - {name: claude, wire: messages, apiKey: " + fakeup.Key + ", baseURL: \"" + up.URL + "\"}\nfamilies:\n  empty: [{provider: claude}]\n")
	p.runs(0, "", "config", "draft", "set", file)
	if said := p.runs(2, "", "config", "draft", "apply"); !strings.Contains(said, "effect: `auto` will have no model") || !strings.Contains(said, "--yes") {
		t.Errorf("apply without a confirmation: %s", said)
	}
	p.runs(0, "", "config", "draft", "apply", "--yes")
	if said := p.runs(0, "", "providers", "recent"); strings.Contains(said, "model_unavailable") {
		t.Errorf("before a call: %s", said)
	}
	p.runs(1, "", "respond", "hi")
	if err := h.Requests.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if said := p.runs(0, "", "providers", "recent"); !strings.Contains(said, "1 call in the last 24 hours had no provider") {
		t.Errorf("after a call: %s", said)
	}
	p.runs(0, "", "config", "draft", "set", file)
	p.runs(0, "", "config", "draft", "drop", "--yes")
	p.runs(0, "", "config", "draft", "check")
}
