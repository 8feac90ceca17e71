package tool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
	"stoa/internal/testkit/fakemcp"
	"stoa/internal/testkit/storetest"
)

// A bench is a connection to a fake.
type bench struct {
	*Tools
	t          *testing.T
	f          *fakemcp.Server
	account    string
	space      string
	connection string
}

func newBench(t *testing.T, o fakemcp.Options) *bench {
	t.Helper()
	v, err := vault.Open(nil, "")
	if err != nil {
		t.Fatal(err)
	}
	st := storetest.New(t).Open()
	b := &bench{t: t, f: fakemcp.Start(t, o)}
	b.Tools = &Tools{Store: st, Vault: v, Network: b.f.Network(), Version: "test", Logger: slog.New(slog.DiscardHandler)}
	b.account = storetest.Account(t, st, 0).ID
	b.write(func(ctx context.Context, tx *store.Tx) error {
		space, err := tx.Setup().DefaultSpace(ctx, b.account)
		if err != nil {
			return err
		}
		b.space = space.ID
		c, err := tx.Setup().InsertConnection(ctx, store.Connection{AccountID: b.account, SpaceID: space.ID, Kind: store.KindMCP, Name: "fake", URL: b.f.URL})
		b.connection = c.ID
		return err
	})
	return b
}

func (b *bench) write(fn func(ctx context.Context, tx *store.Tx) error) {
	b.t.Helper()
	ctx := b.t.Context()
	if err := b.Store.Write(ctx, func(tx *store.Tx) error { return fn(ctx, tx) }); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) refresh() Difference {
	b.t.Helper()
	d, err := b.Refresh(b.t.Context(), b.account, b.connection)
	if err != nil {
		b.t.Fatal(err)
	}
	return d
}

// rows returns the stored catalog, by name.
func (b *bench) rows() map[string]store.ConnectionTool {
	b.t.Helper()
	all := map[string]store.ConnectionTool{}
	b.write(func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Setup().ConnectionTools(ctx, b.account, b.connection)
		for _, row := range rows {
			all[row.Name] = row
		}
		return err
	})
	return all
}

// kept returns the connection.
func (b *bench) kept() (c store.Connection) {
	b.t.Helper()
	b.write(func(ctx context.Context, tx *store.Tx) (err error) {
		c, err = tx.Setup().Connection(ctx, b.account, b.connection)
		return err
	})
	return c
}

// approve refreshes the catalog and approves tools as their annotations suggest.
func (b *bench) approve(names ...string) {
	b.t.Helper()
	b.refresh()
	rows := b.rows()
	b.write(func(ctx context.Context, tx *store.Tx) error {
		var all []Decision
		for _, name := range names {
			all = append(all, Decision{Name: name, SHA256: rows[name].SHA256, Approve: true})
		}
		return Review(ctx, tx, b.account, b.connection, all)
	})
}

// call makes a trial call of a tool.
func (b *bench) call(name, order string) (Outcome, error) {
	return b.Try(b.t.Context(), b.account, b.connection, Trial{Tool: name, Arguments: fmt.Appendf(nil, `{"order":%q}`, order), Confirm: true})
}

// TestACallThatFailsIsAnOutcome has every class of failure, none of which is an error.
func TestACallThatFailsIsAnOutcome(t *testing.T) {
	t.Parallel()
	for _, o := range []fakemcp.Options{{}, {Legacy: true}} {
		b := newBench(t, o)
		b.approve(fakemcp.Act)
		for order, want := range map[string]string{
			"": "ok", "error": "error", "block": "ok", "reset": "unknown", "500": "unknown", "truncated": "unknown", "429": "refused", "-32602": "refused", "307": "unknown",
		} {
			out, err := b.call(fakemcp.Act, order)
			if err != nil || out.Outcome != want || (out.Message == "") != (out.Result != nil) || b.f.Effects(out.CallID) > 1 || want == "refused" && b.f.Effects(out.CallID) > 0 {
				t.Errorf("%q: %+v, %v, %d effects", order, out, err, b.f.Effects(out.CallID))
			}
		}
		calls := b.f.Calls()
		sessions := map[string]bool{}
		for _, c := range calls {
			if o.Legacy && (c.Session == "" || sessions[c.Session]) {
				t.Errorf("two calls share the session %q", c.Session)
			}
			sessions[c.Session] = true
		}
		if _, open := b.f.Sessions(); open > 0 {
			t.Errorf("%d sessions are open", open)
		}
		b.f.Stop()
		if out, err := b.call(fakemcp.Act, ""); err != nil || out.Outcome != "not_sent" {
			t.Errorf("%+v, %v", out, err)
		}
	}
}

