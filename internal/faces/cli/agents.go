package cli

import (
	"context"
	"encoding/json" // because it keeps the notation of numbers
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"stoa/internal/base/client"
	"stoa/internal/base/jsonx"
)

var viewAgents = viewAgent.only("id", "name", "spaceId", "model", "driveAccess", "version", "updatedAt")

var viewAgent = view{"Agent", []column{
	{"Id", "id", ident},
	{"Name", "name", objectName},
	{"Description", "description", plain},
	{"Space", "spaceId", flexible},
	{"Model", "model", plain},
	{"Instructions", "instructions", plain},
	{"Drive", "driveAccess", plain},
	{"Drive in embeds", "visitorDrive", plain},
	{"Embeds", "embedEnabled", plain},
	{"Offered as", "expose", plain},
	{"Time zone", "timezone", plain},
	{"Summarized above", "compactAt", plain},
	{"Queries tables", "tables", plain},
	{"Memory", "memory", plain},
	{"Skills", "skills.name", plain},
	{"Searches tools", "toolSearch", plain},
	{"Reply schema", "replySchema", plain},
	{"Effort", "reasoning.effort", plain},
	{"Temperature", "temperature", plain},
	{"Credits per turn", "limits.maxCreditsMicro", credits},
	{"Seconds per turn", "limits.timeoutSeconds", count},
	{"Steps per turn", "limits.maxSteps", count},
	{"External id", "externalId", ident},
	{"Metadata", "metadata", plain},
	{"Version", "version", count},
	{"Created", "createdAt", when},
	{"Changed", "updatedAt", when},
}}

var viewVersions = view{"AgentVersion", []column{
	{"Version", "version", count},
	{"Model", "model", plain},
	{"Drive", "driveAccess", plain},
	{"Created", "createdAt", when},
	{"Instructions", "instructions", flexible},
}}

// A collection describes a kind of object: its path, the prefix of its ids, its name in the singular and plural, and
// whether it has external ids.
type collection struct {
	path, prefix, word, words string
	external                  bool
}

var (
	spaceCollection   = collection{"/spaces", "spc_", "space", "spaces", true}
	agentCollection   = collection{"/api-agents", "agt_", "agent", "agents", true}
	accountCollection = collection{"/accounts", "acc_", "account", "accounts", false}
	keyCollection     = collection{"/keys", "key_", "key", "keys", false}
)

// find resolves user input to an id. The input is an id, an external id, or a name that
// exactly one object has, in the same case or else in any; for keys, one active key.
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
	var ids, alike, names []string
	for row, err := range call.All(ctx, p.path, nil, 0) {
		if err != nil {
			return "", err
		}
		var n named
		if err := jsonx.Unmarshal(row, &n); err != nil {
			return "", err
		}
		if p.prefix == keyCollection.prefix && n.Status != "active" {
			continue
		}
		if n.Name == name {
			ids = append(ids, n.ID)
		} else if strings.EqualFold(n.Name, name) {
			alike = append(alike, n.ID)
		}
		names = append(names, n.Name)
	}
	if len(ids) == 0 && len(alike) == 1 {
		ids = alike
	}
	switch len(ids) {
	case 0:
		return "", fmt.Errorf("there is no %s %q; \"stoa %s list\" shows them%s", p.word, name, p.words, didYouMean(near(name, names)))
	case 1:
		return ids[0], nil
	}
	return "", fmt.Errorf("%d %s have the name %q; use an id: %s", len(ids), p.words, name, strings.Join(ids, ", "))
}

// named replaces the ids in members of rows by the names in other members. Ids without a name
// remain.
func named(members map[string]string, rows iter.Seq2[jsonx.Value, error]) iter.Seq2[jsonx.Value, error] {
	return func(yield func(jsonx.Value, error) bool) {
		for raw, err := range rows {
			var row any
			if err == nil {
				row, err = decode(raw)
			}
			if object, ok := row.(map[string]any); err == nil && ok {
				for id, name := range members {
					if found := text(row, name); found != "" {
						object[id] = found
					}
				}
				raw, err = json.Marshal(row)
			}
			if !yield(raw, err) {
				return
			}
		}
	}
}

