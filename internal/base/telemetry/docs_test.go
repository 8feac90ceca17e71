package telemetry

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/prometheus/client_golang/prometheus"

	"stoa/internal/base/stoa"
)

// A described metric is a metric according to the registry or docs/metrics.md.
type described struct {
	kind   string
	labels []string
}

// everything returns metrics with every source and every setting enabled, and one value of
// each.
func everything(t *testing.T) *Metrics {
	t.Helper()
	m := NewMetrics(MetricsConfig{Version: "v", Commit: "c", Codes: []stoa.Code{stoa.CodeInternal}, Routes: []string{"GET /a"}, Accounts: 2})
	m.Learn([]Route{{"m", "p"}})
	m.Call(&Call{Model: "m", Provider: "p", Code: stoa.CodeInternal})
	one := func() int64 { return 1 }
	m.Watch(Sources{
		Requests: one, Calls: one, BodyBytes: one, Followers: one, TurnsRunning: one, Connections: one, Broken: one,
		Refused:   func() (uint64, uint64) { return 1, 1 },
		Latched:   func() map[string]bool { return map[string]bool{"core": true} },
		Providers: func() []Provider { return []Provider{{Name: "p", Models: []ProviderModel{{Name: "x"}}}} },
		Sessions:  counted,
		Waiting: func(context.Context) (map[string]Waiting, error) {
			all := map[string]Waiting{}
			for _, kind := range stoa.InputKinds() {
				all[kind] = Waiting{Count: 1, Age: time.Second}
			}
			return all, nil
		},
		Exports: func() (uint64, uint64) { return 1, 1 },
		Outbox:  func() (int, time.Duration) { return 1, time.Second },

		LinesDropped: func() uint64 { return 1 },
	})
	return m
}

// exposed returns the metrics of the registry, except those of Go and of the process.
func exposed(t *testing.T, m *Metrics) map[string]described {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]described{}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "go_") || strings.HasPrefix(f.GetName(), "process_") {
			continue
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		slices.Sort(labels)
		list[f.GetName()] = described{strings.ToLower(f.GetType().String()), labels}
	}
	descs := make(chan *prometheus.Desc, 1000)
	m.registry.Describe(descs)
	close(descs)
	for d := range descs {
		name := regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(d.String())[1]
		if _, ok := list[name]; !ok && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("%s is registered and has no value here: the test does not see it", name)
		}
	}
	return list
}

// tables returns the rows of docs/metrics.md that begin with a name in code.
func documented(t *testing.T) map[string]described {
	t.Helper()
	text, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Metrics\n")
	section, _, _ = strings.Cut(section, "\n## ")
	list := map[string]described{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 7 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		for i, cell := range cells {
			if cells[i] = strings.TrimSpace(cell); cells[i] == "" && i > 0 && i != 4 && i < 6 {
				t.Errorf("a cell is empty: %s", line)
			}
		}
		var labels []string
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[4], -1) {
			labels = append(labels, m[1])
		}
		slices.Sort(labels)
		list[strings.Trim(cells[1], "`")] = described{cells[2], labels}
	}
	return list
}

func TestDocsListEveryMetric(t *testing.T) {
	t.Parallel()
	is, says := exposed(t, everything(t)), documented(t)
	if len(is) < 30 {
		t.Fatalf("only %d metrics found", len(is))
	}
	for name, m := range is {
		d, ok := says[name]
		switch {
		case !ok:
			t.Errorf("docs/metrics.md has no row for %s", name)
		case d.kind != m.kind || !slices.Equal(d.labels, m.labels):
			t.Errorf("docs/metrics.md says that %s is a %s with %v; it is a %s with %v", name, d.kind, d.labels, m.kind, m.labels)
		}
	}
	for name := range says {
		if _, ok := is[name]; !ok {
			t.Errorf("docs/metrics.md has %s, which does not exist", name)
		}
	}
}

