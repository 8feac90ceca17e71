package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// An op is one operation with its parameters drawn anew for each request.
type op struct {
	name string
	slow bool // reads as many rows as there are
	path func(r *rand.Rand, z size) (path string, account int)
}

func ops() []op {
	owner := func(path string) func(*rand.Rand, size) (string, int) {
		return func(*rand.Rand, size) (string, int) { return path, 0 }
	}
	agent := func(rest string) func(*rand.Rand, size) (string, int) {
		return func(r *rand.Rand, _ size) (string, int) {
			return fmt.Sprintf("/api/v1/api-agents/agt_s%d%s", r.IntN(agents), rest), 0
		}
	}
	ses := func(rest string) func(*rand.Rand, size) (string, int) {
		return func(r *rand.Rand, z size) (string, int) {
			n := r.IntN(z.sessions/10) * 10 // of agt_s0
			return fmt.Sprintf("/api/v1/api-agents/agt_s0/sessions/ses_%d%s", 1_000_000+n, rest), 0
		}
	}
	file := func(rest string) func(*rand.Rand, size) (string, int) {
		return func(r *rand.Rand, z size) (string, int) {
			i := r.IntN(min(filesPer, z.files*7/10))
			return fmt.Sprintf("/api/v1/api-agents/agt_s0/drive/files%s?path=folder%02d/file%05d.md", rest, i%100, i), 0
		}
	}
	other := func(path string) func(*rand.Rand, size) (string, int) {
		return func(r *rand.Rand, _ size) (string, int) { return path, 8 + 10*r.IntN(100) }
	}
	w := newWords(60_000)
	search := func(agent string, words int, from, to int) func(*rand.Rand, size) (string, int) {
		return func(r *rand.Rand, _ size) (string, int) {
			var q []string
			for range words {
				q = append(q, w.list[from+r.IntN(to-from)])
			}
			return "/api/v1/api-agents/" + agent + "/drive/search?q=" + strings.Join(q, "+"), 0
		}
	}
	return []op{
		{"getMe", false, owner("/api/v1/users/me")},
		{"listKeys", false, owner("/api/v1/keys")},
		{"getCredits", false, owner("/api/v1/credits")},
		{"listLedger", false, owner("/api/v1/credits/ledger")},
		{"listReceipts", false, owner("/api/v1/receipts")},
		{"listReceipts other", false, other("/api/v1/receipts")},
		{"listReceipts asc 100", false, owner("/api/v1/receipts?order=asc&limit=100")},
		{"listReceipts agent", false, owner("/api/v1/receipts?agentId=agt_s7")},
		{"listReceipts space", false, owner("/api/v1/receipts?spaceId=spc_s7")},
		{"listReceipts session", false, owner("/api/v1/receipts?sessionId=ses_1000100")},
		{"listReceipts endUser", false, owner("/api/v1/receipts?endUser=user_77")},
		{"listReceipts model", false, owner("/api/v1/receipts?model=model-2")},
		{"listReceipts no agent", true, owner("/api/v1/receipts?agentId=agt_none")},
		{"listReceipts no endUser", true, owner("/api/v1/receipts?endUser=nobody")},
		{"listReceipts rare key", true, owner("/api/v1/receipts?keyId=key_rare")},
		{"listReceipts rare model", true, owner("/api/v1/receipts?model=delta-v4-pro")},
		{"getReceipt", false, func(r *rand.Rand, z size) (string, int) {
			return fmt.Sprintf("/api/v1/receipts/resp_%d", 10_000_000+10*r.IntN(z.receipts/10)), 0
		}},
		{"listAccounts", false, owner("/api/v1/accounts")},
		{"getAccount", false, func(r *rand.Rand, _ size) (string, int) {
			return fmt.Sprintf("/api/v1/accounts/acc_s%d", r.IntN(others)), 0
		}},
		{"listProviders", false, owner("/api/v1/providers")},
		{"listSpaces", false, owner("/api/v1/spaces")},
		{"getSpace", false, owner("/api/v1/spaces/spc_s7")},
		{"listSpaceAgents", false, owner("/api/v1/spaces/spc_s7/agents")},
		{"listSpaceScheduledTasks", false, owner("/api/v1/spaces/spc_s7/scheduled-tasks")},
		{"listAgents", false, owner("/api/v1/api-agents")},
		{"getAgent", false, agent("")},
		{"listAgentVersions", false, agent("/versions")},
		{"getAgentVersion", false, agent("/versions/7")},
		{"getDrive", false, agent("/drive")},
		{"listDriveFiles", false, owner("/api/v1/api-agents/agt_s0/drive/files")},
		{"listDriveFiles folders", false, owner("/api/v1/api-agents/agt_s0/drive/files?delimiter=/&limit=100")},
		{"listDriveFiles prefix", false, owner("/api/v1/api-agents/agt_s0/drive/files?prefix=folder42/")},
		{"getDriveFileMetadata", false, file("/metadata")},
		{"getDriveFileContent", false, file("/content")},
		{"listDriveFileVersions", false, file("/versions")},
		{"listSessions", false, owner("/api/v1/api-agents/agt_s0/sessions")},
		{"listSessions other", false, func(r *rand.Rand, _ size) (string, int) {
			n := 7 + 10*r.IntN(100)
			return fmt.Sprintf("/api/v1/api-agents/agt_a%d/sessions", n), n + 1
		}},
		{"listSessions status", false, owner("/api/v1/api-agents/agt_s0/sessions?status=failed")},
		{"listSessions user", false, owner("/api/v1/api-agents/agt_s0/sessions?externalUserId=user_30")},
		{"listSessions no trigger", true, owner("/api/v1/api-agents/agt_s0/sessions?triggerType=webhook")},
		{"listSessions triggerId", true, owner("/api/v1/api-agents/agt_s0/sessions?triggerId=run_10")},
		{"getSession", false, ses("")},
		{"listTurns", false, ses("/turns")},
		{"listMessages", false, ses("/messages")},
		{"listSessionEvents", false, ses("/events")},
		{"listSessionReceipts", false, ses("/receipts")},
		{"listSessionSources", false, ses("/sources")},
		{"listScheduledTasks", false, owner("/api/v1/api-agents/agt_s1/scheduled-tasks")},
		{"getScheduledTask", false, owner("/api/v1/api-agents/agt_s1/scheduled-tasks/tsk_60")},
		{"listTaskRuns", false, owner("/api/v1/api-agents/agt_s1/scheduled-tasks/tsk_60/runs")},
		{"listEmbedURLs", false, owner("/api/v1/api-agents/agt_s1/embed-urls")},
		{"getEmbedURL", false, owner("/api/v1/api-agents/agt_s1/embed-urls/emu_600")},
		{"searchDrive small, rare", false, search("agt_s0", 1, 20_000, 60_000)},
		{"searchDrive rare", true, search(bigAgent, 1, 20_000, 60_000)},
		{"searchDrive two middle", true, search(bigAgent, 2, 200, 3000)},
		{"searchDrive two common", true, search(bigAgent, 2, 33, 53)},
		{"searchDrive most common", true, search(bigAgent, 1, 0, 3)},
		{"searchDrive sentence", true, func(*rand.Rand, size) (string, int) {
			return "/api/v1/api-agents/" + bigAgent + "/drive/search?q=how+do+the+customer+cancel+a+subscription+and+get+the+refund+of+an+order", 0
		}},
		{"searchDrive phrase", true, owner("/api/v1/api-agents/" + bigAgent + `/drive/search?q=%22of+the+and+to%22`)},
		{"searchDrive prefix", true, owner("/api/v1/api-agents/" + bigAgent + "/drive/search?q=bacadef")},
		{"usage 30 days", true, owner("/api/v1/usage?from=2026-07-20T00:00:00Z&to=2026-08-19T00:00:00Z")},
		{"usage 90 days", true, owner("/api/v1/usage?from=2026-01-01T00:00:00Z&to=2026-12-01T00:00:00Z")},
		{"usage 90 days, model+key", true, owner("/api/v1/usage?from=2026-01-01T00:00:00Z&to=2026-12-01T00:00:00Z&groupBy=model,key")},
		{"usage 90 days, session", true, owner("/api/v1/usage?from=2026-01-01T00:00:00Z&to=2026-12-01T00:00:00Z&groupBy=session")},
		{"usage other", true, other("/api/v1/usage?from=2026-01-01T00:00:00Z&to=2026-12-01T00:00:00Z")},
		{"reconcile", true, owner("/api/v1/usage/reconcile")},
		{"reconcile other", true, other("/api/v1/usage/reconcile")},
	}
}

