package stoa

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// Storable returns a text in the form that both databases accept: valid UTF-8 without NUL.
func Storable(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// MaxName is the maximum length of a tool's name, in bytes; see [IsName].
const MaxName = 64

// IsName reports whether s consists of 1 to [MaxName] of the characters a-z, A-Z, 0-9, _ and -,
// because vendors and clients accept only these in the name of a tool and in the id of a call.
func IsName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return 0 < len(s) && len(s) <= MaxName
}

// flatPart is the maximum length of the name in a hashed [FlatName], so that an underscore and 16 digits fit.
const flatPart = 40

// FlatName returns the name of a namespace's tool for formats without namespaces: namespace__name or, if
// that is not a name, the beginning of the name and a hash, so that two tools never share a name.
func FlatName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	if flat := namespace + "__" + name; IsName(flat) {
		return flat
	}
	sum := sha256.Sum256([]byte(namespace + "\x00" + name))
	hash := hex.EncodeToString(sum[:8])
	if !IsName(name) {
		return "tool_" + hash
	}
	return name[:min(len(name), flatPart)] + "_" + hash
}

// EditDistance is the number of single-byte insertions, deletions and
// replacements that turn a into b (Levenshtein), for "did you mean".
func EditDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
