package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/audit"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// sweep sweeps and returns the new deliveries of a webhook.
func (b *bench) sweep(id string) []store.Delivery {
	b.t.Helper()
	before := len(b.all(b.account.ID, id))
	if err := b.Sweep(context.Background()); err != nil {
		b.t.Fatal(err)
	}
	return b.all(b.account.ID, id)[before:]
}

// grant changes the credits of the account.
func (b *bench) grant(amount stoa.Credits) {
	b.write(func(ctx context.Context, tx *store.Tx) error {
		_, _, err := tx.Books().InsertGrant(ctx, stoa.Grant{AccountID: b.account.ID, Amount: amount, Reason: "test"})
		return err
	})
}

func TestLowCreditsAreToldOncePerCrossing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w, _ := b.hook(stoa.Webhook{Events: []string{CreditsLow, CreditsExhausted}, CreditsLow: 50 * stoa.Credit})
	low, _ := b.hook(stoa.Webhook{Events: []string{CreditsLow}})
	step := func(what string, amount stoa.Credits, want ...string) {
		t.Helper()
		b.grant(amount)
		for range 2 {
			var got []string
			for _, d := range b.sweep(w.ID) {
				got = append(got, d.Type)
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
			want = nil
		}
	}
	step("100 credits", 0+1)
	step("below the threshold", -51*stoa.Credit, CreditsLow)
	step("still below", -10*stoa.Credit)
	step("nothing", -39*stoa.Credit, CreditsExhausted)
	step("topped up", 40*stoa.Credit)
	step("above the threshold", 60*stoa.Credit)
	step("below it again", -80*stoa.Credit, CreditsLow)
	var body struct{ Data creditsData }
	all := b.all(b.account.ID, w.ID)
	if err := json.Unmarshal([]byte(all[0].Body), &body); err != nil || body.Data.ThresholdMicro != 50_000_000 || body.Data.AvailableMicro != 49_000_001 || body.Data.AccountID != b.account.ID {
		t.Errorf("%s %v", all[0].Body, err)
	}
	if got := b.all(b.account.ID, low.ID); len(got) != 1 || got[0].Type != CreditsLow { // at its own threshold
		t.Errorf("%+v", got)
	}
}

func TestAKeyIsToldToExpireTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w, _ := b.hook(stoa.Webhook{Events: []string{KeyExpiring}})
	end := b.now().Add(20 * 24 * time.Hour).Truncate(time.Second)
	key := func(expires time.Time, revoked bool) (k stoa.Key) {
		b.write(func(ctx context.Context, tx *store.Tx) (err error) {
			k = stoa.Key{AccountID: b.account.ID, Name: "k", ExpiresAt: expires}
			if revoked {
				k.RevokedAt = tx.Now
			}
			k, err = tx.People().InsertKey(ctx, k, stoa.NewID("hash"))
			return err
		})
		return k
	}
	long, short := key(end, false), key(b.now().Add(3*24*time.Hour), false)
	key(b.now().Add(time.Hour), false) // its life is too short for an announcement
	key(end, true)
	key(time.Time{}, false)
	told := map[string]int{}
	for range 22 * 4 {
		for _, d := range b.sweep(w.ID) {
			var body struct{ Data keyData }
			if err := json.Unmarshal([]byte(d.Body), &body); err != nil {
				t.Fatal(err)
			}
			told[body.Data.KeyID]++
		}
		b.add(6 * time.Hour)
	}
	if len(told) != 2 || told[long.ID] != 2 || told[short.ID] != 1 {
		t.Errorf("%v, want 2 of %s and 1 of %s", told, long.ID, short.ID)
	}
}

