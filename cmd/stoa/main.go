// Command stoa is the service and its command-line client in one binary.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"stoa/internal/faces/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	code := cli.Main(ctx, os.Args[1:], os.Environ(), hangup, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
