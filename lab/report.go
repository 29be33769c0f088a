package lab

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/scenario"
	"github.com/stepwell/stepwell/sim"
	"github.com/stepwell/stepwell/spec"
)

// Kind is what a finding is.
type Kind string

// The kinds.
const (
	Broken    Kind = "broken"    // a rule: a fault of Stepwell
	Different Kind = "different" // the outcome is another one
	Unlike    Kind = "unlike"    // twice is not like once: a step that really ran left something else when it ran again
	Twice     Kind = "twice"     // a step ran twice, and nothing says that it may
	Person    Kind = "person"    // a step that must not run twice was cut off: as the pipeline says, a person decides
)

// Finding is one thing that the lab has found.
type Finding struct {
	Kind    Kind     `json:"kind"`
	Rule    string   `json:"rule,omitempty"`
	Step    string   `json:"step,omitempty"`
	Action  string   `json:"action,omitempty"`
	Place   string   `json:"place,omitempty"` // of the step: file:line:column
	Message string   `json:"message"`
	Advice  []string `json:"advice,omitempty" nullable:"false"`
	Runs    int      `json:"runs"` // that show it
	Replay  string   `json:"replay"`

	schedule schedule
}

// Result is what came of one test.
type Result struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Name     string `json:"name"`
	Pipeline string `json:"pipeline"`

	Outcome string `json:"outcome"`           // of the undisturbed execution: its status
	Failure string `json:"failure,omitempty"` // why it failed

	Runs   int `json:"runs"` // the undisturbed one included
	Points int `json:"points"`
	Left   int `json:"left"` // schedules for which no time was left
	// Crashes, Stops, Lost, Refused, Repeated and Clocks count the runs with one fault, by its kind; Orders those with none, Pairs
	// those with more, Seconds those with a crash and one more during the recovery.
	Crashes  int `json:"crashes"`
	Stops    int `json:"stops"`
	Lost     int `json:"lost"`
	Refused  int `json:"refused"`
	Repeated int `json:"repeated"`
	Clocks   int `json:"clocks"`
	Seconds  int `json:"second_crashes"`
	// Kills counts the runs with a process that was really killed.
	Kills  int `json:"kills"`
	Orders int `json:"orders"`
	Pairs  int `json:"pairs"`

	kill bool   // processes are really killed
	more string // flags that a replay needs, too

	Findings []*Finding `json:"findings" nullable:"false"`
	MayTwice []string   `json:"may_run_twice" nullable:"false"` // steps that did, and may
	// Deadlines are the steps, "" for the execution, whose time was over because a fault had set the clock, or that a failure stopped, in
	// only one of two runs: which of several failures comes first is not promised.
	Deadlines []string `json:"deadlines,omitempty" nullable:"false"`
	// Alike are steps that really ran, and that left the same files and outputs when they ran again.
	Alike []string `json:"alike,omitempty" nullable:"false"`
	Story []string `json:"story,omitempty" nullable:"false"`
}

// Worst is the worst kind of what was found; "": nothing that needs anything done.
func (r *Result) Worst() Kind {
	for _, kind := range []Kind{Broken, Different, Unlike, Twice} {
		if slices.ContainsFunc(r.Findings, func(f *Finding) bool { return f.Kind == kind }) {
			return kind
		}
	}
	return ""
}

func (r *Result) count(s schedule) {
	switch {
	case r.kill:
		r.Kills++
	case len(s.faults) == 0:
		r.Orders++
	case s.second:
		r.Seconds++
	case len(s.faults) > 1 || s.seed != 0:
		r.Pairs++
	default:
		*map[sim.Fate]*int{sim.Dies: &r.Crashes, sim.Emptied: &r.Crashes, sim.Stops: &r.Stops, sim.Lost: &r.Lost, sim.Refused: &r.Refused, sim.Away: &r.Refused,
			sim.Down: &r.Refused, sim.Twice: &r.Repeated, sim.Late: &r.Repeated, sim.Forward: &r.Clocks, sim.Back: &r.Clocks}[s.faults[0].fate]++
	}
}