// TestAPauseIsAnnounced: twice before each pause, for keys that members created and that work.
func TestAPauseIsAnnounced(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w, _ := b.hook(stoa.Webhook{Events: []string{KeyPauseSoon}})
	start := b.now()
	b.cfg.KeysPauseAfter = 10 * 24 * time.Hour
	key := func(k stoa.Key) stoa.Key {
		b.write(func(ctx context.Context, tx *store.Tx) (err error) {
			k.AccountID, k.SignedInAt = b.account.ID, start
			k, err = tx.People().InsertKey(ctx, k, stoa.NewID("hash"))
			return err
		})
		return k
	}
	of := key(stoa.Key{MemberID: "per_1"})
	key(stoa.Key{})
	key(stoa.Key{MemberID: "per_1", RevokedAt: start})
	key(stoa.Key{MemberID: "per_1", ExpiresAt: start.Add(24 * time.Hour)})
	key(stoa.Key{MemberID: "per_1", Kind: stoa.KeyOfMember})
	var told []string
	for day := range 20 {
		if day == 5 { // after the first announcement
			b.write(func(ctx context.Context, tx *store.Tx) error {
				tx.Now = b.now()
				return tx.People().SignedIn(ctx, "per_1")
			})
		}
		for _, d := range b.sweep(w.ID) {
			var body struct{ Data keyData }
			if err := json.Unmarshal([]byte(d.Body), &body); err != nil {
				t.Fatal(err)
			}
			if body.Data.KeyID != of.ID || body.Data.MemberID != "per_1" || body.Data.ExpiresAt != "" {
				t.Errorf("%s", d.Body)
			}
			told = append(told, strconv.Itoa(day)+" "+body.Data.PausesAt)
		}
		b.add(24 * time.Hour)
	}
	pause := func(days int) string { return store.EventTime(start.Add(time.Duration(days) * 24 * time.Hour)) }
	if want := []string{"3 " + pause(10), "8 " + pause(15), "14 " + pause(15)}; !slices.Equal(told, want) {
		t.Errorf("announced %q, want %q", told, want)
	}
}

// TestAuditEntriesAreAnnounced: to the account of the chain, without the object; those of the service
// to the oldest account; those of a transaction that is rolled back never.
func TestAuditEntriesAreAnnounced(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w, _ := b.hook(stoa.Webhook{Events: []string{AuditRecorded}})
	everything, _ := b.hook(stoa.Webhook{Events: []string{"*"}})
	var owner string
	b.write(func(ctx context.Context, tx *store.Tx) (err error) {
		for _, id := range []string{b.account.ID, "acc_other", audit.Service} {
			tx.Audit(audit.Entry{AccountID: id, Actor: "key_1", Action: "updateWebhook", Object: "whk_1", Before: `"secret"`})
		}
		owner, err = tx.People().OwnerAccount(ctx)
		return err
	})
	err := b.store.Write(t.Context(), func(tx *store.Tx) error {
		tx.Audit(audit.Entry{AccountID: b.account.ID, Action: "deleteWebhook"})
		return context.Canceled
	})
	if err == nil {
		t.Fatal("the transaction was committed")
	}
	var got []string
	for _, d := range b.all(b.account.ID, w.ID) {
		var body struct{ Data map[string]any }
		if err := json.Unmarshal([]byte(d.Body), &body); err != nil {
			t.Fatal(err)
		}
		hash, _ := body.Data["hash"].(string)
		if delete(body.Data, "hash"); len(hash) != 64 {
			t.Errorf("%s has no hash", d.Body)
		}
		got = append(got, fmt.Sprint(body.Data))
	}
	want := []string{fmt.Sprintf("map[accountId:%s action:updateWebhook actor:key_1 auditId:%s object:whk_1 seq:1]", b.account.ID, b.account.ID)}
	if owner == b.account.ID {
		want = append(want, fmt.Sprintf("map[accountId:%s action:updateWebhook actor:key_1 auditId:service object:whk_1 seq:1]", owner))
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if all := b.all(b.account.ID, everything.ID); len(all) > 0 {
		t.Errorf("* receives %v", all)
	}
}

// TestAuditLogsAreAnchoredDaily: the account receives the newest hash of its chain, and the
// oldest account that of the service.
func TestAuditLogsAreAnchoredDaily(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w, _ := b.hook(stoa.Webhook{Events: []string{AuditAnchor}})
	var oldest string
	change := func(accounts ...string) {
		b.write(func(ctx context.Context, tx *store.Tx) error {
			for _, id := range accounts {
				tx.Audit(audit.Entry{AccountID: id, Action: "updateWebhook"})
			}
			list, _, err := tx.Books().Accounts(ctx, store.AccountFilter{}, store.Page{Limit: 1, Asc: true})
			oldest = list[0].ID
			return err
		})
	}
	sweep := func() (seqs map[string]int64) {
		seqs = map[string]int64{}
		for _, d := range b.sweep(w.ID) {
			var body struct{ Data anchorData }
			if err := json.Unmarshal([]byte(d.Body), &body); err != nil || len(body.Data.Hash) != 64 || body.Data.AccountID != b.account.ID {
				t.Errorf("%s: %v", d.Body, err)
			}
			seqs[body.Data.AuditID] = body.Data.Seq
		}
		return seqs
	}
	want := func(step string, want map[string]int64) {
		t.Helper()
		if oldest != b.account.ID {
			delete(want, audit.Service)
		}
		if got := sweep(); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", step, got, want)
		}
	}
	change(b.account.ID, b.account.ID, audit.Service)
	want("on the first day", map[string]int64{})
	b.add(25 * time.Hour)
	want("a day later", map[string]int64{b.account.ID: 2, audit.Service: 1})
	change(b.account.ID)
	want("again", map[string]int64{})
	b.add(25 * time.Hour)
	want("another day later", map[string]int64{b.account.ID: 3})
	b.add(25 * time.Hour)
	want("without changes", map[string]int64{})
}

func TestTheBacklogIsCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hook(stoa.Webhook{URL: "https://example.com"})
	b.emit(3, Event{})
	b.add(time.Hour)
	b.sweep("")
	if n, lag := b.Backlog(); n != 3 || lag < time.Hour || lag > 2*time.Hour {
		t.Errorf("%d deliveries, %v", n, lag)
	}
}

func TestEventsAreThin(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w, _ := b.hook(stoa.Webhook{})
	long := strings.Repeat("<", 128) // six bytes each in JSON
	s := stoa.Session{
		ID: stoa.NewID("ses"), AccountID: b.account.ID, SpaceID: stoa.NewID("spc"), AgentID: stoa.NewID("agt"), Status: stoa.SessionWaiting,
		ExternalID: long, ExternalUserID: strings.Repeat("é<", 64), Title: "secret title", Reply: "secret reply", Metadata: map[string]string{"a": "secret"},
		Turn: stoa.Turn{Number: 1 << 60, Reason: "x", Failure: &stoa.Failure{Message: "secret"}}, LastSeq: 1 << 60, Trigger: stoa.Trigger{Type: "schedule", ID: stoa.NewID("run")},
		Pending: &stoa.Input{ID: stoa.NewID("inp"), Kind: "choice", Prompt: "secret prompt", Options: []string{"secret"}, ExpiresAt: time.Now()},
	}
	for range 16 {
		s.Pending.Calls = append(s.Pending.Calls, stoa.ExternalCall{Tool: strings.Repeat("t", 64), Arguments: `{"a":"secret"}`})
	}
	b.write(func(ctx context.Context, tx *store.Tx) error { return SessionStopped(ctx, tx, s) })
	d := b.all(b.account.ID, w.ID)[0]
	if len(d.Body) > 4<<10 || strings.Contains(d.Body, "secret") || !strings.Contains(d.Body, s.Pending.ID) || strings.Count(d.Body, strings.Repeat("t", 64)) != 16 {
		t.Errorf("%d bytes: %s", len(d.Body), d.Body)
	}
	for _, status := range []stoa.SessionStatus{stoa.SessionQueued, stoa.SessionRunning} {
		s.Status = status
		b.write(func(ctx context.Context, tx *store.Tx) error { return SessionStopped(ctx, tx, s) })
	}
	if n := len(b.all(b.account.ID, w.ID)); n != 1 {
		t.Errorf("%d events of a session that stopped once", n)
	}
}

func TestSkippedRunsShareEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w, _ := b.hook(stoa.Webhook{})
	at := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	var runs []stoa.TaskRun
	for i := range 1000 {
		runs = append(runs, stoa.TaskRun{ID: stoa.NewID("run"), ScheduledFor: at.Add(time.Duration(i) * time.Minute), SkipReason: "missed", Instants: 1})
	}
	runs[0].Instants, runs[0].Through = 50, at
	runs = append(runs, stoa.TaskRun{ID: stoa.NewID("run"), ScheduledFor: at, SkipReason: "overlap", Instants: 1})
	b.write(func(ctx context.Context, tx *store.Tx) error {
		return TaskRunsSkipped(ctx, tx, stoa.ScheduledTask{ID: "tsk_1", AccountID: b.account.ID, AgentID: "agt_1"}, runs)
	})
	all := b.all(b.account.ID, w.ID)
	if len(all) != 2 {
		t.Fatalf("%d events", len(all))
	}
	for _, d := range all {
		var body struct{ Data runData }
		if err := json.Unmarshal([]byte(d.Body), &body); err != nil {
			t.Fatal(err)
		}
		switch r := body.Data; r.SkipReason {
		case "missed":
			if r.Instants != 1049 || r.RunID != runs[999].ID || r.ScheduledThrough != store.EventTime(runs[999].ScheduledFor) || r.ScheduledFor != store.EventTime(at) || r.TaskID != "tsk_1" {
				t.Errorf("%+v", r)
			}
		case "overlap":
			if r.Instants != 1 || r.ScheduledThrough != "" || r.RunID != runs[1000].ID {
				t.Errorf("%+v", r)
			}
		default:
			t.Errorf("%+v", r)
		}
	}
}

