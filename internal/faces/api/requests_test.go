package api_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/oapi-codegen/nullable"

	"stoa/internal/base/config"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

// requestsOf returns the rows of the request log that a query gives, the newest
// first.
func requestsOf(t *testing.T, h *apitest.Service, c *apitest.Client, query string) []contract.Request {
	t.Helper()
	if err := h.Requests.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var list contract.RequestList
	c.Want(200, "GET", "/api/v1/requests?limit=100&"+query, nil).JSON(&list)
	return list.Data
}

// onEach runs a test on both databases. Only the plans of SQLite are checked.
func onEach(t *testing.T, test func(t *testing.T, database *storetest.Database)) {
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		if database.Config.PostgresURL != "" {
			database.Config.Observe = nil
		}
		test(t, &database)
	})
}

// logged reads the whole log of the service's account from the store.
func logged(t *testing.T, h *apitest.Service) (rows []store.RequestRow) {
	t.Helper()
	err := h.Store.Read(t.Context(), func(tx *store.Tx) (err error) {
		rows, _, err = tx.Operations().Requests(t.Context(), h.Account.ID, store.RequestFilter{}, store.Page{Limit: 10_000})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestEachRefusalHasOneRow has a call rejected in every way and searches for its row.
func TestEachRefusalHasOneRow(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, database *storetest.Database) {
		h := start(t, apitest.Config{Home: database, Plans: []stoa.Plan{{ID: "free"}, {ID: "tight", RequestsPerMinute: 1}}})
		c := h.Client(t)
		account := func(plan string, micro int64) (string, string) {
			var made contract.AccountWithKey
			c.Want(201, "POST", "/api/v1/accounts", object{"name": "one", "plan": plan, "grantMicro": micro}).JSON(&made)
			return made.ID, made.Key.Secret
		}
		free, secret := account("free", 100_000_000)
		poor, poorSecret := account("free", 1)
		busy, busySecret := account("tight", 100_000_000)
		suspended, suspendedSecret := account("free", 100_000_000)
		c.Want(200, "PATCH", "/api/v1/accounts/"+suspended, object{"suspended": true})
		reader, _ := h.NewKey(free, "usage:read")
		revoked, old := h.NewKey(free, "*")
		h.ClientWith(t, secret).Want(204, "DELETE", "/api/v1/keys/"+old.ID, nil)
		h.ClientWith(t, busySecret).Want(200, "POST", responses, body{"model": "auto", "input": "say: x"})
		claimed := map[string]string{"Idempotency-Key": "one"}
		h.ClientWith(t, secret).With("Idempotency-Key", "one").Want(200, "POST", responses, body{"model": "auto", "input": "say: x"})
		for _, r := range []struct {
			name, account, secret string
			body                  any
			header                map[string]string
			status                int
			code                  stoa.Code
			param                 string
		}{
			{"a revoked key", free, revoked, body{"model": "auto", "input": "x"}, nil, 401, stoa.CodeUnauthorized, ""},
			{"a key without the scope", free, reader, body{"model": "auto", "input": "x"}, nil, 403, stoa.CodeScope, ""},
			{"a suspended account", suspended, suspendedSecret, body{"model": "auto", "input": "x"}, nil, 403, stoa.CodeSuspended, ""},
			{"no JSON", free, secret, "{", nil, 400, stoa.CodeInvalidJSON, ""},
			{"a wrong member", free, secret, body{"model": "auto", "input": "x", "temperature": 9}, nil, 400, stoa.CodeInvalidValue, "temperature"},
			{"no such model", free, secret, body{"model": "none", "input": "x"}, nil, 400, stoa.CodeModelNotFound, "model"},
			{"a body that is too large", free, secret, body{"model": "auto", "input": strings.Repeat("x", 17<<20)}, nil, 413, stoa.CodeTooLarge, ""},
			{"another type", free, secret, body{"model": "auto", "input": "x"}, map[string]string{"Content-Type": "text/plain"}, 415, stoa.CodeMediaType, "Content-Type"},
			{"a key of another call", free, secret, body{"model": "auto", "input": "y"}, claimed, 422, stoa.CodeIdempotencyReused, ""},
			{"too few credits", poor, poorSecret, body{"model": "auto", "input": "x"}, nil, 429, stoa.CodeQuota, ""},
			{"too many requests", busy, busySecret, body{"model": "auto", "input": "x"}, nil, 429, stoa.CodeRateLimit, ""},
			{"a failure of the provider", free, secret, body{"model": "beta-3.8-flash", "input": "fail: 500"}, nil, 502, stoa.CodeUpstream, ""},
			{"no capacity", free, secret, body{"model": "beta-3.8-flash", "input": "fail: 529"}, nil, 503, stoa.CodeOverloaded, ""},
			{"a stream that breaks", free, secret, body{"model": "beta-3.8-flash", "input": "tokens: 9\nfail: 500 after 3", "stream": true}, nil, 200, stoa.CodeUpstream, ""},
		} {
			t.Run(r.name, func(t *testing.T) {
				of := "accountId=" + r.account
				before := len(requestsOf(t, h, c, of))
				caller := h.ClientWith(t, r.secret)
				for name, value := range r.header {
					caller = caller.With(name, value)
				}
				reply := caller.Do("POST", responses, r.body)
				all := requestsOf(t, h, c, of)
				if len(all) != before+1 {
					t.Fatalf("%d rows were added, want one", len(all)-before)
				}
				got := all[0]
				if got.ID != reply.Header.Get("x-request-id") || got.Status != reply.Status || got.Status != r.status {
					t.Errorf("the row %+v is not that of the reply %d %v", got, reply.Status, reply.Header)
				}
				if got.ErrorCode.MustGet() != string(r.code) || !got.ErrorParam.IsNull() && got.ErrorParam.MustGet() != r.param || got.ErrorParam.IsNull() != (r.param == "") {
					t.Errorf("the row has the error %v at %v, want %s at %q", got.ErrorCode, got.ErrorParam, r.code, r.param)
				}
				if got.CreditsMicro != 0 || !got.ReceiptID.IsNull() || got.AccountID != r.account {
					t.Errorf("the row is %+v", got)
				}
			})
		}
		h.ClientWith(t, "sk_00000000000000000000000000000000000000").Want(401, "POST", responses, body{"model": "auto", "input": "x"})
		c.Want(405, "GET", responses, nil)
		c.Want(200, "GET", "/api/v1/credits", nil)
		if all := requestsOf(t, h, c, ""); len(all) != 0 {
			t.Errorf("requests without a key, and others than model calls, have rows: %+v", all)
		}
	})
}

// TestARowAgreesWithItsReceipt makes calls in all forms.
func TestARowAgreesWithItsReceipt(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, database *storetest.Database) {
		h := start(t, apitest.Config{Home: database})
		c := h.Client(t)
		for _, call := range []body{
			{"model": "auto", "input": "say: whole"},
			{"model": "beta-3.8-flash", "input": "say: stream", "stream": true},
			{"model": "auto", "input": "tokens: 400", "max_output_tokens": 20},
			{"model": "auto", "input": "usage: none\nsay: estimated"},
		} {
			reply := c.Want(200, "POST", responses, call)
			if err := h.Requests.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			var got contract.Request
			c.Want(200, "GET", "/api/v1/requests/"+reply.Header.Get("x-request-id"), nil).JSON(&got)
			var r contract.Receipt
			c.Want(200, "GET", "/api/v1/receipts/"+got.ReceiptID.MustGet(), nil).JSON(&r)
			want := contract.Request{
				ID: got.ID, AccountID: h.Account.ID, AccountName: h.Account.Name, KeyID: r.KeyID, KeyName: r.KeyName, Model: got.Model, Provider: got.Provider, Attempts: 1, Status: 200,
				ErrorCode: got.ErrorCode, ErrorParam: got.ErrorParam, ClientAddress: got.ClientAddress,
				InputTokens: r.Usage.InputTokens, CachedInputTokens: r.Usage.CachedInputTokens, OutputTokens: r.Usage.OutputTokens, CreditsMicro: r.CreditsMicro,
				ResponseID: nullable.NewNullableWithValue(r.ID), ReceiptID: nullable.NewNullableWithValue(r.ID), Stream: call["stream"] == true, Estimated: r.Estimated, Clamped: r.Clamped,
				TimeToFirstTokenMilliseconds: got.TimeToFirstTokenMilliseconds, DurationMilliseconds: got.DurationMilliseconds,
				StartedAt: got.StartedAt, CreatedAt: got.CreatedAt,
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateComparable(contract.Time{})); diff != "" || !got.ErrorCode.IsNull() || !got.ErrorParam.IsNull() || !got.ClientAddress.IsNull() {
				t.Errorf("%v (-receipt +row)\n%s", call, diff)
			}
			if got.Model.Requested.MustGet() != r.Model.Requested || got.Model.Served.MustGet() != r.Model.Served || got.Provider.MustGet() != "sandbox" {
				t.Errorf("%+v, the receipt is %+v", got, r)
			}
			if first := got.TimeToFirstTokenMilliseconds.MustGet(); first < 1 || got.DurationMilliseconds < first || got.CreatedAt.Time().Before(got.StartedAt.Time()) {
				t.Errorf("the times are %+v", got)
			}
		}
		keyed := c.With("Idempotency-Key", "again")
		var earlier struct{ ID string }
		keyed.Want(200, "POST", responses, body{"model": "auto", "input": "say: once"}).JSON(&earlier)
		keyed.Want(200, "POST", responses, body{"model": "auto", "input": "say: once"})
		if got := requestsOf(t, h, c, "")[0]; !got.Replayed || got.CreditsMicro != 0 || !got.ReceiptID.IsNull() || got.ResponseID.MustGet() != earlier.ID {
			t.Errorf("the row of a repeated request is %+v", got)
		}
	})
}

