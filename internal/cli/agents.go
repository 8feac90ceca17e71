package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"stoa/internal/client"
	"stoa/internal/jsonx"
)

func viewAgents() view {
	return view{"Agent", []column{
		{"Id", "id", plain},
		{"Name", "name", flexible},
		{"Model", "model", plain},
		{"Drive", "driveAccess", plain},
		{"Version", "version", count},
		{"Changed", "updatedAt", when},
	}}
}

func viewAgent() view {
	return view{"Agent", []column{
		{"Id", "id", plain},
		{"Name", "name", plain},
		{"Description", "description", plain},
		{"Space", "spaceId", plain},
		{"Model", "model", plain},
		{"Instructions", "instructions", plain},
		{"Drive", "driveAccess", plain},
		{"Drive in embeds", "visitorDrive", plain},
		{"Embeds", "embedEnabled", plain},
		{"Credits per turn", "limits.maxCreditsMicro", credits},
		{"Seconds per turn", "limits.timeoutSeconds", count},
		{"Steps per turn", "limits.maxSteps", count},
		{"External id", "externalId", plain},
		{"Metadata", "metadata", plain},
		{"Version", "version", count},
		{"Created", "createdAt", when},
		{"Changed", "updatedAt", when},
	}}
}

func viewVersions() view {
	return view{"AgentVersion", []column{
		{"Version", "version", count},
		{"Model", "model", plain},
		{"Drive", "driveAccess", plain},
		{"Made", "createdAt", when},
		{"Instructions", "instructions", flexible},
	}}
}

// A collection is the path of a kind of object, the prefix of its ids, and its
// name in the singular and plural. Objects of some have external ids.
type collection struct {
	path, prefix, word, words string
	external                  bool
}

func spaceCollection() collection { return collection{"/spaces", "spc_", "space", "spaces", true} }
func agentCollection() collection { return collection{"/api-agents", "agt_", "agent", "agents", true} }

func accountCollection() collection {
	return collection{"/accounts", "acc_", "account", "accounts", false}
}
func keyCollection() collection { return collection{"/keys", "key_", "key", "keys", false} }

// find resolves what the user typed to an id: an id itself, an external id, or
// a name that exactly one object has; of keys, one that is active.
func (p collection) find(ctx context.Context, call *client.Client, name string) (string, error) {
	if strings.HasPrefix(name, p.prefix) {
		return name, nil
	}
	type named struct {
		ID     string `json:"id"`
		Name   string `json:"name"`
		Status string `json:"status"`
	}
	if p.external {
		var page struct {
			Data []named `json:"data"`
		}
		if _, err := call.JSON(ctx, http.MethodGet, p.path, url.Values{"externalId": {name}}, nil, &page); err != nil {
			return "", err
		}
		if len(page.Data) == 1 {
			return page.Data[0].ID, nil
		}
	}
	var ids, names []string
	for row, err := range call.All(ctx, p.path, nil, 0) {
		if err != nil {
			return "", err
		}
		var n named
		if err := jsonx.Unmarshal(row, &n); err != nil {
			return "", err
		}
		if p.prefix == keyCollection().prefix && n.Status != "active" {
			continue
		}
		if n.Name == name {
			ids = append(ids, n.ID)
		}
		names = append(names, n.Name)
	}
	switch len(ids) {
	case 0:
		return "", fmt.Errorf("there is no %s %q; \"stoa %s list\" shows them%s", p.word, name, p.words, didYouMean(near(name, names)))
	case 1:
		return ids[0], nil
	}
	return "", fmt.Errorf("%d %s have the name %q; use an id: %s", len(ids), p.words, name, strings.Join(ids, ", "))
}

// onObject returns c completed with do, which gets the path of the object that
// the first argument names and the remaining arguments.
func (e *env) onObject(p collection, c *cobra.Command, do func(ctx context.Context, call *client.Client, o *output, path string, args []string) error) *cobra.Command {
	o := e.output(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		id, err := p.find(c.Context(), call, args[0])
		if err != nil {
			return err
		}
		return do(c.Context(), call, o, p.path+"/"+url.PathEscape(id), args[1:])
	}
	return c
}

// printObject returns an action for [env.onObject] that reads the object and
// prints it by v.
func printObject(v view) func(context.Context, *client.Client, *output, string, []string) error {
	return func(ctx context.Context, call *client.Client, o *output, path string, _ []string) error {
		raw, err := call.JSON(ctx, http.MethodGet, path, nil, nil, nil)
		if err != nil {
			return err
		}
		return o.object(v, raw)
	}
}

