package drive

import (
	"context"
	"fmt"
	"io"
	"strings"

	"stoa/internal/db"
	"stoa/internal/stoa"
)

// A Source is a text, or lines of one, that an answer may be based on.
type Source struct {
	Path      string
	SHA256    string
	FirstLine int64 // 0 for an empty text
	LastLine  int64
}

// Knowledge is the part of a drive that goes into a prompt.
type Knowledge struct {
	// Whole reports whether Text holds every text of the drive. If not, Text is
	// empty, and the model reads files with its tools.
	Whole   bool
	Text    string
	Sources []Source // of Text, in its order
	Stats   Stats
}

// knowledgeOverhead is how many bytes a file adds to a prompt beside its text and
// its path.
const knowledgeOverhead = 110

// Knowledge returns the whole drive in the order of its paths if it fits into a
// budget of tokens (see [stoa.EstimateTokens]). Texts are complete; a file that
// is not text is listed with its name, type and size.
//
// A file cannot escape from its place as data: its beginning and end are marked
// with the hash of its content, which no content can contain.
func (d *Drives) Knowledge(ctx context.Context, who Owner, budget int64) (Knowledge, error) {
	var k Knowledge
	err := d.db.Read(ctx, func(tx *db.Tx) error {
		k = Knowledge{}
		row, err := findDrive(ctx, tx, who)
		if err != nil {
			return err
		}
		k.Stats = row.stats()
		if stoa.EstimateTokens(int(min(row.files*knowledgeOverhead, 1<<40))) > budget {
			return nil // too many files, whatever is in them
		}
		var bytes, files int64
		if _, err := tx.Get(ctx, `SELECT COALESCE(SUM(is_text * size + 2 * OCTET_LENGTH(path)), 0), COUNT(*) FROM drive_files WHERE drive_id = $1`,
			[]any{row.id}, &bytes, &files); err != nil {
			return err
		}
		if stoa.EstimateTokens(int(min(bytes+files*knowledgeOverhead, 1<<40))) > budget {
			return nil
		}
		all, err := allFiles(ctx, tx, row.id)
		if err != nil {
			return err
		}
		var b strings.Builder
		for _, f := range all {
			if !f.Text {
				fmt.Fprintf(&b, "[file %q: %s, %d bytes, not text]\n\n", f.Path, f.MimeType, f.Size)
				continue
			}
			mark := f.SHA256[:16]
			fmt.Fprintf(&b, "[file %q, %d lines, begin %s]\n", f.Path, f.Lines, mark)
			from := b.Len()
			src := &pieces{size: f.Size, fetch: func(n int64) ([]byte, error) { return fetchPiece(ctx, tx, row.id, f.blob, n) }}
			if _, err := io.Copy(&b, struct{ io.Reader }{src}); err != nil {
				return err
			}
			if s := b.String()[from:]; s != "" && s[len(s)-1] != '\n' {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "[file %q, end %s]\n\n", f.Path, mark)
			k.Sources = append(k.Sources, Source{Path: f.Path, SHA256: f.SHA256, FirstLine: min(1, f.Lines), LastLine: f.Lines})
		}
		if stoa.EstimateTokens(b.Len()) > budget { // paths full of escapes
			k.Sources = nil
			return nil
		}
		k.Text, k.Whole = b.String(), true
		return nil
	})
	return k, err
}
