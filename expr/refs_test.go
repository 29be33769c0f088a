package expr

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRefs(t *testing.T) {
	tests := []struct{ source, want string }{
		{"plain", ""},
		{"{{ params.a }}", "params.a@1:4"},
		{"{{ steps.onboard.outputs.model_id }}", "steps.onboard.outputs.model_id@1:4"},
		{`{{ steps["a"].outputs[0] }}`, "steps.a.outputs.0@1:4"},
		{`{{ steps['a-b'].outputs.0.x[-1] }}`, "steps.a-b.outputs.0.x.-1@1:4"},
		{"{{ steps[params.which].outputs.x }}", "steps*@1:4 params.which@1:10"},
		{"{{ a.b[i][0].c }}", "a.b*@1:4 i@1:8"},
		{"{{ a.b[1:2] }}", "a.b@1:4"},
		{"{{ a.name.upper() }}", "a.name@1:4"},
		{"{{ params.items() }}", "params@1:4"},
		{"{{ a.b | default(c.d) }}", "a.b!@1:4 c.d@1:18"},
		{"{{ a.b | d }}", "a.b!@1:4"},
		{"{{ (a.b) | default(1) }}", "a.b!@1:5"},
		{"{{ a[i].c | default(1) }}", "a!*@1:4 i@1:6"},
		{"{{ a.b | upper | default(1) }}", "a.b@1:4"},
		{"{{ a.b is defined }}", "a.b!@1:4"},
		{"{{ a.b is not defined }}", "a.b!@1:4"},
		{"{{ a.b is undefined }}", "a.b!@1:4"},
		{"{{ a.b if a.b is defined else c }}", "a.b!@1:4 a.b!@1:11 c@1:31"},
		{"{{ c if a.b is undefined else a.b }}", "c@1:4 a.b!@1:9 a.b!@1:31"},
		{"{{ a.b if a.c is defined else 1 }}", "a.b@1:4 a.c!@1:11"},
		{"{{ a.b is defined and a.b > 3 }}", "a.b!@1:4 a.b!@1:23"},
		{"{{ a.b is defined or a.b > 3 }}", "a.b!@1:4 a.b@1:22"},
		{"{{ a.b is not defined or a.b > 3 }}", "a.b!@1:4 a.b!@1:26"},
		{"{{ not a.b is undefined and a.b.c }}", "a.b!@1:8 a.b.c!@1:29"},
		{"{% if a.b is defined %}{{ a.b }}{% else %}{{ a.b }}{% endif %}", "a.b!@1:7 a.b!@1:27 a.b@1:46"},
		{"{% if a is undefined %}{{ a }}{% elif b %}{{ b }}{% else %}{{ a }}{% endif %}", "a!@1:7 a@1:27 b@1:39 b@1:46 a!@1:63"},
		{"{% for x in a.list %}{{ x.y }}{{ loop.index }}{{ b }}{% endfor %}{{ x }}{{ loop }}", "a.list@1:13 b@1:50 x@1:69 loop@1:76"},
		{"{% for k, v in m.items() if v > n %}{{ k }}{% else %}{{ k }}{% endfor %}", "m@1:16 n@1:33 k@1:57"},
		{"{% set x = a.b %}{{ x.c }}", "a.b@1:12"},
		{"{% set x = x %}{{ x }}", "x@1:12"},
		{"{% set x %}{{ y }}{% endset %}{{ x }}", "y@1:15"},
		{"{% for i in [1] %}{% set x = 1 %}{{ x }}{% endfor %}{{ x }}", "x@1:56"},
		{"{{ range(a) }}{{ dict(b=c) }}{{ range }}", "a@1:10 c@1:25 range@1:33"},
		{"{% raw %}{{ a }}{% endraw %}{# {{ b }} #}{{ c }}", "c@1:45"},
		{"ä\n  {{ a }}\n\nüü{{ b ~ c }}", "a@2:6 b@4:6 c@4:10"},
		{"{{ {'k': a, b: c} }}{{ [d] }}{{ e is divisibleby f }}", "a@1:10 b@1:13 c@1:16 d@1:25 e@1:33 f@1:50"},
	}
	for _, test := range tests {
		var got []string
		for _, r := range parse(t, test.source).Refs() {
			s := strings.Join(r.Path, ".")
			if r.Guarded {
				s += "!"
			}
			if r.Dynamic {
				s += "*"
			}
			got = append(got, fmt.Sprintf("%s@%d:%d", s, r.Line, r.Column))
		}
		if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s\n%s", test.source, diff)
		}
	}
}

// TestRefsAreCopies: a Template is immutable, also through returned values.
func TestRefsAreCopies(t *testing.T) {
	template := parse(t, "{{ a.b }}")
	template.Refs()[0].Path[0] = "changed"
	if got := template.Refs()[0].Path[0]; got != "a" {
		t.Errorf("the path is now %q", got)
	}
}
