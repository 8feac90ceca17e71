package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"stoa/internal/agents/drive"
	"stoa/internal/base/client"
	"stoa/internal/base/contract"
	"stoa/internal/base/extract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

var viewFiles = view{"DriveFile", []column{
	{"Path", "path", flexible},
	{"Size", "size", size},
	{"Type", "mimeType", flexible},
	{"Changed", "updatedAt", when},
	{"Text", "textStatus", plain},
}}

var viewHits = view{"DriveHit", []column{
	{"Path", "path", plain},
	{"Line", "startLine", count},
	{"To", "endLine", count},
	{"Passage", "snippet", flexible},
	{"Place", "place", plain},
}}

var viewDrive = view{"Drive", []column{
	{"Files", "files", count},
	{"Size", "bytes", size},
	{"Earlier versions", "historyFiles", count},
	{"Size of versions", "historyBytes", size},
	{"Maximum files", "maxFiles", count},
	{"Maximum drive size", "maxBytes", size},
	{"Maximum file size", "maxFileBytes", size},
	{"Revision", "revision", count},
	{"Changed", "updatedAt", when},
}}

func (e *env) drive() *cobra.Command {
	c := group("drive", "Manage the files of an agent", `Manage the files of an agent, which are its knowledge. AGENT is an id, an external id, or a unique name. Paths
are relative, with / between folders.`)
	c.AddCommand(e.driveLs(), e.driveCat(), e.driveText(), e.drivePage(), e.driveReread(), e.drivePush(), e.drivePull(), e.driveSync(), e.driveRm(), e.driveMv(),
		e.driveSearch(), e.verb(verb{
			use: "info AGENT", short: "Show the usage of a drive", long: "Show the number and size of the files of a drive, and its limits.", example: "  stoa drive info support",
			op: "GET /api-agents/{AGENT}/drive", show: viewDrive,
		}), e.driveExport(), e.driveVersions(), e.driveRestore())
	return c
}

type remote struct {
	call *client.Client
	path string // path of the drive, below the API
}

type file struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`

	TextStatus extract.Status `json:"textStatus"`
	TextNote   string         `json:"textNote"`
}

// unread returns the path of a document that is not read, and why; "" for other files.
func (f file) unread() string {
	switch f.TextStatus {
	case "", extract.Ready, extract.Partial, extract.None:
		return ""
	}
	return fmt.Sprintf("%s (%s). %s", f.Path, f.TextStatus, strings.TrimSuffix(cmp.Or(f.TextNote, drive.Why(f.TextStatus)), "."))
}

func (r remote) files(ctx context.Context, prefix string) ([]file, error) {
	query := url.Values{}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	var out []file
	for row, err := range r.call.All(ctx, r.path+"/files", query, 0) {
		if err != nil {
			return nil, err
		}
		var f file
		if err := jsonx.Unmarshal(row, &f); err != nil {
			return nil, fmt.Errorf("the reply does not match the contract: %w", err)
		}
		out = append(out, f)
	}
	return out, nil
}

// onDrive completes c with do, which receives the drive of the agent that the first
// argument names, and the remaining arguments.
func (e *env) onDrive(c *cobra.Command, do func(ctx context.Context, r remote, o *output, args []string) error) *cobra.Command {
	return e.withDrive(c, e.output(c), do)
}

func (e *env) withDrive(c *cobra.Command, o *output, do func(ctx context.Context, r remote, o *output, args []string) error) *cobra.Command {
	return e.calling(c, o, func(ctx context.Context, call *client.Client, args []string) error {
		id, err := agentCollection.find(ctx, call, args[0])
		if err != nil {
			return err
		}
		return do(ctx, remote{call, "/api-agents/" + url.PathEscape(id) + "/drive"}, o, args[1:])
	})
}

func folder(name string) string {
	name = strings.Trim(path.Clean("/"+name), "/")
	if name == "" {
		return ""
	}
	return name + "/"
}

func (e *env) driveLs() *cobra.Command {
	c := command("ls AGENT [FOLDER]", "List files",
		`List the files and folders in a folder, or with -r all files below it. TEXT says whether the agent can search and
