package cli

import "github.com/spf13/cobra"

var viewSpaces = viewSpace.only("id", "name", "description", "updatedAt")

var viewSpace = view{"Space", []column{
	{"Id", "id", ident},
	{"Name", "name", objectName},
	{"Description", "description", flexible},
	{"External id", "externalId", ident},
	{"Metadata", "metadata", plain},
	{"Created", "createdAt", when},
	{"Changed", "updatedAt", when},
}}

func (e *env) spaces() *cobra.Command {
	c := group("spaces", "Group agents", "Group agents into spaces. Every account has a default space. SPACE is an id, an external id, or a unique name.")
	c.AddCommand(e.verbs(
		verb{
			use: "create", short: "Create a space",
			long: "Create a space.", example: "  stoa spaces create --name support",
			op: "POST /spaces", fields: describeFields, show: viewSpace,
			needs: []string{"name"}, missing: "a space requires a --name",
		},
		verb{
			use: "list", short: "List the spaces",
			long: "List the spaces of the account, newest first.", example: "  stoa spaces list",
			op: "GET /spaces", rows: viewSpaces, none: "There are no spaces.",
			fields: []field{searchField("name, description or ids")},
		},
		verb{
			use: "get SPACE", short: "Show a space", long: "Show a space.", example: "  stoa spaces get support",
			op: "GET /spaces/{SPACE}", show: viewSpace,
		},
		verb{
			use: "update SPACE", short: "Change a space",
			long: "Change the given settings. An empty text clears.", example: "  stoa spaces update support --description \"Agents that customers see\"",
			op: "PATCH /spaces/{SPACE}", fields: describeFields, show: viewSpace, missing: nothingChanges,
		},
		verb{
			use: "delete SPACE", short: "Delete a space",
			long: "Delete a space. A space with agents is deleted only with --force, together with its agents.", example: "  stoa spaces delete support --yes",
			op: "DELETE /spaces/{SPACE}", ask: asks("Delete %s for good?", "the space", "spaces"),
			fields: []field{{"force", "force", asBool, "also delete its agents, with their drives and sessions"}},
		},
	)...)
	return c
}