type client struct {
	url  string
	http *http.Client
}

func (c *client) do(path string, account int) (status int, body string, err error) {
	req, err := http.NewRequest(http.MethodGet, c.url+path, nil)
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer "+secretOf(account))
	res, err := c.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	if res.StatusCode != 200 {
		b, _ := io.ReadAll(io.LimitReader(res.Body, 300))
		return res.StatusCode, string(b), nil
	}
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// cpu returns the CPU time of a process.
func cpu(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+2:]))
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

func quantile(l []time.Duration, q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	slices.Sort(l)
	return l[min(len(l)-1, int(q*float64(len(l))))]
}

const connections = 32

func load(url string, pid, rate, seconds int, only string, alone, slow bool, z size) error {
	c := &client{url: url, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}}}
	var chosen []op
	for _, o := range ops() {
		if only == "" || strings.Contains(o.name, only) {
			chosen = append(chosen, o)
		}
	}
	if alone {
		if err := oneByOne(c, pid, chosen, slow, z); err != nil {
			return err
		}
	}
	if rate == 0 {
		return nil
	}
	var mixed []op
	for _, o := range chosen {
		if !o.slow {
			mixed = append(mixed, o)
		}
	}
	return together(c, pid, rate, seconds, mixed, z)
}

// oneByOne runs the operations one after the other and prints what each costs.
func oneByOne(c *client, pid int, chosen []op, slow bool, z size) error {
	fmt.Printf("%-28s %8s %9s %9s %9s %s\n", "alone", "n", "p50 ms", "p99 ms", "cpu µs", "")
	for _, o := range chosen {
		r := rand.New(rand.NewPCG(3, 4))
		if o.slow && !slow {
			continue
		}
		var took []time.Duration
		n, note := 400, ""
		before, end := cpu(pid), time.Now().Add(3*time.Second)
		for i := 0; i < n; i++ {
			if time.Now().After(end) && i >= 3 {
				n = i
				break
			}
			path, account := o.path(r, z)
			begin := time.Now()
			status, body, err := c.do(path, account)
			if err != nil {
				return err
			}
			took = append(took, time.Since(begin))
			if status != 200 {
				note = fmt.Sprint(status, " ", body)
			} else if strings.Contains(body, `"cut":true`) {
				note = "cut"
			} else if i == 0 && strings.Contains(body, `"data":[]`) {
				note = "empty"
			}
		}
		fmt.Printf("%-28s %8d %9.2f %9.2f %9d %s\n", o.name, n, ms(quantile(took, 0.5)), ms(quantile(took, 0.99)), (cpu(pid)-before).Microseconds()/int64(n), note)
	}
	return nil
}