read a file: "ready" or "partial" if so, "none" for a file without a text such as an image, and otherwise why not.`,
		"  stoa drive ls support\n  stoa drive ls support handbook -r")
	deep := c.Flags().BoolP("recursive", "r", false, "list all files below the folder")
	return e.onDrive(c, func(ctx context.Context, r remote, o *output, args []string) error {
		prefix := ""
		if len(args) > 0 {
			prefix = folder(args[0])
		}
		query := url.Values{"prefix": {prefix}}
		if prefix == "" {
			query = url.Values{}
		}
		if *deep {
			return o.list(viewFiles, r.call.All(ctx, r.path+"/files", query, 0), 0, "No files.")
		}
		query.Set("delimiter", "/")
		folders, rows, err := r.folder(ctx, query)
		if err != nil {
			return err
		}
		return o.list(viewFiles, sequence(append(folders, rows...)), 0, "No files.")
	})
}

func (r remote) folder(ctx context.Context, query url.Values) (folders, files []jsonx.Value, err error) {
	query.Set("limit", fmt.Sprint(client.MaxPage))
	for {
		var page struct {
			Data           []jsonx.Value `json:"data"`
			CommonPrefixes []string      `json:"commonPrefixes"`
			NextCursor     *string       `json:"nextCursor"`
		}
		if _, err := r.call.JSON(ctx, http.MethodGet, r.path+"/files", query, nil, &page); err != nil {
			return nil, nil, err
		}
		for _, name := range page.CommonPrefixes {
			row, err := jsonx.Marshal(map[string]any{"path": name})
			if err != nil {
				return nil, nil, err
			}
			folders = append(folders, row)
		}
		files = append(files, page.Data...)
		if page.NextCursor == nil || *page.NextCursor == "" {
			return folders, files, nil
		}
		query.Set("cursor", *page.NextCursor)
	}
}

func (e *env) driveCat() *cobra.Command {
	c := command("cat AGENT PATH...", "Print files",
		"Print the content of files unchanged. A terminal prints only text.",
		"  stoa drive cat support handbook/refunds.md\n  stoa drive cat support logo.png > logo.png")
	return e.printing(c, "/files/content")
}

func (e *env) printing(c *cobra.Command, part string, more ...func(url.Values)) *cobra.Command {
	return e.withDrive(c, nil, func(ctx context.Context, r remote, _ *output, args []string) error {
		for _, name := range args {
			query := url.Values{"path": {name}}
			for _, add := range more {
				add(query)
			}
			res, err := r.call.Do(ctx, client.Request{Path: r.path + part, Query: query})
			if err != nil {
				return err
			}
			// A file is copied byte for byte, except to a terminal, because that would execute its control characters.
			if isTerminal(e.out) {
				err = e.copyBody(ctx, res)
			} else {
				err = copyAll(ctx, e.out, res)
			}
			res.Body.Close()
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (e *env) driveText() *cobra.Command {
	c := command("text AGENT PATH", "Print the text of a file",
		`Print the text of a file as the agent reads it and searches it: that of a document, or a text file itself. A file
without a text is an error that says why.`,
		"  stoa drive text support contract.pdf\n  stoa drive text support contract.pdf | less")
	return e.printing(c, "/files/text")
}

func (e *env) drivePage() *cobra.Command {
	c := command("page AGENT PATH", "Print a page of a PDF as an image", "Print a page of a PDF as an image in PNG format.",
		"  stoa drive page support contract.pdf --page 3 > page.png")
	page := c.Flags().Int("page", 1, "number of the page")
	width := c.Flags().Int("width", 1000, "width of the image in pixels, at most 2000")
	return e.printing(c, "/files/page", func(query url.Values) {
		query.Set("page", fmt.Sprint(*page))
		query.Set("width", fmt.Sprint(*width))
	})
}

func (e *env) driveReread() *cobra.Command {
	return e.verb(verb{
		use: "reread AGENT PATH", short: "Read the text of a file again",
		long: `Read the text of a document again, or the text of a file in the encoding that you name. The content of the file does
