// Package skill reads skills in the format of agentskills.io: it checks SKILL.md by the rules of the reference validator
// skills-ref, unpacks archives of skills, and compares the skills in a drive with those that somebody has reviewed. It stores
// nothing: the reviewed state is part of an agent's settings, because who may write files must not change what the agent obeys.
//
// Start at [Read]; see [Active] for what a session gets.
package skill

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	yaml "github.com/oasdiff/yaml3"
	"golang.org/x/text/unicode/norm"

	"stoa/internal/agents/remote"
	"stoa/internal/base/stoa"
)

// Main is the file with the instructions of a skill.
const Main = "SKILL.md"

// Limits of the format.
const (
	maxName          = 64    // characters
	maxDescription   = 1_024 // characters
	maxCompatibility = 500   // characters
	maxFront         = 64 << 10
	maxNested        = 20
)

// known are the fields of the front matter that the format has.
var known = []string{"name", "description", "license", "allowed-tools", "metadata", "compatibility"}

// A Skill is the front matter of a SKILL.md and what is wrong with it. A skill with errors cannot be used.
type Skill struct {
	Name          string
	Description   string
	License       string
	Compatibility string
	AllowedTools  string // shown only: it grants nothing
	Metadata      map[string]string
	Errors        []string
	Warnings      []string
	// Front is the front matter as JSON, as the skills extension of MCP sends it; nil if it cannot be read.
	Front json.RawMessage
}

// Read reads the text of a SKILL.md. Folder is the name of the folder that contains it; an empty one is not compared with the
// name. The errors are those of skills-ref, except that unknown fields are warnings, because the format grows.
func Read(folder string, text []byte) Skill {
	var s Skill
	front, err := frontOf(text)
	if err == nil {
		err = s.read(front)
	}
	if err != nil {
		s.Errors = append(s.Errors, err.Error())
		return s
	}
	s.check(folder, front)
	if HasUnseen(string(text)) {
		s.Warnings = append(s.Warnings, Main+" has characters that cannot be seen")
	}
	return s
}

// HasUnseen reports whether a text has characters that a model reads and a reviewer does not see. Those of emoji do not count.
func HasUnseen(text string) bool {
	text = strings.NewReplacer("\r", "", "\u200d", "", "\ufe0f", "").Replace(text)
	return remote.Visible(text) != text
}

// frontOf returns the mapping between the first two occurrences of "---". As in skills-ref, the second one may be anywhere.
func frontOf(text []byte) (*yaml.Node, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("SKILL.md is not valid UTF-8")
	}
	parts := strings.SplitN(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(text)), "---", 3)
	switch {
	case parts[0] != "" || len(parts) == 1:
		return nil, errors.New("SKILL.md must start with YAML front matter (---)")
	case len(parts) < 3:
		return nil, errors.New("the front matter of SKILL.md is not closed with ---")
	case len(parts[1]) > maxFront:
		return nil, fmt.Errorf("the front matter of SKILL.md is larger than %d KiB", maxFront>>10)
	}
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(parts[1]), &root); err != nil {
		return nil, fmt.Errorf("the front matter of SKILL.md is not valid YAML: %s", strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "\n", " "))
	}
	if len(root.Content) != 1 || root.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("the front matter of SKILL.md must be a YAML mapping")
	}
	if err := strict(root.Content[0], 0); err != nil {
		return nil, err
	}
	return root.Content[0], nil
}

// strict refuses what StrictYAML refuses: tags, anchors, flow style, equal keys, and sibling mappings with different indentation.
func strict(n *yaml.Node, depth int) error {
	wrong := func(what string) error {
		return fmt.Errorf("line %d of the front matter: %s", n.Line, what)
	}
	switch {
	case depth > maxNested:
		return wrong("it is nested too deeply")
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return wrong("anchors and aliases are not allowed")
	case n.Style&yaml.TaggedStyle != 0:
		return wrong("tags are not allowed")
	case n.Style&yaml.FlowStyle != 0:
		return wrong("flow style ({} or []) is not allowed; put the text in quotes")
	}
	column, keys := 0, map[string]bool{}
	for i, c := range n.Content {
		if err := strict(c, depth+1); err != nil {
			return err
		}
		if n.Kind != yaml.MappingNode {
			continue
		}
		if i%2 == 0 {
			if c.ShortTag() == "!!merge" {
				n = c
				return wrong("merge keys (<<) are not allowed")
			}
			if keys[c.Value] {
				n = c
				return wrong(fmt.Sprintf("the key %q occurs twice", c.Value))
			}
			keys[c.Value] = true
		} else if c.Kind == yaml.MappingNode {
			if column == 0 {
				column = c.Column
			}
			if n = c; c.Column != column {
				return wrong("the indentation differs from that of the mapping before")
			}
		}
	}
	return nil
}

