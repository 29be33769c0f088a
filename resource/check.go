package resource

import (
	"cmp"
	"encoding/json"
	"reflect"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// Check holds a value against the tags of its struct, which are its description in the API too. CodeInvalid names the
// place of what does not fit; the hint is the remedy, or else what the field is for.
func Check[T any](v *T) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "it cannot be written as JSON", Hint: "texts, numbers, lists and objects", Err: err}
	}
	values, err := expr.Decode(raw)
	if err != nil {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "it is no JSON", Err: err}
	}
	object, _ := values.(map[string]any)
	if found := checkerOf[T]().Check(object); len(found) > 0 {
		return stepwell.Invalid(cmp.Or(found[0].Hint, found[0].Doc, "/docs of a server describes it"), "%s", found[0].Message)
	}
	return nil
}

// checkers are the compiled descriptions by their types: to make one costs more than to use it.
var checkers sync.Map

func checkerOf[T any]() *spec.Checker {
	t := reflect.TypeFor[T]()
	if c, known := checkers.Load(t); known {
		return c.(*spec.Checker)
	}
	c, err := spec.Compile(spec.FieldsOf[T](), true)
	if err != nil {
		panic(err) // the tags of a struct of ours
	}
	checkers.Store(t, c)
	return c
}
