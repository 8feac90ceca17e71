package drive_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"stoa/internal/agents/drive"
	"stoa/internal/base/stoa"
)

// Each version of each file has its own word, identified by the hash of the file: a hit whose
// text has another hash, or the word of another version, would be replaced text.
func TestSearchOmitsReplacedAndDeletedText(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		ctx := context.Background()
		const files, rounds = 4, 60
		text := func(f, n int) string { return fmt.Sprintf("common word%dx%d\n", f, n) }
		var mu sync.Mutex
		oldest := [files]int{} // lower versions were replaced before
		var writers, readers sync.WaitGroup
		stop := make(chan struct{})
		for f := range files {
			writers.Go(func() {
				p := path(t, fmt.Sprintf("f%d.txt", f))
				for n := range rounds {
					if _, err := d.PutText(ctx, who, drive.Claim{}, p, text(f, n), ""); err != nil {
						t.Error(err)
					}
					mu.Lock()
					oldest[f] = n
					mu.Unlock()
					if n%7 == 3 {
						if _, err := d.Delete(ctx, who, p, drive.Condition{}); err != nil {
							t.Error(err)
						}
						mu.Lock()
						oldest[f] = n + 1
						mu.Unlock()
					}
				}
			})
		}
		for range 2 {
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					mu.Lock()
					least := oldest
					mu.Unlock()
					hits, err := searchDrive(d, ctx, who, "common", "", 100)
					if err != nil {
						t.Error(err)
						return
					}
					seen := map[string]bool{}
					for _, h := range hits {
						var f, n int
						if _, err := fmt.Sscanf(h.Text, "common word%dx%d\n", &f, &n); err != nil || hash(h.Text) != h.SHA256 || seen[h.Path] || h.Path != fmt.Sprintf("f%d.txt", f) {
							t.Errorf("a hit that cannot be: %+v, %v", h, err)
							continue
						}
						seen[h.Path] = true
						if n < least[f] {
							t.Errorf("version %d of file %d was shown, and %d had replaced it before", n, f, least[f])
						}
					}
				}
			})
		}
		writers.Wait()
		close(stop)
		readers.Wait()
		for f := range files {
			for n := range rounds - 1 {
				if hits, err := searchDrive(d, ctx, who, `"`+strings.TrimSpace(text(f, n))+`"`, "", 1); err != nil || len(hits) != 0 {
					t.Fatalf("version %d of file %d is still found: %v, %v", n, f, hits, err)
				}
			}
		}
		check(t, d)
	})
}

func TestPassagesFollowEachOtherWithoutGaps(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		texts := map[string]string{
			"prose.md": strings.Repeat("# Head\n\nSome words of a paragraph that goes on for a while.\nAnd a line.\n\n", 300),
			"line.txt": strings.Repeat("words without an end ", 5000) + "needle",
			"blob.txt": strings.Repeat("x", 9000) + " needle " + strings.Repeat("é", 9000),
			"crlf.txt": strings.Repeat("line\r\n", 1000) + "needle\r\n",
			"wide.txt": strings.Repeat("漢字", 4000) + "針" + "\n",
		}
		for p, text := range texts {
			put(t, d, p, text)
			var lines int64
			if text != "" {
				lines = int64(strings.Count(strings.TrimSuffix(text, "\n"), "\n")) + 1
			}
			if f, err := d.Get(t.Context(), who, path(t, p)); err != nil || f.Lines != lines {
				t.Errorf("%s has %d lines, want %d", p, f.Lines, lines)
			}
		}
		hits, err := searchDrive(d, t.Context(), who, "needle", "", 0)
		if err != nil || len(hits) != 3 {
			t.Errorf("%d hits, %v", len(hits), err)
		}
		for _, h := range hits {
			if !strings.Contains(h.Snippet, "needle") || len(h.Snippet) > 400 || !utf8.ValidString(h.Snippet) || !strings.Contains(texts[h.Path], h.Text) {
				t.Errorf("%s %d-%d: %q", h.Path, h.FirstLine, h.LastLine, h.Snippet)
			}
			if h.Path == "crlf.txt" && h.LastLine != 1001 {
				t.Errorf("the needle is in line 1001, not %d-%d", h.FirstLine, h.LastLine)
			}
		}
		if hits, err := searchDrive(d, t.Context(), who, "針", "", 0); err != nil || len(hits) != 1 || !strings.Contains(hits[0].Snippet, "針") {
			t.Errorf("%v, %v", hits, err)
		}
		if hits, err := searchDrive(d, t.Context(), who, "paragraph", "", 10); err != nil || len(hits) != 3 {
			t.Errorf("one file has %d hits", len(hits))
		}
		check(t, d)
	})
}

