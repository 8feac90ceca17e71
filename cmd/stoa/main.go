// Command stoa is the service and its command-line client in one binary.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"stoa/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
