package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"stoa/internal/base/client"
	"stoa/internal/base/contract"
)

const authorizePause = time.Second

// authorizationEnded reports whether an authorization of a connection has ended. The error is the reason if it did not
// succeed.
func authorizationEnded(c contract.Connection, id string) (bool, error) {
	last, err := c.LastAuthorization.Get()
	switch why := clean(orEmpty(last.Message)); {
	case err != nil || last.ID != id:
		return true, errors.New("another authorization of the connection was started meanwhile")
	case last.Status == "authorized":
		return true, nil
	case last.Status == "cancelled":
		return true, fmt.Errorf("the authorization was cancelled. %s", why)
	case last.Status == "failed":
		return true, fmt.Errorf("the connection was not authorized. %s", why)
	}
	return false, nil
}

func (e *env) connectionsAuthorize() *cobra.Command {
	c := &cobra.Command{
		Use: "authorize CONNECTION", Short: "Authorize a connection in a browser", Args: takes("CONNECTION"),
		Long: `Print the address where a person authorizes the connection, and wait for the result. No browser is started:
check the address, and open it yourself. The authorization server redirects to the service, which must be
reachable from that browser at its public address; there it asks which account can use your access before it
connects. If the sign-in fails or is cancelled, the command prints the reason and the exit code is 1. Send the
address only to the person whose access the connection will use.`,
		Example: "  stoa connections authorize github\n  stoa connections authorize github --wait 0",
	}
	wait := c.Flags().Duration("wait", 10*time.Minute, "the maximum `duration` to wait for the person; 0 does not wait")
	return e.onObject(connectionCollection, c, func(ctx context.Context, call *client.Client, o *output, path string, _ []string) error {
		var begun contract.AuthorizationStart
		raw, err := call.JSON(ctx, http.MethodPost, path+"/authorize", nil, nil, &begun)
		if err != nil {
			return err
		}
		if o.raw() {
			err = o.printJSON(raw)
		} else {
			if begun.SignInOrigin != "" {
				e.say("The person signs in at %s; the access token comes from %s.", clean(begun.SignInOrigin), clean(begun.TokenOrigin))
			}
			_, err = fmt.Fprintln(e.out, clean(begun.AuthorizeURL))
		}
		if err != nil || *wait <= 0 {
			return err
		}
		e.hint("Open the address in a browser. Waiting until the connection is authorized.")
		waiting, cancel := context.WithTimeout(ctx, *wait)
		defer cancel()
		for {
			timer := time.NewTimer(authorizePause)
			select {
			case <-waiting.Done():
				timer.Stop()
				if ctx.Err() != nil {
					return ctx.Err()
				}
				return errors.New("the connection was not authorized in time; try again")
			case <-timer.C:
			}
			var now contract.Connection
			if _, err := call.JSON(ctx, http.MethodGet, path, nil, nil, &now); err != nil {
				return err
			}
			if ended, err := authorizationEnded(now, begun.ID); err != nil {
				return err
			} else if ended {
				e.say("The connection is authorized.")
				return nil
			}
		}
	})
}
