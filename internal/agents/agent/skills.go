package agent

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"stoa/internal/agents/drive"
	"stoa/internal/agents/skill"
	"stoa/internal/base/stoa"
)

// toolSkill reads a file of a skill.
const toolSkill = "skill_read"

var skillTool = stoa.Tool{
	Name: toolSkill, Description: "Read the instructions of a skill (SKILL.md), or another of its files.",
	Parameters: `{"type":"object","properties":{"name":{"type":"string"},"path":{"type":"string","description":"of a file in the skill; leave out for SKILL.md"},"fromLine":{"type":"integer","minimum":1}},"required":["name"],"additionalProperties":false}`,
}

// chooseSkills determines the skills of the session when it begins or gets another version of the agent: the reviewed ones that have not
// changed. They stay the same until then, because the list is a part of the prefix.
func (w *Worker) chooseSkills(ctx context.Context, p *prompt, of drive.Owner) (err error) {
	if len(p.settings.Skills) == 0 {
		return nil
	}
	if p.view != nil && p.view.Version == p.version {
		p.keepSkills(p.view.Skills)
		return nil
	}
	if p.skills == nil {
		if p.skills, err = skill.Active(ctx, w.cfg.Drives, of, p.settings.Skills); err != nil {
			return err
		}
	}
	if p.view == nil {
		p.view = &view{Memory: p.memory}
	}
	p.view.Skills, p.view.Version, p.view.dirty, p.view.Recorded = p.skillNames(), p.version, true, false
	return nil
}

// withholdSkills adds the reviewed skills that the session does not use to what the turn reports as withheld, before the tools, of which
// many may be left out.
func (t *turn) withholdSkills() {
	for _, s := range t.prompt.settings.Skills {
		if len(s.Files) > 0 && !slices.Contains(t.prompt.skillNames(), s.Name) {
			t.withheld, t.tellWithheld = slices.Insert(t.withheld, 0, stoa.Withheld{Skill: s.Name, Reason: stoa.WithheldChanged}), true
		}
	}
}

func (p *prompt) keepSkills(names []string) {
	p.skills = slices.DeleteFunc(slices.Clone(p.settings.Skills), func(s stoa.Skill) bool { return !slices.Contains(names, s.Name) })
}

func (p *prompt) skillNames() (names []string) {
	for _, s := range p.skills {
		names = append(names, s.Name)
	}
	return names
}

// hidden returns the beginning of the paths that the tools of the drive do not show; empty for none. Otherwise a changed skill could be
// read as a file.
func (p *prompt) hidden() string {
	if len(p.settings.Skills) == 0 {
		return ""
	}
	return skill.Root
}

// visible returns an error if the drive tools do not show a path. A file in place of the folder is not shown either, because the drive
// names a file of the folder when it refuses to write one there.
func (p *prompt) visible(path string) error {
	if h := p.hidden(); h != "" && strings.HasPrefix(path+"/", h) {
		return stoa.Errorf(stoa.CodeFileNotFound, "The folder %s is not among the files of the drive; skills are read with %s.", h, toolSkill)
	}
	return nil
}

// skillPassage is the result of skill_read.
type skillPassage struct {
	Skill  string   `json:"skill"`
	Path   string   `json:"path"`
	Server string   `json:"server,omitzero"` // where the skill was written
	Lines  string   `json:"lines"`
	Total  int      `json:"totalLines"`
	Text   string   `json:"text"`
	Others []string `json:"otherFiles,omitzero"`
	Note   string   `json:"note,omitzero"`
}

// skillRead implements skill_read. It reads the content that was reviewed, although the file may have changed since.
func (w *Worker) skillRead(ctx context.Context, p *prompt, who drive.Owner, name, file string, from int64) (any, error) {
	at := slices.IndexFunc(p.skills, func(s stoa.Skill) bool { return s.Name == name })
	if at < 0 {
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "There is no skill of that name; those of the list can be read.")
	}
	s := p.skills[at]
	out := skillPassage{Skill: s.Name, Path: skill.Main, Server: s.Source}
	if file != "" {
		out.Path = path.Clean(file)
	}
	i := slices.IndexFunc(s.Files, func(f stoa.SkillFile) bool { return f.Path == out.Path })
	if out.Path == skill.Main {
		for _, f := range s.Files {
			if f.Path != skill.Main {
				out.Others = append(out.Others, f.Path)
			}
		}
	}
	if i < 0 {
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "The skill has no file of that path. Its files are named in the result for %s.", skill.Main)
	}
	content, ok, err := w.cfg.Drives.Stored(ctx, who, s.Files[i].SHA256, skill.MaxText)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "The file has changed since this conversation began, and its former content is no longer stored. Go on without it.")
	case !utf8.Valid(content):
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "The file is not a text (%d bytes).", len(content))
	}
	lines := strings.SplitAfter(string(content), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	out.Total = len(lines)
	if from = max(from, 1); from > int64(len(lines)) {
		out.Note = "There are no lines in that range."
		return out, nil
	}
	budget := w.textBudget()
	for i, name := range out.Others { // at most half of the result
		if budget -= jsonLength(name) + 1; budget < w.textBudget()/2 {
			out.Others = append(out.Others[:i:i], fmt.Sprintf("and %d more", len(out.Others)-i))
			break
		}
	}
	text, last := fitLines(strings.Join(lines[from-1:], ""), from, int64(len(lines)), budget)
	out.Lines, out.Text = stoa.LineRange(from, last), text
	var notes []string
	if last == from && len(text) < len(lines[from-1]) {
		notes = append(notes, fmt.Sprintf("Line %d is too long and is cut.", last))
	}
	if last < int64(len(lines)) {
		notes = append(notes, fmt.Sprintf("Read on with fromLine %d.", last+1))
	}
	out.Note = strings.Join(notes, " ")
	return out, nil
}
