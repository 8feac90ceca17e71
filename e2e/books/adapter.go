//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// An adapter describes a gateway. README.md explains each member; every text of it may have
// variables in braces.
type adapter struct {
	Name          string
	Build         [][]string          // commands, in the environment of this program
	Version       []string            // prints the version
	Files         map[string][]string // lines by path
	Env           map[string]string
	Start         []string // empty: the gateway runs already
	Ready         string   // URL that answers 200 when the gateway serves
	ReadySeconds  int
	Setup         []step // once, after the first start
	Call          target
	Price         price
	RoundingMicro int64 // by which the charge of a call may differ
	ContextTokens int   // of the model
	Customer      []step
	Books         struct {
		Spent *reading
		Calls *listing
	}
	SettleSeconds int // until the books are complete after the last reply
	Database      *database
	Allowed       map[string]map[string]figure // by scenario and figure; the scenario "*" stands for each
}

// A target is the endpoint that callers use.
type target struct {
	URL     string
	Wire    string // chat or responses
	Model   string
	Headers map[string]string
	Body    object // additional members
}

// A price is in micro-units of money per million tokens.
type price struct{ Input, Output int64 }

// of returns the price of a call, rounded up.
func (p price) of(input, output int) int64 {
	return (int64(input)*p.Input + int64(output)*p.Output + 999_999) / 1_000_000
}

// A step is a request or a command; both answer with JSON.
type step struct {
	Method, URL string
	Headers     map[string]string
	Body        any
	Command     []string
	Take        map[string]string // JSON pointers into the answer, by the variable that receives the value
}

// A reading is a number in an answer.
type reading struct {
	step
	Value        string
	MicroPerUnit float64 // 1 if zero
}

// A listing is the list of a key's billed calls. Next points to the cursor of the next page, which is
// sent in the query parameter Cursor; if the URL has {page}, pages count from 0 until an empty one.
type listing struct {
	step
	List, Amount string
	Mark, ID     string // the member "user" of the call, or the id of the reply; without both, calls are only counted
	Next, Cursor string
	MicroPerUnit float64
}

// A database stores the books of the gateway and can be taken away from it.
type database struct {
	Env             string     // variable of this program with the URL of the server
	Prepare, Remove [][]string // commands
	Away, Back      [][]string // commands; without them a proxy is between the gateway and the server
}

// environment matches {$NAME}, a variable of the environment.
var environment = regexp.MustCompile(`\{\$[A-Z0-9_]+\}`)

// readAdapter reads an adapter; an unknown member is an error, since it is usually a mistyped one.
func readAdapter(path string) (*adapter, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var missing error
	text = environment.ReplaceAllFunc(text, func(match []byte) []byte {
		name := string(match[2 : len(match)-1])
		value, _ := json.Marshal(os.Getenv(name)) // a string always is JSON
		if os.Getenv(name) == "" {
			missing = fmt.Errorf("%s needs the variable %s", path, name)
		}
		return bytes.Trim(value, `"`)
	})
	if missing != nil {
		return nil, missing
	}
	a := &adapter{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(a); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return a, a.check()
}

func (a *adapter) check() error {
	switch {
	case a.Call.URL == "" || a.Call.Wire != "chat" && a.Call.Wire != "responses":
		return errors.New("the adapter needs call.url, and call.wire: chat or responses")
	case len(a.Customer) == 0 || a.Books.Spent == nil || a.Books.Calls == nil:
		return errors.New("the adapter needs customer, books.spent and books.calls")
	case a.Price.Input <= 0 || a.Price.Output <= 0:
		return errors.New("the adapter needs price.input and price.output, in micro-units per million tokens")
	}
	return nil
}

// A gateway is the program that an adapter describes.
type gateway struct {
	*adapter
	dir, log string
	vars     map[string]string
	http     *http.Client
	relay    *relay
	note     func(string, ...any)

	cmd   *exec.Cmd
	ended chan struct{}
}

// onlyLoopback refuses every connection that leaves the machine.
func onlyLoopback(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("%s is not a loopback address; this test only runs against programs of this machine", address)
	}
	return nil
}

