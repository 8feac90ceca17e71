package extract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/klippa-app/go-pdfium"
	pdferrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/responses"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"stoa/internal/base/media"
)

const (
	headPDF     = 1024 // bytes that contain the mark of a PDF file, as PDFium requires
	wasmPages   = 4096 // of 64 KiB: the memory of PDFium
	pageDPI     = 150
	pagePixels  = 4_000_000 // of a rendered page
	pointsPerIn = 72.0
	maxMarks    = 500 // rectangles of a page
)

func isPDF(head []byte) bool {
	return bytes.Contains(head[:min(len(head), headPDF)], []byte("%PDF-"))
}

// openPDFium starts PDFium from the compiled module in a directory. The module sees neither files nor the output of this
// process. Its loops end only with the process, because a check in each of them would make it seven times slower.
func openPDFium(ctx context.Context, dir string) (pdfium.Pdfium, func(), error) {
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("open the directory of the compiled PDF reader: %w", err)
	}
	pool, err := webassembly.Init(webassembly.Config{
		Context: ctx, MinIdle: 0, MaxIdle: 1, MaxTotal: 1,
		FSConfig: wazero.NewFSConfig(), // otherwise the module could read all files
		RuntimeConfig: wazero.NewRuntimeConfig().WithCompilationCache(cache).WithMemoryLimitPages(wasmPages).
			WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling),
		Stdout: io.Discard, Stderr: io.Discard,
	})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start the PDF reader: %w", err), cache.Close(ctx))
	}
	instance, err := pool.GetInstance(time.Minute)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start the PDF reader: %w", err), pool.Close(), cache.Close(ctx))
	}
	return instance, func() {
		_, _, _ = instance.Close(), pool.Close(), cache.Close(ctx)
	}, nil
}

// compilePDF compiles PDFium into a directory. It compiles again if the stored code cannot be used, because a power failure
// can damage it.
func compilePDF(ctx context.Context, dir string) error {
	_, end, err := openPDFium(ctx, dir)
	if err != nil {
		stored, globErr := filepath.Glob(filepath.Join(dir, "wazero-*"))
		for _, name := range stored {
			globErr = errors.Join(globErr, os.RemoveAll(name))
		}
		if len(stored) == 0 || globErr != nil {
			return errors.Join(err, globErr)
		}
		_, end, err = openPDFium(ctx, dir)
	}
	if err == nil {
		end()
	}
	return err
}

func withPDF(ctx context.Context, data []byte, dir string, do func(p pdfium.Pdfium, doc references.FPDF_DOCUMENT, pages int) Result) Result {
	p, end, err := openPDFium(ctx, dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return Result{Status: Unsupported, Note: NoPDF}
	}
	defer end()
	doc, err := p.OpenDocument(&requests.OpenDocument{FileReader: bytes.NewReader(data), FileReaderSize: int64(len(data))})
	if err != nil {
		return brokenPDF(err)
	}
	count, err := p.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: doc.Document})
	if err != nil {
		return brokenPDF(err)
	}
	return do(p, doc.Document, count.PageCount)
}

func brokenPDF(err error) Result {
	if errors.Is(err, pdferrors.ErrPassword) || errors.Is(err, pdferrors.ErrSecurity) {
		return encrypted()
	}
	return broken("PDF file")
}

func encrypted() Result {
	return Result{Status: Encrypted, Note: "The document needs a password. Store it without one."}
}

func broken(what string) Result {
	return Result{Status: Broken, Note: "The content is damaged: it cannot be read as a " + what + "."}
}

