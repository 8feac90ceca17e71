package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/text/unicode/norm"

	"stoa/internal/agents/drive"
	"stoa/internal/base/client"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

const (
	actCreate  = "create"
	actReplace = "replace"
	actDelete  = "delete"
	actKeep    = "keep"
)

const maxTransfers = 4

type transfer struct {
	e    *env
	o    *output
	r    remote
	dry  bool
	down bool     // from the drive to this machine
	root *os.Root // the local folder that files are copied to

	mu    sync.Mutex
	line  *progress
	began time.Time // of the first file
	done  int
	bytes int64
	total int64
	files int

	encoding string // encoding of texts that are sent; empty if unknown
	unread   []file // files that were sent and have no text
}

func transferFlags(c *cobra.Command) (dry, remove *bool) {
	return c.Flags().Bool("dry-run", false, "print the actions, and change nothing"),
		c.Flags().Bool("delete", false, "delete files that the other side does not have")
}

func (e *env) drivePush() *cobra.Command {
	c := command("push AGENT FILE...", "Copy files and folders to the drive",
		`Copy files and folders to the drive. A folder is copied under its name; with a trailing / only its content is
copied. Identical files (by SHA-256) are not sent. Names that begin with a dot are skipped, unless --hidden is
given; links are not followed. Documents that the service cannot read are listed with the reason.`,
		"  stoa drive push support handbook prices.csv\n  stoa drive push support ./docs/ --to handbook --dry-run")
	to := c.Flags().String("to", "", "the `folder` on the drive")
	hidden := c.Flags().Bool("hidden", false, "also send names that begin with a dot")
	encoding := c.Flags().String("encoding", "", "the `name` of the encoding of texts that are not UTF-8, such as windows-1252")
	dry, remove := transferFlags(c)
	return e.onDrive(c, func(ctx context.Context, r remote, o *output, args []string) error {
		local := map[string]string{}
		var roots []string // folders that are copied as a whole: --delete applies to them
		for _, name := range args {
			under := folder(*to)
			if !strings.HasSuffix(name, "/") && !strings.HasSuffix(name, string(os.PathSeparator)) && filepath.Base(name) != "." && filepath.Base(name) != ".." {
				under += filepath.Base(name)
			}
			isFolder, err := collectFiles(local, name, under, *hidden)
			if err != nil {
				return err
			}
			if isFolder {
				roots = append(roots, folder(under))
			}
		}
		t := &transfer{e: e, o: o, r: r, dry: *dry, encoding: *encoding}
		return t.push(ctx, local, folder(*to), *remove, roots)
	})
}

func (e *env) driveSync() *cobra.Command {
	c := command("sync AGENT LOCAL [FOLDER]", "Synchronize a drive with a local folder",
		`Make a folder of the drive (by default the whole drive) equal to a folder on this machine: files that are new
or differ by SHA-256 are sent, and with --delete files that no longer exist are deleted. --down reverses the
direction. Names that begin with a dot are skipped, unless --hidden is given. --down writes nothing into
folders named .git and follows no links.`,
		"  stoa drive sync support ./docs --delete --dry-run\n  stoa drive sync support ./docs --delete\n  stoa drive sync support ./docs --down")
	down := c.Flags().Bool("down", false, "make the local folder equal to the drive instead")
	hidden := c.Flags().Bool("hidden", false, "also copy names that begin with a dot")
	dry, remove := transferFlags(c)
	return e.onDrive(c, func(ctx context.Context, r remote, o *output, args []string) error {
		prefix := ""
		if len(args) > 1 {
			prefix = folder(args[1])
		}
		t := &transfer{e: e, o: o, r: r, dry: *dry, down: *down}
		if *down {
			return t.pull(ctx, prefix, args[0], *remove, *hidden)
		}
		if info, err := os.Stat(args[0]); err != nil {
			return err
		} else if !info.IsDir() {
			return usagef("%s is not a folder; \"stoa drive push\" sends a file", args[0])
		}
		local := map[string]string{}
		if _, err := collectFiles(local, args[0], prefix, *hidden); err != nil {
			return err
		}
		return t.push(ctx, local, prefix, *remove, []string{prefix})
	})
}

