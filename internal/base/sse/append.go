package sse

import (
	"bytes"
	"strconv"
)

// AppendEvent appends one whole event: its type (omitted if empty), its data, a blank line. Data of several
// lines becomes several data lines. A CR in it, or any line end in the type, is dropped, because the format cannot
// represent it.
func AppendEvent[D ~string | ~[]byte](dst []byte, typ string, data D) []byte {
	dst = AppendHead(dst, typ)
	dst = appendLine(dst, data, false)
	return append(dst, '\n')
}

// AppendHead appends an event up to its data. The caller appends the data, which must be one line, such as JSON, and then
// calls [AppendEnd], so that a large event is written without a copy.
func AppendHead(dst []byte, typ string) []byte {
	if typ != "" {
		dst = append(dst, "event: "...)
		dst = appendLine(dst, typ, true)
	}
	return append(dst, "data: "...)
}

// AppendID appends the id of the event whose head follows, so that a client that reconnects can continue after it.
func AppendID(dst []byte, id int64) []byte {
	return append(strconv.AppendInt(append(dst, "id: "...), id, 10), '\n')
}

// AppendEnd ends the event that [AppendHead] began.
func AppendEnd(dst []byte) []byte { return append(dst, "\n\n"...) }

// AppendComment appends a comment and a blank line. Comments keep a connection without events open, because proxies close
// idle ones.
func AppendComment(dst []byte, text string) []byte {
	dst = append(dst, ": "...)
	dst = appendLine(dst, text, true)
	return append(dst, '\n')
}

// appendLine appends text and a line feed. Line breaks within the text begin another data line, or are dropped
// if single is set.
func appendLine[D ~string | ~[]byte](dst []byte, text D, single bool) []byte {
	from := len(dst)
	dst = append(dst, text...)
	if bytes.IndexByte(dst[from:], '\n') >= 0 || bytes.IndexByte(dst[from:], '\r') >= 0 {
		dst = dst[:from]
		for i := range len(text) {
			switch {
			case text[i] == '\r':
			case text[i] != '\n':
				dst = append(dst, text[i])
			case !single:
				dst = append(dst, "\ndata: "...)
			}
		}
	}
	return append(dst, '\n')
}
