package agent

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"stoa/internal/agents/drive"
	"stoa/internal/agents/session"
	"stoa/internal/agents/tool"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// Limits of a result of tool_find.
const (
	foundWhole = 3   // tools with their definitions
	foundNamed = 5   // further tools, by name
	foundText  = 200 // characters of the description of a further tool
	maxDetails = 200 // names of parameters of a tool that a search reads
)

// An agent with many tools of programs and servers does not send their definitions with every step. Its model finds them with tool_find,
// whose result contains the definitions, and calls them with tool_call. So the tools at the beginning of its requests never change, and what
// is found comes at the end, in a form that every wire has: the result of a call. See docs/decisions/0057-find-tools-by-calls.md.
//
// The search limits what a model reads, not what it may call: a call by a tool's own name, or of a tool that was not found, is planned too.
// A call of tool_call is planned, checked, approved, executed and shown as the call of the tool that it names; see [stoa.ToolCall.Meant]. Only
// what is sent back to the model names tool_call.

// searches reports whether the model searches its tools. A session does not stop to, because its model may have found some.
func (p *prompt) searches() bool {
	return p.settings.ToolSearch && (p.told.has(stoa.FindTool) || tool.Searches(slices.DeleteFunc(slices.Clone(p.external), isOfDrive)))
}

// isOfDrive reports whether a tool is one of the service that writes. It is listed, not searched.
func isOfDrive(t stoa.OfferedTool) bool { return t.Type == stoa.ToolDrive }

// isSearched reports whether a tool is one of those that a model which searches has to find.
func (p *prompt) isSearched(name string) bool {
	return slices.ContainsFunc(p.external, func(t stoa.OfferedTool) bool { return t.Name == name && !isOfDrive(t) })
}

// searchTools returns the built-in tools of a model that searches.
func (p *prompt) searchTools() []stoa.Tool {
	var servers []string
	for _, t := range p.external {
		name := "your programs"
		switch {
		case isOfDrive(t):
			continue
		case t.Type == stoa.ToolConnection:
			name, _, _ = strings.Cut(t.Name, "__")
		}
		if !slices.Contains(servers, name) {
			servers = append(servers, name)
		}
	}
	return []stoa.Tool{
		{
			Name: stoa.FindTool, Description: "Find tools that are not listed here, by what they do. There are many, of: " + strings.Join(servers, ", ") +
				". The result has the definitions of those that fit best. Call them with " + stoa.CallTool + ".",
			Parameters: `{"type":"object","properties":{"query":{"type":"string","description":"what the tool does, as a verb and a thing, such as: create issue comment; or the exact name of a tool"}},"required":["query"],"additionalProperties":false}`,
		},
		{
			Name: stoa.CallTool, Description: "Call a tool that " + stoa.FindTool + " has returned.",
			Parameters: `{"type":"object","properties":{"name":{"type":"string","description":"the name of the tool"},"arguments":{"type":"object","description":"its arguments, as its parameters define them","additionalProperties":true}},"required":["name","arguments"],"additionalProperties":false}`,
		},
	}
}

// goesThrough reports whether a call is of tool_call and names a tool that the model can call through it.
func (p *prompt) goesThrough(c stoa.ToolCall) bool {
	return p.search && c.Name == stoa.CallTool && p.isSearched(c.Named().Name)
}

// uncalled returns why a call of tool_call calls nothing.
func (p *prompt) uncalled(c stoa.ToolCall) string {
	meant := c.Named()
	switch {
	case meant.Name == c.Name:
		return "The arguments of " + stoa.CallTool + " are the name of a tool and its arguments; nothing was done."
	case c.Through:
		return fmt.Sprintf(tooManyAtOnce, session.CallsPerStep)
	case slices.ContainsFunc(p.offers(), func(t stoa.Tool) bool { return t.Name == meant.Name }):
		return fmt.Sprintf("%s is called by its name, not with %s; nothing was done.", meant.Name, stoa.CallTool)
	case withholds(p.withheld, meant.Name):
		return p.unavailable(meant.Name) + " Nothing was done."
	}
	return fmt.Sprintf("There is no tool of the name %q; nothing was done. Find tools with %s.", session.CutRunes(meant.Name, 100), stoa.FindTool)
}

type foundTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitzero"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// A foundTool without parameters is only named.
type foundTools struct {
	Tools []foundTool `json:"tools"` // the best first
	Note  string      `json:"note,omitzero"`
}

// findTools implements tool_find. Tools whose definitions do not fit into the budget, in bytes, are only named; the only exception is a tool
// whose name is the query, because a model could not learn its parameters otherwise.
func (p *prompt) findTools(query string, budget int) foundTools {
	all := slices.DeleteFunc(slices.Clone(p.external), isOfDrive)
	out := foundTools{Tools: []foundTool{}}
	query = strings.TrimSpace(query)
	named := slices.IndexFunc(all, func(t stoa.OfferedTool) bool { return t.Name == query })
	best := []int{named}
	if named < 0 {
		best = ranked.of(all).Best(query, foundWhole+foundNamed)
	}
	for place, i := range best {
		t := foundTool{all[i].Name, all[i].Description, json.RawMessage(all[i].Parameters)}
		if size := jsonLength(t.Description) + len(t.Parameters) + len(t.Name) + 60; named >= 0 || place < foundWhole && size <= budget {
			budget -= size
		} else {
			t.Parameters, t.Description = nil, session.CutRunes(t.Description, foundText)
			out.Note = "Find a tool by its exact name to get the parameters that are missing here."
		}
		out.Tools = append(out.Tools, t)
	}
	if len(best) == 0 {
		out.Note = "Nothing was found. Other words may help: a verb and a thing, as a reference of an API names them."
	}
	return out
}

// ranked contains rankings of tools, because making one takes longer than many searches, and the sessions of an agent search the same tools.
var ranked rankings

const maxRanked = 10_000 // tools, of some kilobytes each

type rankings struct {
	mu   sync.Mutex
	size int
	all  map[string]*drive.Ranking
}

// of returns the ranking of a list of tools.
func (r *rankings) of(tools []stoa.OfferedTool) *drive.Ranking {
	h := sha256.New()
	for _, t := range tools {
		fmt.Fprintf(h, "%q %s %q %s\n", t.Name, t.SHA256, t.IdempotencyArgument, t.Effects)
	}
	key := string(h.Sum(nil))
	r.mu.Lock()
	made := r.all[key]
	r.mu.Unlock()
	if made != nil {
		return made
	}
	list := make([]drive.Described, len(tools))
	for i, t := range tools {
		list[i] = drive.Described{Name: t.Name, Title: t.Title, Description: t.Description, Details: parameterNames(t.Parameters), Reads: t.Effects == stoa.EffectsRead}
	}
	made = drive.NewRanking(list)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size += len(tools); r.all == nil || r.size > maxRanked {
		r.size, r.all = len(tools), map[string]*drive.Ranking{}
	}
	r.all[key] = made
	return made
}

// parameterNames returns the names of parameters, and of their members.
func parameterNames(schema string) string {
	var names []string
	var walk func(v map[string]any, depth int)
	walk = func(v map[string]any, depth int) {
		properties, _ := v["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) { // so that the order of a map does not matter
			if len(names) < maxDetails {
				names = append(names, name)
			}
			if of, ok := properties[name].(map[string]any); ok && depth < 3 {
				walk(of, depth+1)
			}
		}
	}
	var v map[string]any
	if json.Unmarshal([]byte(schema), &v) == nil {
		walk(v, 1)
	}
	return strings.Join(names, " ")
}

// foundIn returns what a step's results of tool_find say about tools.
func foundIn(s *stoa.Step) (list []toolState) {
	for j, c := range s.Calls {
		if c.Name != stoa.FindTool || j >= len(s.Results) || s.Results[j] == nil || s.Results[j].IsError {
			continue
		}
		var found foundTools
		if jsonx.Unmarshal([]byte(s.Results[j].Content), &found) != nil {
			continue
		}
		for _, t := range found.Tools {
			if len(t.Parameters) == 0 {
				continue
			}
			list = append(list, toolState{Name: t.Name, SHA256: definitionHash(stoa.Tool{Name: t.Name, Description: t.Description, Parameters: string(t.Parameters)})})
		}
	}
	return list
}
