package drive

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/extract"
	"stoa/internal/base/stoa"
)

// Reread reads the text of a file again, in an encoding if it is not empty. waits reports that the
// text is read later, because it could not be read within [Limits].ReadTime.
func (d *Drives) Reread(ctx context.Context, who Owner, p Path, encoding string) (f File, waits bool, err error) {
	f, err = d.Get(ctx, who, p)
	if err != nil {
		return f, false, err
	}
	var b blobRow
	var row textRow
	err = d.db.Read(ctx, func(tx *db.Tx) error {
		drive, err := findDrive(ctx, tx, who)
		if err != nil {
			return err
		}
		w := &writer{d: d, ctx: ctx, tx: tx, drive: drive}
		if row, _, err = w.textRow(f.blob); err == nil {
			b, err = w.blob(f.blob)
		}
		return err
	})
	if err != nil {
		return f, false, err
	}
	within, cancel := context.WithTimeout(ctx, d.limits.ReadTime)
	defer cancel()
	r, err := d.readStored(within, who, f, b, cmp.Or(encoding, row.declared))
	switch {
	case ctx.Err() != nil:
		return f, false, ctx.Err()
	case err != nil:
		r = waiting(cmp.Or(encoding, row.declared))
	case r.plain && f.textBlob == f.blob:
		return f, false, nil
	}
	err = d.change(ctx, who, func(w *writer) error {
		cur, err := w.file(p)
		if err != nil {
			return err
		}
		if cur == nil {
			return notFound(p)
		}
		if cur.blob == f.blob { // otherwise another write replaced it and has read the new content
			if err := w.settle(b, r); err != nil {
				return err
			}
			if cur, err = w.file(p); err != nil {
				return err
			}
		}
		f = *cur
		return nil
	})
	return f, r.reader < 0, err
}

func (d *Drives) readStored(ctx context.Context, who Owner, f File, b blobRow, declared string) (reading, error) {
	content := d.content(ctx, who, f.blob, f.Size)
	head := make([]byte, min(extract.HeadBytes, f.Size))
	if _, err := io.ReadFull(content, head); err != nil {
		return reading{}, unavailable{err}
	}
	content.pos = 0
	var missing error
	fetch := content.fetch
	content.fetch = func(n int64) (data []byte, err error) {
		if data, err = fetch(n); err != nil {
			missing = err
		}
		return data, err
	}
	doc := extract.Document{Account: who.AccountID, Name: baseName(f.Path), MediaType: f.MimeType, Encoding: declared, Size: f.Size, Content: content}
	r, err := d.read(ctx, extract.Sniff(doc.Name, doc.MediaType, head, b.lines >= 0), doc, head, b.lines >= 0)
	if missing != nil {
		return reading{}, unavailable{missing}
	}
	return r, err
}

// unavailable is the error of stored content that could not be read. It has its own type, because it
// must not count as a failure of the document.
type unavailable struct{ error }

// Text returns a file, the hash of its text and a reader of the text. A file without a text
// is [stoa.CodeNoText].
func (d *Drives) Text(ctx context.Context, who Owner, p Path) (f File, sha256 string, size int64, text io.Reader, err error) {
	if f, err = d.Get(ctx, who, p); err != nil {
		return f, "", 0, nil, err
	}
	if !f.Text {
		return f, "", 0, nil, stoa.Errorf(stoa.CodeNoText, "The file %q has no text (textStatus %s): %s", p.text, f.TextStatus, Why(f.TextStatus)).At("path")
	}
	if f.textBlob == f.blob {
		return f, f.SHA256, f.Size, d.content(ctx, who, f.blob, f.Size), nil
	}
	err = d.db.Read(ctx, func(tx *db.Tx) error {
		row, err := findDrive(ctx, tx, who)
		if err == nil {
			sha256, err = hashOf(ctx, tx, row.id, f.textBlob)
		}
		return err
	})
	return f, sha256, f.textSize, d.content(ctx, who, f.textBlob, f.textSize), err
}

func hashOf(ctx context.Context, tx *db.Tx, drive, blob int64) (sha256 string, err error) {
	_, err = tx.Get(ctx, `SELECT sha256 FROM drive_blobs WHERE drive_id = $1 AND id = $2`, []any{drive, blob}, &sha256)
	return sha256, err
}

// Why explains a status to an owner or an agent, in one sentence.
func Why(s extract.Status) string {
	switch s {
	case extract.Ready:
		return "Its text can be read."
	case extract.Partial:
		return "Its text can be read up to a limit."
	case extract.Pending:
		return "It has not been read yet."
	case extract.Empty:
		return "It contains no text, such as scanned pages."
	case extract.Encrypted:
		return "It needs a password."
	case extract.Broken:
		return "It is damaged, or not of the kind that its name says."
	case extract.Timeout:
		return "It is too large, or reading it exceeds the limits of time or memory."
	case extract.Unsupported:
		return "Files of this kind cannot be read."
	case extract.Failed:
		return "The service failed to read it. It may be intact."
	case extract.UnknownEncoding:
		return "Its encoding is unknown. Its owner can name the encoding."
	}
	return "It is not a text or a document."
}

