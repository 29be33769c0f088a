package reshape_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// TestNames: Open refuses what the step does not see. What a document can tell is for its check.
func TestNames(t *testing.T) {
	scope := expr.Vars{"params": map[string]any{}, "steps": map[string]any{}, "scene": 1, "step": 2}
	for _, c := range []struct{ template, open string }{
		{"itm.x > 3", "did you mean item?"},
		{"Item.x", "did you mean item?"},
		{"itme.x", "did you mean item?"},
		{"parms.x", "did you mean params?"},
		{"itm.x | default(1)", "did you mean item?"},
		{"items.x", "did you mean item?"},
		{"product.x", "known are item, params, steps, scene"},
		{"site.x", "did you mean item?"},
		{"index", "known are item"},
		{"project.x | default(1)", ""},
		{"scene == step", ""},
		{"item.x in params.list and steps.a.outputs.n > 1", ""},
		{"range(3) | length == item.n", ""},
		{"none", ""},
	} {
		refused(t, "stream.filter", map[string]any{"when": c.template}, scope, "", c.open)
		refused(t, "stream.filter", map[string]any{"when": "{{ " + c.template + " }}"}, scope, "", c.open)
		refused(t, "stream.map", map[string]any{"set": map[string]any{"a": []any{map[string]any{"b": "{{ " + c.template + " }}"}}}}, scope, "", c.open)
	}
	for text, want := range map[string]string{
		"{% for itm in item.l %}{{ loop.index }}{{ itm.x }}{% endfor %}":   "",
		"{% set idem = item.id %}{{ idem }}":                               "",
		"{% for k, iten in item.o.items() %}{{ k }}{{ iten }}{% endfor %}": "",
		"{% for itm in item.l %}{{ itm.x }}{% endfor %}{{ itm.x }}":        "did you mean item?",
	} {
		refused(t, "stream.map", map[string]any{"set": map[string]any{"a": text}}, scope, "", want)
	}
	refused(t, "stream.filter", map[string]any{"when": "scene.x"}, nil, "", "") // nothing is known of the step
}

// TestSyntaxOnce: what the definition's check tells of templates is not told again, and no hint twice.
func TestSyntaxOnce(t *testing.T) {
	const bad = "{{ item.id | uppr }}"
	refused(t, "stream.map", map[string]any{"set": map[string]any{"a": map[string]any{"b": []any{bad}}}}, nil, "", "did you mean upper?")
	refused(t, "stream.filter", map[string]any{"when": bad}, nil, "", "did you mean upper?")
	refused(t, "stream.filter", map[string]any{"when": "item.id | uppr"}, nil, "did you mean upper?", "did you mean upper?")
	refused(t, "stream.filter", map[string]any{"when": "{{ item.x }} == 1"}, nil, "one pair of braces", "one pair of braces")
}

// refused wants hints of Check and of Open, "" for no error.
func refused(t *testing.T, name string, conf map[string]any, scope expr.Scope, check, open string) {
	t.Helper()
	m := module(t, name)
	problems := m.Check(conf)
	if len(problems) > 1 {
		t.Errorf("%s: %d problems: %v", conf, len(problems), problems)
	}
	hinted(t, "check", conf, errors.Join(problems...), check)
	env := streamtest.New(t).Env
	env.Scope = scope
	_, err := m.Open(context.Background(), env, conf)
	if failure, ok := errors.AsType[*stream.Error](err); err != nil && (!ok || failure.Type != stream.ConfigurationError) {
		t.Errorf("%s: %v is no error of the config", conf, err)
	}
	hinted(t, "open", conf, err, open)
}

func hinted(t *testing.T, what string, conf map[string]any, err error, want string) {
	t.Helper()
	hint := stepwell.HintOf(err)
	if (err != nil) != (want != "") || !strings.Contains(hint, want) || err != nil && strings.Contains(err.Error(), hint) {
		t.Errorf("%s %s: %v (%s), want %q", what, conf, err, hint, want)
	}
}
