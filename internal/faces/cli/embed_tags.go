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

var viewTags = view{"EmbedTag", []column{
	{"Id", "id", ident},
	{"Enabled", "enabled", plain},
	{"Origins", "allowedOrigins", flexible},
	{"Refused", "refusedRequests", count},
	{"Created", "createdAt", when},
}}

var viewTag = view{"EmbedTag", []column{
	{"Id", "id", ident},
	{"Agent", "agentId", ident},
	{"Enabled", "enabled", plain},
	{"Disabled by", "disabledReason", plain},
	{"Origins", "allowedOrigins", plain},
	{"Greeting", "greeting", plain},
	{"Title", "title", plain},
	{"Logo", "logo", plain},
	{"Starters", "starters", plain},
	{"Theme", "theme", plain},
	{"Accent", "accentColor", plain},
	{"Position", "position", plain},
	{"Language", "language", plain},
	{"Maximum credits", "maxCreditsMicro", credits},
	{"Chats per day", "chatsPerDay", count},
	{"Attachments", "attachments.types", plain},
	{"Rejected requests", "refusedRequests", count},
	{"Credentials", "credentials", plain},
	{"Preview", "previewUrl", plain},
	{"Snippet", "snippet", plain},
	{"Created", "createdAt", when},
}}

func (e *env) embedTags() *cobra.Command {
	c := group("tags", "Manage chat buttons for sites without a server", `Manage chat buttons for sites without a server. A script tag (pub_…) is one line of HTML that stays valid: it adds a
button to the page that opens a chat with the agent, separate for each visitor. AGENT is an id, an external
id, or a unique name.`)
	settings := append([]field{
		{"origin", "allowedOrigins", asWords, "an `origin` that can show it, such as https://www.example.com; repeatable"},
		{"greeting", "greeting", asText, "a greeting `text` before the first message"},
		{"theme", "theme", asText, "the `theme`: auto, light or dark (default auto)"},
		{"accent", "accentColor", asText, "the `color` of the button, such as #1a7f5a"},
		{"position", "position", asText, "the `side` of the page for the button: right or left (default right)"},
		{"language", "language", asText, "the `language`: auto (that of the page), en, de, fr or es (default auto)"},
		{"max-credits", "maxCreditsMicro", asCredits, "the maximum cost of a chat, in `credits`"},
		{"chats-per-day", "chatsPerDay", asNumber, "the maximum `number` of new chats in 24 hours (default 200)"},
	}, append(lookFields(), attachmentFields()...)...)
	own := []adder{credentialFlag("for each of its chats")}
	c.AddCommand(e.verbs(
		verb{
			use: "create AGENT", short: "Create a script tag",
			long: `Create a script tag. Standard output contains only its line of HTML: paste it into your pages as it is. It works
on all pages of its --origin.`,
			example: "  stoa embeds tags create support --origin https://www.example.com\n  stoa embeds tags create support --origin https://www.example.com --accent '#1a7f5a' --max-credits 0.5",
			op:      "POST /api-agents/{AGENT}/embed-tags", fields: settings, extra: own, print: e.printTag("Created"),
			needs: []string{"allowedOrigins"}, missing: "an --origin is required: a page that can show it",
		},
		verb{
			use: "list AGENT", short: "List the script tags of an agent",
			long: "List the script tags of an agent, newest first.", example: "  stoa embeds tags list support",
			op: "GET /api-agents/{AGENT}/embed-tags", rows: viewTags, fields: []field{searchField("origins, greeting or id")}, none: "There are no script tags.",
		},
		verb{
			use: "get AGENT TAG", short: "Show a script tag",
			long: "Show a script tag, with the number of rejected requests of other origins.", example: "  stoa embeds tags get support pub_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op: "GET /api-agents/{AGENT}/embed-tags/{TAG}", show: viewTag,
		},
		verb{
			use: "update AGENT TAG", short: "Change, disable or enable a script tag",
			long: `Change a script tag. Pages pick up the change automatically. An empty value restores the default of a setting;
--origin replaces all origins. With --enabled=false its chats end immediately.`,
			example: "  stoa embeds tags update support pub_01k9zqd3m8w5x7y2c4b6n8p0ra --enabled=false",
			op:      "PATCH /api-agents/{AGENT}/embed-tags/{TAG}", extra: own, print: e.printTag("Changed"), missing: nothingChanges,
			fields: append(settings, field{"enabled=true", "enabled", asBool, "whether pages show it"}),
		},
	)...)
	c.AddCommand(e.tagsDelete())
	return c
}

func (e *env) printTag(did string) func(o *output, raw jsonx.Value) error {
	return func(o *output, raw jsonx.Value) error {
		if o.raw() {
			return o.printJSON(raw)
		}
		var tag contract.EmbedTag
		if err := jsonx.Unmarshal(raw, &tag); err != nil {
			return fmt.Errorf("the reply does not match the contract: %w", err)
		}
		if tag.Enabled {
			e.say("%s %s. Preview: %s; paste this into the page:", did, tag.ID, tag.PreviewURL)
		} else {
			e.say("%s %s, which is disabled:", did, tag.ID)
		}
		_, err := fmt.Fprintln(e.out, tag.Snippet)
		return err
	}
}

func (e *env) tagsDelete() *cobra.Command {
	c := &cobra.Command{
		Use: "delete AGENT TAG", Short: "Delete a script tag", Args: takes("AGENT", "TAG"),
		Long: "Delete a script tag: pages no longer show it, and its chats end immediately. The conversations are kept.", Example: "  stoa embeds tags delete support pub_01k9zqd3m8w5x7y2c4b6n8p0ra --yes",
	}
	yes := c.Flags().BoolP("yes", "y", false, "do not ask for confirmation")
	return e.onObject(agentCollection, c, func(ctx context.Context, call *client.Client, _ *output, path string, args []string) error {
		if !strings.HasPrefix(args[0], "pub_") {
			return usagef("%q is not the id of a script tag; ids begin with pub_", args[0])
		}
		path += "/embed-tags/" + url.PathEscape(args[0])
		if _, err := existing(ctx, call, path); err != nil && !*yes {
			return err
		}
		if err := e.confirm(*yes, "Delete the script tag %s and end its chats?", args[0]); err != nil {
			return err
		}
		if _, err := call.JSON(ctx, http.MethodDelete, path, nil, nil, nil); err != nil {
			return err
		}
		e.say("Deleted %s.", args[0])
		return nil
	})
}
