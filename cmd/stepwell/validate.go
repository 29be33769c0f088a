package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/view"
)

// validated is one file in `validate -o json`.
type validated struct {
	File     string              `json:"file"`
	Valid    bool                `json:"valid"`
	Problems definition.Problems `json:"problems"`
}

func (p *program) newValidateCommand() *cobra.Command {
	var c connection
	cmd := &cobra.Command{
		Use:   "validate FILE…",
		Short: "Find everything that is wrong with pipeline files",
		Long: "Find everything that is wrong with pipeline files and the sub-pipelines they name, with file,\n" +
			"line and column. Exit code 2 when there is an error; warnings alone are fine.\n\n" +
			"With --server the server is asked: it knows its stored pipelines, its actions, and which of them its\n" +
			"policy denies to what you write.",
		Args: arguments(1, -1, "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("server") {
				return p.calling(&c, func(ctx context.Context, client *client.Client) error {
					return p.validate(args, c.output.value, func(file string) (definition.Problems, error) { return p.askedOf(ctx, client, file) })
				})
			}
			return p.validateHere(args, c.output.value)
		},
	}
	cmd.Flags().StringVar(&c.server, "server", "", "`URL` of the server that is asked")
	c.output = format(cmd.Flags(), "text", "json")
	p.settings.addLenient(cmd.Flags())
	return cmd
}

// validate shows the problems that check finds in each file.
func (p *program) validate(files []string, output string, check func(file string) (definition.Problems, error)) error {
	list, good := make([]validated, 0, len(files)), true
	for _, file := range files {
		problems, err := check(file)
		if err != nil {
			return err
		}
		v := validated{File: file, Valid: problems.Err() == nil, Problems: append(definition.Problems{}, problems...)}
		list, good = append(list, v), good && v.Valid
	}
	write := p.writeValidated
	if output == "json" {
		write = func(list []validated) error { return view.WriteJSON(p.out, list) }
	}
	if err := write(list); err != nil || good {
		return err
	}
	return exitError(exitInvalid)
}

// validateHere validates files in this process.
func (p *program) validateHere(files []string, output string) error {
	actions, err := p.registry()
	if err != nil {
		return err
	}
	return p.validate(files, output, func(file string) (definition.Problems, error) {
		d, err := p.load(file, actions)
		if err != nil {
			return definition.Problems{unreadable(file, err)}, nil
		}
		return d.problems, nil
	})
}

// askedOf are the problems that a server finds in a file.
func (p *program) askedOf(ctx context.Context, client *client.Client, file string) (problems definition.Problems, err error) {
	text, err := p.readText(file)
	if err != nil {
		return definition.Problems{unreadable(file, err)}, nil
	}
	var answer api.Validation
	err = client.Call(ctx, "POST", pathTo("pipelines", "validate"), nil, object{"document": text}, &answer)
	for _, d := range answer.Problems {
		problems = append(problems, definition.Problem{File: file, Line: d.Line, Column: d.Column, Path: d.Location, Message: d.Message, Hint: d.Hint, Warning: d.Warning})
	}
	return problems, err
}

func unreadable(file string, err error) definition.Problem {
	problem := definition.Problem{File: file, Message: err.Error()}
	if e, ok := errors.AsType[*stepwell.Error](err); ok {
		problem.Hint = e.Hint
	}
	return problem
}

func (p *program) writeValidated(list []validated) error {
	for _, v := range list {
		for _, problem := range v.Problems {
			fmt.Fprintln(p.out, view.Printable(problem.String()))
		}
		if v.Valid {
			if _, err := fmt.Fprintf(p.out, "%s: valid\n", v.File); err != nil {
				return err
			}
		}
	}
	return nil
}