// A webhook that does not work is announced to the others, once until it works again. Two that fail
// do not announce each other for ever.
func TestAFailingWebhookIsAnnouncedOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	hooks := []string{}
	for _, events := range [][]string{{WebhookFailing}, {SessionCompleted}, {"*"}} {
		w, _ := b.hook(stoa.Webhook{Events: events})
		hooks = append(hooks, w.ID)
	}
	watch, never, both := hooks[0], hooks[1], hooks[2]
	attempt := func(id string, ok bool) {
		b.write(func(ctx context.Context, tx *store.Tx) error {
			if ok {
				return tx.Operations().WebhookSucceeded(ctx, b.account.ID, id, b.now())
			}
			_, _, err := tx.Operations().WebhookFailed(ctx, b.account.ID, id, b.now(), false)
			return err
		})
	}
	// got returns the webhooks that are announced to another one.
	got := func(to string) (list []failingData) {
		for _, d := range b.sweep(to) {
			var body struct{ Data failingData }
			if err := json.Unmarshal([]byte(d.Body), &body); err != nil || d.Type != WebhookFailing {
				t.Errorf("%s %s: %v", d.Type, d.Body, err)
			}
			list = append(list, body.Data)
		}
		return list
	}
	since := b.now()
	attempt(never, false)
	b.add(FailingAfter - time.Second)
	if list := got(watch); len(list) != 0 {
		t.Errorf("before %v: %+v", FailingAfter, list)
	}
	b.add(time.Second)
	want := failingData{AccountID: b.account.ID, WebhookID: never, FailingSince: store.EventTime(since)}
	if list := got(watch); len(list) != 1 || list[0] != want {
		t.Errorf("of one that never worked: %+v", list)
	}
	attempt(both, false) // the announcement itself
	attempt(never, false)
	b.add(FailingAfter)
	if list := got(watch); len(list) != 1 || list[0].WebhookID != both {
		t.Errorf("of another one: %+v", list)
	}
	for range 3 {
		b.add(time.Hour)
		if list := got(watch); len(list) != 0 {
			t.Errorf("again: %+v", list)
		}
	}
	if n := len(b.all(b.account.ID, both)); n != 1 {
		t.Errorf("the other one has %d deliveries", n)
	}
	worked := b.now()
	attempt(never, true)
	b.add(time.Hour)
	attempt(never, false)
	b.add(FailingAfter)
	if list := got(watch); len(list) != 1 || list[0].LastSuccessAt != store.EventTime(worked) {
		t.Errorf("when it failed again: %+v", list)
	}
	b.write(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Operations().DisableWebhook(ctx, b.account.ID, both, stoa.WebhookDisabledByUser)
		return err
	})
	if n := len(b.all(b.account.ID, watch)); n != 3 {
		t.Errorf("%d announcements", n)
	}
	// A webhook for alerts of the service is announced to the others of its kind only.
	alerts, _ := b.hook(stoa.Webhook{Events: []string{NodeLost}, Service: true})
	oncall, _ := b.hook(stoa.Webhook{Events: []string{"*"}, Service: true})
	attempt(alerts.ID, false)
	b.add(FailingAfter)
	if list := got(oncall.ID); len(list) != 1 || list[0].WebhookID != alerts.ID {
		t.Errorf("to the other one for alerts: %+v", list)
	}
	if n := len(b.all(b.account.ID, watch)); n != 3 {
		t.Errorf("%d announcements with those for alerts", n)
	}
}
