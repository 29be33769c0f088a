package view

import (
	"strings"
	"testing"

	"github.com/stepwell/stepwell/api"
)

func TestValuesForPeople(t *testing.T) {
	for raw, want := range map[string]string{
		`16.666666666666668`:         "16.666667",
		`0.30000000000000004`:        "0.3",
		`100.00000000000001`:         "100",
		`0.000012345678901`:          "1.23457e-05",
		`12.5`:                       "12.5",
		`123456789012345678`:         "123456789012345678",
		`"yes"`:                      "yes",
		`true`:                       "true",
		`null`:                       "null",
		`["a","b c",1.5]`:            "a, b c, 1.5",
		`["a","7",true,""]`:          `[a, "7", true, ""]`,
		`["a, b","c"]`:               `["a, b", c]`,
		`[]`:                         "[]",
		`{"n":3,"city":"Oslo"}`:      "{city: Oslo, n: 3}",
		`[{"a":[1,2]},{"b":"x: y"}]`: "[{a: [1, 2]}, {b: x: y}]",
		`{"token":"***"}`:            "{token: ***}",
		`{broken`:                    "{broken",
	} {
		if got := valueText([]byte(raw)); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

func TestFailuresAreToldOnce(t *testing.T) {
	failed := func(id, message string) api.Step {
		return api.Step{ID: id, Status: "failed", Error: &api.Failure{Message: message, Hint: "look"}}
	}
	steps := []api.Step{failed("loop", "3 of 3 iterations failed, first loop[0]: refused"), failed("a", "other"), failed("loop[0]", "refused"), failed("loop[1]", "refused"), failed("loop[2]", "slow"),
		failed("b", "other"), {ID: "c", Status: "timed_out"}, failed("d", "other"), failed("e", "other")}
	var out strings.Builder
	told, more := WriteFailures(&out, steps, 4)
	want := "✘ loop: 3 of 3 iterations failed, first loop[0]: refused\n    hint: look\n" +
		"✘ a, b and 2 more: other\n    hint: look\n✘ loop[2]: slow\n    hint: look\n✘ c: timed out\n"
	if out.String() != want || more || !told("other") || !told("refused") || told("new") {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	if _, more := WriteFailures(&out, steps, 2); !more {
		t.Error("what is left out is not told")
	}
}
