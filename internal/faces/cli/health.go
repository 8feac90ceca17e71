package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"stoa/internal/base/client"
	"stoa/internal/base/jsonx"
)

// healthWait limits a health check, so that a supervisor does not wait for a blocked service.
const healthWait = 5 * time.Second

func (e *env) health() *cobra.Command {
	c := command("health [URL]", "Check the health of a service",
		`Check whether a service accepts requests, and print its status: ok, draining or unavailable. The exit code is
0 for ok and 1 for everything else, including an unreachable service and no answer within 5 s, so that a
container or a supervisor can use it as a health check. Requires no key. The default address is that of the
login.`,
		"  stoa health\n  stoa health http://127.0.0.1:8080")
	c.RunE = func(c *cobra.Command, args []string) error {
		call, err := e.publicClient()
		if len(args) > 0 {
			call, err = e.newClient(args[0], "")
		}
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), healthWait)
		defer cancel()
		var health struct {
			Status string `json:"status"`
		}
		_, err = call.JSON(ctx, "GET", "/health", nil, nil, &health)
		if refused, ok := errors.AsType[*client.Error](err); ok && jsonx.Unmarshal(refused.Body, &health) == nil && health.Status != "" {
			err = fmt.Errorf("the service accepts no requests: %s", clean(health.Status))
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(e.out, clean(health.Status))
		return nil
	}
	return c
}
