// Package drive stores the files of agents: the rules of their paths, content with its
// history, quotas, full-text search, and the part of a drive that goes into a prompt.
//
// It uses its own database file, drive.db, so that indexing does not slow the ledger; on
// PostgreSQL its tables are in the same database as the others. No transaction spans the two,
// so the package never checks whether an agent exists: its callers do, before each use, and
// [Drives.Sweep] removes the drives of deleted agents. It does not use HTTP and calls no
// model.
//
// Every function has an [Owner] parameter, the account and the agent, and every query
// contains both: a drive is found by the two together or not at all. Start with [ParsePath],
// [Drives.Apply] (every write), [Drives.Search] and [Drives.Knowledge].
package drive

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"time"

	"stoa/internal/base/config"
	"stoa/internal/base/db"
	"stoa/internal/base/extract"
	"stoa/internal/base/stoa"
)

//go:embed migrations
var migrations embed.FS

// Limits are the limits of a drive. A zero field means the default in brackets, or that of
// the setting in parentheses; see [config.Limits]. History has its own share of each quota,
// because a full drive could otherwise not be emptied by deleting files.
type Limits struct {
	MaxFileBytes    int64         // one file (limits.file)
	MaxBytes        int64         // all files of a drive (limits.drive), and again all of its history
	MaxFiles        int64         // a drive (limits.driveFiles), and again its history
	MaxAccountBytes int64         // all drives of an account (limits.drivesPerAccount), and again their history
	MaxPath         int           // bytes of a new path, at most 1,024
	MaxSegment      int           // bytes of a path segment, at most 255
	MaxVersions     int64         // earlier versions kept of one path [20]
	MaxBatch        int           // operations in one batch [500]
	Grace           time.Duration // lifetime of unreferenced content, so that downloads of it can end [6 h]
	ClaimTTL        time.Duration // lifetime of the result of an idempotency key [24 h]
	StepTTL         time.Duration // lifetime of the result of a write by a step [30 days]
	SearchTime      time.Duration // one search [1 s]
	ReadTime        time.Duration // wait of a write for the texts of its documents [10 s]
}

// WithDefaults returns the limits with zero fields set to their defaults.
func (l Limits) WithDefaults() Limits {
	d := config.Defaults().Limits
	l.MaxFileBytes = cmp.Or(l.MaxFileBytes, int64(d.File))
	l.MaxBytes = cmp.Or(l.MaxBytes, int64(d.Drive))
	l.MaxAccountBytes = cmp.Or(l.MaxAccountBytes, int64(d.DrivesPerAccount))
	l.MaxFiles = cmp.Or(l.MaxFiles, int64(d.DriveFiles))
	l.MaxPath = min(cmp.Or(l.MaxPath, int(d.DrivePath)), MaxPath)
	l.MaxSegment = min(cmp.Or(l.MaxSegment, int(d.DriveSegment)), MaxSegment)
	l.MaxVersions = cmp.Or(l.MaxVersions, 20)
	l.MaxBatch = cmp.Or(l.MaxBatch, 500)
	l.Grace = cmp.Or(l.Grace, 6*time.Hour)
	l.ClaimTTL = cmp.Or(l.ClaimTTL, 24*time.Hour)
	l.SearchTime = cmp.Or(l.SearchTime, time.Second)
	l.ReadTime = cmp.Or(l.ReadTime, 10*time.Second)
	l.StepTTL = cmp.Or(l.StepTTL, 30*24*time.Hour)
	return l
}

// Drives is the store of all drives. It is safe for concurrent use.
type Drives struct {
	db       *db.DB
	limits   Limits
	tempDir  string  // stores uploads above inMemory; empty means that of the system
	bucket   *Bucket // stores large content; nil means that all content is in the database
	searches searches
	known    known
	pages    pages

	reader    extract.Reader // reads documents; nil means that they are unsupported
	version   int64          // version of the reader; 0 without one
	textPause time.Duration  // pause after the service failed to read a text
	wake      chan struct{}  // contains an element if a text waits
}

// Migrations returns the migrations of the drives' tables on PostgreSQL or SQLite.
func Migrations(postgres bool) fs.FS {
	dialect := "sqlite"
	if postgres {
		dialect = "postgres"
	}
	sub, err := fs.Sub(migrations, "migrations/"+dialect)
	if err != nil {
		panic(err) // the path is valid
	}
	return sub
}

// Open opens the database of the drives. It sets File and Migrations of cfg.
func Open(ctx context.Context, cfg db.Config, limits Limits) (*Drives, error) {
	cfg.File, cfg.Migrations = "drive.db", Migrations(cfg.PostgresURL != "")
	conn, err := db.Open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the drives: %w", err)
	}
	d := &Drives{db: conn, limits: limits.WithDefaults(), textPause: time.Minute, wake: make(chan struct{}, 1)}
	if cfg.PostgresURL == "" { // with PostgreSQL there may be no data directory
		d.tempDir = cfg.Dir
	}
	return d, nil
}

// Close waits for accepted writes, then closes the database.
func (d *Drives) Close() error { return d.db.Close() }

// DB returns the database of the drives, for backups.
func (d *Drives) DB() *db.DB { return d.db }

// Limits returns the limits.
func (d *Drives) Limits() Limits { return d.limits }

// An Owner identifies a drive: the account that pays and its agent. Every query contains both,
// so that an id alone never reaches the files of another account.
type Owner struct{ AccountID, AgentID string }