// TestDocsListEveryLabel checks that the table of labels lists exactly the labels of the
// metrics.
func TestDocsListEveryLabel(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Values of labels\n")
	section, _, _ = strings.Cut(section, "\n## ")
	says := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+) \\|").FindAllStringSubmatch(section, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			says[strings.Trim(name, "`")] = true
		}
	}
	used := map[string]bool{}
	for _, m := range exposed(t, everything(t)) {
		for _, l := range m.labels {
			used[l] = true
		}
	}
	if !maps.Equal(says, used) {
		t.Errorf("docs/metrics.md describes the labels %v; the metrics have %v", slices.Sorted(maps.Keys(says)), slices.Sorted(maps.Keys(used)))
	}
}

// TestDashboardAsksForWhatExists checks that every query of the dashboard names existing
// metrics and labels.
func TestDashboardAsksForWhatExists(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/grafana-dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Type    string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	is := series(t, everything(t))
	queries := 0
	shown := map[string]bool{}
	for _, p := range board.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s asks for nothing", p.Title)
		}
		for _, q := range p.Targets {
			queries++
			for _, fault := range faults(q.Expr, is, shown) {
				t.Errorf("%s: %s: %s", p.Title, q.Expr, fault)
			}
			for _, m := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(q.LegendFormat, -1) {
				if m[1] != "instance" && !strings.Contains(q.Expr, m[1]) {
					any := false
					for name := range is {
						any = any || strings.Contains(q.Expr, name) && slices.Contains(is[name], m[1])
					}
					if !any {
						t.Errorf("%s: the legend names %s, which %s does not give", p.Title, m[1], q.Expr)
					}
				}
			}
		}
	}
	if queries < 30 {
		t.Errorf("only %d queries found", queries)
	}
	for name, m := range documented(t) {
		if m.kind == "histogram" {
			if shown[name+"_bucket"] || shown[name+"_sum"] || shown[name+"_count"] {
				continue
			}
		}
		if !shown[name] && !strings.HasPrefix(name, "stoa_account_") {
			t.Errorf("no panel shows %s", name)
		}
	}
	for expr, want := range map[string]string{
		`rate(stoa_nothing_total[5m])`:                             "stoa_nothing_total does not exist",
		`sum by (nothing) (stoa_connections{job="$job"})`:          "no metric of it has the label nothing",
		`stoa_errors_total{nothing=~"a"}`:                          "stoa_errors_total has no label nothing",
		`histogram_quantile(0.5, rate(stoa_commit_charges_b[1m]))`: "stoa_commit_charges_b does not exist",
	} {
		if got := faults(expr, is, map[string]bool{}); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: found %q, want %q: the test reads queries wrongly", expr, got, want)
		}
	}
}

// TestRulesAskForWhatExists checks the queries of the alert rules in the same way.
func TestRulesAskForWhatExists(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/prometheus-rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	is := series(t, everything(t))
	is["up"] = []string{"job", "instance"} // of Prometheus
	rules := 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			rules++
			for _, fault := range faults(r.Expr, is, map[string]bool{}) {
				t.Errorf("%s: %s: %s", r.Alert, r.Expr, fault)
			}
		}
	}
	if rules < 8 {
		t.Errorf("only %d rules found", rules)
	}
}

// series returns the labels of each series in Prometheus, those of histograms by the names of
// their parts, with the labels that a scrape adds.
func series(t *testing.T, m *Metrics) map[string][]string {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	is := map[string][]string{}
	for _, f := range families {
		labels := []string{"job", "instance"}
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		if f.GetMetric()[0].GetHistogram() == nil {
			is[f.GetName()] = labels
			continue
		}
		is[f.GetName()+"_bucket"] = append(slices.Clone(labels), "le")
		is[f.GetName()+"_sum"], is[f.GetName()+"_count"] = labels, labels
	}
	return is
}

var (
	grouping = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	selector = regexp.MustCompile(`([a-zA-Z_:][\w:]*)\s*(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"[^"]*"`)
	ranges   = regexp.MustCompile(`\[[^\]]*\]`)
)

// faults returns the names in a query that do not exist: metrics, labels in braces, and
// grouping labels that none of its metrics has. The metrics of the query are added to shown.
func faults(expr string, is map[string][]string, shown map[string]bool) (list []string) {
	text := ranges.ReplaceAllString(expr, "")
	var groups []string
	for _, g := range grouping.FindAllStringSubmatch(text, -1) {
		groups = append(groups, strings.FieldsFunc(g[1], func(r rune) bool { return r == ',' || r == ' ' })...)
	}
	text = grouping.ReplaceAllString(text, "")
	has := map[string]bool{}
	for _, m := range selector.FindAllStringSubmatchIndex(text, -1) {
		name, rest := text[m[2]:m[3]], strings.TrimSpace(text[m[1]:])
		if m[4] < 0 && strings.HasPrefix(rest, "(") || m[2] > 0 && text[m[2]-1] >= '0' && text[m[2]-1] <= '9' {
			continue // a function, or the exponent of a number
		}
		labels, ok := is[name]
		if !ok {
			list = append(list, name+" does not exist")
			continue
		}
		shown[name] = true
		for _, l := range labels {
			has[l] = true
		}
		if m[4] >= 0 {
			for _, l := range matcher.FindAllStringSubmatch(text[m[4]:m[5]], -1) {
				if !slices.Contains(labels, l[1]) {
					list = append(list, name+" has no label "+l[1])
				}
			}
		}
	}
	for _, g := range groups {
		if len(has) > 0 && !has[g] {
			list = append(list, "no metric of it has the label "+g)
		}
	}
	return list
}
