package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"stoa/internal/client"
	"stoa/internal/jsonx"
)

// embedTags is the path of script tags, below an agent.
const embedTags = "/embed-tags"

func viewTags() view {
	return view{"EmbedTag", []column{
		{"Id", "id", plain},
		{"Enabled", "enabled", plain},
		{"Origins", "allowedOrigins", flexible},
		{"Refused", "refusedRequests", count},
		{"Made", "createdAt", when},
	}}
}

func viewTag() view {
	return view{"EmbedTag", []column{
		{"Id", "id", plain},
		{"Agent", "agentId", plain},
		{"Enabled", "enabled", plain},
		{"Disabled by", "disabledReason", plain},
		{"Origins", "allowedOrigins", plain},
		{"Greeting", "greeting", plain},
		{"Theme", "theme", plain},
		{"Accent", "accentColor", plain},
		{"Position", "position", plain},
		{"Language", "language", plain},
		{"Most credits", "maxCreditsMicro", credits},
		{"Chats a day", "chatsPerDay", count},
		{"Refused requests", "refusedRequests", count},
		{"Credentials", "credentials", plain},
		{"Preview", "previewUrl", plain},
		{"Snippet", "snippet", plain},
		{"Made", "createdAt", when},
	}}
}

func (e *env) embedTags() *cobra.Command {
	c := group("tags", "Launchers for pages that have no server", `Launchers for pages that have no server. A script tag (pub_…) is one line of HTML that stays valid: it
adds a button to the page that opens a chat with the agent, for each visitor their own. AGENT is an id,
an external id, or a name that only one has.`)
	list := &cobra.Command{
		Use: "list AGENT", Short: "List the script tags of an agent", Args: takes("AGENT"),
		Long: "List the script tags of an agent, newest first.", Example: "  stoa embeds tags list support",
	}
	n := limit(list)
	e.onObject(agentCollection(), list, func(ctx context.Context, call *client.Client, o *output, path string, _ []string) error {
		return o.list(viewTags(), call.All(ctx, path+embedTags, nil, rowsToFetch(*n)), *n, "There are no script tags.")
	})
	get := &cobra.Command{
		Use: "get AGENT TAG", Short: "Show a script tag", Args: takes("AGENT", "TAG"),
		Long: "Show a script tag, with how many requests of other origins were refused.", Example: "  stoa embeds tags get support pub_01k9zqd3m8w5x7y2c4b6n8p0ra",
	}
	c.AddCommand(e.tagsCreate(), list, e.onObject(agentCollection(), get, func(ctx context.Context, call *client.Client, o *output, path string, args []string) error {
		return printObject(viewTag())(ctx, call, o, path+embedTags+"/"+url.PathEscape(args[0]), nil)
	}), e.tagsUpdate(), e.tagsDelete())
	return c
}

// tagFlags adds the settings of a script tag. What it returns puts those that were
// given into a body.
func tagFlags(c *cobra.Command) func(ctx context.Context, call *client.Client, body map[string]any) error {
	f := c.Flags()
	origins := f.StringSlice("origin", nil, "a page that may show it, such as https://www.example.com; may be given again")
	greeting, theme := f.String("greeting", "", "`text` before the first message"), f.String("theme", "", "auto, light or dark")
	accent, position := f.String("accent", "", "a `colour`, such as #1a7f5a"), f.String("position", "", "right or left")
	language := f.String("language", "", "auto, en, de, fr or es")
	most, chats := f.String("max-credits", "", "what one chat may cost, in `credits`"), f.Int("chats-per-day", 0, "how many chats may begin within 24 hours")
	own := credentialFlag(c, "each of its chats has")
	return func(ctx context.Context, call *client.Client, body map[string]any) error {
		if err := own(ctx, call, body); err != nil {
			return err
		}
		set(body, c, "origin", "allowedOrigins", *origins)
		set(body, c, "greeting", "greeting", *greeting)
		set(body, c, "theme", "theme", *theme)
		set(body, c, "accent", "accentColor", *accent)
		set(body, c, "position", "position", *position)
		set(body, c, "language", "language", *language)
		set(body, c, "chats-per-day", "chatsPerDay", *chats)
		if *most == "" {
			return nil
		}
		n, err := parseCredits(*most)
		body["maxCreditsMicro"] = int64(n)
		return err
	}
}

