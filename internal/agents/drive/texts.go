package drive

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"strings"

	"stoa/internal/base/db"
	"stoa/internal/base/extract"
)

// Values of drive_texts.reader for content that waits to be read. They are in the order of urgency,
// because claimText counts up from the first one. Other values are versions of the readers, 0 for a
// program without readers.
const (
	unread = -2 // the write did not wait for the text
	older  = -1 // a program that did not read texts has stored the content
)

// maxSettled is the number of bytes of text after which a transaction leaves the other files with
// the same content to the sweep, because it indexes the text for each, while other writers wait.
const maxSettled = 16 << 20

// UseReader makes the drives read the text of documents. Without a reader documents are
// [extract.Unsupported], until the drives are opened with one. It must be called before any other
// method.
func (d *Drives) UseReader(r extract.Reader) {
	if d.reader = r; r != nil {
		d.version = extract.Version
	}
}

// A textRow is a row of drive_texts: the outcome of reading some content.
type textRow struct {
	reader   int64
	status   extract.Status
	blob     int64 // the content with the text; 0 without a text
	places   string
	pages    int64
	encoding string // encoding that was found
	declared string // encoding that the owner named
	note     string
}

// A fileText is the text of a file.
type fileText struct {
	blob     int64 // the content with the text: the file's own, or what was read from it; 0 without a text
	size     int64 // size in bytes, if it is not the file's own content: that is counted already
	lines    int64
	status   extract.Status
	note     string
	pages    int64
	encoding string
}

const textColumns = `reader, status, text_blob_id, places, pages, encoding, declared, note`

func (r *textRow) columns() []any {
	return []any{&r.reader, &r.status, &r.blob, &r.places, &r.pages, &r.encoding, &r.declared, &r.note}
}

// current reports whether the row answers for a write that names an encoding and a media type.
func (r textRow) current(version int64, declared, mime string) bool {
	return r.reader >= version && (declared == "" || declared == r.declared) &&
		(r.status != extract.UnknownEncoding || !strings.Contains(mime, "charset="))
}

type reading struct {
	textRow
	text  *Content // nil without a text
	self  bool     // the content itself is the text
	plain bool     // the content needs no reader
}

func waiting(declared string) reading {
	return reading{textRow: textRow{reader: unread, status: extract.Pending, declared: declared}}
}

// readTexts reads the texts of the contents that ops write, by their hash. It runs before the
// transaction of the write, because reading takes seconds and SQLite has one writer. A text that is
// not ready within [Limits].ReadTime, or that the service fails to read, is left to the sweep, so
// that a write never fails because of its text.
func (d *Drives) readTexts(ctx context.Context, who Owner, ops []Op) (map[string]reading, error) {
	out := map[string]reading{}
	within, cancel := context.WithTimeout(ctx, d.limits.ReadTime)
	defer cancel()
	for _, op := range ops {
		c := op.Content
		if op.Verb != VerbPut || c == nil {
			continue
		}
		doc := extract.Document{
			Account: who.AccountID, Name: op.Path.Base(), MediaType: cmp.Or(op.MimeType, guess(op.Path, c)),
			Encoding: op.Encoding, Size: c.size, Content: c.reader(),
		}
		head := c.Head()
		kind := extract.Sniff(doc.Name, doc.MediaType, head, c.utf8)
		if _, done := out[c.sha256]; done || kind == extract.Plain && op.Encoding == "" {
			continue
		}
		var row textRow
		var found bool
		err := d.db.Read(ctx, func(tx *db.Tx) (err error) {
			row = textRow{}
			found, err = tx.Get(ctx, `SELECT `+textColumns+` FROM drive_texts WHERE (drive_id, blob_id) = (SELECT b.drive_id, b.id
				FROM drive_drives d JOIN drive_blobs b ON b.drive_id = d.id AND b.sha256 = $3 WHERE d.account_id = $1 AND d.agent_id = $2)`,
				[]any{who.AccountID, who.AgentID, c.sha256}, row.columns()...)
			return err
		})
		if err != nil {
			return nil, err
		}
		if found && row.current(d.version, op.Encoding, doc.MediaType) {
			continue
		}
		doc.Encoding = cmp.Or(op.Encoding, row.declared)
		r, err := d.read(within, kind, doc, head, c.utf8)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			r = waiting(doc.Encoding)
		}
		out[c.sha256] = r
	}
	return out, nil
}

