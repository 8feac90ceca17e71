package cli

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stoa/internal/auth"
	"stoa/internal/config"
	"stoa/internal/db"
	"stoa/internal/jsonx"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

func viewKeys() view {
	return view{"Key", []column{
		{"Id", "id", plain},
		{"Name", "name", flexible},
		{"Key", "hint", plain},
		{"Status", "status", state},
		{"Scopes", "scopes", flexible},
		{"Last used", "lastUsedAt", when},
	}}
}

func viewKey() view {
	return view{"Key", []column{
		{"Id", "id", plain},
		{"Name", "name", plain},
		{"Key", "hint", plain},
		{"Status", "status", state},
		{"Scopes", "scopes", plain},
		{"Requests per minute", "requestsPerMinute", count},
		{"Credits per day", "maxCreditsMicroPerDay", credits},
		{"Last used", "lastUsedAt", when},
		{"Created", "createdAt", when},
		{"Expires", "expiresAt", when},
		{"Revoked", "revokedAt", when},
	}}
}

func (e *env) keys() *cobra.Command {
	c := group("keys", "Make and manage API keys", "Make and manage the API keys of the account. KEY is an id, or a name that only one active key has.")
	get := &cobra.Command{
		Use: "get KEY", Short: "Show a key", Args: takes("KEY"),
		Long: "Show a key. Its secret is nowhere kept.", Example: "  stoa keys get key_01k9zqd3m8w5x7y2c4b6n8p0ra",
	}
	o := e.output(get)
	get.RunE = func(c *cobra.Command, args []string) error {
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		id, err := keyCollection().find(c.Context(), call, args[0])
		if err != nil {
			return err
		}
		raw, err := call.JSON(c.Context(), "GET", "/keys/"+url.PathEscape(id), nil, nil, nil)
		if err != nil {
			return err
		}
		return o.object(viewKey(), raw)
	}
	c.AddCommand(
		e.listCommand(&cobra.Command{
			Use: "list", Short: "List the keys", Args: noArgs,
			Long:    "List the keys of the account, newest first, revoked and expired ones too.",
			Example: "  stoa keys list\n  stoa keys list --jq '.[] | select(.status==\"active\") | .id'",
		}, viewKeys(), "There are no keys.", constantPath("/keys")),
		get, e.keysCreate(), e.keysRotate(), e.keysRevoke(),
	)
	return c
}

// keyFlags are the flags of a new key.
type keyFlags struct {
	name      *string
	scopes    *[]string
	expires   *string
	perMinute *int
	perDay    *string
}

func newKeyFlags(c *cobra.Command) keyFlags {
	f := c.Flags()
	return keyFlags{
		name:      f.String("name", "", "what the key is for"),
		scopes:    f.StringSlice("scope", nil, "what it may do, such as responses or drive:read; default: what this key may, without operator"),
		expires:   f.String("expires", "", "`when` it ends: 30d, 12h, or 2026-12-31"),
		perMinute: f.Int("requests-per-minute", 0, "a limit of its own beside the plan's"),
		perDay:    f.String("credits-per-day", "", "what it may spend in a day of UTC, in `credits`"),
	}
}

func (k keyFlags) body(c *cobra.Command) (map[string]any, error) {
	body := map[string]any{"name": *k.name}
	if len(*k.scopes) > 0 {
		body["scopes"] = *k.scopes
	}
	if *k.expires != "" {
		t, err := moment(*k.expires, time.Now(), false)
		if err != nil {
			return nil, err
		}
		body["expiresAt"] = stamp(t)
	}
	set(body, c, "requests-per-minute", "requestsPerMinute", *k.perMinute)
	if *k.perDay != "" {
		n, err := parseCredits(*k.perDay)
		if err != nil {
			return nil, err
		}
		body["maxCreditsMicroPerDay"] = int64(n)
	}
	return body, nil
}

func (e *env) keysCreate() *cobra.Command {
	c := &cobra.Command{
		Use: "create", Short: "Create a key", Args: noArgs,
		Long: `Create a key. It is printed once, alone on standard output.

With --data or --database it works on the store itself, without a key and without the service, which
must be stopped: this is how a lost first key is replaced. Such a key may do everything, for the owner
account or the one named by --account; only --name applies to it.`,
		Example: "  stoa keys create --name website --scope responses --credits-per-day 2\n  KEY=$(stoa keys create --name ci --expires 30d)\n  stoa keys create --data ./data",
	}
	k := newKeyFlags(c)
	o := e.output(c)
	load := e.settings(c)
	for _, flag := range []string{"listen", "public-url", "sandbox", "log-format", "log-level", "durability"} {
		_ = c.Flags().MarkHidden(flag) // they exist
	}
	account := c.Flags().String("account", "", "with --data: `id` of the account; default: the oldest, which is the owner's")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if f := c.Flags(); f.Changed("data") || f.Changed("database") || f.Changed("config") {
			cfg, err := load()
			if err != nil {
				return usageError{err}
			}
			if *k.name == "" {
				*k.name = "made offline"
			}
			return e.offlineKey(c.Context(), cfg, *account, *k.name)
		}
		if *account != "" {
			return usagef("--account goes with --data; an operator makes keys of other accounts with \"stoa accounts keys\"")
		}
		return e.makeKey(c, o, "/keys", k)
	}
	return c
}

func noKeyName() error { return usagef("what is the key for? Give it a --name") }

