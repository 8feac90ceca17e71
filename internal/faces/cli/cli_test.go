package cli

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

var update = flag.Bool("update", false, "write docs/cli.md")

// every returns each visible command, root first.
func every(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			every(sub, do)
		}
	}
}

func TestEveryCommandHasHelpAndAnExample(t *testing.T) {
	t.Parallel()
	every((&env{}).root(), func(c *cobra.Command) {
		name := c.CommandPath()
		if c.Short == "" || c.Long == "" || strings.HasSuffix(c.Short, ".") && c.Name() != "stoa" {
			t.Errorf("%s: a short text without a full stop, and a long one, are wanted", name)
		}
		if !c.HasSubCommands() && c.Example == "" {
			t.Errorf("%s has no example", name)
		}
		for _, line := range strings.Split(c.Example, "\n") {
			if c.Example != "" && !strings.Contains(line, "stoa") && !strings.HasPrefix(line, "  ") {
				t.Errorf("%s: the example %q does not call stoa", name, line)
			}
		}
		if c.RunE == nil {
			t.Errorf("%s does nothing by itself: cobra would print help and succeed", name)
		}
		for _, line := range strings.Split(c.Long, "\n") {
			if len(line) > 160 {
				t.Errorf("%s: a line of its help is too long: %q", name, line)
			}
		}
	})
}

// docs/cli.md is the help of every command, as one page.
func TestTheDocumentationIsTheHelp(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("# Command line\n\n<!-- Written by `go test ./internal/faces/cli -update`; change the commands' own help instead. -->\n\n")
	b.WriteString("One program is the service and its client. `stoa login` stores the address of the service and a key; `STOA_BASE_URL` and `STOA_API_KEY` take precedence over them. `--profile NAME` and `STOA_PROFILE` select one of several named logins, see `stoa profiles`.\n\n")
	b.WriteString("Data goes to standard output, everything else to standard error. On a terminal lists are tables; elsewhere they are lines with tabs, without headings and with exact values. `--json` prints JSON (a list is an array), `--jq` the result of a [jq](https://jqlang.org) expression. `NO_COLOR` turns colors off.\n\n")
	b.WriteString("The tables below leave out `--help`, which every command accepts, and `--json` and `--jq` of the commands that print objects.\n\n")
	b.WriteString("| Exit code | Meaning |\n|---|---|\n")
	for _, code := range []struct {
		n    int
		text string
	}{
		{exitDone, "success"},
		{exitFailed, "failure"},
		{exitUsage, "wrong usage"},
		{exitAuth, "missing or invalid key"},
		{exitEnded, "an awaited session failed or was cancelled"},
		{exitInterrupted, "interrupted"},
	} {
		fmt.Fprintf(&b, "| %d | %s |\n", code.n, code.text)
	}
	every((&env{}).root(), func(c *cobra.Command) {
		b.WriteString(markdownHelp(c))
	})
	const name = "../../../docs/cli.md"
	if *update {
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), b.String()); diff != "" {
		t.Errorf("docs/cli.md is not the help of the commands; run go test ./internal/faces/cli -update\n%s", diff)
	}
}

// Every column is a member that the contract has, of a fitting type.
func TestEveryColumnIsInTheContract(t *testing.T) {
	t.Parallel()
	doc, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range views() {
		schema := doc.Components.Schemas[v.schema]
		if schema == nil {
			t.Errorf("the contract has no schema %s", v.schema)
			continue
		}
		for _, c := range v.columns {
			found := member(schema.Value, strings.Split(c.path, "."))
			if found == nil {
				t.Errorf("%s has no member %s", v.schema, c.path)
				continue
			}
			if (c.kind == credits || c.kind == exact) && !strings.HasSuffix(c.path, "Micro") && !strings.Contains(c.path, "Micro") {
				t.Errorf("%s of %s is no amount of micro-credits", c.path, v.schema)
			}
			if id := c.path == "id" || strings.HasSuffix(c.path, "Id"); id && c.kind == plain {
				t.Errorf("%s of %s is an id of the kind plain", c.path, v.schema)
			}
			if c.kind == when && found.Format != "date-time" {
				t.Errorf("%s of %s is no time", c.path, v.schema)
			}
			if (c.kind == credits || c.kind == exact || c.kind == count || c.kind == size) && !found.Type.Is("integer") {
				t.Errorf("%s of %s is no number", c.path, v.schema)
			}
		}
	}
}

func member(s *openapi3.Schema, path []string) *openapi3.Schema {
	if len(path) == 0 {
		if len(s.AllOf) == 1 && s.Type == nil {
			return s.AllOf[0].Value
		}
		return s
	}
	if p := s.Properties[path[0]]; p != nil {
		return member(p.Value, path[1:])
	}
	if s.Items != nil { // of each object of a list
		return member(s.Items.Value, path)
	}
	for _, part := range slices.Concat(s.AllOf, s.OneOf) {
		if found := member(part.Value, path); found != nil {
			return found
		}
	}
	return nil
}

