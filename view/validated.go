package view

import (
	"errors"
	"fmt"
	"io"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
)

// Validated is one file in `validate -o json`.
type Validated struct {
	File     string              `json:"file"`
	Valid    bool                `json:"valid"`
	Problems definition.Problems `json:"problems"`
}

// WriteValidated writes the problems of files, and which are valid.
func WriteValidated(w io.Writer, list []Validated) error {
	for _, v := range list {
		for _, problem := range v.Problems {
			if _, err := fmt.Fprintln(w, Printable(problem.String())); err != nil {
				return err
			}
		}
		if v.Valid {
			if _, err := fmt.Fprintf(w, "%s: valid\n", v.File); err != nil {
				return err
			}
		}
	}
	return nil
}

// Unreadable is the problem of a file that cannot be read.
func Unreadable(file string, err error) definition.Problem {
	problem := definition.Problem{File: file, Message: err.Error()}
	if e, ok := errors.AsType[*stepwell.Error](err); ok {
		problem.Hint = e.Hint
	}
	return problem
}