func readPDF(ctx context.Context, data []byte, dir string) Result {
	return withPDF(ctx, data, dir, func(p pdfium.Pdfium, doc references.FPDF_DOCUMENT, pages int) Result {
		var f flow
		empty, failed, by := true, 0, makerOf(p, doc)
		for i := range min(pages, MaxPages) {
			text, err := pageText(p, requests.Page{ByIndex: &requests.PageByIndex{Document: doc, Index: i}}, by)
			if err != nil {
				failed++
			}
			f.place(Place{Name: fmt.Sprintf("p. %d", i+1), Page: int64(i + 1)})
			f.line(fmt.Sprintf("[page %d]", i+1))
			if text != "" {
				empty = false
				f.line(text)
			}
			if f.full {
				break
			}
		}
		f.full = f.full || pages > MaxPages
		switch {
		case pages == 0 || failed > 0 && empty:
			return broken("PDF file")
		case failed > 0:
			r := f.result(int64(pages), false)
			r.Status, r.Note = Partial, fmt.Sprintf("%d pages are damaged and were left out.", failed)
			return r
		}
		r := f.result(int64(pages), empty)
		if empty {
			r.Note += " If its pages are images, such as a scan, run a text recognition first."
		}
		return r
	})
}

// flatten makes the values of forms, and texts that were put on a page, parts of it, since its text otherwise lacks them.
// They are left out if that fails.
func flatten(p pdfium.Pdfium, page requests.Page) {
	_, _ = p.FPDFPage_Flatten(&requests.FPDFPage_Flatten{Page: page, Usage: requests.FPDFPage_FlattenUsageNormalDisplay})
}

type maker int

const (
	otherMaker maker = iota
	texMaker
	browserMaker // Chromium or wkhtmltopdf
)

func makerOf(p pdfium.Pdfium, doc references.FPDF_DOCUMENT) maker {
	var names string
	for _, tag := range []string{"Producer", "Creator"} {
		if m, err := p.FPDF_GetMetaText(&requests.FPDF_GetMetaText{Document: doc, Tag: tag}); err == nil {
			names += strings.ToLower(m.Value) + "\n"
		}
	}
	has := func(name string) bool { return strings.Contains(names, name) }
	switch {
	case has("skia/pdf"), has("wkhtmltopdf"):
		return browserMaker
	case has("tex"), has("dvips"), has("dvipdf"), has("ghostscript"):
		return texMaker
	}
	return otherMaker
}

// pageText returns the text of one page. It is that of PDFium, unless that reads a page otherwise than people do: with
// letters from right to left, torn lines or words, or accents beside their letters.
func pageText(p pdfium.Pdfium, page requests.Page, by maker) (string, error) {
	tex := by == texMaker
	flatten(p, page)
	loaded, err := p.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: page})
	if err != nil {
		return "", err
	}
	defer func() { _, _ = p.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: loaded.TextPage}) }()
	count, err := p.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: loaded.TextPage})
	if err != nil || count.Count <= 0 {
		return "", err
	}
	text, err := p.FPDFText_GetText(&requests.FPDFText_GetText{TextPage: loaded.TextPage, Count: min(count.Count, MaxText)})
	if err != nil {
		return "", err
	}
	n := min(count.Count, MaxText)
	rtl := rightToLeft(text.Text)
	if !rtl && !misread(p, loaded.TextPage, text.Text, n, tex) {
		return cleanPDF(text.Text, by), nil
	}
	list, err := glyphs(p, loaded.TextPage, text.Text, n, rtl)
	switch {
	case err != nil:
		return "", err
	case rtl:
		return cleanPDF(placed(list), by), nil
	}
	return cleanPDF(mend(list, tex), by), nil
}

func misread(p pdfium.Pdfium, page references.FPDF_TEXTPAGE, text string, count int, tex bool) bool {
	return torn(text) || tex && texMarks(text) || splits(p, page, text, count) || raises(p, page, text, count)
}

// pdfLetters writes line ends and ligatures as other texts do. PDFium marks a hyphen at a line
// end with the control character 2, or with U+FFFE.
var pdfLetters = strings.NewReplacer("\ufffe", "\x02", "\u00ad\r\n", "‐\n", "\r\n", "\n", "\r", "\n",
	"ﬀ", "ff", "ﬁ", "fi", "ﬂ", "fl", "ﬃ", "ffi", "ﬄ", "ffl", "ﬅ", "st", "ﬆ", "st",
)

