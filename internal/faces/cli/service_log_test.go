package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stoa/internal/base/config"
)

// TestALogThatNobodyReadsStopsNoRequest makes more requests than a pipe has space for
// the lines of, and reads them afterwards.
func TestALogThatNobodyReadsStopsNoRequest(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	out, said := io.Pipe()
	defer out.Close()
	log, errOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	ended := make(chan int, 1)
	go func() {
		defer errOut.Close()
		defer said.Close()
		args := []string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "off", "--data", filepath.Join(t.TempDir(), "data"), "--durability", "process", "--log-format", "json"}
		ended <- Main(ctx, args, []string{"GOGC=100", "GOMAXPROCS=2"}, nil, strings.NewReader(""), said, errOut) // GOGC and GOMAXPROCS of the test stay
	}()
	var url string
	lines := bufio.NewScanner(out)
	for url == "" && lines.Scan() {
		if m := regexp.MustCompile(`listening on (http://\S+)`).FindStringSubmatch(lines.Text()); m != nil {
			url = m[1]
		}
	}
	go io.Copy(io.Discard, out)
	const requests = 400
	path := "/api/v1/" + strings.Repeat("x", 192)
	for i := range requests {
		req, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("%s%s", url, path), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	read := make(chan []byte)
	go func() {
		text, _ := io.ReadAll(log)
		read <- text
	}()
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("serve ends with %d", code)
	}
	text := <-read
	if len(text) < 64<<10 {
		t.Errorf("only %d bytes were logged: a pipe has space for them", len(text))
	}
	logged := 0
	for line := range strings.Lines(string(text)) {
		var l struct{ Msg, Path string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		if l.Msg == "request" && l.Path == path {
			logged++
		}
	}
	if logged != requests {
		t.Errorf("%d of %d requests are logged", logged, requests)
	}
}

// A slow writer takes a second for each write.
type slow struct{ strings.Builder }

func (s *slow) Write(p []byte) (int, error) {
	time.Sleep(time.Second)
	return s.Builder.Write(p)
}

// TestTheLogComesBeforeTheError has a service that cannot start after it has logged a
// warning.
func TestTheLogComesBeforeTheError(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	data := t.TempDir()
	if err := os.Chmod(data, 0o755); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var out slow
		args := []string{"serve", "--listen", taken.Addr().String(), "--data", data}
		code := Main(t.Context(), args, []string{"GOMAXPROCS=2"}, nil, strings.NewReader(""), io.Discard, &out)
		if !regexp.MustCompile(`(?s)^time=\S+ level=WARN .*chmod 700.*\nstoa: listen: `).MatchString(out.String()) || code != exitFailed {
			t.Errorf("exit code %d:\n%s", code, &out.Builder)
		}
	})
}

// A stuck writer takes nothing until it is closed.
type stuck chan struct{}

func (s stuck) Write(p []byte) (int, error) {
	<-s
	return len(p), nil
}

// TestAServiceEndsWhoseLogIsStuck: neither the lines that are left nor the error of the
// command hold it up.
func TestAServiceEndsWhoseLogIsStuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := make(stuck)
		e := &env{err: s}
		log, lines := e.serviceLog(config.Log{})
		log.Info("a")
		began := time.Now()
		e.endLog(lines)
		if waited := time.Since(began); waited != flushTime {
			t.Errorf("the end took %v", waited)
		}
		e.printError(context.DeadlineExceeded)
		close(s)
	})
}

// TestDroppedLinesAreToldAsTheLogIs: in its format, and whatever its level is.
func TestDroppedLinesAreToldAsTheLogIs(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		"text": `level=WARN msg="lines of the log were dropped, because they arrived faster than they could be written" lines=1`,
		"json": `"level":"WARN","msg":"lines of the log were dropped, because they arrived faster than they could be written","lines":1}`,
	} {
		var out strings.Builder
		e := &env{err: &out}
		log, lines := e.serviceLog(config.Log{Format: format, Level: "error"})
		log.Error(strings.Repeat("x", 1<<20))
		e.endLog(lines)
		if !strings.HasSuffix(out.String(), want+"\n") || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("%s: %.200q", format, out.String())
		}
	}
}
