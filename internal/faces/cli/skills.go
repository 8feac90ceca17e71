package cli

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	remotetool "stoa/internal/agents/remote"
	"stoa/internal/agents/skill"
	"stoa/internal/base/client"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

var viewSkills = view{"Skill", []column{
	{"Name", "name", objectName},
	{"State", "state", state},
	{"Used", "used", plain},
	{"Description", "description", flexible},
	{"Errors", "errors", flexible},
}}

var viewSkill = view{"Skill", append(slices.Clone(viewSkills.columns),
	column{"Digest", "digest", plain},
	column{"From", "source", plain},
	column{"License", "license", flexible},
	column{"Compatibility", "compatibility", flexible},
	column{"Allowed tools", "allowedTools", flexible},
	column{"Metadata", "metadata", flexible},
	column{"Warnings", "warnings", flexible},
	column{"Files", "files.path", flexible},
)}

func (e *env) skills() *cobra.Command {
	c := group("skills", "Manage the skills of agents", `Manage the skills of agents: folders with a SKILL.md in the format of agentskills.io. An agent uses a skill once
its files are reviewed, and gets it until they change. AGENT is an id, an external id, or a unique name.`)
	c.AddCommand(
		e.verb(verb{
			use: "list AGENT", short: "List the skills of an agent",
			long: "List the skills that an agent uses and those in its drive, with their state.", example: "  stoa skills list support",
			op: "GET /api-agents/{AGENT}/skills", rows: viewSkills, whole: true, none: "There are no skills. Import one with \"stoa skills import\".",
		}),
		e.skillsCheck(), e.skillsImport(), e.skillsReview(),
		e.verb(verb{
			use: "delete AGENT SKILL...", short: "Stop using skills",
			long: "Make an agent no longer use skills. Their files stay in its drive.", example: "  stoa skills delete support refunds --yes",
			op: "DELETE /api-agents/{AGENT}/skills/{SKILL}", ask: asks("Stop using %s?", "the skill", "skills"), did: "No longer used:",
		}),
	)
	return c
}

// localSkills returns the skills in a local file or folder: its files by their paths, or the archive as it is.
func localSkills(name string) (files map[string]string, archive []byte, err error) {
	files = map[string]string{}
	isFolder, err := collectFiles(files, name, "", false)
	if err != nil {
		return nil, nil, err
	}
	if !isFolder && filepath.Base(name) != skill.Main {
		info, err := os.Stat(name)
		if err == nil && info.Size() > skill.MaxBytes {
			err = fmt.Errorf("%s is larger than %s", name, stoa.Size(skill.MaxBytes))
		}
		if err != nil {
			return nil, nil, err
		}
		archive, err = os.ReadFile(name)
		return nil, archive, err
	}
	if !isFolder { // a SKILL.md stands for its folder
		return localSkills(filepath.Dir(name))
	}
	whole, err := filepath.Abs(name)
	if err != nil {
		return nil, nil, err
	}
	inside := map[string]string{}
	var roots []string
	for _, p := range slices.SortedFunc(maps.Keys(files), func(a, b string) int { return len(a) - len(b) }) {
		if strings.EqualFold(path.Base(p), skill.Main) && !slices.ContainsFunc(roots, func(r string) bool { return r == "." || strings.HasPrefix(p, r+"/") }) {
			roots = append(roots, path.Dir(p))
		}
	}
	base := filepath.Base(whole)
	if strings.HasPrefix(base, ".") && !slices.Contains(roots, ".") {
		base = "" // because an import leaves out names that begin with a dot, such as .claude
	}
	for p, local := range files {
		if slices.ContainsFunc(roots, func(r string) bool { return r == "." || strings.HasPrefix(p, r+"/") }) {
			inside[path.Join(base, p)] = local
		}
	}
	if len(inside) == 0 {
		return nil, nil, fmt.Errorf("there is no file %s in %s", skill.Main, name)
	}
	return inside, nil, nil
}