func (e *env) drivePull() *cobra.Command {
	c := command("pull AGENT [FOLDER]", "Copy files from the drive to this machine",
		`Copy the files of the drive, or of one of its folders, to a folder on this machine. Identical files (by
SHA-256) are not fetched. Names that begin with a dot are skipped, unless --hidden is given: an agent chose
them, and other programs may act on them. Nothing is written into folders named .git, and links are not
followed.`,
		"  stoa drive pull support --to ./docs\n  stoa drive pull support handbook --to . --dry-run")
	to := c.Flags().String("to", ".", "the `folder` on this machine")
	hidden := c.Flags().Bool("hidden", false, "also fetch names that begin with a dot")
	dry, remove := transferFlags(c)
	return e.onDrive(c, func(ctx context.Context, r remote, o *output, args []string) error {
		prefix := ""
		if len(args) > 0 {
			prefix = folder(args[0])
		}
		t := &transfer{e: e, o: o, r: r, dry: *dry, down: true}
		return t.pull(ctx, prefix, *to, *remove, *hidden)
	})
}

func collectFiles(into map[string]string, name, under string, hidden bool) (isFolder bool, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return false, err
	}
	if !info.IsDir() {
		if !info.Mode().IsRegular() {
			return false, usagef("%s is not a regular file", name)
		}
		into[norm.NFC.String(strings.TrimPrefix(under, "/"))] = name
		return false, nil
	}
	err = filepath.WalkDir(name, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if p != name && strings.HasPrefix(d.Name(), ".") && !hidden {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		rel, err := filepath.Rel(name, p)
		if err != nil {
			return err
		}
		into[norm.NFC.String(path.Join(under, filepath.ToSlash(rel)))] = p
		return nil
	})
	return true, err
}

func (t *transfer) push(ctx context.Context, local map[string]string, prefix string, remove bool, roots []string) error {
	have, err := t.remoteFiles(ctx, prefix)
	if err != nil {
		return err
	}
	var plans []plan
	for p, name := range local {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		act := plan{Action: actCreate, Path: p, Size: info.Size(), local: name}
		if there, ok := have[p]; ok {
			act.Action = actReplace
			if there.Size == info.Size() {
				t.show("Comparing " + p)
				sum, err := hashFile(name)
				if err != nil {
					return err
				}
				if sum == there.SHA256 {
					act.Action = actKeep
				}
			}
		}
		plans = append(plans, act)
	}
	if remove {
		for p, f := range have {
			inside := slices.ContainsFunc(roots, func(root string) bool { return strings.HasPrefix(p, root) })
			if _, ok := local[p]; !ok && inside {
				plans = append(plans, plan{Action: actDelete, Path: p, Size: f.Size})
			}
		}
	}
	if err := t.fits(ctx, plans, have); err != nil {
		t.line.done()
		return err
	}
	return t.execute(ctx, plans, t.upload, func(ctx context.Context, p plan) error {
		_, err := t.r.call.JSON(ctx, http.MethodDelete, t.r.path+"/files", url.Values{"path": {p.Path}}, nil, nil)
		return err
	})
}

