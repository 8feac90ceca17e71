package drive

import (
	"slices"
	"strings"
	"unicode"
)

// IsHidden reports whether a segment of the path begins with a dot. Agents cannot write such
// names, because shells, editors and version control act on them.
func (p Path) IsHidden() bool { return slices.ContainsFunc(strings.Split(p.text, "/"), IsHidden) }

// IsHidden reports whether a segment of a path begins with a dot.
func IsHidden(segment string) bool { return strings.HasPrefix(seen(segment), ".") }

// IsGit reports whether a file system may treat a segment of a path as .git, since some ignore
// case, trailing dots and spaces, or invisible characters, and Windows also has short names.
func IsGit(segment string) bool {
	name := strings.TrimRight(seen(segment), ". ")
	return strings.EqualFold(name, ".git") || strings.EqualFold(name, "git~1")
}

// seen returns a segment without invisible characters, which some file systems ignore.
func seen(segment string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, segment)
}

// devices lists the names that Windows reserves in each folder, with any ending.
var devices = []string{
	"con", "prn", "aux", "nul", "conin$", "conout$",
	"com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8", "com9", "com¹", "com²", "com³",
	"lpt1", "lpt2", "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9", "lpt¹", "lpt²", "lpt³",
}

// isSpecial reports whether a system may treat a file of this name specially: it begins with
// a dot, is a device or the short name of .git, or contains a colon, which begins a path on a
// drive or a stream of Windows.
func isSpecial(segment string) bool {
	name := strings.ToLower(seen(segment))
	device, _, _ := strings.Cut(name, ".")
	return IsHidden(segment) || IsGit(segment) || strings.Contains(name, ":") ||
		slices.Contains(devices, strings.TrimRight(device, " "))
}

// plain is the mark that a portable name begins with if the name is special.
const plain = "_"

// Portable returns a file's name, with an underscore before it if a system may treat it specially.
func Portable(name string) string {
	if isSpecial(name) {
		return plain + name
	}
	return name
}

// portable maps paths with special segments to paths with these segments marked. The mark is
// longer than that of any segment which already looks marked, so that different paths stay different.
func portable(files []File) map[string]string {
	mark := plain
	for _, f := range files {
		for segment := range strings.SplitSeq(f.Path, "/") {
			if rest := strings.TrimLeft(segment, plain); rest != segment && isSpecial(rest) {
				mark = strings.Repeat(plain, max(len(mark), len(segment)-len(rest)+1))
			}
		}
	}
	out := make(map[string]string)
	for _, f := range files {
		segments := strings.Split(f.Path, "/")
		for i, s := range segments {
			if isSpecial(s) {
				segments[i] = mark + s
			}
		}
		if name := strings.Join(segments, "/"); name != f.Path {
			out[f.Path] = name
		}
	}
	return out
}
