package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"stoa/internal/base/audit"
	"stoa/internal/base/client"
)

var viewAudit = view{"Change", []column{
	{"Time", "at", when},
	{"Action", "action", flexible},
	{"Object", "object", ident},
	{"Actor", "actor", ident},
	{"Number", "seq", plain},
	{"Request", "requestId", ident},
}}

func (e *env) audit() *cobra.Command {
	c := group("audit", "Read and verify the audit log", "Read and verify the audit log: every change of the account and its objects.\nRequires a key with the scope account:read or operator.")
	c.AddCommand(e.verbs(verb{
		use: "list", short: "List changes",
		long:    "List changes, newest first. --json shows the objects before and after each change.",
		example: "  stoa audit list --actor key_01k9zqd3m8w5x7y2c4b6n8p0ra\n  stoa audit list --object whk_01k9zqd3m8w5x7y2c4b6n8p0ra --json",
		op:      "GET /audit", rows: viewAudit, names: map[string]string{"actor": "actorName"}, none: "There are no changes.",
		fields: append(periodFields,
			field{"actor", "actor", asText, "only changes by the key with this `id`"},
			field{"action", "action", asText, "only changes by this `operation`, such as updateWebhook"},
			field{"object", "object", asText, "only changes of the object with this `id`"},
			field{"account", "accountId", asText, auditAccountHelp + "; '*' for all"},
		),
	})...)
	c.AddCommand(e.auditExport(), e.auditVerify())
	return c
}

const auditAccountHelp = "for operators: the log of the account with this `id`; service for changes that belong to no account"

func (e *env) auditExport() *cobra.Command {
	c := command("export", "Print the audit log as JSON Lines",
		`Print the audit log as JSON Lines, oldest first, to keep it in another place and to check it with "stoa audit verify".

--follow then prints each new entry about a second after its change, until Ctrl-C. After an interruption, --after with
the number of the last entry continues without a gap.`,
		"  stoa audit export > audit.jsonl\n  stoa audit export --after 1200 --follow >> audit.jsonl")
	account := c.Flags().String("account", "", auditAccountHelp)
	after := c.Flags().Int64("after", 0, "only entries after the one with this `number`")
	follow := c.Flags().BoolP("follow", "f", false, "print new entries as they arrive, until Ctrl-C")
	return e.calling(c, nil, func(ctx context.Context, call *client.Client, _ []string) error {
		if *follow {
			return followAudit(ctx, call, e.out, *account, *after, func(ctx context.Context) error { return wait(ctx, followPause) })
		}
		return e.copyOut(ctx, call, "/audit/export", auditQuery(*account, *after))
	})
}

// followAudit prints the entries after a number, and then each new one, until ctx ends. It prints a checkpoint only at
// the beginning, because each request of the loop receives one.
func followAudit(ctx context.Context, call *client.Client, out io.Writer, account string, after int64, pause func(context.Context) error) error {
	for first := true; ; first = false {
		res, err := call.Do(ctx, client.Request{Path: "/audit/export", Query: auditQuery(account, after)})
		if err == nil {
			after, err = copyAudit(out, res.Body, after, first)
			res.Body.Close()
		}
		switch {
		case ctx.Err() != nil:
			return nil // because Ctrl-C ends it
		case err != nil:
			return err
		}
		if pause(ctx) != nil {
			return nil
		}
	}
}

// copyAudit copies the entries of an export, and its checkpoint if that is set. It returns the
// number of the last entry, or after if there is none.
func copyAudit(out io.Writer, export io.Reader, after int64, checkpoint bool) (int64, error) {
	lines := bufio.NewReader(export)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return after, nil
		}
		var e struct{ Seq int64 }
		if err == nil {
			err = json.Unmarshal(line, &e)
		}
		if err == nil && (e.Seq > 0 || checkpoint) {
			_, err = out.Write(line)
		}
		if err != nil {
			return after, err
		}
		after = max(after, e.Seq)
	}
}

func auditQuery(account string, after int64) url.Values {
	q := url.Values{}
	if account != "" {
		q.Set("accountId", account)
	}
	if after > 0 {
		q.Set("after", fmt.Sprint(after))
	}
	return q
}

func (e *env) auditVerify() *cobra.Command {
	c := command("verify [FILE]", "Check that an audit log was not changed",
		`Check the chain of hashes of an export, without a connection to the service; "-" is standard input. Without FILE, the
log of the service is exported and checked. The first entry that was changed, removed, inserted or moved is named, and
the exit code is then 1.

Entries that were cut from the end leave a valid chain. To find that, give the hash of an entry that you kept, such as
that of the event audit.anchor, as --anchor.`,
		"  stoa audit verify audit.jsonl\n  stoa audit verify --anchor 9b1c5f0e8d7a6b4c3d2e1f00112233445566778899aabbccddeeff0011223344")
	account := c.Flags().String("account", "", auditAccountHelp+" (without FILE)")
	anchor := c.Flags().String("anchor", "", "a `hash` that the log must contain")
	c.RunE = func(c *cobra.Command, args []string) error {
		log, err := e.auditSource(c.Context(), args, *account)
		if err != nil {
			return err
		}
		defer log.Close()
		v, err := audit.Verify(log, *anchor)
		if err != nil {
			return err
		}
		if v.Last == 0 {
			_, err = fmt.Fprintln(e.out, "The log has no entries.")
			return err
		}
		start := ""
		if v.Purged {
			start = " It begins after a checkpoint."
		}
		if v.Erased > 0 {
			start += fmt.Sprintf(" The texts of %s were erased.", some(v.Erased, "entry", "entries"))
		}
		_, err = fmt.Fprintf(e.out, "The log of %s is complete from entry %d to %d, whose hash is %s.%s\n", v.AccountID, v.First, v.Last, v.Hash, start)
		return err
	}
	return c
}

// auditSource opens a file with an export, or exports the log of the service.
func (e *env) auditSource(ctx context.Context, args []string, account string) (io.ReadCloser, error) {
	switch {
	case len(args) == 0:
		call, err := e.client()
		if err != nil {
			return nil, err
		}
		res, err := call.Do(ctx, client.Request{Path: "/audit/export", Query: auditQuery(account, 0)})
		if err != nil {
			return nil, err
		}
		return res.Body, nil
	case account != "":
		return nil, usagef("--account is for the log of the service; a FILE contains one account's")
	case args[0] == "-":
		return io.NopCloser(e.stdin), nil
	}
	return os.Open(args[0])
}
