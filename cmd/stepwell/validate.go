package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
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
		Long: "Finds everything that is wrong with pipeline files and the sub-pipelines they name, with file,\n" +
			"line and column. Exit code 2 when there is an error; warnings alone are fine.\n\n" +
			"With --server the server is asked: it knows its stored pipelines, its actions, and which of them its\n" +
			"policy denies to what you write.",
		Args: arguments(1, -1, "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("server") {
				return p.calling(&c, func(ctx context.Context, client *api.Client) error {
					return p.validateThere(ctx, client, args, c.output.value)
				})
			}
			return p.validate(args, c.output.value)
		},
	}
	cmd.Flags().StringVar(&c.server, "server", "", "`URL` of the server that is asked")
	c.output = format(cmd.Flags(), "text", "json")
	p.settings.addLenient(cmd.Flags())
	return cmd
}

func (p *program) validate(files []string, output string) error {
	actions, err := p.registry()
	if err != nil {
		return err
	}
	list := make([]validated, 0, len(files))
	for _, file := range files {
		v := validated{File: file, Problems: definition.Problems{}}
		d, err := p.load(file, actions)
		if err != nil {
			v.Problems = definition.Problems{unreadable(file, err)}
		} else {
			v.Problems = append(v.Problems, d.problems...)
		}
		list = append(list, v)
	}
	return p.showValidation(list, output)
}

// validateThere asks a server.
func (p *program) validateThere(ctx context.Context, client *api.Client, files []string, output string) error {
	list := make([]validated, 0, len(files))
	for _, file := range files {
		v := validated{File: file, Problems: definition.Problems{}}
		text, err := p.readText(file)
		if err != nil {
			v.Problems = definition.Problems{unreadable(file, err)}
			list = append(list, v)
			continue
		}
		var answer api.Validation
		if err := client.Call(ctx, "POST", pathTo("pipelines", "validate"), nil, object{"document": text}, &answer); err != nil {
			return err
		}
		for _, d := range answer.Problems {
			v.Problems = append(v.Problems, definition.Problem{File: file, Line: d.Line, Column: d.Column, Path: d.Location, Message: d.Message, Hint: d.Hint, Warning: d.Warning})
		}
		list = append(list, v)
	}
	return p.showValidation(list, output)
}

func (p *program) showValidation(list []validated, output string) (err error) {
	good := true
	for i := range list {
		list[i].Valid = list[i].Problems.Err() == nil
		good = good && list[i].Valid
	}
	if output == "json" {
		err = writeJSON(p.out, list)
	} else {
		err = p.writeValidated(list)
	}
	if err == nil && !good {
		err = exitError(exitInvalid)
	}
	return err
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
