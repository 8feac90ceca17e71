//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A fake is a small gateway with keys and budgets. Each wrong one breaks its books in one way, for every third call.
type fake struct {
	wrong  string // empty: right
	vendor string

	mu    sync.Mutex
	calls int
	keys  map[string]*fakeKey
}

type fakeKey struct {
	cap, held, spent int64
	entries          []object
}

var fakeUsage = regexp.MustCompile(`"completion_tokens":(\d+),"prompt_tokens":(\d+)`)

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller has left
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := f.keys[r.Header.Get("Authorization")]
	switch r.URL.Path {
	case "/customers":
		limit, _ := strconv.ParseInt(string(body), 10, 64)
		name := fmt.Sprint("key", len(f.keys))
		f.keys[name] = &fakeKey{cap: limit}
		fmt.Fprintf(w, `{"key": %q}`, name)
		return
	case "/books":
		json.NewEncoder(w).Encode(object{"spent": key.spent, "calls": key.entries})
		return
	}
	var request struct {
		User      string
		Messages  []struct{ Content string }
		MaxTokens int `json:"max_tokens"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		panic(err)
	}
	hold := int64(len(request.Messages[0].Content)+3)/4 + 5*int64(request.MaxTokens)
	if f.wrong != "overrun" && key.spent+key.held+hold > key.cap {
		if f.wrong == "phantom" {
			key.entries = append(key.entries, object{"user": request.User, "amount": 0})
		}
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	key.held += hold
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		key.held -= hold
	}()
	req, _ := http.NewRequestWithContext(r.Context(), http.MethodPost, f.vendor+"/chat/completions", strings.NewReader(string(body)))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	usage := fakeUsage.FindSubmatch(text)
	output, _ := strconv.ParseInt(string(usage[1]), 10, 64)
	input, _ := strconv.ParseInt(string(usage[2]), 10, 64)
	f.mu.Lock()
	f.calls++
	cost, times := input+5*output, 1
	if f.calls%3 == 0 {
		switch f.wrong {
		case "lost":
			times = 0
		case "doubled":
			times = 2
		case "free":
			cost = 0
		case "clamped": // charges half, as at a cap
			cost /= 2
		}
	}
	for range times {
		key.spent += cost
		key.entries = append(key.entries, object{"user": request.User, "amount": cost})
	}
	if f.wrong == "balance" {
		key.spent = 0
	}
	f.mu.Unlock()
	w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
	if strings.HasPrefix(string(text), "{") { // of two replies the first
		var first json.RawMessage
		if json.NewDecoder(strings.NewReader(string(text))).Decode(&first) == nil {
			text = first
		}
	}
	w.Write(text)
}

// testSize is small, with a deadline that ends stalled calls.
var testSize = size{crowd: 24, customers: 12, load: 4, deadline: 4 * time.Second, pause: 20 * time.Millisecond}

// TestEachFigureIsFound runs all scenarios that need no process before a right gateway and before wrong ones. The
// wrong ones show exactly their figures, by the marks of calls and by counts alone. What is billed twice, or is missing
// in the balance, also leads past a cap.
func TestEachFigureIsFound(t *testing.T) {
	t.Parallel()
	for _, marks := range []string{"/user", ""} {
		for wrong, want := range map[string]string{
			"": "", "overrun": "overrun", "lost": "lost", "doubled": "doubled overrun", "phantom": "doubled", "free": "free", "clamped": "free", "balance": "lost overrun",
		} {
			t.Run(fmt.Sprintf("%s by %q", wrong, marks), func(t *testing.T) {
				t.Parallel()
				v, err := newVendor("127.0.0.1:0", 100_000)
				if err != nil {
					t.Fatal(err)
				}
				defer v.server.Close()
				f := &fake{wrong: wrong, vendor: v.url, keys: map[string]*fakeKey{}}
				server := httptest.NewServer(f)
				defer server.Close()
				auth := map[string]string{"Authorization": "{key}"}
				a := &adapter{
					Name: "fake", ContextTokens: 100_000, Price: price{1_000_000, 5_000_000}, SettleSeconds: 1,
					Call:     target{URL: server.URL + "/chat/completions", Wire: "chat", Headers: auth},
					Customer: []step{{Method: http.MethodPost, URL: server.URL + "/customers", Body: "#{capMicro}", Take: map[string]string{"key": "/key"}}},
				}
				a.Books.Spent = &reading{step: step{URL: server.URL + "/books", Headers: auth}, Value: "/spent"}
				a.Books.Calls = &listing{step: step{URL: server.URL + "/books", Headers: auth}, List: "/calls", Mark: marks, Amount: "/amount"}
				if err := a.check(); err != nil {
					t.Fatal(err)
				}
				g := &gateway{adapter: a, http: client(), vars: map[string]string{}, note: t.Logf}
				r := &run{size: testSize, gateway: g, vendor: v, rich: 1_000_000_000}
				found := figures{}
				for _, s := range scenarios {
					verdict := r.perform(t.Context(), s)
					if verdict.Error != "" {
						t.Fatalf("%s: %s", s.name, verdict.Error)
					}
					if (s.name == "kill" || s.name == "database") != (verdict.NotRun != "") {
						t.Errorf("%s: not run: %q", s.name, verdict.NotRun)
					}
					own := false
					for name, f := range verdict.all() {
						found.all()[name].add(f.Calls, f.Micro)
						own = own || *f != figure{}
					}
					if own == verdict.Passed && verdict.NotRun == "" {
						t.Errorf("%s passed: %v, with %+v", s.name, verdict.Passed, verdict)
					}
				}
				for name, f := range found.all() {
					if (*f != figure{}) != slices.Contains(strings.Fields(want), name) {
						t.Errorf("%s is %+v", name, *f)
					}
				}
			})
		}
	}
}

// TestAllowedFigures checks that an adapter can allow a figure, in a scenario or in all.
func TestAllowedFigures(t *testing.T) {
	t.Parallel()
	for _, allowed := range []map[string]map[string]figure{
		{"faults": {"lost": {Calls: 1000, Micro: 1_000_000}}},
		{"*": {"lost": {Calls: 1000, Micro: 1_000_000}}},
	} {
		v := verdict{Scenario: "faults", figures: figures{Lost: figure{2, 400}}}
		if !v.within(allowed) {
			t.Errorf("%+v is not within %v", v.figures, allowed)
		}
		v.Doubled.Calls = 1
		if v.within(allowed) {
			t.Errorf("%+v is within %v", v.figures, allowed)
		}
	}
}

// TestOtherMachinesAreRefused checks addresses in an adapter and on the way.
func TestOtherMachinesAreRefused(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"http://192.0.2.1:80/", "http://[2001:db8::1]/", "postgres://u@198.51.100.7:5432/x"} {
		if err := isLoopback(url); err == nil || !strings.Contains(err.Error(), "loopback") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if err := isLoopback("http://127.0.0.1:1/"); err != nil {
		t.Error(err)
	}
	if _, err := client().Get("http://192.0.2.1/"); err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("a request to another machine: %v", err)
	}
	file := filepath.Join(t.TempDir(), "adapter.json")
	if err := os.WriteFile(file, []byte(`{"name":"x","call":{"url":"http://192.0.2.1/","wire":"chat"},"price":{"input":1,"output":1},"customer":[{}],"books":{"spent":{},"calls":{}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := command(t.Context(), []string{"-adapter", file}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("an adapter for another machine: %v", err)
	}
}

// TestAdaptersAreComplete reads the adapters of the folder: all their members are known.
func TestAdaptersAreComplete(t *testing.T) {
	for _, name := range []string{"ONE_API", "TIKTOKEN_CACHE_DIR"} {
		t.Setenv(name, "/nowhere")
	}
	files, err := filepath.Glob("adapters/*.json")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if _, err := readAdapter(file); err != nil {
			t.Error(err)
		}
	}
}

// TestStoaKeepsItsBooks runs the whole in short form against the program of this tree on SQLite, which is built for it.
func TestStoaKeepsItsBooks(t *testing.T) {
	if os.Getenv("STOA_TEST_BOOKS") == "" {
		t.Skip("STOA_TEST_BOOKS is not set")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	var out strings.Builder
	err := command(ctx, []string{"-adapter", "adapters/stoa-sqlite.json", "-short"}, &out, io.Discard)
	t.Log(out.String())
	if err != nil || !strings.Contains(out.String(), "\npassed in ") {
		t.Error(err)
	}
}

// TestTheRelayTakesADatabaseAway checks the proxy before a database: connections end, new ones get nothing, and later
// ones work again.
func TestTheRelayTakesADatabaseAway(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go io.Copy(c, c)
		}
	}()
	r, err := newRelay(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer r.listener.Close()
	echoes := func(c net.Conn) bool {
		_, err := io.WriteString(c, "x")
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, 1))
		}
		return err == nil
	}
	dial := func() net.Conn {
		c, err := net.Dial("tcp", r.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	open := dial()
	if !echoes(open) {
		t.Error("the relay does not pass data on")
	}
	r.setAway(true)
	if echoes(open) || echoes(dial()) {
		t.Error("the database still answers")
	}
	r.setAway(false)
	if !echoes(dial()) {
		t.Error("the database is not back")
	}
}
