package web_test

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/browsertest"
)

var filledCustomers = flag.Int("customers", 40, "the number of customers of TestFilledServiceFitsIntoEveryWindow; nightly: 1000, with 300 agents and 5000 sessions")

// A filled service has what its customers did in a month: everything was done through its API within minutes, then times
// were moved to the days.
type filled struct {
	*apitest.Service
	t                         *testing.T
	agents, accounts, session []string // ids; the session has an agent
	task, webhook             string
}

// fill makes customers, agents and calls. Three of the days have none.
func fill(t *testing.T, customers int) *filled {
	f := &filled{Service: apitest.Start(t, apitest.Config{Grant: 1_000_000 * stoa.Credit, Allow: []string{onLoopback}}), t: t}
	r := rand.New(rand.NewPCG(1, 2))
	var me struct{ DefaultSpaceID string }
	f.call(f.Key, "GET", "/users/me", nil, &me)
	first := []string{"Northwind", "Blue Harbour", "Acme", "Fernhill", "Kestrel", "Lumen", "Oakridge", "Pine Street", "Quarry Lane", "Sable", "Tidewater", "Vermilion"}
	second := []string{"Traders", "Clinics", "Logistics", "Books", "Software GmbH", "Insurance Services of the Lower Rhine", "Bakery", "Studios"}
	began := time.Now()
	type customer struct{ id, key string }
	list := make([]customer, customers)
	f.together(customers, func(i int) {
		name := fmt.Sprintf("%s %s %d", first[i%len(first)], second[i/len(first)%len(second)], i+1)
		var made struct{ ID, Secret string }
		f.call(f.Key, "POST", "/accounts", map[string]any{"name": name, "plan": []string{"free", "pro"}[i%2], "grantMicro": 1_000_000 * (1 + i*i%5000)}, &made)
		list[i].id = made.ID
		f.call(f.Key, "POST", "/accounts/"+made.ID+"/keys", map[string]any{"name": "Server of " + name, "scopes": []string{"*"}}, &made)
		list[i].key = made.Secret
		if i%10 == 0 {
			f.call(f.Key, "POST", "/accounts/"+list[i].id+"/budgets", map[string]any{"scope": "account", "period": "month", "limitMicro": 5_000_000}, nil)
		}
	})
	for _, c := range list {
		f.accounts = append(f.accounts, c.id)
	}
	for i, scope := range []string{"account", "account", "end_user"} {
		body := map[string]any{"scope": scope, "period": []string{"day", "month", "week"}[i], "limitMicro": 20_000_000 * (1 + i)}
		if scope == "end_user" {
			body["subject"] = "user-1"
		}
		f.call(f.Key, "POST", "/budgets", body, nil)
	}
	for _, role := range stoa.Roles[:3] {
		f.NewMember(f.Account.ID, role, "")
	}

	// Agents, with what belongs to them.
	jobs := []string{"Answers about deliveries", "Reads invoices", "Support on the first level, in German, French and English", "Weekly report", "Onboarding"}
	count := max(6, customers*3/10)
	f.agents = make([]string, count)
	f.together(count, func(i int) {
		var made struct{ ID string }
		body := map[string]any{"spaceId": me.DefaultSpaceID, "name": fmt.Sprintf("%s %d", jobs[i%len(jobs)], i+1), "instructions": "Answer from the drive. Be brief.", "description": jobs[(i+2)%len(jobs)]}
		f.call(f.Key, "POST", "/api-agents", body, &made)
		f.agents[i] = made.ID
		agent := "/api-agents/" + made.ID
		f.call(f.Key, "PUT", agent+"/drive/files", map[string]any{"path": "notes/deliveries.md", "content": strings.Repeat("A parcel takes two days, on islands four.\n", 1+i%40)}, nil)
		if i%7 == 0 {
			f.call(f.Key, "POST", agent+"/scheduled-tasks", map[string]any{"name": "Daily report", "message": "Write the report.", "schedule": map[string]any{"type": "cron", "expression": "0 9 * * MON-FRI", "timezone": "Europe/Berlin"}}, &made)
			f.call(f.Key, "POST", agent+"/embed-tags", map[string]any{"allowedOrigins": []string{"https://www.example.com"}}, nil)
			f.call(f.Key, "POST", agent+"/embed-urls", map[string]any{"allowedOrigins": []string{"https://www.example.com"}}, nil)
		}
		if i == 0 {
			f.task = made.ID
			f.call(f.Key, "POST", agent+"/test-sets", map[string]any{"name": "Deliveries", "questions": []any{map[string]any{"message": "How long to an island?", "facts": []string{"four"}}}}, nil)
		}
	})
	var hook struct{ ID string }
	f.call(f.Key, "POST", "/webhooks", map[string]any{"url": "https://127.0.0.1:1/hooks", "events": []string{"session.failed"}}, &hook)
	f.webhook = hook.ID

	// A month. Few customers cause most of the calls.
	var models []string
	var catalog struct{ Data []struct{ ID string } }
	f.call(f.Key, "GET", "/models", nil, &catalog)
	for i, m := range catalog.Data {
		if i%4 == 0 && len(models) < 6 {
			models = append(models, m.ID)
		}
	}
	now := time.Now()
	today := now.Truncate(24 * time.Hour)
	type spell struct{ from, to, day time.Time }
	spells := []spell{{began, now, today.AddDate(0, 0, -31)}}
	orders := []string{"tokens: 40", "tokens: 400", "Thanks, and when does it arrive on an island?", "fail: 400", "ask: Which parcel? | the first | the second", "tokens: 90"}
	for day := 30; day >= 0; day-- {
		if day == 4 || day == 5 || day == 19 {
			continue
		}
		s := spell{from: time.Now(), day: today.AddDate(0, 0, -day)}
		calls, sessions := customers*8/10, max(4, customers/6)
		seeds := make([]int, calls+sessions)
		for i := range seeds {
			seeds[i] = r.IntN(1 << 30)
		}
		f.together(len(seeds), func(i int) {
			x := seeds[i]
			if i < calls {
				c := list[(x%customers)*(x>>8%customers)/customers%customers]
				f.call(c.key, "POST", "/responses", map[string]any{"model": models[x%len(models)], "input": fmt.Sprintf("tokens: %d\nQuestion %d of the day", 5+x%300, i)}, nil)
				return
			}
			var made struct{ ID string }
			agent := f.agents[x%len(f.agents)]
			f.call(f.Key, "POST", "/api-agents/"+agent+"/sessions", map[string]any{"message": orders[x%len(orders)], "mode": []string{"chat", "once"}[x%2], "externalUserId": fmt.Sprintf("user-%d", x%200)}, &made)
			f.call(f.Key, "GET", "/api-agents/"+agent+"/sessions/"+made.ID+"?waitSeconds=60", nil, nil)
			if i == calls {
				f.session = []string{agent, made.ID}
			}
		})
		s.to = time.Now()
		spells = append(spells, s)
	}

	// The times of each spell become hours of its day, those of the last one at most the present.
	ctx := context.Background()
	f.write(func(tx *store.Tx) {
		for _, s := range spells {
			begin, long := s.day.Add(7*time.Hour), 11*time.Hour
			if s.day.Equal(today) {
				begin = now.Add(-min(long, now.Sub(today)))
				long = now.Sub(begin)
			}
			f.move(tx, s.from, s.to, begin, long)
		}
		for _, statement := range []string{
			`DELETE FROM charge_days`, `DELETE FROM charge_hours`,
			`INSERT INTO charge_hours_fill (id, begun_at, filled_at, account_id, hour) VALUES (1, 0, 0, '', 0) ON CONFLICT (id) DO UPDATE SET begun_at = 0, filled_at = 0, account_id = '', hour = 0`,
			`INSERT INTO charge_days (account_id, day, node_id, amount) SELECT account_id, created_at / 86400000000, node_id, SUM(amount) FROM charges GROUP BY 1, 2, 3`,
			`INSERT INTO charge_days (account_id, day, node_id, amount) SELECT agent_id, created_at / 86400000000, node_id, SUM(amount) FROM charges WHERE agent_id <> '' GROUP BY 1, 2, 3 HAVING SUM(amount) > 0`,
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	})
	if err := billing.FillHours(ctx, f.Store); err != nil {
		t.Fatal(err)
	}
	return f
}

// together does things at the same time.
func (f *filled) together(n int, do func(i int)) {
	var group sync.WaitGroup
	next := make(chan int)
	for range 8 {
		group.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
}

func (f *filled) call(key, method, path string, body, into any) {
	sent, err := json.Marshal(body)
	if err != nil {
		f.t.Error(err)
		return
	}
	req, err := http.NewRequest(method, f.URL+"/api/v1"+path, bytes.NewReader(sent))
	if err != nil {
		f.t.Error(err)
		return
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := f.HTTP.Client().Do(req)
	if err != nil {
		f.t.Error(err)
		return
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err == nil && into != nil && resp.StatusCode < 300 {
		err = json.Unmarshal(got, into)
	}
	if err != nil || resp.StatusCode >= 300 && resp.StatusCode != http.StatusPaymentRequired && resp.StatusCode != http.StatusForbidden {
		f.t.Errorf("%s %s: %d %.300s %v", method, path, resp.StatusCode, got, err)
	}
}

func (f *filled) write(do func(tx *store.Tx)) {
	f.t.Helper()
	if err := f.Store.Write(context.Background(), func(tx *store.Tx) error { do(tx); return nil }); err != nil {
		f.t.Fatal(err)
	}
}

// move changes the times between from and to, in all columns of numbers, to those of a span that begins at begin.
func (f *filled) move(tx *store.Tx, from, to, begin time.Time, long time.Duration) {
	f.t.Helper()
	ctx := context.Background()
	var columns [][2]string
	err := tx.Query(ctx, func(rows *sql.Rows) error {
		var c [2]string
		err := rows.Scan(&c[0], &c[1])
		columns = append(columns, c)
		return err
	}, `SELECT m.name, p.name FROM sqlite_schema m JOIN pragma_table_info(m.name) p
		WHERE m.type = 'table' AND p.type IN ('BIGINT', 'INTEGER') AND m.name NOT IN ('nodes', 'runners', 'leases', 'audit', 'console_sessions')`)
	if err != nil {
		f.t.Fatal(err)
	}
	factor := float64(long) / float64(to.Sub(from))
	for _, c := range columns {
		statement := fmt.Sprintf(`UPDATE %[1]s SET %[2]s = $1 + CAST((%[2]s - $2) * $3 AS BIGINT) WHERE %[2]s BETWEEN $2 AND $4`, c[0], c[1])
		if _, err := tx.Exec(ctx, statement, begin.UnixMicro(), from.UnixMicro(), factor, to.UnixMicro()); err != nil {
			f.t.Fatalf("%s: %v", statement, err)
		}
	}
}

// pages returns the addresses of the console's pages.
func (f *filled) pages() []string {
	agent, customer := "agents/"+f.agents[0], "accounts/"+f.accounts[0]
	return []string{
		"", "playground", "agents", agent, agent + "/settings", agent + "/drive", agent + "/sessions", agent + "/tasks", agent + "/tasks/" + f.task, agent + "/embeds", agent + "/tests", agent + "/versions",
		"agents/" + f.session[0] + "/sessions/" + f.session[1], "sessions", "feedback", "tool-calls", "connections", "webhooks", "webhooks/" + f.webhook, "usage", "credits", "credits/ledger", "credits/books",
		"invoices", "requests", "audit", "budgets", "keys", "members", "accounts", customer, customer + "/keys", customer + "/budgets", customer + "/ledger", customer + "/limits", customer + "/members", "providers", "nodes",
	}
}

// A viewer is a browser with the console.
type viewer interface {
	visit(address string)
	size(width int64, dark bool)
	value(expression string, into any)
	png() []byte
}

type firefox struct {
	*browsertest.Firefox
	t *testing.T
}

func (f firefox) visit(address string) { f.Open(address) }
func (f firefox) png() []byte          { return f.Picture() }
func (f firefox) size(width int64, dark bool) {
	f.Resize(width, 900)
	var done bool
	f.value(fmt.Sprintf(`(document.documentElement.dataset.theme = %q, true)`, map[bool]string{true: "dark", false: "light"}[dark]), &done)
}

func (f firefox) value(expression string, into any) {
	f.t.Helper()
	if err := f.Run(expression, into); err != nil {
		f.t.Fatalf("%.200s: %v", expression, err)
	}
}

type chromium struct{ *tab }

func (c chromium) visit(address string)        { c.do(chromedp.Navigate(address)) }
func (c chromium) size(width int64, dark bool) { c.as(look{"", dark, width, 900}) }
func (c chromium) value(expression string, into any) {
	c.t.Helper()
	got, err := chromedp.Run(c.ctx, chromedp.Evaluate[json.RawMessage](expression, chromedp.EvalAwaitPromise))
	if err == nil {
		err = json.Unmarshal(got, into)
	}
	if err != nil {
		c.t.Fatalf("%.200s: %v", expression, err)
	}
}

func (c chromium) png() []byte {
	c.t.Helper()
	got, err := chromedp.Run(c.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		c.t.Fatal(err)
	}
	return got
}

// All pages of a service that is in use fit into every window in Chromium and Firefox, and axe-core finds no barrier.
// In Chromium, they hardly move while they load.
func TestFilledServiceFitsIntoEveryWindow(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	f := fill(t, *filledCustomers)
	if t.Failed() {
		t.FailNow()
	}
	axe, err := os.ReadFile(filepath.Join("ui", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Logf("axe-core is not installed: %v", err)
	}
	look := func(t *testing.T, v viewer, shifts bool) {
		for _, page := range f.pages() {
			for _, width := range []int64{1440, 1024, 768, 390} {
				ends := width == 1440 || inAllLooks() && width == 390
				if v.size(width, false); ends {
					v.visit("about:blank")
					v.visit(f.URL + "/console#/" + page)
				}
				for done := false; !done; {
					v.value(settled, &done)
				}
				if shifts && ends {
					var got struct {
						Sum   float64
						Moved []string
					}
					if v.value(shifted, &got); got.Sum >= 0.1 {
						t.Errorf("#/%s at %d shifts by %.3f: %q", page, width, got.Sum, got.Moved)
					}
				}
				var found []string
				if v.value(misfits, &found); len(found) > 0 {
					t.Errorf("#/%s at %d: %s", page, width, strings.Join(found, "\n\t"))
				}
				for _, dark := range []bool{false, true} {
					if dark && !ends {
						continue
					}
					v.size(width, dark)
					if axe != nil && ends {
						var ready bool
						var barriers string
						if v.value(`"axe" in window`, &ready); !ready {
							v.value(`(() => {`+string(axe)+`; return true; })()`, &ready)
						}
						if v.value(lookForBarriers, &barriers); barriers != "" {
							t.Errorf("axe at %d, dark %t: %s", width, dark, barriers)
						}
					}
					if dir := os.Getenv("STOA_TEST_SCREENSHOTS"); dir != "" {
						short := strings.NewReplacer(f.agents[0], "A", f.accounts[0], "C", f.session[0], "A", f.session[1], "S", f.task, "T", f.webhook, "W", "/", "_")
						file := fmt.Sprintf("%s-%s-%d-%s.png", filepath.Base(t.Name()), short.Replace(cmp.Or(page, "overview")), width, map[bool]string{true: "dark", false: "light"}[dark])
						if err := os.WriteFile(filepath.Join(dir, file), v.png(), 0o644); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
		}
	}
	t.Run("Chromium", func(t *testing.T) {
		p := signIn(t, browser, f.URL, f.Key, "", looks()[0])
		look(t, chromium{p}, true)
	})
	t.Run("Firefox", func(t *testing.T) {
		v := firefox{browsertest.StartFirefox(t), t}
		v.visit(f.URL + "/console#key=" + f.Key)
		for done := false; !done; {
			v.value(browsertest.Press("Sign in"), &done)
		}
		for done := false; !done; {
			v.value(`!!document.querySelector(".rail")`, &done)
		}
		look(t, v, false)
	})
}
