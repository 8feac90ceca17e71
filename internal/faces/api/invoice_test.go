package api_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
)

var invoiceCalls = flag.Int("calls", 480, "the number of calls of TestEveryChargeIsTheInvoice; nightly: 10000")

// rates are a vendor's prices of a million tokens, in micro-credits.
type rates struct{ input, read, written, long, output int64 }

// vendorRates are the price lists of the vendors of a model of each wire.
var vendorRates = map[string]rates{
	"alpha-sonnet-5-5": {2_000_000, 100_000, 2_500_000, 4_000_000, 10_000_000},
	"beta-3.1-pro":     {2_000_000, 200_000, 2_000_000, 2_000_000, 12_000_000},
	"gamma-6-luna":     {100_000, 10_000, 125_000, 125_000, 500_000},
	"delta-v4-flash":   {150_000, 3_000, 150_000, 150_000, 600_000},
}

// longPrompts are the lengths above which a whole call costs 2 × input and 1.5 × output.
var longPrompts = map[string]int64{"beta-3.1-pro": 200_000, "gamma-6-luna": 272_000}

// peak reports whether DeepSeek doubles its rates at a second of the day in Shanghai.
func peak(second int) bool {
	hour := second / 3600
	return hour >= 9 && hour < 12 || hour >= 14 && hour < 18
}

// at returns the rates of a model for an input that is sent at a second of the day in Shanghai.
func at(model string, input int64, second int) rates {
	r := vendorRates[model]
	if most := longPrompts[model]; most > 0 && input > most {
		return rates{2 * r.input, 2 * r.read, 2 * r.written, 2 * r.long, r.output * 3 / 2}
	}
	if model == "delta-v4-flash" && peak(second) {
		return rates{2 * r.input, 2 * r.read, 2 * r.written, 2 * r.long, 2 * r.output}
	}
	return r
}

// invoice returns what a vendor asks, rounded up.
func (r rates) invoice(u fakeup.Usage) stoa.Credits {
	sum := (u.Input-u.Cached-u.Written)*r.input + u.Cached*r.read + (u.Written-u.Long)*r.written + u.Long*r.long + u.Output*r.output
	return stoa.Credits((sum + 999_999) / 1_000_000)
}

// A prompt is the input of a call in any format; the system text is marked unless ttl is empty.
type prompt struct {
	system, ttl string
	talk        []string // texts of the user and the assistant in turn
}

// formats write a call in each of the formats.
var formats = []func(model string, p prompt, stream bool) (path string, call body){
	func(model string, p prompt, stream bool) (string, body) {
		var input []body
		if p.system != "" {
			part := body{"type": "input_text", "text": p.system}
			if p.ttl != "" {
				part["prompt_cache_breakpoint"] = body{"mode": "explicit", "ttl": p.ttl}
			}
			input = append(input, body{"role": "developer", "content": []body{part}})
		}
		return responses, body{"model": model, "input": append(input, p.messages()...), "stream": stream}
	},
	func(model string, p prompt, stream bool) (string, body) {
		var messages []body
		if p.system != "" {
			messages = append(messages, body{"role": "system", "content": []body{p.block()}})
		}
		return "/api/v1/chat/completions", body{"model": model, "messages": append(messages, p.messages()...), "stream": stream}
	},
	func(model string, p prompt, stream bool) (string, body) {
		call := body{"model": model, "max_tokens": 1000, "messages": p.messages(), "stream": stream}
		if p.system != "" {
			call["system"] = []body{p.block()}
		}
		return "/api/v1/messages", call
	},
}

func (p prompt) block() body {
	block := body{"type": "text", "text": p.system}
	if p.ttl != "" {
		block["cache_control"] = body{"type": "ephemeral", "ttl": p.ttl}
	}
	return block
}

func (p prompt) messages() (list []body) {
	for i, text := range p.talk {
		list = append(list, body{"role": []string{"user", "assistant"}[i%2], "content": text})
	}
	return list
}

