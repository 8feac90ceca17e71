package api

import (
	"context"
	"encoding/json" // because it decodes numbers alike
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"stoa/internal/agents/drive"
	"stoa/internal/agents/remote"
	"stoa/internal/agents/skill"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Limits of the texts of a skill in a reply.
const (
	maxSkillText  = 64 << 10 // bytes of a file
	maxSkillTexts = 4 << 20  // bytes of all files
)

type bySkill struct {
	byID
	Name string `path:"name"`
}

// skillsOf returns the drive of a request, and the skills that its agent uses.
func (s *Drive) skillsOf(ctx context.Context, c stoa.Caller, agentID string) (drive.Owner, []stoa.Skill, error) {
	agent, err := store.Read(ctx, s.Store, func(tx *store.Tx) (stoa.Agent, error) {
		return tx.Setup().Agent(ctx, c.Account.ID, agentID)
	})
	return drive.Owner{AccountID: c.Account.ID, AgentID: agentID}, agent.CallSettings().Skills, err
}

// skillOf returns a skill that an agent uses or that is in its drive.
func (s *Drive) skillOf(ctx context.Context, c stoa.Caller, q bySkill) (drive.Owner, skill.State, error) {
	who, used, err := s.skillsOf(ctx, c, q.ID)
	if err != nil {
		return who, skill.State{}, err
	}
	folder := norm.NFC.String(q.Name)
	var reviewed *stoa.Skill
	if at := slices.IndexFunc(used, func(u stoa.Skill) bool { return u.Name == folder }); at >= 0 {
		reviewed = &used[at]
	}
	if _, err := drive.ParsePath(skill.In(folder, skill.Main)); err != nil || strings.Contains(folder, "/") {
		return who, skill.State{}, noSkill()
	}
	state, err := skill.StateOf(ctx, s.Drives, who, folder, reviewed)
	if err == nil && reviewed == nil && len(state.Files) == 0 {
		err = noSkill()
	}
	return who, state, err
}

func noSkill() error {
	return stoa.Errorf(stoa.CodeNotFound, "The agent does not use a skill of this name, and its drive does not have it.").At("name")
}

func (s *Drive) listSkills(ctx context.Context, in rest.Request[byID, rest.None]) (rest.Reply[contract.SkillList], error) {
	var reply rest.Reply[contract.SkillList]
	who, used, err := s.skillsOf(ctx, in.Caller, in.Params.ID)
	if err != nil {
		return reply, err
	}
	list, err := skill.States(ctx, s.Drives, who, used)
	reply.Body = contractSkills(list)
	return reply, err
}

func contractSkills(list []skill.State) contract.SkillList {
	out := contract.SkillList{Data: []contract.Skill{}, MaxTokens: skill.MaxTokens}
	var active []stoa.Skill
	for _, one := range list {
		out.Data = append(out.Data, contractSkill(one))
		if one.Word() == skill.StateActive {
			active = append(active, *one.Reviewed)
		}
	}
	out.Tokens = skill.Tokens(active)
	return out
}

func contractSkill(s skill.State) contract.Skill {
	out := contract.Skill{
		Name: s.Folder, State: s.Word(), Used: s.Reviewed != nil && len(s.Reviewed.Files) > 0, Description: nullIfZero(cutText(s.Description)),
		License: nullIfZero(s.License), Compatibility: nullIfZero(s.Compatibility), AllowedTools: nullIfZero(s.AllowedTools), Metadata: s.Metadata,
		Files: []contract.SkillFile{}, Errors: append([]string{}, s.Errors...), Warnings: append([]string{}, s.Warnings...),
	}
	if out.Metadata == nil {
		out.Metadata = map[string]string{}
	}
	if len(s.Files) > 0 {
		out.Digest.Set(digest(skill.Digest(s.Files)))
	} else {
		out.Digest.SetNull()
	}
	var was []stoa.SkillFile
	if s.Reviewed != nil {
		was, out.Source = s.Reviewed.Files, nullIfZero(s.Reviewed.Source)
		if out.Used {
			out.Description = nullIfZero(s.Reviewed.Description)
		}
	} else {
		out.Source.SetNull()
	}
	for _, f := range s.Files {
		file := contract.SkillFile{Path: f.Path, Size: f.Size, Digest: nullIfZero(digest(f.SHA256)), ReviewedDigest: nullIfZero(""), Change: nullIfZero("")}
		switch at := slices.IndexFunc(was, func(o stoa.SkillFile) bool { return o.Path == f.Path }); {
		case at >= 0:
			if file.ReviewedDigest = nullIfZero(digest(was[at].SHA256)); was[at].SHA256 != f.SHA256 {
				file.Change.Set("changed")
			}
		case out.Used:
			file.Change.Set("added")
		}
		out.Files = append(out.Files, file)
	}
	for _, f := range was {
		if !slices.ContainsFunc(s.Files, func(o stoa.SkillFile) bool { return o.Path == f.Path }) {
			out.Files = append(out.Files, contract.SkillFile{Path: f.Path, Size: f.Size, Digest: nullIfZero(""), ReviewedDigest: nullIfZero(digest(f.SHA256)), Change: nullIfZero("removed")})
		}
	}
	return out
}

func contractPins(list []stoa.Skill) []contract.AgentSkill {
	out := make([]contract.AgentSkill, len(list))
	for i, s := range list {
		out[i] = contract.AgentSkill{Name: s.Name, Description: s.Description, Source: nullIfZero(s.Source), Files: []contract.AgentSkillFile{}}
		for _, f := range s.Files {
			out[i].Files = append(out[i].Files, contract.AgentSkillFile{Path: f.Path, Size: f.Size, Digest: digest(f.SHA256)})
		}
	}
	return out
}

// cutText shortens the description of an invalid skill.
func cutText(text string) string {
	if utf8.RuneCountInString(text) <= 2_000 {
		return text
	}
	return string([]rune(text)[:2_000])
}

func digest(sha256 string) string { return "sha256:" + sha256 }

func (s *Drive) getSkill(ctx context.Context, in rest.Request[bySkill, rest.None]) (rest.Reply[contract.Skill], error) {
	var reply rest.Reply[contract.Skill]
	who, state, err := s.skillOf(ctx, in.Caller, in.Params)
	if err != nil {
		return reply, err
	}
	reply.Body = contractSkill(state)
	left, unseen := maxSkillTexts, []string(nil)
	read := func(sha256 string) (string, error) {
		if sha256 == "" || left <= 0 {
			return "", nil
		}
		text, _, err := s.Drives.Stored(ctx, who, strings.TrimPrefix(sha256, "sha256:"), maxSkillText)
		if stoa.CodeOf(err) == stoa.CodeTooLarge || !utf8.Valid(text) {
			return "", nil
		}
		left -= len(text)
		return string(text), err
	}
	for i := range reply.Body.Files {
		f := &reply.Body.Files[i]
		if reply.Body.Used && orZero(f.Change) == "" {
			continue
		}
		now, err := read(orZero(f.Digest))
		if err != nil {
			return reply, err
		}
		was, err := read(orZero(f.ReviewedDigest))
		if err != nil {
			return reply, err
		}
		f.Text, f.ReviewedText = nullIfZero(now), nullIfZero(was)
		if f.Path != skill.Main && skill.HasUnseen(now) {
			unseen = append(unseen, f.Path)
		}
	}
	if more := len(unseen) - 10; more > 0 {
		unseen = append(unseen[:10], fmt.Sprintf("and %d more", more))
	}
	if len(unseen) > 0 {
		reply.Body.Warnings = append(reply.Body.Warnings, "files with characters that cannot be seen: "+strings.Join(unseen, ", "))
	}
	return reply, nil
}

func (s *Drive) reviewSkill(ctx context.Context, in rest.Request[bySkill, contract.ReviewSkill]) (rest.Reply[contract.Skill], error) {
	var reply rest.Reply[contract.Skill]
	_, state, err := s.skillOf(ctx, in.Caller, in.Params)
	if err != nil {
		return reply, err
	}
	if !isDigest(in.Body.Digest) {
		return reply, stoa.Errorf(stoa.CodeInvalidValue, "The digest must be that of the skill, such as sha256:9f86….").At("digest")
	}
	if digest(skill.Digest(state.Files)) != in.Body.Digest {
		return reply, stoa.Errorf(stoa.CodePrecondition, "The files of the skill have changed since they were read: read the skill again.").At("digest")
	}
	pin, err := state.Pin()
	if err != nil {
		return reply, err
	}
	err = s.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Setup().EditAgent(ctx, in.Caller.Account.ID, in.Params.ID, func(a *stoa.Agent) (err error) {
			return editSkills(a, func(list []stoa.Skill) ([]stoa.Skill, error) { return skill.Put(list, pin) })
		})
		return err
	})
	state.Reviewed = &pin
	reply.Body = contractSkill(state)
	return reply, err
}