// TestRequestsAreFiltered asks for rows by each filter.
func TestRequestsAreFiltered(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, database *storetest.Database) {
		h := start(t, apitest.Config{Home: database})
		c := h.Client(t)
		secret, key := h.NewKey(h.Account.ID, "*")
		other := h.ClientWith(t, secret)
		id := func(c *apitest.Client, b body) string { return c.Do("POST", responses, b).Header.Get("x-request-id") }
		a := id(c, body{"model": "auto", "input": "say: x"})
		b := id(other, body{"model": "alpha-haiku-4-5", "input": "say: x"})
		d := id(c, body{"model": "none", "input": "say: x"})
		e := id(c, body{"model": "alpha-haiku-4-5", "input": "fail: 529"})
		all := requestsOf(t, h, c, "")
		served := all[3].Model.Served.MustGet()
		middle := logged(t, h)[1].CreatedAt.Format(time.RFC3339Nano) // the API shows milliseconds
		for query, want := range map[string][]string{
			"":                      {e, d, b, a},
			"order=asc":             {a, b, d, e},
			"keyId=" + key.ID:       {b},
			"model=alpha-haiku-4-5": {e, b},
			"model=auto":            {a},
			"model=" + served:       {a},
			"provider=sandbox":      {e, b, a},
			"provider=none":         nil,
			"status=200":            {b, a},
			"status=4xx":            {d},
			"status=5xx":            {e},
			"errorCode=" + string(stoa.CodeOverloaded): {e},
			"minDurationMilliseconds=3600000":          nil,
			"from=" + middle:                           {e, d},
			"to=" + middle:                             {b, a},
			"accountId=" + h.Account.ID:                {e, d, b, a},
			"accountId=*":                              {e, d, b, a},
			"accountId=*&status=5xx&order=asc":         {e},
		} {
			var got []string
			for _, r := range requestsOf(t, h, c, query) {
				got = append(got, r.ID)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got)\n%s", query, diff)
			}
		}
		c.WantError(stoa.CodeInvalidValue, "GET", "/api/v1/requests?accountId=acc_none", nil)
		c.WantError(stoa.CodeInvalidValue, "GET", "/api/v1/requests?status=9xx", nil)
		other.WantError(stoa.CodeScope, "GET", "/api/v1/requests?accountId=*", nil)
		other.WantError(stoa.CodeScope, "GET", "/api/v1/requests?accountId=acc_none", nil)
		other.WantError(stoa.CodeNotFound, "GET", "/api/v1/requests/req_none", nil)
	})
}

