package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/text/unicode/norm"

	"stoa/internal/agents/remote"
)

// Limits of the skills that are read from a server.
const (
	maxSkillFiles  = 500
	maxSkillBytes  = 8 << 20
	maxSkillReply  = 12 << 20 // because content that is not text is in base64
	maxSkillListed = 1_000
)

// A RemoteSkill is a skill of a server. Its files have the digests of its entry.
type RemoteSkill struct {
	URI   string
	Name  string
	Front json.RawMessage   // the front matter in its entry, which must be that of its SKILL.md
	Files map[string][]byte // by their paths in the skill
}

// listedSkill is an entry with the parts that are read.
type listedSkill struct {
	URI         string          `json:"uri"`
	Frontmatter json.RawMessage `json:"frontmatter"`
	Resources   json.RawMessage `json:"resources"`
}

type listedSkills struct {
	sdk.ResultBase
	Skills     []listedSkill `json:"skills"`
	NextCursor string        `json:"nextCursor"`
}

// Skills reads skills of a server that declares the extension for skills: those with a name or URI in wanted, or all if that is empty.
// most is the maximum number. Its errors are [*remote.Error].
func (s Server) Skills(ctx context.Context, wanted []string, most int) ([]RemoteSkill, error) {
	s.Protocol = "" // because only a handshake says what the server declares
	c, err := s.open(ctx, maxSkillReply, false)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if r := c.session.InitializeResult(); r == nil || r.Capabilities == nil || r.Capabilities.Extensions[skillsExtension] == nil {
		return nil, remote.Against("The server does not declare the extension " + skillsExtension + ", so it offers no skills.")
	}
	listed, err := c.skills(ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range wanted {
		found, asked := slices.DeleteFunc(slices.Clone(listed), func(e listedSkill) bool { return w != e.URI && w != e.name() }), remote.Visible(remote.Cut(w, 200))
		if len(found) == 0 {
			return nil, remote.Against(fmt.Sprintf("The server lists no skill with the name or URI %s. It lists: %s.", asked, listedURIs(listed)))
		}
		if len(found) > 1 {
			return nil, remote.Against(fmt.Sprintf("The server lists %d skills with the name %s. Use the URI of one: %s.", len(found), asked, listedURIs(found)))
		}
	}
	if len(wanted) > 0 {
		listed = slices.DeleteFunc(listed, func(e listedSkill) bool { return !slices.Contains(wanted, e.URI) && !slices.Contains(wanted, e.name()) })
	}
	if len(listed) == 0 || len(listed) > most {
		return nil, remote.Against(fmt.Sprintf("The server lists %d skills, and 1 to %d can be imported at once.", len(listed), most))
	}
	left, files := int64(maxSkillBytes), maxSkillFiles
	var out []RemoteSkill
	for _, e := range listed {
		one, err := c.skill(ctx, e, &left, &files)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// listedURIs returns the URIs of the first skills of a server, for a message.
func listedURIs(listed []listedSkill) string {
	var all []string
	for _, e := range listed[:min(len(listed), 10)] {
		all = append(all, remote.Visible(remote.Cut(e.URI, 200)))
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}

// name returns the name of a skill, which its URI contains.
func (e listedSkill) name() string {
	name, _ := url.PathUnescape(path.Base(path.Dir(e.URI)))
	return name
}

func (c *connected) skills(ctx context.Context) (all []listedSkill, err error) {
	cursor := ""
	for range maxPages {
		c.wire.asked.keep(exchange{})
		page, err := sdk.CallCustomMethod[*listSkillsParams, *listedSkills](ctx, c.session, "skills/list", &listSkillsParams{Cursor: cursor})
		if err != nil {
			return nil, c.wire.asked.last().failure(ctx, err)
		}
		if page == nil { // the result is null
			return all, nil
		}
		all = append(all, page.Skills...)
		if page.NextCursor == "" || len(all) > maxSkillListed {
			return all, nil
		}
		cursor = page.NextCursor
	}
	return nil, remote.Against("The server's list of skills does not end.")
}

// skill reads the files of a skill and compares them with its entry. left and files are what may still be read.
func (c *connected) skill(ctx context.Context, e listedSkill, left *int64, files *int) (RemoteSkill, error) {
	out := RemoteSkill{URI: e.URI, Name: e.name(), Front: e.Frontmatter, Files: map[string][]byte{}}
	wrong := func(format string, args ...any) (RemoteSkill, error) {
		return out, remote.Against(fmt.Sprintf("The skill %s of the server cannot be imported: %s.", remote.Visible(remote.Cut(e.URI, 200)), fmt.Sprintf(format, args...)))
	}
	var resources []skillResource
	root, ok := strings.CutSuffix(e.URI, skillMain)
	switch {
	case !ok || len(e.URI) > 500:
		return wrong("its URI is too long, or not that of a %s", skillMain)
	case json.Unmarshal(e.Resources, &resources) != nil:
		return wrong("it has no list of files with digests, so that a review could not be about them")
	}
	if *files -= len(resources); *files < 0 {
		return wrong("there are more than %d files", maxSkillFiles)
	}
	for _, r := range resources {
		if *left -= max(r.Size, 0); *left < 0 {
			return wrong("the files have more than %d MiB", maxSkillBytes>>20)
		}
	}
	for _, r := range resources {
		rest, ok := strings.CutPrefix(r.URI, root)
		name, err := url.PathUnescape(rest)
		name = norm.NFC.String(name) // as the drive does
		if !ok || err != nil || !fs.ValidPath(name) || out.Files[name] != nil {
			return wrong("a file is outside its folder, or there twice")
		}
		c.wire.asked.keep(exchange{})
		got, err := c.session.ReadResource(ctx, &sdk.ReadResourceParams{URI: r.URI})
		if err != nil {
			return out, c.wire.asked.last().failure(ctx, err)
		}
		if got == nil || len(got.Contents) != 1 || got.Contents[0] == nil {
			return wrong("%s does not have one content", remote.Visible(name))
		}
		content := got.Contents[0].Blob
		if content == nil {
			content = []byte(got.Contents[0].Text)
		}
		if sum := sha256.Sum256(content); r.Digest != "sha256:"+hex.EncodeToString(sum[:]) || r.Size != int64(len(content)) {
			return wrong("%s is not what its digest says", remote.Visible(name))
		}
		out.Files[name] = append([]byte{}, content...)
	}
	if out.Files[skillMain] == nil {
		return wrong("its list of files has no %s", skillMain)
	}
	return out, nil
}
