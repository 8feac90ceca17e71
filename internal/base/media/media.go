// Package media checks the images and files of callers by their content, before credits are
// held or anything is sent: a vendor that refuses one refuses the whole conversation from
// then on, since clients resend its history.
//
// It reads headers only and never decodes pixels or pages, so that a small file cannot use
// much time or memory. It fetches addresses only through [Fetcher], which only reaches public
// ones. Its errors are [stoa.Error] without a path.
//
// Start with [Image] and [File]; [CheckURL] and [Fetcher] are about addresses.
package media

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"stoa/internal/base/outbound"
	"stoa/internal/base/stoa"
)

// Limits of an image and a file.
const (
	MaxImage  = 3_750_000  // bytes: 5,000,000 in base64
	MaxSide   = 8_000      // pixels of the width and of the height
	MaxPixels = 40_000_000 // width × height
	MaxFile   = 10_000_000 // bytes
	maxName   = 255        // characters of a file's name
)

// largeImage returns the error for an image above [MaxImage]. An error is never shared,
// because the caller adds the path to it.
func largeImage() error { return invalid("The image is larger than 3.75 MB. Send a smaller one.") }

// largeFile returns the error for a file above [MaxFile].
func largeFile() error {
	return invalid("The file is larger than %d MB. Send a smaller one.", MaxFile/1_000_000)
}

// The types of images and files.
const (
	PNG   = "image/png"
	JPEG  = "image/jpeg"
	WebP  = "image/webp"
	GIF   = "image/gif"
	PDF   = "application/pdf"
	Plain = "text/plain"
)

// Image checks an image in a data URL: its base64, its declared type against its content, its
// size, and the dimensions in its header.
func Image(dataURL string) (*stoa.Media, error) {
	declared, encoded, err := split(dataURL)
	if err != nil {
		return nil, err
	}
	switch declared {
	case PNG, JPEG, WebP, GIF:
	default:
		return nil, invalid("Images of the type %q are not supported. Send PNG, JPEG, WebP or GIF.", short(declared))
	}
	if base64.StdEncoding.DecodedLen(len(encoded)) > MaxImage+2 {
		return nil, largeImage()
	}
	data, err := decode(encoded)
	if err != nil {
		return nil, err
	}
	m, err := checkImage(data)
	if err != nil {
		return nil, err
	}
	if m.Type != declared {
		return nil, invalid("The image is declared as %s, but its content is %s.", declared, m.Type)
	}
	m.Base64 = encoded
	return m, nil
}

// ImageOf checks the bytes of an image.
func ImageOf(data []byte) (*stoa.Media, error) {
	m, err := checkImage(data)
	if err != nil {
		return nil, err
	}
	m.Base64 = base64.StdEncoding.EncodeToString(data)
	return m, nil
}

// checkImage checks the bytes of an image; the result has no content.
func checkImage(data []byte) (*stoa.Media, error) {
	if len(data) > MaxImage {
		return nil, largeImage()
	}
	kind, size, ok := dimensions(data)
	switch {
	case kind == "":
		return nil, invalid("The content is not a PNG, JPEG, WebP or GIF image.")
	case !ok || size.width == 0 || size.height == 0:
		return nil, invalid("The header of the image is damaged.")
	case size.width > MaxSide || size.height > MaxSide || int64(size.width)*int64(size.height) > MaxPixels:
		return nil, invalid("The image has %d x %d pixels. Send one with at most %d on a side and %d million in total.", size.width, size.height, MaxSide, MaxPixels/1_000_000)
	}
	return &stoa.Media{Type: kind, Width: int64(size.width), Height: int64(size.height)}, nil
}

// File checks a file in a data URL. A PDF becomes a file part, plain text becomes a text that
// begins with the file's name. With documents, files of other types become file parts too,
// whose content is not checked.
func File(name, dataURL string, documents bool) (stoa.Part, error) {
	name, err := Name(name)
	if err != nil {
		return stoa.Part{}, err
	}
	declared, parameters, encoded, err := splitAll(dataURL)
	switch {
	case err != nil:
		return stoa.Part{}, err
	case documents:
	case declared != PDF && declared != Plain:
		return stoa.Part{}, invalid("Files of the type %q are not supported. Send application/pdf or text/plain.", short(declared))
	case !known(declared, parameters):
		return stoa.Part{}, errParameters()
	}
	if base64.StdEncoding.DecodedLen(len(encoded)) > MaxFile+2 {
		return stoa.Part{}, largeFile()
	}
	data, err := decode(encoded)
	if err != nil {
		return stoa.Part{}, err
	}
	isPDF := declared == PDF || documents && bytes.HasPrefix(data, []byte("%PDF-"))
	switch {
	case isPDF:
	case declared == Plain && (!documents || known(declared, parameters) && isText(data)):
		return plain(name, data)
	default:
		if parameters != "" {
			declared += ";" + parameters
		}
		return stoa.Part{Kind: stoa.PartFile, Media: &stoa.Media{Type: declared, Base64: encoded, Name: name}}, nil
	}
	m, err := pdf(data)
	if err != nil {
		return stoa.Part{}, err
	}
	m.Base64, m.Name = encoded, pdfName(name)
	return stoa.Part{Kind: stoa.PartFile, Media: m}, nil
}

