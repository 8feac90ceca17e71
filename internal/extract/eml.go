package extract

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"

	"golang.org/x/text/encoding/htmlindex"
)

// Limits of a message.
const (
	maxNested = 20  // multiparts within each other
	maxParts  = 500 // of a message
)

var headers = &mime.WordDecoder{CharsetReader: func(charset string, r io.Reader) (io.Reader, error) {
	e, err := htmlindex.Get(charset)
	if err != nil {
		return nil, err
	}
	return e.NewDecoder().Reader(r), nil
}}

// readEML returns the headers that people read, the text and the names of the attachments of a
// message.
func readEML(data []byte) Result {
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
	g := message{}
	err = g.part(m.Header.Get, m.Body, 0)
	f.line("")
	text := strings.TrimSpace(strings.ReplaceAll(g.text, "\r\n", "\n"))
	f.write(text)
	if len(g.attached) > 0 {
		f.write("\n\nAttachments: " + strings.Join(g.attached, ", "))
	}
	f.line("")
	empty := text == "" && !known
	if err != nil && empty {
		return broken("message")
	}
	r := f.result(0, empty)
	switch {
	case err != nil:
		r.Status, r.Note = Partial, "The message is damaged: only a part of it was read."
	case len(g.attached) > 0:
		r.Note = strings.TrimSpace(r.Note + fmt.Sprintf(" The contents of the %d attachments are not part of the text.", len(g.attached)))
	}
	return r
}

// decoded decodes the encoded words of a header.
func decoded(s string) string {
	if d, err := headers.DecodeHeader(s); err == nil {
		s = d
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

// A message collects the parts of a message.
type message struct {
	text     string
	attached []string
	parts    int
}

var errParts = errors.New("the message has too many parts")

// part adds one part of a message.
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
	switch {
	case strings.HasPrefix(kind, "multipart/") && params["boundary"] != "":
		return g.multi(kind, params["boundary"], body, depth)
	case disposition == "attachment" || name != "" || !strings.HasPrefix(kind, "text/"):
		if name == "" {
			name = kind
		}
		if disposition != "inline" || !strings.HasPrefix(kind, "image/") {
			g.attached = append(g.attached, oneLine(name))
		}
		return nil
	}
	switch strings.ToLower(strings.TrimSpace(header("Content-Transfer-Encoding"))) {
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	}
	data, err := io.ReadAll(body)
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
