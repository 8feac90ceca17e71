package drive_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"stoa/internal/agents/drive"
	"stoa/internal/base/config"
	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// A bucket is a server that implements S3, with one bucket.
type bucket struct {
	*drive.Bucket
	objects *s3mem.Backend
	refuse  atomic.Bool
	breaks  atomic.Bool
	stored  func() // called when an object has been stored; may be nil
}

const bucketName = "stoa-files"

func newBucket(t *testing.T, keep time.Duration) *bucket {
	t.Helper()
	b := &bucket{objects: s3mem.New()}
	if err := b.objects.CreateBucket(bucketName); err != nil {
		t.Fatal(err)
	}
	s3 := gofakes3.New(b.objects).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.breaks.CompareAndSwap(true, false) { // once: the request is repeated
			panic(http.ErrAbortHandler)
		}
		if b.refuse.Load() {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s3.ServeHTTP(w, r)
		if r.Method == http.MethodPut && b.stored != nil {
			b.stored()
		}
	}))
	t.Cleanup(server.Close)
	var err error
	b.Bucket, err = drive.NewBucket(config.S3{
		Endpoint: server.URL, Bucket: bucketName, Region: "us-east-1", Prefix: "stoa/", AccessKey: "key", SecretKey: "secret", Keep: keep,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// names returns the names of the objects.
func (b *bucket) names(t *testing.T) (names []string) {
	t.Helper()
	list, err := b.objects.ListBucket(bucketName, nil, gofakes3.ListBucketPage{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Contents {
		names = append(names, o.Key)
	}
	return names
}

// image returns n bytes that are not text.
func image(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(b)
	b[0] = 0
	return b
}

func putBytes(t *testing.T, d *drive.Drives, p string, content []byte) error {
	t.Helper()
	_, err := d.Put(t.Context(), who, path(t, p), drive.BytesContent(content), "", drive.Condition{})
	return err
}

// number returns the number that a query of the drives' database selects.
func number(t *testing.T, d *drive.Drives, query string) (n int) {
	t.Helper()
	if err := d.DB().Read(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Get(t.Context(), query, nil, &n)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

func sweep(t *testing.T, d *drive.Drives) error {
	t.Helper()
	return d.Sweep(t.Context(), func(_ context.Context, owners []drive.Owner) ([]bool, error) {
		there := make([]bool, len(owners))
		for i := range there {
			there[i] = true
		}
		return there, nil
	})
}

const (
	objects = "SELECT COUNT(*) FROM drive_objects"
	pieces  = "SELECT COUNT(*) FROM drive_pieces"
)

func TestLargeFilesAreInTheBucket(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{Grace: time.Nanosecond, MaxVersions: 1}, func(t *testing.T, d *drive.Drives) {
		b := newBucket(t, time.Nanosecond)
		d.UseBucket(b.Bucket)
		if err := b.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		large := image(600_000)
		b.breaks.Store(true)
		sum := sha256.Sum256(large)
		for name, content := range map[string][]byte{"large.png": large, "small.png": image(64 << 10), "long.txt": bytes.Repeat([]byte("a word\n"), 60_000)} {
			if err := putBytes(t, d, name, content); err != nil {
				t.Fatal(err)
			}
			if got := read(t, d, name); got != string(content) {
				t.Errorf("%s is read as %d bytes", name, len(got))
			}
		}
		names := b.names(t)
		if len(names) != 1 || !strings.HasPrefix(names[0], "stoa/"+hex.EncodeToString(sum[:])+"-") {
			t.Errorf("the bucket has %q", names)
		}
		if n := number(t, d, pieces); n != 1+1+2 {
			t.Errorf("the database has %d pieces", n)
		}
		_, r, err := d.Open(t.Context(), who, path(t, "large.png"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Seek(300_000, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		part := make([]byte, 250_000)
		if _, err := io.ReadFull(r, part); err != nil || !bytes.Equal(part, large[300_000:550_000]) {
			t.Errorf("a part: %v", err)
		}
		// The same content is stored once, and moved without reading it.
		if err := putBytes(t, d, "again.png", large); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Apply(t.Context(), who, drive.Claim{}, []drive.Op{{Verb: drive.VerbMove, Path: path(t, "again.png"), To: path(t, "moved.png")}}); err != nil {
			t.Fatal(err)
		}
		if n := len(b.names(t)); n != 1 {
			t.Errorf("%d objects have the same content", n)
		}
		e, err := d.Export(t.Context(), who)
		if err != nil {
			t.Fatal(err)
		}
		var archive bytes.Buffer
		if err := e.WriteZip(t.Context(), &archive); err != nil {
			t.Fatal(err)
		}
		z, err := zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
		if err != nil || len(z.File) != 4 || z.File[0].Name != "large.png" || z.File[0].UncompressedSize64 != 600_000 {
			t.Errorf("the archive: %v, %v", z, err)
		}
		// It stays while a version refers to it, and is removed with the last reference.
		for _, name := range []string{"large.png", "moved.png"} {
			if _, err := d.Delete(t.Context(), who, path(t, name), drive.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := sweep(t, d); err != nil || len(b.names(t)) != 1 {
			t.Errorf("with versions: %v, %v", b.names(t), err)
		}
		if err := d.Remove(t.Context(), who); err != nil {
			t.Fatal(err)
		}
		if err := sweep(t, d); err != nil || len(b.names(t)) != 0 || number(t, d, objects) != 0 {
			t.Errorf("without: %v, %v, %d rows", b.names(t), err, number(t, d, objects))
		}
	})
}

func TestBrokenBucketFailsOnlyItsFiles(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{Grace: time.Nanosecond}, func(t *testing.T, d *drive.Drives) {
		b := newBucket(t, time.Nanosecond)
		d.UseBucket(b.Bucket)
		large := image(300_000)
		if err := putBytes(t, d, "large.png", large); err != nil {
			t.Fatal(err)
		}
		put(t, d, "a.txt", "some words")
		b.refuse.Store(true)
		retried := func(what string, err error) {
			t.Helper()
			if e := stoa.AsError(err); stoa.CodeOf(err) != stoa.CodeOverloaded || e.RetryAfter == 0 {
				t.Errorf("%s: %v", what, err)
			}
		}
		retried("a write", putBytes(t, d, "other.png", image(200_000)))
		_, r, err := d.Open(t.Context(), who, path(t, "large.png"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(r)
		retried("a read", err)
		if _, err := d.Get(t.Context(), who, path(t, "other.png")); stoa.CodeOf(err) != stoa.CodeFileNotFound {
			t.Errorf("a write that failed: %v", err)
		}
		put(t, d, "a.txt", "other words")
		if hits, err := searchDrive(d, t.Context(), who, "other", "", 0); err != nil || len(hits) != 1 || read(t, d, "a.txt") != "other words" {
			t.Errorf("%v, %v", hits, err)
		}
		if err := sweep(t, d); err == nil {
			t.Error("the sweep of the bucket says nothing")
		}
		b.refuse.Store(false)
		if got := read(t, d, "large.png"); got != string(large) {
			t.Error("the file is not read again")
		}
		if err := sweep(t, d); err != nil || number(t, d, objects) != 1 || len(b.names(t)) != 1 {
			t.Errorf("a write that failed left %d rows, %v, %v", number(t, d, objects), b.names(t), err)
		}
		d.UseBucket(nil)
		_, r, err = d.Open(t.Context(), who, path(t, "large.png"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Read(make([]byte, 1))
		retried("without the setting", err)
	})
}

func TestChangedObjectIsNotServed(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		b := newBucket(t, time.Hour)
		d.UseBucket(b.Bucket)
		large := image(600_000)
		if err := putBytes(t, d, "large.png", large); err != nil {
			t.Fatal(err)
		}
		changed := bytes.Clone(large)
		changed[400_000] ^= 1
		if _, err := b.objects.PutObject(bucketName, b.names(t)[0], map[string]string{}, bytes.NewReader(changed), int64(len(changed)), nil); err != nil {
			t.Fatal(err)
		}
		_, r, err := d.Open(t.Context(), who, path(t, "large.png"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if stoa.CodeOf(err) != stoa.CodeOverloaded || !bytes.Equal(got, large[:256<<10]) {
			t.Errorf("%d bytes are served, then %v", len(got), err)
		}
	})
}

// A write whose upload is removed in the meantime fails; it never refers to an object that
// does not exist.
func TestSweepAndWriteAgreeOnAnObject(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		for _, keep := range []time.Duration{time.Nanosecond, time.Hour} {
			b := newBucket(t, keep)
			d.UseBucket(b.Bucket)
			b.stored = func() { // after the upload, before the row
				b.stored = nil
				if err := sweep(t, d); err != nil {
					t.Error(err)
				}
			}
			large := image(300_000)
			err := putBytes(t, d, "large.png", large)
			if keep == time.Hour {
				if err != nil || read(t, d, "large.png") != string(large) {
					t.Errorf("an upload of now was removed: %v", err)
				}
				continue
			}
			if stoa.CodeOf(err) != stoa.CodeOverloaded || len(b.names(t)) != 0 || number(t, d, "SELECT COUNT(*) FROM drive_blobs") != 0 {
				t.Errorf("the write refers to what is gone: %v, %v", err, b.names(t))
			}
		}
	})
}

func TestRefusedWriteLeavesNoObject(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{MaxBytes: 500_000, MaxFileBytes: 1 << 20, MaxAccountBytes: 500_000}, func(t *testing.T, d *drive.Drives) {
		b := newBucket(t, 24*time.Hour)
		d.UseBucket(b.Bucket)
		wantCode(t, putBytes(t, d, "large.png", image(600_000)), stoa.CodeStorageFull)
		if len(b.names(t)) != 0 || number(t, d, objects) != 0 {
			t.Errorf("it left %v", b.names(t))
		}
		// The part above an account's limit is removed early.
		if err := d.DB().Write(t.Context(), func(tx *db.Tx) error {
			for key, o := range map[string]struct {
				account string
				age     time.Duration
			}{"a": {"acc_1", 2 * time.Hour}, "b": {"acc_1", time.Minute}, "c": {"acc_2", 2 * time.Hour}} {
				if _, err := tx.Exec(t.Context(), `INSERT INTO drive_objects (key, account_id, size, blob_id, since) VALUES ($1, $2, 300000, 0, $3)`,
					key, o.account, db.Micros(tx.Now.Add(-o.age))); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := sweep(t, d); err != nil || number(t, d, objects) != 2 || number(t, d, objects+" WHERE key = 'a'") != 0 {
			t.Errorf("%v, %d rows are left", err, number(t, d, objects))
		}
	})
}
