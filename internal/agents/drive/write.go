package drive

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/extract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// A Verb is one kind of write.
type Verb string

// The verbs.
const (
	VerbPut     Verb = "put"
	VerbDelete  Verb = "delete"
	VerbMove    Verb = "move"
	VerbRestore Verb = "restore"
)

// An Op is one write to a drive. Path must be set; the other fields depend on the verb.
type Op struct {
	Verb      Verb
	Path      Path      // the file; the source of a move
	To        Path      // target of a move
	Overwrite bool      // a move replaces an existing file at To
	Content   *Content  // content of a put; the caller closes it
	MimeType  string    // type of a put; empty means guessed
	Encoding  string    // encoding of the text of a put, as the owner says; empty if unknown
	Version   int64     // number of the version to restore
	If        Condition // condition on the file at Path before this op
	folder    string    // folder to delete, with a slash at the end
}

// A Condition restricts when a write may happen. The zero Condition is always true.
type Condition struct {
	Match    []string // the file exists and its hash is one of these, or one of these is "*"; nil means no condition
	NotExist bool     // the file does not exist
}

// check returns CodePrecondition if the condition does not hold for the current file, nil for none.
func (c Condition) check(p Path, cur *File) error {
	fail := func(why string) error {
		return stoa.Errorf(stoa.CodePrecondition, "%s", fmt.Sprintf(why, p.text)).At("path")
	}
	if c.NotExist && cur != nil {
		return fail("The file %q already exists, and the request was to write it only if it does not.")
	}
	if c.Match == nil {
		return nil
	}
	if cur == nil {
		return fail("The file %q does not exist, and the request was to change it only if it does.")
	}
	if !slices.Contains(c.Match, "*") && !slices.Contains(c.Match, cur.SHA256) {
		return fail("The file %q has changed since the version that the request names: read it again.")
	}
	return nil
}

// An Outcome is the effect of a write.
type Outcome string

// The outcomes.
const (
	Created   Outcome = "created"
	Replaced  Outcome = "replaced"
	Unchanged Outcome = "unchanged" // the file already had this content and type, or the file to delete did not exist
	Deleted   Outcome = "deleted"
	Moved     Outcome = "moved"
)

// A Change is the effect of one op.
type Change struct {
	Outcome Outcome
	Path    string // path of the op
	File    *File  // the file after the op; nil after a delete
	Count   int64  // number of files that a delete removed
}

// A Claim makes repeated requests write only once. The zero Claim does not. A repetition must
// have the same Body, otherwise it is [stoa.CodeIdempotencyReused].
type Claim struct {
	Scope string // scope of a unique Ref: a method and path, or [StepScope]
	Ref   string // the idempotency key, or the id of the step
	Body  string // a hash of the request
}

// StepScope is the scope of writes by the tools of an agent. Body may be empty, since a step never
// changes.
const StepScope = "step"

// A Result is the effect of one [Drives.Apply].
type Result struct {
	Changes  []Change // a change for each op
	Revision int64    // revision of the drive after the write
	Replayed bool     // the result is that of an earlier call with the same Claim
}

// Put writes one file: [Drives.Apply] with one op.
func (d *Drives) Put(ctx context.Context, who Owner, p Path, c *Content, mimeType string, cond Condition) (Change, error) {
	return d.one(ctx, who, Op{Verb: VerbPut, Path: p, Content: c, MimeType: mimeType, If: cond})
}

// PutText writes one file of text. The claim may be zero.
func (d *Drives) PutText(ctx context.Context, who Owner, claim Claim, p Path, text, mimeType string) (Change, error) {
	r, err := d.Apply(ctx, who, claim, []Op{{Verb: VerbPut, Path: p, Content: BytesContent([]byte(text)), MimeType: mimeType}})
	if err != nil {
		return Change{}, unindexed(err)
	}
	return r.Changes[0], nil
}

// Delete removes one file. If it does not exist the change is [Unchanged].
func (d *Drives) Delete(ctx context.Context, who Owner, p Path, cond Condition) (Change, error) {
	return d.one(ctx, who, Op{Verb: VerbDelete, Path: p, If: cond})
}

// DeleteFolder removes all files below a folder (see [ParseFolder]) or none.
func (d *Drives) DeleteFolder(ctx context.Context, who Owner, folder string) (Change, error) {
	return d.one(ctx, who, Op{Verb: VerbDelete, folder: folder})
}

