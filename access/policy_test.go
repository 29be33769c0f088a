package access_test

import (
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
)

func TestPolicy(t *testing.T) {
	exec := []string{"util.exec", "exec"}
	p := access.Policy{
		Actions:   access.Rule{Deny: []string{"git.*"}},
		Roles:     map[string]access.Rule{"editor": {Deny: []string{"util.exec"}}, "admin": {Allow: []string{"util.*", "git.*"}}},
		Pipelines: map[string]access.Rule{"nightly-*": {Allow: []string{"util.log"}}, "0190-id": {Deny: []string{"*"}}},
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		use  access.Use
		want string // what decided; "": it is allowed
	}{
		"an editor's command":      {access.Use{Names: exec, Role: "editor", Name: "a"}, `roles.editor.deny "util.exec"`},
		"under its other name":     {access.Use{Names: []string{"exec", "util.exec"}, Role: "editor", Name: "a"}, `roles.editor.deny "util.exec"`},
		"an admin's command":       {access.Use{Names: exec, Role: "admin", Name: "a"}, ""},
		"what is not allowed":      {access.Use{Names: []string{"stream.write"}, Role: "admin", Name: "a"}, `roles.admin.allow ["util.*" "git.*"]`},
		"denied for all":           {access.Use{Names: []string{"git.clone"}, Role: "admin", Name: "a"}, `actions.deny "git.*"`},
		"by the pipeline's name":   {access.Use{Names: exec, Role: "admin", Name: "nightly-2"}, `pipelines.nightly-*.allow ["util.log"]`},
		"allowed there":            {access.Use{Names: []string{"util.log"}, Role: "editor", Name: "nightly-2"}, ""},
		"by the pipeline's id":     {access.Use{Names: []string{"util.log"}, Role: "admin", Pipeline: "0190-id", Name: "x"}, `pipelines.0190-id.deny "*"`},
		"a name like another's id": {access.Use{Names: []string{"util.log"}, Role: "admin", Name: "0190-id"}, `pipelines.0190-id.deny "*"`},
		"anything else":            {access.Use{Names: []string{"util.noop"}, Role: "editor", Name: "x"}, ""},
	} {
		err := p.Check(c.use)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (stepwell.CodeOf(err) != stepwell.CodeDenied || !strings.HasSuffix(err.Error(), c.want)):
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	none := access.Policy{Actions: access.Rule{Allow: []string{}}}
	if err := none.Check(access.Use{Names: exec, Role: "admin"}); stepwell.CodeOf(err) != stepwell.CodeDenied {
		t.Errorf("an empty list allows nothing: %v", err)
	}
	for _, wrong := range []access.Policy{
		{Actions: access.Rule{Deny: []string{"[a"}}}, {Actions: access.Rule{Allow: []string{""}}}, {Roles: map[string]access.Rule{"operator": {}}},
		{Roles: map[string]access.Rule{"king": {}}}, {Pipelines: map[string]access.Rule{"[a": {}}}, {Actions: access.Rule{Deny: []string{strings.Repeat("a", 300)}}},
	} {
		if err := wrong.Validate(); stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}
