package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"stoa/internal/base/config"
	"stoa/internal/base/db"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
)

func (e *env) ledger() *cobra.Command {
	c := group("ledger", "Verify the books of all accounts", "Verify the books of all accounts.")
	verify := command("verify", "Verify the books of all accounts",
		`Verify the books of all accounts. Grants must equal balance, leases and charges together; each lease must have
spent the sum of its charges; each charge must be its usage times its price; no balance can be negative.

The command reads a snapshot of the store, so the server can keep running. If rows are inconsistent, they are
printed as a table, and the exit code is 1. "stoa credits reconcile" checks one account over the API.

The time grows with the number of charges. With --since, the sums of correct books are written to a file; the next
run with that file checks only what changed since: balances, grants and open leases of all accounts, and the
charges since then, but not earlier charges, or statements. Remove the file to check everything again.`,
		"  stoa ledger verify --data ./data\n  stoa ledger verify --data ./data --since verified.json")
	since := verify.Flags().String("since", "", "`FILE` with the sums of the last check, which is written if the books are correct")
	load := e.storeSettings(verify)
	verify.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := load()
		if err != nil {
			return usageError{err}
		}
		return e.verify(c.Context(), cfg, *since)
	}
	c.AddCommand(verify)
	return c
}

func (e *env) verify(ctx context.Context, cfg config.Config, file string) error {
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
	var since *store.Checkpoint
	if file != "" {
		text, err := os.ReadFile(file)
		if err == nil {
			err = jsonx.Unmarshal(text, &since)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the sums of the last check: %w", err)
		}
		if since != nil && since.Charges == nil {
			since = nil // an earlier version wrote it, without their number
		}
	}
	diffs, next, size, err := billing.New(st, billing.Config{}).VerifySince(ctx, since)
	if err != nil {
		return err
	}
	if len(diffs) > 0 {
		if err := differences(e.out, diffs); err != nil {
			return err
		}
		return fmt.Errorf("%d rows of the books are inconsistent", len(diffs))
	}
	if file != "" && next == nil {
		fmt.Fprintf(e.err, "%s was not written: charges of an earlier version are still being summed. Try again after the next hour.\n", file)
	} else if file != "" {
		text, err := jsonx.Marshal(next)
		if err != nil {
			return err
		}
		if err := db.ReplaceFile(file, string(text)); err != nil {
			return err
		}
	}
	if since != nil && next != nil {
		_, err = fmt.Fprintf(e.out, "The books are consistent since %s: %d accounts, %d grants, %d charges in all.\n",
			since.At.Format(time.RFC3339), size.Accounts, size.Grants, size.Charges)
		return err
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
