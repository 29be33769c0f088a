// Command dapr-workflow lets Dapr workflows run Stepwell pipelines: it stands beside a Dapr sidecar, hosts the workflows
// stepwell.pipeline, stepwell.definition and stepwell.call, and reaches a Stepwell server over its HTTP API. With -run it also hosts stepwell.run,
// an execution without a server. It keeps no state of its own: what it does not finish, the sidecar gives to the next one. See docs/dapr.md.
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
	"strconv"
	"syscall"

	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/dapr"
	"github.com/stepwell/stepwell/store"
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
		fmt.Fprint(flags.Output(), "Hosts Dapr workflows that run Stepwell pipelines.\n\nUsage: dapr-workflow [-server URL] [-sidecar HOST:PORT] [-keep-sidecar] [-run [-pipelines DIR] [-exec]]\n\n")
		flags.PrintDefaults()
		fmt.Fprint(flags.Output(), "\nThe API key is read from STEPWELL_API_KEY, the token of the sidecar from DAPR_API_TOKEN.\n")
	}
	server := flags.String("server", cmp.Or(env("STEPWELL_SERVER"), "http://127.0.0.1:8010"), "URL of the Stepwell server (STEPWELL_SERVER)")
	sidecar := flags.String("sidecar", "127.0.0.1:"+cmp.Or(env("DAPR_GRPC_PORT"), "50001"), "gRPC address of the Dapr sidecar (DAPR_GRPC_PORT)")
	keep := flags.Bool("keep-sidecar", false, "leave a sidecar running that is stuck after a program was killed (default: ask it to end, for its supervisor to start it again)")
	var hosts hostingOptions
	run := flags.Bool("run", false, "host stepwell.run too: executions inside Dapr Workflow, without a server (experimental)")
	flags.StringVar(&hosts.Dir, "pipelines", env("STEPWELL_PIPELINES"), "folder of the pipelines that stepwell.run finds by name (STEPWELL_PIPELINES)")
	flags.BoolVar(&hosts.Exec, "exec", false, "let steps of stepwell.run start processes (util.exec)")
	flags.IntVar(&hosts.Workers, "workers", 0, "steps of stepwell.run at once (default: four for each processor, at least 8)")
	flags.BoolVar(&hosts.HTTP.AllowPrivate, "allow-private", false, "let steps of stepwell.run reach private addresses")
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
	w := &worker{turn: turn, activity: a.run, token: env("DAPR_API_TOKEN"), log: slog.Default(), keep: *keep}
	if hosts.DaprPort, err = strconv.Atoi(cmp.Or(env("DAPR_HTTP_PORT"), "3500")); err != nil {
		return fmt.Errorf("DAPR_HTTP_PORT: %w", err)
	}
	w.health = &dapr.Settings{Port: hosts.DaprPort, Token: w.token}
	if !*run {
		return w.serve(ctx, *sidecar)
	}
	hosts.Token, hosts.Log = w.token, w.log
	hosts.Lines = func(l store.LogLine, execution string) {
		w.log.Info("step says", "execution", execution, "step", l.StepKey, "attempt", l.Attempt, "level", l.Level, "message", l.Message, "metadata", string(l.Attrs))
	}
	h, err := newHosting(hosts)
	if err != nil {
		return err
	}
	w.turn, w.activity, w.alone = h.beside(turn), h.besideActivities(a.run), true
	return h.serve(ctx, func(ctx context.Context) error { return w.serve(ctx, *sidecar) })
}