// TestARefreshThatFailsKeepsTheCatalog has servers that cannot be reached: the decisions
// stay, and the connection reports the fault.
func TestARefreshThatFailsKeepsTheCatalog(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakemcp.Options{})
	b.approve(fakemcp.Read)
	before := b.rows()
	for order, want := range map[string]string{
		"401": NeedsAuthorization, "403": NeedsAuthorization, "500": "tool_server_error", "html": "tool_server_error", "truncated": "tool_server_error",
		"endless": "tool_server_error", "501": "tool_server_error", "large": "tool_server_error", "gzip": "tool_server_error", "reset": "tool_server_error", "-32603": "tool_server_error",
	} {
		b.f.Always("tools/list", order)
		_, err := b.Refresh(t.Context(), b.account, b.connection)
		c := b.kept()
		if stoa.CodeOf(err) != stoa.CodeToolServer || c.ErrorCode != want || c.ErrorMessage != stoa.AsError(err).Message {
			t.Errorf("%s: %v, kept as %s: %s", order, err, c.ErrorCode, c.ErrorMessage)
		}
		if now := b.rows(); len(now) != len(before) || now[fakemcp.Read].State != store.ToolApproved {
			t.Errorf("%s: %d tools of %d, read is %s", order, len(now), len(before), now[fakemcp.Read].State)
		}
	}
	b.f.Always("tools/list", "same")
	if d := b.refresh(); d.Unchanged != 4 || !strings.HasPrefix(b.kept().Instructions, "(The server's list of tools does not end") {
		t.Errorf("a list that repeats its cursor: %+v", d)
	}
	b.f.Always("tools/list", "")
	if d := b.refresh(); d.Unchanged != 4 || d.Connection.ErrorCode != "" {
		t.Errorf("%+v", d)
	}
}

// TestAHostileCatalogIsKept has unusable definitions next to good ones, and invisible
// characters in the server's texts.
func TestAHostileCatalogIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakemcp.Options{})
	b.f.SetTools(append(fakemcp.WrongTools(), fakemcp.Tools()...)...)
	d := b.refresh()
	if got := d.Connection.Tools; got[store.ToolNew] != 5 || got[store.ToolInvalid] != 8 {
		t.Errorf("%v", got)
	}
	if c := b.kept(); c.Instructions != fakemcp.Instructions || c.Protocol != fakemcp.Modern {
		t.Errorf("%+v", c)
	}
	rows := b.rows()
	var wrong []string
	for name, row := range rows {
		if row.Problem != "" {
			wrong = append(wrong, name)
			err := b.Store.Write(t.Context(), func(tx *store.Tx) error {
				return Review(t.Context(), tx, b.account, b.connection, []Decision{
					{Name: fakemcp.Act, SHA256: rows[fakemcp.Act].SHA256, Approve: true, Approval: "always", Effects: "once"},
					{Name: name, SHA256: row.SHA256, Approve: true},
				})
			})
			if stoa.CodeOf(err) != stoa.CodeInvalidValue {
				t.Errorf("%s is approved: %v", name, err)
			}
		}
	}
	slices.Sort(wrong)
	if want := []string{"(entry 1)", "(entry 2)", "(entry 3)", "(entry 4)", "(entry 9)", "listed", "remote", "twice"}; !slices.Equal(wrong, want) {
		t.Errorf("%v", wrong)
	}
	if got := b.rows()[fakemcp.Act].State; got != store.ToolNew {
		t.Errorf("act is %s after reviews that failed", got)
	}
	if again := b.refresh(); again.Unchanged != len(rows) || len(again.Added)+len(again.Changed)+len(again.Missing) > 0 {
		t.Errorf("the same catalog again: %+v", again)
	}
}

// TestNamesOfToolsAreKept checks that names of tools for models are distinct, and stay as they
// are when other tools come and go.
func TestNamesOfToolsAreKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakemcp.Options{})
	set := func(names ...string) (all []string) {
		var definitions []string
		for _, name := range names {
			definitions = append(definitions, `{"name":"`+name+`","inputSchema":{"type":"object"}}`)
		}
		b.f.SetTools(definitions...)
		b.refresh()
		rows := b.rows()
		for _, name := range names {
			all = append(all, strings.TrimPrefix(rows[name].ModelName, b.kept().Name+"__"))
		}
		return all
	}
	for _, c := range []struct{ names, want []string }{
		{[]string{"issues/add", "x.y"}, []string{"issues_add", "x_y"}},
		{[]string{"a.dd", "a/dd", "issues_add", "issues/add", "x.y"}, []string{"a_dd", "a_dd_2e40", "issues_add_0f9b", "issues_add", "x_y"}},
		{[]string{"a_b", "a.b"}, []string{"a_b", "a_b_2e73"}},
	} {
		got := set(c.names...)
		if !slices.Equal(got, c.want) {
			t.Errorf("%q are named %q, want %q", c.names, got, c.want)
		}
	}
}

