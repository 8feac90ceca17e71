package media

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"image"
	"image/color/palette"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strconv"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
)

// samples are small images of each type, 3 by 2 pixels, as encoders write them.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	picture := image.NewPaletted(image.Rect(0, 0, 3, 2), palette.Plan9)
	var p, j, g bytes.Buffer
	if err := png.Encode(&p, picture); err != nil {
		t.Fatal(err)
	}
	if err := jpeg.Encode(&j, picture, nil); err != nil {
		t.Fatal(err)
	}
	if err := gif.Encode(&g, picture, nil); err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{PNG: p.Bytes(), JPEG: j.Bytes(), GIF: g.Bytes(), WebP: webp("VP8L", 0x2f, 2|1<<14)}
}

// webp returns an image of the given kind whose first chunk begins with a byte and a number.
func webp(kind string, mark byte, bits uint32) []byte {
	b := append([]byte("RIFF\x20\x00\x00\x00WEBP"+kind+"\x0a\x00\x00\x00"), mark)
	b = binary.LittleEndian.AppendUint32(b, bits)
	return append(b, make([]byte, 16)...)
}

func dataURL(kind string, data []byte) string {
	return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(data)
}

func TestImagesAreToldByTheirContent(t *testing.T) {
	t.Parallel()
	for kind, data := range samples(t) {
		m, err := Image(dataURL(kind, data))
		if err != nil || m.Type != kind || m.Width != 3 || m.Height != 2 || m.Base64 != base64.StdEncoding.EncodeToString(data) {
			t.Errorf("%s: %+v, %v", kind, m, err)
		}
		if !IsImage(data[:HeadBytes]) || IsImage(data[1:]) {
			t.Errorf("%s is not told by its first bytes", kind)
		}
		if same, err := ImageOf(data); err != nil || *same != *m {
			t.Errorf("%s of bytes: %+v, %v", kind, same, err)
		}
		for other := range samples(t) {
			if _, err := Image(dataURL(other, data)); (err == nil) != (other == kind) {
				t.Errorf("%s declared as %s: %v", kind, other, err)
			}
		}
	}
	vp8 := append([]byte("RIFF\x20\x00\x00\x00WEBPVP8 \x0a\x00\x00\x00\x00\x00\x00\x9d\x01\x2a\x03\x00\x02\x00"), make([]byte, 8)...)
	vp8x := append([]byte("RIFF\x20\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x01\x00\x00"), make([]byte, 8)...)
	for name, data := range map[string][]byte{"lossy": vp8, "extended": vp8x} {
		if m, err := ImageOf(data); err != nil || m.Width != 3 || m.Height != 2 {
			t.Errorf("WebP, %s: %+v, %v", name, m, err)
		}
	}
}

