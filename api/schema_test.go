package api_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
)

func TestSchemaOfDocuments(t *testing.T) {
	r := newRig(t)
	got := r.do("viewer", "GET", "/api/v1/schema", nil).is(200)
	defs := got.object()["$defs"].(map[string]any)
	step := defs["step"].(map[string]any)["properties"].(map[string]any)
	if names := step["action"].(map[string]any)["enum"].([]any); !slices.Contains(names, any("util.log")) || !slices.Contains(names, any("conditional")) {
		t.Errorf("the actions are %v", names)
	}
	if names, _ := step["module"].(map[string]any)["enum"].([]any); len(names) == 0 || slices.Contains(names, any("util.log")) {
		t.Errorf("the modules are %v", names)
	}
	if params := defs["action:util.log"].(map[string]any)["properties"].(map[string]any); params["message"] == nil {
		t.Errorf("the parameters of util.log are %v", params)
	}
	tag := got.header.Get("ETag")
	if again := r.do("viewer", "GET", "/api/v1/schema", nil, "If-None-Match", tag); tag == "" || again.status != http.StatusNotModified {
		t.Errorf("unchanged: %d, tag %s", again.status, tag)
	}
	r.do("", "GET", "/api/v1/schema", nil).is(401)
}

type fixedTemplates []api.Template

func (f fixedTemplates) Templates(context.Context) ([]api.Template, []api.TemplateProblem, error) {
	return f, nil, nil
}

func TestTemplates(t *testing.T) {
	r := newRig(t, func(o *api.Options) {
		o.Templates = fixedTemplates{
			{Name: "one", Summary: "The first.", Origin: "built-in", Text: "# The first.\nname: one\nparameters: [{name: who, default: you}]\nsteps: [{id: a, action: util.noop}]\n"},
			{Name: "broken", Origin: "folder", Text: "steps: ["},
		}
	})
	var list api.TemplateList
	r.do("viewer", "GET", "/api/v1/templates", nil).is(200).into(&list)
	if len(list.Templates) != 2 || list.Templates[0].Name != "one" || list.Templates[0].Summary != "The first." {
		t.Errorf("the list is %+v", list)
	}
	var one api.TemplateDetail
	r.do("viewer", "GET", "/api/v1/templates/one", nil).is(200).into(&one)
	if len(one.Parameters) != 1 || one.Parameters[0].Name != "who" || one.Parameters[0].Default != "you" || one.Parameters[0].Required || len(one.Problems) != 0 || one.Document[0] != '#' {
		t.Errorf("the template is %+v", one)
	}
	r.do("viewer", "GET", "/api/v1/templates/broken", nil).is(200).into(&one)
	if len(one.Problems) == 0 || one.Problems[0].Line == 0 {
		t.Errorf("a text that cannot be read: %+v", one)
	}
	if p := r.do("viewer", "GET", "/api/v1/templates/on", nil).problem(404, stepwell.CodeNotFound); p.Hint == "" {
		t.Errorf("no hint: %+v", p)
	}
}
