package drive

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// Get returns the description of a file.
func (d *Drives) Get(ctx context.Context, who Owner, p Path) (File, error) {
	var f *File
	err := d.db.Read(ctx, func(tx *db.Tx) error {
		row, err := findDrive(ctx, tx, who)
		if err != nil {
			return err
		}
		f, err = fileAt(ctx, tx, row.id, p.text)
		return err
	})
	switch {
	case err != nil:
		return File{}, err
	case f == nil:
		return File{}, notFound(p)
	}
	return *f, nil
}

// Open returns a file and a reader of its content, which keeps one piece in memory and no open
// transaction. The reader returns the same content although the file is overwritten, for
// [Limits].Grace. ctx applies to all reads.
func (d *Drives) Open(ctx context.Context, who Owner, p Path) (File, io.ReadSeeker, error) {
	f, err := d.Get(ctx, who, p)
	if err != nil {
		return File{}, nil, err
	}
	return f, d.content(ctx, who, f.blob, f.Size), nil
}

// content returns a reader of stored content, or errGone if that is removed in the meantime. It
// reads one piece per transaction, so that a slow client keeps none open.
func (d *Drives) content(ctx context.Context, who Owner, blob, size int64) *pieces {
	return &pieces{size: size, fetch: func(n int64) ([]byte, error) { return d.storedPiece(ctx, who, blob, size, n) }}
}

// errGone is returned when content was removed while it was being read.
var errGone = errors.New("drive: the content is no longer kept")

// fetchPiece reads piece n of a text. It needs no bucket, since texts are always in the database.
func fetchPiece(ctx context.Context, tx *db.Tx, driveID, blob, n int64) ([]byte, error) {
	var data []byte
	found, err := tx.Get(ctx, `SELECT p.data FROM drive_blobs b JOIN drive_pieces p ON p.blob_id = b.id
		WHERE b.drive_id = $1 AND b.id = $2 AND p.n = $3`, []any{driveID, blob, n}, &data)
	if err == nil && !found {
		err = errGone
	}
	return data, err
}

// pieces reads stored content.
type pieces struct {
	size  int64
	fetch func(n int64) ([]byte, error)
	pos   int64
	at    int64 // number of the piece in data, plus one, so that zero means none
	data  []byte
}

// Read implements [io.Reader]. It keeps one piece in memory.
func (p *pieces) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if p.pos >= p.size {
		return 0, io.EOF
	}
	n := p.pos / pieceSize
	if p.at != n+1 {
		data, err := p.fetch(n)
		if err != nil {
			return 0, err
		}
		p.at, p.data = n+1, data
	}
	off := p.pos - n*pieceSize
	if off >= int64(len(p.data)) {
		return 0, fmt.Errorf("drive: piece %d has %d bytes: %w", n, len(p.data), io.ErrUnexpectedEOF)
	}
	k := copy(b, p.data[off:])
	p.pos += int64(k)
	return k, nil
}

// Seek implements [io.Seeker]. It does not read.
func (p *pieces) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += p.pos
	case io.SeekEnd:
		offset += p.size
	}
	if offset < 0 {
		return 0, errors.New("drive: seek before the start")
	}
	p.pos = offset
	return offset, nil
}

// MaxRead is the maximum number of bytes that one [Drives.Read] returns, because a model receives
// them.
const MaxRead = 64 << 10

// Lines are some lines of a text.
type Lines struct {
	File      File
	Text      string // the lines with their line breaks
	FirstLine int64  // number from 1; 0 if there are no lines
	LastLine  int64
	Truncated bool   // the lines exceed MaxRead: LastLine is the last complete one or, if it is the only one, cut
	Place     string // in a document, such as "p. 12–13"; may be empty
	Header    string // the names of the columns, if the lines are in a table and do not have them
}

