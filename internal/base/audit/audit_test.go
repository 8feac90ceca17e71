package audit_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/audit"
)

// chain returns an export with n entries.
func chain(n int) (lines []string, entries []audit.Entry) {
	prev := ""
	for i := range n {
		e := audit.Entry{
			AccountID: "acc_1", Seq: int64(i + 1), At: time.UnixMilli(1_700_000_000_000 + int64(i)).UTC(), Actor: "key_1", Action: "updateWebhook", Object: "whk_1",
			RequestID: "req_1", Before: `{"a":"<b>"}`, After: fmt.Sprintf(`{"n":%d}`, i), Prev: prev,
		}
		e.Hash = e.Sum()
		prev = e.Hash
		text, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		lines, entries = append(lines, string(text)), append(entries, e)
	}
	return lines, entries
}

func verify(lines []string, anchor string) (audit.Verified, error) {
	return audit.Verify(strings.NewReader(strings.Join(lines, "\n")+"\n"), anchor)
}

func TestAnIntactLogIsVerified(t *testing.T) {
	t.Parallel()
	lines, entries := chain(9)
	v, err := verify(lines, entries[4].Hash)
	if err != nil || v.First != 1 || v.Last != 9 || v.Hash != entries[8].Hash || v.AccountID != "acc_1" {
		t.Errorf("%+v, %v", v, err)
	}
	checkpoint := fmt.Sprintf(`{"checkpoint":{"accountId":"acc_1","seq":4,"hash":%q}}`, entries[3].Hash)
	if v, err := verify(slices.Concat(lines[:4], []string{checkpoint}, lines[4:]), ""); err != nil || v.First != 1 || int(v.Last) != len(lines) || v.Purged {
		t.Errorf("two exports in one file: %+v, %v", v, err)
	}
	v, err = verify(append([]string{checkpoint}, lines[4:]...), entries[3].Hash)
	if err != nil || v.First != 5 || v.Last != 9 || !v.Purged {
		t.Errorf("after a checkpoint: %+v, %v", v, err)
	}
	if v, err := audit.Verify(strings.NewReader(""), ""); err != nil || v.Last != 0 {
		t.Errorf("an empty log: %+v, %v", v, err)
	}
}

// TestEveryDamageIsFound damages a log in every way, and expects the entry at fault.
func TestEveryDamageIsFound(t *testing.T) {
	t.Parallel()
	whole, entries := chain(9)
	changed := func(i int, change func(*audit.Entry), sum bool) func([]string) []string {
		return func(lines []string) []string {
			e := entries[i]
			if change(&e); sum {
				e.Hash = e.Sum()
			}
			text, _ := json.Marshal(e)
			lines[i] = string(text)
			return lines
		}
	}
	type damage struct {
		name   string
		damage func([]string) []string
		line   int // of the error
	}
	damages := []damage{
		{"removed", func(l []string) []string { return slices.Delete(l, 3, 4) }, 4},
		{"removed at the start", func(l []string) []string { return l[1:] }, 1},
		{"inserted", func(l []string) []string { return slices.Insert(l, 3, l[2]) }, 4},
		{"swapped", func(l []string) []string { l[3], l[4] = l[4], l[3]; return l }, 4},
		{"a wrong checkpoint", func(l []string) []string {
			return append([]string{`{"checkpoint":{"accountId":"acc_1","seq":4,"hash":"00"}}`}, l[4:]...)
		}, 2},
		{"a late checkpoint", func(l []string) []string {
			return slices.Insert(l, 5, `{"checkpoint":{"accountId":"acc_1","seq":4,"hash":"`+entries[3].Hash+`"}}`)
		}, 6},
		{"a checkpoint in place of entries", func(l []string) []string {
			return append(l[:2], append([]string{`{"checkpoint":{"accountId":"acc_1","seq":4,"hash":"` + entries[3].Hash + `"}}`}, l[4:]...)...)
		}, 3},
		{"a late checkpoint with another hash", func(l []string) []string {
			return slices.Insert(l, 4, `{"checkpoint":{"accountId":"acc_1","seq":4,"hash":"`+entries[4].Hash+`"}}`)
		}, 5},
		{"a late checkpoint of another account", func(l []string) []string {
			return slices.Insert(l, 4, `{"checkpoint":{"accountId":"acc_2","seq":4,"hash":"`+entries[3].Hash+`"}}`)
		}, 5},
		{"another number and its hash", changed(5, func(e *audit.Entry) { e.Seq++ }, true), 6},
		{"not JSON", func(l []string) []string { l[6] = l[6][1:]; return l }, 7},
		{"another member", func(l []string) []string { l[6] = strings.Replace(l[6], `"seq"`, `"SEQ2"`, 1); return l }, 7},
	}
	for name, change := range map[string]func(*audit.Entry){
		"account":               func(e *audit.Entry) { e.AccountID = "acc_2" },
		"number":                func(e *audit.Entry) { e.Seq++ },
		"time":                  func(e *audit.Entry) { e.At = e.At.Add(time.Microsecond) },
		"actor":                 func(e *audit.Entry) { e.Actor = "key_2" },
		"action":                func(e *audit.Entry) { e.Action = "deleteWebhook" },
		"object":                func(e *audit.Entry) { e.Object = "whk_2" },
		"request":               func(e *audit.Entry) { e.RequestID = "" },
		"address":               func(e *audit.Entry) { e.Address = "192.0.2.1" },
		"before":                func(e *audit.Entry) { e.Before = "" },
		"after":                 func(e *audit.Entry) { e.After += " " },
		"moved between members": func(e *audit.Entry) { e.Action, e.Object = e.Action+"w", e.Object[1:] },
		"prev":                  func(e *audit.Entry) { e.Prev = strings.Repeat("0", 64) },
		"hash":                  func(e *audit.Entry) { e.Hash = strings.Repeat("0", 64) },
	} {
		damages = append(damages, damage{name, changed(5, change, false), 6})
		if name != "hash" && name != "account" && name != "number" && name != "prev" { // a new hash: the next entry does not follow
			damages = append(damages, damage{name + " and its hash", changed(5, change, true), 7})
		}
	}
	for _, d := range damages {
		_, err := verify(d.damage(slices.Clone(whole)), "")
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("line %d", d.line)) {
			t.Errorf("%s: %v, want line %d", d.name, err, d.line)
		}
	}
	if _, err := verify(whole[:7], ""); err != nil {
		t.Errorf("a cut tail without an anchor: %v", err)
	}
	if _, err := verify(whole[:7], entries[8].Hash); err == nil || !strings.Contains(err.Error(), "anchor") {
		t.Errorf("a cut tail with an anchor: %v", err)
	}
}

