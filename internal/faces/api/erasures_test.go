package api_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stoa/internal/agents/drive"
	"stoa/internal/base/audit"
	"stoa/internal/base/config"
	"stoa/internal/base/contract"
	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakestripe"
	"stoa/internal/testkit/storetest"
)

// planted is the text that erasures must remove; it is in no other test.
const planted = "zebraquagga7531"

// found returns the places of the marker: files of SQLite, or tables of PostgreSQL.
func found(t *testing.T, h *apitest.Service, home storetest.Database) (places []string) {
	t.Helper()
	if err := h.Requests.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !h.Drives.DB().Postgres() {
		files, err := filepath.Glob(filepath.Join(home.Config.Dir, "*"))
		if err != nil || len(files) < 3 {
			t.Fatal(files, err)
		}
		for _, name := range files {
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if at := bytes.Index(content, []byte(planted[3:])); at >= 0 { // without the beginning, which the index may omit
				places = append(places, fmt.Sprintf("%s: %q", filepath.Base(name), content[max(0, at-200):min(len(content), at+100)]))
			}
		}
		return places
	}
	tables, err := h.Drives.DB().Tables(t.Context())
	if err != nil || len(tables) < 50 {
		t.Fatal(len(tables), err)
	}
	for _, table := range tables {
		err := h.Drives.DB().Read(t.Context(), func(tx *db.Tx) error {
			return tx.Query(t.Context(), func(rows *sql.Rows) error {
				var row string
				err := rows.Scan(&row)
				places = append(places, fmt.Sprintf("%s: %.300s", table.Name, row))
				return err
			}, fmt.Sprintf(`SELECT r::text FROM %s r WHERE r::text LIKE '%%%s%%' OR r::text LIKE '%%%x%%'`, table.Name, planted, planted))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return places
}

// erased runs an erasure and checks that nothing is left but valid books and logs.
func erased(t *testing.T, h *apitest.Service, home storetest.Database, path string) contract.Erasure {
	t.Helper()
	if len(found(t, h, home)) == 0 {
		t.Fatal("the marker was planted nowhere")
	}
	c := h.Client(t)
	var e contract.Erasure
	r := c.Want(202, "DELETE", path, nil).JSON(&e)
	if e.Status != "running" || r.Header.Get("Location") != "/api/v1/erasures/"+e.ID {
		t.Errorf("it begins as %+v at %q", e, r.Header.Get("Location"))
	}
	if err := h.Erasures.RunDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Want(200, "GET", "/api/v1/erasures/"+e.ID, nil).JSON(&e)
	if e.Status != "completed" || e.Removed.Sessions == 0 || e.Changed.AuditEntries == 0 || !strings.Contains(e.Backups, "ackup") {
		t.Errorf("it ends as %+v", e)
	}
	for _, place := range found(t, h, home) {
		t.Errorf("the marker is left in %s", place)
	}
	if err := h.Store.Read(t.Context(), func(tx *store.Tx) error {
		diffs, _, err := tx.Books().Differences(t.Context(), "")
		if len(diffs) > 0 {
			t.Errorf("the books have differences: %+v", diffs)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	export := c.Want(200, "GET", "/api/v1/audit/export?accountId="+e.AccountID, nil).Body
	if v, err := audit.Verify(bytes.NewReader(export), ""); err != nil || v.Erased == 0 {
		t.Errorf("the audit log: %+v, %v", v, err)
	}
	return e
}

// TestDeletedAccountsLeaveNothing creates every object of an account with a marker in its texts, deletes the account and searches
// the whole store. A new operation that stores texts belongs into newTenant.
func TestDeletedAccountsLeaveNothing(t *testing.T) {
	t.Parallel()
	home := storetest.New(t)
	h := start(t, apitest.Config{Home: &home, Server: unlimited, Payments: fakestripe.New(t).Payments()})
	other := newTenant(t, h, "other")
	a := newTenant(t, h, planted)
	plant(t, author{a.Client, h, "/api/v1/api-agents/" + a.ids["api-agents"]})
	path := "/api/v1/accounts/" + a.ids["accounts"]
	h.Client(t).Want(200, "PATCH", path, object{"email": planted + "@example.com"})
	h.Client(t).Want(201, "POST", path+"/grants", object{"amountMicro": 1, "reason": planted})
	h.Client(t).Want(201, "POST", path+"/withdrawals", object{"amountMicro": 1, "reason": planted, "externalRef": "r1"})
	h.Client(t).Want(201, "POST", path+"/members", object{"role": "owner", "name": planted, "email": planted + "@example.com"})
	h.Client(t).Want(201, "POST", "/api/v1/accounts/invitations", object{"accountName": "another"})
	if err := h.Erasures.RunDue(t.Context()); err != nil { // those of the tenants
		t.Fatal(err)
	}
	before := other.everything(t)
	e := erased(t, h, home, path)
	if e.AccountID != a.ids["accounts"] || e.Removed.Drives < 2 {
		t.Errorf("%+v", e)
	}
	a.WantError(stoa.CodeUnauthorized, "GET", "/api/v1/users/me", nil)
	for _, r := range []struct {
		method, path string
		body         any
	}{
		{"GET", path, nil},
		{"PATCH", path, object{"suspended": false}},
		{"POST", path + "/keys", object{"name": "again"}},
		{"POST", path + "/grants", object{"amountMicro": 1}},
		{"POST", path + "/withdrawals", object{"amountMicro": 1, "externalRef": "r2"}},
		{"POST", path + "/members", object{"role": "owner"}},
		{"POST", path + "/budgets", object{"scope": "account", "period": "day", "limitMicro": 1}},
		{"GET", path + "/budgets", nil},
	} {
		h.Client(t).WantError(stoa.CodeNotFound, r.method, r.path, r.body)
	}
	var again contract.Erasure
	if h.Client(t).Want(202, "DELETE", path, nil).JSON(&again); again.ID != e.ID {
		t.Errorf("the second deletion is %+v", again)
	}
	var usage struct{ Data []struct{ Calls int64 } }
	if h.Client(t).Want(200, "GET", "/api/v1/usage?accountId="+e.AccountID, nil).JSON(&usage); len(usage.Data) == 0 {
		t.Error("the usage of the account is gone")
	}
	for name, was := range before {
		if now := other.everything(t)[name]; now != was {
			t.Errorf("%s of another account was\n%s\nand is\n%s", name, was, now)
		}
	}
}

// plant creates what the fixtures of a tenant have not.
func plant(t *testing.T, a author) {
	a.Want(201, "POST", "/api/v1/webhooks", object{"events": []string{"*"}, "url": "https://hooks.example.com/" + planted, "description": planted})
	a.Want(200, "PATCH", a.agent, object{"metadata": object{planted: planted}, "instructions": planted})
	a.file(planted+".md", "A file about "+planted)
	a.With("Idempotency-Key", planted).Want(200, "POST", "/api/v1/responses", object{"model": "auto", "input": "say: " + planted, "safety_identifier": planted})
	a.Want(201, "POST", "/api/v1/budgets", object{"scope": "end_user", "subject": planted, "period": "week", "limitMicro": 50_000_000})
}

func TestErasedEndUsersLeaveNothing(t *testing.T) {
	t.Parallel()
	home := storetest.New(t)
	h := start(t, apitest.Config{Home: &home, Server: unlimited})
	c := h.Client(t)
	a := newAuthor(t, h, c, nil)
	c.Want(201, "POST", "/api/v1/webhooks", object{"events": []string{"*"}})
	c.Want(201, "POST", "/api/v1/secrets", object{"name": "of a user", "kind": "bearer", "value": "correct-horse-battery", "origin": "https://mcp.example.com", "externalUserId": planted})
	for _, subject := range []string{"*", planted} {
		c.Want(201, "POST", "/api/v1/budgets", object{"scope": "end_user", "subject": subject, "period": map[string]string{"*": "day", planted: "week"}[subject], "limitMicro": 50_000_000})
	}
	call := object{"model": "auto", "input": "say: hi", "user": planted}
	c.With("Idempotency-Key", "a-call").Want(200, "POST", "/api/v1/responses", call)
	c.Want(200, "PATCH", a.agent, object{"memory": "user"})
	for _, who := range []string{planted, "another"} {
		c.Want(200, "PUT", a.agent+"/memory/notes", object{"externalUserId": who, "name": "about", "text": map[string]string{planted: planted, "another": "Likes tea."}[who]})
	}
	user := object{"externalUserId": planted, "title": planted, "metadata": object{"name": planted}, "attachments": []object{{"name": planted + ".txt", "content": planted}}}
	_, stopped := a.begin(t, "say: "+planted, user)
	a.until(t, stopped, "completed")
	a.With("Idempotency-Key", "a-message").Want(202, "POST", stopped+"/messages", object{"message": "say: " + planted})
	a.until(t, stopped, "completed")
	a.With("Idempotency-Key", "a-note").Want(202, "POST", stopped+"/messages", object{"message": "call: memory_write {\"name\":\"more\",\"content\":\"" + planted + "\"}\nsay: noted"})
	a.until(t, stopped, "completed")
	var notes contract.MemoryNoteList
	if c.Want(200, "GET", a.agent+"/memory/notes?externalUserId="+planted, nil).JSON(&notes); len(notes.Data) != 2 {
		t.Fatalf("it remembers %+v", notes.Data)
	}
	_, waiting := a.begin(t, "ask: "+planted, user)
	a.until(t, waiting, "waiting_for_input")
	v := newVisit(t, a, object{"externalUserId": planted})
	v.say("say: " + planted)
	v.until(t, "completed")
	chat := newVisit(t, a, object{"externalUserId": planted, "attachments": object{"enabled": true}})
	chat.With("Content-Type", "text/plain").Want(201, "POST", chat.chat+"/uploads?name="+planted+".txt", planted)
	_, other := a.begin(t, "say: hi", object{"externalUserId": "another"})
	a.until(t, other, "completed")
	e := erased(t, h, home, "/api/v1/end-users/"+planted)
	if e.Removed.Sessions != 3 || e.Changed.Receipts == 0 {
		t.Errorf("%+v", e)
	}
	a.WantError(stoa.CodeSessionNotFound, "GET", stopped, nil)
	c.Want(200, "GET", other, nil)
	var remembered contract.MemoryList
	if c.Want(200, "GET", a.agent+"/memory/users", nil).JSON(&remembered); len(remembered.Data) != 1 || remembered.Data[0].ExternalUserID != "another" {
		t.Errorf("it remembers %+v", remembered.Data)
	}
	var receipts page[contract.Receipt]
	if c.Want(200, "GET", "/api/v1/receipts?endUser="+url.QueryEscape(orNone(e.ReplacementID)), nil).JSON(&receipts); len(receipts.Data) == 0 {
		t.Error("the receipts are not under the replacement")
	}
	var list page[contract.Erasure]
	if c.Want(200, "GET", "/api/v1/erasures", nil).JSON(&list); len(list.Data) != 1 || list.Data[0].ID != e.ID {
		t.Errorf("%+v", list.Data)
	}
}

// An erasure keeps what is not of the end user, also if the name is a common word.
func TestErasuresCompareWholeNames(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: unlimited})
	c := h.Client(t)
	a := newAuthor(t, h, c, nil)
	_, session := a.begin(t, "say: hi", object{"externalUserId": "completed 2"})
	a.until(t, session, "completed")
	var before, after page[contract.AuditEntry]
	c.Want(200, "GET", "/api/v1/audit", nil).JSON(&before)
	c.Want(202, "DELETE", "/api/v1/end-users/completed", nil)
	if err := h.Erasures.RunDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Want(200, "GET", session, nil)
	c.Want(200, "GET", "/api/v1/audit", nil).JSON(&after)
	if len(after.Data) != len(before.Data)+1 {
		t.Errorf("the audit log had %d entries and has %d", len(before.Data), len(after.Data))
	}
}

func TestTheOperatorsAccountCannotBeDeleted(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: unlimited})
	if e := h.Client(t).WantError(stoa.CodeInvalidValue, "DELETE", "/api/v1/accounts/"+h.Account.ID, nil); e.Param == nil || *e.Param != "id" {
		t.Errorf("%+v", e)
	}
	h.Client(t).WantError(stoa.CodeNotFound, "DELETE", "/api/v1/accounts/"+stoa.NewID("acc"), nil)
	var acme contract.AccountWithKey
	h.Client(t).Want(201, "POST", "/api/v1/accounts", object{"name": "acme"}).JSON(&acme)
	h.Client(t).Want(200, "PATCH", "/api/v1/accounts/"+acme.ID, object{"suspended": true})
	for _, path := range []string{"/api/v1/erasures", "/api/v1/erasures/era_1"} {
		h.ClientWith(t, acme.Key.Secret).WantError(stoa.CodeSuspended, "GET", path, nil)
	}
	h.Client(t).WantError(stoa.CodeInvalidValue, "DELETE", "/api/v1/end-users/"+strings.Repeat("x", 513), nil)
	for _, name := range []string{"", "%00", "%ff"} {
		h.Client(t).WantError(stoa.CodeNotFound, "DELETE", "/api/v1/end-users/"+name, nil)
	}
}

// TestASecondErasureRemovesWhatIsNew erases an end user again, while the first erasure has not ended and after another session.
func TestASecondErasureRemovesWhatIsNew(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: unlimited})
	a := newAuthor(t, h, h.Client(t), object{"memory": "user"})
	erase := func() (e contract.Erasure) {
		t.Helper()
		a.Want(202, "DELETE", "/api/v1/end-users/ada", nil).JSON(&e)
		return e
	}
	say := func() string {
		t.Helper()
		_, path := a.begin(t, "call: memory_write {\"name\":\"diet\",\"content\":\"no nuts\"}\nsay: noted", object{"externalUserId": "ada"})
		a.until(t, path, "completed")
		return path
	}
	old, first := say(), erase()
	if again := erase(); again.ID != first.ID {
		t.Errorf("the same erasure is %s and %s", first.ID, again.ID)
	}
	path := say() // it is new for the first erasure
	second := erase()
	if err := h.Erasures.RunDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{old, path} {
		a.WantError(stoa.CodeSessionNotFound, "GET", gone, nil)
	}
	for _, e := range []contract.Erasure{first, second} {
		if a.Want(200, "GET", "/api/v1/erasures/"+e.ID, nil).JSON(&e); e.Status != "completed" || e.Removed.Sessions != 1 {
			t.Errorf("it ends as %+v", e)
		}
	}
	stays := say()
	a.Want(200, "GET", stays, nil)
}

