package drive

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"stoa/internal/base/stoa"
)

// The maximum lengths of a path and of a segment, in bytes of the NFC form.
const (
	MaxPath    = 1024
	MaxSegment = 255
)

// A Path names a file of a drive. Only [ParsePath] creates one, so a Path is always valid.
// The zero Path names no file.
type Path struct{ text string }

// String returns the path as stored and shown: relative, in NFC, separated by slashes.
func (p Path) String() string { return p.text }

// IsZero reports whether the path was never parsed.
func (p Path) IsZero() bool { return p.text == "" }

// Base returns the last segment.
func (p Path) Base() string { return p.text[strings.LastIndexByte(p.text, '/')+1:] }

// ParsePath parses the text of a caller; its error is [stoa.CodeInvalidPath] and says what is
// wrong. Text is normalized to NFC, so that the two encodings of é are one name. Nothing else
// is repaired.
//
// File managers of some systems send decomposed names, so the same name arrives in two forms.
// Refusing one form would reject correct names with a message that few could act on, and
// accepting both would show two files that look the same. Every other violation is refused,
// because a repaired path is not the path that the caller named.
func ParsePath(text string) (Path, error) {
	fail := func(why string) (Path, error) {
		return Path{}, stoa.Errorf(stoa.CodeInvalidPath, "The path %s. A path is relative, such as \"handbook/refunds.md\".", why).At("path")
	}
	if text == "" {
		return fail("is empty")
	}
	// A far longer text is refused without the cost of normalizing it, because NFC changes the
	// length of a text by at most a factor of three.
	if len(text) > 4*MaxPath {
		return fail("is longer than 1,024 bytes")
	}
	if !utf8.ValidString(text) {
		return fail("is not valid UTF-8")
	}
	text = norm.NFC.String(text)
	if len(text) > MaxPath {
		return fail("is longer than 1,024 bytes")
	}
	if text[0] == '/' {
		return fail("begins with a slash")
	}
	if text[len(text)-1] == '/' {
		return fail("ends with a slash")
	}
	for _, r := range text {
		switch {
		case r == '\\':
			return fail("contains a backslash; folders are separated by /")
		case unicode.IsControl(r):
			return fail("contains a control character")
		}
	}
	for segment := range strings.SplitSeq(text, "/") {
		switch {
		case segment == "":
			return fail("has an empty segment")
		case segment == "." || segment == "..":
			return fail("has a segment that is a dot or two dots")
		case len(segment) > MaxSegment:
			return fail("has a segment longer than 255 bytes")
		}
	}
	return Path{text}, nil
}

// parsePrefix checks a prefix of paths, which may end inside a segment. Empty means every path.
func parsePrefix(text string) (string, error) {
	if !utf8.ValidString(text) || len(text) > 4*MaxPath {
		return "", stoa.Errorf(stoa.CodeInvalidPath, "The prefix is not valid UTF-8, or longer than 1,024 bytes.").At("prefix")
	}
	text = norm.NFC.String(text)
	bad := len(text) > MaxPath || strings.HasPrefix(text, "/") || strings.Contains(text, "//") ||
		strings.ContainsFunc(text, func(r rune) bool { return r == '\\' || unicode.IsControl(r) })
	segments := strings.Split(text, "/")
	for i, s := range segments {
		last := i == len(segments)-1
		bad = bad || len(s) > MaxSegment || !last && (s == "." || s == "..")
	}
	if bad {
		return "", stoa.Errorf(stoa.CodeInvalidPath, "No path can begin with this prefix: paths are relative, without empty, \".\" or \"..\" segments.").At("prefix")
	}
	return text, nil
}

// ParseFolder parses the name of a folder, with or without a slash at its end, and returns it
// with the slash. A folder exists while it contains files.
func ParseFolder(text string) (string, error) {
	p, err := ParsePath(strings.TrimSuffix(text, "/"))
	if err != nil {
		return "", stoa.AsError(err).At("prefix")
	}
	return p.text + "/", nil
}

// after returns the smallest text that is greater than every text with the prefix; ok is false if
// none exists. The text is valid UTF-8, because PostgreSQL accepts nothing else.
func after(prefix string) (text string, ok bool) {
	for prefix != "" {
		r, n := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-n]
		switch {
		case r == 0xd7ff: // the next code points are surrogates, which UTF-8 cannot encode
			return prefix + "\ue000", true
		case r < unicode.MaxRune:
			return prefix + string(r+1), true
		}
	}
	return "", false
}

// allow checks a new path against the configured limits, which may be lower than those of
// [ParsePath]. Existing paths stay valid, so that their files can be read and deleted.
func (l Limits) allow(p Path) error {
	if i := strings.IndexFunc(p.text, func(r rune) bool { return unicode.Is(unicode.Cf, r) }); i >= 0 {
		r, _ := utf8.DecodeRuneInString(p.text[i:])
		return stoa.Errorf(stoa.CodeInvalidPath, "The path contains the invisible character U+%04X, which would make its name look like another one. Leave it out.", r).At("path")
	}
	if len(p.text) > l.MaxPath {
		return stoa.Errorf(stoa.CodeInvalidPath, "The path is longer than %d bytes, the limit of this service.", l.MaxPath).At("path")
	}
	for segment := range strings.SplitSeq(p.text, "/") {
		if len(segment) > l.MaxSegment {
			return stoa.Errorf(stoa.CodeInvalidPath, "The path has a segment longer than %d bytes, the limit of this service.", l.MaxSegment).At("path")
		}
	}
	return nil
}