// client makes connections to loopback addresses only. It never repeats a request: calls are counted.
func client() *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, Control: onlyLoopback}
	return &http.Client{
		Transport:     &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 64, IdleConnTimeout: 30 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// isLoopback resolves the host of a URL.
func isLoopback(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return err
	}
	ips, err := net.LookupIP(u.Hostname())
	if err != nil {
		return err
	}
	for _, ip := range ips {
		if !ip.IsLoopback() {
			return fmt.Errorf("%s resolves to %s, which is not a loopback address", u.Hostname(), ip)
		}
	}
	return nil
}

// fill replaces variables. A JSON text that consists of "#{name}" becomes the bare value.
func fill(text string, vars ...map[string]string) string {
	for _, m := range vars {
		for name, value := range m {
			text = strings.ReplaceAll(text, `"#{`+name+`}"`, value)
			text = strings.ReplaceAll(text, "{"+name+"}", value)
		}
	}
	return text
}

func fillAll(list []string, vars ...map[string]string) []string {
	out := make([]string, len(list))
	for i, text := range list {
		out[i] = fill(text, vars...)
	}
	return out
}

// pointer returns the value at a JSON pointer (RFC 6901).
func pointer(value any, path string) (any, error) {
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if path == "" {
			break
		}
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		switch at := value.(type) {
		case map[string]any:
			next, ok := at[name]
			if !ok {
				return nil, fmt.Errorf("nothing is at %s", path)
			}
			value = next
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(at) {
				return nil, fmt.Errorf("nothing is at %s", path)
			}
			value = at[i]
		default:
			return nil, fmt.Errorf("nothing is at %s", path)
		}
	}
	return value, nil
}

// plain returns a JSON value as a text: a number as it was written.
func plain(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// amount returns a sum of money in micro-units.
func amount(value any, microPerUnit float64) (int64, error) {
	if value == nil {
		return 0, nil // nothing was spent yet
	}
	f, err := strconv.ParseFloat(plain(value), 64)
	if err != nil {
		return 0, fmt.Errorf("%v is not an amount", value)
	}
	if microPerUnit == 0 {
		microPerUnit = 1
	}
	return int64(math.Round(f * microPerUnit)), nil
}

const maxAnswer = 64 << 20

// do makes a step and returns its answer.
func (g *gateway) do(ctx context.Context, s step, vars map[string]string) (answer any, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var text []byte
	if len(s.Command) > 0 {
		if text, err = g.command(ctx, s.Command, vars); err != nil {
			return nil, err
		}
	} else {
		var body io.Reader
		if s.Body != nil {
			raw, err := json.Marshal(s.Body)
			if err != nil {
				return nil, err
			}
			body = strings.NewReader(fill(string(raw), vars, g.vars))
		}
		method := s.Method
		if method == "" {
			method = http.MethodGet
		}
		req, err := http.NewRequestWithContext(ctx, method, fill(s.URL, vars, g.vars), body)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		for name, value := range s.Headers {
			req.Header.Set(name, fill(value, vars, g.vars))
		}
		res, err := g.http.Do(req)
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		if text, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer)); err != nil {
			return nil, err
		}
		if res.StatusCode/100 != 2 {
			return nil, fmt.Errorf("%s %s: %d %.300s", method, req.URL.Path, res.StatusCode, text)
		}
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // ids may be long numbers
	if err := d.Decode(&answer); err != nil && (len(s.Take) > 0 || len(s.Command) == 0) {
		return nil, fmt.Errorf("not JSON: %.300s", text)
	}
	for name, path := range s.Take {
		value, err := pointer(answer, path)
		if err != nil {
			return nil, fmt.Errorf("%w of %.300s", err, text)
		}
		vars[name] = plain(value)
	}
	return answer, nil
}