func isDigest(text string) bool {
	hex, ok := strings.CutPrefix(text, "sha256:")
	return ok && len(hex) == 64 && strings.Trim(hex, "0123456789abcdef") == ""
}

// editSkills changes the skills that an agent uses.
func editSkills(a *stoa.Agent, edit func([]stoa.Skill) ([]stoa.Skill, error)) (err error) {
	c := a.CallSettings()
	if c.Skills, err = edit(c.Skills); err == nil {
		a.SetCallSettings(c)
	}
	return err
}

func (s *Drive) removeSkill(ctx context.Context, in rest.Request[bySkill, rest.None]) (rest.Reply[rest.None], error) {
	return rest.NoContent(), s.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Setup().EditAgent(ctx, in.Caller.Account.ID, in.Params.ID, func(a *stoa.Agent) error {
			return editSkills(a, func(list []stoa.Skill) ([]stoa.Skill, error) {
				rest := slices.DeleteFunc(slices.Clone(list), func(o stoa.Skill) bool { return o.Name == norm.NFC.String(in.Params.Name) })
				if len(rest) == len(list) {
					return nil, stoa.Errorf(stoa.CodeNotFound, "The agent does not use a skill of this name.").At("name")
				}
				if len(rest) == 0 {
					return nil, nil // as if it had never used any
				}
				return rest, nil
			})
		})
		return err
	})
}

