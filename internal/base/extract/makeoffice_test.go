package extract_test

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
)

// An entry is a file of a ZIP archive.
type entry struct{ name, content string }

func makeZip(entries ...entry) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range entries {
		w, err := z.Create(e.name)
		if err != nil {
			panic(err)
		}
		if _, err := w.Write([]byte(e.content)); err != nil {
			panic(err)
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// esc escapes a text for XML.
func esc(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		panic(err)
	}
	return b.String()
}

const (
	relationTypes = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
	xmlHead       = `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>`
)

// rels returns a part with relations: kind and target in turn.
func rels(pairs ...string) string {
	s := xmlHead + `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">`
	for i := 0; i < len(pairs); i += 2 {
		s += fmt.Sprintf(`<Relationship Id="rId%d" Type="%s/%s" Target="%s"/>`, i/2+1, relationTypes, pairs[i], pairs[i+1])
	}
	return s + "</Relationships>"
}

// A docxForm says where the paragraphs of a document are.
type docxForm struct {
	runs     bool // each letter in its own run
	lists    bool
	table    bool
	nested   bool // the table is within the cell of another one
	notes    bool // texts are in footnotes and endnotes
	box      bool // texts are in text boxes, in both forms of a drawing
	tracked  bool // inserted texts, next to deleted ones
	controls bool // texts are in content controls, links and fields
}

// makeDOCX returns a document with headings, each followed by its texts.
func makeDOCX(form docxForm, sections [][]string) []byte {
	var body, foot, end strings.Builder
	run := func(s string) string {
		if !form.runs {
			return `<w:r><w:rPr><w:b/></w:rPr><w:t xml:space="preserve">` + esc(s) + `</w:t></w:r>`
		}
		var b strings.Builder
		for _, r := range s {
			b.WriteString(`<w:r><w:t xml:space="preserve">` + esc(string(r)) + `</w:t></w:r>`)
		}
		return b.String()
	}
	notes := 0
	for i, texts := range sections {
		fmt.Fprintf(&body, `<w:p><w:pPr><w:pStyle w:val="Heading%d"/></w:pPr>%s</w:p>`, i%3+1, run(texts[0]))
		for j, s := range texts[1:] {
			p := "<w:p>" + run(s) + "</w:p>"
			switch {
			case form.lists:
				p = fmt.Sprintf(`<w:p><w:pPr><w:numPr><w:ilvl w:val="%d"/><w:numId w:val="1"/></w:numPr></w:pPr>%s</w:p>`, j%2, run(s))
			case form.table || form.nested:
				p = `<w:tbl><w:tblPr><w:tblStyle w:val="x"/></w:tblPr><w:tr><w:tc>` + p + `</w:tc><w:tc><w:p/></w:tc><w:tc>` + "<w:p>" + run("other cell") + "</w:p></w:tc></w:tr></w:tbl>"
				if form.nested {
					p = "<w:tbl><w:tr><w:tc>" + p + "<w:p/></w:tc></w:tr></w:tbl>"
				}
			case form.notes:
				notes++
				kind, into := "footnote", &foot
				if j%2 == 1 {
					kind, into = "endnote", &end
				}
				fmt.Fprintf(into, `<w:%s w:id="%d"><w:p><w:r><w:%sRef/></w:r>%s</w:p></w:%s>`, kind, notes, kind, run(s), kind)
				p = fmt.Sprintf(`<w:p>%s<w:r><w:%sReference w:id="%d"/></w:r></w:p>`, run("See the note."), kind, notes)
			case form.box:
				shape := "<wps:txbx><w:txbxContent>" + p + "</w:txbxContent></wps:txbx>"
				p = `<w:p><w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing>` + shape + `</w:drawing></mc:Choice><mc:Fallback><w:pict>` + shape + `</w:pict></mc:Fallback></mc:AlternateContent></w:r></w:p>`
			case form.tracked:
				p = `<w:p><w:del w:id="1"><w:r><w:delText>DELETED words</w:delText><w:t>DELETED</w:t></w:r></w:del><w:ins w:id="2">` + run(s) + `</w:ins><w:moveFrom><w:r><w:t>DELETED too</w:t></w:r></w:moveFrom><w:r><w:rPr><w:vanish/></w:rPr><w:t>DELETED or hidden</w:t></w:r></w:p>`
			case form.controls:
				p = `<w:sdt><w:sdtContent><w:p><w:hyperlink r:id="rId9"><w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>DELETED HYPERLINK</w:instrText></w:r>` + run(s) + `</w:hyperlink><w:bookmarkEnd w:id="0"/></w:p></w:sdtContent></w:sdt>`
			}
			body.WriteString(p)
		}
	}
	const space = ` xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:r="` + relationTypes + `" xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"`
	styles := xmlHead + "<w:styles" + space + ">"
	for i := range 3 {
		styles += fmt.Sprintf(`<w:style w:type="paragraph" w:styleId="Heading%d"><w:name w:val="heading %d"/></w:style>`, i+1, i+1)
	}
	separator := `<w:%s w:type="separator" w:id="-1"><w:p><w:r><w:separator/></w:r></w:p></w:%s>`
	return makeZip(
		entry{"[Content_Types].xml", xmlHead + `<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>`},
		entry{"_rels/.rels", rels("officeDocument", "word/document.xml")},
		entry{"word/_rels/document.xml.rels", rels("styles", "styles.xml", "footnotes", "footnotes.xml", "endnotes", "/word/endnotes.xml")},
		entry{"word/styles.xml", styles + "</w:styles>"},
		entry{"word/footnotes.xml", xmlHead + "<w:footnotes" + space + ">" + fmt.Sprintf(separator, "footnote", "footnote") + foot.String() + "</w:footnotes>"},
		entry{"word/endnotes.xml", xmlHead + "<w:endnotes" + space + ">" + end.String() + "</w:endnotes>"},
		entry{"word/document.xml", xmlHead + "<w:document" + space + "><w:body>" + body.String() + `<w:sectPr/></w:body></w:document>`},
	)
}

// A pptxForm says where the texts of a slide are.
type pptxForm struct {
	notes bool // the last text is in the notes of the speaker
	table bool
	group bool
	smart bool // the last text is in a diagram
	order bool // the order of the slides is not that of the names of their parts
}

// makePPTX returns a presentation; the first text of a slide is its title.
func makePPTX(form pptxForm, slides [][]string) []byte {
	const space = ` xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" xmlns:r="` + relationTypes + `"`
	shape := func(kind string, texts ...string) string {
		s := `<p:sp><p:nvSpPr><p:cNvPr id="1" name="x"/><p:nvPr><p:ph type="` + kind + `"/></p:nvPr></p:nvSpPr><p:txBody><a:bodyPr/>`
		for _, t := range texts {
			s += `<a:p><a:pPr lvl="1"/><a:r><a:rPr lang="en"/><a:t>` + esc(t) + `</a:t></a:r></a:p>`
		}
		return s + "</p:txBody></p:sp>"
	}
	entries := []entry{{"_rels/.rels", rels("officeDocument", "ppt/presentation.xml")}}
	var ids string
	var targets []string
	for i, texts := range slides {
		number := i + 1
		if form.order {
			number = len(slides) - i
		}
		part := fmt.Sprintf("slides/slide%d.xml", number)
		targets = append(targets, "slide", part)
		ids += fmt.Sprintf(`<p:sldId id="%d" r:id="rId%d"/>`, 256+i, i+1)
		rest := texts[1:]
		if form.notes {
			last := rest[len(rest)-1]
			rest = rest[:len(rest)-1]
			entries = append(entries,
				entry{fmt.Sprintf("ppt/slides/_rels/slide%d.xml.rels", number), rels("notesSlide", fmt.Sprintf("../notesSlides/notesSlide%d.xml", number))},
				entry{fmt.Sprintf("ppt/notesSlides/notesSlide%d.xml", number), xmlHead + "<p:notes" + space + "><p:cSld><p:spTree>" + shape("body", last) + shape("sldNum", "DELETED 7") + "</p:spTree></p:cSld></p:notes>"})
		}
		if form.smart {
			last := rest[len(rest)-1]
			rest = rest[:len(rest)-1]
			entries = append(entries,
				entry{fmt.Sprintf("ppt/slides/_rels/slide%d.xml.rels", number), rels("diagramData", fmt.Sprintf("../diagrams/data%d.xml", number))},
				entry{fmt.Sprintf("ppt/diagrams/data%d.xml", number), xmlHead + `<dgm:dataModel xmlns:dgm="x" xmlns:a="y"><dgm:ptLst><dgm:pt><dgm:t><a:p><a:r><a:t>` + esc(last) + `</a:t></a:r></a:p></dgm:t></dgm:pt></dgm:ptLst></dgm:dataModel>`})
		}
		body := shape("body", rest...)
		if form.table {
			body = "<p:graphicFrame><a:graphic><a:graphicData><a:tbl><a:tblGrid/>"
			for _, t := range rest {
				body += "<a:tr><a:tc><a:txBody><a:p><a:r><a:t>" + esc(t) + "</a:t></a:r></a:p></a:txBody></a:tc><a:tc><a:txBody><a:p/></a:txBody></a:tc></a:tr>"
			}
			body += "</a:tbl></a:graphicData></a:graphic></p:graphicFrame>"
		}
		if form.group {
			body = "<p:grpSp><p:grpSp>" + body + "</p:grpSp></p:grpSp>"
		}
		entries = append(entries, entry{"ppt/" + part, xmlHead + "<p:sld" + space + "><p:cSld><p:spTree>" + shape("title", texts[0]) + body + shape("ftr", "DELETED footer") + "</p:spTree></p:cSld></p:sld>"})
	}
	entries = append(entries,
		entry{"ppt/_rels/presentation.xml.rels", rels(targets...)},
		entry{"ppt/presentation.xml", xmlHead + "<p:presentation" + space + "><p:sldIdLst>" + ids + "</p:sldIdLst></p:presentation>"})
	slices.Reverse(entries)
	return makeZip(entries...)
}
