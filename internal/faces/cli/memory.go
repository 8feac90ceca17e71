package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"stoa/internal/base/client"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
)

var viewMemory = view{"Memory", []column{
	{"User", "externalUserId", objectName}, // so that it is the first column
	{"Notes", "notes", count},
	{"Bytes", "bytes", count},
	{"Created", "createdAt", when},
	{"Changed", "updatedAt", when},
}}

var viewNotes = view{"MemoryNote", []column{
	{"Name", "name", plain},
	{"Bytes", "bytes", count},
	{"Changed", "updatedAt", when},
	{"Text", "text", flexible},
}}

func (e *env) memory() *cobra.Command {
	c := group("memory", "Show and edit what agents remember of end users", `Show and edit the notes that agents keep about end users ("stoa agents update AGENT --memory user"). AGENT is an id, an external
id, or a unique name; USER is the id that your programs use for the person (externalUserId).`)
	c.AddCommand(e.verbs(
		verb{
			use: "users AGENT", short: "List whom an agent remembers",
			long: "List the end users about whom an agent has notes.", example: "  stoa memory users support\n  stoa memory users support --limit 0 --csv > users.csv",
			op: "GET /api-agents/{AGENT}/memory/users", rows: viewMemory, none: "The agent remembers nobody.",
		},
		verb{
			use: "list AGENT USER", short: "List what an agent remembers of a user",
			long: "List the notes of an agent about an end user with their texts, the newest first.", example: "  stoa memory list support user-1042\n  stoa memory list support user-1042 --limit 0 --json > notes.json",
			op: "GET /api-agents/{AGENT}/memory/notes", rows: viewNotes, none: "The agent remembers nothing of this user.",
			fields: []field{{"USER", "externalUserId", asText, ""}},
		},
	)...)
	c.AddCommand(e.memoryGet(),
		e.verb(verb{
			use: "put AGENT USER NAME TEXT", short: "Write what an agent remembers of a user",
			long:    "Write a note about an end user, in place of one with the same name. TEXT is the text; @FILE reads a file, @- standard input.",
			example: "  stoa memory put support user-1042 preferences \"Answers in German.\"\n  stoa memory put support user-1042 contract @contract.md",
			op:      "PUT /api-agents/{AGENT}/memory/notes", show: viewNotes,
			fields: []field{{"USER", "externalUserId", asText, ""}, {"NAME", "name", asText, ""}, {"TEXT", "text", asFile, ""}},
		}),
		e.memoryDelete())
	return c
}

func (e *env) memoryGet() *cobra.Command {
	c := command("get AGENT USER [NAME]", "Print what an agent remembers of a user",
		"Print a note about an end user, or all notes as Markdown.", "  stoa memory get support user-1042 preferences\n  stoa memory get support user-1042 > user-1042.md")
	return e.onAgent(c, func(ctx context.Context, call *client.Client, path string, args []string) error {
		query := url.Values{"externalUserId": {args[0]}}
		if len(args) > 1 {
			query.Set("name", args[1])
		}
		found := false
		for raw, err := range call.All(ctx, path, query, 100) {
			if err != nil {
				return err
			}
			var n contract.MemoryNote
			if err := jsonx.Unmarshal(raw, &n); err != nil {
				return err
			}
			if found = true; len(args) == 1 {
				fmt.Fprintf(e.out, "## %s\n\n", n.Name)
			}
			text := strings.TrimSuffix(n.Text, "\n") + "\n"
			if isTerminal(e.out) {
				text = clean(text)
			}
			if fmt.Fprint(e.out, text); len(args) == 1 {
				fmt.Fprintln(e.out)
			}
		}
		switch {
		case found:
			return nil
		case len(args) > 1:
			return noNote(args[1])
		}
		e.say("The agent remembers nothing of this user.")
		return nil
	})
}

func (e *env) memoryDelete() *cobra.Command {
	c := command("delete AGENT USER [NAME...]", "Make an agent forget a user",
		`Delete notes about an end user, or without NAME all of them. Past sessions keep what they were shown; "stoa end-users erase"
removes them as well.`, "  stoa memory delete support user-1042 preferences\n  stoa memory delete support user-1042 --yes")
	yes := c.Flags().BoolP("yes", "y", false, "do not ask for confirmation")
	return e.onAgent(c, func(ctx context.Context, call *client.Client, path string, args []string) error {
		user, names := args[0], args[1:]
		what := list(names, "the note", "notes") + " about " + user
		queries := []url.Values{{"externalUserId": {user}}}
		if len(names) == 0 {
			what = "everything that the agent remembers of " + user
		} else {
			queries = nil
		}
		for _, name := range names {
			queries = append(queries, url.Values{"externalUserId": {user}, "name": {name}})
		}
		for i, query := range queries { // a wrong name must not look like a deletion
			var found contract.MemoryNoteList
			_, err := call.JSON(ctx, http.MethodGet, path, query, nil, &found)
			switch {
			case err != nil || len(found.Data) > 0: // a key that may delete need not be able to read
			case len(names) > 0:
				return noNote(names[i])
			default:
				e.say("The agent remembers nothing of this user.")
				return nil
			}
		}
		if err := e.confirm(*yes, "Delete %s?", what); err != nil {
			return err
		}
		if len(names) == 0 {
			queries[0].Set("all", "true")
		}
		for _, query := range queries {
			if _, err := call.JSON(ctx, http.MethodDelete, path, query, nil, nil); err != nil {
				return err
			}
		}
		e.say("Deleted %s.", what)
		return nil
	})
}

func noNote(name string) error { return fmt.Errorf("the agent has no note %q about this user", name) }

// onAgent runs a command on the notes of an agent.
func (e *env) onAgent(c *cobra.Command, do func(ctx context.Context, call *client.Client, path string, args []string) error) *cobra.Command {
	return e.calling(c, nil, func(ctx context.Context, call *client.Client, args []string) error {
		id, err := agentCollection.find(ctx, call, args[0])
		if err != nil {
			return err
		}
		return do(ctx, call, agentCollection.path+"/"+url.PathEscape(id)+"/memory/notes", args[1:])
	})
}
