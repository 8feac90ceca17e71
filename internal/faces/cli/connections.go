package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stoa/internal/agents/httptool"
	"stoa/internal/base/client"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

var connectionCollection = collection{"/connections", "con_", "connection", "connections", false}

var viewConnections = view{"Connection", []column{
	{"Id", "id", ident},
	{"Name", "name", objectName},
	{"Status", "status", state},
	{"Approved", "toolCounts.approved", count},
	{"To review", "toolCounts.new", count},
	{"URL", "url", flexible},
}}

var viewConnection = view{"Connection", []column{
	{"Id", "id", ident},
	{"Space", "spaceId", ident},
	{"Name", "name", plain},
	{"Kind", "kind", plain},
	{"URL", "url", plain},
	{"Document", "documentUrl", plain},
	{"Tags", "filter.tags", plain},
	{"Paths", "filter.paths", plain},
	{"Search", "filter.search", plain},
	{"Sessions", "sessions", plain},
	{"On change", "onChange", plain},
	{"Authorized by", "auth.type", plain},
	{"Secret", "auth.secretId", ident},
	{"Headers", "headers", plain},
	{"Status", "status", state},
	{"Error", "lastError.message", plain},
	{"Protocol", "protocol.version", plain},
	{"Server", "protocol.serverName", plain},
	{"Server version", "protocol.serverVersion", plain},
	{"Approved tools", "toolCounts.approved", count},
	{"New tools", "toolCounts.new", count},
	{"Changed tools", "toolCounts.changed", count},
	{"Missing tools", "toolCounts.missing", count},
	{"Rejected tools", "toolCounts.rejected", count},
	{"Unusable tools", "toolCounts.invalid", count},
	{"Checked", "lastCheckedAt", when},
	{"Created", "createdAt", when},
}}

var viewTools = view{"ConnectionTool", []column{
	{"Tool", "name", plain},
	{"State", "state", state},
	{"Approval", "approval", plain},
	{"Effects", "effects", plain},
	{"If unknown", "onUnknown", plain},
	{"Id in", "idempotencyArgument", plain},
	{"Hash", "sha256", plain},
	{"Description", "description", flexible},
}}

func (e *env) connections() *cobra.Command {
	c := group("connections", "Manage connections to servers with tools", `Connect servers that provide tools (with the Model Context Protocol or an HTTP API), review their tools, and
test them. CONNECTION is an id, or a unique name.`)
	refresh := command("refresh CONNECTION", "Refresh the tools of a connection",
		"Read the tools of the server, and show the differences. This approves no tools.",
		"  stoa connections refresh notes")
	c.AddCommand(
		e.connectionsCreate(),
		e.verb(verb{
			use: "list", short: "List the connections",
			long: "List the connections of the account, newest first.", example: "  stoa connections list",
			op: "GET /connections", rows: viewConnections, none: "There are no connections.",
			fields: []field{searchField("name, address or id")},
		}),
		e.verb(verb{
			use: "get CONNECTION", short: "Show a connection",
			long: "Show a connection, its server, and why the last refresh failed.", example: "  stoa connections get notes",
			op: "GET /connections/{CONNECTION}", show: viewConnection,
		}),
		e.verb(verb{
			use: "update CONNECTION", short: "Change a connection",
			long: "Change the given settings. Changing the address or the secret revokes the review of every tool.", example: "  stoa connections update notes --url https://notes.example.com/v2/mcp",
			op: "PATCH /connections/{CONNECTION}", show: viewConnection, missing: nothingChanges,
			fields: append(connectionFields, field{"url", "url", asText, "the `address` of the server"}), extra: []adder{e.connectionFlags},
		}),
		e.verb(verb{
			use: "deauthorize CONNECTION", short: "Delete the tokens of a connection",
			long: "Delete the tokens of a connection. Its tools are withheld until it is authorized again.", example: "  stoa connections deauthorize github",
			op: "POST /connections/{CONNECTION}/deauthorize", show: viewConnection,
		}),
		e.verb(verb{
			use: "delete CONNECTION", short: "Delete a connection",
			long: "Delete a connection with its catalog. A connection whose tools agents use is deleted only with --force, which withholds the tools.", example: "  stoa connections delete notes --yes",
			op: "DELETE /connections/{CONNECTION}", ask: asks("Delete %s with the review of its tools?", "the connection", "connections"),
			fields: []field{{"force", "force", asBool, "delete it even if agents use its tools"}},
		}),
		e.connectionsSwitch("enable", "Switch a connection on", `Switch a connection on again. The review of its tools applies immediately.`, true),
		e.connectionsSwitch("disable", "Switch a connection off", `Switch a connection off: its tools are withheld, planned calls are not made, and no requests are sent to its
server. The review of its tools is kept. The agents that use its tools are listed.`, false),
		e.onObject(connectionCollection, refresh, e.refreshConnection),
		e.verb(verb{
			use: "tools CONNECTION", short: "List the tools of a connection",
			long: "List the tools of a connection with their review.", example: "  stoa connections tools notes",
			op: "GET /connections/{CONNECTION}/tools", rows: viewTools, whole: true, none: "The server has no tools, or was not refreshed yet.",
		}),
		e.connectionsAuthorize(),
		e.connectionsReview(),
		e.connectionsTest(),
	)
	return c
}

