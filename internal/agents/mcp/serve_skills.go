package mcp

import (
	"context"
	"encoding/json"
	"mime"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"stoa/internal/base/stoa"
)

// The extension for skills: specification/stable/skills.mdx of github.com/modelcontextprotocol/ext-skills.
const (
	skillsExtension = "io.modelcontextprotocol/skills"
	skillScheme     = "skill://"
	skillMain       = "SKILL.md"
	skillAgents     = 10 // agents of a page
)

// SkillsOf are the skills of an agent that [Serve] offers to read.
type SkillsOf struct {
	Agent string // the first segment of their URIs
	List  func(context.Context) ([]AgentSkill, error)
}

// An AgentSkill is a skill that can be read.
type AgentSkill struct {
	Name  string
	Front json.RawMessage // the front matter of its SKILL.md
	Files []stoa.SkillFile
	Read  func(context.Context, stoa.SkillFile) ([]byte, error)
}

// A skillEntry is the Skill of the extension.
type skillEntry struct {
	URI         string          `json:"uri"`
	Frontmatter json.RawMessage `json:"frontmatter"`
	Resources   []skillResource `json:"resources"`
}

type skillResource struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

type listSkillsParams struct {
	sdk.ParamsBase
	Cursor string `json:"cursor,omitempty"`
}

type listSkillsResult struct {
	sdk.ResultBase
	ResultType string       `json:"resultType"`
	Skills     []skillEntry `json:"skills"`
	NextCursor string       `json:"nextCursor,omitempty"`
	TTL        int          `json:"ttlMs"` // 0, because a review changes what is served at any time
	CacheScope string       `json:"cacheScope"`
}

type getSkillParams struct {
	sdk.ParamsBase
	URI string `json:"uri"`
}

type getSkillResult struct {
	sdk.ResultBase
	ResultType string     `json:"resultType"`
	Skill      skillEntry `json:"skill"`
	TTL        int        `json:"ttlMs"`
	CacheScope string     `json:"cacheScope"`
}

// skillURI returns the URI of a file of a skill.
func skillURI(agent, name, file string) string {
	segments := append([]string{agent, name}, strings.Split(file, "/")...)
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return skillScheme + strings.Join(segments, "/")
}

func (s AgentSkill) entry(agent string) skillEntry {
	e := skillEntry{URI: skillURI(agent, s.Name, skillMain), Frontmatter: s.Front}
	for _, f := range s.Files {
		e.Resources = append(e.Resources, skillResource{URI: skillURI(agent, s.Name, f.Path), Digest: "sha256:" + f.SHA256, Size: f.Size})
	}
	return e
}

// findSkill returns the skill and the file of a URI; nil if there is none.
func findSkill(ctx context.Context, skills []SkillsOf, uri string) (agent string, s *AgentSkill, f stoa.SkillFile, err error) {
	rest, ok := strings.CutPrefix(uri, skillScheme)
	if text, wrong := url.PathUnescape(rest); ok && wrong == nil {
		agent, rest, _ = strings.Cut(text, "/")
		name, file, _ := strings.Cut(rest, "/")
		at := slices.IndexFunc(skills, func(o SkillsOf) bool { return o.Agent == agent })
		if at < 0 {
			return "", nil, f, nil
		}
		list, err := skills[at].List(ctx)
		if err != nil {
			return "", nil, f, err
		}
		for i := range list {
			if n := slices.IndexFunc(list[i].Files, func(f stoa.SkillFile) bool { return f.Path == file }); list[i].Name == name && n >= 0 {
				return agent, &list[i], list[i].Files[n], nil
			}
		}
	}
	return "", nil, f, nil
}

func noSuchSkill(uri string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "No skill is served at " + strconv.Quote(uri)}
}

// addSkills adds the methods of the extension.
func addSkills(server *sdk.Server, skills []SkillsOf) error {
	err := sdk.AddReceivingCustomMethod(server, "skills/list", func(ctx context.Context, _ *sdk.ServerSession, p *listSkillsParams) (*listSkillsResult, error) {
		from := 0
		if p != nil && p.Cursor != "" {
			n, err := strconv.Atoi(p.Cursor)
			if err != nil || n < 0 || n > len(skills) {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "The cursor is not of this list."}
			}
			from = n
		}
		out := &listSkillsResult{ResultType: "complete", Skills: []skillEntry{}, CacheScope: "private"}
		to := min(from+skillAgents, len(skills))
		for _, of := range skills[from:to] {
			list, err := of.List(ctx)
			if err != nil {
				return nil, err
			}
			for _, s := range list {
				out.Skills = append(out.Skills, s.entry(of.Agent))
			}
		}
		if to < len(skills) {
			out.NextCursor = strconv.Itoa(to)
		}
		return out, nil
	})
	if err != nil {
		return err
	}
	err = sdk.AddReceivingCustomMethod(server, "skills/get", func(ctx context.Context, _ *sdk.ServerSession, p *getSkillParams) (*getSkillResult, error) {
		uri := ""
		if p != nil {
			uri = p.URI
		}
		agent, s, f, err := findSkill(ctx, skills, uri)
		if err != nil {
			return nil, err
		}
		if s == nil || f.Path != skillMain {
			return nil, noSuchSkill(uri)
		}
		return &getSkillResult{ResultType: "complete", Skill: s.entry(agent), CacheScope: "private"}, nil
	})
	if err != nil {
		return err
	}
	server.AddResourceTemplate(&sdk.ResourceTemplate{Name: "skills", URITemplate: skillScheme + "{+path}", Description: "The files of the skills of agents, see skills/list."},
		func(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			_, s, f, err := findSkill(ctx, skills, req.Params.URI)
			if err != nil {
				return nil, err
			}
			if s == nil {
				return nil, noSuchSkill(req.Params.URI)
			}
			content, err := s.Read(ctx, f)
			if err != nil {
				return nil, err
			}
			c := &sdk.ResourceContents{URI: req.Params.URI, MIMEType: mime.TypeByExtension(path.Ext(f.Path))}
			if path.Ext(f.Path) == ".md" {
				c.MIMEType = "text/markdown"
			}
			if utf8.Valid(content) {
				c.Text = string(content)
			} else {
				c.Blob = content
			}
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{c}}, nil
		})
	return nil
}
