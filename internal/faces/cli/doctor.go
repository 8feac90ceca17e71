package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/oapi-codegen/nullable"
	"github.com/spf13/cobra"

	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
)

func (e *env) doctor() *cobra.Command {
	return e.verb(verb{
		use: "doctor", short: "Check the service for problems",
		long: `Check all accounts for problems that need an operator: connections that are not ready, secrets that cannot be
decrypted, late or failed webhook deliveries, the longest-waiting sessions, the settings for OAuth, the
databases, clocks, free disk space, the limit on open files, models that are not offered, the mail server, owners without their group, and open alerts. With
several nodes, the node that answers checks its own machine. The exit code is 0 if no check needs attention,
and 1 if one does or the service cannot be reached. Requires a key with the scope operator.`,
		example: "  stoa doctor\n  stoa doctor --json\n  stoa doctor --jq '.checks[] | select(.status != \"ok\").name'",
		op:      "GET /doctor", print: printDiagnosis,
	})
}

func printDiagnosis(o *output, raw jsonx.Value) error {
	var found contract.Diagnosis
	err := jsonx.Unmarshal(raw, &found)
	switch {
	case err != nil:
		return err
	case o.raw():
		err = o.printJSON(raw)
	default:
		_, err = fmt.Fprint(o.e.out, diagnosisText(found))
	}
	if err != nil || found.Status == "ok" {
		return err
	}
	n := 0
	for _, c := range found.Checks {
		if c.Status == "attention" {
			n++
		}
	}
	if n == 1 {
		return errors.New("1 check needs attention")
	}
	return fmt.Errorf("%d checks need attention", n)
}

func diagnosisText(d contract.Diagnosis) string {
	var b strings.Builder
	for _, c := range d.Checks {
		fmt.Fprintf(&b, "%-9s  %s: %s\n", clean(c.Status), clean(c.Name), clean(c.Summary))
		for _, item := range c.Items {
			fmt.Fprintf(&b, "           - %s", clean(item.Detail))
			for _, part := range []nullable.Nullable[string]{item.ID, item.AccountID} {
				if text, err := part.Get(); err == nil {
					fmt.Fprintf(&b, "  %s", clean(text))
				}
			}
			if since, err := item.Since.Get(); err == nil {
				fmt.Fprintf(&b, "  %s", since)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}
