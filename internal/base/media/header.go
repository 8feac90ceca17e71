package media

import (
	"bytes"
	"encoding/binary"
)

// A size is the size of an image according to its header, in pixels.
type size struct{ width, height uint32 }

// HeadBytes is the number of bytes that [IsImage] needs.
const HeadBytes = 16

// IsImage reports whether a file has one of the supported image types, judging by its first
// bytes.
func IsImage(head []byte) bool {
	kind, _, _ := dimensions(head)
	return kind != ""
}

// dimensions returns the type of an image, judging by its first bytes (empty if unknown), and
// its size. ok is false for a header that ends early or contradicts itself.
func dimensions(data []byte) (kind string, s size, ok bool) {
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		s, ok = pngSize(data)
		return PNG, s, ok
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		s, ok = jpegSize(data)
		return JPEG, s, ok
	case bytes.HasPrefix(data, []byte("GIF87a")), bytes.HasPrefix(data, []byte("GIF89a")):
		if len(data) < 13 {
			return GIF, size{}, false
		}
		return GIF, size{uint32(binary.LittleEndian.Uint16(data[6:])), uint32(binary.LittleEndian.Uint16(data[8:]))}, true
	case len(data) >= 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP":
		s, ok = webpSize(data)
		return WebP, s, ok
	}
	return "", size{}, false
}

// pngSize reads the chunk IHDR, which comes first.
func pngSize(data []byte) (size, bool) {
	if len(data) < 8+8+13+4 || binary.BigEndian.Uint32(data[8:]) != 13 || string(data[12:16]) != "IHDR" {
		return size{}, false
	}
	return size{binary.BigEndian.Uint32(data[16:]), binary.BigEndian.Uint32(data[20:])}, true
}

// jpegSize reads the segments up to the one that begins a frame.
func jpegSize(data []byte) (size, bool) {
	for at := 2; at+4 <= len(data); {
		if data[at] != 0xff {
			return size{}, false
		}
		marker := data[at+1]
		switch {
		case marker == 0xff: // padding
			at++
			continue
		case marker == 0x01 || marker >= 0xd0 && marker <= 0xd7: // without a length
			at += 2
			continue
		case marker == 0xd8 || marker == 0xd9 || marker == 0xda || marker == 0: // no frame before the image's data
			return size{}, false
		}
		length := int(binary.BigEndian.Uint16(data[at+2:]))
		if length < 2 {
			return size{}, false
		}
		if marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc {
			if length < 8 || at+9 > len(data) {
				return size{}, false
			}
			return size{uint32(binary.BigEndian.Uint16(data[at+7:])), uint32(binary.BigEndian.Uint16(data[at+5:]))}, true
		}
		at += 2 + length
	}
	return size{}, false
}

// webpSize reads the first chunk: lossy, lossless or extended.
func webpSize(data []byte) (size, bool) {
	if len(data) < 30 {
		return size{}, false
	}
	chunk := data[20:]
	switch string(data[12:16]) {
	case "VP8 ":
		if chunk[0]&1 != 0 || chunk[3] != 0x9d || chunk[4] != 0x01 || chunk[5] != 0x2a { // a key frame with its marker
			return size{}, false
		}
		return size{uint32(binary.LittleEndian.Uint16(chunk[6:])) & 0x3fff, uint32(binary.LittleEndian.Uint16(chunk[8:])) & 0x3fff}, true
	case "VP8L":
		if chunk[0] != 0x2f {
			return size{}, false
		}
		bits := binary.LittleEndian.Uint32(chunk[1:])
		return size{bits&0x3fff + 1, bits>>14&0x3fff + 1}, true
	case "VP8X":
		return size{three(chunk[4:]) + 1, three(chunk[7:]) + 1}, true
	}
	return size{}, false
}

func three(b []byte) uint32 { return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 }