// command runs a program of the adapter and returns what it prints.
func (g *gateway) command(ctx context.Context, args []string, vars map[string]string) ([]byte, error) {
	args = fillAll(args, vars, g.vars)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.WaitDelay = g.dir, 5*time.Second
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return nil, fmt.Errorf("%s: %w", args[0], err)
	}
	return out, nil
}

func (g *gateway) commands(ctx context.Context, list [][]string) error {
	for _, args := range list {
		if _, err := g.command(ctx, args, nil); err != nil {
			return err
		}
	}
	return nil
}

// prepare builds the gateway, writes its files and opens the way to its database.
func (g *gateway) prepare(ctx context.Context) error {
	if d := g.Database; d != nil && d.Env != "" {
		text := os.Getenv(d.Env)
		u, err := url.Parse(text)
		if err != nil || u.Host == "" {
			return fmt.Errorf("the adapter needs the URL of a database server in %s", d.Env)
		}
		if err := isLoopback(text); err != nil {
			return err
		}
		if g.relay, err = newRelay(u.Host); err != nil {
			return err
		}
		name := fmt.Sprintf("books_%d", os.Getpid())
		g.vars["databaseServer"], g.vars["databaseName"] = text, name
		u.Path = "/" + name
		g.vars["databaseDirect"] = u.String()
		u.Host = g.relay.listener.Addr().String()
		g.vars["databaseURL"] = u.String()
		if err := g.commands(ctx, d.Prepare); err != nil {
			return err
		}
	}
	for _, text := range []string{g.Call.URL, g.Ready} {
		if text != "" {
			if err := isLoopback(fill(text, g.vars)); err != nil {
				return err
			}
		}
	}
	for path, lines := range g.Files {
		path = filepath.Join(g.dir, fill(path, g.vars))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(fill(strings.Join(lines, "\n")+"\n", g.vars)), 0o600); err != nil {
			return err
		}
	}
	return g.commands(ctx, g.Build)
}

// start starts the process, in a process group that is killed as a whole, and waits until it serves.
func (g *gateway) start(ctx context.Context) error {
	if len(g.Start) > 0 {
		log, err := os.OpenFile(g.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		defer log.Close()
		args := fillAll(g.Start, g.vars)
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = g.dir, log, log
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir}
		for name, value := range g.Env {
			cmd.Env = append(cmd.Env, name+"="+fill(value, g.vars))
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			return err
		}
		ended := make(chan struct{})
		go func() {
			cmd.Wait()
			close(ended)
		}()
		g.cmd, g.ended = cmd, ended
	}
	if g.Ready == "" {
		return nil
	}
	limit, cancel := context.WithTimeout(ctx, time.Duration(max(g.ReadySeconds, 60))*time.Second)
	defer cancel()
	for {
		err := g.isReady(limit)
		if err == nil {
			return nil
		}
		select {
		case <-g.ended:
			return fmt.Errorf("the gateway ended at its start:\n%s", g.tail())
		case <-limit.Done():
			return fmt.Errorf("the gateway is not ready: %w\n%s", err, g.tail())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (g *gateway) isReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fill(g.Ready, g.vars), nil)
	if err != nil {
		return err
	}
	res, err := g.http.Do(req)
	if err != nil {
		return err
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	return nil
}

func (g *gateway) tail() string {
	text, err := os.ReadFile(g.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-3000):])
}

// kill ends the process and its children with SIGKILL, as kill -9 does.
func (g *gateway) kill() {
	if g.cmd != nil {
		syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL)
		<-g.ended
		g.cmd = nil
	}
}

// stop ends the process, by force if it does not end by itself.
func (g *gateway) stop() {
	if g.cmd == nil {
		return
	}
	syscall.Kill(-g.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-g.ended:
	case <-time.After(15 * time.Second):
	}
	g.kill() // also children that outlived it
}

// freePort returns a port below those that the system assigns, so that no other program uses it while
// the gateway is down.
func freePort() (int, error) {
	for range 100 {
		port := 20_000 + rand.IntN(10_000)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port")
}
