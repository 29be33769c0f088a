package main

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/dapr/profile"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/view"
)

func (p *program) newValidateCommand() *cobra.Command {
	var c connection
	engine := &choice{"", []string{"sql", "dapr"}}
	cmd := &cobra.Command{
		Use:   "validate FILE…",
		Short: "Check pipeline files and report all problems",
		Long: "Check pipeline files and the sub-pipelines they name, and report all problems with file, line and column. Exit code 2 if there is an error; warnings alone are fine. Tests (NAME.test.yaml) among the files are left out.\n\n" +
			"With --server the server is asked: it knows its stored pipelines, its actions, and which of them its\n" +
			"policy denies to what you write.\n\n" +
			"With --online the clusters of the settings are asked what they say to Kubernetes jobs (docs/kubernetes.md).\n\n" +
			"With --engine dapr a pipeline is also checked for what executions inside Dapr Workflow lack (docs/dapr.md).",
		Args: arguments(1, -1, "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("server") && (p.settings.online || engine.value == "dapr") {
				return stepwell.Invalid("leave --server out", "--online and --engine dapr are checked here, by the settings of this process")
			}
			if cmd.Flags().Changed("server") {
				return p.calling(&c, func(ctx context.Context, client *client.Client) error {
					return p.validate(args, c.output.value, func(file string) (definition.Problems, error) { return p.askedOf(ctx, client, file) })
				})
			}
			return p.validateHere(args, c.output.value, engine.value)
		},
	}
	cmd.Flags().StringVar(&c.server, "server", "", "`URL` of the server that is asked")
	cmd.Flags().Var(engine, "engine", "`engine` that runs the pipelines")
	cmd.Flags().BoolVar(&p.settings.online, "online", false, "ask Kubernetes clusters too, which create nothing")
	c.output = format(cmd.Flags(), "text", "json")
	p.settings.addLenient(cmd.Flags())
	return cmd
}

// validate shows the problems that check finds in each file.
func (p *program) validate(files []string, output string, check func(file string) (definition.Problems, error)) error {
	files, err := pipelineFiles(files)
	if err != nil {
		return err
	}
	list, good := make([]view.Validated, 0, len(files)), true
	for _, file := range files {
		problems, err := check(file)
		if err != nil {
			return err
		}
		v := view.Validated{File: file, Valid: problems.Err() == nil, Problems: append(definition.Problems{}, problems...)}
		list, good = append(list, v), good && v.Valid
	}
	write := view.WriteValidated
	if output == "json" {
		write = func(w io.Writer, list []view.Validated) error { return view.WriteJSON(w, list) }
	}
	if err := write(p.out, list); err != nil || good {
		return err
	}
	return exitError(exitInvalid)
}

// pipelineFiles leaves the tests beside pipelines out, as `*.yaml` names both.
func pipelineFiles(files []string) ([]string, error) {
	pipelines := slices.DeleteFunc(slices.Clone(files), isTest)
	if len(pipelines) == 0 {
		return nil, stepwell.Invalid("stepwell test "+files[0], "%s is a test of a pipeline", files[0])
	}
	return pipelines, nil
}

// validateHere validates files in this process.
func (p *program) validateHere(files []string, output, engine string) error {
	actions, err := p.registry()
	if err != nil {
		return err
	}
	return p.validate(files, output, func(file string) (definition.Problems, error) {
		d, err := p.load(file, actions)
		if err != nil {
			return definition.Problems{view.Unreadable(file, err)}, nil
		}
		if engine == "dapr" && d.problems.Err() == nil {
			d.problems = append(d.problems, profile.Find(d.def, actions, file)...)
		}
		return d.problems, nil
	})
}

// askedOf are the problems that a server finds in a file.
func (p *program) askedOf(ctx context.Context, client *client.Client, file string) (problems definition.Problems, err error) {
	text, err := p.readText(file)
	if err != nil {
		return definition.Problems{view.Unreadable(file, err)}, nil
	}
	var answer api.Validation
	err = client.Call(ctx, "POST", pathTo("pipelines", "validate"), nil, object{"document": text}, &answer)
	for _, d := range answer.Problems {
		d.File = file
		problems = append(problems, definition.Problem(d))
	}
	return problems, err
}
