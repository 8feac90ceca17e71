package drive

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// A Listing is a request for files in the byte order of their paths.
type Listing struct {
	Prefix    string // beginning of the paths; empty means all
	Delimiter string // "/" lists folders below the prefix as one entry each; empty lists every file
	Desc      bool   // in descending order
	Limit     int    // maximum number of files and folders, 1 to 1,000; 0 means 20
	Except    string // beginning of the paths that are left out; empty leaves out none; not with Delimiter
	Cursor    string // [Listed.Next] of the previous page; empty means from the start
}

// Listed is a page of a [Listing].
type Listed struct {
	Files    []File
	Prefixes []string // folders, with a slash at their end
	Next     string   // the cursor of the next page; empty if this is the last
	Revision int64    // revision of the drive when it was listed
}

// List returns a page of files. A file that exists during the whole listing is on exactly one
// page, even while other files are added and removed.
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
	last, err := q.lastEntry(who)
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
		out.Next = base64.RawURLEncoding.EncodeToString(append(q.seal(who, out.Next), out.Next...))
	}
	return out, err
}

type lister struct {
	ctx   context.Context
	tx    *db.Tx
	drive int64
	q     Listing
}

// page collects the entries after last, the final one of the previous page.
func (l *lister) page(last string, out Listed) (Listed, error) {
	read := l.files
	if l.q.Delimiter != "" {
		read = l.entries
	}
	found, err := read(last, l.q.Limit+1)
	for i, f := range found {
		if i == l.q.Limit {
			out.Next = last
			break
		}
		last = f.Path
		if l.q.Delimiter != "" {
			if i := strings.IndexByte(f.Path[len(l.q.Prefix):], '/'); i >= 0 {
				last = f.Path[:len(l.q.Prefix)+i+1]
				out.Prefixes = append(out.Prefixes, last)
				continue
			}
		}
		out.Files = append(out.Files, f)
	}
	return out, err
}

// bounds returns conditions on the column path that select the files after the last entry,
// with their arguments from $2 on; $1 is the drive.
func (l *lister) bounds(last string) (where string, args []any) {
	low, high, bounded := l.q.Prefix, "", false
	if l.q.Prefix != "" {
		high, bounded = after(l.q.Prefix)
	}
	op := ">="
	switch {
	case last == "":
	case l.q.Desc: // a folder's own name sorts before everything in it
		high, bounded = last, true
	case strings.HasSuffix(last, "/"):
		low, _ = after(last)
	default:
		low, op = last, ">"
	}
	where, args = ` AND path `+op+` $2`, []any{l.drive, low}
	if bounded {
		where, args = where+` AND path < $3`, append(args, high)
	}
	return where, args
}

func (l *lister) order() string {
	if l.q.Desc {
		return " ORDER BY path DESC"
	}
	return " ORDER BY path"
}

// files reads at most n files after the last entry.
func (l *lister) files(last string, n int) ([]File, error) {
	where, args := l.bounds(last)
	if l.q.Except != "" {
		end, _ := after(l.q.Except)
		where += fmt.Sprintf(" AND NOT (path >= $%d AND path < $%d)", len(args)+1, len(args)+2)
		args = append(args, l.q.Except, end)
	}
	args = append(args, n)
	return l.query(fmt.Sprintf(`SELECT %s FROM %s WHERE f.drive_id = $1%s%s LIMIT $%d`, fileColumns, fileTables, where, l.order(), len(args)), args)
}

// entries reads at most n files after the last entry, but only one of each folder. Each lookup
// starts behind the previous entry, so that the other files of a folder cost nothing.
func (l *lister) entries(last string, n int) ([]File, error) {
	where, args := l.bounds(last)
	bind := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	find := `instr`
	if l.tx.Postgres() {
		find = `strpos`
	}
	// In characters, since substr of both databases counts those.
	rest := bind(utf8.RuneCountInString(l.q.Prefix) + 1)
	slash := find + `(substr(e.path, ` + rest + `), '/')` // position of the slash of the entry's folder in the rest; 0 means a file
	folder := `substr(e.path, 1, CAST(` + rest + ` AS INTEGER) + ` + slash + ` - 1)`
	var next string
	if l.q.Desc {
		next = ` AND path >= $2 AND path < CASE ` + slash + ` WHEN 0 THEN e.path ELSE ` + folder + ` END`
	} else {
		// No path contains a character as small as the one that is appended to a file's path.
		next = ` AND path >= CASE ` + slash + ` WHEN 0 THEN e.path || ` + bind("\x01") + ` ELSE substr(` + folder + `, 1, length(` + folder + `) - 1) || '0' END`
		if strings.Contains(where, "$3") {
			next += ` AND path < $3`
		}
	}
	one := func(where string) string {
		return `(SELECT path FROM drive_files WHERE drive_id = $1` + where + l.order() + ` LIMIT 1)`
	}
	found, err := l.query(`WITH RECURSIVE e(path, n) AS (SELECT `+one(where)+`, 1 UNION ALL SELECT `+one(next)+`, n + 1 FROM e WHERE e.path IS NOT NULL AND n < `+bind(n)+`)
		SELECT `+fileColumns+` FROM `+fileTables+` WHERE f.drive_id = $1 AND f.path IN (SELECT path FROM e)`, args)
	slices.SortFunc(found, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	if l.q.Desc {
		slices.Reverse(found)
	}
	return found, err
}

func (l *lister) query(query string, args []any) (out []File, err error) {
	err = l.tx.Query(l.ctx, func(rows *sql.Rows) error {
		f, err := scanFile(rows.Scan)
		out = append(out, f)
		return err
	}, query, args...)
	return out, err
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

// lastEntry returns the last entry encoded in the cursor; "" without a cursor.
func (q Listing) lastEntry(who Owner) (string, error) {
	if q.Cursor == "" {
		return "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err == nil && len(b) > sealLength {
		if last := string(b[sealLength:]); string(b[:sealLength]) == string(q.seal(who, last)) {
			return last, nil
		}
	}
	return "", stoa.Errorf(stoa.CodeInvalidCursor, "The cursor is damaged, or belongs to another list, filter or order. Start again without it.").At("cursor")
}