// PDFOf checks the bytes of a PDF; its name may be empty.
func PDFOf(name string, data []byte) (*stoa.Media, error) {
	name, err := Name(name)
	if err != nil {
		return nil, err
	}
	m, err := pdf(data)
	if err != nil {
		return nil, err
	}
	m.Base64, m.Name = base64.StdEncoding.EncodeToString(data), pdfName(name)
	return m, nil
}

// Name checks the name of a file, which may be empty.
func Name(name string) (string, error) {
	if utf8.RuneCountInString(name) > maxName || strings.ContainsFunc(name, unicode.IsControl) {
		return "", invalid("The name of a file must have at most %d characters, and no control characters.", maxName)
	}
	return name, nil
}

// pdfName returns the file name for a vendor: some derive the type from its extension.
func pdfName(name string) string {
	switch {
	case name == "":
		return "document.pdf"
	case !strings.HasSuffix(strings.ToLower(name), ".pdf"):
		return name + ".pdf"
	}
	return name
}

func plain(name string, data []byte) (stoa.Part, error) {
	if !isText(data) {
		return stoa.Part{}, invalid("The file is not UTF-8 text.")
	}
	if name == "" {
		name = "file.txt"
	}
	return stoa.Part{Kind: stoa.PartText, Text: "[File " + name + "]\n" + strings.TrimPrefix(string(data), "\ufeff")}, nil
}

// isText reports whether a content is a text in UTF-8.
func isText(data []byte) bool { return utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 }

// split splits a data URL into its type in lower case and its base64 content.
func split(dataURL string) (kind, encoded string, err error) {
	kind, parameters, encoded, err := splitAll(dataURL)
	if err == nil && !known(kind, parameters) {
		err = errParameters()
	}
	return kind, encoded, err
}

// known reports whether the parameters of a type say nothing new.
func known(kind, parameters string) bool {
	return parameters == "" || kind == Plain && (parameters == "charset=utf-8" || parameters == "charset=us-ascii")
}

func errParameters() error {
	return invalid("The data URL has parameters that are not supported.")
}

func splitAll(dataURL string) (kind, parameters, encoded string, err error) {
	if len(dataURL) < 5 || !strings.EqualFold(dataURL[:5], "data:") {
		return "", "", "", invalid("The content must be a data URL, such as data:image/png;base64,…")
	}
	head, _, ok := strings.Cut(dataURL[5:min(len(dataURL), 5+128)], ",")
	if !ok {
		return "", "", "", invalid("The data URL has no base64 content.")
	}
	encoded = dataURL[5+len(head)+1:]
	head = strings.ToLower(head)
	head, ok = strings.CutSuffix(head, ";base64")
	if !ok {
		return "", "", "", invalid("The data URL must have \";base64\" before its content.")
	}
	kind, parameters, _ = strings.Cut(head, ";")
	if encoded == "" {
		return "", "", "", invalid("The content is empty.")
	}
	return kind, parameters, encoded, nil
}

// decode decodes base64 strictly: no white space, with padding, no stray bits.
func decode(encoded string) ([]byte, error) {
	data, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || len(encoded)%4 != 0 || strings.ContainsAny(encoded, "\r\n") {
		return nil, invalid("The content is not valid base64. Send it without white space, with its padding.")
	}
	return data, nil
}

// short shortens a text that an error quotes.
func short(s string) string {
	if len(s) > 64 {
		s = strings.ToValidUTF8(s[:64], "") + "…"
	}
	return s
}

func invalid(format string, args ...any) error {
	return stoa.Errorf(stoa.CodeInvalidValue, format, args...)
}

// A Policy says how addresses in a request are handled.
type Policy string

// The policies.
const (
	Pass   Policy = "pass"   // the vendor fetches it
	Fetch  Policy = "fetch"  // the service fetches it
	Refuse Policy = "refuse" // only data URLs are accepted
)

// maxURL is the maximum length of an address in bytes.
const maxURL = 4_096

// CheckURL checks an address: https at the default port, with a host name that may be public,
// without a user and a fragment.
func CheckURL(address string) error {
	if len(address) > maxURL {
		return invalid("The URL is longer than %d characters.", maxURL)
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Opaque != "" || u.Host == "" || strings.ContainsAny(address, "\\ \t\r\n"):
		return invalid("The URL cannot be read. Send an https URL, or a data URL.")
	case u.Scheme != "https":
		return invalid("The URL must begin with https:// or data:.")
	case u.User != nil:
		return invalid("The URL must not have a user or a password.")
	case u.Fragment != "" || strings.Contains(address, "#"):
		return invalid("The URL must not have a fragment.")
	case u.Port() != "" && u.Port() != "443" || strings.HasSuffix(u.Host, ":"):
		return invalid("The URL must not have a port other than 443.")
	case !outbound.IsPublicName(u.Hostname()):
		return invalid("The host of the URL must be a public name.")
	}
	return nil
}

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
