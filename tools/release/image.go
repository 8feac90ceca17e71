package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// The user of the image, as in the Dockerfile.
const user = 65532

// image writes the image of the programs, by processor, as an archive of OCI's image layout, and returns its name.
// It is what the Dockerfile describes; it needs no engine, so that every machine can make it with the same bytes.
func (r release) image(programs map[string][]byte) (string, error) {
	roots := certificates()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, t := range targets {
		if t.OS != "linux" {
			continue
		}
		one, err := r.platform(t, programs[t.Arch], roots)
		if err != nil {
			return "", err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: one, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: t.OS, Architecture: t.Arch}},
		})
	}
	temp, err := os.MkdirTemp("", "stoa-image")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	path, err := layout.Write(temp, empty.Index)
	if err != nil {
		return "", err
	}
	// podman names the image after it; skopeo finds it by its place.
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "stoa:" + r.version})); err != nil {
		return "", err
	}
	name := "stoa-" + r.version + "-image.tar"
	f, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return "", err
	}
	return name, errors.Join(r.pack(f, temp), f.Close())
}

func (r release) platform(t target, program, roots []byte) (v1.Image, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, f := range []struct {
		tar.Header
		data []byte
	}{
		{tar.Header{Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644}, roots},
		{tar.Header{Name: "stoa", Mode: 0o755}, program},
		{tar.Header{Name: "data/", Typeflag: tar.TypeDir, Mode: 0o700, Uid: user, Gid: user}, nil},
		{tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o755, Uid: user, Gid: user}, nil},
		{tar.Header{Name: "LICENSE", Mode: 0o644}, r.texts["LICENSE"]},
		{tar.Header{Name: "NOTICE", Mode: 0o644}, r.texts["NOTICE"]},
	} {
		f.Size, f.ModTime, f.Format = int64(len(f.data)), r.at, tar.FormatUSTAR
		if err := w.WriteHeader(&f.Header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil }
	files, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), files)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = t.OS, t.Arch, v1.Time{Time: r.at}
	config.History = nil // it would have to describe each layer
	config.Config = v1.Config{
		Entrypoint:   []string{"/stoa"},
		Cmd:          []string{"serve"},
		Env:          []string{"STOA_LISTEN=0.0.0.0:8080", "STOA_DATA=/data", "STOA_LOG_FORMAT=json"},
		User:         strconv.Itoa(user),
		Volumes:      map[string]struct{}{"/data": {}},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
		StopSignal:   "SIGTERM",
		Healthcheck: &v1.HealthConfig{
			Test:     []string{"CMD", "/stoa", "health", "http://127.0.0.1:8080"},
			Interval: 10 * time.Second, Timeout: 6 * time.Second, StartPeriod: 30 * time.Second,
		},
		Labels: map[string]string{"org.opencontainers.image.title": "Stoa", "org.opencontainers.image.version": r.version},
	}
	return mutate.ConfigFile(image, config)
}

// certificates returns the roots that Mozilla trusts without a condition, as PEM: a program in the image knows no other.
func certificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer does not fail
		}
	}
	return out.Bytes()
}

// pack writes the files below dir to w, in the order of their names.
func (r release) pack(w io.Writer, dir string) error {
	t := tar.NewWriter(w)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if err := t.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(data)), ModTime: r.at, Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		_, err = t.Write(data)
		return err
	})
	return errors.Join(err, t.Close())
}
