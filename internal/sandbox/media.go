package sandbox

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"

	"stoa/internal/stoa"
)

// describe returns what an image or a file is: its type and its size.
func describe(kind stoa.PartKind, m *stoa.Media) string {
	what := "an image"
	if kind == stoa.PartFile {
		what = "a file"
	}
	if m.Name != "" {
		what += " “" + shorten(m.Name, 100) + "”"
	}
	if m.URL != "" {
		return what + " at " + shorten(m.URL, 200)
	}
	size := base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(m.Base64, "=")))
	what += " (" + m.Type
	if width, height := pixels(m); width > 0 {
		what += fmt.Sprintf(", %d × %d pixels", width, height)
	}
	return what + fmt.Sprintf(", %d bytes)", size)
}

// headBytes is as much of an image as is read, in base64: its size is at its beginning.
const headBytes = 256 << 10

// pixels returns the size of a picture; 0: not known.
func pixels(m *stoa.Media) (width, height int) {
	text := m.Base64[:min(len(m.Base64), headBytes)]
	b, _ := base64.StdEncoding.DecodeString(text[:len(text)/4*4])
	big, little := binary.BigEndian, binary.LittleEndian
	switch {
	case len(b) >= 24 && bytes.HasPrefix(b, []byte("\x89PNG")):
		return int(big.Uint32(b[16:])), int(big.Uint32(b[20:]))
	case len(b) >= 10 && bytes.HasPrefix(b, []byte("GIF8")):
		return int(little.Uint16(b[6:])), int(little.Uint16(b[8:]))
	case len(b) >= 30 && bytes.HasPrefix(b, []byte("RIFF")) && string(b[8:12]) == "WEBP":
		switch string(b[12:16]) {
		case "VP8X":
			return 1 + int(little.Uint32(b[24:])&0xffffff), 1 + int(little.Uint32(append(bytes.Clone(b[27:30]), 0)))
		case "VP8L":
			bits := little.Uint32(b[21:])
			return 1 + int(bits&0x3fff), 1 + int(bits>>14&0x3fff)
		}
		return int(little.Uint16(b[26:]) & 0x3fff), int(little.Uint16(b[28:]) & 0x3fff)
	case bytes.HasPrefix(b, []byte("\xff\xd8")):
		for i := 2; i+9 < len(b) && b[i] == 0xff; {
			marker := b[i+1]
			if marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc {
				return int(big.Uint16(b[i+7:])), int(big.Uint16(b[i+5:]))
			}
			i += 2 + int(big.Uint16(b[i+2:]))
		}
	}
	return 0, 0
}
