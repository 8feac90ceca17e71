package cli

import (
	"encoding/csv"
	"strconv"

	"github.com/spf13/cobra"

	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
)

var viewFeedback = view{"Feedback", []column{
	{"Session", "sessionId", ident},
	{"Agent", "agentId", label},
	{"Rating", "rating", state},
	{"By", "by", plain},
	{"Comment", "comment", flexible},
	{"Reply", "reply", flexible},
	{"Created", "createdAt", when},
}}

func (e *env) feedback() *cobra.Command {
	c := group("feedback", "Show how people rate answers", `Show how visitors and members rate the answers of agents.`)
	c.AddCommand(e.feedbackList())
	return c
}

func (e *env) feedbackList() *cobra.Command {
	c := command("list [AGENT]", "List ratings with their comments",
		"List the ratings of the answers of all agents, or of one, the newest first.",
		"  stoa feedback list --rating down\n  stoa feedback list support --by visitor --limit 0 --csv > feedback.csv")
	o := e.output(c)
	most := limit(c)
	asCSV := c.Flags().Bool("csv", false, "print CSV with a header line")
	settings := e.flags(c,
		field{"rating", "rating", asText, "only this `rating`: up or down"},
		field{"by", "by", asText, "only ratings by this `side`: visitor or account"},
		field{"session", "sessionId", asText, "only answers of this `session`"},
	)
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, body := c.Context(), map[string]any{}
		if err := settings(body); err != nil {
			return err
		}
		if *asCSV && o.raw() {
			return usagef("--csv cannot be combined with --json and --jq")
		}
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		if len(args) > 0 {
			if body["agentId"], err = agentCollection.find(ctx, call, args[0]); err != nil {
				return err
			}
		}
		rows := call.All(ctx, "/feedback", parameters(body), rowsToFetch(*most))
		if !*asCSV {
			if !o.raw() && isTerminal(e.out) {
				rows = named(map[string]string{"agentId": "agentName"}, rows)
			}
			return o.list(viewFeedback, rows, *most, "There are no ratings.")
		}
		w := csv.NewWriter(e.out)
		_ = w.Write([]string{"created", "agentId", "agentName", "sessionId", "externalUserId", "turn", "messageId", "by", "rating", "comment", "reply"})
		n := 0
		for raw, err := range rows {
			if err != nil {
				return err
			}
			if n++; *most > 0 && n > *most {
				e.hint("There are more; use a larger --limit, or 0 for all.")
				break
			}
			var r contract.Feedback
			if err := jsonx.Unmarshal(raw, &r); err != nil {
				return err
			}
			comment, _ := r.Comment.Get()
			user, _ := r.ExternalUserID.Get()
			_ = w.Write([]string{r.CreatedAt.String(), r.AgentID, csvText(r.AgentName), r.SessionID, csvText(user), strconv.FormatInt(r.Turn, 10), r.MessageID, r.By, r.Rating, csvText(comment), csvText(r.Reply)})
		}
		w.Flush()
		return w.Error()
	}
	return c
}