// connectionFields returns settings of a connection. [env.connectionFlags] adds those that a field cannot describe.
var connectionFields = []field{
	{"on-change", "onChange", asText, "the `handling` of an approved tool whose definition has changed: block or keep (default block)"},
	{"credentials-per-session", "credentialsPerSession", asText, "whether sessions can supply their own secrets: off, optional or required (default off)"},
	{"sessions", "sessions", asText, "the `lifetime` of a session at a stateful server: turn or session (default turn)"},
	{"timeout-seconds", "limits.timeoutSeconds", asNumber, "the timeout of a call, in `seconds`"},
	{"max-result-bytes", "limits.maxResultBytes", asNumber, "the maximum size of a result, in `bytes`"},
	{"max-concurrent", "limits.maxConcurrent", asNumber, "the maximum number of concurrent `calls`"},
	{"calls-per-minute", "limits.callsPerMinute", asNumber, "the maximum number of `calls` per minute"},
}

func (e *env) connectionFlags(c *cobra.Command) setter {
	f := c.Flags()
	secret := f.String("secret", "", "the `secret` that requests carry, by id or name; empty for none")
	byOAuth := f.Bool("oauth", false, "requests carry an OAuth token; see \"stoa connections authorize\"")
	scopes := f.StringSlice("scope", nil, "a `scope` to request, with --oauth; repeatable (default: the scopes that the server requires)")
	sends(c, "scope", "auth.scopes")
	clientID := f.String("client-id", "", "the `id` of a client that is registered with the authorization server, with --oauth")
	clientSecret := f.String("client-secret", "", "the `secret` of that client, by id or name")
	clientGrant := f.Bool("client-credentials", false, "the client authenticates as itself; no person authorizes the connection")
	headers := f.StringArray("header", nil, "a `header` that requests carry, such as \"X-Team: docs\"; repeatable")
	operations := f.String("operations", "", "a `file` with the operations of the kind http, a JSON list; - is standard input")
	document := f.String("document", "", "the OpenAPI document of the kind openapi: an `address` or a file; - is standard input")
	tags := f.StringSlice("tag", nil, "import only operations with this `tag` of the document; repeatable")
	paths := f.StringSlice("path", nil, "import only operations whose path begins with this `prefix`; repeatable")
	search := f.String("search", "", "import only operations that contain these `words`")
	sends(c, "tag", "filter.tags")
	sends(c, "path", "filter.paths")
	sends(c, "search", "filter.search")
	return func(body map[string]any) error {
		filter := stoa.OperationFilter{Tags: *tags, Paths: *paths, Search: *search}
		if f.Changed("tag") || f.Changed("path") || f.Changed("search") {
			body["filter"] = filter
		}
		switch {
		case *byOAuth:
			auth := map[string]any{"type": "oauth"}
			if *clientGrant {
				auth["grant"] = "client_credentials"
			}
			if len(*scopes) > 0 {
				auth["scopes"] = *scopes
			}
			if *clientID != "" {
				auth["clientId"] = *clientID
			}
			body["auth"] = withSecret(auth, "clientSecretId", *clientSecret)
		case *clientID+*clientSecret != "" || *clientGrant || len(*scopes) > 0:
			return usagef("--scope, --client-id, --client-secret and --client-credentials require --oauth")
		case *secret != "":
			body["auth"] = withSecret(map[string]any{"type": "secret"}, "secretId", *secret)
		case f.Changed("secret"):
			body["auth"] = map[string]any{"type": "none"}
		}
		if f.Changed("header") {
			all := map[string]string{}
			for _, h := range *headers {
				name, value, ok := strings.Cut(h, ":")
				if !ok {
					return usagef("%q is not a header; write a name, a colon and a value", h)
				}
				all[strings.TrimSpace(name)] = strings.TrimSpace(value)
			}
			body["headers"] = all
		}
		return e.describeConnection(c, *operations, *document, filter, body)
	}
}