not change.`,
		example: "  stoa drive reread support contract.pdf\n  stoa drive reread support prices.csv --encoding windows-1252",
		op:      "POST /api-agents/{AGENT}/drive/files/reread",
		fields:  []field{{"PATH", "path", asText, ""}, {"encoding", "textEncoding", asText, "the `name` of the text's encoding, such as windows-1252 or gbk"}},
		print: func(o *output, raw jsonx.Value) error {
			if o.raw() {
				return o.printJSON(raw)
			}
			var f file
			if err := jsonx.Unmarshal(raw, &f); err != nil {
				return err
			}
			if why := f.unread(); why != "" {
				e.say("Not read: %s.", why)
			} else {
				e.say("Read: %s.", f.Path)
			}
			return nil
		},
	})
}

func (e *env) driveRm() *cobra.Command {
	c := command("delete AGENT PATH...", "Delete files",
		"Delete files, or with -r folders with all their files. The service keeps earlier versions for a while.",
		"  stoa drive delete support old.md\n  stoa drive delete support -r drafts --yes")
	f := c.Flags()
	deep, yes := f.BoolP("recursive", "r", false, "delete folders"), f.BoolP("yes", "y", false, "do not ask for confirmation")
	dry := f.Bool("dry-run", false, "print what would be deleted, and change nothing")
	return e.withDrive(c, nil, func(ctx context.Context, r remote, _ *output, args []string) error {
		for _, name := range args {
			if err := e.remove(ctx, r, name, *deep, *yes, *dry); err != nil {
				return err
			}
		}
		return nil
	})
}

func (e *env) remove(ctx context.Context, r remote, name string, deep, yes, dry bool) error {
	query := url.Values{"path": {name}}
	if !deep {
		_, err := r.call.JSON(ctx, http.MethodGet, r.path+"/files/metadata", query, nil, nil)
		if err != nil {
			return err
		}
	} else {
		prefix := folder(name)
		if prefix == "" {
			return usagef("the folder to delete is missing")
		}
		in, err := r.files(ctx, prefix)
		if err != nil {
			return err
		}
		if len(in) == 0 { // possibly a file
			return e.remove(ctx, r, name, false, yes, dry)
		}
		var bytes int64
		for _, f := range in {
			bytes += f.Size
		}
		if dry {
			for _, f := range in {
				fmt.Fprintln(e.out, "delete "+oneLine(f.Path))
			}
			return nil
		}
		if err := e.confirm(yes, "Delete %s with %s (%s)?", prefix, some(len(in), "file", "files"), stoa.Size(bytes)); err != nil {
			return err
		}
		query = url.Values{"prefix": {prefix}, "recursive": {"true"}}
	}
	if dry {
		fmt.Fprintln(e.out, "delete "+oneLine(name))
		return nil
	}
	if _, err := r.call.JSON(ctx, http.MethodDelete, r.path+"/files", query, nil, nil); err != nil {
		return err
	}
	e.say("Deleted %s.", name)
	return nil
}

func (e *env) driveMv() *cobra.Command {
	c := command("mv AGENT FROM TO", "Rename or move a file",
		"Rename or move a file on the drive. If TO ends with /, it is a folder.",
		"  stoa drive mv support draft.md handbook/refunds.md\n  stoa drive mv support draft.md handbook/")
	over := c.Flags().Bool("overwrite", false, "replace an existing file")
	return e.onDrive(c, func(ctx context.Context, r remote, o *output, args []string) error {
		to := args[1]
		if strings.HasSuffix(to, "/") {
			to += path.Base(args[0])
		}
		body := map[string]any{"from": args[0], "to": to}
		if *over {
			body["overwrite"] = true
		}
		raw, err := r.call.JSON(ctx, http.MethodPost, r.path+"/files/move", nil, body, nil)
		if err != nil {
			return err
		}
		if o.raw() {
			return o.printJSON(raw)
		}
		e.say("Moved %s to %s.", args[0], to)
		return nil
	})
}

func (e *env) driveSearch() *cobra.Command {
	c := command("search AGENT WORDS...", "Search the text of the files",
		"Search the text of the files, best passages first.",
		"  stoa drive search support refund within 30 days")
	n := c.Flags().IntP("limit", "L", 10, "the maximum `number` of passages, up to 100")
	return e.onDrive(c, func(ctx context.Context, r remote, o *output, args []string) error {
		var found struct {
			Data []jsonx.Value `json:"data"`
			Cut  bool          `json:"cut"`
		}
		query := url.Values{"q": {strings.Join(args, " ")}, "limit": {fmt.Sprint(*n)}}
		if _, err := r.call.JSON(ctx, http.MethodGet, r.path+"/search", query, nil, &found); err != nil {
			return err
		}
		none := "No results; \"stoa drive ls -r\" shows the files."
		if found.Cut {
			e.say("The search timed out. There may be better passages: use rarer or more words.")
			none = "It had no results yet."
		}
		return o.list(viewHits, sequence(found.Data), 0, none)
	})
}

var viewFileVersions = view{"DriveVersion", []column{
	{"Version", "version", count},
	{"Size", "size", size},
	{"Current", "current", plain},
	{"Written", "createdAt", when},
	{"Replaced", "retiredAt", when},
	{"Type", "mimeType", flexible},
}}

func (e *env) driveVersions() *cobra.Command {
	return e.verb(verb{
		use: "versions AGENT PATH", short: "List the versions of a file",
		long:    "List the versions of a file, newest first, even if it was deleted. The last 20 are kept.",
		example: "  stoa drive versions support handbook/refunds.md",
		op:      "GET /api-agents/{AGENT}/drive/files/versions", fields: []field{{"PATH", "path", asText, ""}},
		print: func(o *output, raw jsonx.Value) error {
			var list struct {
				Data []jsonx.Value `json:"data"`
			}
			if err := jsonx.Unmarshal(raw, &list); err != nil {
				return err
			}
			return o.list(viewFileVersions, sequence(list.Data), 0, "No versions.")
		},
	})
}

var viewWritten = view{"WrittenDriveFile", []column{
	{"Path", "path", plain}, {"Version", "version", count}, {"Size", "size", size}, {"Changed", "updatedAt", when}, {"Text", "textStatus", plain},
}}

func (e *env) driveRestore() *cobra.Command {
	return e.onDrive(command("restore AGENT PATH [VERSION]", "Restore an earlier version of a file",
		`Restore an earlier version of a file, as a new version. The default for VERSION is the latest one that is not