// deleteCommand returns c completed to delete one object after a confirmation.
// lost ends the question: what is lost with it.
func (e *env) deleteCommand(p collection, c *cobra.Command, lost string, query func() url.Values) *cobra.Command {
	yes := c.Flags().BoolP("yes", "y", false, "do not ask")
	c.RunE = func(c *cobra.Command, args []string) error {
		call, err := e.client()
		if err != nil {
			return err
		}
		id, err := p.find(c.Context(), call, args[0])
		if err != nil {
			return err
		}
		if err := e.confirm(*yes, "Delete the %s %s %s?", p.word, args[0], lost); err != nil {
			return err
		}
		var q url.Values
		if query != nil {
			q = query()
		}
		if _, err := call.JSON(c.Context(), http.MethodDelete, p.path+"/"+url.PathEscape(id), q, nil, nil); err != nil {
			return err
		}
		e.say("Deleted %s.", id)
		return nil
	}
	return c
}

// describeFlags are the flags that spaces and agents share.
type describeFlags struct {
	name, description, externalID *string
	metadata                      *[]string
}

func describe(c *cobra.Command) describeFlags {
	f := c.Flags()
	return describeFlags{
		name: f.String("name", "", "what it is called"), description: f.String("description", "", "what it is for"),
		externalID: f.String("external-id", "", "your own `id` for it, unique in the account"),
		metadata:   f.StringArray("metadata", nil, "a `name=value` pair to keep with it"),
	}
}

func (d describeFlags) body(c *cobra.Command) (map[string]any, error) {
	body := map[string]any{}
	set(body, c, "name", "name", *d.name)
	set(body, c, "description", "description", *d.description)
	set(body, c, "external-id", "externalId", *d.externalID)
	if len(*d.metadata) > 0 {
		pairs, err := metadata(*d.metadata)
		if err != nil {
			return nil, err
		}
		body["metadata"] = pairs
	}
	return body, nil
}

// deleteItemsCommand returns c completed to delete items of an agent by their
// ids, after a confirmation. verb begins the question, and lost ends it: what
// is lost with them.
func (e *env) deleteItemsCommand(c *cobra.Command, below, verb, one, many, lost string) *cobra.Command {
	yes := c.Flags().BoolP("yes", "y", false, "do not ask")
	c.RunE = func(c *cobra.Command, args []string) error {
		call, err := e.client()
		if err != nil {
			return err
		}
		agent, err := agentCollection().find(c.Context(), call, args[0])
		if err != nil {
			return err
		}
		if err := e.confirm(*yes, "%s %s %s?", verb, list(args[1:], one, many), lost); err != nil {
			return err
		}
		for _, id := range args[1:] {
			path := agentCollection().path + "/" + url.PathEscape(agent) + below + url.PathEscape(id)
			if _, err := call.JSON(c.Context(), http.MethodDelete, path, nil, nil, nil); err != nil {
				return err
			}
			e.say("%sd %s.", verb, id)
		}
		return nil
	}
	return c
}

// patch changes an object and prints the result. An empty body is wrong usage.
func (e *env) patch(ctx context.Context, call *client.Client, o *output, path string, body map[string]any, v view) error {
	if len(body) == 0 {
		return usagef("nothing is to be changed; name it with flags")
	}
	raw, err := call.JSON(ctx, http.MethodPatch, path, nil, body, nil)
	if err != nil {
		return err
	}
	return o.object(v, raw)
}

// agentFlags are the flags of agents create and update.
type agentFlags struct {
	describeFlags
	space, instructions, model, drive *string
	visitorDrive                      *string
	credits, tools                    *string
	timeout                           *string
	steps                             *int
	embeds                            *bool
	connections                       *[]string
}

func newAgentFlags(c *cobra.Command) agentFlags {
	f := c.Flags()
	return agentFlags{
		describeFlags: describe(c),
		space:         f.String("space", "", "the `space` it is in; default: the account's default space"),
		instructions:  f.StringP("instructions", "i", "", "`text` that tells it what it is and does; @FILE reads a file"),
		model:         f.StringP("model", "m", "", "`model` that it uses; default: auto"),
		drive:         f.String("drive", "", "read_only or read_write: what it may do with its drive"),
		visitorDrive:  f.String("visitor-drive", "", "none, read or write: what it may do with its drive in chats that embeds show; default: read"),
		credits:       f.String("max-credits", "", "what a turn may cost, in `credits`"),
		tools:         f.String("tools", "", "tools that programs of yours carry out, and of connections, as a JSON `list`; @FILE reads a file, [] has none"),
		connections:   f.StringArray("connection", nil, "tools of a connection that it may call, as `NAME=TOOL,TOOL`; may be repeated. Together with --tools this is the whole list"),
		timeout:       f.String("timeout", "", "how long a turn may take, such as 90s"),
		steps:         f.Int("max-steps", 0, "how many model calls a turn may make"),
		embeds:        f.Bool("embeds", true, "whether it may be shown in pages"),
	}
}

