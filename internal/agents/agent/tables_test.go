package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/xuri/excelize/v2"

	"stoa/internal/agents/drive"
	"stoa/internal/agents/session"
	"stoa/internal/base/extract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

func withTables(c *sessiontest.Config) { c.Tables = extract.New(extract.Config{}) }

func tableCall(name string, arguments map[string]any) stoa.ToolCall {
	text, err := json.Marshal(arguments)
	if err != nil {
		panic(err)
	}
	return stoa.ToolCall{ID: stoa.NewID("call"), Name: name, Arguments: string(text)}
}

func query(sql string) stoa.ToolCall {
	return tableCall("table_query", map[string]any{"sql": sql})
}

// salesBook makes a workbook with two sheets.
func salesBook(t *testing.T) []byte {
	t.Helper()
	f := excelize.NewFile()
	_ = f.SetSheetName("Sheet1", "Sales")
	_, _ = f.NewSheet("Targets")
	for at, row := range map[string][]any{"A1": {"Region", "Amount"}, "A2": {"North", 12.5}, "A3": {"South", 7.25}, "A4": {"North", 30}} {
		if err := f.SetSheetRow("Sales", at, &row); err != nil {
			t.Fatal(err)
		}
	}
	for at, row := range map[string][]any{"A1": {"Region", "Target"}, "A2": {"North", 40}, "A3": {"South", 10}} {
		if err := f.SetSheetRow("Targets", at, &row); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := f.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestAnAgentQueriesTables has an agent list and query the tables of its drive and of a message.
func TestAnAgentQueriesTables(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		l := &looker{steps: [][]stoa.ToolCall{
			{tableCall("table_list", map[string]any{})},
			{
				query(`SELECT sum(Amount) FROM q_sales__sales WHERE Region = 'North'`),
				query(`SELECT row_, Region FROM q_sales__sales WHERE Amount < 10`),
				query(`SELECT s.Region, sum(Amount) - Target AS rest FROM q_sales__sales s JOIN q_sales__targets t USING (Region) GROUP BY 1 ORDER BY 1`),
				query(`SELECT median(Preis) FROM preise`),
				query(`SELECT p.Preis FROM preise p JOIN extra e ON e.name = p.Name`),
				query(`SELECT Amuont FROM q_sales__sales`),
				query(`DROP TABLE preise`),
				query(` `),
				tableCall("table_list", map[string]any{"prefix": "ext"}),
				query(`SELECT * FROM q_sales`),
			},
		}}
		h := sessiontest.Build(t, home, sessiontest.Script(l.script))
		h.Drives.UseReader(extract.New(extract.Config{}))
		a, r := h.Agent(func(a *stoa.Agent) { a.Tables = true }), h.Service(withTables)
		p, err := drive.ParsePath("q/sales.xlsx")
		if err != nil {
			t.Fatal(err)
		}
		who := drive.Owner{AccountID: a.AccountID, AgentID: a.ID}
		if _, err := h.Drives.Put(t.Context(), who, p, drive.BytesContent(salesBook(t)), "", drive.Condition{}); err != nil {
			t.Fatal(err)
		}
		h.File(a, "Preise.csv", "Name;Preis\nStift;1,20\nHeft;2,50\nMappe;10,00\n")
		h.File(a, "readme.md", "no table")
		sessiontest.Run(t, r)
		extra := upload(t, h, a, "extra.csv", "", []byte("name,count\nHeft,3\n"))
		s := h.Begin(r, a, "look", func(req *session.StartRequest) { req.Uploads.IDs = []string{extra} })
		got := h.Until(r, s, stoa.SessionCompleted)
		h.CheckBooks(r, got)
		texts, _ := l.results()
		for i, want := range [][]string{
			{
				`{"table":"preise","firstRow":2,"lastRow":4,"rows":3,"columns":[{"name":"row_","type":"integer"},{"name":"Name","type":"text"},{"name":"Preis","type":"real"}],"firstRows":[[2,"Stift",1.2],[3,"Heft",2.5],[4,"Mappe",10]],"file":"Preise.csv"}`,
				`{"table":"q_sales__sales","sheet":"Sales"`, `{"table":"q_sales__targets"`, `"file":"extra.csv","attached":true}`,
			},
			{`{"columns":["sum(Amount)"],"rows":[[42.5]],"sources":["q/sales.xlsx, sheet Sales, rows 2–4"]}`},
			{`{"columns":["row_","Region"],"rows":[[3,"South"]],"sources":["q/sales.xlsx, sheet Sales, row 3"]}`},
			{`{"columns":["Region","rest"],"rows":[["North",2.5],["South",-2.75]],"sources":["q/sales.xlsx, sheet Sales, rows 2–4","q/sales.xlsx, sheet Targets, rows 2–3"]}`},
			{`"rows":[[2.5]],"sources":["Preise.csv, rows 2–4"]`},
			{`"rows":[[2.5]],"sources":["Preise.csv, rows 2–4","extra.csv, row 2 (attached)"]`},
			{"no such column: Amuont\nTables: q_sales__sales (row_, \"Region\" text, \"Amount\" real), q_sales__targets, preise, extra"},
			{`A query is one SELECT or WITH statement. It cannot begin with "drop".`},
			{"The argument sql is empty"},
			{`{"tables":[{"table":"extra"`},
			{"no such table: q_sales.\nTables: q_sales__sales, q_sales__targets, preise, extra"},
		} {
			for _, part := range want {
				if !strings.Contains(texts[i], part) {
					t.Errorf("result %d is %s, without %s", i, texts[i], part)
				}
			}
		}
		sources, err := r.Sources(t.Context(), h.Account.ID, a.ID, s.ID, 1, 1, 20)
		if err != nil {
			t.Fatal(err)
		}
		sources = slices.DeleteFunc(sources, func(s stoa.Source) bool { return s.Via != "read" || s.Path != "q/sales.xlsx" })
		for i := range sources {
			sources[i].SHA256 = ""
		}
		if diff := cmp.Diff([]stoa.Source{
			{Turn: 1, Path: "q/sales.xlsx", FromLine: 4, ToLine: 6, Place: "sheet Sales, rows 2–4", Via: "read"},
			{Turn: 1, Path: "q/sales.xlsx", FromLine: 5, ToLine: 5, Place: "sheet Sales, row 3", Via: "read"},
		}, sources[:min(len(sources), 2)]); diff != "" {
			t.Errorf("the sources (-want +got):\n%s", diff)
		}
	})
}

