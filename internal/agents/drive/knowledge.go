package drive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"stoa/internal/base/db"
	"stoa/internal/base/extract"
	"stoa/internal/base/stoa"
)

// A Source names a text, or lines of it, that an answer may be based on.
type Source struct {
	Path      string
	SHA256    string
	FirstLine int64 // 0 for an empty text
	LastLine  int64
}

// Knowledge is the part of a drive that is included in a prompt.
type Knowledge struct {
	// Whole reports whether Text contains every text of the drive. Otherwise Text is empty,
	// and the model reads files with its tools.
	Whole bool
	Text  string
	Files []Known // the files of Text, in its order
	Stats Stats
}

// Known is a file of a [Knowledge].
type Known struct {
	Path     string `json:"path"`
	SHA256   string `json:"sha256"`
	MimeType string `json:"mimeType,omitzero"`
	Size     int64  `json:"size,omitzero"`
	Lines    int64  `json:"lines,omitzero"`
	Text     bool   `json:"text,omitzero"`

	TextSHA256 string         `json:"textSha256,omitzero"` // hash of the text that was read from a document
	TextSize   int64          `json:"textSize,omitzero"`   // its size in bytes
	Status     extract.Status `json:"status,omitzero"`     // set for a document without a text
}

// Sources returns the sources of those files that are texts.
func Sources(files []Known) (list []Source) {
	for _, f := range files {
		if f.Text {
			list = append(list, Source{Path: f.Path, SHA256: f.SHA256, FirstLine: min(1, f.Lines), LastLine: f.Lines})
		}
	}
	return list
}

// knowledgeOverhead is the number of bytes that a file adds to a prompt besides its text and path:
// the lines that mark its beginning and end.
const knowledgeOverhead = 110

// Knowledge returns the whole drive in the order of its paths if it fits into a budget of
// tokens (see [stoa.EstimateTokens]). Texts are complete; a file that is not text is listed
// with its name, type and size.
//
// The beginning and the end of a text are marked with the hash of its content, so that the text
// cannot end its own data block: no content can contain its own hash.
//
// It leaves out the files whose paths begin with except, unless that is empty.
func (d *Drives) Knowledge(ctx context.Context, who Owner, budget int64, except string) (Knowledge, error) {
	var k Knowledge
	end, _ := after(except) // without except the range is empty
	err := d.db.Read(ctx, func(tx *db.Tx) error {
		k = Knowledge{}
		row, err := findDrive(ctx, tx, who)
		if err != nil {
			return err
		}
		if except != "" {
			var left int64
			if _, err := tx.Get(ctx, `SELECT COUNT(*) FROM drive_files WHERE drive_id = $1 AND path >= $2 AND path < $3`, []any{row.id, except, end}, &left); err != nil {
				return err
			}
			row.files -= left
		}
		k.Stats = row.stats()
		if row.files == 0 {
			k.Whole = true
			return nil
		}
		at := place{who, row.id, row.revision, budget, except}
		if kept, ok := d.known.get(at); ok {
			kept.Stats = k.Stats
			k = kept
			return nil
		}
		if stoa.EstimateTokens(int(min(row.files*knowledgeOverhead, 1<<40))) > budget {
			return nil // too many files, regardless of their content
		}
		var bytes, files int64
		if _, err := tx.Get(ctx, `SELECT COALESCE(SUM(CASE WHEN text_blob_id = blob_id THEN size ELSE text_size END + 2 * OCTET_LENGTH(path)), 0), COUNT(*) FROM drive_files
			WHERE drive_id = $1 AND NOT (path >= $2 AND path < $3)`, []any{row.id, except, end}, &bytes, &files); err != nil {
			return err
		}
		if stoa.EstimateTokens(int(min(bytes+files*knowledgeOverhead, 1<<40))) > budget {
			return nil
		}
		all, err := allFiles(ctx, tx, row.id)
		if err != nil {
			return err
		}
		for _, f := range all {
			if except != "" && strings.HasPrefix(f.Path, except) {
				continue
			}
			one := Known{Path: f.Path, SHA256: f.SHA256, MimeType: f.MimeType, Size: f.Size, Lines: f.Lines, Text: f.Text}
			switch {
			case f.Text && f.textBlob != f.blob:
				one.TextSize = f.textSize
				if one.TextSHA256, err = hashOf(ctx, tx, row.id, f.textBlob); err != nil {
					return err
				}
			case f.TextStatus != extract.Ready && f.TextStatus != extract.None:
				one.Status = f.TextStatus
			}
			k.Files = append(k.Files, one)
		}
		text, err := textOf(ctx, tx, row.id, k.Files)
		if err != nil {
			return err
		}
		if stoa.EstimateTokens(len(text)) > budget { // paths with many escapes
			k.Files = nil
			return nil
		}
		k.Text, k.Whole = text, true
		d.known.put(at, k)
		return nil
	})
	return k, err
}