func TestBadImagesAreRefused(t *testing.T) {
	t.Parallel()
	unmarked := webp("VP8 ", 0, 0)
	unmarked[20+6], unmarked[20+8] = 2, 1 // its size
	pic := samples(t)
	pngOf := func(w, h uint32) []byte {
		b := bytes.Clone(pic[PNG])
		binary.BigEndian.PutUint32(b[16:], w)
		binary.BigEndian.PutUint32(b[20:], h)
		return b
	}
	large := func(n int) []byte { return append(bytes.Clone(pic[PNG]), make([]byte, n-len(pic[PNG]))...) }
	for name, c := range map[string]struct{ url, want string }{
		"SVG":               {dataURL("image/svg+xml", []byte("<svg/>")), "not supported"},
		"HEIC":              {dataURL("image/heic", []byte("....ftypheic")), "not supported"},
		"HTML as PNG":       {dataURL(PNG, []byte("<html></html>")), "not a PNG"},
		"a byte too large":  {dataURL(PNG, large(MaxImage+1)), "larger than 3.75 MB"},
		"far too large":     {dataURL(PNG, large(2*MaxImage)), "larger than 3.75 MB"},
		"a side too long":   {dataURL(PNG, pngOf(8001, 1)), "8001 x 1 pixels"},
		"a bomb":            {dataURL(PNG, pngOf(8000, 8000)), "40 million"},
		"four billion":      {dataURL(PNG, pngOf(1<<32-1, 1<<32-1)), "pixels"},
		"no width":          {dataURL(PNG, pngOf(0, 5)), "damaged"},
		"half a header":     {dataURL(PNG, pic[PNG][:20]), "damaged"},
		"a JPEG of markers": {dataURL(JPEG, append([]byte("\xff\xd8"), bytes.Repeat([]byte{0xff}, 1000)...)), "damaged"},
		"a JPEG that ends":  {dataURL(JPEG, []byte("\xff\xd8\xff\xd9")), "damaged"},
		"no next marker":    {dataURL(JPEG, []byte("\xff\xd8\xff\xe0\x00\x02x\xc0\x00\x11\x08\x00\x10\x00\x20\x03\x01\x11")), "damaged"},
		"half a GIF":        {dataURL(GIF, []byte("GIF89a\x01\x00")), "damaged"},
		"a WebP unmarked":   {dataURL(WebP, webp("VP8L", 0, 2|1<<14)), "damaged"},
		"a lossy one too":   {dataURL(WebP, unmarked), "damaged"},
		"an unknown WebP":   {dataURL(WebP, webp("VP9 ", 0x2f, 2|1<<14)), "damaged"},
		"white space":       {dataURL(PNG, pic[PNG])[:60] + "\n" + dataURL(PNG, pic[PNG])[60:], "not valid base64"},
		"no padding":        {strings.TrimRight(dataURL(PNG, pic[PNG][:40]), "="), "not valid base64"},
		"letters of URLs":   {"data:image/png;base64,_-__", "not valid base64"},
		"stray bits":        {"data:image/png;base64,iR==", "not valid base64"},
		"nothing":           {"data:image/png;base64,", "empty"},
		"not base64":        {"data:image/png,abc", "base64"},
		"parameters":        {"data:image/png;a=b;base64,aaaa", "parameters"},
		"no data URL":       {"ftp://example.com/a.png", "data URL"},
		"no comma":          {"data:image/png;base64" + strings.Repeat("x", 1000), "no base64 content"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Image(c.url)
			if m != nil || err == nil || !strings.Contains(err.Error(), c.want) || stoa.CodeOf(err) != stoa.CodeInvalidValue {
				t.Errorf("%+v, %v; want %q", m, err, c.want)
			}
		})
	}
	for name, data := range map[string][]byte{"the largest": large(MaxImage), "the longest side": pngOf(8000, 1), "the most pixels": pngOf(8000, 5000)} {
		if _, err := Image(dataURL(PNG, data)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Image("DATA:IMAGE/PNG;BASE64," + base64.StdEncoding.EncodeToString(pic[PNG])); err != nil {
		t.Errorf("in upper case: %v", err)
	}
}

// document returns a PDF with the given number of pages.
func document(pages int, trailer string) []byte {
	return []byte("%PDF-1.7\n1 0 obj <</Type /Pages /Count " + strconv.Itoa(pages) + ">> endobj\n" + strings.Repeat("2 0 obj <</Type/Page /Parent 1 0 R>> endobj\n", pages) + "trailer <</Root 1 0 R" + trailer + ">>\n%%EOF\n")
}

func TestFilesAreToldByTheirContent(t *testing.T) {
	t.Parallel()
	part, err := File("report", dataURL(PDF, document(3, "")), false)
	if err != nil || part.Kind != stoa.PartFile || part.Media.Pages != 3 || part.Media.Name != "report.pdf" || part.Media.Type != PDF {
		t.Errorf("a PDF: %+v, %v", part.Media, err)
	}
	if part, err = File("", dataURL(PDF, append(document(1, ""), make([]byte, 450_000)...)), false); err != nil || part.Media.Pages != 5 || part.Media.Name != "document.pdf" {
		t.Errorf("a PDF of compressed pages: %+v, %v", part.Media, err)
	}
	if m, err := PDFOf("A.PDF", document(2, "")); err != nil || m.Pages != 2 || m.Name != "A.PDF" {
		t.Errorf("a PDF of bytes: %+v, %v", m, err)
	}
	part, err = File("notes.txt", dataURL(Plain+";charset=utf-8", []byte("\ufeffHej på dig")), false)
	if err != nil || part.Kind != stoa.PartText || part.Text != "[File notes.txt]\nHej på dig" {
		t.Errorf("a text: %+v, %v", part, err)
	}
	for name, c := range map[string]struct{ name, url, want string }{
		"encrypted":          {"", dataURL(PDF, document(1, " /Encrypt 12 0 R")), "encrypted"},
		"encrypted in place": {"", dataURL(PDF, document(1, " /Encrypt<</V 4>>")), "encrypted"},
		"no bytes":           {"", "data:application/pdf;base64,", "empty"},
		"no PDF":             {"", dataURL(PDF, []byte("PK\x03\x04")), "not a PDF"},
		"something before":   {"", dataURL(PDF, append([]byte("\n"), document(1, "")...)), "not a PDF"},
		"too large":          {"", dataURL(PDF, append(document(1, ""), make([]byte, MaxFile)...)), "larger than 10 MB"},
		"a word processor's": {"", dataURL("application/msword", []byte("x")), "not supported"},
		"no text":            {"", dataURL(Plain, []byte("\xff\xfe")), "UTF-8"},
		"NUL in a text":      {"", dataURL(Plain, []byte("a\x00b")), "UTF-8"},
		"a name too long":    {strings.Repeat("é", 256), dataURL(Plain, []byte("a")), "name of a file"},
		"a line in the name": {"a\nb", dataURL(Plain, []byte("a")), "name of a file"},
	} {
		if _, err := File(c.name, c.url, false); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if m, err := pdf(bytes.Repeat([]byte("%PDF-/Type/Page "), 600_000)); err != nil || m.Pages != maxPages {
		t.Errorf("a file of page marks: %+v, %v", m, err)
	}
}

// objects returns a PDF with a text in a compressed object stream.
func objects(text, filter string) []byte {
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	w.Write([]byte(text))
	w.Close()
	return []byte("%PDF-1.7\n1 0 obj <</Type /ObjStm /N 1 " + filter + ">> stream\r\n" + packed.String() + "\nendstream endobj\n%%EOF\n")
}

func TestPagesOfAPDFAreCounted(t *testing.T) {
	t.Parallel()
	page := "<</Type/Page /Parent 1 0 R>> "
	for name, c := range map[string]struct {
		data []byte
		want int64
	}{
		"in an object stream":      {objects(strings.Repeat(page, 1000), "/Filter/FlateDecode"), 1000},
		"in two":                   {append(objects(strings.Repeat(page, 20), ""), objects(strings.Repeat(page, 30), "")...), 50},
		"in the tree's root":       {objects("<</Kids [2 0 R 2 0 R] /Resources <</Font <</F 3 0 R>>>> /Count 700 /Type /Pages>> "+page, ""), 700},
		"in the largest node":      {objects("<</Type /Pages /Count 40>> <</Type /Pages /Count 400 /Kids []>> <</Type /Pages /Count 4>>", ""), 400},
		"not in the outlines":      {objects("<</Type /Pages /Count 2 /A <<>>>> <</Type /Outlines /Count 900>> <</Count 901>>"+page+page, ""), 2},
		"more than there can be":   {objects("<</Type /Pages /Count 999999999>>", ""), maxPages},
		"nowhere":                  {[]byte("%PDF-1.7\n%%EOF\n"), 0},
		"in another compression":   {[]byte("%PDF-1.7\n" + page + "1 0 obj <</Type /ObjStm /Filter/LZWDecode>> stream\nxyz\nendstream"), 0},
		"in a stream that is long": {objects(page+strings.Repeat(" ", maxStream), ""), 0},
		"without a stream":         {[]byte("%PDF-1.7\n" + page + strings.Repeat("/ObjStm ", 500_000)), 0},
		"in too many streams":      {bytes.Repeat(objects(page, ""), maxStreams+1), 0},
	} {
		if m, err := pdf(c.data); err != nil || m.Pages != c.want {
			t.Errorf("%s: %+v, %v, want %d", name, m, err, c.want)
		}
	}
}

func FuzzHeadersOfImages(f *testing.F) {
	for _, data := range samples(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ImageOf(data)
		if err != nil {
			return
		}
		if m.Width < 1 || m.Height < 1 || m.Width > MaxSide || m.Height > MaxSide || m.Width*m.Height > MaxPixels {
			t.Fatalf("%q: %+v", data, m)
		}
		// What the standard library reads has the same size.
		var config image.Config
		switch m.Type {
		case PNG:
			config, err = png.DecodeConfig(bytes.NewReader(data))
		case JPEG:
			config, err = jpeg.DecodeConfig(bytes.NewReader(data))
		case GIF:
			config, err = gif.DecodeConfig(bytes.NewReader(data))
		default:
			return
		}
		if err == nil && (int64(config.Width) != m.Width || int64(config.Height) != m.Height) {
			t.Fatalf("%q: %dx%d, the standard library says %dx%d", data, m.Width, m.Height, config.Width, config.Height)
		}
	})
}

func FuzzDataURLs(f *testing.F) {
	for kind, data := range samples(f) {
		f.Add("a.pdf", dataURL(kind, data))
	}
	f.Add("b", dataURL(PDF, document(2, "")))
	f.Add("c", dataURL(Plain, []byte("text")))
	f.Fuzz(func(t *testing.T, name, s string) {
		if m, err := Image(s); err == nil {
			if again, err := Image(fmt.Sprintf("data:%s;base64,%s", m.Type, m.Base64)); err != nil || *again != *m {
				t.Fatalf("%q: %+v, then %+v, %v", s, m, again, err)
			}
		}
		part, err := File(name, s, len(name)%2 == 1)
		if err == nil && (part.Kind == stoa.PartText) == (part.Media != nil) {
			t.Fatalf("%q: %+v", s, part)
		}
	})
}