func withSecret(auth map[string]any, member, name string) lookup {
	return func(ctx context.Context, call *client.Client) (any, error) {
		if name == "" {
			return auth, nil
		}
		id, err := secretCollection.find(ctx, call, name)
		auth[member] = id
		return auth, err
	}
}

const (
	maxDescribed = 4 << 20          // bytes of operations that are sent
	maxDocument  = httptool.MaxJSON // bytes of a document in a file; larger than maxDescribed, because it is reduced first
)

func (e *env) describeConnection(c *cobra.Command, operations, document string, filter stoa.OperationFilter, body map[string]any) error {
	if c.Flags().Changed("operations") {
		text, err := e.fileText(operations, operations, maxDescribed)
		if err != nil {
			return err
		}
		if !jsonx.Valid([]byte(text)) || !strings.HasPrefix(strings.TrimSpace(text), "[") {
			return usagef("%s is not a JSON list of operations", operations)
		}
		body["operations"] = jsonx.Value(text)
	}
	if !c.Flags().Changed("document") {
		return nil
	}
	if strings.HasPrefix(document, "https://") || strings.HasPrefix(document, "http://") {
		body["documentUrl"] = document
		return nil
	}
	text, err := e.fileText(document, document, maxDocument)
	if err == nil && len(text) > maxDescribed { // only what is imported is sent
		if text, err = httptool.Reduce(c.Context(), text, filter); err != nil {
			return usagef("%s: %v", document, err)
		}
	}
	body["document"] = text
	return err
}

func (e *env) connectionsCreate() *cobra.Command {
	c := &cobra.Command{
		Use: "create NAME [URL]", Short: "Connect a server and read its tools", Args: takes("NAME", "[URL]"),
		Long: `Connect a server and read its tools. The name consists of lower-case letters and digits, and is part of the
tool names that models see. If the server cannot be reached, the connection is created regardless: see "stoa
connections get".

A server of the Model Context Protocol requires only an address. With --kind http, the file of --operations
describes the requests that serve as tools. With --kind openapi, an OpenAPI document describes them; without
URL, it also gives the address of the server.`,
		Example: `  stoa connections create notes https://notes.example.com/mcp --secret notes-token
  stoa connections create orders https://api.example.com --kind http --operations orders.json
  stoa connections create shop --kind openapi --document https://api.example.com/openapi.json
  stoa connections create forge --kind openapi --document https://forge.example.com/swagger.json --tag issue`,
	}
	kind := c.Flags().String("kind", "mcp", "the `kind` of server: mcp, http or openapi")
	settings := e.flags(c, append(connectionFields, field{"space", "spaceId", asSpace, "the `space` of the connection (default: the default space)"})...)
	more, o := e.connectionFlags(c), e.output(c)
	return e.calling(c, o, func(ctx context.Context, call *client.Client, args []string) error {
		body := map[string]any{"kind": *kind, "name": args[0]}
		if len(args) > 1 {
			body["url"] = args[1]
		} else if *kind != "openapi" {
			return usagef("the address of the server is missing: stoa connections create %s URL", args[0])
		}
		if err := errors.Join(settings(body), more(body)); err != nil {
			return err
		}
		if err := look(ctx, call, body); err != nil {
			return err
		}
		var made contract.Connection
		raw, err := call.JSON(ctx, http.MethodPost, "/connections", nil, body, &made)
		if err != nil {
			return err
		}
		if made.Status == "needs_authorization" {
			e.hint("Authorize it, and then read its tools: stoa connections authorize %s; stoa connections refresh %[1]s", args[0])
			return o.object(viewConnection, raw)
		}
		err = e.refreshConnection(ctx, call, o, "/connections/"+made.ID, nil)
		if err != nil { // because the connection would be created again
			e.say("The connection was created, without tools. Change it with \"stoa connections update\", then read them: stoa connections refresh %s", args[0])
		}
		return err
	})
}