// An entry whose texts were erased verifies if a later one names what is left of it, and only then.
func TestErasedEntriesVerifyIfALaterOneNamesThem(t *testing.T) {
	t.Parallel()
	whole, entries := chain(4)
	text := func(e audit.Entry) string {
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	erased := entries[1]
	if !erased.Erase() || erased.Erase() || strings.Contains(text(erased), `"a"`) {
		t.Fatalf("erased: %+v", erased)
	}
	named, err := json.Marshal(audit.Erasure{ID: "era_1", Entries: []audit.ErasedEntry{{Seq: erased.Seq, Sum: erased.Sum()}}})
	if err != nil {
		t.Fatal(err)
	}
	names := audit.Entry{AccountID: "acc_1", Seq: 5, At: entries[3].At, Actor: audit.Service, Action: audit.ErasureAction, After: string(named), Prev: entries[3].Hash}
	names.Hash = names.Sum()
	other := erased
	other.Actor = "key_2"
	byKey := names
	byKey.Actor = "key_1"
	byKey.Hash = byKey.Sum()
	log := func(second audit.Entry, last ...audit.Entry) []string {
		lines := slices.Clone(whole)
		lines[1] = text(second)
		for _, e := range last {
			lines = append(lines, text(e))
		}
		return lines
	}
	if v, err := verify(log(erased, names), entries[1].Hash); err != nil || v.Last != 5 || v.Erased != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	for name, lines := range map[string][]string{
		"not named": log(erased), "changed otherwise": log(other, names), "named by a key": log(erased, byKey),
	} {
		if _, err := verify(lines, ""); err == nil || !strings.Contains(err.Error(), "entry 2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSecretsAreMasked(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"secret":"x","secretId":"sec_1","hint":"…x","token":"","apiPassword":["a",{"b":"c","n":1}]}`: `{"apiPassword":["(masked)",{"b":"(masked)","n":1}],"hint":"…x","secret":"(masked)","secretId":"sec_1","token":""}`,
		`{"url":"mailto:ada@example.com"}`:                             `{"url":"mailto:(masked)#54227d3dd503"}`,
		`{"url":"https://a.example/","u":["https://u:p@a.example/x"]}`: `{"u":["https://a.example/(masked)#b760711c4a17"],"url":"https://a.example/"}`,
		`{"n":12345678901234567890,"t":"<&>"}`:                         `{"n":12345678901234567890,"t":"<&>"}`,
		`null`:                                                         ``,
	} {
		got, err := audit.Mask([]byte(in))
		if err != nil || got != want {
			t.Errorf("%s is masked as\n%s, want\n%s, %v", in, got, want, err)
		}
	}
	got, err := audit.Mask([]byte(`{"t":"` + strings.Repeat("x", 32<<10) + `"}`))
	if err != nil || !strings.HasPrefix(got, `{"bytes":32776,"sha256":"`) {
		t.Errorf("a long object is %s, %v", got, err)
	}
}
