package cli

import (
	"context"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"stoa/internal/client"
)

func viewSpaces() view {
	return view{"Space", []column{
		{"Id", "id", plain},
		{"Name", "name", flexible},
		{"Description", "description", flexible},
		{"Changed", "updatedAt", when},
	}}
}

func viewSpace() view {
	return view{"Space", []column{
		{"Id", "id", plain},
		{"Name", "name", plain},
		{"Description", "description", plain},
		{"External id", "externalId", plain},
		{"Metadata", "metadata", plain},
		{"Created", "createdAt", when},
		{"Changed", "updatedAt", when},
	}}
}

func (e *env) spaces() *cobra.Command {
	c := group("spaces", "Group agents", "Group agents. Every account has a default space. SPACE is an id, an external id, or a name that only one has.")
	create := &cobra.Command{
		Use: "create", Short: "Create a space", Args: noArgs,
		Long: "Make a space.", Example: "  stoa spaces create --name support",
	}
	d, o := describe(create), e.output(create)
	create.RunE = func(c *cobra.Command, _ []string) error {
		if *d.name == "" {
			return usagef("what is the space called? Give it a --name")
		}
		body, err := d.body(c)
		if err != nil {
			return err
		}
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		raw, err := call.JSON(c.Context(), http.MethodPost, "/spaces", nil, body, nil)
		if err != nil {
			return err
		}
		return o.object(viewSpace(), raw)
	}
	update := &cobra.Command{
		Use: "update SPACE", Short: "Change a space", Args: takes("SPACE"),
		Long: "Change what the flags name. An empty text clears.", Example: "  stoa spaces update support --description \"Agents that customers see\"",
	}
	du := describe(update)
	e.onObject(spaceCollection(), update, func(ctx context.Context, call *client.Client, o *output, path string, _ []string) error {
		body, err := du.body(update)
		if err != nil {
			return err
		}
		return e.patch(ctx, call, o, path, body, viewSpace())
	})
	remove := &cobra.Command{
		Use: "delete SPACE", Short: "Delete a space", Args: takes("SPACE"),
		Long:    "Delete a space. One with agents is kept, unless --force deletes them with it.",
		Example: "  stoa spaces delete support --yes",
	}
	force := remove.Flags().Bool("force", false, "delete its agents too, with their drives and sessions")
	c.AddCommand(
		e.listCommand(&cobra.Command{
			Use: "list", Short: "List the spaces", Args: noArgs,
			Long: "List the spaces of the account, newest first.", Example: "  stoa spaces list",
		}, viewSpaces(), "There are no spaces.", constantPath("/spaces")),
		e.onObject(spaceCollection(), &cobra.Command{
			Use: "get SPACE", Short: "Show a space", Args: takes("SPACE"),
			Long: "Show a space.", Example: "  stoa spaces get support",
		}, printObject(viewSpace())),
		create, update,
		e.deleteCommand(spaceCollection(), remove, "for good", func() url.Values {
			if *force {
				return url.Values{"force": {"true"}}
			}
			return nil
		}),
	)
	return c
}
