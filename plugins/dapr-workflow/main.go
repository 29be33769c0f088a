// Command dapr-workflow lets Dapr workflows run Stepwell pipelines: it stands beside a Dapr sidecar, hosts the workflows
// stepwell.pipeline, stepwell.definition and stepwell.call, and reaches a Stepwell server over its HTTP API. It keeps no state of its own:
// what it does not finish, the sidecar gives to the next one. See docs/dapr.md.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/stepwell/stepwell/api/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "dapr-workflow:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, env func(string) string) error {
	flags := flag.NewFlagSet("dapr-workflow", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), "Hosts Dapr workflows that run Stepwell pipelines.\n\nUsage: dapr-workflow [-server URL] [-sidecar HOST:PORT]\n\n")
		flags.PrintDefaults()
		fmt.Fprint(flags.Output(), "\nThe API key is read from STEPWELL_API_KEY, the token of the sidecar from DAPR_API_TOKEN.\n")
	}
	server := flags.String("server", cmp.Or(env("STEPWELL_SERVER"), "http://127.0.0.1:8010"), "URL of the Stepwell server (STEPWELL_SERVER)")
	sidecar := flags.String("sidecar", "127.0.0.1:"+cmp.Or(env("DAPR_GRPC_PORT"), "50001"), "gRPC address of the Dapr sidecar (DAPR_GRPC_PORT)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	c, err := client.New(client.Options{URL: *server, Token: env("STEPWELL_API_KEY")})
	if err != nil {
		return err
	}
	a := newActivities(c)
	w := &worker{turn: turn, activity: a.run, token: env("DAPR_API_TOKEN"), log: slog.Default()}
	return w.serve(ctx, *sidecar)
}