// read reads the text of a document. Its errors are faults of the service, or the end of ctx, and
// so worth another try; faults of the document are a status.
func (d *Drives) read(ctx context.Context, kind extract.Kind, doc extract.Document, head []byte, utf8 bool) (reading, error) {
	out := reading{textRow: textRow{reader: d.version, declared: doc.Encoding, status: extract.None}}
	switch {
	case kind == extract.Unreadable:
		return out, nil
	case kind == extract.Plain && doc.Encoding == "":
		out.status, out.plain = extract.Ready, true
		return out, nil
	}
	got := extract.Result{Status: extract.Unsupported}
	if d.reader != nil {
		var err error
		if err = ctx.Err(); err == nil {
			got, err = d.reader.Read(ctx, doc)
		}
		if err != nil {
			return reading{}, err
		}
	}
	out.status, out.pages, out.encoding, out.note = got.Status, got.Pages, got.Encoding, short(got.Note, maxNote)
	switch got.Status {
	case extract.Ready, extract.Partial:
		if out.text = BytesContent(got.Text); !out.text.utf8 {
			out.status, out.text = extract.Failed, nil
		} else if len(got.Places) > 0 {
			places, err := json.Marshal(got.Places)
			if err != nil {
				return reading{}, err
			}
			out.places = string(places)
		}
	case extract.None, extract.Empty:
	default:
		// Markup that cannot be read is still a text, which is better than none.
		if utf8 && extract.Sniff("a.md", "text/markdown", head, true) == extract.Plain {
			out.status, out.self = extract.Ready, true
		}
	}
	return out, nil
}

func (w *writer) textRow(blob int64) (r textRow, found bool, err error) {
	found, err = w.tx.Get(w.ctx, `SELECT `+textColumns+` FROM drive_texts WHERE drive_id = $1 AND blob_id = $2`, []any{w.drive.id, blob}, r.columns()...)
	return r, found, err
}

// textOf returns the text of content with a path and a media type. It leaves content that was never
// read to the sweep, because it runs in a transaction.
func (w *writer) textOf(p, mime string, b blobRow, head func() ([]byte, error)) (fileText, error) {
	var row textRow
	found := false
	var err error
	if !b.added {
		if row, found, err = w.textRow(b.id); err != nil {
			return fileText{}, err
		}
	}
	if b.lines >= 0 && row.declared == "" {
		begin, err := head()
		if err != nil {
			return fileText{}, err
		}
		if extract.Sniff(baseName(p), mime, begin, true) == extract.Plain {
			return fileText{blob: b.id, lines: b.lines, status: extract.Ready}, nil
		}
	}
	if !found {
		r := waiting("")
		row = r.textRow
		if err := w.putText(b.id, row); err != nil {
			return fileText{}, err
		}
	}
	t := fileText{blob: row.blob, status: row.status, note: row.note, pages: row.pages, encoding: row.encoding}
	if t.blob != 0 {
		text, err := w.blob(t.blob)
		if err != nil {
			return t, err
		}
		if t.lines = text.lines; t.blob != b.id {
			t.size = text.size
		}
	}
	return t, nil
}

func (w *writer) head(b blobRow) func() ([]byte, error) {
	return func() ([]byte, error) {
		head := make([]byte, min(extract.HeadBytes, b.size))
		_, err := io.ReadFull(w.opener(b)(), head)
		return head, err
	}
}