// Page returns one page of a PDF as a PNG image. A page that cannot be shown is
// [stoa.CodeInvalidValue].
func (d *Drives) Page(ctx context.Context, who Owner, p Path, page int64) (File, []byte, error) {
	f, png, err := d.picture(ctx, who, p, extract.Page{Number: page}, 0, 0)
	if errors.Is(err, extract.ErrBusy) || errors.Is(err, extract.ErrStopped) {
		return f, nil, stoa.Errorf(stoa.CodeInvalidValue, "Page %d of the file %q cannot be shown at the moment: its reader is busy or was stopped. Try again.", page, p.text).At("page").Because(err)
	}
	return f, png, err
}

// A Picture selects a page of a PDF that a person reads.
type Picture struct {
	Page     int64
	Width    int64 // in pixels, from 1 to [MaxWidth]
	FromLine int64 // lines of the file's text that are marked if they are in the page; 0 for none
	ToLine   int64
}

// MaxWidth is the maximum width in pixels of a [Picture].
const MaxWidth = 2000

// Picture returns one page of a PDF as a PNG image, as [Drives.Page] does. If too many documents wait for the reader, the
// error is [stoa.CodeOverloaded].
func (d *Drives) Picture(ctx context.Context, who Owner, p Path, of Picture) (File, []byte, error) {
	f, png, err := d.picture(ctx, who, p, extract.Page{Number: of.Page, Width: of.Width}, of.FromLine, of.ToLine)
	if errors.Is(err, extract.ErrBusy) || errors.Is(err, extract.ErrStopped) {
		err = stoa.Errorf(stoa.CodeOverloaded, "The reader of documents is busy. Try again.").After(time.Second).Because(err)
	}
	return f, png, err
}

// picture returns a page with the given lines of the text marked, if from is not 0.
func (d *Drives) picture(ctx context.Context, who Owner, p Path, page extract.Page, from, to int64) (File, []byte, error) {
	f, content, err := d.Open(ctx, who, p)
	if err != nil {
		return f, nil, err
	}
	key := pageKey{who, f.SHA256, page, from, to}
	if png := d.pages.get(key); png != nil {
		return f, png, nil
	}
	switch {
	case f.Pages == 0:
		return f, nil, stoa.Errorf(stoa.CodeInvalidValue, "The file %q has no pages to show: only those of PDF files are shown as images.", p.text).At("page")
	case page.Number < 1 || page.Number > f.Pages:
		return f, nil, noPage(f, page.Number)
	case d.reader == nil:
		err = errors.New("there is no reader")
	default:
		if from > 0 {
			if page.Text, page.Mark, err = d.marked(ctx, who, f, page.Number, from, to); err != nil {
				return f, nil, err
			}
		}
		within, cancel := context.WithTimeout(ctx, 2*d.limits.ReadTime)
		defer cancel()
		var png []byte
		png, err = d.reader.Page(within, extract.Document{Account: who.AccountID, Name: p.Base(), MediaType: f.MimeType, Size: f.Size, Content: content}, page)
		if err == nil {
			d.pages.put(key, png)
			return f, png, nil
		}
	}
	if ctx.Err() != nil {
		return f, nil, ctx.Err()
	}
	if errors.Is(err, extract.ErrBusy) || errors.Is(err, extract.ErrStopped) {
		return f, nil, err
	}
	return f, nil, stoa.Errorf(stoa.CodeInvalidValue, "Page %d of the file %q has no text, or cannot be shown as an image: only those of intact PDF files can.", page.Number, p.text).At("page").Because(err)
}

// marked returns the text of a page up to a line, and the number of its last lines that are marked.
func (d *Drives) marked(ctx context.Context, who Owner, f File, page, from, to int64) (text string, mark int64, err error) {
	err = d.db.Read(ctx, func(tx *db.Tx) error {
		row, err := findDrive(ctx, tx, who)
		if err != nil {
			return err
		}
		list, err := placesOf(ctx, tx, row.id, f)
		if err != nil {
			return err
		}
		for i, place := range list {
			if place.Page != page {
				continue
			}
			first := place.Line + 1 // after the line "[page 1]"
			if i+1 < len(list) {
				to = min(to, list[i+1].Line-1)
			}
			from = max(from, first)
			if from > to {
				return nil
			}
			got, err := linesOf(ctx, tx, row.id, f, first, to, 0)
			text, mark = got.Text, got.LastLine-from+1
			return err
		}
		return nil
	})
	return text, mark, err
}

func noPage(f File, page int64) error {
	return stoa.Errorf(stoa.CodeInvalidValue, "The file %q has %d pages; there is no page %d. Use one from 1 to %d.", f.Path, f.Pages, page, f.Pages).At("page")
}

// maxPages is the maximum total size in bytes of the page images that [pages] caches.
const maxPages = 16 << 20

// pages caches the newest images of pages, because each step of a turn sends them again.
type pages struct {
	mu     sync.Mutex
	images map[pageKey][]byte
	order  []pageKey // keys of images, oldest first
	bytes  int
}

type pageKey struct {
	who    Owner
	sha256 string
	page   extract.Page
	from   int64
	to     int64
}

func (c *pages) get(key pageKey) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.images[key]
}

func (c *pages) put(key pageKey, png []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.images == nil {
		c.images = map[pageKey][]byte{}
	}
	if c.images[key] != nil || len(png) > maxPages {
		return
	}
	c.images[key] = png
	c.order = append(c.order, key)
	for c.bytes += len(png); c.bytes > maxPages; c.order = c.order[1:] {
		c.bytes -= len(c.images[c.order[0]])
		delete(c.images, c.order[0])
	}
}
