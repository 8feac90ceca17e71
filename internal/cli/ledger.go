package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"stoa/internal/billing"
	"stoa/internal/config"
	"stoa/internal/db"
	"stoa/internal/store"
)

func (e *env) ledger() *cobra.Command {
	c := group("ledger", "Verify the books", "Verify the books.")
	verify := &cobra.Command{
		Use: "verify", Short: "Verify the books from their rows", Args: noArgs,
		Long: `Check every rule of the books against the rows of all accounts: grants equal the balance plus leases plus
charges; each lease has spent the sum of its charges; each charge is its usage times its price; no balance is
negative.

It only reads a snapshot, so the server may be running. Inconsistent rows are printed as a table, and the exit
code is then 1.`,
		Example: "  stoa ledger verify --data ./data",
	}
	load := e.settings(verify)
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

// verify prints the inconsistencies of a store's books, and fails if there are
// any.
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
	defer st.Close() // nothing was written
	diffs, err := billing.New(st, billing.Config{}).Verify(ctx)
	if err != nil {
		return err
	}
	var size store.BooksSize
	err = st.Read(ctx, func(tx *store.Tx) (err error) {
		size, err = tx.BooksSize(ctx)
		return err
	})
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

// differences prints a table of inconsistencies; amounts are micro-credits.
func differences(out io.Writer, diffs []store.Difference) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ACCOUNT\tROW\tACTUAL\tEXPECTED\tRULE")
	for _, d := range diffs {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", d.AccountID, d.ID, d.Have, d.Want, d.What)
	}
	return w.Flush()
}