func views() []view {
	return []view{
		viewUser, viewModels, viewCredits, viewLedger, viewReconciliation, viewDifferences,
		viewReceipts, viewReceipt, viewRequests, viewRequest, viewUsage([]string{"day", "model", "key", "agent", "space", "session", "endUser"}),
		viewKeys, viewKey, viewProviders, viewAccounts, viewAccount, viewNewAccount, viewGrant,
		viewSpaces, viewSpace, viewAgents, viewAgent, viewVersions,
		viewFiles, viewHits, viewDrive, viewFileVersions, viewWritten, viewPlans, viewSessions, viewSession, viewStarted, viewMessages,
		viewConnections, viewConnection, viewTools, viewSecrets, viewTasks, viewTask, viewRuns, viewPreview, viewEmbeds, viewEmbed("EmbedURL"), viewEmbed("EmbedSession"),
		viewSkills, viewSkill, viewMemory, viewNotes, viewHooks, viewHook, viewDeliveries, viewDelivery, viewTags, viewTag, viewCalls, viewCall, viewApprovals, viewInputs,
	}
}

func TestAmountsAreWrittenForPeople(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/amounts.json") // the console passes the same test
	if err != nil {
		t.Fatal(err)
	}
	var amounts []struct {
		Micro   stoa.Credits `json:"micro"`
		Text    string       `json:"text"`
		Column  string       `json:"column"`
		Receipt string       `json:"receipt"`
		Ledger  string       `json:"ledger"`
	}
	if err := jsonx.Unmarshal(raw, &amounts); err != nil || len(amounts) == 0 {
		t.Fatal(err)
	}
	for _, a := range amounts {
		got := []string{short(a.Micro), amount(a.Micro, usualDecimals, true), amount(a.Micro, exactDecimals, false), amount(a.Micro, exactDecimals, true)}
		if diff := cmp.Diff([]string{a.Text, a.Column, a.Receipt, a.Ledger}, got); diff != "" {
			t.Errorf("%d micro-credits: %s", a.Micro, diff)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := stoa.Grouped(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 bytes", 1: "1 byte", 999: "999 bytes", 1023: "1023 bytes", 1024: "1 KiB", 1536: "1.5 KiB", 1<<20 - 1: "1 MiB", 3_000_000: "2.9 MiB", 10 << 20: "10 MiB", 1 << 40: "1 TiB", 5 << 50: "5120 TiB"} {
		if got := stoa.Size(n); got != want {
			t.Errorf("%d bytes are %s, want %s", n, got, want)
		}
	}
}

func TestAmountsAreReadExactly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]stoa.Credits{"5": 5_000_000, "0.25": 250_000, ".5": 500_000, "1.000001": 1_000_001} {
		if got, err := parseCredits(text); err != nil || got != want {
			t.Errorf("%q is %d (%v), want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", ".", "-1", "1e3", "1.0000001", "1,5", "12345678901", "five"} {
		if got, err := parseCredits(text); err == nil {
			t.Errorf("%q is taken for %d", text, got)
		}
	}
}

func TestRelativeTimes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		-10 * time.Second: "just now", -3 * time.Minute: "3 min ago", -5 * time.Hour: "5 h ago", -30 * time.Hour: "1 day ago",
		-5 * 24 * time.Hour: "5 days ago", 10 * time.Second: "in moments", 3 * time.Minute: "in 3 min", -60 * 24 * time.Hour: "2026-09-21",
	} {
		if got := relative(now.Add(d), now); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestControlCharactersAreRemoved(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain\nlines\tand tabs": "plain\nlines\tand tabs",
		"\x1b[2Jgone":            "[2Jgone",
		"\x1b]0;title\x07x":      "]0;titlex",
		"a\rb\bc\x00d\u009b31m":  "abcd31m",
		"right\u202eleft":        "rightleft",
		"größer, 日本, \U0001f600, e\u0301, \u200d": "größer, 日本, \U0001f600, e\u0301, \u200d",
	} {
		if got := clean(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	if got := oneLine("a\nb\tc\x1b"); got != "a b c" {
		t.Errorf("a cell is %q", got)
	}
}

func TestFlexibleColumnsMakeATableFit(t *testing.T) {
	t.Parallel()
	columns := []column{{"Id", "id", ident}, {"Name", "name", flexible}, {"Text", "text", flexible}}
	for available, want := range map[int][]int{
		200: {30, 20, 80}, 80: {30, 20, 26}, 60: {30, 13, 13}, 40: {16, 10, 10}, 36: {12, 10, 10}, 20: {12, 10, 10}, 0: {30, 20, 80},
	} {
		widths := []int{30, 20, 80}
		if fits := fit(columns, widths, available); fits != (available != 20) {
			t.Errorf("in %d columns: fits is %v", available, fits)
		}
		if diff := cmp.Diff(want, widths); diff != "" {
			t.Errorf("in %d columns: %s", available, diff)
		}
	}
}

func TestATableKeepsTheName(t *testing.T) {
	t.Parallel()
	row := strings.Fields("agt_06h0agjfkhqe36mpbdr9jvdn3k Refunds-of-the-museum-shop Default auto read_write 3 yesterday")
	heads := func(columns []column) (names []string) {
		for _, c := range columns {
			names = append(names, c.head)
		}
		return names
	}
	for _, c := range []struct {
		wide      bool
		available int
		want      string
	}{
		{false, 0, "Name Space Model Drive Version Changed"},
		{true, 0, "Name Space Model Drive Version Changed Id"},
		{false, 62, "Name Space Model Drive Version"},
		{false, 45, "Name Model Drive"},
		{true, 40, "Name Id"},
		{false, 10, "Name"},
	} {
		v := viewAgents
		v = v.table(c.wide)
		cells := []string{row[1], row[2], row[3], row[4], row[5], row[6], row[0]}[:len(v.columns)]
		columns, rows, widths := fitted(v.columns, [][]string{cells}, c.available)
		if got := strings.Join(heads(columns), " "); got != c.want || rows[0][0] != row[1] || widths[0] < min(narrowestName, max(c.available, 1)) && c.available > 0 {
			t.Errorf("in %d columns: %s, widths %v; want %s", c.available, got, widths, c.want)
		}
	}
	if got := heads(viewSessions.table(false).columns); got[0] != "Title" || got[len(got)-1] != "Id" {
		t.Errorf("sessions have the columns %v", got)
	}
}

func TestATableOfRecordsBeginsWithTheTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		view      view
		available int
		want      string
	}{
		{viewReceipts, 0, "Time Model In Out Credits Status Receipt"},
		{viewReceipts, 60, "Time Model In Out Credits Receipt"},
		{viewReceipts, 50, "Time Model Credits Receipt"},
		{viewRequests, 55, "Time Status Model Credits Request"},
		{viewAudit, 0, "Time Action Number Object Actor Request"},
		{viewRequests, 0, "Time Status Error Model In Out Credits ms Request"},
		{viewRequests, 75, "Time Status Model In Out Credits ms Request"}, // without the column that has no values
	} {
		v := c.view.table(false)
		var cells, heads []string
		for _, c := range v.columns {
			cells = append(cells, map[string]string{"Error": "–", "In": "1,432", "Out": "119", "ms": "6", "Time": "6 min ago", "Credits": "0.0017", "Model": "alpha-sonnet-5-5"}[c.head])
			switch {
			case c.kind == ident:
				cells[len(cells)-1] = "ses_06h1rn0bq1rkb8c8ectlqcocks.1.1"
			case cells[len(cells)-1] == "":
				cells[len(cells)-1] = "completed"
			}
		}
		columns, _, _ := fitted(v.columns, [][]string{cells}, c.available)
		for _, c := range columns {
			heads = append(heads, c.head)
		}
		if got := strings.Join(heads, " "); got != c.want {
			t.Errorf("in %d columns: %s; want %s", c.available, got, c.want)
		}
	}
}

func TestUsageByNameKeepsItsNumbers(t *testing.T) {
	t.Parallel()
	rows, err := withNames([]string{"agent"}, []jsonx.Value{jsonx.Value(`{"agentId":"agt_1","agentName":"Refunds","creditsMicro":316720,"calls":14}`)})
	if err != nil {
		t.Fatal(err)
	}
	row, err := decode(rows[0])
	if err != nil {
		t.Fatal(err)
	}
	o := &output{}
	var got []string
	for _, c := range viewUsage([]string{"agent"}).columns {
		got = append(got, o.format(c, row, true, true))
	}
	if want := "Refunds 14   0.3167 "; strings.Join(got, " ") != want {
		t.Errorf("a row of usage is %q, want %q", strings.Join(got, " "), want)
	}
}

func TestShortenedIdsKeepTheirEnds(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{"key_06h0agjfkhqe36mpbdr9jvdn3k": "key_…9jvdn3k", "schlüssel_06h0agjfkhq": "schlüssel_06h0agjfkhq"} {
		if got := shortenID(id, 12); got != want {
			t.Errorf("%s is shortened to %s, want %s", id, got, want)
		}
	}
}

func TestNearNamesAreFound(t *testing.T) {
	t.Parallel()
	names := []string{"Guide", "Museum guide", "support", "support", "helpdesk"}
	for name, want := range map[string][]string{
		"guide": {"Guide"}, "GUIDE": {"Guide"}, "sup": {"support"}, "suport": {"support"}, "suppotr": {"support"}, "Museum": {"Museum guide"},
		"xyz": nil, "": nil, "g": nil,
	} {
		if diff := cmp.Diff(want, near(name, names)); diff != "" {
			t.Errorf("near %q: %s", name, diff)
		}
	}
}

func TestLinesBreakBetweenWords(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                         "",
		"one two three":            "one two\nthree",
		"ses_06gviabge5omv7 and a": "ses_06gviabge5omv7\nand a",
		"日本語 日本語":                  "日本語\n日本語",
		"  x":                      "  x",
	} {
		if got := breakLine(line, 8); got != want {
			t.Errorf("%q is broken as %q, want %q", line, got, want)
		}
	}
}