// onObject completes c with do, which receives the path of the object that the first
// argument names, and the remaining arguments.
func (e *env) onObject(p collection, c *cobra.Command, do func(ctx context.Context, call *client.Client, o *output, path string, args []string) error) *cobra.Command {
	o := e.output(c)
	return e.calling(c, o, func(ctx context.Context, call *client.Client, args []string) error {
		id, err := p.find(ctx, call, args[0])
		if err != nil {
			return err
		}
		return do(ctx, call, o, p.path+"/"+url.PathEscape(id), args[1:])
	})
}

var describeFields = []field{
	{"name", "name", asText, "the name"},
	{"description", "description", asText, "the purpose"},
	{"external-id", "externalId", asText, "your own `id`, unique in the account"},
	{"metadata", "metadata", asPairs, "a `name=value` pair of metadata; repeatable"},
}

// agentFields returns the settings of an agent; [env.toolFlags] has the others.
func agentFields() []field {
	return append(describeFields,
		field{"space", "spaceId", asSpace, "the `space` of the agent (default: the account's default space)"},
		field{"instructions,i", "instructions", asFile, "the system prompt, as `text`; @FILE reads a file"},
		field{"model,m", "model", asText, "the `model` (default auto)"},
		field{"drive", "driveAccess", asChoice, "`access` to the drive: read_only or read_write (default read_only)"},
		field{"visitor-drive", "visitorDrive", asText, "`access` to the drive in embedded chats: none, read or write (default read)"},
		field{"compact-at", "compactAt", asNumber, "the `percent` of the model's window above which a session's beginning is summarized: 30 to 90, or 0 for never (default: the operator's setting)"},
		field{"tables", "tables", asBool, "whether it queries CSV and XLSX files with SQL"},
		field{"memory", "memory", asText, "`whom` it remembers between sessions: none, or user for each end user that your programs name (default none)"},
		field{"tool-search", "toolSearch", asBool, "whether its model searches its tools, above 30 tools or 8,000 tokens of definitions, instead of reading all of them"},
		schemaField(),
		field{"effort", "reasoning.effort", asText, "the `effort` of its reasoning: none, minimal, low, medium, high, xhigh or max (default: the model's)"},
		field{"temperature", "temperature", asDecimal, "the sampling `temperature` of its model calls, 0 to 2 (default: the model's)"},
		field{"timezone", "timezone", asText, "the time `zone` of the times that the agent sees, such as Europe/Berlin (default UTC)"},
		field{"max-credits", "limits.maxCreditsMicro", asCredits, "the maximum cost of a turn, in `credits` (default: the operator's setting)"},
		field{"timeout", "limits.timeoutSeconds", asSeconds, "the maximum `duration` of a turn, such as 90s (default: the operator's setting)"},
		field{"max-steps", "limits.maxSteps", asNumber, "the maximum `number` of model calls in a turn (default: the operator's setting)"},
		field{"embeds=true", "embedEnabled", asBool, "whether it can be embedded in pages"},
		exposeField("expose"),
	)
}

func schemaField() field {
	return field{"reply-schema", "replySchema", asJSON, "the JSON `schema` that each answer must fit, of the type object; @FILE reads a file"}
}

func exposeField(flag string) field {
	return field{flag, "expose", asWords, "a `protocol` through which it is offered besides its own API: responses (the model agent/NAME), mcp (a tool of /api/v1/mcp), agui (front ends that speak AG-UI) or skills (with mcp, clients can read its skills); repeatable, '' for none. Requires a description"}
}