// A File describes a file without its content.
type File struct {
	ID        string // fil_…; unchanged when the file is replaced or moved
	Path      string
	Size      int64 // bytes
	MimeType  string
	SHA256    string // hash of the content, lower-case hexadecimal; the ETag is this in quotes
	Text      bool   // the content is a text, or one was read from it: it is indexed and readable by line
	Lines     int64  // number of lines of the text
	Version   int64  // the drive's revision when this content was written to this path
	CreatedAt time.Time
	UpdatedAt time.Time

	TextStatus   extract.Status
	TextNote     string // note for the owner; may be empty
	TextEncoding string // encoding of a text that is not UTF-8
	Pages        int64  // number of pages of a document; 0 for other files

	rid      int64
	blob     int64
	textBlob int64 // the content with the text; 0 without a text
	textSize int64 // size of the text, if it is other content than blob
}

// ETag returns the strong entity tag of the content, including its quotes.
func (f File) ETag() string { return `"` + f.SHA256 + `"` }

// Stats are the counts of a drive.
type Stats struct {
	Files        int64
	Bytes        int64 // size of the files and of the texts of documents
	HistoryFiles int64 // stored earlier versions
	HistoryBytes int64
	Revision     int64     // number of changes; 0 if never written to
	UpdatedAt    time.Time // zero if never written to
}

// Stats returns the counts of a drive, or zeros for a drive that was never written to.
func (d *Drives) Stats(ctx context.Context, who Owner) (Stats, error) {
	var s Stats
	err := d.db.Read(ctx, func(tx *db.Tx) error {
		row, err := findDrive(ctx, tx, who)
		s = row.stats()
		return err
	})
	return s, err
}

// driveRow is the row of a drive. Every query reads it first, because it maps the [Owner] to the id.
type driveRow struct {
	id                                         int64 // 0 if it does not exist yet
	revision, files, bytes, oldFiles, oldBytes int64
	updatedAt                                  int64
}

func (r driveRow) stats() Stats {
	return Stats{
		Files: r.files, Bytes: r.bytes, HistoryFiles: r.oldFiles, HistoryBytes: r.oldBytes,
		Revision: r.revision, UpdatedAt: db.Time(r.updatedAt),
	}
}

const selectDrive = `SELECT id, revision, files, bytes, old_files, old_bytes, updated_at
	FROM drive_drives WHERE account_id = $1 AND agent_id = $2`

func findDrive(ctx context.Context, tx *db.Tx, who Owner) (driveRow, error) {
	var r driveRow
	_, err := tx.Get(ctx, selectDrive, []any{who.AccountID, who.AgentID},
		&r.id, &r.revision, &r.files, &r.bytes, &r.oldFiles, &r.oldBytes, &r.updatedAt)
	return r, err
}

// lockDrive locks the row of a drive, so that writes to one drive are serialized. It creates a
// missing row and then tries again, since another writer may have created it.
func lockDrive(ctx context.Context, tx *db.Tx, who Owner) (driveRow, error) {
	if who.AccountID == "" || who.AgentID == "" {
		return driveRow{}, fmt.Errorf("a drive needs an account and an agent, not %q and %q", who.AccountID, who.AgentID)
	}
	var r driveRow
	for range 2 {
		found, err := tx.Get(ctx, selectDrive+tx.ForUpdate(), []any{who.AccountID, who.AgentID},
			&r.id, &r.revision, &r.files, &r.bytes, &r.oldFiles, &r.oldBytes, &r.updatedAt)
		if err != nil || found {
			return r, err
		}
		_, err = tx.Exec(ctx, `INSERT INTO drive_drives (account_id, agent_id, updated_at) VALUES ($1, $2, $3)
			ON CONFLICT (account_id, agent_id) DO NOTHING`, who.AccountID, who.AgentID, db.Micros(tx.Now))
		if err != nil {
			return driveRow{}, err
		}
	}
	return driveRow{}, fmt.Errorf("the drive of %s could not be created", who.AgentID)
}

const (
	fileColumns = `f.rid, f.id, f.path, f.version, f.blob_id, f.sha256, f.size, f.mime, f.is_text, f.lines, f.created_at, f.updated_at,
		f.text_blob_id, f.text_size, COALESCE(t.status, ''), COALESCE(t.note, ''), COALESCE(t.pages, 0), COALESCE(t.encoding, '')`
	// The join compares the text too, because the row of the content may be about another one: a
	// file can be its own text while a copy with another ending is not.
	fileTables = `drive_files f LEFT JOIN drive_texts t ON t.drive_id = f.drive_id AND t.blob_id = f.blob_id AND t.text_blob_id = f.text_blob_id`
)

func scanFile(scan func(...any) error, more ...any) (File, error) {
	var f File
	var text, created, updated int64
	dest := append([]any{
		&f.rid, &f.ID, &f.Path, &f.Version, &f.blob, &f.SHA256, &f.Size, &f.MimeType, &text, &f.Lines, &created, &updated,
		&f.textBlob, &f.textSize, &f.TextStatus, &f.TextNote, &f.Pages, &f.TextEncoding,
	}, more...)
	if err := scan(dest...); err != nil {
		return File{}, err
	}
	f.Text, f.CreatedAt, f.UpdatedAt = text == 1, db.Time(created), db.Time(updated)
	switch {
	case f.TextStatus != "":
	case f.Text:
		f.TextStatus = extract.Ready
	default:
		f.TextStatus = extract.Pending
	}
	return f, nil
}

func notFound(p Path) error {
	return stoa.Errorf(stoa.CodeFileNotFound, "There is no file %q in this drive.", p.text).At("path")
}
