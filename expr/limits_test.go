package expr

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/tooltest"
)

// bombs are templates that would take all memory or time without a budget. million is a list
// of 1,000,000 elements of the scope, text a string of 1 MiB.
var bombs = map[string]string{
	"loop over a million":    `{% for x in million %}{{ x }}{% endfor %}`,
	"empty loop":             `{% for x in million %}{% endfor %}`,
	"loop with if":           `{% for x in million if x > 5 %}{% endfor %}`,
	"sum of a million":       `{{ million | map('length') | sum }}`,
	"map of a million":       `{{ million | map('string') | list }}`,
	"sort of a million":      `{{ million | sort }}`,
	"select of a million":    `{{ million | select('odd') | list }}`,
	"join of a million":      `{{ million | join(',') }}`,
	"unique of a million":    `{{ million | unique | list }}`,
	"groupby of a million":   `{{ million | groupby(0) }}`,
	"batch of a million":     `{{ million | batch(1) }}`,
	"reverse of a million":   `{{ million | reverse }}`,
	"slice of a million":     `{{ million[::-1] }}`,
	"text of a million":      `x{{ million }}`,
	"json of a million":      `{{ million | tojson }}`,
	"sum of two millions":    `{{ million + million }}`,
	"range":                  `{{ range(10**9) }}`,
	"range in a loop":        `{% for i in range(10**9) %}x{% endfor %}`,
	"range of everything":    `{{ range(-9223372036854775807, 9223372036854775807) }}`,
	"nested ranges":          `{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}x{% endfor %}{% endfor %}{% endfor %}`,
	"ranges of ranges":       `{{ range(1000) | map('string') | map('list') | list | tojson }}{% for i in range(1000) %}{{ range(1000) | length }}{% endfor %}`,
	"repeated string":        `{{ 'a' * 10**9 }}`,
	"repeated string twice":  `{{ 'ab' * 9223372036854775807 }}`,
	"repeated list":          `{{ [1] * 10**9 }}`,
	"repeated empty list":    `{% for i in range(100000) %}{{ [] * 10**18 }}{{ '' * 10**18 }}{% endfor %}`,
	"doubling text":          `{% set x = 'aaaaaaaa' %}` + strings.Repeat(`{% set x = x ~ x %}`, 40) + `{{ x }}`,
	"doubling in a loop":     `{% for i in range(1000) %}{% set x = 'aaaaaaaa' * 1000 %}{% set x = x ~ x %}{% set x = x ~ x %}{% endfor %}`,
	"doubling lists":         `{% set x = [1] %}` + strings.Repeat(`{% set x = x + x %}`, 40) + `{{ x }}`,
	"nested lists as value":  `{% set x = [1] %}` + strings.Repeat(`{% set x = [x, x] %}`, 60) + `{{ x | tojson }}`,
	"nested lists compared":  `{% set x = [1] %}{% set y = [1] %}` + strings.Repeat(`{% set x = [x, x] %}{% set y = [y, y] %}`, 60) + `{{ x == y }}`,
	"nested lists flattened": `{% set x = [1] %}` + strings.Repeat(`{% set x = [x, x] %}`, 60) + `{{ x | flatten | length }}`,
	"nested lists ordered":   `{% set x = [1] %}{% set y = [1] %}` + strings.Repeat(`{% set x = [x, x] %}{% set y = [y, y] %}`, 200) + `{{ x < y }}`,
	"deep value":             `{% set x = [1] %}` + strings.Repeat(`{% set x = [x] %}`, 1000) + `{{ x }}`,
	"captured output":        `{% for i in range(1000) %}{% set x %}{% for j in range(1000) %}aaaaaaaaaaaaaaaa{% endfor %}{% endset %}{% endfor %}`,
	"power":                  `{{ 9 ** 9 ** 9 }}`,
	"power of floats":        `{{ 9.9 ** 999 }}`,
	"power in a loop":        `{% for i in range(100000) %}{{ 3 ** i }}{% endfor %}`,
	"replace":                `{{ text | replace('', text) }}`,
	"replace to a long one":  `{{ text | replace('a', 'bbbbbbbbbbbbbbbb') }}`,
	"split":                  `{{ text | list | length }}`,
	"join huge":              `{{ ('a' * 100000) | list | join('bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb') }}`,
	"indent":                 `{{ ('\n' * 100000) | indent(1000, blank=true) }}`,
	"indent wide":            `{{ 'a' | indent(2147483647, true) }}`,
	"center":                 `{{ 'a' | center(2147483647) }}`,
	"zfill":                  `{{ 'a'.zfill(2147483647) }}`,
	"format width":           `{{ '%2147483647d' | format(1) }}`,
	"format precision":       `{{ '%.999999999f' % 1 }}`,
	"format many":            `{{ ('%1000d' * 10000) % range(10000) }}`,
	"batch fill":             `{{ [1] | batch(2147483647, 0) }}`,
	"slice fill":             `{{ [1] | slice(2147483647, 0) }}`,
	"tojson indent":          `{% set x = [1] %}` + strings.Repeat(`{% set x = [x, x] %}`, 20) + `{{ x | tojson(16) }}`,
	"dict":                   `{% for i in range(100000) %}{{ dict(a=i, b=i, c=i) | length }}{% endfor %}`,
	"long pattern":           `{{ text | regex_search('` + strings.Repeat("(a|b)", 1000) + `') }}`,
	"repeated pattern":       `{{ text | regex_search('(?:(?:[a-z]{1,30}x){1,30}y)') }}`,
	"costly pattern":         `{% for i in range(1000) %}{{ text | regex_search('(x+x+)+y|[a-z]+1|(a*)*b') }}{% endfor %}`,
	"many patterns":          `{% for i in range(100000) %}{{ 'abc' | regex_search('[a-z]{3}(x|y|z)*' ~ i) }}{% endfor %}`,
	"regex replace":          `{{ text | regex_replace('a', '\\0\\0\\0\\0\\0\\0\\0\\0\\0') }}`,
	"regex replace empty":    `{{ text | regex_replace('', 'bbbbbbbbbbbbbbbb') }}`,
	"fromjson":               `{{ ('[' ~ '1,' * 400000 ~ '1]') | fromjson }}`,
	"fromjson objects":       `{{ ('[' ~ '{},' * 400000 ~ '1]') | fromjson }}`,
	"fromjson deep":          `{{ ('[' * 100000) | fromjson }}`,
	"string search":          `{% for i in range(100000) %}{{ 'b' in text }}{% endfor %}`,
	"string search replace":  `{% for i in range(100000) %}{{ (text | replace('b', 'c')) == 1 }}{% endfor %}`,
	"string search count":    `{% for i in range(100000) %}{{ text.count('b') }}{{ text.find('b') }}{% endfor %}`,
	"string length":          `{% for i in range(100000) %}{{ text | length }}{% endfor %}`,
	"string index":           `{% for i in range(100000) %}{{ text[-1] }}{{ text | last }}{% endfor %}`,
	"string strip":           `{% for i in range(100000) %}{{ text.strip('a') }}{{ text | trim('a') }}{% endfor %}`,
	"string truncate":        `{% for i in range(100000) %}{{ text | truncate(5) }}{{ text | wordcount }}{% endfor %}`,
	"string prefix":          `{% for i in range(100000) %}{{ text.startswith(text) }}{{ text == text ~ '' }}{{ text < text }}{% endfor %}`,
	"string isdigit":         `{% for i in range(100000) %}{{ digits.isdigit() }}{{ digits | int(0) }}{% endfor %}`,
	"string numbers":         `{% for i in range(100000) %}{{ digits | float(0) }}{{ text is lower }}{% endfor %}`,
	"loop in loop over one":  `{% for a in million %}{% for b in million %}{% endfor %}{% endfor %}`,
	"min of a million":       `{{ million | min }}`,
	"in a million":           `{% for i in range(100000) %}{{ 'x' in million }}{% endfor %}`,
	"index of a million":     `{% for i in range(100000) %}{{ million.count('x') }}{% endfor %}`,
	"long condition":         `{{ ` + strings.Repeat("1 and ", 60000) + `1 }}`,
	"long sum":               `{{ ` + strings.Repeat("1+", 100000) + `1 }}`,
	"long list":              `{{ [` + strings.Repeat("1,", 100000) + `1] }}`,
	"long path":              `{{ a` + strings.Repeat(".b", 100000) + ` }}`,
	"long filters":           `{{ 1` + strings.Repeat("|int", 50000) + ` }}`,
	"long calls":             `{{ ''` + strings.Repeat(".strip()", 30000) + ` }}`,
	"deep parentheses":       `{{ ` + strings.Repeat("(", 100000) + ` }}`,
	"deep lists":             `{{ ` + strings.Repeat("[", 100000) + ` }}`,
	"deep dicts":             `{{ ` + strings.Repeat("{1:", 50000) + ` }}`,
	"deep not":               `{{ ` + strings.Repeat("not ", 50000) + `1 }}`,
	"deep minus":             `{{ ` + strings.Repeat("- ", 100000) + `1 }}`,
	"deep if":                `{{ ` + strings.Repeat("1 if 1 else ", 20000) + `1 }}`,
	"deep blocks":            strings.Repeat(`{% if 1 %}`, 20000),
	"deep loops":             strings.Repeat(`{% for x in [1] %}`, 10000),
	"deep calls":             `{{ ` + strings.Repeat("range(", 30000) + ` }}`,
	"deep subscripts":        `{{ ` + strings.Repeat("a[", 100000) + ` }}`,
	"long source":            `{{ 1 }}` + strings.Repeat(" ", 1<<20),
}