func (d *Drives) one(ctx context.Context, who Owner, op Op) (Change, error) {
	r, err := d.Apply(ctx, who, Claim{}, []Op{op})
	if err != nil {
		return Change{}, unindexed(err)
	}
	return r.Changes[0], nil
}

// An OpError is the error of one op of several.
type OpError struct {
	Index int
	Err   error
}

// Error returns the op's index and its error.
func (e *OpError) Error() string { return fmt.Sprintf("operation %d: %v", e.Index, e.Err) }

// Unwrap returns the error of the op.
func (e *OpError) Unwrap() error { return e.Err }

// unindexed returns the error without the number of the op, because a single op has no index that
// the caller knows.
func unindexed(err error) error {
	if e, ok := err.(*OpError); ok {
		return e.Err
	}
	return err
}

// Apply performs the ops in order, all or none. Each op sees the effects of the previous
// ones. The error of an op is an [OpError].
//
// See docs/decisions/0017-commit-a-creation-with-its-stored-reply.md. A version's number is the
// drive's revision after the write, because numbers per path would start again when history was
// pruned and a file is created again. If writers to one drive wait for each other noticeably, the
// lock has to become finer than a drive.
func (d *Drives) Apply(ctx context.Context, who Owner, claim Claim, ops []Op) (Result, error) {
	if len(ops) > d.limits.MaxBatch {
		return Result{}, stoa.Errorf(stoa.CodeInvalidValue, "A batch can have at most %d operations, and this one has %d.", d.limits.MaxBatch, len(ops)).At("operations")
	}
	for i, op := range ops {
		if op.Content != nil && op.Content.size > d.limits.MaxFileBytes {
			return Result{}, &OpError{i, stoa.Errorf(stoa.CodeTooLarge, "The file is larger than %s, the limit of one file.", stoa.Size(d.limits.MaxFileBytes)).At("content")}
		}
	}
	uploads, err := d.upload(ctx, who, ops)
	if err != nil {
		d.discard(ctx, uploads)
		return Result{}, err
	}
	var out Result
	readings, err := d.readTexts(ctx, who, ops)
	if err != nil {
		d.discard(ctx, uploads)
		return Result{}, err
	}
	var unused map[string]upload
	waits := false
	err = d.db.Write(ctx, func(tx *db.Tx) error {
		out, unused = Result{}, maps.Clone(uploads)
		row, err := lockDrive(ctx, tx, who)
		if err != nil {
			return err
		}
		w := &writer{d: d, ctx: ctx, tx: tx, who: who, drive: row, now: db.Micros(tx.Now), grows: d.growth(ops), uploads: unused, readings: maps.Clone(readings)}
		if claim.Ref != "" {
			replayed, err := w.replay(claim, &out)
			if err != nil || replayed {
				return err
			}
		}
		for i, op := range ops {
			change, err := w.apply(op)
			if err != nil {
				return &OpError{i, err}
			}
			out.Changes = append(out.Changes, change)
		}
		out.Revision, waits = w.drive.revision, w.unread
		if err := w.finish(); err != nil {
			return err
		}
		if claim.Ref != "" {
			return w.claim(claim, out)
		}
		return nil
	})
	if err != nil {
		d.discard(ctx, uploads)
		return Result{}, err
	}
	d.discard(ctx, unused)
	if waits {
		d.wakeTexts()
	}
	return out, nil
}

// A writer is one transaction on one drive, whose row it has locked.
type writer struct {
	d       *Drives
	ctx     context.Context
	tx      *db.Tx
	who     Owner
	drive   driveRow
	others  *otherDrives // sums over the account; nil until read
	grows   int64        // maximum number of bytes by which the drive grows
	now     int64
	changed bool
	uploads map[string]upload // uploads without a reference yet, by the hash of their content
	unread  bool              // a text waits to be read

	readings map[string]reading // texts that were read before the transaction, by the hash of their content

	reserved bool // other writes of the account wait for this one, or stay far from the limit
}

