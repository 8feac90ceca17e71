package browsertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/websocket"
)

// A Firefox is a page of a headless Firefox, which it runs by WebDriver BiDi. It is for one goroutine.
type Firefox struct {
	t    testing.TB
	conn *websocket.Conn
	last int
	page string
}

// StartFirefox starts the installed Firefox until the test ends, or skips the test.
func StartFirefox(t testing.TB) *Firefox {
	t.Helper()
	var path string
	for _, name := range []string{"firefox-esr", "firefox"} {
		if path, _ = exec.LookPath(name); path != "" {
			break
		}
	}
	if path == "" {
		t.Skip("Firefox is not installed")
	}
	const origin = "http://127.0.0.1"
	profile := t.TempDir()
	if err := os.WriteFile(filepath.Join(profile, "user.js"), []byte(`user_pref("ui.prefersReducedMotion", 1);`), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), path, "--headless", "--no-remote", "--remote-debugging-port", "0", "--remote-allow-origins", origin, "--profile", profile)
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f := &Firefox{t: t}
	t.Cleanup(func() {
		if f.conn != nil {
			_, _ = f.ask("browser.close", map[string]any{})
			f.conn.Close()
		} else {
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(said)
	for lines.Scan() && f.conn == nil {
		if _, address, ok := strings.Cut(lines.Text(), "WebDriver BiDi listening on "); ok {
			if f.conn, err = websocket.Dial(address+"/session", "", origin); err != nil {
				t.Fatal(err)
			}
		}
	}
	go func() { // it must not wait for a reader
		for lines.Scan() {
		}
	}()
	if f.conn == nil {
		t.Fatal("Firefox ended before it listened")
	}
	f.conn.MaxPayloadBytes = 64 << 20
	f.must("session.new", map[string]any{"capabilities": map[string]any{}}, nil)
	var tree struct{ Contexts []struct{ Context string } }
	f.must("browsingContext.getTree", map[string]any{}, &tree)
	f.page = tree.Contexts[0].Context
	return f
}

// ask sends a command and returns its result.
func (f *Firefox) ask(method string, params any) (json.RawMessage, error) {
	f.last++
	if err := websocket.JSON.Send(f.conn, map[string]any{"id": f.last, "method": method, "params": params}); err != nil {
		return nil, err
	}
	for {
		var got struct {
			ID             int
			Type, Message  string
			Error          string
			Result, Params json.RawMessage
		}
		if err := websocket.JSON.Receive(f.conn, &got); err != nil {
			return nil, err
		}
		switch {
		case got.Type == "event" || got.ID != f.last:
		case got.Type == "error":
			return nil, fmt.Errorf("%s: %s: %s", method, got.Error, got.Message)
		default:
			return got.Result, nil
		}
	}
}

func (f *Firefox) must(method string, params, into any) {
	f.t.Helper()
	got, err := f.ask(method, params)
	if err == nil && into != nil {
		err = json.Unmarshal(got, into)
	}
	if err != nil {
		f.t.Fatalf("%s: %v", method, err)
	}
}

// Open loads an address.
func (f *Firefox) Open(address string) {
	f.t.Helper()
	f.must("browsingContext.navigate", map[string]any{"context": f.page, "url": address, "wait": "complete"}, nil)
}

// Resize changes the window of the page.
func (f *Firefox) Resize(width, height int64) {
	f.t.Helper()
	f.must("browsingContext.setViewport", map[string]any{"context": f.page, "viewport": map[string]any{"width": width, "height": height}}, nil)
}

// Run evaluates an expression, waits for its promise, and stores its value, as JSON has it.
func (f *Firefox) Run(expression string, into any) error {
	got, err := f.ask("script.evaluate", map[string]any{
		"expression": "Promise.resolve(" + expression + ").then((v) => JSON.stringify(v ?? null))", "target": map[string]any{"context": f.page}, "awaitPromise": true,
	})
	if err != nil {
		return err
	}
	var reply struct {
		Type             string
		Result           struct{ Value string }
		ExceptionDetails struct{ Text string }
	}
	if err := json.Unmarshal(got, &reply); err != nil {
		return err
	}
	if reply.Type != "success" {
		return errors.New(reply.ExceptionDetails.Text)
	}
	return json.Unmarshal([]byte(reply.Result.Value), into)
}

// Picture returns the window as PNG.
func (f *Firefox) Picture() []byte {
	f.t.Helper()
	var got struct{ Data []byte }
	f.must("browsingContext.captureScreenshot", map[string]any{"context": f.page}, &got)
	return got.Data
}
