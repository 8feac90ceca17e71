package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"stoa/internal/base/audit"
	"stoa/internal/base/auth"
	"stoa/internal/base/config"
	"stoa/internal/base/contract"
	"stoa/internal/base/db"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

var viewKeys = viewKey.only("id", "name", "hint", "status", "scopes", "lastUsedAt")

var viewKey = view{"Key", []column{
	{"Id", "id", ident},
	{"Name", "name", objectName},
	{"Key", "hint", plain},
	{"Status", "status", state},
	{"Scopes", "scopes", flexible},
	{"Requests per minute", "requestsPerMinute", count},
	{"Credits per day", "maxCreditsMicroPerDay", credits},
	{"Models", "models", flexible},
	{"Networks", "networks", flexible},
	{"Requires end users", "requireEndUser", plain},
	{"Last used", "lastUsedAt", when},
	{"Created", "createdAt", when},
	{"Member", "memberId", ident},
	{"Expires", "expiresAt", when},
	{"Revoked", "revokedAt", when},
}}

func (e *env) keys() *cobra.Command {
	c := group("keys", "Create and manage API keys", "Create and manage the API keys of the account. KEY is an id, or the unique name of an active key.")
	c.AddCommand(e.verbs(
		verb{
			use: "list", short: "List the keys",
			long:    "List the keys of the account, newest first, including revoked and expired ones. Secrets are never shown.",
			example: "  stoa keys list\n  stoa keys list --jq '.[] | select(.status==\"active\") | .id'",
			op:      "GET /keys", rows: viewKeys, none: "There are no keys.",
			fields: append(sortFields("`value`: created, spent (in 30 days) or used"), searchField("name or id"), field{"unrevoked", "unrevoked", asBool, "only keys that are not revoked"}),
		},
		verb{
			use: "get KEY", short: "Show a key",
			long: "Show a key. Its secret is not stored.", example: "  stoa keys get website",
			op: "GET /keys/{KEY}", show: viewKey,
		},
		verb{
			use: "update KEY", short: "Change a key",
			long: `Change a key, within a second. An empty --model or --network allows all again. --scope, --model and --network
replace all earlier values.`,
			example: "  stoa keys update website --model 'alpha-*' --network 203.0.113.0/24\n  stoa keys update website --credits-per-day 5",
			op:      "PATCH /keys/{KEY}", show: viewKey, missing: nothingChanges, fields: keyFields,
		},
		verb{
			use: "rotate KEY", short: "Replace a key by a new one",
			long: `Create a key with the same name, scopes and limits, and print it once. The old key stays valid for a while, so
that programs can switch.`,
			example: "  stoa keys rotate website --overlap 24h",
			op:      "POST /keys/{KEY}/rotate", print: e.secret,
			fields: []field{{"overlap=1h", "overlapSeconds", asSeconds, "the `duration` for which the old key stays valid; 0s revokes it immediately"}},
		},
		verb{
			use: "revoke KEY...", short: "Revoke keys", suggest: []string{"delete", "rm", "remove"},
			long:    "Revoke keys permanently, within a second. Running replies continue to their end. An operator's key can also revoke keys of other accounts, by their ids.\n\nThe embeds and scheduled tasks that a key created end with it, unless --made changes that. What it changed stays\nunless --pause-changed is set: \"stoa audit list --actor KEY\" lists it.",
			example: "  stoa keys revoke website --yes\n  stoa keys revoke website --made all",
			op:      "DELETE /keys/{KEY}", did: "Revoked", now: "What it changed: stoa audit list --actor %s",
			fields: []field{
				{"made=true", "revokeMade", asText, "the `objects` that end with the key: true (embeds and tasks that it created), all (also keys) or false (none)"},
				{"pause-changed", "pauseChanged", asBool, "also pause the tasks, webhooks, script tags and connections that it changed; works for a revoked key too"},
			},
			ask: func(typed []string) string {
				return fmt.Sprintf("Revoke %s? Anything that uses %s will stop working.", list(typed, "key", "keys"), map[bool]string{true: "it", false: "them"}[len(typed) == 1])
			},
		},
	)...)
	c.AddCommand(e.keysCreate())
	return c
}

