package cli

import (
	"fmt"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"
)

func (e *env) open() *cobra.Command {
	c := command("open", "Open the console in the browser",
		`Print the address of the service's console and open it in the browser. The key is not passed on: sign in with
it there. BROWSER names a program to use instead of the system's default.`,
		"  stoa open\n  stoa open --print")
	only := c.Flags().Bool("print", false, "print the address and open nothing")
	c.RunE = func(c *cobra.Command, _ []string) error {
		call, err := e.publicClient()
		if err != nil {
			return err
		}
		at := call.BaseURL() + "/console"
		fmt.Fprintln(e.out, at)
		if *only {
			return nil
		}
		args := browserCommand(runtime.GOOS, e.getenv("BROWSER"), at)
		if err := exec.CommandContext(c.Context(), args[0], args[1:]...).Run(); err != nil {
			return fmt.Errorf("the browser could not be started (%s: %w); open the address above", args[0], err)
		}
		return nil
	}
	return c
}

func browserCommand(system, browser, address string) []string {
	switch {
	case browser != "":
		return []string{browser, address}
	case system == "darwin":
		return []string{"open", address}
	case system == "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler", address}
	}
	return []string{"xdg-open", address}
}
