package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakestripe"
)

// TestPricesArePreviewed computes the running month at a price from a whole configuration file, in each format.
func TestPricesArePreviewed(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{Idle: true})
	p := newPerson(t, "STOA_BASE_URL="+h.URL, "STOA_API_KEY="+h.Key)
	p.runs(0, "", "respond", "--model", "beta-3.8-flash", "hi")
	month := string(stoa.MonthOf(time.Now()))
	file := filepath.Join(t.TempDir(), "new.yaml")
	if err := os.WriteFile(file, []byte("listen: 127.0.0.1:1\nmodels:\n  beta-3.8-flash: {price: {input: 50000000, output: 90000000}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out contract.PricesPreview
	if err := json.Unmarshal([]byte(p.runs(0, "", "prices", "preview", file, "--month", month, "--format", "json")), &out); err != nil || len(out.Data) != 1 || out.Totals.DifferenceMicro <= 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	if said := p.runs(0, "", "prices", "preview", file, "--month", month, "--by", "account,plan", "--format", "csv"); !strings.Contains(said, "accountId,accountName,plan,calls,chargedMicro") || !strings.Contains(said, h.Account.ID) {
		t.Errorf("csv: %s", said)
	}
	if said := p.runs(0, "", "prices", "preview", file, "--month", month); !strings.Contains(said, "beta-3.8-flash") {
		t.Errorf("table: %s", said)
	}
	p.runs(2, "", "prices", "preview", file)
	p.runs(2, "", "prices", "preview", file, "--month", month, "--by", "key")
	p.runs(2, "", "prices", "preview", file, "--month", month, "--format", "pdf")
	p.runs(2, "listen: x\n", "prices", "preview", "-", "--month", month)
}

func TestCreditsAreBoughtFromTheCommandLine(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{Idle: true, Payments: fakestripe.New(t).Payments()})
	p := newPerson(t, "STOA_BASE_URL="+h.URL, "STOA_API_KEY="+h.Key)
	if said := p.runs(0, "", "payments", "packs"); !strings.Contains(said, "small") {
		t.Errorf("the packs: %s", said)
	}
	p.runs(0, "", "payments", "buy", "--pack", "small")
	if said := p.runs(0, "", "payments", "list"); !strings.Contains(said, "pending") {
		t.Errorf("the payments: %s", said)
	}
	p.runs(2, "", "payments", "buy")
}