// namedTools is the maximum number of tools that [env.refreshConnection] lists by name.
const namedTools = 20

func (e *env) refreshConnection(ctx context.Context, call *client.Client, o *output, path string, _ []string) error {
	var d struct {
		Added      []string    `json:"added"`
		Changed    []string    `json:"changed"`
		Missing    []string    `json:"missing"`
		Unchanged  int         `json:"unchanged"`
		Connection jsonx.Value `json:"connection"`
	}
	raw, err := call.JSON(ctx, http.MethodPost, path+"/refresh", nil, nil, &d)
	if err != nil {
		return err
	}
	if o.raw() {
		return o.printJSON(raw)
	}
	for _, part := range []struct {
		what  string
		names []string
	}{{"new", d.Added}, {"changed", d.Changed}, {"missing", d.Missing}} {
		if len(part.names) > 0 {
			names, rest := part.names, ""
			if more := len(names) - namedTools; more > 0 {
				names, rest = names[:namedTools], fmt.Sprintf(" and %d more", more)
			}
			e.say("%s %s: %s%s", some(len(part.names), "tool is", "tools are"), part.what, strings.Join(names, ", "), rest)
		}
	}
	if len(d.Added)+len(d.Changed)+len(d.Missing) == 0 {
		e.say("No changes; %s.", some(d.Unchanged, "tool", "tools"))
	}
	return o.object(viewConnection, d.Connection)
}

type reviewedTool struct {
	Name        string      `json:"name"`
	Title       string      `json:"title"`
	Description string      `json:"description"`
	InputSchema jsonx.Value `json:"inputSchema"`
	Request     jsonx.Value `json:"request"`
	SHA256      string      `json:"sha256"`
	State       string      `json:"state"`
	Warnings    []string    `json:"warnings"`
	Suggested   struct {
		Approval string `json:"approval"`
		Effects  string `json:"effects"`
	} `json:"suggested"`
	Previous *struct {
		Request     jsonx.Value `json:"request"`
		Description string      `json:"description"`
		InputSchema jsonx.Value `json:"inputSchema"`
	} `json:"previous"`

	raw jsonx.Value
}

func catalog(ctx context.Context, call *client.Client, path string) ([]reviewedTool, error) {
	var list struct {
		Data []jsonx.Value `json:"data"`
	}
	if _, err := call.JSON(ctx, http.MethodGet, path+"/tools", nil, nil, &list); err != nil {
		return nil, err
	}
	all := make([]reviewedTool, len(list.Data))
	for i, raw := range list.Data {
		if err := jsonx.Unmarshal(raw, &all[i]); err != nil {
			return nil, fmt.Errorf("the reply does not match the contract: %w", err)
		}
		all[i].raw = raw
	}
	return all, nil
}

// A review shows so many digits of a hash that nobody can write another text with the same ones. An approval takes fewer, because earlier
// releases showed 12.
const (
	hashShown  = 32
	hashNeeded = 12
)

