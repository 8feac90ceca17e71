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

	"stoa/internal/client"
	"stoa/internal/jsonx"
)

func viewEmbeds() view {
	return viewEmbed("EmbedURL").only("id", "status", "externalUserId", "allowedOrigins", "messagesSent", "createdAt")
}

func viewEmbed(schema string) view {
	return view{schema, []column{
		{"Id", "id", plain},
		{"Agent", "agentId", plain},
		{"Status", "status", state},
		{"Chat", "chatSessionId", plain},
		{"Visitor", "externalUserId", flexible},
		{"Origins", "allowedOrigins", flexible},
		{"Messages", "messagesSent", count},
		{"Most messages", "maxMessages", count},
		{"Messages per minute", "messagesPerMinute", count},
		{"Most credits", "maxCreditsMicro", credits},
		{"Refused requests", "refusedRequests", count},
		{"Credentials", "credentials", plain},
		{"Last message", "lastMessageAt", when},
		{"Chat ends", "chatExpiresAt", when},
		{"Revoked", "revokedAt", when},
		{"Made", "createdAt", when},
	}}
}

// Paths of the two kinds of embed, below an agent.
const (
	embedURLs     = "/embed-urls"
	embedSessions = "/embed-sessions"
)

// embedKind returns the path of the kind of embed that an id belongs to.
func embedKind(id string) (string, error) {
	switch {
	case strings.HasPrefix(id, "emu_"):
		return embedURLs, nil
	case strings.HasPrefix(id, "ems_"):
		return embedSessions, nil
	}
	return "", usagef("%q is no id of an embed; one begins with emu_ (a link) or ems_ (an embed session)", id)
}

func (e *env) embeds() *cobra.Command {
	c := group("embeds", "Show an agent in a web page", `Show an agent in a web page: by a link to the chat page for a frame (emu_…), or by a token for a page
of your own (ems_…). Make one per visitor, on your server. A page without a server takes a script tag
(pub_…), see "stoa embeds tags". AGENT is an id, an external id, or a name
that only one has.`)
	list := &cobra.Command{
		Use: "list AGENT", Short: "List the embeds of an agent", Args: takes("AGENT"),
		Long:    "List the links of an agent, newest first, or with --sessions its embed sessions.",
		Example: "  stoa embeds list support\n  stoa embeds list support --sessions",
	}
	n := limit(list)
	sessions := list.Flags().Bool("sessions", false, "list embed sessions instead of links")
	e.onObject(agentCollection(), list, func(ctx context.Context, call *client.Client, o *output, path string, _ []string) error {
		kind := embedURLs
		if *sessions {
			kind = embedSessions
		}
		return o.list(viewEmbeds(), call.All(ctx, path+kind, nil, rowsToFetch(*n)), *n, "There are no embeds.")
	})
	get := &cobra.Command{
		Use: "get AGENT EMBED", Short: "Show an embed", Args: takes("AGENT", "EMBED"),
		Long: "Show an embed, with what was sent under it and how many requests of other origins were refused.", Example: "  stoa embeds get support ems_01k9zqd3m8w5x7y2c4b6n8p0ra",
	}
	c.AddCommand(e.embedsCreate(), list,
		e.onObject(agentCollection(), get, func(ctx context.Context, call *client.Client, o *output, path string, args []string) error {
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
			use: "refresh AGENT EMBED", short: "Make a new token for an embed session",
			long: "Make a new token for an embed session and print it, alone on standard output.", example: "  stoa embeds refresh support ems_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op:    "POST /api-agents/{AGENT}/embed-sessions/{EMBED}/refresh",
			print: func(o *output, raw jsonx.Value) error { return e.embedSecret(o, raw, false) },
		}),
		e.embedsRevoke(), e.embedTags(),
	)
	return c
}

func (e *env) embedsCreate() *cobra.Command {
	c := &cobra.Command{
		Use: "create AGENT", Short: "Create a link or a token for one visitor", Args: takes("AGENT"),
		Long: `Make a link to the chat page for one visitor and print it, alone on standard output: it holds a secret
that can be used once, and soon. With --snippet it is the HTML of a frame, to try it now: a page that
stays needs a link per visit, or a script tag. With --token it is a token
for a page of your own instead.`,
		Example: "  stoa embeds create support --origin https://www.example.com --user user-1042\n  stoa embeds create support --origin http://localhost:3000 --snippet > frame.html",
	}
	token, snippet := c.Flags().Bool("token", false, "make an embed session and print its token"), c.Flags().Bool("snippet", false, "print the HTML of a frame")
	settings := e.flags(c,
		field{"origin", "allowedOrigins", asWords, "a page that may show it, such as https://www.example.com; may be given again"},
		field{"user", "externalUserId", asText, "`id` of the visitor"},
		field{"chat", "chatSessionId", asText, "`id` of a chat to go on with"},
		field{"greeting", "greeting", asText, "`text` before the first message"},
		field{"theme", "theme", asText, "auto, light or dark"},
		field{"expires", "expiresInSeconds", asSeconds, "how long the link or token can be used, such as 5m"},
		field{"chat-expires", "chatExpiresInSeconds", asSeconds, "how long the chat can go on, such as 1h"},
		field{"max-credits", "maxCreditsMicro", asCredits, "what the chat may cost, in `credits`"},
		field{"max-messages", "maxMessages", asNumber, "how many messages the visitor may send"},
	)
	own := credentialFlag("the chat has")(c)
	return e.onObject(agentCollection(), c, func(ctx context.Context, call *client.Client, o *output, path string, _ []string) error {
		body := map[string]any{}
		if err := errors.Join(settings(body), own(body)); err != nil {
			return err
		}
		if origins, _ := body["allowedOrigins"].([]string); len(origins) == 0 {
			return usagef("which pages may show it? Give it an --origin")
		}
		if *token && *snippet {
			return usagef("--snippet is for a link, not for a token")
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

// embedSecret prints the link or token of a new embed.
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
		return fmt.Errorf("the reply is not what the contract says: %w", err)
	}
	secret, what := made.URL, "The link"
	if made.Token != "" {
		secret, what = made.Token, "The token"
	}
	e.say("%s of %s is shown only now, and can be used until %s:", what, made.ID, made.ExpiresAt)
	if snippet {
		secret = fmt.Sprintf(`<iframe src="%s" title="Chat" width="400" height="600" referrerpolicy="no-referrer"></iframe>`, html.EscapeString(made.URL))
	}
	_, err := fmt.Fprintln(e.out, secret)
	return err
}

func (e *env) embedsRevoke() *cobra.Command {
	c := &cobra.Command{
		Use: "revoke AGENT EMBED...", Short: "End embeds", Args: takes("AGENT", "EMBED..."),
		Long: "End embeds at once: their links and tokens work no more. What was said stays.", Example: "  stoa embeds revoke support emu_01k9zqd3m8w5x7y2c4b6n8p0ra --yes",
	}
	yes := c.Flags().BoolP("yes", "y", false, "do not ask")
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
		agent, err := agentCollection().find(c.Context(), call, args[0])
		if err != nil {
			return err
		}
		if err := e.confirm(*yes, "Revoke %s, whose visitors cannot go on?", list(args[1:], "the embed", "embeds")); err != nil {
			return err
		}
		for i, id := range args[1:] {
			path := agentCollection().path + "/" + url.PathEscape(agent) + kinds[i] + "/" + url.PathEscape(id)
			if _, err := call.JSON(c.Context(), http.MethodDelete, path, nil, nil, nil); err != nil {
				return err
			}
			e.say("Revoked %s.", id)
		}
		return nil
	}
	return c
}
