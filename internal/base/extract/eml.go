package extract

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"

	"golang.org/x/text/encoding/htmlindex"
)

// Limits of a message, because a hostile one may nest parts without end.
const (
	maxNested   = 20  // multiparts within each other
	maxParts    = 500 // per message
	maxAttached = 3   // messages within each other whose attachments are read
)

var headers = &mime.WordDecoder{CharsetReader: func(charset string, r io.Reader) (io.Reader, error) {
	e, err := htmlindex.Get(charset)
	if err != nil {
		return nil, err
	}
	return e.NewDecoder().Reader(r), nil
}}

// readEML returns the headers that people read, the text and the attachments of a message.
func (p parser) readEML(data []byte) Result {
	m, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return broken("message")
	}
	var f flow
	for _, name := range []string{"From", "To", "Cc", "Date", "Subject"} {
		if v := m.Header.Get(name); v != "" {
			f.line(name + ": " + oneLine(decoded(v)))
		}
	}
	known := f.lines > 0
	p.depth++
	g := message{parser: p}
	err = g.part(m.Header.Get, m.Body, 0)
	f.line("")
	text := strings.TrimSpace(strings.ReplaceAll(g.text, "\r\n", "\n"))
	f.write(text)
	var names, unread []string
	cut := "" // the first attachment of which only a part was read
	for _, a := range g.attached {
		names = append(names, a.name)
	}
	if len(names) > 0 {
		f.write("\n\nAttachments: " + strings.Join(names, ", "))
	}
	f.line("")
	for i, a := range g.attached {
		if len(a.Text) == 0 {
			unread = append(unread, a.name)
			continue
		}
		if a.Status == Partial && cut == "" {
			cut = a.name + ": " + a.Note
		}
		f.line("")
		f.place(Place{Name: "attachment " + a.name, Page: int64(i + 1)})
		f.line("[attachment " + a.name + "]")
		before := f.lines
		f.line(strings.TrimRight(string(a.Text), "\n"))
		for _, place := range a.Places {
			place.Name = a.name + ", " + place.Name
			if place.Line += before; place.Line <= f.lines {
				f.places = append(f.places, place)
			}
		}
		known = true
	}
	empty := text == "" && !known
	if err != nil && empty {
		return broken("message")
	}
	r := f.result(0, empty)
	switch {
	case err != nil:
		r.Status, r.Note = Partial, "The message is damaged: only a part of it was read."
	case cut != "" && r.Status == Ready:
		r.Status, r.Note = Partial, cut
	}
	if len(unread) > 0 {
		r.Note = strings.TrimSpace(r.Note + " Attachments that were not read: " + strings.Join(unread, ", ") + ".")
	}
	return r
}

func decoded(s string) string {
	if d, err := headers.DecodeHeader(s); err == nil {
		s = d
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

type message struct {
	parser
	text     string
	attached []attachment
	parts    int
}

type attachment struct {
	name string
	Result
}

var errParts = errors.New("the message has too many parts")

func (g *message) part(header func(string) string, body io.Reader, depth int) error {
	if g.parts++; g.parts > maxParts || depth > maxNested {
		return errParts
	}
	kind, params, err := mime.ParseMediaType(header("Content-Type"))
	if err != nil {
		kind = "text/plain"
	}
	disposition, names, _ := mime.ParseMediaType(header("Content-Disposition"))
	name := decoded(names["filename"])
	if name == "" {
		name = decoded(params["name"])
	}
	if strings.HasPrefix(kind, "multipart/") && params["boundary"] != "" {
		return g.multi(kind, params["boundary"], body, depth)
	}
	if disposition == "inline" && strings.HasPrefix(kind, "image/") {
		return nil
	}
	switch strings.ToLower(strings.TrimSpace(header("Content-Transfer-Encoding"))) {
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	}
	data, err := io.ReadAll(body)
	if disposition == "attachment" || name != "" || !strings.HasPrefix(kind, "text/") {
		a := attachment{name: oneLine(name)}
		if a.name == "" {
			a.name = kind
		}
		if g.depth <= maxAttached {
			a.Result = g.parse(Document{Name: name, MediaType: header("Content-Type")}, data)
		}
		g.attached = append(g.attached, a)
		return err
	}
	k := kindText
	if kind == "text/html" {
		k = kindHTML
	}
	r := readText(Document{MediaType: header("Content-Type")}, k, data)
	if g.text != "" && len(r.Text) > 0 {
		g.text += "\n\n"
	}
	g.text += string(r.Text)
	return err
}

// multi adds the parts of a multipart: of alternatives, the first one with a text.
func (g *message) multi(kind, boundary string, body io.Reader, depth int) error {
	r := multipart.NewReader(body, boundary)
	before := len(g.text)
	for {
		p, err := r.NextRawPart()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if kind == "multipart/alternative" && strings.TrimSpace(g.text[before:]) != "" {
			continue
		}
		if err := g.part(p.Header.Get, p, depth+1); err != nil {
			return err
		}
	}
}