func (e *env) connectionsReview() *cobra.Command {
	c := command("review CONNECTION", "Review the tools of a server",
		`Without flags, show the tools that are not reviewed yet: their definitions, and the differences from the
approved ones. The texts come from the server: read them before you approve.

Decide with --approve and --reject and the name and hash that are shown: notes@1f2e3d4c5b6a. If the definition
has changed since, no decision is stored. Without --approval and --effects, the suggestions of the review are
used. Omitted flags have their defaults, even for a tool that was approved with other values before.`,
		"  stoa connections review notes\n  stoa connections review notes --approve search_notes@1f2e3d4c5b6a --approval never --effects read\n  stoa connections review shop --approve cancel_order@2b3c4d5e6f70 --approval never --effects once --visitors=confirm --visitor-title 'Cancel an order' --public /order_id")
	f := c.Flags()
	approve, reject := f.StringSlice("approve", nil, "a `tool` with its hash; repeatable"), f.StringSlice("reject", nil, "a `tool` with its hash; repeatable")
	approval, effects := f.String("approval", "", "whether a person approves each call: always or never"), f.String("effects", "", "the `effect` of a call: read (none), idempotent (can be repeated) or once (must not be repeated)")
	onUnknown := f.String("on-unknown", "", "the `handling` of calls with an unknown outcome: tell_model, or fail, which ends the turn (default tell_model)")
	argument := f.String("idempotency-argument", "", "the `argument` of the approved tools that carries the id of a call (default none)")
	visitors := f.String("visitors", "", "whether the approved tools are also offered in visitors' chats: yes (requires --effects read; also without a value), or confirm (the visitor confirms each call)")
	f.Lookup("visitors").NoOptDefVal = "yes"
	title := f.String("visitor-title", "", "with --visitors=confirm, the `text` that visitors confirm, such as \"Cancel an order\"")
	public := f.StringArray("public", nil, "with --visitors=confirm, an `argument` that visitors see, as a JSON Pointer such as /order_id; repeatable")
	return e.onObject(connectionCollection, c, func(ctx context.Context, call *client.Client, o *output, path string, _ []string) error {
		all, err := catalog(ctx, call, path)
		if err != nil {
			return err
		}
		if len(*approve)+len(*reject) == 0 {
			return e.showReview(o, all)
		}
		if *visitors != "confirm" && (*title != "" || len(*public) > 0) {
			return usagef("--visitor-title and --public require --visitors=confirm")
		}
		if (*approval == "") != (*effects == "") {
			return usagef("--approval and --effects must be used together")
		}
		var decisions []map[string]any
		for i, word := range append(slices.Clone(*approve), *reject...) {
			t, err := chosen(all, word)
			if err != nil {
				return err
			}
			d := map[string]any{"name": t.Name, "sha256": t.SHA256, "decision": "reject"}
			if i < len(*approve) {
				d["decision"], d["policy"] = "approve", "by_annotations"
				if *visitors != "" {
					d["visitors"] = *visitors
				}
				if *title != "" {
					d["visitorTitle"] = *title
				}
				if len(*public) > 0 {
					d["publicFields"] = *public
				}
				if *approval != "" {
					delete(d, "policy")
					d["approval"], d["effects"] = *approval, *effects
				}
				if *onUnknown != "" {
					d["onUnknown"] = *onUnknown
				}
				if *argument != "" {
					d["idempotencyArgument"] = *argument
				}
			}
			decisions = append(decisions, d)
		}
		raw, err := call.JSON(ctx, http.MethodPost, path+"/tools/review", nil, map[string]any{"tools": decisions}, nil)
		if err != nil {
			return err
		}
		if o.raw() {
			return o.printJSON(raw)
		}
		e.say("Approved %d, rejected %d.", len(*approve), len(*reject))
		return nil
	})
}

func chosen(all []reviewedTool, word string) (reviewedTool, error) {
	name, hash, ok := word, "", false
	if i := strings.LastIndexByte(word, '@'); i >= 0 {
		name, hash, ok = word[:i], word[i+1:], true
	}
	if !ok || len(hash) < hashNeeded {
		return reviewedTool{}, usagef("%q has no hash; \"stoa connections review\" shows the tools with their hashes", word)
	}
	for _, t := range all {
		if t.Name == name {
			if strings.HasPrefix(t.SHA256, hash) {
				return t, nil
			}
			return t, fmt.Errorf("the definition of the tool %q does not have that hash; review it again", name)
		}
	}
	return reviewedTool{}, fmt.Errorf("there is no tool %q", name)
}