func (e *env) skillsCheck() *cobra.Command {
	c := command("check FOLDER...", "Check skills by the rules of agentskills.io",
		`Check skills on this machine: each folder with a SKILL.md, at any depth. The rules are those of the reference
validator skills-ref, except that unknown fields are warnings. It needs no service. The exit code is 1 if a skill is invalid.`,
		"  stoa skills check ./skills")
	c.RunE = func(_ *cobra.Command, args []string) error {
		invalid, all := 0, 0
		for _, name := range args {
			files, archive, err := localSkills(name)
			if archive != nil {
				err = usagef("%s is not a folder", name)
			}
			if err != nil {
				return err
			}
			for _, p := range slices.Sorted(maps.Keys(files)) {
				if !strings.EqualFold(path.Base(p), skill.Main) || isInner(files, p) {
					continue
				}
				text, err := os.ReadFile(files[p])
				if err != nil {
					return err
				}
				s := skill.Read(path.Base(path.Dir(p)), text)
				if path.Base(p) != skill.Main {
					s.Warnings = append(s.Warnings, "the file must be called "+skill.Main+" to be imported")
				}
				all++
				verdict := "valid"
				if len(s.Errors) > 0 {
					invalid++
					verdict = "invalid"
				}
				fmt.Fprintf(e.out, "%s: %s\n", clean(path.Dir(p)), verdict)
				for _, text := range s.Errors {
					fmt.Fprintf(e.out, "  %s\n", clean(text))
				}
				for _, text := range s.Warnings {
					fmt.Fprintf(e.out, "  warning: %s\n", clean(text))
				}
			}
		}
		if invalid > 0 {
			return fmt.Errorf("%d of %d skills are invalid", invalid, all)
		}
		return nil
	}
	return c
}

// isInner reports whether a SKILL.md is inside another skill.
func isInner(files map[string]string, p string) bool {
	for dir := path.Dir(path.Dir(p)); dir != "."; dir = path.Dir(dir) {
		if files[path.Join(dir, skill.Main)] != "" {
			return true
		}
	}
	return false
}

func (e *env) skillsImport() *cobra.Command {
	c := command("import AGENT [SOURCE]...", "Copy skills to the drive of an agent",
		`Copy skills to the drive of an agent: from folders (of one skill, or of many, such as a git checkout), zip or
tar.gz archives. Each replaces the skill of its name. Names that begin with a dot are left out, and links are not followed.
With --connection they come from a server that declares the extension io.modelcontextprotocol/skills.
The agent does not use what is new or changed before "stoa skills review".`,
		"  stoa skills import support ./skills\n  stoa skills import support refunds.zip\n  stoa skills import support --connection crm --skill refunds")
	connection := c.Flags().String("connection", "", "the `connection` to import from, by its name or id")
	names := c.Flags().StringArray("skill", nil, "with --connection, the `name` or URI of a skill; repeatable (default all)")
	o := e.output(c)
	return e.calling(c, o, func(ctx context.Context, call *client.Client, args []string) error {
		agent, err := agentCollection.find(ctx, call, args[0])
		if err != nil {
			return err
		}
		if (*connection == "") != (len(args) > 1) || *connection == "" && len(*names) > 0 {
			return usagef("name files or folders, or a --connection with any --skill")
		}
		var rows []jsonx.Value
		if *connection != "" {
			id, err := connectionCollection.find(ctx, call, *connection)
			if err != nil {
				return err
			}
			var list struct {
				Data []jsonx.Value `json:"data"`
			}
			if _, err := call.JSON(ctx, http.MethodPost, "/api-agents/"+url.PathEscape(agent)+"/skills", nil, contract.ImportServerSkills{ConnectionID: id, Skills: *names}, &list); err != nil {
				return err
			}
			rows = list.Data
		}
		for _, name := range args[1:] {
			files, archive, err := localSkills(name)
			if err == nil && archive == nil {
				archive, err = packed(files)
			}
			if err != nil {
				return err
			}
			raw, _, err := call.Bytes(ctx, client.Request{
				Method: http.MethodPost, Path: "/api-agents/" + url.PathEscape(agent) + "/skills/import", Once: true, Body: archive,
				Header: http.Header{"Content-Type": {"application/octet-stream"}},
			})
			if err != nil {
				return err
			}
			var list struct {
				Data []jsonx.Value `json:"data"`
			}
			if err := jsonx.Unmarshal(raw, &list); err != nil {
				return fmt.Errorf("the reply does not match the contract: %w", err)
			}
			rows = append(rows, list.Data...)
		}
		if err := o.list(viewSkills, sequence(rows), 0, ""); err != nil {
			return err
		}
		e.hint("Review them with: stoa skills review %s NAME", args[0])
		return nil
	})
}

