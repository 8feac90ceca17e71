package cli

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"stoa/internal/base/audit"
	"stoa/internal/base/db"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
)

var secretCollection = collection{"/secrets", "sec_", "secret", "secrets", false}

var viewSecrets = view{"Secret", []column{
	{"Id", "id", ident},
	{"Name", "name", objectName},
	{"Kind", "kind", plain},
	{"Origin", "origin", flexible},
	{"Ends with", "hint", plain},
	{"Unreadable", "unreadable", plain},
	{"Set", "updatedAt", when},
}}

const maxSecret = 8192 // bytes of a value

func (e *env) secretsSet() *cobra.Command {
	c := command("create NAME", "Store a secret, or replace its value",
		`Store a value that requests to one origin require, such as a token. It is read from standard input and never
shown again. An existing secret with that name gets the new value; a new one requires an --origin, the only
place that it is ever sent to.`,
		"  stoa secrets create notes-token --origin https://notes.example.com < token.txt\n  stoa secrets create notes-key --origin https://notes.example.com --header X-Api-Key < key.txt\n  stoa secrets create notes-client --kind token --origin https://accounts.example.com < secret.txt")
	origin, header := c.Flags().String("origin", "", "the only `origin` that it is sent to: scheme, host and port, such as https://notes.example.com"), c.Flags().String("header", "", "the `name` of the header to send it as (default Authorization: Bearer)")
	kind, parameter := c.Flags().String("kind", "", "the `kind`: bearer, header, basic (user:password), query, or token (of an OAuth client) (default bearer)"), c.Flags().String("parameter", "", "the `name` of the query parameter to send it as")
	o := e.output(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if isTerminal(e.in) {
			return usagef("the value must be passed on standard input, so that no shell history contains it: stoa secrets create %s < file", args[0])
		}
		text, err := io.ReadAll(io.LimitReader(e.stdin, maxSecret+2))
		if err != nil {
			return fmt.Errorf("read the value: %w", err)
		}
		value := strings.TrimRight(string(text), "\r\n")
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		var there []string
		for row, err := range call.All(c.Context(), "/secrets", nil, 0) {
			if err != nil {
				return err
			}
			var s struct {
				ID   string `json:"id"`
				Name string `json:"name"`
			}
			if err := jsonx.Unmarshal(row, &s); err != nil {
				return err
			}
			if s.Name == args[0] || s.ID == args[0] {
				there = append(there, s.ID)
			}
		}
		var raw jsonx.Value
		switch {
		case len(there) > 1:
			return fmt.Errorf("%d secrets have the name %q; use an id: %s", len(there), args[0], strings.Join(there, ", "))
		case len(there) == 1 && (*origin != "" || *header != "" || *kind != "" || *parameter != ""):
			return usagef("the secret %q already exists; its origin and kind cannot change. Delete it first, or choose another name", args[0])
		case len(there) == 1:
			raw, err = call.JSON(c.Context(), http.MethodPut, "/secrets/"+there[0]+"/value", nil, map[string]any{"value": value}, nil)
		case *origin == "":
			return usagef("a new secret requires an --origin")
		default:
			body := map[string]any{"name": args[0], "kind": "bearer", "value": value, "origin": *origin}
			if *header != "" {
				body["kind"], body["headerName"] = "header", *header
			}
			if *parameter != "" {
				body["kind"], body["parameterName"] = "query", *parameter
			}
			if *kind != "" {
				body["kind"] = *kind
			}
			raw, err = call.JSON(c.Context(), http.MethodPost, "/secrets", nil, body, nil)
		}
		if err != nil {
			return err
		}
		return o.object(viewSecrets, raw)
	}
	return c
}

func (e *env) secrets() *cobra.Command {
	c := group("secrets", "Manage stored secrets", `Manage the secrets that the service stores encrypted. set, list and delete manage the secrets of connections;
rekey also covers the service's own. No command shows a value. SECRET is an id, or a unique name.`)
	rekey := command("rekey", "Re-encrypt every stored secret with the newest key",
		`Re-encrypt every stored secret with the first key of secrets.keys, or of secrets.key in the data directory.
After that the other keys are no longer needed.

With --new a new key is first added at the beginning of secrets.key; this is for installations without
secrets.keys. A server on a data directory must be stopped; nodes on PostgreSQL can keep running if all of them have the key.
Secrets that cannot be decrypted are unchanged, and the exit code is then 1.`,
		"  stoa secrets rekey --data /var/lib/stoa --new\n  stoa secrets rekey --config /etc/stoa/stoa.yaml")
	load := e.storeSettings(rekey)
	fresh := rekey.Flags().Bool("new", false, "create a new key first, in secrets.key")
	rekey.RunE = func(c *cobra.Command, _ []string) (err error) {
		cfg, err := load()
		if err != nil {
			return usageError{err}
		}
		if err := hasStore(cfg); err != nil {
			return err
		}
		if *fresh && (cfg.Database != "" || len(cfg.Secrets.Keys) > 0) {
			return usagef("--new is for keys in the data directory; this configuration has secrets.keys: add a new key at the beginning there")
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
		if err := st.Write(c.Context(), func(tx *store.Tx) error {
			tx.Audit(audit.Entry{AccountID: audit.Service, Actor: audit.CommandLine, Action: "secrets.rekeyed", After: fmt.Sprintf(`{"done":%d}`, done.Done)})
			return nil
		}); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(e.out, "Re-encrypted %s; %d already had the newest key.\n", some(done.Done, "secret", "secrets"), done.Current); err != nil {
			return err
		}
		if done.Unreadable > 0 {
			return fmt.Errorf("%s cannot be decrypted with any of the keys and are unchanged: find the missing key, or create them again", some(done.Unreadable, "secret", "secrets"))
		}
		return nil
	}
	c.AddCommand(e.secretsSet(), rekey,
		e.verb(verb{
			use: "list", short: "List the secrets of connections",
			long: "List the secrets that connections of the account can use, newest first, without their values.", example: "  stoa secrets list",
			op: "GET /secrets", rows: viewSecrets, none: "There are no secrets.",
			fields: []field{searchField("name, origin or id")},
		}),
		e.verb(verb{
			use: "get SECRET", short: "Show a secret",
			long: "Show a secret without its value.", example: "  stoa secrets get notes-token",
			op: "GET /secrets/{SECRET}", show: viewSecrets,
		}),
		e.verb(verb{
			use: "delete SECRET", short: "Delete a secret",
			long: "Delete a secret with its value. A secret that a connection uses cannot be deleted.", example: "  stoa secrets delete notes-token --yes",
			op: "DELETE /secrets/{SECRET}", ask: asks("Delete %s for good?", "the secret", "secrets"),
		}))
	return c
}
