package drive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"syscall"
	"unicode/utf8"

	"stoa/internal/base/extract"
	"stoa/internal/base/stoa"
)

// inMemory is the maximum size in bytes of an upload that is kept in memory, so that many large
// uploads do not exhaust it. A larger one is written to an unnamed temporary file.
const inMemory = 1 << 20

// Content is the content of a file to write: read completely, counted and hashed. It can be read
// again, because a transaction may be repeated. Its creator must close it.
type Content struct {
	size   int64
	sha256 string
	utf8   bool // valid UTF-8 without NUL, so it can be text
	mem    []byte
	file   *os.File
}

// BytesContent returns content in memory. It does not copy the bytes, so they must not change.
func BytesContent(b []byte) *Content {
	sum := sha256.Sum256(b)
	return &Content{
		size: int64(len(b)), sha256: hex.EncodeToString(sum[:]), mem: b,
		utf8: utf8.Valid(b) && bytes.IndexByte(b, 0) < 0,
	}
}

// Stage reads an upload to its end while counting, hashing and checking it, with at most
// [inMemory] bytes in memory. Content above the limit of a file is [stoa.CodeTooLarge].
func (d *Drives) Stage(r io.Reader) (*Content, error) {
	in := &intake{limit: d.limits.MaxFileBytes, dir: d.tempDir, hash: sha256.New(), valid: true, content: &Content{}}
	buf := make([]byte, 32<<10)
	_, err := io.CopyBuffer(struct{ io.Writer }{in}, struct{ io.Reader }{r}, buf)
	if err != nil {
		in.content.Close()
		if _, ok := errors.AsType[*stoa.Error](err); ok {
			return nil, err
		}
		return nil, fmt.Errorf("read the upload: %w", err)
	}
	in.content.sha256 = hex.EncodeToString(in.hash.Sum(nil))
	in.content.utf8 = in.valid && len(in.tail) == 0
	return in.content, nil
}

type intake struct {
	content *Content
	limit   int64
	dir     string
	hash    hash.Hash
	valid   bool
	tail    []byte // an incomplete character at the end of the last write
}

// Write appends bytes to the content. Content above the limit of one file is CodeTooLarge; a full
// disk is CodeStorageFull.
func (in *intake) Write(p []byte) (int, error) {
	c := in.content
	if c.size+int64(len(p)) > in.limit {
		return 0, stoa.Errorf(stoa.CodeTooLarge, "The file is larger than %s, the limit of one file.", stoa.Size(in.limit))
	}
	c.size += int64(len(p))
	in.hash.Write(p)
	in.check(p)
	if c.file == nil && len(c.mem)+len(p) > inMemory {
		f, err := os.CreateTemp(in.dir, "upload-*")
		if err != nil {
			return 0, spoolError(err)
		}
		os.Remove(f.Name()) // the open file stays readable, and a crash leaves nothing behind
		c.file = f
		if _, err := f.Write(c.mem); err != nil {
			return 0, spoolError(err)
		}
		c.mem = nil
	}
	if c.file == nil {
		c.mem = append(c.mem, p...)
		return len(p), nil
	}
	if _, err := c.file.Write(p); err != nil {
		return 0, spoolError(err)
	}
	return len(p), nil
}

// check tracks whether the text is valid UTF-8 across writes, since a write may end within a
// character.
func (in *intake) check(p []byte) {
	if !in.valid {
		return
	}
	if bytes.IndexByte(p, 0) >= 0 {
		in.valid = false
		return
	}
	for len(in.tail) > 0 && len(p) > 0 {
		in.tail = append(in.tail, p[0])
		p = p[1:]
		if utf8.FullRune(in.tail) {
			in.valid = utf8.Valid(in.tail)
			in.tail = in.tail[:0]
		}
	}
	cut := len(p)
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if c := p[len(p)-n]; utf8.RuneStart(c) {
			if !utf8.FullRune(p[len(p)-n:]) {
				cut = len(p) - n
			}
			break
		}
	}
	in.valid = in.valid && utf8.Valid(p[:cut])
	in.tail = append(in.tail, p[cut:]...)
}

func spoolError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return stoa.Errorf(stoa.CodeStorageFull, "The service has run out of storage. The operator has to free some.").Because(err)
	}
	return stoa.Errorf(stoa.CodeInternal, "The upload could not be stored. Try again.").Because(err)
}

// Size returns the number of bytes.
func (c *Content) Size() int64 { return c.size }

// SHA256 returns the hash of the bytes in lower-case hexadecimal.
func (c *Content) SHA256() string { return c.sha256 }

// Close releases the memory or the temporary file.
func (c *Content) Close() error {
	c.mem = nil
	if c.file != nil {
		return c.file.Close()
	}
	return nil
}

func (c *Content) reader() io.Reader {
	if c.file != nil {
		return io.NewSectionReader(c.file, 0, c.size)
	}
	return bytes.NewReader(c.mem)
}

// Head returns the first bytes, to guess the type.
func (c *Content) Head() []byte {
	b := make([]byte, min(extract.HeadBytes, c.size))
	n, _ := io.ReadFull(c.reader(), b)
	return b[:n]
}
