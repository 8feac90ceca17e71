package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"stoa/internal/client"
)

// authorizePause is how long is waited between looks at a connection that a person
// authorizes.
const authorizePause = time.Second

// An authorizing connection is one, as far as that shows.
type authorizing struct {
	Last *struct {
		ID      string `json:"id"`
		Status  string `json:"status"`
		Message string `json:"message"`
	} `json:"lastAuthorization"`
}

// ended reports whether the authorization has ended; the error says how, where the
// connection is not authorized by it.
func (a authorizing) ended(id string) (bool, error) {
	switch last := a.Last; {
	case last == nil || last.ID != id:
		return true, errors.New("somebody else has begun to authorize the connection meanwhile")
	case last.Status == "authorized":
		return true, nil
	case last.Status == "cancelled":
		return true, fmt.Errorf("the authorization was cancelled. %s", clean(last.Message))
	case last.Status == "failed":
		return true, fmt.Errorf("the connection was not authorized. %s", clean(last.Message))
	}
	return false, nil
}

func (e *env) connectionsAuthorize() *cobra.Command {
	c := &cobra.Command{
		Use: "authorize CONNECTION", Short: "Have a person authorize a connection", Args: takes("CONNECTION"),
		Long: `Print the address where a person authorizes the connection, and wait until that is done. Nothing is opened:
look at the address, and open it in a browser. The answer comes back to the service, which has to be reachable
from that browser at its public address, and asks there which account may use your access before it connects.
Where the sign-in fails, or is cancelled, the command says why and ends with the exit code 1.
Give the address to nobody but the person whose access it is to be.`,
		Example: "  stoa connections authorize github\n  stoa connections authorize github --wait 0",
	}
	wait := c.Flags().Duration("wait", 10*time.Minute, "how `long` to wait for the person; 0: not at all")
	return e.onObject(connectionCollection(), c, func(ctx context.Context, call *client.Client, o *output, path string, _ []string) error {
		var begun struct {
			ID  string `json:"id"`
			URL string `json:"authorizeUrl"`
		}
		raw, err := call.JSON(ctx, http.MethodPost, path+"/authorize", nil, nil, &begun)
		if err != nil {
			return err
		}
		if o.raw() {
			err = o.printJSON(raw)
		} else {
			_, err = fmt.Fprintln(e.out, clean(begun.URL))
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
				return errors.New("nobody has authorized the connection in that time; begin again")
			case <-timer.C:
			}
			var now authorizing
			if _, err := call.JSON(ctx, http.MethodGet, path, nil, nil, &now); err != nil {
				return err
			}
			if ended, err := now.ended(begun.ID); err != nil {
				return err
			} else if ended {
				e.say("The connection is authorized.")
				return nil
			}
		}
	})
}
