package shape

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var record = flag.String("record", "", "the folder of the real programs whose replies are recorded again; see .ci/record")

// A Recording is a file with the replies of a real program.
type Recording struct {
	File string // below testdata
	// Record returns the version of the real program and its replies. The program is in a folder.
	Record func(t *testing.T, programs string) (version string, all []Reply)
	// Random are regular expressions of values that differ each time. Each match is replaced in the recording by
	// a text of the same kind.
	Random map[string]string
	// OnPurpose are the reasons of accepted differences, by regular expressions of them.
	OnPurpose map[string]string
}

// Compare compares the replies of a fake with the recording. With -record, the recording is made again before; a
// change of its shape is an error, once.
func (r Recording) Compare(t *testing.T, fake []Reply) {
	t.Helper()
	path := filepath.Join("testdata", r.File)
	recorded, err := os.ReadFile(path)
	switch {
	case *record != "":
		known := recorded
		recorded = r.again(t, path)
		for _, d := range Differences(Replies(known), Replies(recorded)) {
			t.Errorf("the real program has changed: %s", d)
		}
	case err != nil:
		t.Fatal(err)
	}
	for _, d := range Unexpected(Replies(recorded), fake, r.OnPurpose) {
		t.Error(d)
	}
}

// Unexpected returns the differences between real replies and those of a fake, except for those on purpose, and the
// purposes without a difference.
func Unexpected(real, fake []Reply, onPurpose map[string]string) (all []string) {
	seen := map[string]bool{}
	for _, d := range slices.Compact(slices.Sorted(slices.Values(Differences(real, fake)))) {
		accepted := false
		for pattern := range onPurpose {
			if regexp.MustCompile("^" + pattern + "$").MatchString(d) {
				accepted, seen[pattern] = true, true
			}
		}
		if !accepted {
			all = append(all, d)
		}
	}
	for pattern, reason := range onPurpose {
		if !seen[pattern] {
			all = append(all, fmt.Sprintf("there is no difference like %q (%s) any more", pattern, reason))
		}
	}
	return all
}

// again writes the recording, and returns it.
func (r Recording) again(t *testing.T, path string) []byte {
	version, all := r.Record(t, *record)
	out := &txtar.Archive{Comment: []byte(version + ", recorded by .ci/record\n")}
	for _, reply := range all {
		if slices.ContainsFunc(out.Files, func(f txtar.File) bool { return f.Name == reply.Name }) {
			continue // it was repeated
		}
		for _, pattern := range slices.Sorted(maps.Keys(r.Random)) {
			reply.Text = regexp.MustCompile(pattern).ReplaceAllString(reply.Text, r.Random[pattern])
		}
		out.Files = append(out.Files, txtar.File{Name: reply.Name, Data: []byte(strings.TrimRight(reply.Text, "\n") + "\n")})
	}
	text := txtar.Format(out)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return text
}

// Replies returns the replies of a recording.
func Replies(recording []byte) (all []Reply) {
	for _, f := range txtar.Parse(recording).Files {
		all = append(all, Reply{f.Name, string(f.Data)})
	}
	return all
}

// A Sample is a recorded reply over HTTP, in the form of which a fake answers.
type Sample struct {
	Status int
	Header http.Header
	Body   []byte
}

// Find returns a reply of a recording.
func Find(recording []byte, name string) (s Sample) {
	all := Replies(recording)
	at := slices.IndexFunc(all, func(r Reply) bool { return r.Name == name })
	if at < 0 {
		panic("the recording has no reply " + name)
	}
	head, body, _ := strings.Cut(all[at].Text, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	s.Status, _ = strconv.Atoi(lines[0])
	s.Header, s.Body = http.Header{}, []byte(body)
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		s.Header.Set(name, value)
	}
	return s
}

// Answer answers with the status, the headers and the order of a recorded reply. Without members its body is the
// recorded one.
func (s Sample) Answer(w http.ResponseWriter, members map[string]any) {
	for name, values := range s.Header {
		if w.Header().Get(name) == "" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(s.Status)
	body := s.Body
	if members != nil {
		body = Order(s.Body, members)
	}
	_, _ = w.Write(body)
}

// HTTP reads a reply over HTTP. Of its headers it has the type of the content and those that are named.
func HTTP(t *testing.T, name string, res *http.Response, headers ...string) Reply {
	t.Helper()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, body, "", "  ") == nil {
		body = pretty.Bytes()
	}
	text := fmt.Sprintln(res.StatusCode)
	for _, name := range append([]string{"Content-Type"}, headers...) {
		if value := res.Header.Get(name); value != "" {
			text += name + ": " + value + "\n"
		}
	}
	return Reply{name, text + "\n" + string(body)}
}

// Run runs a program in a folder until the test ends, and returns the port at which it accepts connections. PORT
// in its arguments is replaced by it, and it is the variable PORT.
func Run(t *testing.T, dir string, variables []string, program string, args ...string) (port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ = net.SplitHostPort(l.Addr().String())
	l.Close()
	cmd := exec.Command(program)
	for _, a := range args {
		cmd.Args = append(cmd.Args, strings.ReplaceAll(a, "PORT", port))
	}
	var printed bytes.Buffer // complete when it has ended
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(append(cmd.Environ(), "PORT="+port), variables...), &printed, &printed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	for {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
			return port
		}
		select {
		case <-ended:
			t.Fatalf("%s has ended: %s", program, &printed)
		default:
			runtime.Gosched()
		}
	}
}

// NPM returns the name and the version of an installed package.
func NPM(t *testing.T, programs, name string) string {
	t.Helper()
	var p struct{ Version string }
	raw, err := os.ReadFile(filepath.Join(programs, "node_modules", name, "package.json"))
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name + " " + p.Version
}

// Go returns the path and the version of an installed Go program.
func Go(t *testing.T, programs, name string) string {
	t.Helper()
	info, err := buildinfo.ReadFile(filepath.Join(programs, "bin", name))
	if err != nil {
		t.Fatal(err)
	}
	return info.Path + " " + info.Main.Version
}