// add takes in the verdict on one run.
func (r *Result) add(s schedule, v *verdict, calm *scenario.Played) {
	find := func(kind Kind, rule, step, message string) {
		for _, f := range r.Findings {
			if f.Kind == kind && f.Rule == rule && f.Step == step && (kind != Different || f.Message == message) {
				if f.Runs++; s.crash() && !f.schedule.crash() {
					f.schedule, f.Message = s, message // what people know best
				}
				return
			}
		}
		r.Findings = append(r.Findings, &Finding{Kind: kind, Rule: rule, Step: step, Message: message, Runs: 1, schedule: s})
	}
	for rule, message := range v.broken {
		find(Broken, rule, "", message)
	}
	if v.deadline != nil && !slices.Contains(r.Deadlines, *v.deadline) {
		r.Deadlines = append(r.Deadlines, *v.deadline)
	}
	if v.different != "" {
		find(Different, "", "", v.different)
	}
	if v.person != "" {
		find(Person, "", v.person, v.person+" must not run twice and was cut off")
	}
	for _, step := range v.twice {
		find(Twice, "", step, step+" ran twice")
	}
}

// conclude leaves out steps that may run twice, adds advice and names, and puts all in order.
func (r *Result) conclude(calm *scenario.Played) {
	kept := []*Finding{}
	r.MayTwice = []string{}
	for _, f := range r.Findings {
		f.Replay = f.schedule.String()
		if f.Step != "" {
			s := calm.StepOf(f.Step)
			f.Action = calm.ActionOf(f.Step)
			if s != nil && s.Pos.Line > 0 {
				f.Place = fmt.Sprintf("%s:%d:%d", r.Pipeline, s.Pos.Line, s.Pos.Column)
			}
			if f.Kind == Twice && (s != nil && s.Idempotent != nil && *s.Idempotent || harmless(f, calm)) {
				r.MayTwice = append(r.MayTwice, f.Step)
				continue
			}
		}
		f.advise(slices.Contains(r.Alike, f.Step))
		kept = append(kept, f)
	}
	order := []Kind{Broken, Different, Unlike, Twice, Person}
	slices.SortStableFunc(kept, func(a, b *Finding) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Message, b.Message))
	})
	slices.Sort(r.MayTwice)
	slices.Sort(r.Deadlines)
	r.Findings = kept
}

// harmless reports whether a step's action has no effect outside, continues there what it began, or only reads. A segment of a stream
// continues from its checkpoint.
func harmless(f *Finding, calm *scenario.Played) bool {
	switch {
	case calm.EffectOf(f.Action) != spec.AnyEffect || strings.HasPrefix(f.Action, "stream."):
		return true
	case f.Action != "util.http":
		return false
	}
	for i := range calm.Calls {
		c := &calm.Calls[i]
		if iteration.ReplaceAllString(c.Key, "[*]") != f.Step {
			continue
		}
		method, _ := c.Params["method"].(string)
		return slices.Contains([]string{"", http.MethodGet, http.MethodHead, http.MethodOptions}, strings.ToUpper(method))
	}
	return false
}

// advise says what can be done. alike: the step was run twice, and that was like once.
func (f *Finding) advise(alike bool) {
	switch f.Kind {
	case Broken:
		f.Advice = []string{"this is a fault of Stepwell: please report it with the pipeline, the test and the name of the schedule"}
	case Unlike:
		f.Advice = []string{"idempotent: false   if it must never run twice", "or let it write what it writes as a whole, or look first what is there (STEPWELL_IDEMPOTENCY_KEY names the call)"}
	case Different:
		f.Advice = []string{"find out what the step does with time, attempts or the order of others"}
	case Twice:
		f.Advice = []string{"idempotent: true    if twice is like once", "idempotent: false   if it must never run twice",
			"or hand the idempotency key on (STEPWELL_IDEMPOTENCY_KEY), and write idempotent: true"}
		if alike {
			f.Advice = []string{"run twice, it left the same files and outputs: idempotent: true, unless it does something elsewhere"}
		}
	case Person:
		f.Advice = []string{"after such a crash a person looks what it did, and restarts " + f.Step}
	}
}