// importSkills writes the skills of an archive to the drive. It reviews none, because a key that may only write files must not change what
// the agent obeys.
func (s *Drive) importSkills(w http.ResponseWriter, in *rest.Request[byID, rest.None]) error {
	ctx := in.HTTP.Context()
	who, used, err := s.skillsOf(ctx, in.Caller, in.Params.ID)
	if err != nil {
		return err
	}
	body, err := s.ReadBytes(w, in.HTTP)
	if err != nil {
		return err
	}
	if len(body) == 0 || strings.HasPrefix(in.HTTP.Header.Get("Content-Type"), "multipart/") {
		return stoa.Errorf(stoa.CodeInvalidValue, "The archive was not imported: the body of the request must be the zip or tar.gz archive itself, not a form, and not empty.")
	}
	list, err := skill.Unpack(body)
	if err != nil {
		return stoa.Errorf(stoa.CodeInvalidValue, "The archive was not imported: %s.", err)
	}
	states, err := s.writeSkills(ctx, who, used, list)
	return rest.Answer(w, rest.Reply[contract.SkillList]{Body: contractSkills(states)}, err)
}

func (s *Drive) writeSkills(ctx context.Context, who drive.Owner, used []stoa.Skill, list []skill.Folder) (states []skill.State, err error) {
	if err := skill.Write(ctx, s.Drives, who, list); err != nil {
		return nil, singleError(err)
	}
	for _, f := range list {
		var reviewed *stoa.Skill
		if at := slices.IndexFunc(used, func(u stoa.Skill) bool { return u.Name == f.Name }); at >= 0 {
			reviewed = &used[at]
		}
		states = append(states, skill.State{Skill: f.Skill, Folder: f.Name, Reviewed: reviewed, Files: f.Manifest()})
	}
	return states, nil
}

