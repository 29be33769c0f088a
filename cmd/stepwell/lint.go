package main

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/lint"
	"github.com/stepwell/stepwell/manual"
	"github.com/stepwell/stepwell/scenario"
	"github.com/stepwell/stepwell/schedule"
	"github.com/stepwell/stepwell/view"
)

func (p *program) newLintCommand() *cobra.Command {
	var strict bool
	var timing schedule.Spec
	var output *choice
	c := &connection{lasts: true}
	cmd := &cobra.Command{
		Use:   "lint FILE…",
		Short: "Find mistakes in valid pipelines",
		Long: "Find mistakes in pipeline files that `stepwell validate` cannot: values of wrong types, conditions that never hold, steps that never run, races, unsafe retries, secrets that surface. " +
			"It reports what `validate` reports too. Tests (NAME.test.yaml) among the files are left out.\n\n" +
			"Errors must fail when the pipeline runs: exit code 2. Warnings alone are exit code 0, with --strict 2.\n" +
			"With --server, --data or --db, schedules and time limits are compared with what is stored: the schedules of the pipeline, and how long its past executions took.\n" +
			"The comment `# stepwell: ignore CODE reason`, on the line or above it, suppresses a rule.\n" +
			"docs/lint.md lists the rules.",
		Args: arguments(1, -1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			facts := lint.Facts{Now: clock()}
			if timing.Cron != "" {
				facts.Schedules = []lint.Schedule{{Name: "the schedule " + timing.Cron, Timing: timing}}
			}
			if c.server == "" && !c.choseDatabase() {
				return p.lint(context.Background(), args, facts, nil, output.value, strict)
			}
			return p.calling(c, func(ctx context.Context, client *client.Client) error {
				var kept time.Duration
				if c.server == "" {
					kept = time.Duration(p.settings.serving.Retention.Executions) * 24 * time.Hour
				}
				past, err := newHistorian(ctx, client, kept)
				if err != nil {
					return err
				}
				return p.lint(ctx, args, facts, past, output.value, strict)
			})
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with code 2 for warnings too")
	cmd.Flags().StringVar(&timing.Cron, "cron", "", "check this `expression` of a schedule too")
	cmd.Flags().StringVar(&timing.Zone, "timezone", "", "time `zone` of --cron")
	output = format(cmd.Flags(), "text", "json", "sarif", "github")
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "format" { // as other linters call it
			name = "output"
		}
		return pflag.NormalizedName(name)
	})
	p.settings.addLenient(cmd.Flags())
	p.settings.addDB(cmd.Flags())
	cmd.Flags().StringVar(&c.server, "server", "", "`URL` of a server whose schedules and past executions count")
	c.flags = cmd.Flags()
	return cmd
}

// lint shows the problems of each file. past adds facts; nil: nothing is known of the past.
func (p *program) lint(ctx context.Context, files []string, facts lint.Facts, past *historian, output string, strict bool) error {
	files, err := pipelineFiles(files)
	if err != nil {
		return err
	}
	list := make([]view.Validated, 0, len(files))
	var all definition.Problems
	for _, file := range files {
		problems, err := p.lintFile(ctx, file, facts, past)
		if err != nil {
			return err
		}
		list = append(list, view.Validated{File: file, Valid: problems.Err() == nil, Problems: append(definition.Problems{}, problems...)})
		all = append(all, problems...)
	}
	write := map[string]func(io.Writer) error{
		"text":   func(w io.Writer) error { return view.WriteValidated(w, list) },
		"json":   func(w io.Writer) error { return view.WriteJSON(w, list) },
		"sarif":  func(w io.Writer) error { return lint.WriteSARIF(w, manual.Version(), all) },
		"github": func(w io.Writer) error { return lint.WriteGitHub(w, all) },
	}[output]
	if err := write(p.out); err != nil {
		return err
	}
	if all.Err() != nil || strict && len(all) > 0 {
		return exitError(exitInvalid)
	}
	return nil
}

func (p *program) lintFile(ctx context.Context, file string, facts lint.Facts, past *historian) (definition.Problems, error) {
	actions, err := p.registry()
	if err != nil {
		return nil, err
	}
	d, err := p.load(file, actions)
	if err != nil {
		problem := view.Unreadable(file, err)
		problem.Code = lint.CodeInvalid
		return definition.Problems{problem}, nil
	}
	if d.def == nil {
		for i := range d.problems {
			d.problems[i].Code = lint.CodeInvalid
		}
		return d.problems, nil
	}
	src, err := readFile(file, maxDocument)
	if err != nil {
		return nil, err
	}
	if d.problems.Err() == nil && len(d.def.Matrix) == 0 {
		if facts.Idle, facts.Runs, err = scenario.Reach(ctx, d.def); err != nil {
			return nil, err
		}
	}
	facts.Survey = d.survey
	if past != nil {
		facts.Schedules = slices.Clip(facts.Schedules) // each file has its own
		if err := past.fill(ctx, d.def.Name, &facts); err != nil {
			return nil, err
		}
	}
	return lint.Find(d.def, actions, file, src, d.problems, facts), nil
}