// read sets the fields that are texts, and Front.
func (s *Skill) read(front *yaml.Node) (err error) {
	into := map[string]*string{"name": &s.Name, "description": &s.Description, "license": &s.License, "compatibility": &s.Compatibility, "allowed-tools": &s.AllowedTools}
	for i := 0; i+1 < len(front.Content); i += 2 {
		key, value := front.Content[i].Value, front.Content[i+1]
		if text := into[key]; text != nil && value.Kind == yaml.ScalarNode {
			*text = strings.TrimSpace(value.Value)
		}
		if key == "metadata" && value.Kind == yaml.MappingNode {
			s.Metadata = map[string]string{}
			for j := 0; j+1 < len(value.Content); j += 2 {
				s.Metadata[value.Content[j].Value] = value.Content[j+1].Value
			}
		}
	}
	s.Name = norm.NFKC.String(s.Name)
	s.Front, err = json.Marshal(plain(front))
	return err
}

// plain returns a node as a value for JSON. Numbers keep their spelling.
func plain(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		members := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			members[n.Content[i].Value] = plain(n.Content[i+1])
		}
		return members
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, c := range n.Content {
			list[i] = plain(c)
		}
		return list
	}
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return json.Number(n.Value)
		}
	}
	return n.Value
}

func (s *Skill) check(folder string, front *yaml.Node) {
	wrong := func(format string, args ...any) { s.Errors = append(s.Errors, fmt.Sprintf(format, args...)) }
	fields := map[string]*yaml.Node{}
	var unknown []string
	for i := 0; i+1 < len(front.Content); i += 2 {
		key := front.Content[i].Value
		if fields[key] = front.Content[i+1]; !slices.Contains(known, key) {
			unknown = append(unknown, key)
		}
	}
	slices.Sort(unknown)
	if len(unknown) > 0 {
		s.Warnings = append(s.Warnings, "unknown fields: "+strings.Join(unknown, ", "))
	}
	for _, name := range []string{"name", "description"} {
		switch n := fields[name]; {
		case n == nil:
			wrong("the field %s is missing", name)
		case n.Kind != yaml.ScalarNode || strings.TrimSpace(n.Value) == "":
			wrong("the field %s must be a text and not empty", name)
		case name == "name":
			s.checkName(folder, wrong)
		case utf8.RuneCountInString(n.Value) > maxDescription: // with the spaces around it, as skills-ref counts
			wrong("the description has %d characters, and the limit is %d", utf8.RuneCountInString(n.Value), maxDescription)
		}
	}
	if n := fields["compatibility"]; n != nil {
		switch size := utf8.RuneCountInString(n.Value); {
		case n.Kind != yaml.ScalarNode:
			wrong("the field compatibility must be a text")
		case size > maxCompatibility:
			wrong("compatibility has %d characters, and the limit is %d", size, maxCompatibility)
		}
	}
}

func (s *Skill) checkName(folder string, wrong func(string, ...any)) {
	if n := utf8.RuneCountInString(s.Name); n > maxName {
		wrong("the name has %d characters, and the limit is %d", n, maxName)
	}
	if s.Name != strings.ToLower(s.Name) {
		wrong("the name %q must be lower case", s.Name)
	}
	if strings.HasPrefix(s.Name, "-") || strings.HasSuffix(s.Name, "-") {
		wrong("the name %q must not begin or end with a hyphen", s.Name)
	}
	if strings.Contains(s.Name, "--") {
		wrong("the name %q must not contain two hyphens in a row", s.Name)
	}
	if strings.ContainsFunc(s.Name, func(r rune) bool { return r != '-' && !unicode.IsLetter(r) && !unicode.IsNumber(r) }) {
		wrong("the name %q may contain letters, digits and hyphens only", s.Name)
	}
	if folder != "" && norm.NFKC.String(folder) != s.Name {
		wrong("the name %q must be that of its folder, %q", s.Name, folder)
	}
}

// Digest returns a hash over the paths, sizes and hashes of files: the state of a skill that a review refers to.
func Digest(files []stoa.SkillFile) string {
	list := slices.Clone(files)
	slices.SortFunc(list, func(a, b stoa.SkillFile) int { return strings.Compare(a.Path, b.Path) })
	var b strings.Builder
	for _, f := range list {
		fmt.Fprintf(&b, "%s %d %q\n", f.SHA256, f.Size, f.Path)
	}
	return Sum([]byte(b.String()))
}