// fits rejects plans with files that the service would reject for their size, before anything is sent.
func (t *transfer) fits(ctx context.Context, plans []plan, have map[string]file) error {
	var usage contract.Drive
	if _, err := t.r.call.JSON(ctx, http.MethodGet, t.r.path, nil, nil, &usage); err != nil {
		return err
	}
	size := usage.Bytes
	var large []string
	for _, p := range plans {
		switch p.Action {
		case actDelete:
			size -= p.Size
			continue
		case actKeep:
			continue
		}
		size += p.Size - have[p.Path].Size
		if p.Size > usage.MaxFileBytes {
			large = append(large, fmt.Sprintf("%s (%s)", p.local, stoa.Size(p.Size)))
		}
	}
	if len(large) > 0 {
		slices.Sort(large)
		return fmt.Errorf("nothing was copied: the limit of one file is %s, and these are larger: %s", stoa.Size(usage.MaxFileBytes), strings.Join(large, ", "))
	}
	if size > usage.MaxBytes {
		return fmt.Errorf("nothing was copied: the drive would have %s, more than its limit of %s", stoa.Size(size), stoa.Size(usage.MaxBytes))
	}
	return nil
}

// pull makes the local folder equal to the part of the drive below a prefix. It
// neither writes nor deletes in folders named .git, nor, unless hidden is set, where a
// name begins with a dot, because agents choose the names, and other programs act on such files.
func (t *transfer) pull(ctx context.Context, prefix, to string, remove, hidden bool) error {
	have, err := t.remoteFiles(ctx, prefix)
	if err != nil {
		return err
	}
	if prefix != "" && len(have) == 0 {
		return fmt.Errorf("the drive has no folder %q", strings.TrimSuffix(prefix, "/"))
	}
	local := map[string]string{}
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		if _, err := collectFiles(local, to, prefix, hidden); err != nil {
			return err
		}
	} else if err == nil {
		return usagef("%s is not a folder", to)
	}
	var plans []plan
	dotted, inGit := 0, 0
	for p, f := range have {
		below := strings.TrimPrefix(p, prefix)
		switch {
		case hasSegment(below, drive.IsGit):
			inGit++
			continue
		case !hidden && hasSegment(below, drive.IsHidden):
			dotted++
			continue
		}
		act := plan{Action: actCreate, Path: p, Size: f.Size, local: filepath.FromSlash(below)}
		if !filepath.IsLocal(act.local) {
			return fmt.Errorf("the path %q of the drive is not valid on this machine", p)
		}
		if err := noLink(to, act.local); err != nil {
			return err
		}
		name := filepath.Join(to, act.local)
		if info, err := os.Lstat(name); err == nil {
			if !info.Mode().IsRegular() {
				return fmt.Errorf("%s blocks a file of the drive; it is not a regular file", name)
			}
			act.Action = actReplace
			if info.Size() == f.Size {
				t.show("Comparing " + p)
				sum, err := hashFile(name)
				if err != nil {
					return err
				}
				if sum == f.SHA256 {
					act.Action = actKeep
				}
			}
		}
		plans = append(plans, act)
	}
	if remove {
		for p, name := range local {
			if _, ok := have[p]; ok || hasSegment(strings.TrimPrefix(p, prefix), drive.IsGit) {
				continue
			}
			rel, err := filepath.Rel(to, name)
			if err != nil {
				return err
			}
			plans = append(plans, plan{Action: actDelete, Path: p, local: rel})
		}
	}
	if !t.dry {
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		if t.root, err = os.OpenRoot(to); err != nil {
			return err
		}
		defer t.root.Close()
	}
	err = t.execute(ctx, plans, t.fetch, func(_ context.Context, p plan) error { return t.root.Remove(p.local) })
	if dotted > 0 {
		t.e.say("Skipped: %s with a name that begins with a dot; --hidden also fetches them.", some(dotted, "file", "files"))
	}
	if inGit > 0 {
		t.e.say("Skipped: %s in folders named .git, where nothing is written.", some(inGit, "file", "files"))
	}
	return err
}

func hasSegment(path string, is func(segment string) bool) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), is)
}

// noLink rejects a file if a folder on its path is a link, because a write through it would leave the named folder.
func noLink(root, file string) error {
	for dir := filepath.Dir(file); dir != "."; dir = filepath.Dir(dir) {
		name := filepath.Join(root, dir)
		if info, err := os.Lstat(name); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
			return fmt.Errorf("%s blocks a folder of the drive; it is a link, which is not followed", name)
		}
	}
	return nil
}