current: this restores a deleted file, or the previous content of a replaced one.`,
		"  stoa drive restore support handbook/refunds.md\n  stoa drive restore support handbook/refunds.md 3"), func(ctx context.Context, r remote, o *output, args []string) error {
		var n int64
		if len(args) > 1 {
			var err error
			if n, err = strconv.ParseInt(args[1], 10, 64); err != nil || n < 1 {
				return usagef("%q is not a version; \"stoa drive versions\" lists them", args[1])
			}
		} else {
			var list struct {
				Data []jsonx.Value `json:"data"`
			}
			if _, err := r.call.JSON(ctx, http.MethodGet, r.path+"/files/versions", url.Values{"path": {args[0]}}, nil, &list); err != nil {
				return err
			}
			for _, row := range list.Data { // newest first
				var v contract.DriveVersion
				if err := jsonx.Unmarshal(row, &v); err != nil {
					return fmt.Errorf("the reply does not match the contract: %w", err)
				}
				if !v.Current {
					n = v.Version
					break
				}
			}
			if n == 0 {
				return fmt.Errorf("%s has no earlier version", args[0])
			}
		}
		raw, err := r.call.JSON(ctx, http.MethodPost, r.path+"/files/restore", nil, map[string]any{"path": args[0], "version": n}, nil)
		if err != nil {
			return err
		}
		return o.object(viewWritten, raw)
	})
}

func (e *env) driveExport() *cobra.Command {
	c := command("export AGENT [FILE]", "Download a drive as a zip archive",
		"Download all files of a drive as one zip archive, into a new file or to standard output.",
		"  stoa drive export support support.zip\n  stoa drive export support > support.zip")
	c.PreRunE = func(_ *cobra.Command, args []string) error {
		if len(args) == 1 && isTerminal(e.out) {
			return usagef("an archive cannot be printed on a terminal; name a file")
		}
		return nil
	}
	return e.withDrive(c, nil, func(ctx context.Context, r remote, _ *output, args []string) error {
		res, err := r.call.Do(ctx, client.Request{Path: r.path + "/export"})
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if len(args) == 0 {
			return copyAll(ctx, e.out, res)
		}
		n, err := e.download(ctx, res, args[0], "Downloading "+args[0])
		if err != nil {
			return err
		}
		e.say("Wrote %s, %s.", args[0], stoa.Size(n))
		return nil
	})
}

// download writes a reply to a new file and returns its size in bytes. It deletes the file after an error,
// because a second attempt requires that the name is free.
func (e *env) download(ctx context.Context, res *http.Response, name, what string) (n int64, err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return 0, err
	}
	p := e.progress()
	defer func() {
		p.done()
		if closed := f.Close(); err == nil {
			err = closed
		}
		if err != nil {
			os.Remove(name)
		}
	}()
	counted := &counter{out: f, each: func(n int64) { p.show("%s · %s", what, stoa.Size(n)) }}
	err = copyAll(ctx, counted, res)
	return counted.n, err
}

// A plan is the action of a transfer for one path.
type plan struct {
	Action string `json:"action"` // create, replace, delete, keep
	Path   string `json:"path"`   // on the drive
	Size   int64  `json:"size"`
	local  string // the local file; for a pull, relative to the target folder
}

func (o *output) printPlan(plans []plan) error {
	if o.raw() {
		raw, err := json.Marshal(plans)
		if err != nil {
			return err
		}
		return o.printJSON(raw)
	}
	for _, p := range plans {
		if p.Action == actKeep {
			continue
		}
		if _, err := fmt.Fprintf(o.e.out, "%s\t%s\n", p.Action, oneLine(p.Path)); err != nil {
			return err
		}
	}
	return nil
}
