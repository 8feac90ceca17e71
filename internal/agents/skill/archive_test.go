package skill_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	"stoa/internal/agents/skill"
)

func text(name string) string {
	return "---\nname: " + name + "\ndescription: Does something.\n---\nText.\n"
}

type entry struct {
	name, content string
	kind          byte // of tar
}

func tarball(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	g := gzip.NewWriter(&b)
	w := tar.NewWriter(g)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.content)), Typeflag: e.kind}
		if e.kind != 0 {
			h.Size, h.Linkname = 0, "/etc/passwd"
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			w.Write([]byte(e.content))
		}
	}
	w.Close()
	g.Close()
	return b.Bytes()
}

func zipped(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(0o644)
		if e.kind == tar.TypeSymlink {
			h.SetMode(0o777 | 1<<27) // fs.ModeSymlink
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		f.Write([]byte(e.content))
	}
	w.Close()
	return b.Bytes()
}

func TestUnpack(t *testing.T) {
	entries := []entry{
		{name: "repo/README.md", content: "x"},
		{name: "repo/skills/b/SKILL.md", content: text("b")},
		{name: "repo/skills/a/SKILL.md", content: text("a")},
		{name: "repo/skills/a/references/one.md", content: "1"},
		{name: "repo/skills/a/inner/SKILL.md", content: text("inner")},
		{name: "repo/skills/a/.DS_Store", content: "x"},
		{name: "__MACOSX/repo/skills/a/SKILL.md", content: "x"},
	}
	for kind, data := range map[string][]byte{"zip": zipped(t, entries...), "tar.gz": tarball(t, entries...)} {
		list, err := skill.Unpack(data)
		if err != nil || len(list) != 2 {
			t.Fatalf("%s: %v, %v", kind, list, err)
		}
		var paths []string
		for _, f := range list[0].Manifest() {
			paths = append(paths, fmt.Sprint(f.Path, " ", f.Size))
		}
		if got := strings.Join(paths, ", "); list[0].Name != "a" || list[1].Name != "b" || got != fmt.Sprintf("SKILL.md %d, inner/SKILL.md %d, references/one.md 1", len(text("a")), len(text("inner"))) {
			t.Errorf("%s: %s: %s", kind, list[0].Name, got)
		}
	}
	if list, err := skill.Unpack(zipped(t, entry{name: "SKILL.md", content: text("x")}, entry{name: "a/b.md", content: "1"})); err != nil || list[0].Name != "x" || len(list[0].Files) != 2 {
		t.Errorf("a skill at the top: %v, %v", list, err)
	}
}

func TestUnpackRefuses(t *testing.T) {
	good := entry{name: "a/SKILL.md", content: text("a")}
	many := []entry{good}
	for i := range skill.MaxFiles {
		many = append(many, entry{name: fmt.Sprintf("a/%d", i), content: "x"})
	}
	long := "a/" + strings.Repeat("x", skill.MaxPath+1)
	big := entry{name: "a/big", content: strings.Repeat("0", skill.MaxBytes)}
	for want, data := range map[string][]byte{
		"neither zip":                            []byte("text"),
		"zip archive cannot":                     []byte("PK\x03\x04 broken"),
		"tar.gz archive":                         []byte("\x1f\x8b broken"),
		"no file SKILL.md":                       zipped(t, entry{name: "a/b.md", content: "x"}),
		"\"a/skill.md\" must be called SKILL.md": zipped(t, entry{name: "a/skill.md", content: text("a")}),
		"must start with":                        zipped(t, entry{name: "a/SKILL.md"}),
		"folder, \"b\"":                          zipped(t, entry{name: "b/SKILL.md", content: text("a")}),
		"longer than":                            zipped(t, good, entry{name: long, content: "x"}),
		"more than 500 files":                    zipped(t, many...),
		"more than 8 MiB":                        zipped(t, good, big),
		"MiB":                                    tarball(t, good, big),
		"not a path":                             zipped(t, good, entry{name: "../a", content: "x"}),
		"inside the archive":                     tarball(t, good, entry{name: "/etc/passwd", content: "x"}),
		"a\\\\b":                                 zipped(t, good, entry{name: `a\b`, content: "x"}),
		"link":                                   zipped(t, good, entry{name: "a/l", content: "/etc/passwd", kind: tar.TypeSymlink}),
		"special":                                tarball(t, good, entry{name: "a/l", kind: tar.TypeSymlink}),
		"or a special":                           tarball(t, good, entry{name: "a/l", kind: tar.TypeLink}),
		"special file":                           tarball(t, good, entry{name: "a/l", kind: tar.TypeFifo}),
		"have the name \"a\"":                    zipped(t, good, entry{name: "b/a/SKILL.md", content: text("a")}),
		"twice":                                  zipped(t, good, good),
		"description":                            zipped(t, entry{name: "a/SKILL.md", content: "---\nname: a\n---\n"}),
	} {
		if list, err := skill.Unpack(data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v, %v", want, list, err)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte("PK\x03\x04"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := skill.Unpack(data)
		for _, s := range list {
			if err != nil || len(s.Errors) > 0 || s.Files[skill.Main] == nil {
				t.Errorf("accepted %+v", s)
			}
		}
	})
}