func (w *writer) apply(op Op) (Change, error) {
	if op.folder != "" {
		return w.deleteFolder(op.folder)
	}
	cur, err := w.file(op.Path)
	if err != nil {
		return Change{}, err
	}
	if err := op.If.check(op.Path, cur); err != nil {
		return Change{}, err
	}
	var change Change
	switch op.Verb {
	case VerbPut:
		change, err = w.put(op, cur)
	case VerbDelete:
		change, err = w.delete(cur)
	case VerbMove:
		change, err = w.move(op, cur)
	case VerbRestore:
		change, err = w.restore(op, cur)
	default:
		err = fmt.Errorf("unknown verb %q", op.Verb)
	}
	change.Path = op.Path.text
	return change, err
}

func (w *writer) file(p Path) (*File, error) { return fileAt(w.ctx, w.tx, w.drive.id, p.text) }

func fileAt(ctx context.Context, tx *db.Tx, driveID int64, path string) (*File, error) {
	var out *File
	err := tx.Query(ctx, func(rows *sql.Rows) error {
		f, err := scanFile(rows.Scan)
		out = &f
		return err
	}, `SELECT `+fileColumns+` FROM `+fileTables+` WHERE f.drive_id = $1 AND f.path = $2`, driveID, path)
	return out, err
}

// put writes content to a path. The same content and media type as before change nothing and add no
// version, so that repeated synchronizations do not displace the history.
func (w *writer) put(op Op, cur *File) (Change, error) {
	c := op.Content
	mimeType := op.MimeType
	if mimeType == "" {
		mimeType = guess(op.Path, c)
	}
	read, isRead := w.readings[c.sha256]
	unchanged := cur != nil && cur.SHA256 == c.sha256 && cur.MimeType == mimeType
	if unchanged && !isRead {
		return Change{Outcome: Unchanged, File: cur}, nil
	}
	blob, err := w.keep(c)
	if err != nil {
		return Change{}, err
	}
	if isRead {
		delete(w.readings, c.sha256)
		if err := w.settle(blob, read); err != nil {
			return Change{}, err
		}
		blob.added = false // so that textOf reads the stored text
		if cur, err = w.file(op.Path); err != nil || unchanged {
			return Change{Outcome: Unchanged, File: cur}, err
		}
	}
	text, err := w.textOf(op.Path.text, mimeType, blob, func() ([]byte, error) { return c.Head(), nil })
	if err != nil {
		return Change{}, err
	}
	e := entry{blob: blob, sha256: c.sha256, size: c.size, mime: mimeType, text: text}
	if text.blob == blob.id {
		e.open = c.reader
	}
	return w.storeEntry(op.Path, cur, e)
}

type entry struct {
	id        string // id of the file; empty means that of the replaced file, or a new one
	blob      blobRow
	sha256    string
	size      int64
	mime      string
	text      fileText
	createdAt int64            // microseconds since 1970; 0 means that of the replaced file, or now
	open      func() io.Reader // opens the text; nil reads what is stored
}

