package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func testRelease(t *testing.T) release {
	return release{
		out: t.TempDir(), version: "v1.2.3", at: time.Unix(1700000000, 0).UTC(),
		texts: map[string][]byte{"LICENSE": []byte("licence"), "NOTICE": []byte("notice"), "README.md": []byte("readme")},
	}
}

// The image is one archive of OCI's image layout for two processors, the same each time, and runs the program as the
// Dockerfile does.
func TestTheImageHoldsTwoProcessors(t *testing.T) {
	programs := map[string][]byte{"amd64": []byte("for amd64"), "arm64": []byte("for arm64")}
	var archives [2][]byte
	for i := range archives {
		r := testRelease(t)
		name, err := r.image(programs)
		if err != nil {
			t.Fatal(err)
		}
		if archives[i], err = os.ReadFile(filepath.Join(r.out, name)); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two images of the same sources differ")
	}
	dir := t.TempDir()
	for in := tar.NewReader(bytes.NewReader(archives[0])); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(h.Name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, h.Name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	top, err := all.IndexManifest()
	if err != nil || len(top.Manifests) != 1 || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "stoa:v1.2.3" {
		t.Fatalf("%v %+v", err, top)
	}
	index, err := all.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 2 {
		t.Fatalf("%v %+v", err, manifest)
	}
	for _, one := range manifest.Manifests {
		image, err := index.Image(one.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if !one.Platform.Equals(v1.Platform{OS: "linux", Architecture: config.Architecture}) || config.Config.User != "65532" || config.Config.Healthcheck == nil {
			t.Errorf("%+v %+v", one.Platform, config)
		}
		files := map[string]string{}
		layers := mutate.Extract(image)
		for in := tar.NewReader(layers); ; {
			h, err := in.Next()
			if err != nil {
				break
			}
			data, _ := io.ReadAll(in)
			files[h.Name] = fmt.Sprintf("%o %d %s", h.Mode, h.Uid, data)
		}
		layers.Close()
		if files["stoa"] != "755 0 for "+config.Architecture || !strings.HasPrefix(files["data/"]+files["data"], "700 65532") ||
			strings.Count(files["etc/ssl/certs/ca-certificates.crt"], "BEGIN CERTIFICATE") < 50 {
			t.Errorf("%s has %.200v", config.Architecture, files)
		}
	}
}

// The script installs an archive only if it has the checksum that the script contains.
func TestTheScriptInstallsWhatItVerified(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no sh")
	}
	r := testRelease(t)
	sums := map[string]string{}
	for _, one := range targets[:4] {
		base := fmt.Sprintf("stoa-%s-%s-%s", r.version, one.OS, one.Arch)
		var packed bytes.Buffer
		if err := r.tarball(&packed, []file{{base + "/stoa", 0o755, []byte("#!/bin/sh\necho stoa v1.2.3\n")}}); err != nil {
			t.Fatal(err)
		}
		sums[one.OS+"_"+one.Arch] = fmt.Sprintf("%x", sha256.Sum256(packed.Bytes()))
		if err := os.WriteFile(filepath.Join(r.out, base+".tar.gz"), packed.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.fill("install.sh", 0o755, "https://stoa.example.com/it", sums); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "new folder", "bin")
	run := func(args ...string) (string, bool) {
		c := exec.Command("sh", append([]string{filepath.Join(r.out, "install.sh")}, args...)...)
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(to)}
		out, err := c.CombinedOutput()
		return string(out), err == nil
	}
	if out, ok := run("--from", r.out, "--to", to); !ok || !strings.Contains(out, "Installed stoa v1.2.3 as "+to+"/stoa") || !strings.Contains(out, to+"/stoa serve") {
		t.Errorf("%v %s", ok, out)
	}
	if out, err := exec.Command(filepath.Join(to, "stoa")).Output(); err != nil || string(out) != "stoa v1.2.3\n" {
		t.Errorf("%v %s", err, out)
	}
	for name := range sums {
		system, arch, _ := strings.Cut(name, "_")
		path := filepath.Join(r.out, fmt.Sprintf("stoa-%s-%s-%s.tar.gz", r.version, system, arch))
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(data, 0), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(t.TempDir(), "bin")
	for want, args := range map[string][]string{
		"Nothing was installed":  {"--from", r.out, "--to", other},
		"has no readable":        {"--from", t.TempDir(), "--to", other},
		"unknown argument --for": {"--for", "x"},
		"needs a directory":      {"--to"},
	} {
		if out, ok := run(args...); ok || !strings.Contains(out, want) {
			t.Errorf("%v: %v %s, want %s", args, ok, out, want)
		}
	}
	if left, err := os.ReadDir(other); err == nil {
		t.Errorf("a failed run left %v", left)
	}
}