// health is a request that reads no row of the store: what its time and the mixed
// operations' have in common is the machine's.
var health = op{"health", false, func(*rand.Rand, size) (string, int) { return "/api/v1/health", 0 }}

// A sample is one request of a run together. late is how long after its moment the
// client came to send it, which is part of took.
type sample struct {
	op         int
	took, late time.Duration
	failed     bool
}

// together sends requests at that rate, each of one of the operations, and another
// tenth of that rate to health.
func together(c *client, pid, rate, seconds int, mixed []op, z size) error {
	mixed = append(slices.Clone(mixed), health)
	type tick struct {
		due     time.Time
		control bool
	}
	const every = 10
	ticks := make(chan tick, (rate+rate/every+1)*seconds)
	samples := make([][]sample, connections)
	var wg sync.WaitGroup
	for i := range connections {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(5, uint64(i)))
			for t := range ticks {
				k := len(mixed) - 1
				if !t.control {
					k = r.IntN(len(mixed) - 1)
				}
				path, account := mixed[k].path(r, z)
				late := time.Since(t.due)
				status, _, err := c.do(path, account)
				samples[i] = append(samples[i], sample{k, time.Since(t.due), late, err != nil || status != 200})
			}
		})
	}
	before := cpu(pid)
	begin := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds)*time.Second)
	defer cancel()
	at := func(n int) time.Time { return begin.Add(time.Duration(n) * time.Second / time.Duration(rate)) }
	for sent := 0; ctx.Err() == nil; time.Sleep(500 * time.Microsecond) {
		for due := at(sent); !due.After(time.Now()); due = at(sent) {
			ticks <- tick{due: due}
			if sent%every == 0 {
				ticks <- tick{due: due, control: true}
			}
			sent++
		}
	}
	close(ticks)
	wg.Wait()
	took, spent := time.Since(begin), cpu(pid)-before
	printTogether(mixed, slices.Concat(samples...), rate, took, spent)
	return nil
}

func printTogether(mixed []op, samples []sample, rate int, took, spent time.Duration) {
	byOp := make([][]time.Duration, len(mixed))
	var all, late []time.Duration
	bad := 0
	for _, s := range samples {
		byOp[s.op] = append(byOp[s.op], s.took)
		late = append(late, s.late)
		if s.op < len(mixed)-1 {
			all = append(all, s.took)
		}
		if s.failed {
			bad++
		}
	}
	fmt.Printf("\n%-28s %8s %9s %9s %9s\n", fmt.Sprintf("%d/s, %d connections", rate, connections), "n", "p50 ms", "p99 ms", "p99.9 ms")
	line := func(name string, l []time.Duration, rest string) {
		fmt.Printf("%-28s %8d %9.2f %9.2f %9.2f %s\n", name, len(l), ms(quantile(l, 0.5)), ms(quantile(l, 0.99)), ms(quantile(l, 0.999)), rest)
	}
	for i, o := range mixed[:len(mixed)-1] {
		line(o.name, byOp[i], "")
	}
	line("all", all, fmt.Sprintf("cpu %d µs per request, %d failed, %.0f/s", spent.Microseconds()/int64(max(1, len(samples))), bad, float64(len(samples))/took.Seconds()))
	line("health, in the same run", byOp[len(mixed)-1], "")
	line("sent late, part of each", late, "")
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
