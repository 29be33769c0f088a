package transform

import (
	"errors"
	"testing"

	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stac/transform/convert"
)

// The examples of the documentation are configs that Open would take.
func TestExamples(t *testing.T) {
	m := module()
	for _, example := range m.Spec.Examples {
		doc, err := convert.Document([]byte(example.YAML))
		if err != nil {
			t.Fatal(err)
		}
		config, err := doc.Get("config").Any()
		if err != nil {
			t.Fatal(err)
		}
		checker, err := spec.Compile(m.Spec.Params, false)
		if err != nil {
			t.Fatal(err)
		}
		problems := m.Check(checker.Apply(config.(object)))
		for _, mismatch := range checker.Check(config.(object)) {
			problems = append(problems, errors.New(mismatch.String()))
		}
		if len(problems) > 0 {
			t.Errorf("%s: %v", example.Title, problems)
		}
	}
}