func (e *env) showReview(o *output, all []reviewedTool) error {
	var open []reviewedTool
	for _, t := range all {
		if t.State == "new" || t.State == "changed" || t.State == "missing" {
			open = append(open, t)
		}
	}
	if o.raw() {
		return o.list(viewTools, func(yield func(jsonx.Value, error) bool) {
			for _, t := range open {
				if !yield(t.raw, nil) {
					return
				}
			}
		}, 0, "")
	}
	if len(open) == 0 {
		e.hint("There are no tools to review.")
		return nil
	}
	var b strings.Builder
	for _, t := range open {
		fmt.Fprintf(&b, "%s@%s  %s\n", clean(t.Name), t.SHA256[:hashShown], t.State)
		fmt.Fprintf(&b, "  %s\n", strings.ReplaceAll(clean(t.Description), "\n", "\n  "))
		fmt.Fprintf(&b, "  Arguments: %s\n", clean(string(t.InputSchema)))
		if shown := string(t.Request); shown != "" && shown != "null" {
			fmt.Fprintf(&b, "  Request: %s\n", clean(shown))
		}
		if t.Previous != nil && t.State == "changed" {
			if t.Previous.Description != t.Description {
				fmt.Fprintf(&b, "  Was: %s\n", strings.ReplaceAll(clean(t.Previous.Description), "\n", "\n  "))
			}
			if string(t.Previous.InputSchema) != string(t.InputSchema) {
				fmt.Fprintf(&b, "  Arguments were: %s\n", clean(string(t.Previous.InputSchema)))
			}
			if string(t.Previous.Request) != string(t.Request) {
				fmt.Fprintf(&b, "  Request was: %s\n", clean(string(t.Previous.Request)))
			}
		}
		for _, w := range t.Warnings {
			fmt.Fprintf(&b, "  Careful: %s\n", clean(w))
		}
		fmt.Fprintf(&b, "  Suggested: approval %s, effects %s\n", t.Suggested.Approval, t.Suggested.Effects)
	}
	_, err := fmt.Fprint(e.out, b.String())
	return err
}

func (e *env) connectionsTest() *cobra.Command {
	c := &cobra.Command{
		Use: "test CONNECTION TOOL [ARGUMENTS]", Short: "Call a tool once", Args: takes("CONNECTION", "TOOL", "[ARGUMENTS]"),
		Long: `Call an approved tool once and print its answer. ARGUMENTS is a JSON object. A tool with effects requires
--confirm, because the call is real. The exit code is 1 if the tool failed or the outcome is unknown.`,
		Example: "  stoa connections test notes search_notes '{\"word\": \"welcome\"}'",
	}
	confirm := c.Flags().Bool("confirm", false, "confirm the call of a tool with effects")
	return e.onObject(connectionCollection, c, func(ctx context.Context, call *client.Client, o *output, path string, args []string) error {
		body := map[string]any{"name": args[0], "confirm": *confirm}
		if len(args) > 1 {
			body["arguments"] = jsonx.Value(args[1])
			if !jsonx.Valid([]byte(args[1])) || !strings.HasPrefix(strings.TrimSpace(args[1]), "{") {
				return usagef("the arguments are not a JSON object: %s", args[1])
			}
		}
		var out contract.ConnectionToolTest
		raw, err := call.JSON(ctx, http.MethodPost, path+"/tools/test", nil, body, &out)
		if err != nil {
			return err
		}
		if o.raw() {
			if err := o.printJSON(raw); err != nil {
				return err
			}
		} else if text, err := out.Text.Get(); err == nil {
			if _, err := fmt.Fprintln(e.out, clean(text)); err != nil {
				return err
			}
		}
		if out.Outcome == "ok" {
			return nil
		}
		if why, err := out.Message.Get(); err == nil {
			return fmt.Errorf("%s: %s", strings.ReplaceAll(out.Outcome, "_", " "), why)
		}
		return fmt.Errorf("the tool reported a failure")
	})
}

func (e *env) connectionsSwitch(verb, short, long string, on bool) *cobra.Command {
	c := command(verb+" CONNECTION", short, long, "  stoa connections "+verb+" github")
	return e.onObject(connectionCollection, c, func(ctx context.Context, call *client.Client, o *output, path string, _ []string) error {
		var now contract.Connection
		raw, err := call.JSON(ctx, http.MethodPatch, path, nil, map[string]any{"enabled": on}, &now)
		if err != nil {
			return err
		}
		if !on {
			if err := e.nameUsers(ctx, call, now.SpaceID, now.ID); err != nil {
				e.hint("The agents that use its tools could not be determined: %v", err)
			}
		}
		return o.object(viewConnection, raw)
	})
}