// Read returns the lines from first to last, inclusive, of a text; last 0 means to the end.
// The part beyond [MaxRead] is left out. A first line beyond the end returns no text. A file
// without a text is [stoa.CodeInvalidValue].
func (d *Drives) Read(ctx context.Context, who Owner, p Path, first, last int64) (Lines, error) {
	return d.ReadFrom(ctx, who, p, first, last, 0)
}

// ReadFrom is [Drives.Read] without the first skip bytes of the first line, because one line can exceed
// [MaxRead]. A shorter line is [stoa.CodeInvalidValue].
func (d *Drives) ReadFrom(ctx context.Context, who Owner, p Path, first, last, skip int64) (Lines, error) {
	var out Lines
	err := d.db.Read(ctx, func(tx *db.Tx) error {
		row, f, err := fileOf(ctx, tx, who, p)
		if err != nil {
			return err
		}
		if !f.Text {
			return stoa.Errorf(stoa.CodeInvalidValue, "The file %q has no text to read (%s, %d bytes). %s", p.text, f.MimeType, f.Size, Why(f.TextStatus)).At("path")
		}
		if out, err = linesOf(ctx, tx, row.id, *f, first, last, skip); err != nil || out.FirstLine == 0 {
			return err
		}
		list, err := placesOf(ctx, tx, row.id, *f)
		if err != nil {
			return err
		}
		out.Place = short(list.of(out.FirstLine, out.LastLine), maxPlace)
		head, err := heads(ctx, tx, row.id, *f, list, out.FirstLine)
		out.Header = short(head, maxHeader)
		return err
	})
	return out, err
}

func fileOf(ctx context.Context, tx *db.Tx, who Owner, p Path) (driveRow, *File, error) {
	row, err := findDrive(ctx, tx, who)
	if err != nil {
		return row, nil, err
	}
	f, err := fileAt(ctx, tx, row.id, p.text)
	if err == nil && f == nil {
		err = notFound(p)
	}
	return row, f, err
}

// linesOf is [Drives.ReadFrom] of a file.
func linesOf(ctx context.Context, tx *db.Tx, drive int64, f File, first, last, skip int64) (Lines, error) {
	out := Lines{File: f}
	first = max(first, 1)
	if last <= 0 || last > f.Lines {
		last = f.Lines
	}
	if first > last {
		return out, nil
	}
	src, line, err := before(ctx, tx, drive, f, first)
	if err != nil {
		return out, err
	}
	if skip > 0 {
		if err := skipBytes(ctx, tx, drive, f, src, first-line, first, skip); err != nil {
			return out, err
		}
		line = first
	}
	text, lines, cut, err := readLines(src, first-line, last-first+1)
	if err != nil {
		return out, err
	}
	out.Text, out.FirstLine, out.LastLine, out.Truncated = text, first, first+lines-1, cut
	return out, nil
}

// before returns a reader of a text at the passage with the beginning of a line, and the line of
// that position, so that only a passage is read before the line.
func before(ctx context.Context, tx *db.Tx, drive int64, f File, line int64) (src *pieces, first int64, err error) {
	var at int64
	_, err = tx.Get(ctx, `SELECT first_line, first_byte FROM drive_passages
		WHERE drive_id = $1 AND file_rid = $2 AND last_line >= $3 ORDER BY id LIMIT 1`, []any{drive, f.rid, line}, &first, &at)
	return &pieces{size: f.textBytes(), pos: at, fetch: func(n int64) ([]byte, error) { return fetchPiece(ctx, tx, drive, f.textBlob, n) }}, first, err
}

// lineStart returns the position in src of the beginning of the line after some lines.
func lineStart(src *pieces, lines int64) (int64, error) {
	start := src.pos
	in := bufio.NewReader(src)
	for range lines {
		before, err := in.ReadSlice('\n') // shorter than a passage
		if err != nil {
			return 0, err
		}
		start += int64(len(before))
	}
	return start, nil
}

