package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"stoa/internal/base/client"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

var viewRequests = view{"Request", []column{
	{"Request", "id", ident},
	{"Time", "startedAt", when},
	{"Status", "status", plain},
	{"Error", "errorCode", flexible},
	{"Model", "model.requested", label},
	{"In", "inputTokens", count},
	{"Out", "outputTokens", count},
	{"Credits", "creditsMicro", credits},
	{"ms", "durationMilliseconds", count},
}}

var viewRequest = view{"Request", []column{
	{"Request", "id", ident},
	{"Time", "startedAt", when},
	{"Status", "status", plain},
	{"Error", "errorCode", plain},
	{"Parameter", "errorParam", plain},
	{"Account", "accountId", ident},
	{"Key", "keyId", ident},
	{"Model requested", "model.requested", plain},
	{"Model served", "model.served", plain},
	{"Provider", "provider", plain},
	{"Attempts", "attempts", count},
	{"Input tokens", "inputTokens", count},
	{"of which cached", "cachedInputTokens", count},
	{"Output tokens", "outputTokens", count},
	{"Credits", "creditsMicro", credits},
	{"Reply", "responseId", ident},
	{"Receipt", "receiptId", ident},
	{"Stream", "stream", plain},
	{"First token (ms)", "timeToFirstTokenMilliseconds", count},
	{"Duration (ms)", "durationMilliseconds", count},
	{"Estimated", "estimated", plain},
	{"Clamped", "clamped", plain},
	{"Disconnected", "disconnected", plain},
	{"Replayed", "replayed", plain},
	{"Client address", "clientAddress", plain},
}}

const followPause = time.Second

func (e *env) logs() *cobra.Command {
	c := command("logs [REQUEST]", "Show the request log",
		`Show the request log, newest first: one row for each call of the model endpoint, including rejected and failed
ones. Prompts and replies are not stored. With the id of a request (req_…), which the header x-request-id and
every error contain, show its details.

--follow shows the latest rows, oldest first, and then each new one about a second after its call has ended, until
Ctrl-C. With --json or --jq it prints an array whenever there are new rows.`,
		"  stoa logs --status 4xx --from 1h\n  stoa logs --key website --min-duration 20s\n  stoa logs req_01k9zqd3m8w5x7y2c4b6n8p0ra\n  stoa logs --account '*' --follow")
	o := e.output(c)
	n := limit(c)
	o.addCSV(c)
	filter := e.flags(c, append(append(periodFields, sortFields("`value`: created, duration or spent")...),
		field{"account", "accountId", asText, "for operators: rows of the account with this `id`; '*' for all accounts"},
		field{"key", "keyId", asKey, "only calls of this `key`, by id or name"},
		field{"model", "model", asText, "only calls that requested this `model`, or that it served"},
		field{"provider", "provider", asText, "only calls whose last attempt was at this `provider`"},
		field{"status", "status", asText, "only this `status` or class: 429, 4xx"},
		field{"error", "errorCode", asText, "only calls that ended with this error `code`"})...)
	f := c.Flags()
	least := f.Duration("min-duration", 0, "only calls with at least this `duration`, such as 20s")
	follow := f.BoolP("follow", "f", false, "show new rows as they arrive, until Ctrl-C")
	c.RunE = func(c *cobra.Command, args []string) error {
		given := map[string]any{}
		if err := filter(given); err != nil {
			return err
		}
		if *least > 0 {
			given["minDurationMilliseconds"] = (*least).Milliseconds()
		}
		if *follow && (given["sort"] != nil || given["order"] != nil || o.csv) {
			return usagef("--follow cannot be combined with --sort, --order and --csv")
		}
		if len(args) > 0 && (len(given) > 0 || *follow) {
			return usagef("a single request cannot be combined with filters or --follow")
		}
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		if err := look(c.Context(), call, given); err != nil {
			return err
		}
		query := parameters(given)
		l := requestLog{o, call, query, func(ctx context.Context) error { return wait(ctx, followPause) }}
		switch {
		case len(args) > 0:
			raw, err := call.JSON(c.Context(), "GET", "/requests/"+url.PathEscape(args[0]), nil, nil, nil)
			if err != nil {
				return err
			}
			return o.object(viewRequest, raw)
		case *follow:
			return l.follow(c.Context(), *n)
		}
		if err := o.list(viewRequests, call.All(c.Context(), "/requests", query, rowsToFetch(*n)), *n, "There are no requests."); err != nil {
			return err
		}
		page, err := l.page(c.Context(), 1, "", "")
		if err == nil {
			page.hint(e)
		}
		return err
	}
	return c
}

type requestLog struct {
	o     *output
	call  *client.Client
	query url.Values // the filter
	pause func(context.Context) error
}

type requestPage struct {
	Data         []jsonx.Value `json:"data"`
	NextCursor   *string       `json:"nextCursor"`
	FollowCursor string        `json:"followCursor"`
	Dropped      *struct {
		Count int64  `json:"count"`
		Since string `json:"since"`
	} `json:"dropped"`
}

func (p requestPage) hint(e *env) {
	if p.Dropped != nil {
		fmt.Fprintf(e.err, "%d rows are missing since %s: they arrived faster than they could be written.\n", p.Dropped.Count, p.Dropped.Since)
	}
}

// page reads a page; with a cursor it starts with the oldest rows.
func (l requestLog) page(ctx context.Context, size int, cursor, order string) (p requestPage, err error) {
	query := url.Values{"limit": {strconv.Itoa(size)}}
	for name, values := range l.query {
		query[name] = values
	}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	if order != "" {
		query.Set("order", order)
	}
	_, err = l.call.JSON(ctx, "GET", "/requests", query, nil, &p)
	return p, err
}

// follow prints the latest rows, at most latest of them and at most one page, and then
// each new row, until ctx ends.
func (l requestLog) follow(ctx context.Context, latest int) error {
	size := client.MaxPage
	if latest > 0 {
		size = min(size, latest)
	}
	p, err := l.page(ctx, size, "", "")
	if err != nil {
		return err
	}
	p.hint(l.o.e)
	slices.Reverse(p.Data)
	p.NextCursor = nil // because the loop would otherwise continue with older rows
	dropped := p.Dropped
	for {
		if len(p.Data) > 0 {
			if err := l.o.list(viewRequests, sequence(p.Data), 0, ""); err != nil {
				return err
			}
		}
		if p.Dropped != nil && (dropped == nil || p.Dropped.Count > dropped.Count) {
			p.hint(l.o.e)
		}
		dropped = p.Dropped
		cursor := p.FollowCursor
		if p.NextCursor != nil {
			cursor = *p.NextCursor
		} else if l.pause(ctx) != nil {
			return nil // because Ctrl-C ends it
		}
		if p, err = l.page(ctx, client.MaxPage, cursor, "asc"); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	if !stoa.Sleep(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}