func (w *writer) putText(blob int64, r textRow) error {
	if r.reader < 0 {
		w.unread = true
	}
	_, err := w.tx.Exec(w.ctx, `INSERT INTO drive_texts (drive_id, blob_id, `+textColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT (drive_id, blob_id) DO UPDATE SET reader = excluded.reader, status = excluded.status, text_blob_id = excluded.text_blob_id,
		places = excluded.places, pages = excluded.pages, encoding = excluded.encoding, declared = excluded.declared, note = excluded.note, tries = 0, lease_until = 0`,
		w.drive.id, blob, r.reader, r.status, r.blob, r.places, r.pages, r.encoding, r.declared, r.note)
	return err
}

// settle stores a reading of content and the text of the files that have the content. A text
// that exceeds the limits of the drive is [stoa.CodeStorageFull].
//
// The text is other content of the same drive. The row in drive_texts and each file with the
// text count as references to it, so that a text lives as long as its document.
func (w *writer) settle(b blobRow, r reading) error {
	old, found, err := w.textRow(b.id)
	if err != nil {
		return err
	}
	row := r.textRow
	switch {
	case r.status == extract.Pending && found: // the earlier text remains until then, so that the file stays searchable
		if old.reader == unread && old.declared == r.declared {
			return nil // a node may be reading it
		}
		old.reader, old.declared = unread, r.declared
		return w.putText(b.id, old)
	case r.plain:
		if err := w.forgetText(b.id); err != nil {
			return err
		}
		return w.spread(b, row)
	case r.self:
		row.blob = b.id
	case r.text != nil:
		if err := w.refer(b.id, 0); err != nil { // so that keep does not remove it
			return err
		}
		text, err := w.keep(r.text)
		if err != nil {
			return err
		}
		row.blob = text.id
	}
	if err := w.referText(b.id, old.blob, row.blob); err != nil {
		return err
	}
	if err := w.putText(b.id, row); err != nil {
		return err
	}
	return w.spread(b, row)
}

// referText replaces the reference of content to a text. Content that is its own text does not
// refer to itself, since it could then never be removed.
func (w *writer) referText(blob, before, after int64) error {
	if before == after {
		return nil
	}
	if after != 0 && after != blob {
		if err := w.refer(after, 1); err != nil {
			return err
		}
	}
	if before != 0 && before != blob {
		return w.refer(before, -1)
	}
	return nil
}

func (w *writer) forgetText(blob int64) error {
	var text int64
	found, err := w.tx.Get(w.ctx, `DELETE FROM drive_texts WHERE drive_id = $1 AND blob_id = $2 RETURNING text_blob_id`, []any{w.drive.id, blob}, &text)
	if err != nil || !found {
		return err
	}
	return w.referText(blob, text, 0)
}

// spread updates the text of the files with some content, after its row was stored.
func (w *writer) spread(b blobRow, row textRow) error {
	if b.added {
		return nil
	}
	var files []File
	err := w.tx.Query(w.ctx, func(rows *sql.Rows) error {
		f, err := scanFile(rows.Scan)
		files = append(files, f)
		return err
	}, `SELECT `+fileColumns+` FROM `+fileTables+` WHERE f.drive_id = $1 AND f.blob_id = $2`, w.drive.id, b.id) // needs no LIMIT, since [Limits].MaxFiles bounds it
	if err != nil {
		return err
	}
	if len(files) > 0 {
		w.bump() // since prompts contain the texts and statuses, and are cached by revision
	}
	before, written := w.drive.bytes, int64(0)
	for _, f := range files {
		text, err := w.textOf(f.Path, f.MimeType, b, w.head(b))
		if err != nil {
			return err
		}
		if text.blob == f.textBlob {
			continue
		}
		if written >= maxSettled {
			if row.reader = unread; row.blob == 0 {
				row.status = extract.Pending
			}
			if err := w.putText(b.id, row); err != nil {
				return err
			}
			break
		}
		if err := w.setText(f, text); err != nil {
			return err
		}
		written += cmp.Or(text.size, f.Size)
	}
	if w.drive.bytes > before {
		return w.checkBytes()
	}
	return nil
}

func (w *writer) setText(f File, text fileText) error {
	if f.Text {
		if err := w.unindex(f.rid); err != nil {
			return err
		}
	}
	if err := w.referText(f.blob, f.textBlob, text.blob); err != nil {
		return err
	}
	w.drive.bytes += text.size - f.textSize
	w.grows += text.size
	f.setText(text)
	if _, err := w.tx.Exec(w.ctx, `UPDATE drive_files SET is_text = $1, lines = $2, text_blob_id = $3, text_size = $4 WHERE drive_id = $5 AND rid = $6`,
		db.Bit(f.Text), f.Lines, f.textBlob, f.textSize, w.drive.id, f.rid); err != nil || !f.Text {
		return err
	}
	return w.index(f, w.textOpener(f)())
}

func (w *writer) textOpener(f File) func() io.Reader {
	return w.opener(blobRow{id: f.textBlob, size: f.textBytes()})
}

func (f *File) setText(t fileText) {
	f.Text, f.Lines, f.textBlob, f.textSize = t.blob != 0, t.lines, t.blob, t.size
	f.TextStatus, f.TextNote, f.Pages, f.TextEncoding = t.status, t.note, t.pages, t.encoding
}

func (f File) textBytes() int64 {
	if f.textBlob == f.blob {
		return f.Size
	}
	return f.textSize
}

func baseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// change runs fn in a transaction that has locked a drive, and writes its counters. It does nothing
// if the drive does not exist, so that the sweep never creates one again.
func (d *Drives) change(ctx context.Context, who Owner, fn func(w *writer) error) error {
	waits := false
	err := d.db.Write(ctx, func(tx *db.Tx) error {
		row, err := findDrive(ctx, tx, who)
		if err != nil || row.id == 0 {
			return err
		}
		if row, err = lockDrive(ctx, tx, who); err != nil {
			return err
		}
		w := &writer{d: d, ctx: ctx, tx: tx, who: who, drive: row, now: db.Micros(tx.Now)}
		if err := fn(w); err != nil {
			return err
		}
		waits = w.unread
		return w.finish()
	})
	if err == nil && waits {
		d.wakeTexts()
	}
	return err
}

// wakeTexts makes [Drives.Run] read the texts that wait. It never blocks: one signal suffices for
// all of them.
func (d *Drives) wakeTexts() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}
