package extract_test

import (
	"bytes"
	"compress/zlib"
	"crypto/md5"
	"crypto/rc4"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
)

// A pdfForm says how a file is written; the text is the same.
type pdfForm struct {
	flate    bool   // compressed streams
	objects  bool   // objects within streams, and a table of references that is a stream
	font     string // winansi, differences, mapped or cid
	columns  bool   // two columns whose lines alternate in the stream
	kerning  bool   // letters apart, with distances between them
	hex      bool   // strings in hexadecimal
	xobject  bool   // the text is within a form
	rotate   int
	tree     bool   // a tree of pages with two levels and inherited resources
	password string // of the user; "-" encrypts with the empty one
	width    int    // letters of a line; 0 means 60
}

// A pdfFile is a file while it is written.
type pdfFile struct {
	form    pdfForm
	objects [][]byte // by number - 1; nil while reserved
	codes   map[rune]int
	letters []rune // by code
}

func (p *pdfFile) reserve() int {
	p.objects = append(p.objects, nil)
	return len(p.objects)
}

func (p *pdfFile) set(n int, format string, args ...any) {
	p.objects[n-1] = fmt.Appendf(nil, format, args...)
}

func (p *pdfFile) add(format string, args ...any) int {
	n := p.reserve()
	p.set(n, format, args...)
	return n
}

// stream adds a stream; extra are further entries of its dictionary.
func (p *pdfFile) stream(extra string, data []byte) int {
	n := p.reserve()
	p.setStream(n, extra, data)
	return n
}

func (p *pdfFile) setStream(n int, extra string, data []byte) {
	if p.form.flate || p.form.objects {
		data, extra = deflated(data), extra+" /Filter /FlateDecode"
	}
	p.objects[n-1] = slices.Concat(fmt.Appendf(nil, "<< %s /Length %d >>\nstream\n", extra, len(data)), data, []byte("\nendstream"))
}

func deflated(data []byte) []byte {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	z.Write(data)
	z.Close()
	return b.Bytes()
}

// winANSI are the letters of WinAnsiEncoding that the texts use beyond Latin-1.
var winANSI = map[rune]byte{'€': 0x80, '–': 0x96, '—': 0x97, '’': 0x92, '“': 0x93, '”': 0x94, '„': 0x84}

// encode returns the codes of a text in the font of the file.
func (p *pdfFile) encode(s string) []byte {
	var b []byte
	for _, r := range s {
		switch p.form.font {
		case "mapped", "cid":
			code, ok := p.codes[r]
			if !ok {
				code = len(p.letters) + 33
				p.codes[r] = code
				p.letters = append(p.letters, r)
			}
			if p.form.font == "cid" {
				b = append(b, byte(code>>8))
			}
			b = append(b, byte(code))
		default:
			if c, ok := winANSI[r]; ok {
				b = append(b, c)
			} else {
				b = append(b, byte(r))
			}
		}
	}
	return b
}