func TestBinaryFilesAreKeptAndNotSearched(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		for p, c := range map[string]struct{ mime, text string }{
			"a.bin": {"application/octet-stream", "needle\x00"}, "b.txt": {"text/plain", "needle\x00\x01"}, "c.txt": {"text/plain", "needle\xff"}, "d.png": {"image/png", "\x89PNG\r\n\x1a\nneedle"},
		} {
			change, err := d.Put(t.Context(), who, path(t, p), drive.BytesContent([]byte(c.text)), c.mime, drive.Condition{})
			if err != nil || change.File.Text || read(t, d, p) != c.text {
				t.Errorf("%s: %+v, %v", p, change.File, err)
			}
		}
		if hits, err := searchDrive(d, t.Context(), who, "needle", "", 0); err != nil || len(hits) != 0 {
			t.Errorf("%v, %v", hits, err)
		}
		// The content decides, not the type that somebody claims.
		for _, mime := range []string{"application/vnd.ms-excel", "video/mp2t", "image/png", "application/vnd.x+json"} {
			if _, err := d.Put(t.Context(), who, path(t, "a.bin"), drive.BytesContent([]byte("needle")), mime, drive.Condition{}); err != nil {
				t.Fatal(err)
			}
			if hits, _ := searchDrive(d, t.Context(), who, "needle", "", 0); len(hits) != 1 || hits[0].MimeType != mime {
				t.Errorf("as %s: %v", mime, hits)
			}
		}
		check(t, d)
	})
}

func TestSearchIgnoresOtherDrives(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		for i := range 60 {
			other := drive.Owner{AccountID: "acc_1", AgentID: fmt.Sprintf("agt_%d", 2+i%3)}
			if _, err := d.PutText(t.Context(), other, drive.Claim{}, path(t, fmt.Sprintf("f%d", i)), "needle needle needle", ""); err != nil {
				t.Fatal(err)
			}
		}
		put(t, d, "mine.txt", "among very many other words there is a needle in here somewhere")
		for _, q := range []string{"needle", "needle absent", "needl"} {
			if hits, err := searchDrive(d, t.Context(), who, q, "", 1); err != nil || len(hits) != 1 || hits[0].Path != "mine.txt" || hits[0].Score != 1 {
				t.Errorf("%q finds %v, %v", q, hits, err)
			}
		}
	})
}

func TestAQueryWithoutWordsFindsNothing(t *testing.T) {
	t.Parallel()
	d := open(t, dbConfig(t), drive.Limits{})
	put(t, d, "a.txt", "We launch it 🚀 today!")
	for _, q := range []string{"🚀", "→", "🚀 (🚀)"} {
		if hits, err := searchDrive(d, t.Context(), who, q, "", 1); err != nil || len(hits) != 0 {
			t.Errorf("%q finds %v, %v", q, hits, err)
		}
	}
	_, err := searchDrive(d, t.Context(), who, " ", "", 1)
	wantCode(t, err, stoa.CodeInvalidValue)
}

func FuzzSearch(f *testing.F) {
	d := open(f, dbConfig(f), drive.Limits{})
	text := "apples and pears; don't 北京大学 Straße ÀÉ 12x34 ﬁne\n"
	if _, err := d.PutText(context.Background(), who, drive.Claim{}, path(f, "a.txt"), text, ""); err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"apples", `"a b" -c`, "NEAR(a b)", "北", "\u0300", "a\u0300\u0301", "ﬁ", "'", `"`, "ا", "\u0e33", "ſ", "İ", "ẞ"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, q string) {
		hits, err := searchDrive(d, t.Context(), who, q, "", 3)
		if err != nil {
			wantCode(t, err, stoa.CodeInvalidValue)
		}
		for _, h := range hits {
			if !utf8.ValidString(h.Snippet) || h.Text != text {
				t.Errorf("%q shows %q", q, h.Snippet)
			}
		}
	})
}

