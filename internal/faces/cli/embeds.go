package cli

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"stoa/internal/base/client"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
)

var viewEmbeds = viewEmbed("EmbedURL").only("id", "status", "externalUserId", "allowedOrigins", "messagesSent", "createdAt")

func viewEmbed(schema string) view {
	return view{schema, []column{
		{"Id", "id", ident},
		{"Agent", "agentId", ident},
		{"Status", "status", state},
		{"Chat", "chatSessionId", ident},
		{"Visitor", "externalUserId", flexible},
		{"Origins", "allowedOrigins", flexible},
		{"Messages", "messagesSent", count},
		{"Maximum messages", "maxMessages", count},
		{"Messages per minute", "messagesPerMinute", count},
		{"Maximum credits", "maxCreditsMicro", credits},
		{"Title", "title", plain},
		{"Logo", "logo", plain},
		{"Starters", "starters", plain},
		{"Feedback", "feedback", plain},
		{"Contact", "contact", plain},
		{"Attachments", "attachments.types", plain},
		{"Rejected requests", "refusedRequests", count},
		{"Credentials", "credentials", plain},
		{"Last message", "lastMessageAt", when},
		{"Chat ends", "chatExpiresAt", when},
		{"Revoked", "revokedAt", when},
		{"Created", "createdAt", when},
	}}
}

const (
	embedURLs     = "/embed-urls"
	embedSessions = "/embed-sessions"
)

func embedKind(id string) (string, error) {
	switch {
	case strings.HasPrefix(id, "emu_"):
		return embedURLs, nil
	case strings.HasPrefix(id, "ems_"):
		return embedSessions, nil
	}
	return "", usagef("%q is not the id of an embed; ids begin with emu_ (a link) or ems_ (an embed session)", id)
}

func (e *env) embeds() *cobra.Command {
	c := group("embeds", "Embed an agent in a web page", `Embed an agent in a web page. Your server creates one link (emu_…) per visitor, which shows the chat page in a
frame, or one token (ems_…) for a chat page of your own. A site without a server uses a script tag (pub_…); see
"stoa embeds tags". AGENT is an id, an external id, or a unique name.`)
	list := command("list AGENT", "List the embeds of an agent",
		"List the links of an agent, newest first, or with --sessions its embed sessions.",
		"  stoa embeds list support\n  stoa embeds list support --sessions")
	n := limit(list)
	sessions := list.Flags().Bool("sessions", false, "list embed sessions instead of links")
	search := list.Flags().String("search", "", searchField("origins, end user or ids").help)
	sends(list, "search", "q")
	e.onObject(agentCollection, list, func(ctx context.Context, call *client.Client, o *output, path string, _ []string) error {
		kind, query := embedURLs, url.Values{}
		if *sessions {
			kind = embedSessions
		}
		if *search != "" {
			query.Set("q", *search)
		}
		return o.list(viewEmbeds, call.All(ctx, path+kind, query, rowsToFetch(*n)), *n, "There are no embeds.")
	})
	get := command("get AGENT EMBED", "Show an embed",
		"Show an embed, with its number of messages and of requests that were rejected because of their origin.",
		"  stoa embeds get support ems_01k9zqd3m8w5x7y2c4b6n8p0ra")
	c.AddCommand(e.embedsCreate(), list,
		e.onObject(agentCollection, get, func(ctx context.Context, call *client.Client, o *output, path string, args []string) error {
			kind, err := embedKind(args[0])
			if err != nil {
				return err
			}
			schema := "EmbedURL"
			if kind == embedSessions {
				schema = "EmbedSession"
			}
			raw, err := call.JSON(ctx, http.MethodGet, path+kind+"/"+url.PathEscape(args[0]), nil, nil, nil)
			if err != nil {
				return err
			}
			return o.object(viewEmbed(schema), raw)
		}),
		e.verb(verb{
			use: "refresh AGENT EMBED", short: "Create a new token for an embed session",
			long: "Create a new token for an embed session. Standard output contains only the token.", example: "  stoa embeds refresh support ems_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op:    "POST /api-agents/{AGENT}/embed-sessions/{EMBED}/refresh",
			print: func(o *output, raw jsonx.Value) error { return e.embedSecret(o, raw, false) },
		}),
		e.embedsRevoke(), e.embedTags(), e.embedLogos(),
	)
	return c
}