// TestAChangedToolKeepsItsName has a tool that was named by an older version of the service.
func TestAChangedToolKeepsItsName(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakemcp.Options{})
	b.refresh()
	row := b.rows()[fakemcp.Act]
	row.ModelName = "old_name_1f2e"
	b.write(func(ctx context.Context, tx *store.Tx) error { return tx.Setup().PutConnectionTool(ctx, row) })
	b.f.Change("Acts.", "Acts again.")
	if d := b.refresh(); !slices.Equal(d.Changed, []string{fakemcp.Act}) || b.rows()[fakemcp.Act].ModelName != "old_name_1f2e" {
		t.Errorf("%+v, %+v", d, b.rows()[fakemcp.Act])
	}
}

// TestAChangeTakesTheToolAway changes the definition of an approved tool in ways that a
// reader may not notice. An insignificant difference is not a change.
func TestAChangeTakesTheToolAway(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakemcp.Options{})
	b.approve(fakemcp.Act, fakemcp.Put)
	for _, c := range []struct {
		name, old, new string
		want           store.ToolState
	}{
		{"a space without width", "Acts.", "Acts\u200b.", store.ToolChanged},
		{"a mark of direction", "Acts.", "Acts\u202e.", store.ToolChanged},
		{"a number", `"maxLength":1.0`, `"maxLength":1`, store.ToolChanged},
		{"the title", `"title":"Act"`, `"title":"act"`, store.ToolChanged},
		{"a hint", `"description":"Acts."`, `"description":"Acts.","annotations":{"readOnlyHint":true}`, store.ToolChanged},
		{"a default", `"text":{`, `"text":{"default":"x",`, store.ToolChanged},
		{"the name", `"name":"act"`, `"name":"Act"`, store.ToolMissing},
		{"the order", `"title":"Act","description":"Acts."`, `"description":"Acts.", "title" : "Act"`, store.ToolApproved},
		{"what is not reviewed", `"title":"Act"`, `"title":"Act","icons":[]`, store.ToolApproved},
		{"an escape", "Acts.", `\u0041cts.`, store.ToolApproved},
	} {
		b.f.Change(c.old, c.new)
		b.refresh()
		if got := b.rows()[fakemcp.Act].State; got != c.want {
			t.Errorf("%s: it is %s", c.name, got)
		}
		before := len(b.f.Calls())
		out, err := b.call(fakemcp.Act, "")
		if called := len(b.f.Calls()) > before; called != (c.want == store.ToolApproved) || called == (err != nil) {
			t.Errorf("%s: %+v, %v", c.name, out, err)
		}
		offered, withheld := b.offer(fakemcp.Act)
		if reason := map[store.ToolState]string{store.ToolChanged: stoa.WithheldChanged, store.ToolMissing: stoa.WithheldMissing}[c.want]; reason != "" {
			if len(offered) != 0 || len(withheld) != 1 || withheld[0].Reason != reason {
				t.Errorf("%s: %+v is offered, %+v withheld", c.name, offered, withheld)
			}
		} else if len(offered) != 1 || offered[0].Description != "Acts." {
			t.Errorf("%s: %+v is offered, %+v withheld", c.name, offered, withheld)
		}
		b.f.SetTools(fakemcp.Tools()...)
		b.refresh()
		if got := b.rows()[fakemcp.Act].State; got != store.ToolApproved {
			t.Fatalf("%s: it is %s when the approved definition is back", c.name, got)
		}
	}
}

// offer returns what a turn offers of the connection's tools.
func (b *bench) offer(names ...string) (offered []stoa.OfferedTool, withheld []stoa.Withheld) {
	b.t.Helper()
	b.write(func(ctx context.Context, tx *store.Tx) (err error) {
		offered, withheld, err = Offer(ctx, tx, Audience{AccountID: b.account, SpaceID: b.space}, []stoa.AgentTool{{Type: stoa.ToolConnection, ConnectionID: b.connection, Allow: names}}, nil)
		return err
	})
	return offered, withheld
}

