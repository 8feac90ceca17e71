package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"stoa/internal/base/config"
	"stoa/internal/base/db"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
)

func (e *env) ledger() *cobra.Command {
	c := group("ledger", "Verify the books of all accounts", "Verify the books of all accounts.")
	verify := command("verify", "Verify the books of all accounts",
		`Verify the books of all accounts. Grants must equal balance, leases and charges together; each lease must have
spent the sum of its charges; each charge must be its usage times its price; no balance can be negative.

The command reads a snapshot of the store, so the server can keep running. If rows are inconsistent, they are
printed as a table, and the exit code is 1. "stoa credits reconcile" checks one account over the API.`,
		"  stoa ledger verify --data ./data")
	load := e.storeSettings(verify)
	verify.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := load()
		if err != nil {
			return usageError{err}
		}
		return e.verify(c.Context(), cfg)
	}
	c.AddCommand(verify)
	return c
}

func (e *env) verify(ctx context.Context, cfg config.Config) error {
	if err := hasStore(cfg); err != nil {
		return err
	}
	st, err := store.Open(ctx, store.Config{
		Dir: cfg.Data, PostgresURL: string(cfg.Database), Durability: db.Durability(cfg.Durability),
		ReadOnly: true, Readers: 1, Connections: 2,
	})
	if err != nil {
		return err
	}
	defer st.Close()
	diffs, err := billing.New(st, billing.Config{}).Verify(ctx)
	if err != nil {
		return err
	}
	size, err := store.Read(ctx, st, func(tx *store.Tx) (store.BooksSize, error) { return tx.Books().BooksSize(ctx) })
	if err != nil {
		return err
	}
	if len(diffs) > 0 {
		if err := differences(e.out, diffs); err != nil {
			return err
		}
		return fmt.Errorf("%d rows of the books are inconsistent", len(diffs))
	}
	_, err = fmt.Fprintf(e.out, "The books are consistent: %d accounts, %d grants, %d charges, %d leases.\n",
		size.Accounts, size.Grants, size.Charges, size.Leases)
	return err
}

func differences(out io.Writer, diffs []store.Difference) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ACCOUNT\tROW\tACTUAL\tEXPECTED\tRULE")
	for _, d := range diffs {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", d.AccountID, d.ID, d.Have, d.Want, d.What)
	}
	return w.Flush()
}
