package main

import (
	"context"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/doctor"
	"github.com/stepwell/stepwell/settings"
	"github.com/stepwell/stepwell/view"
)

func (p *program) newDoctorCommand() *cobra.Command {
	var output *choice
	var repair, upgrade bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what Stepwell needs on this machine",
		Long: "Check the database, the machine and connected services, and say how to fix problems. It changes nothing,\n" +
			"except with --fix: that moves a ./stepwell.db of an earlier version into the data directory.\n\n" +
			"With --upgrade, it instead folds the step logs of all executions with this program, and tells which of them\n" +
			"it would have run in another way than the version that did. Run it with the new program before an upgrade.\n\n" +
			"Exit codes: 0 no problems, or warnings only; 1 something does not work.",
		Args: arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if upgrade {
				return p.examineUpgrade(cmd.Context(), output.value)
			}
			s, err := p.serving()
			if err == nil && repair {
				err = p.moveOldDatabase(cmd.Context())
			}
			if err != nil {
				return err
			}
			return p.report(doctor.Examine(cmd.Context(), p.doctorOptions(s)), output.value)
		},
	}
	p.settings.addDB(cmd.Flags())
	cmd.Flags().BoolVar(&repair, "fix", false, "move ./stepwell.db into the data directory")
	cmd.Flags().BoolVar(&upgrade, "upgrade", false, "check whether this version decides as the one did that has run the executions")
	output = format(cmd.Flags(), "text", "json")
	return cmd
}

// examineUpgrade checks the executions of the database against this program.
func (p *program) examineUpgrade(ctx context.Context, output string) error {
	o, err := p.options()
	if err != nil {
		return err
	}
	o.DB, o.Log = p.settings.db, p.log()
	progress := func(int) {}
	if p.terminal() != nil {
		progress = func(done int) {
			if done%1000 == 0 {
				fmt.Fprintf(p.err, "\r\x1b[K%d executions", done)
			}
		}
		defer fmt.Fprintln(p.err)
	}
	u, err := doctor.ExamineUpgrade(ctx, o, progress)
	if err != nil {
		return err
	}
	if output == "json" {
		err = view.WriteJSON(p.out, u)
	} else {
		err = u.WriteText(p.out)
	}
	if err == nil && u.Alike < u.Executions {
		err = exitError(exitFailed)
	}
	return err
}

// serving are the settings of the server, with the environment over them, checked.
func (p *program) serving() (*settings.Serving, error) {
	s := p.settings.serving
	if err := s.Overlay(p.env, p.environ()); err != nil {
		return nil, err
	}
	return &s, s.Validate()
}

// doctorOptions are the settings that the doctor examines.
func (p *program) doctorOptions(s *settings.Serving) doctor.Options {
	o := doctor.Options{Policy: s.Policy, Listen: s.Server.Listen, Exposed: s.Server.Exposed(), Cert: s.Server.TLS.Cert, Key: s.Server.TLS.Key,
		JWKS: s.Server.Auth.JWT.JWKS, OTLP: s.Telemetry.OTLPEndpoint, State: s.State.Options(), Plugins: s.Programs(), ReadFile: readFile}
	o.Kubeconfig, _ = p.env("KUBECONFIG")
	o.App, o.AppErr = p.options()
	o.Dapr, o.DaprErr = s.Dapr.Options(o.App.Services.DaprPort, o.App.Services.DaprToken, p.env)
	p.confining(&o.App, s)
	o.App.Log = p.log()
	return o
}

// moveOldDatabase moves a database of an earlier version into the data directory.
func (p *program) moveOldDatabase(ctx context.Context) error {
	if p.settings.data != "" || p.settings.db != app.OldDatabase {
		_, err := fmt.Fprintln(p.out, "nothing to fix")
		return err
	}
	target, err := doctor.MoveOldDatabase(ctx, p.log())
	if err != nil {
		return err
	}
	p.settings.data, p.settings.db = app.DefaultData, target
	_, err = fmt.Fprintf(p.out, "moved ./%s to %s\n", app.OldDatabase, target)
	return err
}

func (p *program) report(all []doctor.Finding, output string) error {
	if output == "json" {
		if err := view.WriteJSON(p.out, all); err != nil {
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
	if slices.ContainsFunc(all, func(f doctor.Finding) bool { return f.Status == doctor.Fail }) {
		return exitError(exitFailed)
	}
	return nil
}