func (e *env) tagsCreate() *cobra.Command {
	c := &cobra.Command{
		Use: "create AGENT", Short: "Make a script tag", Args: takes("AGENT"),
		Long: `Make a script tag and print its line of HTML, alone on standard output. Put it into your page as it is:
it can be used as often as you like, on the pages of its --origin.`,
		Example: "  stoa embeds tags create support --origin https://www.example.com\n  stoa embeds tags create support --origin https://www.example.com --accent '#1a7f5a' --max-credits 0.5",
	}
	settings := tagFlags(c)
	return e.onObject(agentCollection(), c, func(ctx context.Context, call *client.Client, o *output, path string, _ []string) error {
		body := map[string]any{}
		if err := settings(ctx, call, body); err != nil {
			return err
		}
		if body["allowedOrigins"] == nil {
			return usagef("which pages may show it? Give it an --origin")
		}
		raw, err := call.JSON(ctx, http.MethodPost, path+embedTags, nil, body, nil)
		if err != nil {
			return err
		}
		return e.printTag(o, raw, "Made")
	})
}

// printTag prints the line of HTML of a script tag.
func (e *env) printTag(o *output, raw jsonx.Value, did string) error {
	if o.raw() {
		return o.printJSON(raw)
	}
	var tag struct {
		ID         string `json:"id"`
		Enabled    bool   `json:"enabled"`
		Snippet    string `json:"snippet"`
		PreviewURL string `json:"previewUrl"`
	}
	if err := jsonx.Unmarshal(raw, &tag); err != nil {
		return fmt.Errorf("the reply is not what the contract says: %w", err)
	}
	if tag.Enabled {
		e.say("%s %s. See it at %s; this goes into the page:", did, tag.ID, tag.PreviewURL)
	} else {
		e.say("%s %s, which is disabled:", did, tag.ID)
	}
	_, err := fmt.Fprintln(e.out, tag.Snippet)
	return err
}

func (e *env) tagsUpdate() *cobra.Command {
	c := &cobra.Command{
		Use: "update AGENT TAG", Short: "Change, disable or enable a script tag", Args: takes("AGENT", "TAG"),
		Long: `Change a script tag. Pages follow by themselves. A setting with an empty value gets its default;
--origin replaces all origins. With --enabled=false its chats stop at once.`,
		Example: "  stoa embeds tags update support pub_01k9zqd3m8w5x7y2c4b6n8p0ra --enabled=false",
	}
	settings := tagFlags(c)
	enabled := c.Flags().Bool("enabled", true, "whether pages show it")
	return e.onObject(agentCollection(), c, func(ctx context.Context, call *client.Client, o *output, path string, args []string) error {
		body := map[string]any{}
		if err := settings(ctx, call, body); err != nil {
			return err
		}
		set(body, c, "enabled", "enabled", *enabled)
		if len(body) == 0 {
			return usagef("nothing to change: name a setting")
		}
		raw, err := call.JSON(ctx, http.MethodPatch, path+embedTags+"/"+url.PathEscape(args[0]), nil, body, nil)
		if err != nil {
			return err
		}
		return e.printTag(o, raw, "Changed")
	})
}

func (e *env) tagsDelete() *cobra.Command {
	c := &cobra.Command{
		Use: "delete AGENT TAG", Short: "Delete a script tag", Args: takes("AGENT", "TAG"),
		Long: "Delete a script tag: pages show it no more, and its chats end at once. What was said stays.", Example: "  stoa embeds tags delete support pub_01k9zqd3m8w5x7y2c4b6n8p0ra --yes",
	}
	yes := c.Flags().BoolP("yes", "y", false, "do not ask")
	return e.onObject(agentCollection(), c, func(ctx context.Context, call *client.Client, _ *output, path string, args []string) error {
		if !strings.HasPrefix(args[0], "pub_") {
			return usagef("%q is no id of a script tag; one begins with pub_", args[0])
		}
		if err := e.confirm(*yes, "Delete the script tag %s, whose visitors cannot go on?", args[0]); err != nil {
			return err
		}
		if _, err := call.JSON(ctx, http.MethodDelete, path+embedTags+"/"+url.PathEscape(args[0]), nil, nil, nil); err != nil {
			return err
		}
		e.say("Deleted %s.", args[0])
		return nil
	})
}