var keyFields = []field{
	{"name", "name", asText, "the purpose of the key"},
	{"scope", "scopes", asWords, "a `permission`, such as responses or drive:read; repeatable (default: those of the current key, without operator scopes)"},
	{"expires", "expiresAt", asTime, "the `time` when it expires: 30d, 12h, or 2026-12-31 (default: never)"},
	{"requests-per-minute", "requestsPerMinute", asNumber, "the maximum `number` of requests per minute, in addition to the limit of the plan"},
	{"credits-per-day", "maxCreditsMicroPerDay", asCredits, "the maximum cost per day (UTC), in `credits`"},
	{"model", "models", asWords, "only this `model` or pattern, such as 'alpha-*'; repeatable (default: all)"},
	{"network", "networks", asWords, "only requests from this `network`, such as 203.0.113.0/24; repeatable (default: all)"},
	{"require-end-user", "requireEndUser", asBool, "reject model calls without an end user"},
}

func (e *env) keysCreate() *cobra.Command {
	c := command("create", "Create a key",
		`Create a key. Its secret is shown only now: standard output contains nothing else.

With --data or --database it writes to the store directly, without a key; the service must be stopped. Use
this to replace a lost first key. Such a key has all permissions, for the owner's account or for --account. Of
the other flags, only --name has an effect.`,
		"  stoa keys create --name website --scope responses --credits-per-day 2\n  KEY=$(stoa keys create --name ci --expires 30d)\n  stoa keys create --data ./data")
	settings, o := e.flags(c, keyFields...), e.output(c)
	load := e.storeSettings(c)
	account := c.Flags().String("account", "", "with --data: `id` of the account (default: the owner's)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if f := c.Flags(); f.Changed("data") || f.Changed("database") || f.Changed("config") {
			cfg, err := load()
			if err != nil {
				return usageError{err}
			}
			name, _ := c.Flags().GetString("name")
			return e.offlineKey(c.Context(), cfg, *account, cmp.Or(name, "made offline"))
		}
		if *account != "" {
			return usagef("--account requires --data; an operator creates keys of other accounts with \"stoa accounts keys\"")
		}
		body := map[string]any{}
		if err := settings(body); err != nil {
			return err
		}
		if body["name"] == nil {
			return usagef("%s", noKeyName)
		}
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		raw, err := call.JSON(c.Context(), http.MethodPost, "/keys", nil, body, nil)
		if err != nil {
			return err
		}
		return e.secret(o, raw)
	}
	return c
}

const noKeyName = "a key requires a --name"

// secret prints a new key. The secret is alone on standard output, so that it can be captured.
func (e *env) secret(o *output, raw jsonx.Value) error {
	if o.raw() {
		return o.printJSON(raw)
	}
	var key contract.KeyWithSecret
	if err := jsonx.Unmarshal(raw, &key); err != nil {
		return fmt.Errorf("the reply does not match the contract: %w", err)
	}
	e.say("Key %s (%s) for %s; it is shown only once:", key.ID, key.Name, strings.Join(key.Scopes, ", "))
	if _, err := fmt.Fprintln(e.out, key.Secret); err != nil {
		return err
	}
	if old, err := key.Replaces.Get(); err == nil {
		e.say("The old key %s works until %s.", old.ID, old.EndsAt)
	}
	return nil
}

// offlineKey creates a key directly in the store of a stopped service.
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
		oldest, _, err := tx.Books().Accounts(ctx, store.AccountFilter{}, store.Page{Limit: 1, Asc: true})
		if err != nil {
			return err
		}
		if len(oldest) == 0 {
			return stoa.Errorf(stoa.CodeNotFound, "the store has no account yet; \"stoa serve\" creates the first one")
		}
		if id == "" {
			id = oldest[0].ID
		}
		if id == oldest[0].ID {
			scopes = append(scopes, stoa.ScopeOperator)
		}
		if _, err := tx.Books().Account(ctx, id); err != nil {
			return err
		}
		if key, err = keys.Create(ctx, tx, stoa.Key{AccountID: id, Name: name, Scopes: scopes}, secret); err != nil {
			return err
		}
		after, err := jsonx.Marshal(map[string]any{"id": key.ID, "name": name, "scopes": scopes})
		tx.Audit(audit.Entry{AccountID: id, Actor: audit.CommandLine, Action: "createKey", Object: key.ID, After: string(after)})
		return err
	})
	if err != nil {
		return err
	}
	e.say("Key %s of account %s; it is shown only once:", key.ID, key.AccountID)
	_, err = fmt.Fprintln(e.out, secret)
	return err
}
