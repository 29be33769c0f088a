package main

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
)

// readParams reads the parameters of an execution: those of the file, then the -p flags, which count
// more. Everything that is wrong is reported at once.
func readParams(d *definition.Definition, flags []string, file string) (map[string]any, error) {
	params := map[string]any{}
	if file != "" {
		fromFile, err := paramsFile(file)
		if err != nil {
			return nil, err
		}
		maps.Copy(params, fromFile)
	}
	var problems definition.Problems
	for _, flag := range flags {
		name, text, ok := strings.Cut(flag, "=")
		if !ok || name == "" {
			problems = append(problems, definition.Problem{Message: fmt.Sprintf("-p %s: is not of the form key=value", flag)})
			continue
		}
		value, err := definition.ParseParam(declared(d, name), text)
		if err != nil {
			problems = append(problems, definition.Problem{Message: "-p " + name + ": " + err.Error(), Hint: stepwell.HintOf(err)})
			continue
		}
		params[name] = value
	}
	return params, problems.Err()
}

func declared(d *definition.Definition, name string) *definition.Parameter {
	for i := range d.Parameters {
		if d.Parameters[i].Name == name {
			return &d.Parameters[i]
		}
	}
	return nil
}

// maxParams is the size of a file of parameters in bytes.
const maxParams = 4 << 20

func paramsFile(name string) (map[string]any, error) {
	raw, err := readFile(name, maxParams+1)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxParams {
		return nil, stepwell.Invalid("put the data into a file that a step reads", "%s is larger than %d MiB", name, maxParams>>20)
	}
	value, err := definition.ParseParam(&definition.Parameter{Name: "file", Type: spec.Object}, string(raw))
	if err != nil {
		if e, ok := errors.AsType[*stepwell.Error](err); ok && strings.HasPrefix(e.Message, "parameter file") {
			return nil, stepwell.Invalid("write names with values, such as `city: Berlin`", "%s is not a mapping of names to values", name)
		}
		return nil, stepwell.Invalid("", "%s: %v", name, err)
	}
	params, _ := value.(map[string]any) // an empty file gives none
	return params, nil
}