// TestTablesAreOffIfTheAgentDoesNotSaySo offers the tools to an agent that has them, and not to others.
func TestTablesAreOffIfTheAgentDoesNotSaySo(t *testing.T) {
	t.Parallel()
	var offered [][]string
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		var names []string
		for _, tool := range call.Tools {
			if strings.HasPrefix(tool.Name, "table_") {
				names = append(names, tool.Name)
			}
		}
		offered = append(offered, names)
		if len(offered) == 1 {
			sessiontest.Say(yield, "", query("SELECT 1"))
			return
		}
		sessiontest.Say(yield, "done")
	}))
	r := h.Service(withTables)
	sessiontest.Run(t, r)
	for _, on := range []bool{false, true} {
		a := h.Agent(func(a *stoa.Agent) { a.Tables = on })
		h.Until(r, h.Begin(r, a, "look"), stoa.SessionCompleted)
	}
	if diff := cmp.Diff([][]string{nil, nil, {"table_list", "table_query"}}, offered); diff != "" {
		t.Errorf("the tools (-want +got):\n%s", diff)
	}
}

// TestVisitorsQueryNoClosedDrive has an agent whose drive is closed, also only for a visitor, query the tables of a
// message only.
func TestVisitorsQueryNoClosedDrive(t *testing.T) {
	t.Parallel()
	own := func(*session.StartRequest) {}
	for name, tt := range map[string]struct {
		access   stoa.DriveAccess
		visitors stoa.VisitorDrive
		who      func(*session.StartRequest)
		open     bool
	}{
		"the agent's own session": {stoa.DriveReadOnly, stoa.VisitorDriveNone, own, true},
		"a visitor":               {stoa.DriveReadOnly, stoa.VisitorDriveNone, visitor, false},
		"an agent without drive":  {stoa.DriveNone, stoa.VisitorDriveRead, own, false},
	} {
		l := &looker{steps: [][]stoa.ToolCall{{tableCall("table_list", map[string]any{}), query("SELECT name FROM secret"), query("SELECT name FROM extra")}}}
		h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(l.script))
		a, r := h.Agent(func(a *stoa.Agent) { a.Tables, a.DriveAccess, a.VisitorDrive = true, tt.access, tt.visitors }), h.Service(withTables)
		h.File(a, "secret.csv", "name,salary\nAda,100\n")
		sessiontest.Run(t, r)
		extra := upload(t, h, a, "extra.csv", "", []byte("name,count\nHeft,3\n"))
		h.Until(r, h.Begin(r, a, "look", tt.who, func(req *session.StartRequest) { req.Uploads.IDs = []string{extra} }), stoa.SessionCompleted)
		texts, _ := l.results()
		if strings.Contains(texts[0], "secret") != tt.open || strings.Contains(texts[1], `[["Ada"]]`) != tt.open || !strings.Contains(texts[2], `[["Heft"]]`) {
			t.Errorf("%s: %q", name, texts)
		}
	}
}
