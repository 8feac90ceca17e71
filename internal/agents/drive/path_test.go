package drive_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"stoa/internal/agents/drive"
	"stoa/internal/base/stoa"
)

func TestParsePathAccepts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"a", "a.txt", "a/b/c.md", "A/a", "with space", " lead", "trail ", "...", "..a", "a..", ".hidden", "a/.../b", "~", "C:", "con", "a:b", "%2e%2e/%2f", "?q#f",
		"日本語/ファイル.md", "é", "😀/👩‍💻", "'; DROP TABLE x; --", "*", "\u202ertl", strings.Repeat("x", 255), strings.Repeat("y/", 511) + "zz",
	} {
		p, err := drive.ParsePath(text)
		if err != nil || p.String() != text {
			t.Errorf("ParsePath(%q) = %q, %v", text, p, err)
		}
	}
	if p, err := drive.ParsePath("cafe\u0301.md"); err != nil || p.String() != "caf\u00e9.md" {
		t.Errorf("a decomposed name becomes %q, %v", p, err)
	}
}

func TestParsePathRejects(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "/", "/a", "a/", "a//b", "//", ".", "..", "./a", "a/.", "a/..", "../a", "a/../b", "a/./b", `a\b`, `..\a`, "a\x00b", "a\nb", "a\rb", "a\tb", "\x7f", "a\u0085b", "\x1b[31m",
		"a\xff", "\xc0\xae\xc0\xae/a", "\xed\xa0\x80", strings.Repeat("x", 256), "a/" + strings.Repeat("x", 256), strings.Repeat("é", 128), strings.Repeat("e\u0301", 128),
		strings.Repeat("y/", 512) + "z", strings.Repeat("x", 1<<20), "a/ /../b",
	} {
		_, err := drive.ParsePath(text)
		if stoa.CodeOf(err) != stoa.CodeInvalidPath || stoa.AsError(err).Param != "path" {
			t.Errorf("ParsePath(%.40q) = %v", text, err)
		}
	}
}

func FuzzParsePath(f *testing.F) {
	for _, seed := range []string{"a/b", "../x", "e\u0301", "a\x00", "a//b", "\u0344", "\ufb2c", "/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := drive.ParsePath(text)
		if err != nil {
			if !p.IsZero() {
				t.Fatal("an error and a path")
			}
			return
		}
		s := p.String()
		if again, err := drive.ParsePath(s); err != nil || again != p {
			t.Fatalf("%q is not stable: %q, %v", text, again, err)
		}
		if !utf8.ValidString(s) || !norm.NFC.IsNormalString(s) || len(s) > 1024 || s == "" {
			t.Fatalf("%q became %q", text, s)
		}
		for segment := range strings.SplitSeq(s, "/") {
			if segment == "" || segment == "." || segment == ".." || len(segment) > 255 || strings.ContainsFunc(segment, func(r rune) bool { return r == '\\' || unicode.IsControl(r) }) {
				t.Fatalf("%q has the segment %q", text, segment)
			}
		}
	})
}

func TestNewPathsHaveNoInvisibleCharacters(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		put(t, d, "report.txt", "x")
		for _, text := range []string{"report\u202efdp.exe", "a\u200b", "\u2066x", "a/b\ufeff/c", "soft\u00adhyphen", "tag\U000e0041"} {
			p := path(t, text)
			if _, err := d.Put(t.Context(), who, p, drive.BytesContent([]byte("x")), "", drive.Condition{}); stoa.CodeOf(err) != stoa.CodeInvalidPath {
				t.Errorf("a new file %+q: %v", text, err)
			}
			_, err := d.Apply(t.Context(), who, drive.Claim{}, []drive.Op{{Verb: drive.VerbMove, Path: path(t, "report.txt"), To: p}})
			if stoa.CodeOf(err) != stoa.CodeInvalidPath || stoa.AsError(err).Param != "to" {
				t.Errorf("a move to %+q: %v", text, err)
			}
			// Existing files stay accessible.
			if _, err := d.Get(t.Context(), who, p); stoa.CodeOf(err) != stoa.CodeFileNotFound {
				t.Errorf("reading %+q: %v", text, err)
			}
		}
		for _, text := range []string{"ok.txt", "OK.TXT", "été", "日本語", "👍🏽"} {
			put(t, d, text, "x")
		}
	})
}