// Any text is found by its own words.
func FuzzTextIsFoundByItself(f *testing.F) {
	d := open(f, dbConfig(f), drive.Limits{})
	for _, seed := range []string{"apples pears", "北京大学", "Straße", "don't l’été", "ﬁne", "a\u0300b", "\u0e33\u0e01", "日a本", "한국어", "ー", "x々"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\"") || utf8.RuneCountInString(text) > 200 {
			return
		}
		if _, err := d.PutText(t.Context(), who, drive.Claim{}, path(t, "a.txt"), text, ""); err != nil {
			t.Fatal(err)
		}
		hits, err := searchDrive(d, t.Context(), who, text, "", 1)
		if err != nil {
			wantCode(t, err, stoa.CodeInvalidValue) // only white space and punctuation
			return
		}
		if len(hits) == 0 && !strings.ContainsFunc(text, func(r rune) bool { return unicode.In(r, unicode.L, unicode.M, unicode.N) }) {
			return // contains no word
		}
		if len(hits) != 1 || hits[0].Text != text {
			t.Errorf("%q is not found by itself: %v", text, hits)
		}
	})
}

func TestASearchIsCutAfterItsTime(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{SearchTime: 1}, func(t *testing.T, d *drive.Drives) {
		put(t, d, "a.txt", "some words to look for\n")
		put(t, d, "b.txt", "where is it from\n")
		found, err := d.Search(t.Context(), who, "words", "", 0)
		if err != nil || !found.Cut {
			t.Errorf("a search without time: %+v, %v", found, err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := d.Search(gone, who, "words", "", 0); err == nil {
			t.Error("a search whose caller has left has a result")
		}
		hits, err := d.SearchUnranked(t.Context(), who, "where is it, words missing", 5)
		if err != nil || len(hits) != 1 || hits[0].Path != "a.txt" {
			t.Errorf("what is found so far: %+v, %v", hits, err)
		}
		if n := d.Searching(); n != 0 {
			t.Errorf("%d accounts still search", n)
		}
	})
}

func TestASearchWithoutATurnIsRefused(t *testing.T) {
	t.Parallel()
	d := open(t, dbConfig(t), drive.Limits{SearchTime: 1})
	put(t, d, "a.txt", "some words to look for\n")
	var leaves []func()
	for { // all reports that may run concurrently
		none, cancel := context.WithCancel(t.Context())
		cancel()
		leave, err := d.DB().Turn(none)
		if err != nil {
			break
		}
		leaves = append(leaves, leave)
	}
	_, err := d.Search(t.Context(), who, "words", "", 0)
	if wantCode(t, err, stoa.CodeOverloaded); stoa.AsError(err).RetryAfter == 0 {
		t.Errorf("it does not say when to try again: %v", err)
	}
	for _, leave := range leaves {
		leave()
	}
	if _, err := d.Search(t.Context(), who, "words", "", 0); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestAnAccountSearchesOnceAtATime(t *testing.T) {
	t.Parallel()
	d := open(t, dbConfig(t), drive.Limits{})
	leave, err := d.EnterSearch(t.Context(), "acc_1", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.EnterSearch(t.Context(), "acc_1", 1); stoa.CodeOf(err) != stoa.CodeRateLimit || stoa.AsError(err).RetryAfter == 0 {
		t.Errorf("a second search of the account: %v", err)
	}
	other, err := d.EnterSearch(t.Context(), "acc_2", 1)
	if err != nil {
		t.Errorf("a search of another account: %v", err)
	}
	entered := make(chan error)
	go func() {
		next, err := d.EnterSearch(t.Context(), "acc_1", time.Minute)
		entered <- err
		next()
	}()
	leave()
	if err := <-entered; err != nil {
		t.Errorf("the next search of the account: %v", err)
	}
	other()
}

func TestPrefixesNeedFourLetters(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		var b strings.Builder
		for i := range 200 { // more than a prefix may match
			fmt.Fprintf(&b, "warranty%03d ", i)
		}
		put(t, d, "a.txt", b.String())
		for query, want := range map[string]int{"war": 0, "warr": 1, "warranty0": 1, `"warranty000 warr"`: 1, "warp": 0} {
			if hits, err := searchDrive(d, t.Context(), who, query, "", 1); err != nil || len(hits) != want {
				t.Errorf("%q: %d hits, %v, want %d", query, len(hits), err, want)
			}
		}
	})
}
