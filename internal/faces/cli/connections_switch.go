package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"stoa/internal/base/client"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
)

func (e *env) connectionsSwitch(verb, short, long string, on bool) *cobra.Command {
	c := &cobra.Command{
		Use: verb + " CONNECTION", Short: short, Args: takes("CONNECTION"),
		Long: long, Example: "  stoa connections " + verb + " github",
	}
	return e.onObject(connectionCollection, c, func(ctx context.Context, call *client.Client, o *output, path string, _ []string) error {
		var now contract.Connection
		raw, err := call.JSON(ctx, http.MethodPatch, path, nil, map[string]any{"enabled": on}, &now)
		if err != nil {
			return err
		}
		if !on {
			if err := e.nameUsers(ctx, call, now.SpaceID, now.ID); err != nil {
				e.hint("The agents that use its tools could not be determined: %v", err)
			}
		}
		return o.object(viewConnection, raw)
	})
}

// namedUsers is the maximum number of agents that [env.nameUsers] lists by name.
const namedUsers = 10

// nameUsers lists the agents that use tools of a connection, because they lose them while it is disabled.
func (e *env) nameUsers(ctx context.Context, call *client.Client, spaceID, connectionID string) error {
	var names []string
	more := 0
	for raw, err := range call.All(ctx, "/api-agents", url.Values{"spaceId": {spaceID}}, 0) {
		if err != nil {
			return err
		}
		var a contract.Agent
		if err := jsonx.Unmarshal(raw, &a); err != nil {
			return err
		}
		for _, t := range a.Tools {
			switch {
			case t.ConnectionID != connectionID:
			case len(names) < namedUsers:
				names = append(names, clean(a.Name))
			default:
				more++
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	rest := ""
	if more > 0 {
		rest = fmt.Sprintf(" and %d more", more)
	}
	e.say("Its tools are withheld from: %s%s.", strings.Join(names, ", "), rest)
	return nil
}