func (e *env) embedsCreate() *cobra.Command {
	c := command("create AGENT", "Create a link or a token for one visitor",
		`Create a link to the chat page for one visitor. Standard output contains only the link. It can be used once, and
expires after --expires.

--snippet prints the HTML of a frame instead, for a quick test: a permanent page requires a link per visit, or a
script tag. --token prints a token for your own page instead.`,
		"  stoa embeds create support --origin https://www.example.com --user user-1042\n  stoa embeds create support --origin http://localhost:3000 --snippet > frame.html")
	token, snippet := c.Flags().Bool("token", false, "create an embed session and print its token"), c.Flags().Bool("snippet", false, "print the HTML of a frame")
	settings := e.flags(c, append([]field{
		{"origin", "allowedOrigins", asWords, "an `origin` that can show it, such as https://www.example.com; repeatable"},
		{"user", "externalUserId", asText, "`id` of the visitor"},
		{"chat", "chatSessionId", asText, "`id` of a chat to continue"},
		{"greeting", "greeting", asText, "a greeting `text` before the first message"},
		{"theme", "theme", asText, "the `theme`: auto, light or dark (default auto)"},
		{"expires", "expiresInSeconds", asSeconds, "the `duration` for which the link or token is valid (default 5m, with --token 10m)"},
		{"chat-expires", "chatExpiresInSeconds", asSeconds, "the maximum `duration` of the chat (default 1h)"},
		{"max-credits", "maxCreditsMicro", asCredits, "the maximum cost of the chat, in `credits`"},
		{"max-messages", "maxMessages", asNumber, "the maximum `number` of messages from the visitor (default 50)"},
	}, append(lookFields, attachmentFields...)...)...)
	own := credentialFlag("for the chat")(c)
	return e.onObject(agentCollection, c, func(ctx context.Context, call *client.Client, o *output, path string, _ []string) error {
		body := map[string]any{}
		if err := errors.Join(settings(body), own(body)); err != nil {
			return err
		}
		if origins, _ := body["allowedOrigins"].([]string); len(origins) == 0 {
			return usagef("an --origin is required: a page that can show it")
		}
		if *token && *snippet {
			return usagef("--snippet cannot be combined with --token")
		}
		if err := look(ctx, call, body); err != nil {
			return err
		}
		kind := embedURLs
		if *token {
			kind = embedSessions
		}
		raw, err := call.JSON(ctx, http.MethodPost, path+kind, nil, body, nil)
		if err != nil {
			return err
		}
		return e.embedSecret(o, raw, *snippet)
	})
}

func (e *env) embedSecret(o *output, raw jsonx.Value, snippet bool) error {
	if o.raw() {
		return o.printJSON(raw)
	}
	var made struct {
		ID        string `json:"id"`
		URL       string `json:"url"`
		Token     string `json:"token"`
		ExpiresAt string `json:"expiresAt"`
	}
	if err := jsonx.Unmarshal(raw, &made); err != nil {
		return fmt.Errorf("the reply does not match the contract: %w", err)
	}
	secret, what := made.URL, "The link"
	if made.Token != "" {
		secret, what = made.Token, "The token"
	}
	e.say("%s of %s is shown only once, and is valid until %s:", what, made.ID, made.ExpiresAt)
	if snippet {
		secret = fmt.Sprintf(`<iframe src="%s" title="Chat" width="400" height="600" referrerpolicy="no-referrer"></iframe>`, html.EscapeString(made.URL))
	}
	_, err := fmt.Fprintln(e.out, secret)
	return err
}