func bombScope() Vars {
	million := make([]any, 1_000_000)
	for i := range million {
		million[i] = "v"
	}
	return Vars{"million": million, "text": strings.Repeat("a", 1<<20), "digits": strings.Repeat("1", 1<<20)}
}

// TestBudget: each bomb ends with CodeBudget, within 2 s of processor time (100 ms on a quiet machine) and 10 MB of allocation.
func TestBudget(t *testing.T) {
	scope := bombScope()
	for name, source := range bombs {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := tooltest.CPUTime()
			template, err := Parse(source)
			if err == nil {
				_, err = template.Eval(scope, Limits{})
			}
			took := tooltest.CPUTime() - start
			if testing.Verbose() {
				t.Logf("%v", took)
			}
			runtime.ReadMemStats(&after)
			if !isCode(err, CodeBudget) {
				t.Fatalf("got %v, want a budget error", err)
			}
			if took > slack*2*time.Second {
				t.Errorf("took %v", took)
			}
			if size := after.TotalAlloc - before.TotalAlloc; size > 10_000_000 && slack < 20 || size > 40_000_000 {
				t.Errorf("allocated %d bytes", size)
			}
		})
	}
}

// TestLimits: each limit is an option and is named in its error.
func TestLimits(t *testing.T) {
	tests := []struct {
		source string
		limits Limits
		want   string
	}{
		{"{{ [1, 2, 3] | sum }}", Limits{Ops: 3}, "more than 3 steps"},
		{"{{ 'abcdef' ~ 'g' }}", Limits{Bytes: 6}, "more than 6 bytes"},
		{"{{ [[[1]]] }}", Limits{Depth: 2}, "deeper than 2 levels"},
		{"abcdef{{ 1 }}", Limits{Bytes: 5}, "more than 5 bytes"},
	}
	for _, test := range tests {
		template := parse(t, test.source)
		_, err := template.Eval(nil, test.limits)
		if !isCode(err, CodeBudget) || !strings.Contains(fmt.Sprint(err), test.want) {
			t.Errorf("%s: got %v, want %q", test.source, err, test.want)
		}
		if _, err := template.Eval(nil, Limits{}); err != nil {
			t.Errorf("%s: %v with default limits", test.source, err)
		}
	}
}

// TestWithinBudget: templates of real pipelines stay far inside the defaults.
func TestWithinBudget(t *testing.T) {
	items := make([]any, 100_000)
	for i := range items {
		items[i] = map[string]any{"id": int64(i), "name": "GX010042.MP4", "size": 1.5, "tags": []any{"a", "b"}}
	}
	scope := Vars{"items": items}
	for _, source := range []string{"{{ items }}", "{{ items | length }}", "{{ items[500].name }}", "{{ items[-1] }}",
		"{{ range(100000) | length }}", "{% for i in items[:5000] %}{{ i.name }}{% endfor %}",
		"{{ items[:10000] | map(attribute='id') | list }}"} {
		if _, err := parse(t, source).Eval(scope, Limits{}); err != nil {
			t.Errorf("%s: %v", source, err)
		}
	}
}

func parse(t testing.TB, source string) *Template {
	t.Helper()
	template, err := Parse(source)
	if err != nil {
		t.Fatalf("%s: %v", clip(source), err)
	}
	return template
}
