// Command release builds the archives of a release: for each system the static
// program with its licence, notices, README and bill of materials; an image for
// two processors; then SHA256SUMS, a script that installs an archive, and the
// text of a Homebrew formula. The same sources give the same bytes.
//
// It runs in the module of the tools; -root is the directory of the product's.
package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
	"time"
)

//go:embed stoa.rb.tmpl install.sh.tmpl
var templates embed.FS

// A target is a system that the program is offered for.
type target struct{ OS, Arch string }

var targets = []target{
	{"linux", "amd64"},
	{"linux", "arm64"},
	{"darwin", "amd64"},
	{"darwin", "arm64"},
	{"windows", "amd64"},
	{"windows", "arm64"},
}

type release struct {
	root, out string
	version   string    // v1.2.3
	at        time.Time // of every file in the archives
	texts     map[string][]byte
}

// A file of an archive.
type file struct {
	name string
	mode int64
	data []byte
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("release: ")
	root := flag.String("root", "..", "`directory` of the product's module")
	out := flag.String("out", "../dist", "`directory` for the archives; it must be empty or missing")
	version := flag.String("version", "", "the `version`, such as v1.2.3")
	url := flag.String("url", "https://stoa.example.com/releases", "`address` below which VERSION/ARCHIVE will be found, for install.sh and the Homebrew formula")
	flag.Parse()
	if err := run(*root, *out, *version, *url); err != nil {
		log.Fatal(err)
	}
}

func run(root, out, version, url string) error {
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`).MatchString(version) {
		return fmt.Errorf("the version is %q; it has to look like v1.2.3: make release VERSION=v1.2.3", version)
	}
	if !regexp.MustCompile(`^https?://[^\s'"]+$`).MatchString(url) {
		return fmt.Errorf("the address %q is not one of the form https://host/path", url)
	}
	if old, err := os.ReadDir(out); err == nil && len(old) > 0 {
		return fmt.Errorf("%s is not empty; remove it first", out)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	r := release{root: root, out: out, version: version, texts: map[string][]byte{}}
	var err error
	if r.at, err = committed(root); err != nil {
		return err
	}
	for _, name := range []string{"LICENSE", "NOTICE", "README.md"} {
		if r.texts[name], err = os.ReadFile(filepath.Join(root, name)); err != nil {
			return err
		}
	}
	var sums bytes.Buffer
	add := func(name string) (string, error) {
		data, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			return "", err
		}
		sum := fmt.Sprintf("%x", sha256.Sum256(data))
		fmt.Fprintf(&sums, "%s  %s\n", sum, name)
		fmt.Printf("%s has %d bytes\n", name, len(data))
		return sum, nil
	}
	byName := map[string]string{}
	linux := map[string][]byte{}
	for _, t := range targets {
		name, program, err := r.archive(t)
		if err != nil {
			return fmt.Errorf("%s/%s: %w", t.OS, t.Arch, err)
		}
		if t.OS == "linux" {
			linux[t.Arch] = program
		}
		if byName[t.OS+"_"+t.Arch], err = add(name); err != nil {
			return err
		}
	}
	image, err := r.image(linux)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	if _, err := add(image); err != nil {
		return err
	}
	url = strings.TrimRight(url, "/")
	if err := r.fill("stoa.rb", 0o644, url, byName); err != nil {
		return err
	}
	if err := r.fill("install.sh", 0o755, url, byName); err != nil {
		return err
	}
	if _, err := add("install.sh"); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), sums.Bytes(), 0o644)
}

// committed returns the time of the last commit, or SOURCE_DATE_EPOCH.
func committed(root string) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		out, err := exec.Command("git", "-C", root, "log", "-1", "--format=%ct").Output()
		if err != nil {
			return time.Time{}, fmt.Errorf("ask git for the time of the last commit (or set SOURCE_DATE_EPOCH): %w", err)
		}
		text = strings.TrimSpace(string(out))
	}
	var seconds int64
	if _, err := fmt.Sscanf(text, "%d", &seconds); err != nil {
		return time.Time{}, fmt.Errorf("the time %q is not a number of seconds", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// archive builds for t and returns the archive's name and the program.
func (r release) archive(t target) (string, []byte, error) {
	program := "stoa"
	if t.OS == "windows" {
		program += ".exe"
	}
	temp, err := os.MkdirTemp("", "stoa-release")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(temp)
	binary := filepath.Join(temp, program)
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X stoa/internal/faces/cli.linked="+r.version, "-o", binary, "./cmd/stoa")
	build.Dir = r.root
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.OS, "GOARCH="+t.Arch)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return "", nil, fmt.Errorf("build: %w", err)
	}
	bom := exec.Command("go", "run", "./sbom", "-root", r.root, binary)
	bom.Stderr = os.Stderr
	materials, err := bom.Output()
	if err != nil {
		return "", nil, fmt.Errorf("bill of materials: %w", err)
	}
	code, err := os.ReadFile(binary)
	if err != nil {
		return "", nil, err
	}
	base := fmt.Sprintf("stoa-%s-%s-%s", r.version, t.OS, t.Arch)
	files := []file{{base + "/" + program, 0o755, code}, {base + "/stoa.cdx.json", 0o644, materials}}
	for _, name := range []string{"LICENSE", "NOTICE", "README.md"} {
		files = append(files, file{base + "/" + name, 0o644, r.texts[name]})
	}
	pack, suffix := r.tarball, ".tar.gz"
	if t.OS == "windows" {
		pack, suffix = r.zip, ".zip"
	}
	name := base + suffix
	f, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return "", nil, err
	}
	return name, code, errors.Join(pack(f, files), f.Close())
}

func (r release) tarball(w io.Writer, files []file) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: r.at, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

func (r release) zip(w io.Writer, files []file) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		part, err := z.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: r.at})
		if err != nil {
			return err
		}
		if _, err := part.Write(f.data); err != nil {
			return err
		}
	}
	return z.Close()
}

// fill writes the template of a file that names the archives, with their checksums.
func (r release) fill(name string, mode os.FileMode, url string, sums map[string]string) error {
	t, err := template.New(name+".tmpl").Option("missingkey=error").ParseFS(templates, name+".tmpl")
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := t.Execute(&text, map[string]any{
		"URL": url, "Tag": r.version, "Version": strings.TrimPrefix(r.version, "v"), "Sum": sums,
	}); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, name), text.Bytes(), mode)
}
