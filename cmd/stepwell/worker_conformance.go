package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell/view"
	"github.com/stepwell/stepwell/worker/conformance"
)

func (p *program) newWorkerConformanceCommand() *cobra.Command {
	var o conformance.Options
	var list, verbose bool
	var output *choice
	cmd := &cobra.Command{
		Use:   "conformance -- COMMAND ARGUMENTS…",
		Short: "Check a worker of your own, in any language",
		Long: "Check a worker of your own, in any language. It is started against private servers on this machine, which give it steps,\n" +
			"kill it, lose its messages, go away and come back; each check says what the worker did wrong.\n\n" +
			"The command finds the server in STEPWELL_SERVER and its API key in STEPWELL_API_KEY, serves the actions that --list\n" +
			"shows, and ends in order on SIGTERM. Several of it run at once. docs/writing-workers.md has more.",
		Args: func(cmd *cobra.Command, args []string) error {
			if list {
				return arguments(0, 0, "")(cmd, args)
			}
			return arguments(1, -1, "the worker's command")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if list {
				p.listConformance()
				return nil
			}
			if o.Command = args; verbose {
				o.Output = p.err
			}
			return p.conform(o, output.value)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.Only, "only", nil, "only these `checks`")
	f.BoolVar(&list, "list", false, "list the checks, and the actions that the worker must serve")
	f.BoolVarP(&verbose, "verbose", "v", false, "show what the command prints")
	f.BoolVar(&o.Socket, "socket", false, "serve it over a socket of this machine, as a server does for its plugins")
	f.DurationVar(&o.Patience, "patience", conformance.Patience, "how long a check waits for the worker")
	output = format(f, "text", "json")
	return cmd
}

// conform prints each result of the checks as it is known.
func (p *program) conform(o conformance.Options, output string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed := 0
	o.Each = func(x conformance.Result) {
		if !x.Passed {
			failed++
		}
		if output == "json" {
			raw, err := json.Marshal(x)
			if err == nil {
				fmt.Fprintln(p.out, string(raw))
			}
			return
		}
		p.showCheck(x)
	}
	results, err := conformance.Run(ctx, o)
	switch {
	case ctx.Err() != nil:
		return exitError(exitInterrupted)
	case err != nil:
		return err
	case output != "json":
		fmt.Fprintf(p.out, "%d of %d checks passed\n", len(results)-failed, len(results))
	}
	if failed > 0 {
		return exitError(exitFailed)
	}
	return nil
}

func (p *program) showCheck(x conformance.Result) {
	switch {
	case x.Skipped != "":
		fmt.Fprintf(p.out, "skip  %-10s %s\n", x.Check, x.Skipped)
	case x.Passed:
		fmt.Fprintf(p.out, "ok    %-10s %s\n", x.Check, x.About)
	default:
		fmt.Fprintf(p.out, "FAIL  %-10s %s\n", x.Check, x.About)
		for _, w := range x.Wrong {
			fmt.Fprintf(p.out, "      %s\n", view.Printable(w))
		}
		for line := range strings.Lines(x.Printed) {
			fmt.Fprintf(p.out, "      | %s\n", view.Printable(strings.TrimRight(line, "\r\n")))
		}
	}
}

// listConformance prints the checks, and the actions that a worker must serve for them.
func (p *program) listConformance() {
	for _, c := range conformance.Checks() {
		fmt.Fprintf(p.out, "%-10s %s\n", c[0], c[1])
	}
	for _, a := range conformance.Actions() {
		fmt.Fprintf(p.out, "\n%s: %s\n", a.Spec.Name, a.Spec.Summary)
		for _, f := range a.Spec.Params {
			fmt.Fprintf(p.out, "  %s: %s. %s\n", f.Name, f.Type, f.Doc)
		}
	}
}