func TestFieldsMakeAnObject(t *testing.T) {
	t.Parallel()
	e := &env{stdin: strings.NewReader("from stdin")}
	got, err := e.fields([]string{"a=1", "b[c]=x", "b[d][e]=y", "l[]=1", "l[]=2", "empty="}, []string{"n=1.5", "t=true", "z=null", "s=1.2.3", "f=@-"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := jsonText(got)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"a":"1","b":{"c":"x","d":{"e":"y"}},"empty":"","f":"from stdin","l":["1","2"],"n":1.5,"s":"1.2.3","t":true,"z":null}`
	if text != want {
		t.Errorf("got %s\nwant %s", text, want)
	}
	for _, bad := range []string{"a", "=x", "a[=x", "[b]=x", "a[]x=1"} {
		if _, err := e.fields([]string{bad}, nil); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestAModelCallGetsNoIdempotencyKey(t *testing.T) {
	t.Parallel()
	e := &env{}
	for path, once := range map[string]bool{"responses": true, "/api/v1/responses": true, "/responses/": true, "keys": false, "my/responses": false} {
		r, err := e.apiRequest([]string{"POST", path}, nil, nil, nil, "")
		if err != nil || r.Once != once {
			t.Errorf("POST %s is sent once only: %v (%v), want %v", path, r.Once, err, once)
		}
		r, err = e.apiRequest([]string{"POST", path}, nil, nil, []string{"Idempotency-Key: mine"}, "")
		if err != nil || r.Once {
			t.Errorf("POST %s with a key of its own: %v (%v)", path, r.Once, err)
		}
	}
}

func TestAddressesAreCompleted(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"127.0.0.1:8080": "http://127.0.0.1:8080", "localhost": "http://localhost", "stoa.example": "https://stoa.example",
		"http://stoa.example": "http://stoa.example", "": "", "[::1]:80": "http://[::1]:80",
	} {
		if got := address(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestTheProgramStartsWithoutHOME(t *testing.T) {
	t.Parallel()
	var printed []string
	for _, arg := range []string{"version", "--version"} {
		var out, errOut bytes.Buffer
		if code := Main(t.Context(), []string{arg}, nil, nil, strings.NewReader(""), &out, &errOut); code != 0 || !strings.HasPrefix(out.String(), "stoa ") {
			t.Errorf("%s exits with %d, %q, %q", arg, code, out.String(), errOut.String())
		}
		printed = append(printed, out.String())
	}
	if printed[0] != printed[1] {
		t.Errorf("version prints %q, --version %q", printed[0], printed[1])
	}
}

func jsonText(v any) (string, error) {
	raw, err := jsonx.Marshal(v)
	return string(raw), err
}

// TestOneWordForOneAct compares the words of commands with those of all nouns. The former words lead to
// the same commands, and help names none of them.
func TestOneWordForOneAct(t *testing.T) {
	t.Parallel()
	instead := map[string]string{"add": "create", "new": "create", "set": "create or update", "remove": "delete", "rm": "delete", "show": "get", "pause": "disable", "suspend": "disable", "resume": "enable", "upload": "create", "edit": "update", "ls": "list"}
	drive := map[string]bool{"stoa drive ls": true} // as in a shell, beside the verbs of files
	every((&env{}).root(), func(c *cobra.Command) {
		if word := instead[c.Name()]; word != "" && !drive[c.CommandPath()] {
			t.Errorf("%s: the word of all nouns is %s", c.CommandPath(), word)
		}
		for _, former := range c.Aliases {
			if help := helpText(c, style(false), 100); strings.Contains(help, " "+former+",") {
				t.Errorf("%s: help lists the former word %s", c.CommandPath(), former)
			}
		}
	})
	for path, words := range formerVerbs {
		now, _, err := (&env{}).root().Find(strings.Fields(path))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, word := range words {
			parent := strings.Fields(path)
			former, _, err := (&env{}).root().Find(append(parent[:len(parent)-1:len(parent)-1], word))
			if err != nil || former.CommandPath() != now.CommandPath() {
				t.Errorf("%s of %s leads to %v, %v", word, path, former, err)
			}
		}
	}
}