// Report is what came of all tests.
type Report struct {
	Tests []*Result `json:"tests" nullable:"false"`
}

// Worst is the worst kind of what was found in any test.
func (r *Report) Worst() (worst Kind) {
	order := []Kind{Broken, Different, Unlike, Twice, ""}
	worst = ""
	for _, t := range r.Tests {
		if k := t.Worst(); slices.Index(order, k) < slices.Index(order, worst) {
			worst = k
		}
	}
	return worst
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	b := &strings.Builder{}
	for _, t := range r.Tests {
		t.write(b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Result) write(b *strings.Builder) {
	fmt.Fprintf(b, "%s, %q: %s\n", r.File, r.Name, r.numbers())
	if r.Failure != "" {
		fmt.Fprintf(b, "  undisturbed, it is %s: %s\n", r.Outcome, r.Failure)
	}
	if len(r.Findings) == 0 {
		fmt.Fprintln(b, "  ✔ every run ends as the undisturbed one, and nothing runs twice that may not")
	}
	for _, f := range r.Findings {
		mark := "✘"
		if f.Kind == Person || f.Kind == Twice {
			mark = "!"
		}
		fmt.Fprintf(b, "  %s %s\n", mark, f.say())
		for _, line := range f.Advice {
			fmt.Fprintf(b, "      %s\n", line)
		}
		if f.Replay != "" {
			fmt.Fprintf(b, "      see one: stepwell lab %s --run '^%s$' --replay '%s'%s\n", filepath.ToSlash(r.File), r.Name, f.Replay, r.more)
		}
	}
	if len(r.Alike) > 0 {
		fmt.Fprintf(b, "  ✔ twice is like once, in files and outputs: %s\n", strings.Join(r.Alike, ", "))
	}
	if len(r.MayTwice) > 0 {
		fmt.Fprintf(b, "  ✔ ran twice, and may: %s\n", strings.Join(r.MayTwice, ", "))
	}
	for _, key := range r.Deadlines {
		fmt.Fprintf(b, "  ✔ a deadline or a failure came first in one run and not in another: %s\n", cmp.Or(key, "of the execution"))
	}
	if r.Left > 0 {
		fmt.Fprintf(b, "  %d schedules were not tried: the time was over (--budget)\n", r.Left)
	}
	for _, line := range r.Story {
		fmt.Fprintf(b, "    %s\n", line)
	}
}

func (r *Result) numbers() string {
	var parts []string
	for _, c := range []struct {
		n    int
		what string
	}{{r.Kills, "killed processes"}, {r.Crashes, "crashes"}, {r.Seconds, "second crashes"}, {r.Stops, "stops"}, {r.Lost, "lost workers"}, {r.Refused, "refusals"}, {r.Repeated, "repetitions"},
		{r.Clocks, "clock changes"}, {r.Orders, "orders"}, {r.Pairs, "pairs"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	return fmt.Sprintf("%s: %d runs", strings.Join(parts, ", "), r.Runs)
}

func (f *Finding) say() string {
	runs := fmt.Sprintf("in %d runs", f.Runs)
	if f.Runs == 1 {
		runs = "in 1 run"
	}
	at := ""
	if f.Place != "" {
		at = "    " + f.Place
	}
	switch f.Kind {
	case Broken:
		return fmt.Sprintf("a rule is broken %s: %s: %s", runs, f.Rule, f.Message)
	case Different:
		return fmt.Sprintf("it ends in another way %s: %s", runs, f.Message)
	case Unlike:
		return fmt.Sprintf("%s (%s): twice is not like once: %s%s", f.Step, f.Action, f.Message, at)
	case Twice:
		return fmt.Sprintf("%s (%s) ran twice %s, and nothing says that it may%s", f.Step, f.Action, runs, at)
	}
	return fmt.Sprintf("%s is idempotent: false, and was cut off %s%s", f.Step, runs, at)
}
