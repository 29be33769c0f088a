package action

import (
	"fmt"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

// compileSpec finds contradictions in a Spec, so that a mistake shows when a program starts and not on first use, and
// prepares the check of its parameters. It returns the first problem, with its place.
func compileSpec(s *spec.Spec) (*spec.Checker, error) {
	if s.Name == "" || slices.Contains(s.Aliases, "") {
		return nil, specError(s, "an empty name or alias")
	}
	if _, err := spec.Compile(s.Outputs, true); err != nil {
		return nil, specError(s, "outputs: %v", err)
	}
	params, err := spec.Compile(s.Params, s.OpenParams)
	if err != nil {
		return nil, specError(s, "params: %v", err)
	}
	if err := checkFields(s, s.Params, ""); err != nil {
		return nil, err
	}
	if _, ok := spec.FieldNamed(s.Params, s.KeyParam); !ok && s.KeyParam != "" {
		return nil, specError(s, "KeyParam %q is not one of the params", s.KeyParam)
	}
	for _, e := range s.Examples {
		if e.Title == "" || e.YAML == "" {
			return nil, specError(s, "an example lacks its title or its YAML")
		}
	}
	return params, nil
}

// checkFields finds impossible settings of fields, at any depth.
func checkFields(s *spec.Spec, fields []spec.Field, path string) error {
	for i := range fields {
		f := &fields[i]
		at := path + f.Name
		switch {
		case f.Required && f.Default != nil:
			return specError(s, "param %s is required and has a default", at)
		case f.Min != nil && f.Max != nil && *f.Min > *f.Max:
			return specError(s, "param %s has a Min above its Max", at)
		case f.Enum != nil && f.Type != spec.String:
			return specError(s, "param %s has an Enum but is not a string", at)
		case f.Items != nil && f.Type != spec.Array, f.Fields != nil && f.Type != spec.Object:
			return specError(s, "param %s describes elements or members that its type does not have", at)
		}
		if err := checkFields(s, f.Fields, at+"."); err != nil {
			return err
		}
		if f.Items != nil {
			if err := checkFields(s, f.Items.Fields, at+"[]."); err != nil {
				return err
			}
		}
	}
	return nil
}

func specError(s *spec.Spec, format string, args ...any) error {
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("description of action %q: ", s.Name) + fmt.Sprintf(format, args...)}
}