// TestAModelReadsNothingInvisible lets a person approve a tool with invisible characters.
// Neither they nor the server's description of itself reach a model.
func TestAModelReadsNothingInvisible(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakemcp.Options{})
	b.f.Change("Acts.", "Acts\u200b \u202egnihton\u202c.\\u0007")
	b.f.Change(`"text":{`, `"text":{"description":"a\u2066b\udb40\udc41c",`)
	b.approve(fakemcp.Act)
	offered, _ := b.offer(fakemcp.Act)
	if len(offered) != 1 {
		t.Fatal("it is not offered")
	}
	if text := offered[0].Description + offered[0].Parameters; strings.ContainsAny(text, "\u200b\u202e\u202c\u0007\u2066\U000e0041") || strings.Contains(text, "Ignore all") || !strings.Contains(text, "abc") {
		t.Errorf("%q", text)
	}
}

// TestEachAccountAsksFewServers starts the maximum number of concurrent exchanges of an
// account.
func TestEachAccountAsksFewServers(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakemcp.Options{})
	b.approve(fakemcp.Act)
	ended := make(chan error, perAccount)
	for range perAccount {
		go func() {
			_, err := b.call(fakemcp.Act, "hold")
			ended <- err
		}()
	}
	b.f.Await(func(all []fakemcp.Call) bool { return len(all) == perAccount })
	if out, err := b.call(fakemcp.Act, ""); stoa.CodeOf(err) != stoa.CodeRateLimit {
		t.Errorf("%+v, %v", out, err)
	}
	b.f.Release()
	for range perAccount {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if out, err := b.call(fakemcp.Act, ""); err != nil || out.Outcome != "ok" {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestACallerWhoLeaves has a caller that disconnects before the server answers: nothing is
// recorded of a refresh, and the outcome of a call is unknown.
func TestACallerWhoLeaves(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakemcp.Options{})
	b.approve(fakemcp.Act)
	revision := b.kept().Revision
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		b.f.Await(func(all []fakemcp.Call) bool { return len(all) == 1 })
		leave()
	}()
	out, err := b.Try(ctx, b.account, b.connection, Trial{Tool: fakemcp.Act, Arguments: []byte(`{"order":"hang"}`), Confirm: true})
	if err != nil || out.Outcome != "unknown" {
		t.Errorf("%+v, %v", out, err)
	}
	if _, err := b.Refresh(ctx, b.account, b.connection); !errors.Is(err, context.Canceled) || b.kept().Revision != revision {
		t.Errorf("%v, revision %d of %d", err, b.kept().Revision, revision)
	}
}

// TestSlowServersDelayNoRefresh has the servers of one account not answer: the connection of
// another account is refreshed meanwhile.
func TestSlowServersDelayNoRefresh(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakemcp.Options{})
	asked, goOn := make(chan struct{}, 1000), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{}; <-goOn }))
	defer slow.Close()
	var live store.Connection
	other := storetest.Account(t, b.Store, 0).ID
	b.write(func(ctx context.Context, tx *store.Tx) error {
		for i, account := range []string{b.account, other} {
			space, err := tx.Setup().DefaultSpace(ctx, account)
			if err != nil {
				return err
			}
			for range 6 - 5*i {
				url := slow.URL
				if i > 0 {
					url = b.f.URL
				}
				c, err := tx.Setup().InsertConnection(ctx, store.Connection{AccountID: account, SpaceID: space.ID, Kind: store.KindMCP, Name: stoa.NewID("con"), URL: url})
				if err != nil {
					return err
				}
				if _, err := tx.Setup().InsertAgent(ctx, stoa.Agent{AccountID: account, SpaceID: space.ID, Name: "a", AgentSettings: stoa.AgentSettings{Tools: []stoa.AgentTool{{Type: stoa.ToolConnection, ConnectionID: c.ID}}}}); err != nil {
					return err
				}
				live = c
			}
		}
		_, err := tx.Exec(ctx, `UPDATE connections SET checked_at = 1, refresh_at = 1`)
		return err
	})
	var sweep sync.WaitGroup
	sweep.Go(func() {
		if err := b.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
	})
	<-asked
	for checked := false; !checked; {
		b.write(func(ctx context.Context, tx *store.Tx) error {
			c, err := tx.Setup().Connection(ctx, live.AccountID, live.ID)
			checked = c.CheckedAt.After(time.Unix(1, 0))
			return err
		})
	}
	if n := len(asked); n > 0 {
		t.Errorf("%d more refreshes of the account with slow servers have begun", n)
	}
	close(goOn)
	sweep.Wait()
}
