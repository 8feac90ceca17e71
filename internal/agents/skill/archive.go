package skill

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"stoa/internal/base/stoa"
)

// Limits of the skills of an agent, and of an archive of skills.
const (
	MaxSkills = 32
	MaxFiles  = 500
	MaxBytes  = 8 << 20
	MaxPath   = 200   // bytes of a path inside a skill
	MaxTokens = 4_000 // of the list of skills in the instructions of an agent
)

// A Folder is a skill with its files.
type Folder struct {
	Skill
	Files map[string][]byte // by their paths in the skill
}

// Manifest returns the files with their sizes and hashes, in the order of their paths.
func (f Folder) Manifest() []stoa.SkillFile {
	list := make([]stoa.SkillFile, 0, len(f.Files))
	for _, p := range slices.Sorted(maps.Keys(f.Files)) {
		list = append(list, stoa.SkillFile{Path: p, Size: int64(len(f.Files[p])), SHA256: Sum(f.Files[p])})
	}
	return list
}

// Sum returns the SHA-256 of data in lower-case hexadecimal.
func Sum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Unpack reads the skills in a zip or tar.gz archive, in the order of their names. A skill is a folder with a SKILL.md, at any
// depth; one inside another skill belongs to that. It refuses links, special files and paths that lead outside, and leaves out
// files whose name, or whose folder's, begins with a dot or is __MACOSX. An error names what is wrong; nothing of such an archive may be used.
func Unpack(data []byte) ([]Folder, error) {
	files := map[string][]byte{}
	left := int64(MaxBytes)
	add := func(name string, mode fs.FileMode, r io.Reader) error {
		if mode.IsDir() {
			return nil
		}
		name = norm.NFC.String(strings.TrimPrefix(name, "./")) // as the drive does
		switch {
		case !mode.IsRegular():
			return fmt.Errorf("%q is a link or a special file; an archive of skills may contain only files", name)
		case !fs.ValidPath(name) || strings.Contains(name, `\`):
			return fmt.Errorf("%q is not a path inside the archive", name)
		case isHidden(name):
			return nil
		case files[name] != nil:
			return fmt.Errorf("%q is in the archive twice", name)
		case len(files) == MaxFiles:
			return fmt.Errorf("the archive has more than %d files", MaxFiles)
		}
		content, err := io.ReadAll(io.LimitReader(r, left+1))
		if err != nil {
			return fmt.Errorf("%q cannot be read: %v", name, err)
		}
		if left -= int64(len(content)); left < 0 {
			return fmt.Errorf("the files of the archive have more than %s", stoa.Size(MaxBytes))
		}
		files[name] = append([]byte{}, content...)
		return nil
	}
	var err error
	switch {
	case bytes.HasPrefix(data, []byte("PK\x03\x04")):
		err = unzip(data, add)
	case bytes.HasPrefix(data, []byte{0x1f, 0x8b}):
		err = untar(data, add)
	default:
		err = errors.New("the archive is neither zip nor tar.gz")
	}
	if err != nil {
		return nil, err
	}
	return folders(files)
}

func isHidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.") || strings.HasPrefix(name, "__MACOSX/")
}

const maxEntries = 20 * MaxFiles // of an archive, with folders and hidden files

func unzip(data []byte, add func(string, fs.FileMode, io.Reader) error) error {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // those paths are refused with their names
		return fmt.Errorf("the zip archive cannot be read: %v", err)
	}
	if len(z.File) > maxEntries {
		return fmt.Errorf("the archive has more than %d entries", maxEntries)
	}
	for _, f := range z.File {
		mode := f.Mode()
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return fmt.Errorf("%q cannot be read: %v", f.Name, err)
		}
		err = add(f.Name, mode, r)
		r.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func untar(data []byte, add func(string, fs.FileMode, io.Reader) error) error {
	g, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("the tar.gz archive cannot be read: %v", err)
	}
	// The limit includes headers and files that are left out, because each entry of a bomb must be read to be skipped.
	t := tar.NewReader(io.LimitReader(g, 4*MaxBytes))
	for range maxEntries {
		h, err := t.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			return fmt.Errorf("the tar.gz archive cannot be read: %v", err)
		case h.Typeflag == tar.TypeXGlobalHeader: // of git archive
			continue
		}
		mode := h.FileInfo().Mode()
		if h.Typeflag == tar.TypeLink { // a hard link looks like a regular file
			mode |= fs.ModeIrregular
		}
		if err := add(h.Name, mode, t); err != nil {
			return err
		}
	}
	return fmt.Errorf("the archive has more than %d entries", maxEntries)
}

// folders returns the skills among the files of an archive.
func folders(files map[string][]byte) ([]Folder, error) {
	var roots []string
	for _, name := range slices.SortedFunc(maps.Keys(files), func(a, b string) int { return len(a) - len(b) }) {
		dir := path.Dir(name)
		if path.Base(name) == Main && !slices.ContainsFunc(roots, func(root string) bool { return inside(root, name) }) {
			roots = append(roots, dir)
		}
	}
	if len(roots) == 0 {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if strings.EqualFold(path.Base(name), Main) {
				return nil, fmt.Errorf("the file %q must be called %s", name, Main)
			}
		}
		return nil, errors.New("there is no file SKILL.md in the archive")
	}
	slices.Sort(roots)
	var list []Folder
	for _, root := range roots {
		folder := path.Base(root)
		if root == "." {
			folder = "" // the archive is the folder, and has no name
		}
		f := Folder{Skill: Read(folder, files[path.Join(root, Main)]), Files: map[string][]byte{}}
		if len(f.Errors) > 0 {
			return nil, fmt.Errorf("%s: %s", path.Join(root, Main), strings.Join(f.Errors, "; "))
		}
		if slices.ContainsFunc(list, func(o Folder) bool { return o.Name == f.Name }) {
			return nil, fmt.Errorf("two skills in the archive have the name %q", f.Name)
		}
		for name, content := range files {
			if !inside(root, name) {
				continue
			}
			rel := strings.TrimPrefix(name, root+"/")
			if len(rel) > MaxPath {
				return nil, fmt.Errorf("the path %q is longer than %d bytes", rel, MaxPath)
			}
			f.Files[rel] = content
		}
		list = append(list, f)
	}
	if len(list) > MaxSkills {
		return nil, fmt.Errorf("the archive has %d skills, and an agent can use %d", len(list), MaxSkills)
	}
	slices.SortFunc(list, func(a, b Folder) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func inside(root, name string) bool { return root == "." || strings.HasPrefix(name, root+"/") }
