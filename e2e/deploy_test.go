package e2e

import (
	"bufio"
	"debug/elf"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goccy/go-yaml"

	"stoa/internal/base/config"
)

// An image is the result of the last stage of a Dockerfile.
type image struct {
	root string // its file system
	env  []string
	uid  uint32

	health, entrypoint, cmd []string
}

// The image contains everything that the service needs, and its health check works: the last
// stage of the Dockerfile is laid out in a directory, and the program runs in it as the
// image's user, without access to anything else.
func TestImageRuns(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("only root on Linux can change the root directory")
	}
	if !static(t, self(t)) {
		t.Skip("the test binary is not static; with CGO_ENABLED=0 it is")
	}
	im := readImage(t)
	cmd := im.command(append(im.entrypoint, im.cmd...), "STOA_LISTEN=127.0.0.1:0", asProgram+"=server")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		stdin.Close()
		cmd.Wait()
	})
	var url string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, at, ok := strings.Cut(lines.Text(), "is listening on "); ok {
			url = strings.TrimSpace(at)
			go io.Copy(io.Discard, out)
			break
		}
	}
	if url == "" {
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("the service does not start in the image:\n%s", text)
	}
	if !strings.HasPrefix(im.health[len(im.health)-1], "http://127.0.0.1:8080") {
		t.Errorf("the health check asks %s, not the port of STOA_LISTEN", im.health[len(im.health)-1])
	}
	check := append(im.health[:len(im.health)-1:len(im.health)-1], url)
	if answer, err := im.command(check, asProgram+"=command").CombinedOutput(); err != nil || string(answer) != "ok\n" {
		t.Errorf("the health check of a running service prints %q, %v", answer, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if answer, err := im.command(check, asProgram+"=command").CombinedOutput(); err == nil {
		t.Errorf("the health check of no service prints %q and succeeds", answer)
	}
}

// static reports whether a program needs no other file to run.
func static(t *testing.T, path string) bool {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return !slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

func (im image) command(args []string, env ...string) *exec.Cmd {
	cmd := &exec.Cmd{Path: args[0], Args: args, Dir: "/", Env: append(append([]string{}, im.env...), env...)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: im.root, Credential: &syscall.Credential{Uid: im.uid, Gid: im.uid}}
	return cmd
}

// readImage lays out the last stage of the Dockerfile.
func readImage(t *testing.T) image {
	t.Helper()
	text, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`)
	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := "golang:" + version.FindStringSubmatch(string(module))[1] + " "; !strings.Contains(string(text), want) {
		t.Errorf("the Dockerfile does not build with %s, go.mod's version", want)
	}
	_, last, ok := strings.Cut(string(text), "\nFROM scratch\n")
	if !ok || strings.Contains(last, "\nFROM ") {
		t.Fatal("the last stage of the Dockerfile is not FROM scratch")
	}
	im := image{root: t.TempDir()}
	for above := im.root; above != filepath.Dir(os.TempDir()) && above != "/"; above = filepath.Dir(above) {
		os.Chmod(above, 0o755) // the image's user needs access
	}
	for line := range strings.Lines(last) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "", "#", "VOLUME", "EXPOSE", "STOPSIGNAL":
		case "COPY":
			im.copy(t, strings.Fields(rest))
		case "ENV":
			im.env = append(im.env, strings.Fields(rest)...)
		case "USER":
			if rest != "65532:65532" {
				t.Fatalf("the image's user is %s", rest)
			}
			im.uid = 65532
		case "HEALTHCHECK":
			_, form, _ := strings.Cut(rest, "CMD ")
			im.health = words(t, form)
		case "ENTRYPOINT":
			im.entrypoint = words(t, rest)
		case "CMD":
			im.cmd = words(t, rest)
		default:
			t.Fatalf("this test does not know the instruction %q", line)
		}
	}
	if im.uid == 0 {
		t.Fatal("the image runs as root")
	}
	if unknown := config.UnknownVariables(im.env); len(unknown) > 0 {
		t.Errorf("the image sets variables that mean nothing: %q", unknown)
	}
	return im
}

// copy performs a COPY of the last stage; this test binary is the program.
func (im image) copy(t *testing.T, args []string) {
	t.Helper()
	var owned bool
	for strings.HasPrefix(args[0], "--") {
		owned = owned || args[0] == "--chown=65532:65532"
		args = args[1:]
	}
	target := filepath.Join(im.root, args[len(args)-1])
	for _, from := range args[:len(args)-1] {
		var err error
		switch {
		case from == "/out/stoa":
			var program []byte
			if program, err = os.ReadFile(self(t)); err == nil {
				err = os.WriteFile(target, program, 0o755)
			}
		case strings.HasPrefix(from, "/out/"): // an empty directory
			err = os.Mkdir(target, 0o755)
		case strings.HasPrefix(from, "/"): // of the image that builds
		default:
			_, err = os.Stat(filepath.Join("..", from))
		}
		if err == nil && owned {
			err = os.Chown(target, 65532, 65532)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func words(t *testing.T, form string) (all []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(form), &all); err != nil || len(all) == 0 {
		t.Fatalf("%q is not a list of words: %v", form, err)
	}
	return all
}

// The compose files name files that exist and variables that have an effect.
func TestComposeFilesFit(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../deploy/compose*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no compose file", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Services map[string]struct {
				Build       string            `yaml:"build"`
				Environment map[string]string `yaml:"environment"`
				Volumes     []string          `yaml:"volumes"`
				Ports       []string          `yaml:"ports"`
				Memory      string            `yaml:"mem_limit"`
				Processes   int               `yaml:"pids_limit"`
			} `yaml:"services"`
			Volumes map[string]any `yaml:"volumes"`
		}
		if err := yaml.Unmarshal(text, &file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for service, s := range file.Services {
			if s.Build != "" {
				if _, err := os.Stat(filepath.Join(filepath.Dir(name), s.Build, "Dockerfile")); err != nil {
					t.Errorf("%s: %s: %v", name, service, err)
				}
				// Metrics can be reached from other containers, but from nowhere else.
				if at := s.Environment["STOA_ADMIN_LISTEN"]; at != "0.0.0.0:9090" {
					t.Errorf("%s: %s has its admin listener on %q, which other containers do not reach", name, service, at)
				}
			}
			if s.Memory == "" || s.Processes == 0 {
				t.Errorf("%s: %s has no limit of memory (%q) or processes (%d)", name, service, s.Memory, s.Processes)
			}
			if key := s.Environment["STOA_BOOTSTRAP_KEY"]; strings.Contains(key, ":?") {
				t.Errorf("%s: %s needs the owner's key at every start: %q", name, service, key)
			}
			for _, p := range s.Ports {
				if !strings.HasPrefix(p, "127.0.0.1:") {
					t.Errorf("%s: %s publishes %s to other machines", name, service, p)
				}
				if strings.HasSuffix(p, ":9090") || !strings.Contains(p, ":") {
					t.Errorf("%s: %s publishes %s", name, service, p)
				}
			}
			var env []string
			for variable, value := range s.Environment {
				env = append(env, variable+"="+value)
			}
			if unknown := config.UnknownVariables(env); len(unknown) > 0 {
				t.Errorf("%s: %s sets variables that mean nothing: %q", name, service, unknown)
			}
			for _, v := range s.Volumes {
				from, _, _ := strings.Cut(v, ":")
				if _, named := file.Volumes[from]; !named {
					if _, err := os.Stat(filepath.Join(filepath.Dir(name), from)); err != nil {
						t.Errorf("%s: %s: %v", name, service, err)
					}
				}
			}
		}
	}
}

// The shipped unit is the documented one.
func TestUnitIsTheDocumentedOne(t *testing.T) {
	t.Parallel()
	unit, err := os.ReadFile("../deploy/stoa.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range snippets(t, "docs/install.md") {
		if s.language == "ini" && s.text == string(unit) {
			return
		}
	}
	t.Error("deploy/stoa.service is not the unit in docs/install.md")
}