func (a agentFlags) body(ctx context.Context, e *env, c *cobra.Command, call *client.Client) (map[string]any, error) {
	body, err := a.describeFlags.body(c)
	if err != nil {
		return nil, err
	}
	instructions, err := e.textOf(*a.instructions)
	if err != nil {
		return nil, err
	}
	set(body, c, "instructions", "instructions", instructions)
	set(body, c, "model", "model", *a.model)
	set(body, c, "drive", "driveAccess", strings.ReplaceAll(*a.drive, "-", "_"))
	set(body, c, "visitor-drive", "visitorDrive", *a.visitorDrive)
	set(body, c, "embeds", "embedEnabled", *a.embeds)
	if *a.tools != "" {
		list, err := e.textOf(*a.tools)
		if err != nil {
			return nil, err
		}
		if !jsonx.Valid([]byte(list)) {
			return nil, usagef("--tools takes a JSON list, and this is not JSON")
		}
		body["tools"] = jsonx.Value(list)
	}
	if len(*a.connections) > 0 {
		if body["tools"], err = withConnections(ctx, call, body["tools"], *a.connections); err != nil {
			return nil, err
		}
	}
	limits := map[string]any{}
	set(limits, c, "max-steps", "maxSteps", *a.steps)
	if *a.credits != "" {
		n, err := parseCredits(*a.credits)
		if err != nil {
			return nil, err
		}
		limits["maxCreditsMicro"] = int64(n)
	}
	if *a.timeout != "" {
		d, err := span(*a.timeout)
		if err != nil {
			return nil, err
		}
		limits["timeoutSeconds"] = int64(d.Seconds())
	}
	if len(limits) > 0 {
		body["limits"] = limits
	}
	if *a.space != "" {
		if body["spaceId"], err = spaceCollection().find(ctx, call, *a.space); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// withConnections adds entries for tools of connections to a list of tools.
func withConnections(ctx context.Context, call *client.Client, list any, named []string) (any, error) {
	var tools []any
	if list != nil {
		if err := jsonx.Unmarshal([]byte(list.(jsonx.Value)), &tools); err != nil {
			return nil, usagef("--tools takes a JSON list")
		}
	}
	for _, text := range named {
		name, allow, ok := strings.Cut(text, "=")
		if !ok || name == "" || allow == "" {
			return nil, usagef("--connection takes NAME=TOOL,TOOL, not %q", text)
		}
		id, err := connectionCollection().find(ctx, call, name)
		if err != nil {
			return nil, err
		}
		tools = append(tools, map[string]any{"type": "connection", "connectionId": id, "allow": strings.Split(allow, ",")})
	}
	return tools, nil
}

func (e *env) agents() *cobra.Command {
	c := group("agents", "Make and change hosted agents", "Make and change hosted agents. AGENT is an id, an external id, or a name that only one has.")
	list := &cobra.Command{
		Use: "list", Short: "List the agents", Args: noArgs,
		Long: "List the agents of the account, newest first.", Example: "  stoa agents list\n  stoa agents list --space spc_01k9zqd3m8w5x7y2c4b6n8p0ra",
	}
	space := list.Flags().String("space", "", "only of the space with this `id`")
	e.listCommand(list, viewAgents(), "There are no agents yet; \"stoa agents create\" makes one.", func(*cobra.Command, []string) (string, url.Values, error) {
		query := url.Values{}
		if *space != "" {
			query.Set("spaceId", *space)
		}
		return "/api-agents", query, nil
	})
	c.AddCommand(list,
		e.onObject(agentCollection(), &cobra.Command{
			Use: "get AGENT", Short: "Show an agent", Args: takes("AGENT"),
			Long: "Show an agent with its instructions and limits.", Example: "  stoa agents get support\n  stoa agents get support --jq .instructions",
		}, printObject(viewAgent())),
		e.agentsCreate(), e.agentsUpdate(),
		e.deleteCommand(agentCollection(), &cobra.Command{
			Use: "delete AGENT", Short: "Delete an agent", Args: takes("AGENT"),
			Long:    "Delete an agent with its drive, sessions and schedules. Turns that run are cancelled; receipts stay.",
			Example: "  stoa agents delete support --yes",
		}, "with its drive and sessions", nil),
		e.agentsVersions(), e.agentsRollback(), e.agentsDuplicate(),
	)
	return c
}

func (e *env) agentsCreate() *cobra.Command {
	c := &cobra.Command{
		Use: "create", Short: "Create an agent", Args: noArgs,
		Long:    "Make an agent: instructions, a model and a drive, kept for sessions to run on.",
		Example: "  stoa agents create --name support -i @instructions.md\n  AGENT=$(stoa agents create --name support -i \"You answer from the handbook.\" --jq .id)",
	}
	o, a := e.output(c), newAgentFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *a.name == "" || *a.instructions == "" {
			return usagef("an agent needs a --name and --instructions")
		}
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		body, err := a.body(c.Context(), e, c, call)
		if err != nil {
			return err
		}
		if body["spaceId"] == nil {
			if body["spaceId"], err = e.defaultSpace(c.Context(), call); err != nil {
				return err
			}
		}
		raw, err := call.JSON(c.Context(), http.MethodPost, "/api-agents", nil, body, nil)
		if err != nil {
			return err
		}
		return o.object(viewAgent(), raw)
	}
	return c
}

// defaultSpace returns the id of the account's default space.
func (e *env) defaultSpace(ctx context.Context, call *client.Client) (string, error) {
	var me struct {
		DefaultSpaceID *string `json:"defaultSpaceId"`
	}
	if _, err := call.JSON(ctx, http.MethodGet, "/users/me", nil, nil, &me); err != nil {
		return "", err
	}
	if me.DefaultSpaceID == nil {
		return "", usagef("the account has no default space; make one with \"stoa spaces create\" and name it with --space")
	}
	return *me.DefaultSpaceID, nil
}

func (e *env) agentsUpdate() *cobra.Command {
	c := &cobra.Command{
		Use: "update AGENT", Short: "Change an agent", Args: takes("AGENT"),
		Long: `Change what the flags name; an empty text clears. A change of instructions, model, tools,
limits or drive access makes a new version. Sessions keep the version they began with.`,
		Example: "  stoa agents update support -m alpha-sonnet-5-5\n  stoa agents update support -i @instructions.md",
	}
	a := newAgentFlags(c)
	return e.onObject(agentCollection(), c, func(ctx context.Context, call *client.Client, o *output, path string, _ []string) error {
		body, err := a.body(ctx, e, c, call)
		if err != nil {
			return err
		}
		return e.patch(ctx, call, o, path, body, viewAgent())
	})
}

func (e *env) agentsVersions() *cobra.Command {
	c := &cobra.Command{
		Use: "versions AGENT", Short: "List the versions of an agent", Args: takes("AGENT"),
		Long: "List the versions of an agent: its instructions, model, limits and drive access as they were.", Example: "  stoa agents versions support",
	}
	n := limit(c)
	return e.onObject(agentCollection(), c, func(ctx context.Context, call *client.Client, o *output, path string, _ []string) error {
		return o.list(viewVersions(), call.All(ctx, path+"/versions", nil, rowsToFetch(*n)), *n, "There are no versions.")
	})
}

func (e *env) agentsRollback() *cobra.Command {
	return e.onObject(agentCollection(), &cobra.Command{
		Use: "rollback AGENT VERSION", Short: "Go back to an earlier version", Args: takes("AGENT", "VERSION"),
		Long: "Make a new version of an agent that is like an earlier one.", Example: "  stoa agents rollback support 3",
	}, func(ctx context.Context, call *client.Client, o *output, path string, args []string) error {
		n, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || n < 1 {
			return usagef("%q is no version; \"stoa agents versions\" lists them", args[0])
		}
		raw, err := call.JSON(ctx, http.MethodPost, path+"/rollback", nil, map[string]any{"version": n}, nil)
		if err != nil {
			return err
		}
		return o.object(viewAgent(), raw)
	})
}

func (e *env) agentsDuplicate() *cobra.Command {
	c := &cobra.Command{
		Use: "duplicate AGENT", Short: "Make a second agent like this one", Args: takes("AGENT"),
		Long: "Make a second agent with the same configuration. Its drive is empty and it has no sessions.", Example: "  stoa agents duplicate support --name support-test",
	}
	name, space := c.Flags().String("name", "", "what the new one is called"), c.Flags().String("space", "", "the `space` it is in; default: beside the old one")
	return e.onObject(agentCollection(), c, func(ctx context.Context, call *client.Client, o *output, path string, _ []string) error {
		body := map[string]any{}
		set(body, c, "name", "name", *name)
		if *space != "" {
			id, err := spaceCollection().find(ctx, call, *space)
			if err != nil {
				return err
			}
			body["spaceId"] = id
		}
		raw, err := call.JSON(ctx, http.MethodPost, path+"/duplicate", nil, body, nil)
		if err != nil {
			return err
		}
		return o.object(viewAgent(), raw)
	})
}
