package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

var errInterim = errors.New("http1: too many replies 1xx")

// readHeader reads the header of the reply that counts, which interim ones may precede.
// Of its Body only [http.NoBody] means something.
func readHeader(in *bufio.Reader, req *http.Request) (*http.Response, error) {
	for range maxInterim + 1 {
		if _, err := in.Peek(1); err != nil {
			return nil, err
		}
		came, _ := in.Peek(in.Buffered())
		if res, n := usualHeader(came); n > 0 {
			res.Request = req
			_, err := in.Discard(n)
			return res, err
		}
		res, err := http.ReadResponse(in, req)
		if err != nil || res.StatusCode == http.StatusSwitchingProtocols || res.StatusCode >= 200 {
			return res, err
		}
	}
	return nil, errInterim
}

// usualHeader reads a header that has come whole and in the form in which nearly all
// servers write theirs, as [http.ReadResponse] reads it to the POST that was sent, with
// a few allocations. It returns how many bytes that are; 0: it is for net/http.
func usualHeader(came []byte) (*http.Response, int) {
	const begin, end = "HTTP/1.1 ", "\r\n\r\n"
	n := bytes.Index(came, []byte(end)) + len(end)
	if n < len(begin)+len("200")+len(end) || string(came[:len(begin)]) != begin {
		return nil, 0
	}
	text := string(came[:n-len("\r\n")])
	line, rest, _ := strings.Cut(text, "\r\n")
	status := line[len(begin):]
	code, ok := statusOf(status)
	if !ok || !isValue(status) {
		return nil, 0
	}
	res := &http.Response{Status: status, StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1}
	res.Header = make(http.Header, 8)
	values := make([]string, 0, 12)
	for rest != "" {
		line, rest, _ = strings.Cut(rest, "\r\n")
		name, value, ok := field(line)
		if !ok || !take(res, name, value) {
			return nil, 0
		}
		if name == "Transfer-Encoding" {
			continue
		}
		if had := res.Header[name]; had != nil {
			res.Header[name] = append(had, value)
			continue
		}
		values = append(values, value)
		res.Header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	switch chunked := res.TransferEncoding != nil; {
	case chunked == (res.ContentLength >= 0): // both, or neither: what is the body?
		return nil, 0
	case res.ContentLength == 0:
		res.Body = http.NoBody
	}
	return res, n
}

// statusOf reads the status of a reply that has a body.
func statusOf(status string) (code int, ok bool) {
	if len(status) < 3 || len(status) > 3 && status[3] != ' ' || len(status) > 4 && status[4] == ' ' {
		return 0, false
	}
	for _, c := range []byte(status[:3]) {
		if c < '0' || c > '9' {
			return 0, false
		}
		code = 10*code + int(c-'0')
	}
	return code, code >= 200 && code != http.StatusNoContent && code != http.StatusNotModified
}

// maxName is how many bytes a name has that is read here. No vendor's has more.
const maxName = 40

// field reads a line of a header. The name is in its canonical form.
func field(line string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(line, ":")
	if !ok || len(name) > maxName || !httpguts.ValidHeaderFieldName(name) {
		return "", "", false
	}
	value = strings.Trim(value, " \t")
	return textproto.CanonicalMIMEHeaderKey(name), value, isValue(value)
}

// isValue reports whether a text has no bytes but printable ones of ASCII.
func isValue(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// take notes what a field says about the body. It reports whether that, and what it says
// about the connection, is usual.
func take(res *http.Response, name, value string) bool {
	switch name {
	case "Content-Length":
		n, err := strconv.ParseUint(value, 10, 48)
		if err != nil || res.ContentLength >= 0 {
			return false
		}
		res.ContentLength = int64(n)
	case "Transfer-Encoding":
		if value != "chunked" || res.TransferEncoding != nil {
			return false
		}
		res.TransferEncoding = chunkedEncoding
	case "Connection":
		return value == "keep-alive" || value == "Keep-Alive"
	case "Trailer", "Pragma":
		return false
	}
	return true
}

var chunkedEncoding = []string{"chunked"}

// readError says why no header came.
func readError(head *header, wrote, err error) error {
	switch {
	case err == errInterim:
		return err
	case head.left == 0:
		return errors.New("http1: the header of the reply is too large")
	case wrote != nil:
		return fmt.Errorf("http1: writing the request: %w", wrote)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("http1: the server closed the connection without a reply: %w", io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("http1: reading the reply: %w", err)
}