func (e *env) toolFlags(c *cobra.Command) setter {
	own := c.Flags().String("tools", "", "the tools of your programs and of connections, as a `JSON` list; @FILE reads a file, [] removes all")
	connections := c.Flags().StringArray("connection", nil, "the tools of a connection that it can call, as `name=tool,tool`, or name=* for all that are approved now; repeatable. Together with --tools this is the whole list; without --tools, approvals of tools of the service stay")
	return func(body map[string]any) error {
		if *own != "" {
			list, err := e.textOf(*own)
			if err != nil {
				return err
			}
			if !jsonx.Valid([]byte(list)) {
				return usagef("--tools requires a JSON list, and this is not JSON")
			}
			body["tools"] = jsonx.Value(list)
		}
		if tools := body["tools"]; len(*connections) > 0 {
			body["tools"] = lookup(func(ctx context.Context, call *client.Client) (any, error) {
				var list []any
				if tools == nil {
					var err error
					if list, err = ownEntries(ctx, call, c.Flags().Arg(0)); err != nil {
						return nil, err
					}
				} else if err := jsonx.Unmarshal([]byte(tools.(jsonx.Value)), &list); err != nil {
					return nil, usagef("--tools requires a JSON list")
				}
				return withConnections(ctx, call, list, *connections)
			})
		}
		return nil
	}
}

// ownEntries returns the entries of an agent for tools of the service, which say that people approve its calls; none of a new agent.
func ownEntries(ctx context.Context, call *client.Client, agent string) (list []any, err error) {
	if agent == "" {
		return nil, nil
	}
	id, err := agentCollection.find(ctx, call, agent)
	if err != nil {
		return nil, err
	}
	var now struct {
		Tools []map[string]any `json:"tools"`
	}
	if _, err := call.JSON(ctx, http.MethodGet, agentCollection.path+"/"+url.PathEscape(id), nil, nil, &now); err != nil {
		return nil, err
	}
	for _, t := range now.Tools {
		if t["type"] == "drive" {
			list = append(list, t)
		}
	}
	return list, nil
}

func withConnections(ctx context.Context, call *client.Client, tools []any, named []string) (any, error) {
	for _, text := range named {
		name, allow, ok := strings.Cut(text, "=")
		if !ok || name == "" || allow == "" {
			return nil, usagef("--connection requires NAME=TOOL,TOOL or NAME=*, not %q", text)
		}
		id, err := connectionCollection.find(ctx, call, name)
		if err != nil {
			return nil, err
		}
		names := strings.Split(allow, ",")
		if allow == "*" {
			if names, err = toolsApproved(ctx, call, id); err != nil {
				return nil, err
			}
			if len(names) == 0 {
				return nil, fmt.Errorf("the connection %s has no approved tools; \"stoa connections review %s\" lists the others", name, name)
			}
		}
		tools = append(tools, map[string]any{"type": "connection", "connectionId": id, "allow": names})
	}
	return tools, nil
}

func toolsApproved(ctx context.Context, call *client.Client, connectionID string) (names []string, err error) {
	all, err := catalog(ctx, call, "/connections/"+url.PathEscape(connectionID))
	for _, t := range all {
		if t.State == "approved" {
			names = append(names, t.Name)
		}
	}
	return names, err
}

