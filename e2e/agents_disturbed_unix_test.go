//go:build unix

package e2e

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"stoa/internal/testkit/fakeup"
)

// disturbed is the time after which an agent that goes on is stopped by Ctrl-C.
var disturbed = flag.Duration("disturbed", 0, "how long each coding agent is watched while something goes wrong; 0 skips the test")

// A disturbance is what goes wrong, for each request.
type disturbance struct {
	name    string
	orders  string // to the vendor
	key     string // instead of one with credits; empty: no change. "none" is one without credits
	more    string // settings
	atMost  int    // requests that reach the vendor, at most; 0: none do
	charged int    // receipts
	after   time.Duration
}

var disturbances = []disturbance{
	{name: "wrong key", key: "sk-stoa-0000000000000000000000000000000000"},
	{name: "no credits", key: "none"},
	{name: "429, Retry-After 30", orders: "fail: 429\nretry-after: 30", atMost: 25},
	{name: "429", orders: "fail: 429", atMost: 120},
	{name: "503", orders: "fail: 503", atMost: 120},
	{name: "529", orders: "fail: 529", atMost: 120},
	{name: "cut", orders: "fault: reset after 3\nsay: one two three four five", atMost: 120},
	{name: "stall", orders: "fault: hang-body after 3\nsay: one two three four five", atMost: 120},
	{name: "prompt too long", more: ", contextTokens: 1000"},
	{name: "Ctrl-C", orders: "fault: endless", atMost: 2, charged: 2, after: 10 * time.Second},
}

var ansi = regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]|\x1b\][^\x07]*\x07`)

// TestCodingAgentsWhenSomethingGoesWrong prints what the agents show, how many requests they send and what they are
// charged. What failed is never charged, and what Stoa refuses never reaches a vendor.
func TestCodingAgentsWhenSomethingGoesWrong(t *testing.T) {
	t.Parallel()
	packages := os.Getenv(agentPackages)
	if packages == "" || *disturbed == 0 {
		t.Skip(agentPackages + " or -disturbed is not set")
	}
	own := map[string]string{"Codex": "responses", "ClaudeCode": "messages", "opencode": "chat", "GeminiCLI": "gemini", "QwenCode": "gemini"}
	var mu sync.Mutex
	rows := map[string]string{}
	t.Cleanup(func() {
		for _, d := range disturbances {
			for _, a := range agents() {
				if row := rows[d.name+a.name]; row != "" {
					fmt.Println(row)
				}
			}
		}
	})
	for _, d := range disturbances {
		for _, a := range agents() {
			if own[a.name] == "" {
				continue
			}
			t.Run(d.name+"/"+a.name, func(t *testing.T) {
				t.Parallel()
				row := disturb(t, a, filepath.Join(packages, "node_modules/.bin"), own[a.name], d)
				mu.Lock()
				defer mu.Unlock()
				rows[d.name+a.name] = row
			})
		}
	}
}

func disturb(t *testing.T, a codingAgent, bin, wire string, d disturbance) (row string) {
	home, dir := t.TempDir(), t.TempDir()
	broken(t, dir)
	vendor := fakeup.Start(t, fakeup.Options{Script: func([]byte) string { return d.orders }})
	h := newServer(t, vendor.URL, fmt.Sprintf(`
extensions: {models: true, inputTokens: true, chatCompletions: true, messages: true, gemini: true, tools: true, formats: true, images: true, files: true}
extensionOptions: {chatCompletions: {noCredits: 402}}
aliasSets: [anthropic, openai]
auto: [beta-3.8-flash]
models:
  %s: {maxOutput: 65536%s, routes: [{provider: v-%s, model: %s}]}
`, a.model, d.more, wire, upstreamNames[wire]))
	text, err := os.ReadFile(h.config)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, h.config, strings.ReplaceAll(string(text), fakeup.Key+"}", fakeup.Key+", timeouts: {idle: 6s}}"))
	h.start()
	key := cmp.Or(d.key, ownerKey)
	if key == "none" {
		key = h.newAccount(t, "pro", 0).key
	}
	a.mcp = ""
	cmd := a.run(t, bin, home, dir, h.url, key)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	begun := time.Now()
	go func() { ended <- cmd.Wait() }()
	end := "ends"
	select {
	case err = <-ended:
	case <-time.After(cmp.Or(d.after, *disturbed)):
		end = "goes on"
		syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
		select {
		case err = <-ended:
		case <-time.After(10 * time.Second):
			end = "goes on after Ctrl-C"
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			err = <-ended
		}
	}
	took := time.Since(begun)
	served := len(vendor.Served())
	receipts := h.receipts(t, ownerKey)
	micro := int64(0)
	for _, r := range receipts {
		micro += r.CreditsMicro
	}
	if served > d.atMost {
		t.Errorf("%d requests reached the vendor", served)
	}
	if len(receipts) > d.charged {
		t.Errorf("%d receipts", len(receipts))
	}
	var shown []string
	for line := range strings.Lines(ansi.ReplaceAllString(out.String(), "")) {
		if line = strings.TrimSpace(line); line != "" {
			shown = append(shown, line)
		}
	}
	last := strings.Join(shown[max(0, len(shown)-3):], " / ")
	if len(last) > 300 {
		last = last[:300]
	}
	code := "exit 0"
	if err != nil {
		code = err.Error()
	}
	return fmt.Sprintf("%s | %s | %s, %s, %d s | vendor %d | receipts %d, %d micro | %s", d.name, a.name, end, code, int(took.Seconds()), served, len(receipts), micro, last)
}
