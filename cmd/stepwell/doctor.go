package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell/view"
)

// How a check of the doctor can end.
const (
	findingOK   = "ok"
	findingWarn = "warn"
	findingFail = "fail"
)

// finding is one line of the doctor's.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"`
	Detail string `json:"detail"`
	Advice string `json:"advice,omitempty"` // what to do
}

func fine(check, format string, args ...any) finding {
	return finding{Check: check, Status: findingOK, Detail: fmt.Sprintf(format, args...)}
}

func warn(check, advice, format string, args ...any) finding {
	return finding{check, findingWarn, fmt.Sprintf(format, args...), advice}
}

func fail(check, advice, format string, args ...any) finding {
	return finding{check, findingFail, fmt.Sprintf(format, args...), advice}
}

// checkPatience bounds each look at something outside.
const checkPatience = 3 * time.Second

// doctor is what the checks look at.
type doctor struct {
	program *program
	serving *serving
	now     func() time.Time
	sound   bool   // there is a database, and it is sound
	holder  string // process that runs executions on the database
}

func (p *program) newDoctorCommand() *cobra.Command {
	var output *choice
	var repair bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what stepwell needs here: database, large outputs, disk, clock, keys, port, neighbours",
		Long: "Check what stepwell needs here, and says what to do about what it finds. It changes nothing,\n" +
			"except with --fix: that moves a ./stepwell.db of an earlier version into the data directory.\n\n" +
			"Exit codes: 0 all is well, or there are warnings; 1 something would not work.",
		Args: arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := p.serving()
			if err != nil {
				return err
			}
			d := &doctor{program: p, serving: s, now: time.Now}
			if repair {
				if err := d.fix(context.Background()); err != nil {
					return err
				}
			}
			return p.report(d.examine(cmd.Context()), output.value)
		},
	}
	p.settings.addDB(cmd.Flags())
	cmd.Flags().BoolVar(&repair, "fix", false, "move ./stepwell.db into the data directory")
	output = format(cmd.Flags(), "text", "json")
	return cmd
}

// serving are the settings of the server, with the environment over them, checked.
func (p *program) serving() (*serving, error) {
	s := p.settings.serving
	if err := s.overlay(p.env, p.environ()); err != nil {
		return nil, err
	}
	return &s, s.validate()
}

// examine runs all checks, the cheap ones first.
func (d *doctor) examine(ctx context.Context) []finding {
	if ctx == nil {
		ctx = context.Background()
	}
	var all []finding
	for _, check := range []func(context.Context) []finding{
		d.dataDirectory, d.database, d.outside, d.largeOutputs, d.disk, d.clock, d.keyFile, d.commands, d.listener, d.certificate, d.tokens, d.tools, d.dapr, d.kubernetes, d.telemetry,
	} {
		all = append(all, check(ctx)...)
	}
	return all
}

func (p *program) report(all []finding, output string) error {
	failed := false
	for _, f := range all {
		failed = failed || f.Status == findingFail
	}
	if output == "json" {
		if err := writeJSON(p.out, all); err != nil {
			return err
		}
	} else {
		t := tabwriter.NewWriter(p.out, 0, 4, 2, ' ', 0)
		for _, f := range all {
			fmt.Fprintf(t, "%s\t%s\t%s\n", f.Status, f.Check, view.OneLine(f.Detail, 500))
			if f.Advice != "" {
				fmt.Fprintf(t, "\t\t→ %s\n", view.OneLine(f.Advice, 500))
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if failed {
		return exitError(exitFailed)
	}
	return nil
}
