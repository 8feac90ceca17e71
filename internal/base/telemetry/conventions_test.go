package telemetry

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"stoa/internal/base/stoa"
)

// TestCacheReadsAndWritesAreCounted checks the metrics and the attributes of spans.
func TestCacheReadsAndWritesAreCounted(t *testing.T) {
	t.Parallel()
	m := NewMetrics(MetricsConfig{})
	m.Learn([]Route{{"alpha", "p"}})
	u := stoa.Usage{InputTokens: 1000, CachedTokens: 800, CacheWriteTokens: 150, OutputTokens: 7}
	for range 2 {
		m.Call(&Call{Model: "alpha", Provider: "p", State: "completed", Usage: u})
	}
	if read, written := testutil.ToFloat64(m.cacheRead.WithLabelValues(operation, "p", "alpha")), testutil.ToFloat64(m.cacheWritten.WithLabelValues(operation, "p", "alpha")); read != 1600 || written != 300 {
		t.Errorf("%v tokens were read and %v written, want 1600 and 300", read, written)
	}
	got := map[string]int64{}
	for _, a := range usage(u) {
		got[string(a.Key)] = a.Value.AsInt64()
	}
	for name, want := range map[string]int64{
		"gen_ai.usage.input_tokens": 1000, "gen_ai.usage.output_tokens": 7,
		"gen_ai.usage.cache_read.input_tokens": 800, "gen_ai.usage.cache_creation.input_tokens": 150,
	} {
		if got[name] != want {
			t.Errorf("%s is %d, want %d", name, got[name], want)
		}
	}
}

func TestDocsNameTheVersionOfTheConventions(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "version "+conventions) {
		t.Errorf("docs/metrics.md does not name version %s of the semantic conventions", conventions)
	}
}
