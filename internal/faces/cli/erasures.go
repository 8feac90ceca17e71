package cli

import (
	"context"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"stoa/internal/base/client"
	"stoa/internal/base/contract"
)

var viewErasure = view{"Erasure", []column{
	{"Id", "id", ident},
	{"Kind", "kind", plain},
	{"Account", "accountId", ident},
	{"Status", "status", plain},
	{"Sessions", "removed.sessions", plain},
	{"Drives", "removed.drives", plain},
	{"Rows", "removed.rows", plain},
	{"Receipts changed", "changed.receipts", plain},
	{"Audit entries emptied", "changed.auditEntries", plain},
	{"Replaced by", "replacementId", ident},
	{"Created", "createdAt", when},
	{"Completed", "completedAt", when},
	{"Backups", "backups", flexible},
}}

func (e *env) erasures() *cobra.Command {
	c := group("erasures", "Show erasures of end users and customers", `Show the erasures that this account began; "stoa end-users erase" and "stoa accounts delete" begin them.`)
	c.AddCommand(e.verbs(
		verb{
			use: "list", short: "List erasures", long: "List the erasures that this account began, newest first.", example: "  stoa erasures list",
			op: "GET /erasures", rows: viewErasure.only("id", "kind", "accountId", "status", "createdAt", "completedAt"), none: "There are no erasures.",
		},
		verb{
			use: "get ERASURE", short: "Show an erasure", long: "Show the progress of an erasure, and the copies of the data that it cannot reach.",
			example: "  stoa erasures get era_01k9zqd3m8w5x7y2c4b6n8p0ra", op: "GET /erasures/{ERASURE}", show: viewErasure,
		},
	)...)
	return c
}

func (e *env) endUsers() *cobra.Command {
	c := group("end-users", "Erase end users", "Erase the data of end users: the people behind externalUserId of sessions, and safety_identifier or user of calls.")
	c.AddCommand(e.eraser("erase USER", "Erase an end user",
		`Erase all data of an end user: sessions with their messages, files and calls, embeds, stored credentials and replies. Receipts
stay under a random id. USER is the id that the account uses for the person, not a name in Stoa.`,
		"  stoa end-users erase user-1042 --wait\n  stoa end-users erase user-1042 --yes",
		func(_ context.Context, _ *client.Client, arg string) (path, question string, err error) {
			return "/end-users/" + url.PathEscape(arg), "Erase all data of the end user " + arg + "? This cannot be undone.", nil
		}))
	return c
}

func (e *env) accountsDelete() *cobra.Command {
	return e.eraser("delete ACCOUNT", "Delete an account and erase its data",
		`Delete a customer's account: its keys end within a second, and everything that its people, agents and calls have stored is
erased. The books stay without names. Unspent credits cannot be used any more.`,
		"  stoa accounts delete acme --wait\n  stoa accounts delete acc_01k9zqd3m8w5x7y2c4b6n8p0ra --yes",
		func(ctx context.Context, call *client.Client, arg string) (path, question string, err error) {
			id, err := accountCollection.find(ctx, call, arg)
			if err != nil {
				return "", "", err
			}
			return "/accounts/" + url.PathEscape(id), "Delete the account " + arg + " and erase all its data? This cannot be undone." + effects(ctx, call, "account", id), nil
		})
}

// eraser returns a command that begins an erasure. of returns the path of the DELETE, and the question before it.
func (e *env) eraser(use, short, long, example string, of func(ctx context.Context, call *client.Client, arg string) (path, question string, err error)) *cobra.Command {
	c := command(use, short, long+"\n\nThe erasure runs in the background; \"stoa erasures get\" shows its progress.", example)
	yes := c.Flags().BoolP("yes", "y", false, "do not ask for confirmation")
	until := c.Flags().Bool("wait", false, "wait until the erasure is completed")
	o := e.output(c)
	return e.calling(c, o, func(ctx context.Context, call *client.Client, args []string) error {
		path, question, err := of(ctx, call, args[0])
		if err != nil {
			return err
		}
		if err := e.confirm(*yes, "%s", question); err != nil {
			return err
		}
		var begun contract.Erasure
		raw, err := call.JSON(ctx, http.MethodDelete, path, nil, nil, &begun)
		for err == nil && *until && begun.Status != "completed" {
			if err = wait(ctx, followPause); err == nil {
				raw, err = call.JSON(ctx, http.MethodGet, "/erasures/"+url.PathEscape(begun.ID), nil, nil, &begun)
			}
		}
		if err != nil {
			return err
		}
		return o.object(viewErasure, raw)
	})
}