// storeEntry stores an entry at a path that currently contains cur (nil for no file). It checks the
// rules of paths and the quotas, moves cur to the history and updates the index.
func (w *writer) storeEntry(p Path, cur *File, e entry) (Change, error) {
	w.grows += e.text.size
	if err := w.charge(p, cur, e.size+e.text.size); err != nil {
		return Change{}, err
	}
	w.bump()
	f := w.newFile(p, cur, e)
	change := Change{Outcome: Created, File: &f}
	indexed := false // the index already contains this text
	var err error
	if cur == nil {
		_, err = w.tx.Get(w.ctx, `INSERT INTO drive_files (drive_id, path, id, version, blob_id, sha256, size, mime, is_text, lines, text_blob_id, text_size, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) RETURNING rid`,
			[]any{w.drive.id, f.Path, f.ID, f.Version, f.blob, f.SHA256, f.Size, f.MimeType, db.Bit(f.Text), f.Lines, f.textBlob, f.textSize, db.Micros(f.CreatedAt), w.now}, &f.rid)
	} else {
		change.Outcome = Replaced
		indexed = cur.textBlob == f.textBlob
		err = w.replace(cur, f, indexed)
	}
	if err != nil {
		return Change{}, err
	}
	_, err = w.tx.Exec(w.ctx, `INSERT INTO drive_versions (drive_id, number, path, blob_id, sha256, size, mime, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, w.drive.id, f.Version, f.Path, f.blob, f.SHA256, f.Size, f.MimeType, w.now)
	if err != nil {
		return Change{}, err
	}
	if err := w.refer(f.blob, 1); err != nil {
		return Change{}, err
	}
	if err := w.referText(f.blob, 0, f.textBlob); err != nil {
		return Change{}, err
	}
	if f.Text && !indexed {
		if e.open == nil {
			e.open = w.textOpener(f)
		}
		err = w.index(f, e.open())
	}
	return change, err
}

// charge counts size bytes at a path against the quotas, instead of cur. A new path must also
// be free and within the limits of paths.
func (w *writer) charge(p Path, cur *File, size int64) error {
	limits := w.d.limits
	if cur == nil {
		if err := limits.allow(p); err != nil {
			return err
		}
		if err := w.free(p); err != nil {
			return err
		}
		w.drive.files++
		w.drive.bytes += size
	} else {
		w.drive.bytes += size - cur.Size - cur.textSize
	}
	if w.drive.files > limits.MaxFiles {
		return stoa.Errorf(stoa.CodeStorageFull, "The drive has %d files, which is the maximum. Delete some first.", limits.MaxFiles)
	}
	// A file that shrinks may be written even to a drive above its limit, since that helps.
	if cur != nil && size <= cur.Size+cur.textSize {
		return nil
	}
	return w.checkBytes()
}

func (w *writer) checkBytes() error {
	limits := w.d.limits
	if w.drive.bytes > limits.MaxBytes {
		return stoa.Errorf(stoa.CodeStorageFull, "The drive would exceed its limit of %s, with the texts of its documents. Delete some files first.", stoa.Size(limits.MaxBytes))
	}
	others, err := w.reserve()
	if err == nil && others.bytes+w.drive.bytes > limits.MaxAccountBytes {
		err = stoa.Errorf(stoa.CodeStorageFull, "The drives of this account would exceed their limit of %s. Delete some files first.", stoa.Size(limits.MaxAccountBytes))
	}
	return err
}

func (w *writer) newFile(p Path, cur *File, e entry) File {
	f := File{
		ID: e.id, Path: p.text, Size: e.size, MimeType: e.mime, SHA256: e.sha256,
		Version: w.drive.revision, CreatedAt: w.tx.Now, UpdatedAt: w.tx.Now, blob: e.blob.id,
	}
	f.setText(e.text)
	if e.createdAt != 0 {
		f.CreatedAt = db.Time(e.createdAt)
	}
	if cur != nil {
		f.rid = cur.rid
	}
	switch {
	case f.ID != "":
	case cur != nil:
		f.ID, f.CreatedAt = cur.ID, cur.CreatedAt
	default:
		f.ID = stoa.NewID("fil")
	}
	return f
}

// replace moves cur to the history and stores f in the same row. indexed means that the index
// of cur's text stays.
func (w *writer) replace(cur *File, f File, indexed bool) error {
	if err := w.retire(cur); err != nil {
		return err
	}
	if cur.Text && !indexed {
		if err := w.unindex(cur.rid); err != nil {
			return err
		}
	}
	if err := w.referText(cur.blob, cur.textBlob, 0); err != nil {
		return err
	}
	_, err := w.tx.Exec(w.ctx, `UPDATE drive_files SET id = $1, version = $2, blob_id = $3, sha256 = $4, size = $5, mime = $6,
		is_text = $7, lines = $8, text_blob_id = $9, text_size = $10, created_at = $11, updated_at = $12 WHERE drive_id = $13 AND rid = $14`,
		f.ID, f.Version, f.blob, f.SHA256, f.Size, f.MimeType, db.Bit(f.Text), f.Lines, f.textBlob, f.textSize,
		db.Micros(f.CreatedAt), w.now, w.drive.id, f.rid)
	return err
}

// free checks that a new file would neither have the path of a folder nor be below a file, since a
// file system could not contain both.
func (w *writer) free(p Path) error {
	var below string
	found, err := w.tx.Get(w.ctx, `SELECT path FROM drive_files WHERE drive_id = $1 AND path >= $2 AND path < $3 ORDER BY path LIMIT 1`,
		[]any{w.drive.id, p.text + "/", p.text + "0"}, &below) // 0 is the character after the slash
	if err != nil {
		return err
	}
	if found {
		return stoa.Errorf(stoa.CodePathConflict, "%q is a folder, which contains %q. A file cannot also be a folder.", p.text, below).At("path")
	}
	for i := range len(p.text) {
		if p.text[i] != '/' {
			continue
		}
		folder := p.text[:i]
		var there string
		found, err := w.tx.Get(w.ctx, `SELECT path FROM drive_files WHERE drive_id = $1 AND path = $2`, []any{w.drive.id, folder}, &there)
		if err != nil {
			return err
		}
		if found {
			return stoa.Errorf(stoa.CodePathConflict, "%q is a file, so nothing can be below it. A file cannot also be a folder.", there).At("path")
		}
	}
	return nil
}

func (w *writer) delete(cur *File) (Change, error) {
	if cur == nil {
		return Change{Outcome: Unchanged}, nil
	}
	if err := w.remove(cur); err != nil {
		return Change{}, err
	}
	return Change{Outcome: Deleted, Count: 1}, nil
}

// remove deletes a file and moves it to the history, so that the delete can be undone.
func (w *writer) remove(cur *File) error {
	w.bump()
	w.drive.files--
	w.drive.bytes -= cur.Size + cur.textSize
	if err := w.referText(cur.blob, cur.textBlob, 0); err != nil {
		return err
	}
	if cur.Text {
		if err := w.unindex(cur.rid); err != nil {
			return err
		}
	}
	if _, err := w.tx.Exec(w.ctx, `DELETE FROM drive_files WHERE drive_id = $1 AND rid = $2`, w.drive.id, cur.rid); err != nil {
		return err
	}
	return w.retire(cur)
}

// deleteFolder deletes all files below a folder in one transaction. It reads 500 at a time, so that
// memory stays bounded. A folder without files is Unchanged.
func (w *writer) deleteFolder(folder string) (Change, error) {
	end, _ := after(folder)
	out := Change{Outcome: Unchanged, Path: folder}
	for {
		var some []File
		err := w.tx.Query(w.ctx, func(rows *sql.Rows) error {
			f, err := scanFile(rows.Scan)
			some = append(some, f)
			return err
		}, `SELECT `+fileColumns+` FROM `+fileTables+` WHERE f.drive_id = $1 AND f.path >= $2 AND f.path < $3 ORDER BY f.path LIMIT 500`, w.drive.id, folder, end)
		if err != nil || len(some) == 0 {
			return out, err
		}
		for i := range some {
			if err := w.remove(&some[i]); err != nil {
				return out, err
			}
			out.Outcome = Deleted
			out.Count++
		}
	}
}

// move moves a file, which keeps its id. It copies no content. An existing target is CodeConflict
// unless the op overwrites it.
func (w *writer) move(op Op, cur *File) (Change, error) {
	if cur == nil {
		return Change{}, stoa.AsError(notFound(op.Path)).At("from")
	}
	if op.To == op.Path {
		return Change{Outcome: Unchanged, File: cur}, nil
	}
	there, err := w.file(op.To)
	if err != nil {
		return Change{}, err
	}
	if there != nil && !op.Overwrite {
		return Change{}, stoa.Errorf(stoa.CodeConflict, "The file %q already exists. Set overwrite to replace it.", op.To.text).At("to")
	}
	blob, err := w.blob(cur.blob)
	if err != nil {
		return Change{}, err
	}
	if err := w.remove(cur); err != nil {
		return Change{}, err
	}
	text, err := w.textOf(op.To.text, cur.MimeType, blob, w.head(blob))
	if err != nil {
		return Change{}, err
	}
	change, err := w.storeEntry(op.To, there, entry{
		id: cur.ID, blob: blob, sha256: cur.SHA256, size: cur.Size, mime: cur.MimeType, text: text, createdAt: db.Micros(cur.CreatedAt),
	})
	if err != nil {
		if e := stoa.AsError(err); e.Param == "path" {
			return Change{}, e.At("to")
		}
		return Change{}, err
	}
	change.Outcome = Moved
	return change, nil
}

// restore writes an earlier version's content to its path. A version that is no longer stored
// is CodeVersionNotFound.
func (w *writer) restore(op Op, cur *File) (Change, error) {
	s := entry{}
	var blobID int64
	found, err := w.tx.Get(w.ctx, `SELECT blob_id, sha256, size, mime FROM drive_versions WHERE drive_id = $1 AND path = $2 AND number = $3`,
		[]any{w.drive.id, op.Path.text, op.Version}, &blobID, &s.sha256, &s.size, &s.mime)
	if err != nil {
		return Change{}, err
	}
	if !found {
		return Change{}, stoa.Errorf(stoa.CodeVersionNotFound, "There is no version %d of %q, or it is no longer kept.", op.Version, op.Path.text).At("version")
	}
	if cur != nil && cur.SHA256 == s.sha256 && cur.MimeType == s.mime {
		return Change{Outcome: Unchanged, File: cur}, nil
	}
	if s.blob, err = w.blob(blobID); err != nil {
		return Change{}, err
	}
	if s.text, err = w.textOf(op.Path.text, s.mime, s.blob, w.head(s.blob)); err != nil {
		return Change{}, err
	}
	return w.storeEntry(op.Path, cur, s)
}

func (w *writer) bump() {
	w.drive.revision++
	w.changed = true
}

// finish writes the drive's counters and removes history beyond its limits.
func (w *writer) finish() error {
	if !w.changed {
		return nil
	}
	if err := w.prune(); err != nil {
		return err
	}
	_, err := w.tx.Exec(w.ctx, `UPDATE drive_drives SET revision = $1, files = $2, bytes = $3, old_files = $4, old_bytes = $5, updated_at = $6
		WHERE id = $7`, w.drive.revision, w.drive.files, w.drive.bytes, w.drive.oldFiles, w.drive.oldBytes, w.now, w.drive.id)
	return err
}

// storedResult is the stored form of a [Result].
type storedResult struct {
	Revision int64          `json:"revision"`
	Changes  []storedChange `json:"changes"`
}

// storedChange is a [Change] in a stored result. Its member names must not change, because stored
// results of earlier versions contain them.
type storedChange struct {
	Outcome Outcome     `json:"outcome"`
	Path    string      `json:"path"`
	Count   int64       `json:"count,omitzero"`
	File    *storedFile `json:"file,omitzero"`
}

// storedFile is a [File] in a stored result, see [storedChange].
type storedFile struct {
	ID        string    `json:"id"`
	Path      string    `json:"path"`
	Size      int64     `json:"size"`
	MimeType  string    `json:"mimeType"`
	SHA256    string    `json:"sha256"`
	Text      bool      `json:"text"`
	Lines     int64     `json:"lines"`
	Version   int64     `json:"version"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`

	TextStatus   extract.Status `json:"textStatus,omitzero"`
	TextNote     string         `json:"textNote,omitzero"`
	TextEncoding string         `json:"textEncoding,omitzero"`
	Pages        int64          `json:"pages,omitzero"`
}

func encodeResult(r Result) (string, error) {
	s := storedResult{Revision: r.Revision}
	for _, c := range r.Changes {
		sc := storedChange{Outcome: c.Outcome, Path: c.Path, Count: c.Count}
		if f := c.File; f != nil {
			sc.File = &storedFile{
				f.ID, f.Path, f.Size, f.MimeType, f.SHA256, f.Text, f.Lines, f.Version, f.CreatedAt, f.UpdatedAt,
				f.TextStatus, f.TextNote, f.TextEncoding, f.Pages,
			}
		}
		s.Changes = append(s.Changes, sc)
	}
	b, err := jsonx.Marshal(s)
	return string(b), err
}

func decodeResult(text string, into *Result) error {
	var s storedResult
	if err := jsonx.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("read the result of an earlier write: %w", err)
	}
	*into = Result{Revision: s.Revision}
	for _, sc := range s.Changes {
		c := Change{Outcome: sc.Outcome, Path: sc.Path, Count: sc.Count}
		if f := sc.File; f != nil {
			c.File = &File{
				ID: f.ID, Path: f.Path, Size: f.Size, MimeType: f.MimeType, SHA256: f.SHA256, Text: f.Text,
				Lines: f.Lines, Version: f.Version, CreatedAt: f.CreatedAt, UpdatedAt: f.UpdatedAt,
				TextStatus: f.TextStatus, TextNote: f.TextNote, TextEncoding: f.TextEncoding, Pages: f.Pages,
			}
			if c.File.TextStatus == "" { // stored by an earlier version
				c.File.TextStatus = extract.None
				if f.Text {
					c.File.TextStatus = extract.Ready
				}
			}
		}
		into.Changes = append(into.Changes, c)
	}
	return nil
}
