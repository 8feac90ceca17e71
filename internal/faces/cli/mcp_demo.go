package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"stoa/internal/agents/httptool"
	"stoa/internal/agents/mcp"
	"stoa/internal/agents/oauth"
)

func (e *env) mcpDemo() *cobra.Command {
	c := command("mcp-demo", "Run a demo server with tools for connections",
		`Run a small server of the Model Context Protocol until SIGINT or SIGTERM: notes in memory, with a tool that
reads, a tool that can be repeated, and a tool that cannot. It also serves other notes below /v1/notes over
plain HTTP, and their OpenAPI document at /openapi.yaml. It uses no network. The service that connects to it
must allow its address: STOA_OUTBOUND_ALLOW=127.0.0.1:8099.`,
		"  stoa mcp-demo\n  stoa connections create notes http://127.0.0.1:8099")
	address := c.Flags().String("listen", "127.0.0.1:8099", "`address` to listen on")
	legacy := c.Flags().Bool("legacy", false, "use the protocol version from before 2026-07-28")
	authorized := c.Flags().Bool("oauth", false, "require OAuth tokens, from an authorization server that accepts every user")
	c.RunE = func(c *cobra.Command, _ []string) error {
		l, err := net.Listen("tcp", *address)
		if err != nil {
			return fmt.Errorf("listen: %w; choose another address with --listen", err)
		}
		handler := httptool.Demo(mcp.Demo(*legacy))
		if *authorized {
			handler = &oauth.Demo{Origin: "http://" + l.Addr().String(), Life: time.Hour, Next: handler}
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute}
		if _, err := fmt.Fprintf(e.out, "http://%s\n", l.Addr()); err != nil {
			return err
		}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(l) }()
		select {
		case err := <-ended:
			return err
		case <-c.Context().Done():
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
			return server.Close()
		}
		return nil
	}
	return c
}