func (e *env) agents() *cobra.Command {
	c := group("agents", "Manage hosted agents", "Manage hosted agents. AGENT is an id, an external id, or a unique name.")
	c.AddCommand(e.verbs(
		verb{
			use: "create", short: "Create an agent",
			long:    "Create an agent: instructions, a model, tools and a drive for its files. Sessions run on it.",
			example: "  stoa agents create --name support -i @instructions.md\n  AGENT=$(stoa agents create --name support -i \"You answer from the handbook.\" --jq .id)",
			op:      "POST /api-agents", fields: agentFields(), extra: []adder{e.toolFlags}, show: viewAgent,
			fixed: map[string]any{"spaceId": lookup(defaultSpace)},
			needs: []string{"name", "instructions"}, missing: "an agent requires a --name and --instructions",
		},
		verb{
			use: "list", short: "List the agents",
			long: "List the agents of the account, newest first.", example: "  stoa agents list\n  stoa agents list --space museum",
			op: "GET /api-agents", rows: viewAgents, names: map[string]string{"spaceId": "spaceName"}, none: "There are no agents yet; create one with \"stoa agents create\".",
			fields: append(sortFields("`value`: created, name, spent (in 30 days) or used"), field{"space", "spaceId", asSpace, "only agents of this `space`, by id or name"}, searchField("name, description or ids")),
		},
		verb{
			use: "get AGENT", short: "Show an agent",
			long: "Show an agent with its instructions and limits.", example: "  stoa agents get support\n  stoa agents get support --jq .instructions",
			op: "GET /api-agents/{AGENT}", show: viewAgent,
		},
		verb{
			use: "update AGENT", short: "Change an agent",
			long: `Change the given settings; an empty text clears. A change of instructions, model, tools, limits or drive
access creates a new version. Existing sessions keep their version.`,
			example: "  stoa agents update support -m alpha-sonnet-5-5\n  stoa agents update support -i @instructions.md",
			op:      "PATCH /api-agents/{AGENT}", fields: agentFields(), extra: []adder{e.toolFlags},
			show: viewAgent, missing: nothingChanges,
		},
		verb{
			use: "expose AGENT", short: "Offer an agent as a model, as a tool or to front ends",
			long: `Offer an agent through protocols besides its own API: as the model agent/NAME of /responses, /chat/completions and
/messages, as a tool of the MCP server /api/v1/mcp, and to front ends that speak AG-UI. Keys also need the scope
sessions:write. An empty --as ends it.`,
			example: "  stoa agents expose support --as responses,mcp\n  stoa agents expose support --as ''",
			op:      "PATCH /api-agents/{AGENT}", fields: []field{exposeField("as")}, show: viewAgent, needs: []string{"expose"}, missing: "name the protocols with --as",
		},
		verb{
			use: "delete AGENT", short: "Delete an agent",
			long:    "Delete an agent with its drive, sessions and schedules. Running turns are cancelled; receipts are kept.",
			example: "  stoa agents delete support --yes",
			op:      "DELETE /api-agents/{AGENT}", ask: asks("Delete %s with its drive and sessions?", "the agent", "agents"),
		},
		verb{
			use: "versions AGENT", short: "List the versions of an agent",
			long: "List the versions of an agent: its earlier instructions, models, limits and drive access.", example: "  stoa agents versions support",
			op: "GET /api-agents/{AGENT}/versions", rows: viewVersions, none: "There are no versions.",
		},
		verb{
			use: "duplicate AGENT", short: "Duplicate an agent",
			long: "Create an agent with the same configuration, an empty drive and no sessions.", example: "  stoa agents duplicate support --name support-test",
			op: "POST /api-agents/{AGENT}/duplicate", show: viewAgent,
			fields: []field{
				{"name", "name", asText, "the name of the new agent"},
				{"space", "spaceId", asSpace, "the `space` of the new agent (default: that of the original)"},
			},
		},
	)...)
	c.AddCommand(e.onObject(agentCollection, command("rollback AGENT VERSION", "Restore an earlier version",
		"Restore an earlier version of an agent, as a new version.",
		"  stoa agents rollback support 3"), func(ctx context.Context, call *client.Client, o *output, path string, args []string) error {
		n, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || n < 1 {
			return usagef("%q is not a version; \"stoa agents versions\" lists them", args[0])
		}
		raw, err := call.JSON(ctx, http.MethodPost, path+"/rollback", nil, map[string]any{"version": n}, nil)
		if err != nil {
			return err
		}
		return o.object(viewAgent, raw)
	}))
	return c
}

func defaultSpace(ctx context.Context, call *client.Client) (any, error) {
	me, err := call.Me(ctx)
	if err != nil {
		return nil, err
	}
	id, err := me.DefaultSpaceID.Get()
	if err != nil {
		return nil, usagef("the account has no default space; create one with \"stoa spaces create\" and pass it with --space")
	}
	return id, nil
}
