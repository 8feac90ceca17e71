package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"stoa/internal/db"
	"stoa/internal/store"
	"stoa/internal/vault"
)

func (e *env) secrets() *cobra.Command {
	c := group("secrets", "Look after stored secrets", "Look after the secrets that the service stores encrypted, such as those that sign webhooks.")
	rekey := &cobra.Command{
		Use: "rekey", Short: "Encrypt every stored secret with the newest key", Args: noArgs,
		Long: `Encrypt every stored secret with the first key of secrets.keys, or of secrets.key in the data directory.
After that the keys behind it are not needed any more.

With --new a new key is put in front in secrets.key first; that is for installations without secrets.keys.
A server on a data directory must be stopped; nodes on PostgreSQL may run, if all have the key. What no
key opens is left as it is, and the exit code is then 1.`,
		Example: "  stoa secrets rekey --data /var/lib/stoa --new\n  stoa secrets rekey --config /etc/stoa/stoa.yaml",
	}
	load := e.settings(rekey)
	fresh := rekey.Flags().Bool("new", false, "make a new key first, in secrets.key")
	rekey.RunE = func(c *cobra.Command, _ []string) (err error) {
		cfg, err := load()
		if err != nil {
			return usageError{err}
		}
		if err := hasStore(cfg); err != nil {
			return err
		}
		if *fresh && (cfg.Database != "" || len(cfg.Secrets.Keys) > 0) {
			return usagef("--new is for keys in the data directory; here they are in secrets.keys: put a new one in front there")
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
		if *fresh {
			if err := vault.AddKey(cfg); err != nil {
				return err
			}
		}
		v, err := vault.Of(cfg)
		if err == nil {
			err = v.Err()
		}
		if err != nil {
			return err
		}
		done, err := v.Rekey(c.Context(), st)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(e.out, "Encrypted %s anew; %d had the newest key already.\n", some(done.Done, "secret", "secrets"), done.Current); err != nil {
			return err
		}
		if done.Unreadable > 0 {
			return fmt.Errorf("%s cannot be read with any of the keys, and stay as they are: find the key that is missing, or make them anew", some(done.Unreadable, "secret", "secrets"))
		}
		return nil
	}
	c.AddCommand(rekey)
	return c
}