// TestEveryChargeIsTheInvoice makes random calls in each format to each wire, streamed and whole, whose
// vendors read and write caches, reason, and end by a limit, around the lengths and the hours from which
// they ask more: each charge is the vendor's invoice, rounded up. Some break, and of some the client disconnects: they are free, or cost at least the
// input that the vendor received.
func TestEveryChargeIsTheInvoice(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	random := rand.New(rand.NewPCG(1, 2))
	one := func(n int) bool { return random.IntN(n) == 0 }
	var second atomic.Int64 // of the day in Shanghai, from which the call begins
	h.Gateway.Now = func() time.Time {
		return time.Date(2026, 11, 27, 16, 0, 0, 0, time.UTC).Add(time.Duration(second.Load()) * time.Second)
	}
	models := []string{"alpha-sonnet-5-5", "beta-3.1-pro", "gamma-6-luna", "delta-v4-flash"}
	var documents []string
	for i, size := range []int{50, 300, 800, 1500} {
		documents = append(documents, strings.Repeat(fmt.Sprintf("Document %d says so. ", i), size))
	}
	var before stoa.Credits
	seen := map[string]int{}
	count := func(what string, is bool) {
		if is {
			seen[what]++
		}
	}
	for n := range *invoiceCalls {
		model, stream := models[n%4], n/12%2 == 1
		cut, leaves := one(30), one(20) && stream
		orders := fmt.Sprintf("mark: %d\ntokens: %d\n", n, 1+random.IntN(40))
		switch {
		case cut:
			orders += []string{"cut: 0\n", "cut: 2\n", "fault: malformed\nfault-after: 2\n", "fault: no-end\nfault-after: 2\n", "fault: reset\nfault-after: 1\n"}[random.IntN(5)]
		case leaves:
			// The fake counts the bytes of the whole request, Stoa's estimate those of the texts.
			orders = fmt.Sprintf("mark: %d %s\ntokens: 5000\nslow: 1ms\n", n, strings.Repeat("x", 1_500))
		case one(4):
			orders += "stop: length\n"
		}
		if one(4) {
			orders += fmt.Sprintf("think: %d\n", 1+random.IntN(200))
		}
		p := prompt{talk: []string{orders}}
		if one(2) { // the vendor says what it read and wrote
			written := random.IntN(60)
			p.talk[0] += fmt.Sprintf("cached: %d\nwritten: %d\nwritten-long: %d\nmark: %s", random.IntN(60), written, random.IntN(written+1), strings.Repeat("x", random.IntN(3_000)))
		} else { // its cache does
			p.system, p.ttl = documents[random.IntN(len(documents))], []string{"", "", "5m", "1h"}[random.IntN(4)]
			if one(2) {
				p.talk = append([]string{documents[random.IntN(len(documents))], "Yes."}, p.talk...)
			}
		}
		// A call begins at most 30 s before an hour, so that its request does not begin in it.
		second.Store(int64([]int{9, 12, 14, 18}[random.IntN(4)]*3600 + []int{-30, 0, 1}[random.IntN(3)]))
		if most := longPrompts[model]; most > 0 && !cut && !leaves && one(6) {
			p.talk[0] = fmt.Sprintf("input: %d\nmark: %s\n%s", most+int64(random.IntN(3))-1, strings.Repeat("long ", int(most)*3/5), p.talk[0])
		}
		path, call := formats[n/4%3](model, p, stream)
		served := len(f.Served())
		switch {
		case cut:
			c.Do("POST", path, call)
		case leaves:
			disconnectFrom(t, h, f, path, "", call)
			eventually(t, "the call has ended", func() bool {
				b, err := h.Ledger.Balance(t.Context(), h.Account.ID)
				return err == nil && b.Held == 0 && h.Gateway.Active() == 0
			})
		default:
			c.Want(200, "POST", path, call)
		}
		all := f.WaitEnded(t, served+1)
		u := all[len(all)-1].Usage
		after := quiet(t, h).Spent
		asked := at(model, u.Input, int(second.Load()))
		got, want := after-before, asked.invoice(u)
		before = after
		switch {
		case leaves && !cut:
			u.Output = 0
			if least := asked.invoice(u); got < least {
				t.Errorf("call %d, %s of %s, stream %v, disconnected: charged %d, the vendor asks %d for %+v", n, path, model, stream, got, least, u)
			}
		case cut && got == 0:
		case got != want && !cut:
			t.Errorf("call %d, %s of %s, stream %v: charged %d, the vendor asks %d for %+v", n, path, model, stream, got, want, u)
		}
		count("cut", cut && got == 0)
		count("cut and charged", cut && got > 0)
		count("disconnected", leaves && !cut && got > 0)
		count(model+" read", u.Cached > 0)
		count(model+" written", u.Written > 0)
		count("long", u.Long > 0)
		count(model+" above", longPrompts[model] > 0 && u.Input > longPrompts[model])
		count(model+" below", longPrompts[model] > 0 && u.Input == longPrompts[model])
		count("peak", model == models[3] && peak(int(second.Load())))
		count("off-peak", model == models[3] && !peak(int(second.Load())))
	}
	t.Log(seen)
	for _, what := range []string{
		"cut", "disconnected", models[0] + " read", models[0] + " written", models[1] + " read", models[2] + " read", models[2] + " written", models[3] + " read", "long",
		models[1] + " above", models[1] + " below", models[2] + " above", models[2] + " below", "peak", "off-peak",
	} {
		if seen[what] == 0 {
			t.Errorf("no call was %s", what)
		}
	}
	if saved, receipts := usageSaved(t, c); saved != receipts || saved == 0 {
		t.Errorf("the usage says that caches saved %d, the receipts %d", saved, receipts)
	}
	if diffs, err := h.Ledger.Verify(t.Context()); err != nil || len(diffs) != 0 {
		t.Errorf("the books differ: %+v, %v", diffs, err)
	}
}