// skipBytes moves src, which is some lines before a line, past skip bytes of that line, then to the
// next character, because a text must not begin within one.
func skipBytes(ctx context.Context, tx *db.Tx, drive int64, f File, src *pieces, lines, line, skip int64) error {
	start, err := lineStart(src, lines)
	if err != nil {
		return err
	}
	to := start + skip
	var first, from int64
	found, err := tx.Get(ctx, `SELECT first_line, first_byte FROM drive_passages
		WHERE drive_id = $1 AND file_rid = $2 AND end_byte > $3 ORDER BY id LIMIT 1`, []any{drive, f.rid, to}, &first, &from)
	if err != nil {
		return err
	}
	if found && (from <= start || first == line) {
		src.pos = max(from, start)
		between := make([]byte, to-src.pos+1)
		if _, err := io.ReadFull(src, between); err != nil {
			return err
		}
		if bytes.IndexByte(between[:len(between)-1], '\n') < 0 {
			src.pos = to
			for c := between[len(between)-1:]; !utf8.RuneStart(c[0]); {
				src.pos++
				if _, err := src.Read(c); err != nil {
					return err
				}
				src.pos--
			}
			return nil
		}
	}
	return stoa.Errorf(stoa.CodeInvalidValue, "Line %d has no byte %d.", line, skip).At("fromByte")
}

// readLines skips some lines and reads the following ones, up to MaxRead.
func readLines(r io.Reader, skip, want int64) (text string, lines int64, cut bool, err error) {
	var out strings.Builder
	buf := make([]byte, 16<<10)
	for lines < want {
		n, err := r.Read(buf)
		b := buf[:n]
		for skip > 0 && len(b) > 0 {
			i := bytes.IndexByte(b, '\n')
			if i < 0 {
				b = nil
				break
			}
			b = b[i+1:]
			skip--
		}
		for len(b) > 0 && lines < want {
			i := bytes.IndexByte(b, '\n') + 1
			if i == 0 {
				out.Write(b)
				break
			}
			out.Write(b[:i])
			b = b[i:]
			lines++
			if out.Len() > MaxRead {
				break
			}
		}
		if out.Len() > MaxRead {
			text, lines = shorten(out.String())
			return text, lines, true, nil
		}
		if err == io.EOF {
			if s := out.String(); s != "" && s[len(s)-1] != '\n' {
				lines++
			}
			break
		}
		if err != nil {
			return "", 0, false, err
		}
	}
	return out.String(), lines, false, nil
}

// shorten cuts a text to MaxRead at the end of a line, or, within a single line, between two
// characters.
func shorten(s string) (string, int64) {
	cut := MaxRead
	if i := strings.LastIndexByte(s[:cut], '\n'); i >= 0 {
		s = s[:i+1]
		return s, int64(strings.Count(s, "\n"))
	}
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut], 1
}

// Stored returns the content with a hash, whether or not a file has it now: also that of earlier versions. ok reports whether the
// drive still stores it. Content above limit bytes is [stoa.CodeTooLarge].
func (d *Drives) Stored(ctx context.Context, who Owner, sha256 string, limit int64) (content []byte, ok bool, err error) {
	var blob, size int64
	err = d.db.Read(ctx, func(tx *db.Tx) error {
		row, err := findDrive(ctx, tx, who)
		if err != nil {
			return err
		}
		ok, err = tx.Get(ctx, `SELECT id, size FROM drive_blobs WHERE drive_id = $1 AND sha256 = $2`, []any{row.id, sha256}, &blob, &size)
		return err
	})
	switch {
	case err != nil || !ok:
		return nil, false, err
	case size > limit:
		return nil, false, stoa.Errorf(stoa.CodeTooLarge, "The file is larger than %s.", stoa.Size(limit)).At("path")
	}
	content, err = io.ReadAll(d.content(ctx, who, blob, size))
	if errors.Is(err, errGone) {
		return nil, false, nil
	}
	return content, err == nil, err
}