// literal returns a string of PDF.
func (p *pdfFile) literal(b []byte) string {
	if p.form.hex || p.form.font == "cid" {
		return "<" + hex.EncodeToString(b) + ">"
	}
	var s strings.Builder
	s.WriteByte('(')
	for _, c := range b {
		switch {
		case strings.IndexByte(`()\`, c) >= 0:
			s.WriteString("\\" + string(rune(c)))
		case c < ' ' || c > '~':
			fmt.Fprintf(&s, `\%03o`, c)
		default:
			s.WriteByte(c)
		}
	}
	return s.String() + ")"
}

// show returns the operator that shows a line.
func (p *pdfFile) show(line string) string {
	if !p.form.kerning {
		return p.literal(p.encode(line)) + " Tj"
	}
	var s strings.Builder
	s.WriteByte('[')
	for i, r := range []rune(line) {
		if i > 0 {
			s.WriteString(" -20 ")
		}
		s.WriteString(p.literal(p.encode(string(r))))
	}
	return s.String() + "] TJ"
}

// wrap divides a text into lines. A text without spaces is divided anywhere.
func wrap(s string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(s) {
		if len([]rune(word)) > width {
			if line != "" {
				lines, line = append(lines, line), ""
			}
			for r := []rune(word); len(r) > 0; {
				n := min(width, len(r))
				lines, r = append(lines, string(r[:n])), r[n:]
			}
			continue
		}
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// content returns the operators of a page with its paragraphs.
func (p *pdfFile) content(paragraphs []string) []byte {
	var b bytes.Buffer
	width := p.form.width
	if width == 0 {
		width = 60
	}
	at := func(x, y int, line string) {
		matrix := fmt.Sprintf("1 0 0 1 %d %d", x, y)
		if p.form.rotate == 90 { // upright on the rotated page
			matrix = fmt.Sprintf("0 1 -1 0 %d %d", 842-y, x)
		}
		fmt.Fprintf(&b, "BT /F1 10 Tf %s Tm %s ET\n", matrix, p.show(line))
	}
	y := 780
	if !p.form.columns {
		for _, text := range paragraphs {
			for _, line := range wrap(text, width) {
				at(60, y, line)
				y -= 12
			}
			y -= 10
		}
		return b.Bytes()
	}
	for i, x := range []int{50, 320} {
		y = 780
		for j := i * (len(paragraphs) + 1) / 2; j < len(paragraphs) && j < (i+1)*(len(paragraphs)+1)/2; j++ {
			for _, line := range wrap(paragraphs[j], 36) {
				at(x, y, line)
				y -= 12
			}
			y -= 10
		}
	}
	return b.Bytes()
}

// fontObject adds the font. It is called after the pages, which decide its letters.
func (p *pdfFile) fontObject(n int) {
	switch p.form.font {
	case "differences":
		var d strings.Builder
		for _, c := range []string{"128 /Euro", "228 /adieresis", "246 /odieresis /divide", "252 /udieresis", "223 /germandbls", "233 /eacute", "232 /egrave"} {
			d.WriteString(c + " ")
		}
		p.set(n, "<< /Type /Font /Subtype /TrueType /BaseFont /Arial /Encoding << /Type /Encoding /BaseEncoding /WinAnsiEncoding /Differences [%s] >> >>", d.String())
	case "mapped":
		p.set(n, "<< /Type /Font /Subtype /Type1 /BaseFont /ABCDEF+Helvetica /FirstChar 0 /LastChar 255 /ToUnicode %d 0 R >>", p.cmap(1))
	case "cid":
		inner := p.add("<< /Type /Font /Subtype /CIDFontType2 /BaseFont /ABCDEF+Any /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> /DW 600 /FontDescriptor %d 0 R >>",
			p.add("<< /Type /FontDescriptor /FontName /ABCDEF+Any /Flags 4 /FontBBox [0 -200 1000 800] /ItalicAngle 0 /Ascent 800 /Descent -200 /CapHeight 700 /StemV 80 >>"))
		p.set(n, "<< /Type /Font /Subtype /Type0 /BaseFont /ABCDEF+Any /Encoding /Identity-H /DescendantFonts [%d 0 R] /ToUnicode %d 0 R >>", inner, p.cmap(2))
	default:
		p.set(n, "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
	}
}

// cmap adds the table of the letters by their codes of size bytes.
func (p *pdfFile) cmap(size int) int {
	var b bytes.Buffer
	fmt.Fprintf(&b, "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def\n1 begincodespacerange <%0*x> <%s> endcodespacerange\n", 2*size, 0, strings.Repeat("ff", size))
	for i := 0; i < len(p.letters); i += 100 {
		part := p.letters[i:min(i+100, len(p.letters))]
		fmt.Fprintf(&b, "%d beginbfchar\n", len(part))
		for j, r := range part {
			fmt.Fprintf(&b, "<%0*x> <", 2*size, 33+i+j)
			for _, u := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, "%04x", u)
			}
			b.WriteString(">\n")
		}
		b.WriteString("endbfchar\n")
	}
	b.WriteString("endcmap CMapName currentdict /CMap defineresource pop end end")
	return p.stream("", b.Bytes())
}

// makePDF returns a file with pages of paragraphs.
func makePDF(form pdfForm, pages [][]string) []byte {
	p := &pdfFile{form: form, codes: map[rune]int{}}
	catalog, root, font := p.reserve(), p.reserve(), p.reserve()
	resources := fmt.Sprintf("/Resources << /Font << /F1 %d 0 R >> >>", font)
	var kids []int
	for _, paragraphs := range pages {
		content, own := p.content(paragraphs), resources
		if form.xobject {
			inner := p.stream("/Type /XObject /Subtype /Form /BBox [0 0 612 842] "+resources, content)
			content, own = []byte("q /X1 Do Q"), fmt.Sprintf("/Resources << /XObject << /X1 %d 0 R >> >>", inner)
		}
		parent := root
		if form.tree {
			parent, own = p.reserve(), ""
		}
		kid := p.add("<< /Type /Page /Parent %d 0 R %s /MediaBox [0 0 612 842] /Rotate %d /Contents %d 0 R >>", parent, own, form.rotate, p.stream("", content))
		if form.tree {
			p.set(parent, "<< /Type /Pages /Parent %d 0 R %s /Count 1 /Kids [%d 0 R] >>", root, resources, kid)
			kid = parent
		}
		kids = append(kids, kid)
	}
	p.fontObject(font)
	var list strings.Builder
	for _, k := range kids {
		fmt.Fprintf(&list, "%d 0 R ", k)
	}
	p.set(catalog, "<< /Type /Catalog /Pages %d 0 R >>", root)
	p.set(root, "<< /Type /Pages /Count %d /Kids [%s] >>", len(kids), list.String())
	return p.bytes(catalog)
}

// bytes returns the file.
func (p *pdfFile) bytes(catalog int) []byte {
	trailer := fmt.Sprintf("/Root %d 0 R", catalog)
	if p.form.password != "" {
		trailer += p.encrypt()
	}
	var b bytes.Buffer
	b.WriteString("%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
	if p.form.objects {
		p.packed(&b, trailer)
		return b.Bytes()
	}
	at := make([]int, len(p.objects))
	for i, o := range p.objects {
		at[i] = b.Len()
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, n := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", n)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d %s >>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, trailer, start)
	return b.Bytes()
}

// packed writes the objects without streams into one stream, and the references as a stream.
func (p *pdfFile) packed(b *bytes.Buffer, trailer string) {
	type entry struct {
		kind byte
		a    uint32
		b    uint16
	}
	entries := make([]entry, len(p.objects)+1, len(p.objects)+3)
	entries[0] = entry{0, 0, 65535}
	box := len(p.objects) + 1
	var head, body bytes.Buffer
	inside := 0
	for i, o := range p.objects {
		if bytes.Contains(o, []byte("\nstream\n")) {
			entries[i+1] = entry{1, uint32(b.Len()), 0}
			fmt.Fprintf(b, "%d 0 obj\n%s\nendobj\n", i+1, o)
			continue
		}
		entries[i+1] = entry{2, uint32(box), uint16(inside)}
		inside++
		fmt.Fprintf(&head, "%d %d ", i+1, body.Len())
		body.Write(o)
		body.WriteByte('\n')
	}
	entries = append(entries, entry{1, uint32(b.Len()), 0})
	data := deflated(append(head.Bytes(), body.Bytes()...))
	fmt.Fprintf(b, "%d 0 obj\n<< /Type /ObjStm /N %d /First %d /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream\nendobj\n", box, inside, head.Len(), len(data), data)
	start := b.Len()
	entries = append(entries, entry{1, uint32(start), 0})
	var table bytes.Buffer
	for _, e := range entries {
		table.WriteByte(e.kind)
		_ = binary.Write(&table, binary.BigEndian, e.a)
		_ = binary.Write(&table, binary.BigEndian, e.b)
	}
	data = deflated(table.Bytes())
	fmt.Fprintf(b, "%d 0 obj\n<< /Type /XRef /Size %d /W [1 4 2] %s /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n", box+1, len(entries), trailer, len(data), data, start)
}

// passwordPadding is the constant of the standard security handler.
var passwordPadding = []byte("\x28\xBF\x4E\x5E\x4E\x75\x8A\x41\x64\x00\x4E\x56\xFF\xFA\x01\x08\x2E\x2E\x00\xB6\xD0\x68\x3E\x80\x2F\x0C\xA9\xFE\x64\x53\x69\x7A")

// encrypt encrypts the streams with RC4 and 40 bits, and returns the entries of the trailer.
// The files have no other strings.
func (p *pdfFile) encrypt() string {
	user := append([]byte(strings.TrimPrefix(p.form.password, "-")), passwordPadding...)[:32]
	crypt := func(key, data []byte) []byte {
		c, err := rc4.NewCipher(key)
		if err != nil {
			panic(err)
		}
		out := make([]byte, len(data))
		c.XORKeyStream(out, data)
		return out
	}
	ownerKey := md5.Sum(passwordPadding)
	owner := crypt(ownerKey[:5], user)
	id := []byte("0123456789abcdef")
	sum := md5.Sum(slices.Concat(user, owner, []byte{0xfc, 0xff, 0xff, 0xff}, id))
	key := sum[:5]
	check := crypt(key, passwordPadding)
	for i, o := range p.objects {
		dict, data, ok := bytes.Cut(o, []byte("\nstream\n"))
		if !ok {
			continue
		}
		data = bytes.TrimSuffix(data, []byte("\nendstream"))
		n := i + 1
		own := md5.Sum(append(slices.Clone(key), byte(n), byte(n>>8), byte(n>>16), 0, 0))
		p.objects[i] = slices.Concat(dict, []byte("\nstream\n"), crypt(own[:10], data), []byte("\nendstream"))
	}
	return fmt.Sprintf(" /ID [<%x> <%x>] /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <%x> /U <%x> >>", id, id, owner, check)
}
