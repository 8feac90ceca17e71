package drive_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"stoa/internal/agents/drive"
	"stoa/internal/base/db"
)

var benchWords = strings.Fields(`the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which one you were
	refund shipping invoice customer account password delivery warranty returns policy discount support ticket payment address order cancel subscription upgrade plan`)

func benchText(r *rand.Rand, words int) string {
	var b strings.Builder
	for i := range words {
		b.WriteString(benchWords[min(r.IntN(len(benchWords)), r.IntN(len(benchWords)))])
		b.WriteByte(" \n"[min(1, i%12/11)])
	}
	return b.String()
}

// filled returns a drive of 10,000 files in 100 folders, about 2 KiB each, among ten other
// drives of a hundred files.
func filled(b *testing.B) *drive.Drives {
	d := open(b, db.Config{Dir: b.TempDir(), Durability: db.Process}, drive.Limits{})
	r := rand.New(rand.NewPCG(1, 2))
	fill := func(who drive.Owner, n int) {
		var ops []drive.Op
		for i := range n {
			text := benchText(r, 300) + fmt.Sprintf("\nrare%d\n", i)
			ops = append(ops, drive.Op{Verb: drive.VerbPut, Path: path(b, fmt.Sprintf("folder%02d/file%05d.md", i%100, i)), Content: drive.BytesContent([]byte(text))})
			if len(ops) == 500 || i == n-1 {
				if _, err := d.Apply(context.Background(), who, drive.Claim{}, ops); err != nil {
					b.Fatal(err)
				}
				ops = ops[:0]
			}
		}
	}
	fill(who, 10_000)
	for i := range 10 {
		fill(drive.Owner{AccountID: "acc_1", AgentID: fmt.Sprintf("agt_other%d", i)}, 100)
	}
	return d
}

func BenchmarkTenThousandFiles(b *testing.B) {
	d := filled(b)
	list := func(q drive.Listing) func(*testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				if _, err := d.List(b.Context(), who, q); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("list/first page", list(drive.Listing{Limit: 100}))
	b.Run("list/prefix", list(drive.Listing{Prefix: "folder42/", Limit: 100}))
	b.Run("list/folders", list(drive.Listing{Delimiter: "/", Limit: 100}))
	search := func(q, prefix string) func(*testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				hits, err := searchDrive(d, b.Context(), who, q, prefix, 10)
				if err != nil || len(hits) == 0 {
					b.Fatal(hits, err)
				}
			}
		}
	}
	b.Run("search/rare word", search("rare4242", ""))
	b.Run("search/two common words", search("refund policy", ""))
	b.Run("search/most common word", search("the", ""))
	b.Run("search/sentence", search("how do I cancel my subscription and get a refund", ""))
	b.Run("search/with prefix", search("refund policy", "folder42/"))
	b.Run("search/small drive", func(b *testing.B) {
		for b.Loop() {
			if hits, err := searchDrive(d, b.Context(), drive.Owner{AccountID: "acc_1", AgentID: "agt_other3"}, "refund policy", "", 10); err != nil || len(hits) == 0 {
				b.Fatal(hits, err)
			}
		}
	})
	b.Run("knowledge/too large", func(b *testing.B) {
		for b.Loop() {
			if k, err := d.Knowledge(b.Context(), who, 24_000, ""); err != nil || k.Whole {
				b.Fatal(err)
			}
		}
	})
	b.Run("export", func(b *testing.B) {
		for b.Loop() {
			e, err := d.Export(b.Context(), who)
			if err != nil {
				b.Fatal(err)
			}
			if err := e.WriteZip(b.Context(), io.Discard); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("replace 2 KiB", func(b *testing.B) {
		n := 0
		for b.Loop() {
			n++
			if _, err := d.PutText(b.Context(), who, drive.Claim{}, path(b, "folder42/file00042.md"), benchText(rand.New(rand.NewPCG(uint64(n), 1)), 300), ""); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkTenMiBOfText(b *testing.B) {
	d := open(b, db.Config{Dir: b.TempDir()}, drive.Limits{})
	text := benchText(rand.New(rand.NewPCG(1, 2)), 2_600_000)[:10<<20]
	n := 0
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		n++
		c := drive.BytesContent([]byte(fmt.Sprint(n) + text[10:]))
		if _, err := d.Put(b.Context(), who, path(b, "large.txt"), c, "", drive.Condition{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEightyMiBOfText searches a drive of 80 MiB with a vocabulary of 50,000 words; it
// includes the most expensive searches.
func BenchmarkEightyMiBOfText(b *testing.B) {
	d := open(b, db.Config{Dir: b.TempDir(), Durability: db.Process}, drive.Limits{})
	r := rand.New(rand.NewPCG(1, 2))
	z := rand.NewZipf(r, 1.1, 5, 50_000)
	for i := range 80 {
		var text strings.Builder
		for n := 0; text.Len() < 1<<20; n++ {
			if w := z.Uint64(); w < uint64(len(benchWords)) {
				text.WriteString(benchWords[w])
			} else {
				fmt.Fprintf(&text, "word%d", w)
			}
			text.WriteByte(" \n"[min(1, n%12/11)])
		}
		if _, err := d.PutText(context.Background(), who, drive.Claim{}, path(b, fmt.Sprintf("f%02d.txt", i)), text.String(), ""); err != nil {
			b.Fatal(err)
		}
	}
	for name, q := range map[string]string{
		"rare word": "word30000", "common word": "the", "prefix": "word", "32 common words": strings.Join(benchWords[:32], " "), "phrase": `"the of and"`,
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := d.Search(b.Context(), who, q, "", 10); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
