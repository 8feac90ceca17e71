package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// A diagnosis is the service's report about itself.
type diagnosis struct {
	Status string `json:"status"`
	Checks []struct {
		Name    string `json:"name"`
		Status  string `json:"status"`
		Summary string `json:"summary"`
		Items   []struct {
			AccountID *string `json:"accountId"`
			ID        *string `json:"id"`
			Since     *string `json:"since"`
			Detail    string  `json:"detail"`
		} `json:"items"`
	} `json:"checks"`
}

// attention returns a text with the number of checks that need attention.
func (d *diagnosis) attention() string {
	n := 0
	for _, c := range d.Checks {
		if c.Status == "attention" {
			n++
		}
	}
	if n == 1 {
		return "1 check needs attention"
	}
	return fmt.Sprintf("%d checks need attention", n)
}

func (e *env) doctor() *cobra.Command {
	c := &cobra.Command{
		Use: "doctor", Short: "Check the service for problems", Args: noArgs,
		Long: `Check all accounts for problems that need an operator: connections that are not ready, secrets that cannot be
decrypted, late or failed webhook deliveries, the longest-waiting sessions, the settings for OAuth, the
databases, clocks, free disk space, the limit on open files, models that are not offered, the mail server, owners without their group, and open alerts. With
several nodes, the node that answers checks its own machine. The exit code is 0 if no check needs attention,
and 1 if one does or the service cannot be reached. Requires a key with the scope operator.`,
		Example: "  stoa doctor\n  stoa doctor --json\n  stoa doctor --jq '.checks[] | select(.status != \"ok\").name'",
	}
	o := e.output(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		var found diagnosis
		raw, err := call.JSON(c.Context(), "GET", "/doctor", nil, nil, &found)
		if err != nil {
			return err
		}
		if o.raw() {
			err = o.printJSON(raw)
		} else {
			_, err = fmt.Fprint(e.out, found.text())
		}
		if err == nil && found.Status != "ok" {
			err = errors.New(found.attention())
		}
		return err
	}
	return c
}

// text returns the diagnosis for people.
func (d diagnosis) text() string {
	var b strings.Builder
	for _, c := range d.Checks {
		fmt.Fprintf(&b, "%-9s  %s: %s\n", clean(c.Status), clean(c.Name), clean(c.Summary))
		for _, item := range c.Items {
			parts := []string{clean(item.Detail)}
			for _, part := range []*string{item.ID, item.AccountID, item.Since} {
				if part != nil {
					parts = append(parts, clean(*part))
				}
			}
			fmt.Fprintf(&b, "           - %s\n", strings.Join(parts, "  "))
		}
	}
	return b.String()
}
