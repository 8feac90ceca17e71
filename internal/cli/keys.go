package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"stoa/internal/auth"
	"stoa/internal/db"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

func (e *env) keys() *cobra.Command {
	c := group("keys", "Make and manage API keys", "Make and manage API keys.")
	create := &cobra.Command{
		Use: "create", Short: "Make a key in a store whose service is stopped", Args: noArgs,
		Long: `Make a key that may do everything, for the owner account or the one named by --account.

It works on the store itself, without a key: this is how a lost first key is replaced. The service
must be stopped. The key is printed once, on standard output.`,
		Example: "  stoa keys create --data ./data\n  stoa keys create --data ./data --account acc_… --name ci",
	}
	load := e.settings(create)
	account := create.Flags().String("account", "", "`id` of the account; default: the oldest, which is the owner's")
	name := create.Flags().String("name", "made offline", "what the key is for")
	create.RunE = func(c *cobra.Command, _ []string) (err error) {
		cfg, err := load()
		if err != nil {
			return usageError{err}
		}
		st, err := store.Open(c.Context(), store.Config{Dir: cfg.Data, PostgresURL: string(cfg.Database), Durability: db.Durability(cfg.Durability)})
		if err != nil {
			return err
		}
		defer func() {
			if closed := st.Close(); err == nil {
				err = closed
			}
		}()
		secret := auth.Mint()
		keys := auth.New(st, func(id string) stoa.Plan { return stoa.Plan{ID: id} })
		var key stoa.Key
		err = st.Write(c.Context(), func(tx *store.Tx) error {
			id, scopes := *account, []string{stoa.ScopeAll}
			oldest, _, err := tx.Accounts(c.Context(), store.Page{Limit: 1, Asc: true})
			if err != nil {
				return err
			}
			if len(oldest) == 0 {
				return stoa.Errorf(stoa.CodeNotFound, "the store has no account yet; \"stoa serve\" makes the first one")
			}
			if id == "" {
				id = oldest[0].ID
			}
			if id == oldest[0].ID {
				scopes = append(scopes, stoa.ScopeOperator)
			}
			if _, err := tx.Account(c.Context(), id); err != nil {
				return err
			}
			key, err = keys.Create(c.Context(), tx, stoa.Key{AccountID: id, Name: *name, Scopes: scopes}, secret)
			return err
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(e.err, "Key %s of account %s; it is shown only now:\n", key.ID, key.AccountID)
		_, err = fmt.Fprintln(e.out, secret)
		return err
	}
	c.AddCommand(create)
	return c
}