func cleanPDF(s string, by maker) string {
	// Hyphens of browsers are handled separately, because a browser hyphenates with U+2010 if the font has it, which PDFium
	// does not take for a hyphen; its other hyphens are those of the text. See findings/chromium-hyphens.sh.
	s = joined(pdfLetters.Replace(s), "‐\n", false)
	s = joined(s, "\x02", by == browserMaker)
	s = strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, s)
	lines := strings.Split(strings.TrimSpace(s), "\n")
	for i, line := range lines {
		lines[i] = unspaced(line)
	}
	return strings.Join(lines, "\n")
}

// joined returns a text whose words continue after a hyphen at a line end. Before a capital or a digit, as in "COVID-19",
// the hyphen stays, and before small letters if it is part of the text.
func joined(s, mark string, kept bool) string {
	parts := strings.Split(s, mark)
	for i, part := range parts[1:] {
		part = strings.TrimLeft(part, " \n")
		if r, _ := utf8.DecodeRuneInString(part); kept || !unicode.IsLower(r) {
			part = "-" + part
		}
		parts[i+1] = part
	}
	return strings.Join(parts, "")
}

// unspaced returns a line without the spaces between Chinese and Japanese letters that stand apart one by one, as in
// justified lines and in headings.
func unspaced(line string) string {
	if !strings.ContainsFunc(line, ideographic) {
		return line
	}
	words := strings.Split(line, " ")
	single := func(i int) bool {
		if i < 0 || i >= len(words) {
			return false
		}
		r, n := utf8.DecodeRuneInString(words[i])
		return ideographic(r) && !strings.ContainsFunc(words[i][n:], letterOrDigit)
	}
	var b strings.Builder
	for i, w := range words {
		if i > 0 && !(single(i-1) && single(i) && (single(i-2) || single(i+1))) {
			b.WriteByte(' ')
		}
		b.WriteString(w)
	}
	return b.String()
}

func ideographic(r rune) bool {
	return r >= 0x3000 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana)
}

// RenderPage returns a page of a PDF file as a PNG image of at most [media.MaxImage] bytes, in
// the Text of the result. Only a child and tests call it; see [Parse].
func RenderPage(ctx context.Context, data []byte, page Page, dir string) Result {
	if !isPDF(data) {
		return Result{Status: Unsupported, Note: "Only pages of PDF files can be shown as images."}
	}
	return withPDF(ctx, data, dir, func(p pdfium.Pdfium, doc references.FPDF_DOCUMENT, pages int) Result {
		if page.Number < 1 || page.Number > int64(pages) {
			return Result{Status: None, Note: fmt.Sprintf("The document has %d pages.", pages)}
		}
		at := requests.Page{ByIndex: &requests.PageByIndex{Document: doc, Index: int(page.Number - 1)}}
		flatten(p, at)
		size, err := p.GetPageSize(&requests.GetPageSize{Page: at})
		if err != nil || !(size.Width > 0 && size.Height > 0) {
			return broken("PDF page")
		}
		dpi := float64(pageDPI)
		if page.Width > 0 {
			dpi = float64(page.Width) * pointsPerIn / size.Width
		}
		dpi = min(dpi, math.Sqrt(pagePixels*pointsPerIn*pointsPerIn/(size.Width*size.Height)), media.MaxSide*pointsPerIn/max(size.Width, size.Height))
		width, height := int(size.Width*dpi/pointsPerIn), int(size.Height*dpi/pointsPerIn)
		if width < 1 || height < 1 {
			return broken("PDF page")
		}
		marks := marksOf(p, at, page)
		for {
			shown, err := renderAt(p, at, width, height, marks)
			if err != nil {
				return broken("PDF page")
			}
			if len(shown) <= media.MaxImage {
				return Result{Status: Ready, Text: shown, Pages: int64(pages)}
			}
			width, height = width*2/3, height*2/3 // a photo
		}
	})
}