// usageSaved returns the credits that caches saved, by the usage of an account and by its receipts.
func usageSaved(t *testing.T, c *apitest.Client) (usage, receipts int64) {
	t.Helper()
	var report contract.UsageReport
	c.Want(200, "GET", "/api/v1/usage?groupBy=model,day", nil).JSON(&report)
	var sum int64
	for _, row := range report.Data {
		sum += row.SavedMicro
	}
	if sum != report.Totals.SavedMicro {
		t.Errorf("the groups saved %d, all of them %d", sum, report.Totals.SavedMicro)
	}
	path := "/api/v1/receipts?limit=100"
	for next := path; next != ""; {
		var page contract.ReceiptList
		c.Want(200, "GET", next, nil).JSON(&page)
		for _, r := range page.Data {
			receipts += r.Cache.SavedMicro
		}
		if next = ""; page.HasMore {
			next = path + "&cursor=" + page.NextCursor.MustGet()
		}
	}
	return report.Totals.SavedMicro, receipts
}

// TestUsageCountsTheCacheInItsFormat reads the usage of calls in each format to each wire, streamed and
// whole: input includes what was read from the cache and written to it, except in the format Messages.
func TestUsageCountsTheCacheInItsFormat(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	type split struct {
		Read    int64 `json:"cached_tokens"`
		Written int64 `json:"cache_write_tokens"`
	}
	type usage struct {
		Input   int64 `json:"input_tokens"`
		Prompt  int64 `json:"prompt_tokens"`
		Details split `json:"input_tokens_details"`
		Parts   split `json:"prompt_tokens_details"`
		Read    int64 `json:"cache_read_input_tokens"`
		Written int64 `json:"cache_creation_input_tokens"`
		Lives   struct {
			Short int64 `json:"ephemeral_5m_input_tokens"`
			Long  int64 `json:"ephemeral_1h_input_tokens"`
		} `json:"cache_creation"`
	}
	calls := 0
	for model := range vendorRates {
		for i, format := range formats {
			for _, stream := range []bool{false, true} {
				path, call := format(model, prompt{talk: []string{"cached: 10\nwritten: 7\nwritten-long: 3\ntokens: 2\nmark: " + strings.Repeat("x", 200)}}, stream)
				if i == 1 && stream {
					call["stream_options"] = body{"include_usage": true}
				}
				r := c.Want(200, "POST", path, call)
				calls++
				all := f.WaitEnded(t, calls)
				u := all[len(all)-1].Usage
				objects := objects(t, r)
				last := objects[len(objects)-1]
				if response, ok := last["response"].(body); ok {
					last = response
				}
				if last["usage"] == nil && len(objects) > 1 { // message_stop follows it
					last = objects[len(objects)-2]
				}
				var got usage
				text, _ := json.Marshal(last["usage"])
				if err := json.Unmarshal(text, &got); err != nil {
					t.Fatal(err)
				}
				want := usage{Input: u.Input, Details: split{u.Cached, u.Written}}
				switch i {
				case 1:
					want = usage{Prompt: u.Input, Parts: split{u.Cached, u.Written}}
				case 2:
					want = usage{Input: u.Input - u.Cached - u.Written, Read: u.Cached, Written: u.Written}
					want.Lives.Short, want.Lives.Long = u.Written-u.Long, u.Long
				}
				if wire := all[len(all)-1].Wire; wire == "gemini" { // it counts no writes
					if got.Details.Written+got.Parts.Written+got.Written != 0 {
						t.Errorf("%s of %s, stream %v: %+v", path, model, stream, got)
					}
					want.Details.Written, want.Parts.Written = 0, 0
					if i == 2 {
						want.Input, want.Written = u.Input-u.Cached, 0
						want.Lives.Short, want.Lives.Long = 0, 0
					}
				}
				if got != want {
					t.Errorf("%s of %s, stream %v: the usage is %+v, want %+v", path, model, stream, got, want)
				}
			}
		}
	}
}
