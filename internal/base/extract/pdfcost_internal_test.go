package extract

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
)

// BenchmarkPages measures how much longer a page takes than PDFium's text alone: pages that are built again from their
// characters, and all others. Both are measured in one run, each page several times.
func BenchmarkPages(b *testing.B) {
	names, err := filepath.Glob("testdata/producers/*/*.pdf")
	if err != nil || len(names) < 5 {
		b.Fatalf("%d documents: %v", len(names), err)
	}
	more, err := filepath.Glob("testdata/producers/*.pdf")
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	var plain, rebuilt [2]time.Duration // PDFium's text, ours
	pages := [2]int{}
	for b.Loop() {
		for _, name := range append(names, more...) {
			data, err := os.ReadFile(name)
			if err != nil {
				b.Fatal(err)
			}
			withPDF(b.Context(), data, dir, func(p pdfium.Pdfium, doc references.FPDF_DOCUMENT, count int) Result {
				by := makerOf(p, doc)
				for i := range count {
					best := [2]time.Duration{math.MaxInt64, math.MaxInt64}
					_, built := pageTime(b, p, doc, i, func(page requests.Page) (bool, error) { return pdfiumText(p, page, by, true) })
					for range 5 {
						first, _ := pageTime(b, p, doc, i, func(page requests.Page) (bool, error) { return pdfiumText(p, page, by, false) })
						second, _ := pageTime(b, p, doc, i, func(page requests.Page) (bool, error) {
							_, err := pageText(p, page, by)
							return false, err
						})
						best = [2]time.Duration{min(best[0], first), min(best[1], second)}
					}
					sum, kind := &plain, 0
					if built {
						sum, kind = &rebuilt, 1
					}
					sum[0] += best[0]
					sum[1] += best[1]
					pages[kind]++
				}
				return Result{}
			})
		}
	}
	b.ReportMetric(float64(plain[1])/float64(plain[0]), "×/plain")
	b.ReportMetric(float64(rebuilt[1])/float64(rebuilt[0]), "×/rebuilt")
	b.ReportMetric(float64(pages[0])/float64(b.N), "plain")
	b.ReportMetric(float64(pages[1])/float64(b.N), "rebuilt")
}

// pageTime opens a page and reads its text.
func pageTime(b *testing.B, p pdfium.Pdfium, doc references.FPDF_DOCUMENT, i int, read func(requests.Page) (bool, error)) (time.Duration, bool) {
	b.Helper()
	start := time.Now()
	loaded, err := p.FPDF_LoadPage(&requests.FPDF_LoadPage{Document: doc, Index: i})
	if err != nil {
		b.Fatal(err)
	}
	built, err := read(requests.Page{ByReference: &loaded.Page})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := p.FPDF_ClosePage(&requests.FPDF_ClosePage{Page: loaded.Page}); err != nil {
		b.Fatal(err)
	}
	return time.Since(start), built
}

// pdfiumText reads the text of a page as PDFium has it. With ask it reports whether [pageText] builds it again.
func pdfiumText(p pdfium.Pdfium, page requests.Page, by maker, ask bool) (bool, error) {
	flatten(p, page)
	loaded, err := p.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: page})
	if err != nil {
		return false, err
	}
	defer func() { _, _ = p.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: loaded.TextPage}) }()
	count, err := p.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: loaded.TextPage})
	if err != nil || count.Count <= 0 {
		return false, err
	}
	text, err := p.FPDFText_GetText(&requests.FPDFText_GetText{TextPage: loaded.TextPage, Count: count.Count})
	if err != nil {
		return false, err
	}
	cleanPDF(text.Text, by)
	return ask && (rightToLeft(text.Text) || misread(p, loaded.TextPage, text.Text, count.Count, by == texMaker)), nil
}