// TestTheRequestLogHasNoTexts inserts a text in every place that a caller controls, and
// searches for it in the files of the database.
func TestTheRequestLogHasNoTexts(t *testing.T) {
	t.Parallel()
	database := storetest.SQLite(t) // its files are read
	h := start(t, apitest.Config{Home: &database})
	c := h.Client(t)
	const planted = "pineapple on a volcano"
	for _, b := range []any{
		body{"model": "auto", "input": "say: " + planted, "instructions": planted},
		body{"model": "auto", "input": "say: " + planted, "stream": true},
		body{"model": planted, "input": planted},
		body{"model": "auto", "input": []any{body{"role": "user", "content": []any{body{"type": "input_text", "text": planted, planted: 1}}}}},
		body{"model": "auto", "input": body{planted: planted}},
		body{"model": "auto", "input": "x", "text": body{"format": body{"type": planted}}},
		body{"model": "auto", "input": "x", "reasoning": body{"effort": planted}},
		body{"model": "auto", "input": "x", "metadata": body{planted: 1}},
		`{"model": "auto", "` + planted + `": `,
		body{"model": "beta-3.8-flash", "input": planted + "\nfail: 500"},
	} {
		c.Do("POST", responses, b)
	}
	if n := len(requestsOf(t, h, c, "")); n != 10 {
		t.Fatalf("%d rows", n)
	}
	files, err := filepath.Glob(filepath.Join(database.Config.Dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{planted, "pineapple", "volcano"} {
			if bytes.Contains(text, []byte(word)) {
				t.Errorf("%s has %q", filepath.Base(name), word)
			}
		}
	}
}

// TestFollowingHasNoGapsAndNoDoubles follows the log while calls are made and rows
// are written.
func TestFollowingHasNoGapsAndNoDoubles(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, database *storetest.Database) {
		h := start(t, apitest.Config{Home: database, Server: unlimited})
		c := h.Client(t)
		var list contract.RequestList
		c.Want(200, "GET", "/api/v1/requests", nil).JSON(&list)
		const callers, each = 4, 30
		ids := make(chan string, callers*each)
		for range callers {
			go func() {
				for range each {
					r, err := c.Try(context.Background(), "POST", responses, body{"model": "none", "input": "x"})
					if err != nil {
						t.Error(err)
					}
					ids <- r.Header.Get("x-request-id")
				}
			}()
		}
		want, got := map[string]bool{}, map[string]bool{}
		cursor := list.FollowCursor
		for len(want) < callers*each || len(got) < callers*each {
			for len(ids) > 0 {
				want[<-ids] = true
			}
			if err := h.Requests.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.Want(200, "GET", "/api/v1/requests?limit=7&order=asc&cursor="+cursor, nil).JSON(&list)
			for _, r := range list.Data {
				if got[r.ID] {
					t.Fatalf("%s came twice", r.ID)
				}
				got[r.ID] = true
			}
			if cursor = list.FollowCursor; list.HasMore {
				cursor = list.NextCursor.MustGet()
			}
			if len(list.Data) == 0 && len(want) == callers*each && len(got) < len(want) {
				t.Fatalf("%d rows never came", len(want)-len(got))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-made +followed)\n%s", diff)
		}
	})
}