func (e *env) embedsRevoke() *cobra.Command {
	c := command("revoke AGENT EMBED...", "Revoke embeds",
		"Revoke embeds: their links and tokens stop working immediately. The conversations are kept.",
		"  stoa embeds revoke support emu_01k9zqd3m8w5x7y2c4b6n8p0ra --yes")
	yes := c.Flags().BoolP("yes", "y", false, "do not ask for confirmation")
	c.RunE = func(c *cobra.Command, args []string) error {
		kinds := make([]string, len(args))
		for i, id := range args[1:] {
			kind, err := embedKind(id)
			if err != nil {
				return err
			}
			kinds[i] = kind
		}
		call, err := e.client()
		if err != nil {
			return err
		}
		agent, err := agentCollection.find(c.Context(), call, args[0])
		if err != nil {
			return err
		}
		paths := make([]string, len(kinds)-1)
		for i, id := range args[1:] {
			paths[i] = agentCollection.path + "/" + url.PathEscape(agent) + kinds[i] + "/" + url.PathEscape(id)
			if *yes {
				continue
			}
			if _, err := existing(c.Context(), call, paths[i]); err != nil {
				return err
			}
		}
		if err := e.confirm(*yes, "Revoke %s and end the chat?", list(args[1:], "the embed", "embeds")); err != nil {
			return err
		}
		for i, id := range args[1:] {
			path := paths[i]
			if _, err := call.JSON(c.Context(), http.MethodDelete, path, nil, nil, nil); err != nil {
				return err
			}
			e.say("Revoked %s.", id)
		}
		return nil
	}
	return c
}

var lookFields = []field{
	{"title", "title", asText, "the `text` above the chat (default: the agent's name)"},
	{"logo", "logo", asText, "`id` of a logo, see \"stoa embeds logos\""},
	{"starter", "starters", asTexts, "a `question` to offer before the first message; repeatable"},
	{"feedback=true", "feedback", asBool, "visitors can rate answers"},
	{"contact", "contact", asBool, "visitors can ask for a person"},
}

func (e *env) embedLogos() *cobra.Command {
	c := group("logos", "Manage the logos of embeds", "Manage the logos of embeds: PNG, JPEG or WebP pictures of at most 256 KiB. They are public and belong to the account.")
	logo := view{"EmbedLogo", []column{
		{"Id", "id", ident},
		{"Type", "mimeType", plain},
		{"Size", "size", size},
		{"Width", "width", count},
		{"Height", "height", count},
		{"Address", "url", flexible},
		{"Created", "createdAt", when},
	}}
	c.AddCommand(e.verbs(
		verb{
			use: "create FILE", short: "Upload a logo", long: "Upload a picture (PNG, JPEG or WebP, at most 256 KiB). Use its id with --logo of links and script tags.", example: "  stoa embeds logos create logo.png",
			op: "POST /embed-logos", fields: []field{{"FILE", "content", asContent, ""}}, show: logo,
		},
		verb{
			use: "list", short: "List the logos", long: "List the logos of the account, newest first.", example: "  stoa embeds logos list",
			op: "GET /embed-logos", rows: logo, none: "There are no logos.",
		},
		verb{
			use: "delete LOGO...", short: "Delete logos", long: "Delete logos. Chats and script tags that use them show the first letter of their title instead.", example: "  stoa embeds logos delete lgo_01k9zqd3m8w5x7y2c4b6n8p0ra --yes",
			op: "DELETE /embed-logos/{LOGO}", ask: asks("Delete %s?", "the logo", "logos"),
		},
	)...)
	return c
}

var attachmentFields = []field{
	{"attachments", "attachments.enabled", asBool, "visitors can attach images, PDF files and texts"},
	{"attachment-type", "attachments.types", asWords, "a `kind` of file, with --attachments: image, pdf, text or document; repeatable"},
	{"attachment-files", "attachments.maxFiles", asNumber, "the maximum number of files of a chat, with --attachments"},
}

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
	{"Feedback", "feedback", plain},
	{"Contact", "contact", plain},
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
	}, append(lookFields, attachmentFields...)...)
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
	c := command("delete AGENT TAG", "Delete a script tag",
		"Delete a script tag: pages no longer show it, and its chats end immediately. The conversations are kept.",
		"  stoa embeds tags delete support pub_01k9zqd3m8w5x7y2c4b6n8p0ra --yes")
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