// makeKey creates a key and prints it.
func (e *env) makeKey(c *cobra.Command, o *output, path string, k keyFlags) error {
	if *k.name == "" {
		return noKeyName()
	}
	body, err := k.body(c)
	if err != nil {
		return err
	}
	call, err := e.ready(o)
	if err != nil {
		return err
	}
	raw, err := call.JSON(c.Context(), "POST", path, nil, body, nil)
	if err != nil {
		return err
	}
	return e.secret(o, raw)
}

// secret prints a new key: only its secret on standard output, the rest on
// standard error.
func (e *env) secret(o *output, raw jsonx.Value) error {
	if o.raw() {
		return o.printJSON(raw)
	}
	var key struct {
		ID       string   `json:"id"`
		Name     string   `json:"name"`
		Secret   string   `json:"secret"`
		Scopes   []string `json:"scopes"`
		Replaces *struct {
			ID     string `json:"id"`
			EndsAt string `json:"endsAt"`
		} `json:"replaces"`
	}
	if err := jsonx.Unmarshal(raw, &key); err != nil {
		return fmt.Errorf("the reply is not what the contract says: %w", err)
	}
	e.say("Key %s (%s) for %s; it is shown only now:", key.ID, key.Name, strings.Join(key.Scopes, ", "))
	if _, err := fmt.Fprintln(e.out, key.Secret); err != nil {
		return err
	}
	if key.Replaces != nil {
		e.say("The old key %s works until %s.", key.Replaces.ID, key.Replaces.EndsAt)
	}
	return nil
}

func (e *env) keysRotate() *cobra.Command {
	c := &cobra.Command{
		Use: "rotate KEY", Short: "Replace a key by a new one", Args: takes("KEY"),
		Long: `Make a new key with the same name, scopes and limits, and print it once. The old one lives on for a
while, so that programs can change over.`,
		Example: "  stoa keys rotate key_01k9zqd3m8w5x7y2c4b6n8p0ra --overlap 24h",
	}
	o := e.output(c)
	overlap := c.Flags().String("overlap", "1h", "how long the old key lives on; 0s ends it at once")
	c.RunE = func(c *cobra.Command, args []string) error {
		d, err := span(*overlap)
		if err != nil {
			return err
		}
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		id, err := keyCollection().find(c.Context(), call, args[0])
		if err != nil {
			return err
		}
		raw, err := call.JSON(c.Context(), "POST", "/keys/"+url.PathEscape(id)+"/rotate", nil, map[string]any{"overlapSeconds": int64(d / time.Second)}, nil)
		if err != nil {
			return err
		}
		return e.secret(o, raw)
	}
	return c
}

func (e *env) keysRevoke() *cobra.Command {
	c := &cobra.Command{
		Use: "revoke KEY...", Short: "End keys", SuggestFor: []string{"delete", "rm", "remove"}, Args: takes("KEY..."),
		Long:    "End keys for good, within a second. A reply that runs is finished. An operator's key also ends keys of other accounts, by their ids.\n\nThe embeds and scheduled tasks that a key created end with it, unless you say otherwise with --made.",
		Example: "  stoa keys revoke key_01k9zqd3m8w5x7y2c4b6n8p0ra --yes\n  stoa keys revoke key_01k9zqd3m8w5x7y2c4b6n8p0ra --made all",
	}
	yes := c.Flags().BoolP("yes", "y", false, "do not ask")
	made := c.Flags().String("made", "true", "what ends with the key: true (embeds and tasks that it created), all (keys too) or false (nothing)")
	c.RunE = func(c *cobra.Command, args []string) error {
		call, err := e.client()
		if err != nil {
			return err
		}
		if err := e.confirm(*yes, "Revoke %s? Anything that uses %s will stop working.", list(args, "key", "keys"), map[bool]string{true: "it", false: "them"}[len(args) == 1]); err != nil {
			return err
		}
		for i, name := range args {
			id, err := keyCollection().find(c.Context(), call, name)
			if err != nil {
				return err
			}
			args[i] = id
		}
		for _, id := range args {
			if _, err := call.JSON(c.Context(), "DELETE", "/keys/"+url.PathEscape(id), url.Values{"revokeMade": {*made}}, nil, nil); err != nil {
				return err
			}
			e.say("Revoked %s.", id)
		}
		return nil
	}
	return c
}

// list returns the only name, or how many names there are.
func list(args []string, one, many string) string {
	if len(args) == 1 {
		return one + " " + args[0]
	}
	return some(len(args), one, many)
}

// offlineKey creates a key directly in a store whose service is stopped.
func (e *env) offlineKey(ctx context.Context, cfg config.Config, account, name string) (err error) {
	if err := hasStore(cfg); err != nil {
		return err
	}
	st, err := store.Open(ctx, store.Config{Dir: cfg.Data, PostgresURL: string(cfg.Database), Durability: db.Durability(cfg.Durability)})
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
	err = st.Write(ctx, func(tx *store.Tx) error {
		id, scopes := account, []string{stoa.ScopeAll}
		oldest, _, err := tx.Accounts(ctx, store.AccountFilter{}, store.Page{Limit: 1, Asc: true})
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
		if _, err := tx.Account(ctx, id); err != nil {
			return err
		}
		key, err = keys.Create(ctx, tx, stoa.Key{AccountID: id, Name: name, Scopes: scopes}, secret)
		return err
	})
	if err != nil {
		return err
	}
	e.say("Key %s of account %s; it is shown only now:", key.ID, key.AccountID)
	_, err = fmt.Fprintln(e.out, secret)
	return err
}