// An erasure that fails in the middle is completed later, also in the bucket.
func TestAFailedErasureContinues(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: unlimited, Payments: fakestripe.New(t).Payments()})
	objects, refuse := map[string]bool{}, true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut:
			objects[r.URL.Path] = true
			io.Copy(io.Discard, r.Body)
		case refuse:
			w.WriteHeader(http.StatusForbidden)
		case r.Method == http.MethodDelete:
			delete(objects, r.URL.Path)
		}
	}))
	t.Cleanup(server.Close)
	b, err := drive.NewBucket(config.S3{Endpoint: server.URL, Bucket: "files", Region: "us-east-1", AccessKey: "a", SecretKey: "s", Keep: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	h.Drives.UseBucket(b)
	a := newTenant(t, h, "acme")
	path := "/api/v1/accounts/" + a.ids["accounts"]
	a.With("Content-Type", "application/octet-stream").Want(201, "PUT", "/api/v1/api-agents/"+a.ids["api-agents"]+"/drive/files/content?path=a.bin", "\x00"+strings.Repeat("bytes", 20_000))
	if len(objects) != 1 {
		t.Fatalf("the bucket has %v", objects)
	}
	var e, next contract.Erasure
	h.Client(t).Want(202, "DELETE", path, nil).JSON(&e)
	h.Client(t).Want(202, "DELETE", "/api/v1/end-users/somebody", nil).JSON(&next)
	if err := h.Erasures.RunDue(t.Context()); err == nil {
		t.Fatal("the erasure succeeded without the bucket")
	}
	if h.Client(t).Want(200, "GET", "/api/v1/erasures/"+e.ID, nil).JSON(&e); e.Status != "running" || e.Removed.Rows == 0 {
		t.Errorf("after the failure it is %+v", e)
	}
	refuse = false
	if err := h.Erasures.RunDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h.Client(t).Want(200, "GET", "/api/v1/erasures/"+e.ID, nil).JSON(&e); e.Status != "completed" || len(objects) != 0 {
		t.Errorf("it ends as %+v, and the bucket has %v", e, objects)
	}
	if h.Client(t).Want(200, "GET", "/api/v1/erasures/"+next.ID, nil).JSON(&next); next.Status != "completed" {
		t.Errorf("the one after it ends as %+v", next)
	}
}
