package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
)

// validated is one file in `validate -o json`.
type validated struct {
	File     string              `json:"file"`
	Valid    bool                `json:"valid"`
	Problems definition.Problems `json:"problems"`
}

func (p *program) newValidateCommand() *cobra.Command {
	var output *choice
	cmd := &cobra.Command{
		Use:   "validate FILE…",
		Short: "Finds everything that is wrong with pipeline files",
		Long: "Finds everything that is wrong with pipeline files and the sub-pipelines they name, with file,\n" +
			"line and column. Exit code 2 when there is an error; warnings alone are fine.",
		Args: arguments(1, -1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error { return p.validate(args, output.value) },
	}
	output = format(cmd.Flags(), "text", "json")
	p.settings.addLenient(cmd.Flags())
	return cmd
}

func (p *program) validate(files []string, output string) error {
	actions, err := p.registry()
	if err != nil {
		return err
	}
	list := make([]validated, 0, len(files))
	good := true
	for _, file := range files {
		v := validated{File: file, Problems: definition.Problems{}}
		d, err := p.load(file, actions)
		if err != nil {
			v.Problems = definition.Problems{unreadable(file, err)}
		} else {
			v.Problems = append(v.Problems, d.problems...)
		}
		v.Valid = v.Problems.Err() == nil
		good = good && v.Valid
		list = append(list, v)
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
			fmt.Fprintln(p.out, printable(problem.String()))
		}
		if v.Valid {
			if _, err := fmt.Fprintf(p.out, "%s: valid\n", v.File); err != nil {
				return err
			}
		}
	}
	return nil
}
