package cli

import (
	"github.com/spf13/cobra"

	"stoa/internal/jsonx"
)

func viewProviders() view {
	return view{"Provider", []column{
		{"Name", "name", plain},
		{"Format", "wire", plain},
		{"In flight", "inFlight", count},
		{"Limit", "maxInFlight", count},
		{"Requests", "requests", count},
		{"Retries", "retries", count},
		{"Failures", "failures", count},
		{"Last failure", "lastFailure.at", when},
		{"Code", "lastFailure.code", plain},
	}}
}

func (e *env) providers() *cobra.Command {
	c := &cobra.Command{
		Use: "providers", Short: "Show how the providers do", Args: noArgs,
		Long: `Show what the service knows of each provider from the calls it made since it started. --json has their
models too, with those whose circuit is open after failures. It takes a key with the scope operator.`,
		Example: "  stoa providers\n  stoa providers --jq '.[].routes[] | select(.state != \"closed\").model'",
	}
	o := e.output(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		var list struct {
			Data []jsonx.Value `json:"data"`
		}
		if _, err := call.JSON(c.Context(), "GET", "/providers", nil, nil, &list); err != nil {
			return err
		}
		return o.list(viewProviders(), sequence(list.Data), 0, "There are no providers.")
	}
	return c
}