func (t *transfer) remoteFiles(ctx context.Context, prefix string) (map[string]file, error) {
	t.line = t.e.progress()
	t.show("Listing the drive")
	list, err := t.r.files(ctx, prefix)
	if err != nil {
		t.line.done()
		return nil, err
	}
	out := make(map[string]file, len(list))
	for _, f := range list {
		out[f.Path] = f
	}
	return out, nil
}

// execute applies the plans, or only prints them. Deletions are first, so that a folder
// can replace a file.
func (t *transfer) execute(ctx context.Context, plans []plan, carry, remove func(context.Context, plan) error) error {
	slices.SortFunc(plans, func(a, b plan) int { return strings.Compare(a.Path, b.Path) })
	count := map[string]int{}
	for _, p := range plans {
		count[p.Action]++
		if p.Action == actCreate || p.Action == actReplace {
			t.files++
			t.total += p.Size
		}
	}
	t.line.done()
	if t.dry {
		if err := t.o.printPlan(plans); err != nil {
			return err
		}
		t.e.say("Dry run: %s to copy.", tally(count, t.total))
		return nil
	}
	t.began = time.Now()
	err := t.each(ctx, plans, func(p plan) bool { return p.Action == actDelete }, remove)
	if err == nil {
		err = t.each(ctx, plans, func(p plan) bool { return p.Action == actCreate || p.Action == actReplace }, carry)
	}
	t.line.done()
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		copied := fmt.Sprintf("%d of %s copied", t.done, some(t.files, "file", "files"))
		if answer, ok := errors.AsType[*client.Error](err); ok && answer.Status < 500 && !slices.Contains([]int{http.StatusRequestTimeout, http.StatusTooManyRequests}, answer.Status) {
			return fmt.Errorf("%w; %s", err, copied) // because the same command would fail again
		}
		return fmt.Errorf("%w; %s, run the same command to continue", err, copied)
	}
	t.e.say("Done: %s copied.", tally(count, t.total))
	slices.SortFunc(t.unread, func(a, b file) int { return strings.Compare(a.Path, b.Path) })
	for _, f := range t.unread {
		t.e.say("Not read: %s.", f.unread())
	}
	if t.o.raw() {
		return t.o.printPlan(plans)
	}
	return nil
}

func tally(count map[string]int, bytes int64) string {
	return fmt.Sprintf("%d new, %d changed, %d deleted, %d unchanged; %s",
		count[actCreate], count[actReplace], count[actDelete], count[actKeep], stoa.Size(bytes))
}

