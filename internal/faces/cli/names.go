package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stoa/internal/base/client"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
)

// otherVerbs contains words of other programs, because users type what they know.
var otherVerbs = map[string][]string{
	"list": {"ls"}, "delete": {"rm"}, "get": {"show"},
	"ls": {"list"}, "rm": {"delete"}, "push": {"put"}, "pull": {"get"}, "cat": {"show"},
	"create": {"new"}, "start": {"create", "new"}, "update": {"edit"}, "tasks": {"schedules"},
}

// formerVerbs contains earlier names of commands. They must stay, because scripts use them.
var formerVerbs = map[string][]string{
	"webhooks create": {"add"}, "webhooks delete": {"remove"}, "budgets create": {"set"}, "budgets delete": {"remove"},
	"members update": {"set"}, "members delete": {"remove"}, "secrets create": {"set"}, "embeds logos create": {"upload"},
	"profiles delete": {"remove"}, "connections create": {"add"}, "tasks disable": {"pause"}, "tasks enable": {"resume"},
	"accounts disable": {"suspend"}, "accounts enable": {"resume"}, "config draft update": {"set"},
}

// addAliases adds the alternative verbs of every command, except those that a sibling command uses. Help does not list
// them, because each act has one word there.
func addAliases(c *cobra.Command) {
	for _, sub := range c.Commands() {
		_, path, _ := strings.Cut(sub.CommandPath(), " ")
		for _, verb := range slices.Concat(otherVerbs[sub.Name()], formerVerbs[path]) {
			if !slices.ContainsFunc(c.Commands(), func(s *cobra.Command) bool { return s.Name() == verb }) {
				sub.Aliases = append(sub.Aliases, verb)
			}
		}
		addAliases(sub)
	}
}

// near returns at most three names that are similar to name: equal except for case,
// with name as a prefix, or at most two typing mistakes away.
func near(name string, names []string) (found []string) {
	low := strings.ToLower(name)
	for _, n := range names {
		other := strings.ToLower(n)
		if !slices.Contains(found, n) && (other == low || len(low) > 2 && strings.HasPrefix(other, low) || len(low) > 3 && distance(low, other) <= 2) {
			found = append(found, n)
		}
	}
	return found[:min(3, len(found))]
}

// distance returns the edit distance of a and b, or 3 if their lengths differ by more than two letters, because no
// caller suggests a name that is farther away.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	if len(x) > 200 || len(y) > 200 || max(len(x), len(y))-min(len(x), len(y)) > 2 {
		return 3
	}
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i, r := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j, s := range y {
			replaced := diagonal
			if r != s {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(y)]
}

// didYouMean returns a suffix for a message that suggests similar names; empty if there
// are none.
func didYouMean(names []string) string {
	if len(names) == 0 {
		return ""
	}
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = shellWord(n)
	}
	return "; did you mean " + strings.Join(quoted, " or ") + "?"
}

// Completion queries the service while a person types, so its time and its rows are limited to avoid a blocked shell.
const (
	completionTime = 3 * time.Second
	completionRows = 1000
)

// addCompletion enables shell completion of the arguments in a command's usage, and of
// the flags for the same kinds of objects.
func (e *env) addCompletion(c *cobra.Command) {
	for _, sub := range c.Commands() {
		e.addCompletion(sub)
	}
	if words := strings.Fields(c.Use); len(words) > 1 && c.ValidArgs == nil && !c.HasSubCommands() {
		c.ValidArgsFunction = e.completeArgument(words[1:])
	}
	for flag, word := range map[string]string{"model": "MODEL", "agent": "AGENT", "space": "SPACE", "key": "KEY", "account": "ACCOUNT"} {
		if f := c.Flags().Lookup(flag); f != nil {
			_ = c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
				return e.complete(c, word, nil, typed)
			}) // ignored, because its only error is a second definition
		}
	}
}

func (e *env) completeArgument(words []string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		at := len(args)
		if last := len(words) - 1; at > last {
			if !strings.Contains(words[last], "...") {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			at = last
		}
		return e.complete(c, strings.Trim(words[at], "[]."), args, typed)
	}
}