// packed returns a zip archive of local files.
func packed(files map[string]string) ([]byte, error) {
	if len(files) > skill.MaxFiles {
		return nil, fmt.Errorf("there are %d files, and the limit is %d", len(files), skill.MaxFiles)
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	left := int64(skill.MaxBytes)
	for _, p := range slices.Sorted(maps.Keys(files)) {
		info, err := os.Stat(files[p])
		if err != nil {
			return nil, err
		}
		if left -= info.Size(); left < 0 {
			return nil, fmt.Errorf("the files have more than %s", stoa.Size(skill.MaxBytes))
		}
		content, err := os.ReadFile(files[p])
		if err != nil {
			return nil, err
		}
		w, err := z.Create(p)
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return b.Bytes(), err
}

func (e *env) skillsReview() *cobra.Command {
	c := command("review AGENT SKILL", "Review a skill and make an agent use it",
		`Without --accept, show what a review is about: the texts of a new skill, or what has changed since the last review.
The agent obeys these texts: read them. With --accept and the digest that is shown, the agent uses the skill as it was
shown. If its files have changed since, nothing is stored.`,
		"  stoa skills review support refunds\n  stoa skills review support refunds --accept 1f2e3d4c5b6a")
	accept := c.Flags().String("accept", "", "the `digest` that the review has shown")
	return e.onObject(agentCollection, c, func(ctx context.Context, call *client.Client, o *output, agent string, args []string) error {
		at := agent + "/skills/" + url.PathEscape(args[0])
		var s contract.Skill
		raw, err := call.JSON(ctx, http.MethodGet, at, nil, nil, &s)
		if err != nil {
			return err
		}
		full, _ := s.Digest.Get() // empty without files
		hash := strings.TrimPrefix(full, "sha256:")
		if c.Flags().Changed("accept") { // also with an empty variable
			given := strings.TrimPrefix(*accept, "sha256:")
			if len(given) < hashNeeded {
				return usagef("the digest %q is too short; \"stoa skills review\" shows it", *accept)
			}
			if !strings.HasPrefix(hash, given) {
				return errors.New("the files of the skill do not have that digest; review it again")
			}
			if raw, err = call.JSON(ctx, http.MethodPut, at, nil, contract.ReviewSkill{Digest: full}, nil); err != nil {
				return err
			}
			return o.object(viewSkill, raw)
		}
		if o.raw() {
			return o.printJSON(raw)
		}
		fmt.Fprintf(e.out, "%s  %s\n", clean(s.Name), s.State)
		if from, _ := s.Source.Get(); from != "" {
			fmt.Fprintf(e.out, "From the server %s\n", clean(from))
		}
		for _, text := range s.Errors {
			fmt.Fprintf(e.out, "Error: %s\n", clean(text))
		}
		for _, text := range s.Warnings {
			fmt.Fprintf(e.out, "Warning: %s\n", clean(text))
		}
		for _, f := range s.Files {
			change, _ := f.Change.Get()
			if s.Used && change == "" {
				continue
			}
			fmt.Fprintf(e.out, "\n%s  %s  %s\n", clean(f.Path), cmp.Or(change, "new"), stoa.Size(f.Size))
			was, _ := f.ReviewedText.Get()
			now, _ := f.Text.Get()
			if now == "" && change != "removed" && f.Size > 0 {
				fmt.Fprintln(e.out, "  (its text is not shown: it is not a text, or large)")
				continue
			}
			fmt.Fprint(e.out, remotetool.Visible(strings.ReplaceAll(changedLines(was, now), "\r\n", "\n")))
		}
		if len(s.Errors) == 0 && hash != "" && s.State != skill.StateActive {
			fmt.Fprintf(e.out, "\nTo use it as shown: stoa skills review %s %s --accept %s\n", path.Base(agent), clean(s.Name), hash[:hashShown])
		}
		return nil
	})
}

// changedLines returns the lines between the equal beginnings and ends of two texts.
func changedLines(was, now string) string {
	a, b := slices.Collect(strings.Lines(was)), slices.Collect(strings.Lines(now))
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	var out strings.Builder
	for _, line := range a {
		out.WriteString("- " + strings.TrimSuffix(line, "\n") + "\n")
	}
	for _, line := range b {
		out.WriteString("+ " + strings.TrimSuffix(line, "\n") + "\n")
	}
	return out.String()
}