// KnownText returns the text of files in the form of [Knowledge.Text], although they may have
// been replaced since. ok reports whether their content is still stored.
func (d *Drives) KnownText(ctx context.Context, who Owner, files []Known) (text string, ok bool, err error) {
	err = d.db.Read(ctx, func(tx *db.Tx) error {
		row, err := findDrive(ctx, tx, who)
		if err != nil {
			return err
		}
		text, err = textOf(ctx, tx, row.id, files)
		return err
	})
	if errors.Is(err, errGone) {
		return "", false, nil
	}
	return text, err == nil, err
}

// textOf returns the text of files, or errGone if the content of one was removed.
func textOf(ctx context.Context, tx *db.Tx, driveID int64, files []Known) (string, error) {
	var b strings.Builder
	for _, f := range files {
		if !f.Text {
			why := "not text"
			if f.Status != "" {
				why = "no text (" + string(f.Status) + ")"
			}
			fmt.Fprintf(&b, "[file %q: %s, %d bytes, %s]\n\n", f.Path, f.MimeType, f.Size, why)
			continue
		}
		hash, size := f.SHA256, f.Size
		if f.TextSHA256 != "" {
			hash, size = f.TextSHA256, f.TextSize
		}
		mark := hash[:16]
		fmt.Fprintf(&b, "[file %q, %d lines, begin %s]\n", f.Path, f.Lines, mark)
		from := b.Len()
		src := &pieces{size: size, fetch: func(n int64) (data []byte, err error) {
			found, err := tx.Get(ctx, `SELECT p.data FROM drive_blobs b JOIN drive_pieces p ON p.blob_id = b.id
				WHERE b.drive_id = $1 AND b.sha256 = $2 AND p.n = $3`, []any{driveID, hash, n}, &data)
			if err == nil && !found {
				err = errGone
			}
			return data, err
		}}
		if _, err := io.Copy(&b, struct{ io.Reader }{src}); err != nil {
			return "", err
		}
		if s := b.String()[from:]; s != "" && s[len(s)-1] != '\n' {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "[file %q, end %s]\n\n", f.Path, mark)
	}
	return b.String(), nil
}

// A place is the cache key of a drive's text. It contains the revision, because every write
// changes that, and the budget, because it decides whether the text is whole.
type place struct {
	who                  Owner
	id, revision, tokens int64
	except               string
}

// maxKnown is the maximum total size in bytes of the texts that [known] caches.
const maxKnown = 4 << 20

// known caches the newest texts, because a step needs the text twice, to estimate its price and to
// send it, and all sessions of an agent read the same files. Callers read the revision from the
// rows each time, so that a cached text is never outdated.
type known struct {
	mu    sync.Mutex
	texts map[Owner]knownText
	order []Owner // owners of texts, oldest first
	bytes int
}

type knownText struct {
	at place
	k  Knowledge
}

func (c *known) get(at place) (Knowledge, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.texts[at.who]
	return t.k, ok && t.at == at
}

func (c *known) put(at place, k Knowledge) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.texts == nil {
		c.texts = map[Owner]knownText{}
	}
	c.drop(at.who)
	c.texts[at.who] = knownText{at, k}
	c.order = append(c.order, at.who)
	for c.bytes += size(k); c.bytes > maxKnown; {
		c.drop(c.order[0])
	}
}

func (c *known) drop(who Owner) {
	if t, ok := c.texts[who]; ok {
		delete(c.texts, who)
		c.order = slices.DeleteFunc(c.order, func(o Owner) bool { return o == who })
		c.bytes -= size(t.k)
	}
}

func size(k Knowledge) int { return len(k.Text) + 256*(1+len(k.Files)) }