// namedUsers is the maximum number of agents that [env.nameUsers] lists by name.
const namedUsers = 10

// nameUsers lists the agents that use tools of a connection, because they lose them while it is disabled.
func (e *env) nameUsers(ctx context.Context, call *client.Client, spaceID, connectionID string) error {
	var names []string
	more := 0
	for raw, err := range call.All(ctx, "/api-agents", url.Values{"spaceId": {spaceID}}, 0) {
		if err != nil {
			return err
		}
		var a contract.Agent
		if err := jsonx.Unmarshal(raw, &a); err != nil {
			return err
		}
		for _, t := range a.Tools {
			switch {
			case t.ConnectionID != connectionID:
			case len(names) < namedUsers:
				names = append(names, clean(a.Name))
			default:
				more++
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	rest := ""
	if more > 0 {
		rest = fmt.Sprintf(" and %d more", more)
	}
	e.say("Its tools are withheld from: %s%s.", strings.Join(names, ", "), rest)
	return nil
}

const authorizePause = time.Second

// authorizationEnded reports whether an authorization of a connection has ended. The error is the reason if it did not
// succeed.
func authorizationEnded(c contract.Connection, id string) (bool, error) {
	last, err := c.LastAuthorization.Get()
	switch why := clean(orEmpty(last.Message)); {
	case err != nil || last.ID != id:
		return true, errors.New("another authorization of the connection was started meanwhile")
	case last.Status == "authorized":
		return true, nil
	case last.Status == "cancelled":
		return true, fmt.Errorf("the authorization was cancelled. %s", why)
	case last.Status == "failed":
		return true, fmt.Errorf("the connection was not authorized. %s", why)
	}
	return false, nil
}

func (e *env) connectionsAuthorize() *cobra.Command {
	c := command("authorize CONNECTION", "Authorize a connection in a browser",
		`Print the address where a person authorizes the connection, and wait for the result. No browser is started:
check the address, and open it yourself. The authorization server redirects to the service, which must be
reachable from that browser at its public address; there it asks which account can use your access before it
connects. If the sign-in fails or is cancelled, the command prints the reason and the exit code is 1. Send the
address only to the person whose access the connection will use.`,
		"  stoa connections authorize github\n  stoa connections authorize github --wait 0")
	wait := c.Flags().Duration("wait", 10*time.Minute, "the maximum `duration` to wait for the person; 0 does not wait")
	return e.onObject(connectionCollection, c, func(ctx context.Context, call *client.Client, o *output, path string, _ []string) error {
		var begun contract.AuthorizationStart
		raw, err := call.JSON(ctx, http.MethodPost, path+"/authorize", nil, nil, &begun)
		if err != nil {
			return err
		}
		if o.raw() {
			err = o.printJSON(raw)
		} else {
			if begun.SignInOrigin != "" {
				e.say("The person signs in at %s; the access token comes from %s.", clean(begun.SignInOrigin), clean(begun.TokenOrigin))
			}
			_, err = fmt.Fprintln(e.out, clean(begun.AuthorizeURL))
		}
		if err != nil || *wait <= 0 {
			return err
		}
		e.hint("Open the address in a browser. Waiting until the connection is authorized.")
		waiting, cancel := context.WithTimeout(ctx, *wait)
		defer cancel()
		for {
			timer := time.NewTimer(authorizePause)
			select {
			case <-waiting.Done():
				timer.Stop()
				if ctx.Err() != nil {
					return ctx.Err()
				}
				return errors.New("the connection was not authorized in time; try again")
			case <-timer.C:
			}
			var now contract.Connection
			if _, err := call.JSON(ctx, http.MethodGet, path, nil, nil, &now); err != nil {
				return err
			}
			if ended, err := authorizationEnded(now, begun.ID); err != nil {
				return err
			} else if ended {
				e.say("The connection is authorized.")
				return nil
			}
		}
	})
}
