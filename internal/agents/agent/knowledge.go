package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"stoa/internal/agents/drive"
	"stoa/internal/agents/session"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// changedTokens is the maximum size of changed files that a session receives as messages.
const changedTokens = 2_000

// A view is the part of its agent's drive that a session's prompts contain. It does not change
// while the prompts grow, because a vendor reads their beginning from its cache: a file that was
// replaced since is sent once more, before the message of the next turn. A view is replaced when
// one of its files is deleted, when the changes are large, and when the prompts begin differently
// for another reason.
type view struct {
	Whole   bool          `json:"whole"` // whether the prompts contain all texts
	Files   []drive.Known `json:"files,omitempty"`
	Changes []change      `json:"changes,omitempty"`
	Skills  []string      `json:"skills,omitempty"` // names of those that the session uses
	Version int64         `json:"version,omitzero"` // of the agent, when they were determined
	// Memory is what the prompts say about the memory of the end user. It stays when the rest of the view is replaced.
	Memory *memoryView `json:"memory,omitempty"`
	// Recorded reports that a step has the view; the later steps with the same view do not repeat it.
	Recorded bool `json:"recorded,omitzero"`

	texts []string
	dirty bool // not stored yet
}

type change struct {
	Turn  int64         `json:"turn"`
	Files []drive.Known `json:"files"`
}

// readDrive reads the parts of the drive that the prompt needs, if the session may read the
// drive. The drive is included whole if it fits into a quarter of the window.
func (w *Worker) readDrive(ctx context.Context, p *prompt, of drive.Owner, window int64) error {
	if err := w.chooseSkills(ctx, p, of); err != nil || p.access == stoa.DriveNone {
		return err
	}
	k, err := w.cfg.Drives.Knowledge(ctx, of, min(w.cfg.KnowledgeSize, window/4), p.hidden())
	if err != nil {
		return err
	}
	p.named = false
	if p.view != nil {
		same, err := w.keepView(ctx, p, of, &k)
		if err != nil || same {
			return err
		}
	}
	if p.knowledge = k; p.view != nil || k.Stats.Files > 0 {
		p.view = &view{Whole: k.Whole, Files: k.Files, Skills: p.skillNames(), Version: p.version, Memory: p.memory, dirty: true}
	}
	return nil
}

// keepView sets the prompt's knowledge to that of its view, and reports whether it could: k is the
// current one.
func (w *Worker) keepView(ctx context.Context, p *prompt, of drive.Owner, k *drive.Knowledge) (bool, error) {
	v := p.view
	if v.Whole != k.Whole || (len(v.Files) == 0) != (len(k.Files) == 0) || slices.ContainsFunc(v.Changes, func(c change) bool { return c.Turn < p.from }) {
		return false, nil
	}
	known := map[string]drive.Known{}
	for _, f := range v.files() {
		known[f.Path] = f
	}
	var changed []drive.Known
	for _, f := range k.Files {
		if known[f.Path] != f {
			changed = append(changed, f)
		}
		delete(known, f.Path)
	}
	if len(known) > 0 { // because a file was deleted
		return false, nil
	}
	if len(changed) > 0 && len(p.steps) == 0 {
		v.Changes, v.dirty = append(v.Changes, change{p.turn, changed}), true
		v.Recorded = false
	}
	p.knowledge = *k
	if len(v.Changes) == 0 && len(changed) == 0 {
		return true, nil
	}
	total := int64(0)
	for _, c := range v.Changes {
		text, ok, err := w.cfg.Drives.KnownText(ctx, of, c.Files)
		if err != nil || !ok {
			return false, err
		}
		v.texts = append(v.texts, text)
		total += stoa.EstimateTokens(len(text))
	}
	text, ok, err := w.cfg.Drives.KnownText(ctx, of, v.Files)
	if err != nil || !ok || total > changedTokens {
		return false, err
	}
	p.knowledge.Text, p.knowledge.Files = text, v.files()
	return true, nil
}

// files returns the newest known content of each file.
func (v *view) files() []drive.Known {
	list := slices.Clone(v.Files)
	for _, c := range v.Changes {
		for _, f := range c.Files {
			if at := slices.IndexFunc(list, func(old drive.Known) bool { return old.Path == f.Path }); at >= 0 {
				list[at] = f
			} else {
				list = append(list, f)
			}
		}
	}
	return list
}

// changed returns the text of the changes before the turns [first, last).
func (p *prompt) changed(first, last int64) string {
	if p.view == nil || p.access == stoa.DriveNone {
		return ""
	}
	var b strings.Builder
	for i, c := range p.view.Changes {
		if c.Turn >= first && c.Turn < last && i < len(p.view.texts) {
			b.WriteString(p.view.texts[i])
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return changesText + b.String()
}

func (p *prompt) storeView(ch *session.Transition) error {
	if p.view == nil || !p.view.dirty {
		return nil
	}
	text, err := jsonx.Marshal(p.view)
	if err != nil {
		return err
	}
	ch.KeepView(string(text))
	return nil
}

func readView(text string) (*view, error) {
	if text == "" {
		return nil, nil
	}
	v := &view{}
	if err := jsonx.Unmarshal([]byte(text), v); err != nil {
		return nil, fmt.Errorf("read the view of a session: %w", err)
	}
	return v, nil
}