// TestTheListTellsWhatWasDropped floods the queue while the store is busy.
func TestTheListTellsWhatWasDropped(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	busy, free := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- h.Store.Write(context.Background(), func(*store.Tx) error { close(busy); <-free; return nil })
	}()
	<-busy
	began := time.Now()
	row := stoa.Request{Route: "POST " + responses, AccountID: h.Account.ID, StartedAt: began, Status: 200}
	for range 5000 {
		row.ID = stoa.NewID("req")
		h.Requests.Add(&row)
	}
	close(free)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for range 2 { // while it is in memory, or noted
		var list contract.RequestList
		c.Want(200, "GET", "/api/v1/requests", nil).JSON(&list)
		if err := h.Requests.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		d, err := list.Dropped.Get()
		if kept := int64(len(logged(t, h))); err != nil || kept < 2000 || d.Count != 5000-kept || !d.Since.Time().Equal(began.UTC().Truncate(time.Millisecond)) {
			t.Errorf("%d rows are kept, and dropped is %+v, %v", kept, d, err)
		}
	}
	var everybody contract.RequestList
	c.Want(200, "GET", "/api/v1/requests?accountId=*&limit=1", nil).JSON(&everybody)
	if everybody.Dropped.IsNull() {
		t.Error("the list of all accounts tells of no dropped rows")
	}
}

// TestAddressesAreKeptIfWanted makes calls with the setting and without.
func TestAddressesAreKeptIfWanted(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		settings := config.Defaults().Requests
		settings.Addresses = keep
		h := start(t, apitest.Config{Server: func(s *api.Server) { s.RequestLog = func() *config.RequestLog { return &settings } }})
		c := h.Client(t)
		c.With("X-Forwarded-For", "203.0.113.9").Want(200, "POST", responses, body{"model": "auto", "input": "say: x"})
		if got := requestsOf(t, h, c, "")[0].ClientAddress; keep && got.MustGet() != "203.0.113.9" || !keep && !got.IsNull() {
			t.Errorf("with addresses %v the row has %v", keep, got)
		}
	}
}

// TestADisconnectIsInTheLog interrupts a stream and checks its row.
func TestADisconnectIsInTheLog(t *testing.T) {
	t.Parallel()
	var e ends
	h := start(t, apitest.Config{Server: func(s *api.Server) {
		add := s.Ended
		e.server(s)
		note := s.Ended
		s.Ended = func(r *stoa.Request) { add(r); note(r) }
	}})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, "POST", h.URL+responses, strings.NewReader(`{"model": "auto", "stream": true, "input": "slow: 10s\ntokens: 9"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.Key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	leave()
	res.Body.Close()
	e.next()
	got := requestsOf(t, h, h.Client(t), "")[0]
	if !got.Disconnected || got.Status != 200 || got.ReceiptID.IsNull() || got.CreditsMicro == 0 || !got.ErrorCode.IsNull() {
		t.Errorf("%+v", got)
	}
}
