package definition_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
)

// graph makes a pipeline of n steps with the dependencies deps and the references refs.
func graph(n int, deps, refs func(i int) []int) *definition.Definition {
	d := &definition.Definition{Name: "graph"}
	for i := range n {
		s := definition.Step{ID: fmt.Sprintf("s%d", i), Action: "util.noop"}
		for _, j := range deps(i) {
			s.DependsOn = append(s.DependsOn, fmt.Sprintf("s%d", j))
		}
		params := map[string]any{}
		for k, j := range refs(i) {
			params[fmt.Sprint("p", k)] = fmt.Sprintf("{{ steps.s%d.outputs.x }}", j)
		}
		s.Params = params
		d.Steps = append(d.Steps, s)
	}
	return d
}

// On random graphs Check agrees with the plain definition of an ancestor.
func TestAncestorsAgainstDefinition(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		n := 2 + random.IntN(14)
		deps, refs := make([][]int, n), make([][]int, n)
		ancestors := make([]map[int]bool, n)
		for i := range n {
			ancestors[i] = map[int]bool{}
			for j := range i {
				if random.IntN(4) == 0 {
					deps[i] = append(deps[i], j)
					ancestors[i][j] = true
					for a := range ancestors[j] {
						ancestors[i][a] = true
					}
				}
				if random.IntN(3) == 0 {
					refs[i] = append(refs[i], j)
				}
			}
		}
		order := random.Perm(n) // the document's order is any
		d := graph(n, func(i int) []int { return deps[i] }, func(i int) []int { return refs[i] })
		shuffled := *d
		shuffled.Steps = nil
		for _, i := range order {
			shuffled.Steps = append(shuffled.Steps, d.Steps[i])
		}
		want := 0
		for i := range n {
			for _, j := range refs[i] {
				if !ancestors[i][j] {
					want++
				}
			}
		}
		if got := definition.Check(&shuffled, actions(), ""); len(got) != want {
			t.Fatalf("round %d: %d problems, want %d\n%v", round, len(got), want, got)
		}
	}
}

func TestCheckLargeGraphs(t *testing.T) {
	const n = 20_000
	previous := func(i int) []int { return []int{i - 1}[:min(i, 1)] }
	half := func(i int) []int { return []int{i / 2}[:min(i, 1)] }
	for name, c := range map[string]struct {
		deps, refs func(i int) []int
		want       int
	}{
		"chain":                 {previous, previous, 0},
		"chain, far references": {previous, half, 0},
		"two dependencies each": {func(i int) []int { return []int{i - 2, i - 1}[min(2-min(i, 2), 2):] }, half, 0},
		"fan-in": {func(i int) []int {
			if i < n-1 {
				return nil
			}
			return upTo(n - 1)
		}, func(i int) []int {
			if i < n-1 {
				return nil
			}
			return upTo(1000)
		}, 0},
		"cycle of all":         {func(i int) []int { return []int{(i + 1) % n} }, previous, 1},
		"unknown references":   {previous, func(int) []int { return []int{n} }, 1001},
		"unknown dependencies": {func(int) []int { return []int{n} }, func(int) []int { return nil }, 1001},
	} {
		d := graph(n, c.deps, c.refs)
		start := time.Now()
		problems := definition.Check(d, actions(), "")
		took := time.Since(start)
		t.Logf("%s: %v", name, took)
		if len(problems) != c.want {
			t.Errorf("%s: %d problems, want %d: %v", name, len(problems), c.want, problems[:min(len(problems), 3)])
		}
		if took > 10*time.Second { // a few hundred milliseconds on a quiet machine; quadratic would be hours
			t.Errorf("%s: took %v", name, took)
		}
	}
}

func BenchmarkCheck100k(b *testing.B) {
	const n = 100_000
	previous := func(i int) []int { return []int{i - 1}[:min(i, 1)] }
	d := graph(n, previous, func(i int) []int { return []int{i / 2}[:min(i, 1)] })
	for b.Loop() {
		if problems := definition.Check(d, actions(), ""); problems != nil {
			b.Fatal(problems)
		}
	}
}

func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// A definition from a snapshot has no positions; its problems say where by path.
func TestCheckWithoutPositions(t *testing.T) {
	d := parse(t, "name: x\nsteps: [{id: a, action: util.noop, depends_on: [zz], params: {l: [\"{{ nope }}\"]}}]", definition.ParseOptions{})
	raw, err := definition.Encode(d)
	if err != nil {
		t.Fatal(err)
	}
	if d, err = definition.Decode(raw); err != nil {
		t.Fatal(err)
	}
	problems := definition.Check(d, actions(), "x")
	var got []string
	for _, p := range problems {
		got = append(got, fmt.Sprint(p.Line, " ", p.Path))
	}
	if strings.Join(got, "; ") != "0 steps[0].depends_on[0]; 0 steps[0].params.l[0]" {
		t.Errorf("got %q: %v", got, problems)
	}
}

// A search that would take too long gives up and says so; an undecided reference is no error.
func TestSearchIsBounded(t *testing.T) {
	const width, layers = 20, 20
	d := graph(width*layers, func(i int) []int {
		if i < width {
			return nil
		}
		first := i/width*width - width
		return upTo(first + width)[first:]
	}, func(i int) []int { return []int{i % width}[:min(i/width, 1)] })
	if problems := definition.Check(d, actions(), ""); problems != nil {
		t.Fatal(problems)
	}
	problems := definition.CheckWithin(d, actions(), 1000)
	if problems.Err() != nil || len(problems) != 1 || !strings.Contains(problems[0].Message, "were not verified") {
		t.Errorf("got %v", problems)
	}
}