// marksOf returns the rectangles of the lines to mark, in points of the page. All lines are searched for, one after the other,
// because a line can occur twice in a page. A line that PDFium does not have like this, since [mend] changed it, has no rectangle.
func marksOf(p pdfium.Pdfium, at requests.Page, page Page) []responses.FPDFText_GetRect {
	if page.Mark <= 0 {
		return nil
	}
	loaded, err := p.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: at})
	if err != nil {
		return nil
	}
	defer func() { _, _ = p.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: loaded.TextPage}) }()
	lines := strings.Split(strings.TrimSuffix(page.Text, "\n"), "\n")
	var out []responses.FPDFText_GetRect
	next := 0
	for i, line := range lines {
		from, n := find(p, loaded.TextPage, strings.TrimSpace(line), next)
		if n == 0 {
			continue
		}
		next = from + n
		if i < len(lines)-int(min(page.Mark, maxMarks)) {
			continue
		}
		rects, err := p.FPDFText_CountRects(&requests.FPDFText_CountRects{TextPage: loaded.TextPage, StartIndex: from, Count: n})
		if err != nil {
			continue
		}
		for r := range min(rects.Count, maxMarks) {
			if rect, err := p.FPDFText_GetRect(&requests.FPDFText_GetRect{TextPage: loaded.TextPage, Index: r}); err == nil {
				out = append(out, *rect)
			}
		}
	}
	return out[:min(len(out), maxMarks)]
}

// find returns the position and the number of characters of a text in a page; 0 characters if it is not there.
func find(p pdfium.Pdfium, page references.FPDF_TEXTPAGE, text string, from int) (at, n int) {
	if text == "" {
		return 0, 0
	}
	search, err := p.FPDFText_FindStart(&requests.FPDFText_FindStart{TextPage: page, Find: text, StartIndex: from})
	if err != nil {
		return 0, 0
	}
	defer func() { _, _ = p.FPDFText_FindClose(&requests.FPDFText_FindClose{Search: search.Search}) }()
	if got, err := p.FPDFText_FindNext(&requests.FPDFText_FindNext{Search: search.Search}); err != nil || !got.GotMatch {
		return 0, 0
	}
	index, err := p.FPDFText_GetSchResultIndex(&requests.FPDFText_GetSchResultIndex{Search: search.Search})
	if err != nil {
		return 0, 0
	}
	count, err := p.FPDFText_GetSchCount(&requests.FPDFText_GetSchCount{Search: search.Search})
	if err != nil {
		return 0, 0
	}
	return index.Index, count.Count
}

// mark colours the paper within a rectangle of the page yellow, like a text marker.
func mark(p pdfium.Pdfium, page requests.Page, paper *image.RGBA, at responses.FPDFText_GetRect) {
	size := paper.Rect.Size()
	corner := func(x, y float64) image.Point {
		to, err := p.FPDF_PageToDevice(&requests.FPDF_PageToDevice{Page: page, SizeX: size.X, SizeY: size.Y, PageX: x, PageY: y})
		if err != nil {
			return image.Point{}
		}
		return image.Pt(to.DeviceX, to.DeviceY)
	}
	area := image.Rectangle{Min: corner(at.Left, at.Top), Max: corner(at.Right, at.Bottom)}.Canon().Inset(-1).Intersect(paper.Rect)
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			c := paper.RGBAAt(x, y)
			c.B = uint8(int(c.B) * 2 / 5)
			paper.SetRGBA(x, y, c)
		}
	}
}

func renderAt(p pdfium.Pdfium, page requests.Page, width, height int, marks []responses.FPDFText_GetRect) ([]byte, error) {
	shown, err := p.RenderPageInPixels(&requests.RenderPageInPixels{Page: page, Width: width, Height: height})
	if err != nil {
		return nil, err
	}
	defer shown.Cleanup()
	rendered := shown.Result.RenderedImage
	paper := image.NewRGBA(rendered.Bounds()) // white, because a page may be transparent
	draw.Draw(paper, paper.Rect, image.White, image.Point{}, draw.Src)
	draw.Draw(paper, paper.Rect, rendered, paper.Rect.Min, draw.Over)
	for _, at := range marks {
		mark(p, page, paper, at)
	}
	var b bytes.Buffer
	err = png.Encode(&b, paper)
	return b.Bytes(), err
}
