package listen

import (
	"bytes"
	"errors"
)

// errFraming ends a connection whose request has a header line that servers read
// differently. Net/http answers 400 to an error of a read that is not of the network.
var errFraming = errors.New("listen: a header line ends without CR LF, or goes on in the next one")

// A framing follows the requests of a connection, to find header lines that end with
// a bare line feed or are folded. Net/http takes both; a proxy in front that does not
// would see other requests than we do. Bodies are skipped by their Content-Length.
// After anything that net/http refuses itself, or whose connection it closes
// (Transfer-Encoding), nothing is looked at any more.
type framing struct {
	err   error
	off   bool
	lines int   // of the header under way that are complete
	body  int64 // bytes left of a body
	next  int64 // bytes of the body that follows this header

	line [48]byte // the beginning of a line that came in several parts
	n    int      // bytes of that line so far
	cr   bool     // the last of them is CR
}

// check looks at the bytes that were read and returns how many of them may be used;
// less than all sets err.
func (f *framing) check(b []byte) int {
	for at := 0; at < len(b) && !f.off; {
		rest := b[at:]
		if f.body > 0 {
			n := min(f.body, int64(len(rest)))
			f.body -= n
			at += int(n)
			continue
		}
		if f.n == 0 && f.lines > 0 && (rest[0] == ' ' || rest[0] == '\t') {
			return f.stop(b, at)
		}
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			f.keep(rest)
			return len(b)
		}
		line := rest[:end]
		if f.n > 0 {
			f.keep(line)
			if line = f.line[:min(f.n, len(f.line))]; !f.cr {
				return f.stop(b, at+end)
			}
		} else if end == 0 || line[end-1] != '\r' {
			return f.stop(b, at+end)
		}
		if !f.take(line, max(f.n, len(line))) {
			return f.stop(b, at)
		}
		f.n, at = 0, at+end+1
	}
	return len(b)
}

// stop ends the connection before the byte at that place. A single byte at the
// beginning of a request is let through: it may be read while the last request is
// still being served, and net/http refuses it by itself.
func (f *framing) stop(b []byte, at int) int {
	f.err, f.off = errFraming, true
	if len(b) == 1 && f.lines == 0 && f.n == 0 {
		return 1
	}
	return at
}

// keep adds a part of a line.
func (f *framing) keep(part []byte) {
	if f.n < len(f.line) {
		copy(f.line[f.n:], part)
	}
	if f.n += len(part); len(part) > 0 {
		f.cr = part[len(part)-1] == '\r'
	}
}

// take reads a complete line of a header, n bytes with its CR; of a long one only the
// beginning may be there. It reports whether the line may be used.
func (f *framing) take(line []byte, n int) bool {
	if n == 1 { // the header ends
		f.lines, f.body, f.next = 0, f.next, 0
		return true
	}
	f.lines++
	switch line[0] | 0x20 {
	case 'c':
		value, found := valueOf(line, "content-length:")
		if !found {
			break
		}
		if n > len(f.line) {
			return false
		}
		length, ok := number(bytes.TrimSpace(value))
		f.off = !ok || f.next > 0 && f.next != length
		f.next = length
	case 't':
		if _, found := valueOf(line, "transfer-encoding:"); found {
			f.off = true
		}
	}
	return true
}

// valueOf returns the value of a header line whose name, in small letters with its
// colon, is name.
func valueOf(line []byte, name string) ([]byte, bool) {
	if len(line) < len(name) || !bytes.EqualFold(line[:len(name)], []byte(name)) {
		return nil, false
	}
	return line[len(name):], true
}

// number reads up to 18 decimal digits.
func number(digits []byte) (n int64, ok bool) {
	for _, c := range digits {
		if c < '0' || c > '9' || len(digits) > 18 {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, len(digits) > 0
}