// Spawned steps and usual dependencies declared by an action count as dependencies.
func TestActionsThatSpawn(t *testing.T) {
	known := actions()
	known["scan"] = &spec.Spec{Name: "scan", Spawns: []string{"extract"}, OpenParams: true}
	known["merge"] = &spec.Spec{Name: "merge", DependsOn: []string{"scan-all"}, OpenParams: true}
	src := `name: x
steps:
  - {id: scan-all, action: scan}
  - {id: after, action: util.noop, depends_on: [extract], params: {n: "{{ steps['scan-all'].outputs.n }}"}}
  - {id: usual, action: merge, params: {n: "{{ steps['scan-all'].outputs.n }}"}}
  - {id: other, action: merge, depends_on: [usual, extrct]}
`
	problems := definition.Check(parse(t, src, definition.ParseOptions{}), known, "")
	if len(problems) != 1 || !strings.Contains(problems[0].Message, `depends on "extrct", which does not exist`) {
		t.Errorf("got %v", problems)
	}
}

// Spawned steps are known by their name: spawn.name, or the action's declaration. Mistakes in such a name, or in a
// reference to it, are reported with their place.
func TestFamilies(t *testing.T) {
	known := actions()
	known["scan"] = &spec.Spec{Name: "scan", Spawns: []string{"extract"}, OpenParams: true, Params: []spec.Field{{Name: "spawn", Type: spec.Any}}}
	for name, c := range map[string]struct {
		steps string
		want  []string // places and messages
	}{
		"declared": {steps: `
  - {id: a, action: scan}
  - {id: b, action: util.noop, depends_on: [extract], params: {n: "{{ steps.extract.outputs }}", f: "{{ steps.extract.failures }}"}}
  - {id: c, action: util.noop, depends_on: [b], for_each: {items: "{{ steps.extract.outputs }}"}, condition: "{{ steps.extract.count > 2 }}"}`},
		"named": {steps: `
  - {id: a, action: scan, params: {spawn: {name: describe}}}
  - {id: b, action: util.noop, depends_on: ["describe:x.mp4", describe], params: {n: "{{ steps.describe.outputs }}"}}`},
		"declared, but named otherwise": {steps: `
  - {id: a, action: scan, params: {spawn: {name: describe}}}
  - {id: b, action: util.noop, depends_on: [extract], params: {n: "{{ steps.extract.outputs }}"}}`,
			want: []string{`the step "b" depends on "extract", which does not exist`, `there is no step "extract"`}},
		"misspelt": {steps: `
  - {id: a, action: scan}
  - {id: b, action: util.noop, depends_on: [extrat], params: {n: "{{ steps.extrct.outputs }}"}}
  - {id: c, action: util.noop, depends_on: [extract], params: {n: "{{ steps.extract.output }}"}}`,
			want: []string{`(did you mean extract?)`, `there is no step "extrct"`, `they have outputs, failures and count, but no "output"`}},
		"not waited for": {steps: `
  - {id: a, action: scan}
  - {id: b, action: util.noop, depends_on: [a], params: {n: "{{ steps.extract.outputs }}"}}`,
			want: []string{`the step "b" does not wait for the steps "extract", so they may not have ended (add extract to depends_on of b)`}},
		"named as a step": {steps: `
  - {id: a, action: scan, params: {spawn: {name: b}}}
  - {id: b, action: util.noop}`,
			want: []string{`3:50: the steps that "a" adds are named "b", as a step beside it is`}},
		"no identifier": {steps: `
  - {id: a, action: scan, params: {spawn: {name: "{{ execution.id }}"}}}
  - {id: b, action: scan, params: {spawn: {name: "a b"}}}`,
			want: []string{`3:51: the name "{{ execution.id }}" of the steps that "a" adds is not possible`, `4:51: the name "a b"`}},
		"none": {steps: `
  - {id: a, action: scan, params: {spawn: false}}
  - {id: extract, action: util.noop, depends_on: [a]}`},
		"inside of iterations": {steps: `
  - {id: a, action: scan, for_each: 3}
  - {id: b, action: util.noop, depends_on: [extract], params: {n: "{{ steps.extract.outputs }}"}}`,
			want: []string{`the steps "extract" are added inside of the iterations of "a" (read what the iterations gave: steps.a.outputs.results)`}},
	} {
		t.Run(name, func(t *testing.T) {
			problems := definition.Check(parse(t, "name: x\nsteps:"+c.steps, definition.ParseOptions{}), known, "")
			var got []string
			for _, p := range problems {
				got = append(got, p.String())
			}
			all := strings.Join(got, "\n")
			for _, want := range c.want {
				if !strings.Contains(all, want) {
					t.Errorf("%q is missing", want)
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("%d problems, want %d:\n%s", len(got), len(c.want), all)
			}
		})
	}
}

// sequential makes each step an ancestor of the next.
func TestSequential(t *testing.T) {
	src := "name: x\nsettings: {sequential: %v}\nsteps:\n  - {id: a, action: util.noop}\n  - {id: b, action: util.noop}\n  - {id: c, action: util.noop, params: {x: '{{ steps.a.outputs.x }}'}}"
	for sequential, want := range map[bool]int{true: 0, false: 1} {
		d := parse(t, fmt.Sprintf(src, sequential), definition.ParseOptions{})
		if problems := definition.Check(d, actions(), ""); len(problems) != want {
			t.Errorf("sequential: %v: %v", sequential, problems)
		}
	}
}