func (t *transfer) each(ctx context.Context, plans []plan, which func(plan) bool, do func(context.Context, plan) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxTransfers)
	for _, p := range plans {
		if !which(p) {
			continue
		}
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := do(ctx, p); err != nil {
				return fmt.Errorf("%s: %w", p.Path, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (t *transfer) show(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.files == 0 {
		t.line.show("%s", text)
		return
	}
	t.line.show("%s", t.status(text, time.Since(t.began)))
}

// status describes the transfer after the elapsed time, with its speed and the time left once they mean something.
func (t *transfer) status(name string, elapsed time.Duration) string {
	parts := []string{fmt.Sprintf("%d of %d", t.done, t.files), stoa.Size(t.bytes) + " of " + stoa.Size(t.total)}
	if seconds := elapsed.Seconds(); seconds >= 1 && t.bytes > 0 {
		speed := float64(t.bytes) / seconds
		left := time.Duration(float64(max(0, t.total-t.bytes)) / speed * float64(time.Second))
		unit := time.Second
		if left > 90*time.Second {
			unit = time.Minute
		}
		parts = append(parts, stoa.Size(int64(speed))+"/s", spanText(left.Round(unit))+" left")
	}
	return strings.Join(append(parts, name), " · ")
}

func (t *transfer) moved(n int, name string) {
	t.mu.Lock()
	t.bytes += int64(n)
	t.mu.Unlock()
	t.show(name)
}

func (t *transfer) finished() {
	t.mu.Lock()
	t.done++
	t.mu.Unlock()
}

func (t *transfer) upload(ctx context.Context, p plan) error {
	f, n, err := readFile(p.local)
	if err != nil {
		return err
	}
	f.Close()
	r := client.Request{
		Method: http.MethodPut, Path: t.r.path + "/files/content", Query: url.Values{"path": {p.Path}}, Size: n,
		Header: http.Header{"Content-Type": {"application/octet-stream"}},
		Open: func() (io.ReadCloser, error) {
			f, _, err := readFile(p.local)
			if err != nil {
				return nil, err
			}
			return &reader{f, func(n int) { t.moved(n, p.Path) }}, nil
		},
	}
	if t.encoding != "" {
		if valid, err := isUTF8(p.local); err != nil {
			return err
		} else if !valid {
			r.Query.Set("textEncoding", t.encoding)
		}
	}
	body, _, err := t.r.call.Bytes(ctx, r)
	if err != nil {
		return err
	}
	var written file
	if err := jsonx.Unmarshal(body, &written); err != nil {
		return fmt.Errorf("the reply does not match the contract: %w", err)
	}
	if written.unread() != "" {
		t.mu.Lock()
		t.unread = append(t.unread, written)
		t.mu.Unlock()
	}
	t.finished()
	return nil
}

func isUTF8(name string) (bool, error) {
	f, _, err := readFile(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	for {
		r, n, err := in.ReadRune()
		if err == io.EOF {
			return true, nil
		}
		if err != nil || r == utf8.RuneError && n == 1 {
			return false, err
		}
	}
}

// fetch downloads one file, verifies its hash, and moves it into place atomically.
func (t *transfer) fetch(ctx context.Context, p plan) error {
	dir := filepath.Dir(p.local)
	if err := t.root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	res, err := t.r.call.Do(ctx, client.Request{Path: t.r.path + "/files/content", Query: url.Values{"path": {p.Path}}})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	part := filepath.Join(dir, ".stoa-"+rand.Text())
	f, err := t.root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer t.root.Remove(part) // ignored, because it is gone once it is in place
	sum := sha256.New()
	err = copyAll(ctx, &counter{out: io.MultiWriter(f, sum), step: func(n int) { t.moved(n, p.Path) }}, res)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if tag := strings.Trim(res.Header.Get("ETag"), `"`); tag != "" && tag != hex.EncodeToString(sum.Sum(nil)) {
		return errors.New("the received content does not match the service's hash; try again")
	}
	if err := t.root.Rename(part, p.local); err != nil {
		return err
	}
	t.finished()
	return nil
}

func hashFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// copyAll copies a body and fails if it ends early.
func copyAll(ctx context.Context, out io.Writer, res *http.Response) error {
	_, err := io.Copy(out, res.Body)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the download was interrupted; try again")
	}
	return err
}

// A reader reports the number of bytes read. The file is a named field, because otherwise its
// WriteTo would be used and nothing reported.
type reader struct {
	file *os.File
	step func(n int)
}

func (r *reader) Close() error { return r.file.Close() }

func (r *reader) Read(b []byte) (int, error) {
	n, err := r.file.Read(b)
	if n > 0 {
		r.step(n)
	}
	return n, err
}

// A counter reports the bytes written: each receives the sum, step each part.
type counter struct {
	out  io.Writer
	n    int64
	each func(n int64)
	step func(n int)
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.out.Write(b)
	c.n += int64(n)
	if c.each != nil {
		c.each(c.n)
	}
	if c.step != nil {
		c.step(n)
	}
	return n, err
}