// importServerSkills copies skills of a server to the drive. The agent's settings say where they come from before they have any file that
// could be reviewed.
func (s *Sessions) importServerSkills(ctx context.Context, in rest.Request[byID, contract.ImportServerSkills]) (rest.Reply[contract.SkillList], error) {
	var reply rest.Reply[contract.SkillList]
	accountID, agentID := in.Caller.Account.ID, in.Params.ID
	agent, err := store.Read(ctx, s.Store, func(tx *store.Tx) (stoa.Agent, error) {
		a, err := tx.Setup().Agent(ctx, accountID, agentID)
		if err != nil {
			return a, err
		}
		c, err := tx.Setup().Connection(ctx, accountID, in.Body.ConnectionID)
		if err == nil && c.SpaceID != a.SpaceID {
			err = stoa.Errorf(stoa.CodeConnectionNotFound, "There is no such connection in the space of the agent.")
		}
		if e := stoa.AsError(err); err != nil && e.Code == stoa.CodeConnectionNotFound {
			err = e.At("connectionId")
		}
		return a, err
	})
	if err != nil {
		return reply, err
	}
	c, found, err := s.agents.Tools.Skills(ctx, accountID, in.Body.ConnectionID, in.Body.Skills, skill.MaxSkills)
	if err != nil {
		return reply, err
	}
	who := drive.Owner{AccountID: accountID, AgentID: agentID}
	var list []skill.Folder
	var pins []stoa.Skill
	for _, one := range found {
		f := skill.Folder{Skill: skill.Read(one.Name, one.Files[skill.Main]), Files: one.Files}
		if len(f.Errors) == 0 && !sameJSON(f.Front, one.Front) {
			f.Errors = append(f.Errors, "the server lists another front matter than that of its "+skill.Main)
		}
		for p := range f.Files { // before the agent's settings name the skill
			if _, err := drive.ParsePath(skill.In(one.Name, p)); err != nil || len(p) > skill.MaxPath || remote.Visible(p) != p {
				f.Errors = append(f.Errors, fmt.Sprintf("the path of a file cannot be stored, or is longer than %d bytes", skill.MaxPath))
				break
			}
		}
		if len(f.Errors) > 0 {
			return reply, stoa.Errorf(stoa.CodeToolServer, "The skill %q of the server cannot be imported: %s.", one.Name, strings.Join(f.Errors, "; "))
		}
		source := remote.Visible(strings.Join(strings.Fields(c.Name+" "+one.URI), " "))
		if slices.ContainsFunc(pins, func(p stoa.Skill) bool { return p.Name == f.Name }) {
			return reply, stoa.Errorf(stoa.CodeConflict, "The server has two skills with the name %q. Import one of them by its URI.", f.Name).At("skills")
		}
		if err := s.drive.isFree(ctx, who, agent.CallSettings().Skills, f.Name, source); err != nil {
			return reply, err
		}
		list, pins = append(list, f), append(pins, stoa.Skill{Name: f.Name, Source: source})
	}
	var used []stoa.Skill
	err = s.Store.Write(ctx, func(tx *store.Tx) error {
		now, err := tx.Setup().EditAgent(ctx, accountID, agentID, func(a *stoa.Agent) error {
			return editSkills(a, func(list []stoa.Skill) (_ []stoa.Skill, err error) {
				for _, p := range pins {
					if slices.ContainsFunc(list, func(o stoa.Skill) bool { return o.Name == p.Name }) {
						continue // it is from the same source
					}
					if list, err = skill.Put(list, p); err != nil {
						return nil, err
					}
				}
				return list, nil
			})
		})
		used = now.CallSettings().Skills
		return err
	})
	if err != nil {
		return reply, err
	}
	states, err := s.drive.writeSkills(ctx, who, used, list)
	if stoa.CodeOf(err) == stoa.CodeInvalidPath { // of the server, not of the caller
		err = stoa.Errorf(stoa.CodeToolServer, "A file of the server cannot be stored. %s", stoa.AsError(err).Message)
	}
	reply.Body = contractSkills(states)
	return reply, err
}

// isFree returns an error if an agent or its drive already has a skill of a name from another source, because a server must not replace it.
func (s *Drive) isFree(ctx context.Context, who drive.Owner, used []stoa.Skill, name, source string) error {
	at := slices.IndexFunc(used, func(u stoa.Skill) bool { return u.Name == name })
	if at >= 0 && used[at].Source == source {
		return nil
	}
	files, err := skill.Files(ctx, s.Drives, who, name)
	if err == nil && (at >= 0 || len(files) > 0) {
		err = stoa.Errorf(stoa.CodeConflict, "The agent or its drive already has a skill %q from elsewhere. Stop using it and delete its folder %s first.", name, skill.In(name, "")).At("skills")
	}
	return err
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