func (e *env) complete(c *cobra.Command, word string, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	var all []string
	if c.Parent() != nil && c.Parent().Name() == "drive" && slices.Contains([]string{"PATH", "FOLDER", "FROM", "TO"}, word) {
		word = "DRIVE"
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), completionTime)
	defer cancel()
	var err error
	switch word {
	case "MODEL":
		all, err = e.modelNames(ctx)
	case "AGENT", "SPACE", "ACCOUNT", "KEY", "PERSON", "PROVIDER", "SESSION", "DRIVE":
		all, err = e.storedNames(ctx, word, args, typed)
	case "PROFILE":
		all = e.profileNames(typed)
	case "FILE", "LOCAL":
		return nil, cobra.ShellCompDirectiveDefault
	}
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all = slices.DeleteFunc(all, func(s string) bool { return !strings.HasPrefix(s, typed) })
	return all, cobra.ShellCompDirectiveNoFileComp
}

func (e *env) modelNames(ctx context.Context) ([]string, error) {
	call, err := e.publicClient()
	if err != nil {
		return nil, err
	}
	models, err := knownModels(ctx, call)
	if err != nil {
		return nil, err
	}
	names := []string{"auto"}
	for _, m := range models {
		if m.Available {
			names = append(names, m.ID)
		}
	}
	return names, nil
}

// suggestModels adds the names of similar models to the error about an unknown one.
func (e *env) suggestModels(ctx context.Context, c *cobra.Command, err error) error {
	if client.CodeOf(err) != "model_not_found" {
		return err
	}
	f := c.Flags().Lookup("model")
	if f == nil || !f.Changed {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	names, failed := e.modelNames(ctx)
	if failed != nil {
		return err // without suggestions
	}
	return fmt.Errorf("%w%s", err, didYouMean(near(f.Value.String(), names)))
}

func knownModels(ctx context.Context, call *client.Client) ([]contract.Model, error) {
	var meta contract.Meta
	_, err := call.JSON(ctx, http.MethodGet, "/meta", nil, nil, &meta)
	return meta.Models, err
}

// storedNames returns the names, paths or ids of the objects that the key can list. It replaces a name that several
// objects share by their ids, because a command would reject it.
func (e *env) storedNames(ctx context.Context, word string, args []string, typed string) ([]string, error) {
	call, err := e.client()
	if err != nil {
		return nil, err
	}
	path, query := map[string]string{"AGENT": "/api-agents", "SPACE": "/spaces", "ACCOUNT": "/accounts", "KEY": "/keys", "PERSON": "/members", "PROVIDER": "/providers"}[word], url.Values(nil)
	if path == "" { // because the objects are those of an agent
		if len(args) == 0 {
			return nil, nil
		}
		id, err := agentCollection.find(ctx, call, args[0])
		if err != nil {
			return nil, err
		}
		path = agentCollection.path + "/" + url.PathEscape(id) + "/sessions"
		if word == "DRIVE" {
			path = agentCollection.path + "/" + url.PathEscape(id) + "/drive/files"
			query = url.Values{"prefix": {typed}}
		}
	}
	type row struct {
		ID     string `json:"id"`
		Name   string `json:"name"`
		Path   string `json:"path"`
		Status string `json:"status"`
	}
	var rows []row
	seen := map[string]int{}
	list := call.All(ctx, path, query, completionRows)
	if word == "PROVIDER" {
		list = call.Whole(ctx, path)
	}
	for raw, err := range list {
		if err != nil {
			return nil, err
		}
		var r row
		if err := jsonx.Unmarshal(raw, &r); err != nil {
			return nil, err
		}
		if word == "KEY" && r.Status != "active" {
			continue
		}
		rows = append(rows, r)
		seen[r.Name]++
	}
	var names []string
	for _, r := range rows {
		name := r.Path
		if word != "DRIVE" {
			if name = r.Name; word == "SESSION" || name == "" || seen[name] > 1 || oneLine(name) != name {
				name = r.ID
			}
		}
		names = append(names, clean(name))
	}
	return names, nil
}
