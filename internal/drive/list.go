package drive

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"strings"

	"stoa/internal/db"
	"stoa/internal/stoa"
)

// A Listing is a request for files in the order of the bytes of their paths.
type Listing struct {
	Prefix    string // of the paths; empty: all
	Delimiter string // "/" shows folders below the prefix as one entry each; empty: every file
	Desc      bool   // from the end
	Limit     int    // most files and folders together, 1 to 1,000; 0: 20
	Cursor    string // [Listed.Next] of the page before; empty: from the start
}

// Listed is a page of a [Listing].
type Listed struct {
	Files    []File
	Prefixes []string // folders, with the slash at their end
	Next     string   // the cursor of the next page; empty: this is the last
	Revision int64    // of the drive as it was listed
}

// List returns a page of files. While files are added and removed, a file that
// exists all the time is on exactly one page.
func (d *Drives) List(ctx context.Context, who Owner, q Listing) (Listed, error) {
	prefix, err := parsePrefix(q.Prefix)
	if err != nil {
		return Listed{}, err
	}
	if q.Delimiter != "" && q.Delimiter != "/" {
		return Listed{}, stoa.Errorf(stoa.CodeInvalidValue, "The delimiter can only be a slash.").At("delimiter")
	}
	if q.Limit == 0 {
		q.Limit = 20
	}
	q.Limit = max(1, min(q.Limit, 1000))
	q.Prefix = prefix
	last, err := q.place(who)
	if err != nil {
		return Listed{}, err
	}
	var out Listed
	err = d.db.Read(ctx, func(tx *db.Tx) error {
		row, err := findDrive(ctx, tx, who)
		if err != nil {
			return err
		}
		out = Listed{Revision: row.revision}
		l := &lister{ctx: ctx, tx: tx, drive: row.id, q: q}
		out, err = l.page(last, out)
		return err
	})
	if err == nil && out.Next != "" {
		out.Next = q.cursor(who, out.Next)
	}
	return out, err
}

// A lister reads one page of a [Listing].
type lister struct {
	ctx   context.Context
	tx    *db.Tx
	drive int64
	q     Listing
}

// page collects the entries after last, the final one of the page before.
func (l *lister) page(last string, out Listed) (Listed, error) {
	most := l.q.Limit + 1
	few := most
	if l.q.Delimiter != "" {
		few = min(most, 4) // most of a larger batch could lie in one folder
	}
	for n := few; ; {
		some, err := l.some(last, n)
		if err != nil {
			return out, err
		}
		next := min(2*n, most)
		for _, f := range some {
			entry, folder := f.Path, false
			if l.q.Delimiter != "" {
				if i := strings.IndexByte(f.Path[len(l.q.Prefix):], '/'); i >= 0 {
					entry, folder = f.Path[:len(l.q.Prefix)+i+1], true
				}
			}
			if entry == last { // more of the same folder
				next = few
				continue
			}
			if len(out.Files)+len(out.Prefixes) == l.q.Limit {
				out.Next = last
				return out, nil
			}
			last = entry
			if folder {
				out.Prefixes = append(out.Prefixes, entry)
			} else {
				out.Files = append(out.Files, f)
			}
		}
		if len(some) < n {
			return out, nil
		}
		n = next
	}
}

// some reads at most n files after the last entry.
func (l *lister) some(last string, n int) ([]File, error) {
	low, high := l.q.Prefix, ""
	bounded := false
	if l.q.Prefix != "" {
		high, bounded = after(l.q.Prefix)
	}
	lowOp, order := ">=", " ORDER BY path"
	switch {
	case l.q.Desc:
		order = " ORDER BY path DESC"
		if last != "" { // a folder's own name sorts before everything in it
			high, bounded = last, true
		}
	case strings.HasSuffix(last, "/"):
		low, _ = after(last)
	case last != "":
		low, lowOp = last, ">"
	}
	query := `SELECT ` + fileColumns + ` FROM drive_files WHERE drive_id = $1 AND path ` + lowOp + ` $2`
	args := []any{l.drive, low, n}
	if bounded {
		query += ` AND path < $4`
		args = append(args, high)
	}
	var out []File
	err := l.tx.Query(l.ctx, func(rows *sql.Rows) error {
		f, err := scanFile(rows.Scan)
		out = append(out, f)
		return err
	}, query+order+` LIMIT $3`, args...)
	return out, err
}

// cursor encodes the last entry of a page with a hash of the request, as it is
// valid for the same request only.
func (q Listing) cursor(who Owner, last string) string {
	return base64.RawURLEncoding.EncodeToString(append(q.seal(who, last), last...))
}

const sealLength = 8

func (q Listing) seal(who Owner, last string) []byte {
	order := "asc"
	if q.Desc {
		order = "desc"
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{who.AccountID, who.AgentID, q.Prefix, q.Delimiter, order, last}, "\x00")))
	return sum[:sealLength]
}

// place returns the entry of the cursor; "" without one.
func (q Listing) place(who Owner) (string, error) {
	if q.Cursor == "" {
		return "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err == nil && len(b) > sealLength {
		if last := string(b[sealLength:]); string(b[:sealLength]) == string(q.seal(who, last)) {
			return last, nil
		}
	}
	return "", stoa.Errorf(stoa.CodeInvalidCursor, "The cursor is damaged, or belongs to another list, filter or order. Begin again without it.").At("cursor")
}
