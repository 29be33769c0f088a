package scenario

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/spec"
)

// Verdict is what would become of a step, compared with the execution that was recorded.
type Verdict string

// The verdicts. All but OtherCall, Unknown and Rests are certain: the step's outcome was recorded, or follows from what was.
const (
	SameStep  Verdict = "same"       // it does what it did
	Gone      Verdict = "gone"       // it does not run any more, or is not there
	Changed   Verdict = "changed"    // it ends otherwise, as the recorded outcomes make it
	OtherCall Verdict = "other call" // its action gets other params; the recorded outcome is assumed
	Unknown   Verdict = "now runs"   // it did not run, so nothing is known
	Rests     Verdict = "assumed"    // it is as it was if what it reads is as assumed
)

// ReplayedStep is a step of a Replayed.
type ReplayedStep struct {
	Key     string   `json:"step_id"`
	Verdict Verdict  `json:"verdict" enum:"same,gone,changed,other call,now runs,assumed"`
	Was     string   `json:"was,omitempty" doc:"Its status in the execution."`
	Is      string   `json:"is,omitempty" doc:"Its status now."`
	Details []string `json:"details,omitempty" nullable:"false" doc:"What is different."`
}

// Replayed is what would come of a recorded execution under another definition.
type Replayed struct {
	ID      string         `json:"execution_id"`
	Steps   []ReplayedStep `json:"steps" nullable:"false" doc:"All steps but those that have others inside, in the order in which they became known."`
	Was     Ending         `json:"was"`
	Is      Ending         `json:"is"`
	Outputs bool           `json:"outputs_equal"`
	// Assumed is how many steps rest on something that nobody knows. Else what Is says is what the execution would have come to.
	Assumed int `json:"assumed"`
	// Same says that nothing changes: all steps, the status and the outputs are the same.
	Same bool `json:"same"`

	seat   seat
	queued time.Duration // before it started then
}

// Ending is what came of an execution.
type Ending struct {
	Status   string        `json:"status"`
	Failure  string        `json:"failure,omitempty"`
	Duration time.Duration `json:"duration_ns" doc:"From its start to its end: as it was recorded, or as it would be."`
	Waited   time.Duration `json:"waited_ns" doc:"How long steps waited for a worker, together."`
	Cost     int64         `json:"cost" doc:"In the unit of an execution's cost, of the steps that are known."`
}

// ReplayOptions say how a recording is played again.
type ReplayOptions struct {
	Was, Is *definition.Definition // checked and expanded: the execution's own, and the other one
	Fails   bool                   // steps of which nothing is known fail; else they complete without outputs
	// Workers is how many steps ran at once where the execution was recorded; that many more as have been seen. Defaults to 8.
	Workers int
	// NowWorkers is how many run at once now. Defaults to what ran then.
	NowWorkers int
}

// Replay plays a recorded execution with its own definition and with another one. Outcomes go by step key and attempt, and never by
// index, so that a step keeps its outcome wherever it stands. Steps whose actions do nothing outside of the execution run for real.
//
// A recording that does not come to what it was under its own definition is an error: nothing can be said of another one then. So it
// is where it was restarted, paused, or has streams.
func (o *Runner) Replay(ctx context.Context, r *Recording, how ReplayOptions) (*Replayed, error) {
	if err := r.plays(); err != nil {
		return nil, err
	}
	secrets := map[string]string{}
	for _, d := range []*definition.Definition{how.Was, how.Is} {
		if err := o.namesOfSecrets(d, secrets); err != nil {
			return nil, err
		}
	}
	workers := max(cmp.Or(how.Workers, usualWorkers), r.atOnce())
	was, then, err := o.replay(ctx, r, how.Was, secrets, workers, true, nil)
	if err != nil {
		return nil, fmt.Errorf("the execution as it was: %w", err)
	}
	if err := was.equals(r); err != nil {
		return nil, err
	}
	is, now, err := o.replay(ctx, r, how.Is, secrets, cmp.Or(how.NowWorkers, workers), how.Fails, then)
	if err != nil {
		return nil, err
	}
	c := &pair{r: r, was: was, is: is, unknown: now.unmocked, verdicts: map[string][]string{}, out: &Replayed{ID: r.ID}}
	c.out.seat = seat{key: is.Execution.Concurrency, priority: r.Priority, created: r.Created}
	if r.Started.After(r.Created) {
		c.out.queued = r.Started.Sub(r.Created)
	}
	return c.compare(), nil
}

// secretName is how templates name secrets.
var secretName = regexp.MustCompile(`\bsecrets\s*(?:\.\s*([A-Za-z_]\w*)|\[\s*\\?["']([^"'\\]+)\\?["']\s*\])`)

// namesOfSecrets adds the names of the secrets that a definition may read, each with a value of its own that stands for the one
// that nobody may know.
func (o *Runner) namesOfSecrets(d *definition.Definition, to map[string]string) error {
	names, known := o.secrets[d]
	if !known {
		raw, err := definition.Encode(d)
		if err != nil {
			return err
		}
		for _, m := range secretName.FindAllSubmatch(raw, -1) {
			names = append(names, string(m[1])+string(m[2]))
		}
		if len(o.secrets) >= maxKnown {
			clear(o.secrets)
		}
		o.secrets[d] = names
	}
	for _, name := range names {
		to[name] = hidden + "secrets." + name
	}
	return nil
}

// maxKnown bounds the definitions of which a runner remembers something.
const maxKnown = 64

// usualWorkers is how many steps run at once where nobody says it.
const usualWorkers = 8

// hidden stands for a value that was redacted; what follows it says which one.
const hidden = "***"

// which is what follows hidden.
var which = regexp.MustCompile(`\*\*\*(?:secrets|params)\.\w+`)

// replay plays a recording with a definition.
func (o *Runner) replay(ctx context.Context, r *Recording, d *definition.Definition, secrets map[string]string, workers int, fails bool, own *tape) (*Played, *tape, error) {
	t, err := r.test(d, o.o.Actions, secrets, fails, own)
	if err != nil {
		return nil, nil, err
	}
	p, err := o.Play(ctx, t, How{Seed: o.o.Seed, Workers: workers})
	return p, t.tape, err
}

// equals reports where the played execution has not come to what was recorded.
func (p *Played) equals(r *Recording) error {
	differs := func(what, is, was string) error {
		return stepwell.Errorf(stepwell.CodeConflict, "executions that were restarted, paused, or retried with results of others cannot be played again",
			"the recording of %s does not play as it was: %s is %s, not %s", r.ID, what, is, was)
	}
	if is := p.Execution.Status.String(); is != r.Status {
		return differs("the execution", is, r.Status)
	}
	for i := range r.Steps {
		s, is := &r.Steps[i], "missing"
		if played := p.Steps[s.Key]; played != nil {
			is = played.Status.String()
		}
		if is != s.Status {
			return differs("step "+s.Key, is, s.Status)
		}
		if attempts := p.Steps[s.Key].Attempt; attempts != s.Attempts {
			return differs("step "+s.Key, fmt.Sprint("at attempt ", attempts), fmt.Sprint("at attempt ", s.Attempts))
		}
	}
	return nil
}

// pair is an execution played under two definitions.
type pair struct {
	r        *Recording
	was, is  *Played
	unknown  map[string]bool
	verdicts map[string][]string // by step at the top level: its iterations in which a step's outcome is not known
	out      *Replayed
}

func (c *pair) compare() *Replayed {
	inside := map[string]bool{} // what has something inside, by the keys: of a loop that was skipped the step itself is all there is
	for _, p := range []*Played{c.was, c.is} {
		for _, key := range p.Keys {
			for i := range key {
				if key[i] == '[' || key[i] == '.' {
					inside[key[:i]] = true
				}
			}
		}
	}
	was, is := callsByKey(c.was), callsByKey(c.is)
	for _, key := range c.is.Keys {
		if inside[key] && c.is.around(key) {
			continue
		}
		c.step(key, was[key], is[key])
	}
	for _, key := range c.was.Keys {
		if !(inside[key] && c.was.around(key)) && c.is.Steps[key] == nil {
			c.add(ReplayedStep{Key: key, Verdict: Gone, Was: c.was.Steps[key].Status.String()})
		}
	}
	c.rest()
	c.end()
	return c.out
}

// around reports whether a step has others inside, by its definition: ids may have dots.
func (p *Played) around(key string) bool {
	s := p.StepOf(key)
	switch {
	case s == nil:
		return false
	case strings.HasSuffix(key, "]"):
		return len(s.Steps) > 0 || s.Pipeline != "" // an iteration
	}
	return len(s.Steps) > 0 || s.Pipeline != "" || s.ForEach != nil
}

func callsByKey(p *Played) map[string][]*Call {
	out := map[string][]*Call{}
	for i := range p.Calls {
		out[p.Calls[i].Key] = append(out[p.Calls[i].Key], &p.Calls[i])
	}
	return out
}

// step compares a step that is known now.
func (c *pair) step(key string, was, is []*Call) {
	now, before := c.is.Steps[key], c.was.Steps[key]
	s := ReplayedStep{Key: key, Verdict: SameStep, Is: now.Status.String()}
	if before != nil {
		s.Was = before.Status.String()
	}
	switch {
	case c.unknown[key]:
		if s.Verdict = Unknown; len(was) > 0 {
			s.Details = []string{fmt.Sprintf("attempt %d was never made", len(was)+1)}
		}
	case s.Was == "cancelled" && s.Is != "cancelled" && len(was) > 0 && len(is) > 0:
		s.Verdict, s.Details = Unknown, []string{"it was cut off then"}
	case len(is) == 0 && len(was) > 0:
		s.Verdict, s.Details = Gone, reasons(now)
	case len(is) > 0 && len(was) > 0 && c.called(&s, was[0], is[0]):
	case s.Was != s.Is:
		s.Verdict, s.Details = Changed, reasons(now)
	case before != nil && (now.Attempt != before.Attempt || !reflect.DeepEqual(now.Outputs, before.Outputs)):
		s.Verdict = Changed
		if now.Attempt != before.Attempt {
			s.Details = append(s.Details, fmt.Sprintf("%d attempts, not %d", now.Attempt, before.Attempt))
		}
	}
	c.add(s)
}

// called reports whether a step's action is called in another way whose outcome cannot be known.
func (c *pair) called(s *ReplayedStep, was, is *Call) bool {
	pure := c.is.effect(is.Action) == spec.NoEffect && is.Action != "util.approval" && is.Action != "util.wait_for" // these are answered from outside
	if was.Action != is.Action {
		s.Details = append(s.Details, "action: "+was.Action+" → "+is.Action)
	}
	s.Details = append(s.Details, differences("", any(was.Params), any(is.Params), nil)...)
	late := s.Was == "timed_out" && s.Is == "timed_out" && c.timeout(s.Key)
	switch {
	case late:
		s.Verdict, s.Details = OtherCall, append(s.Details, "its timeout is another one")
	case len(s.Details) == 0:
		return false
	case pure:
		s.Verdict = Changed // it has run, with what it reads
	default:
		s.Verdict = OtherCall
	}
	return true
}

// timeout reports whether a step at the top level may now take another time.
func (c *pair) timeout(key string) bool {
	was, is := c.was.StepOf(key), c.is.StepOf(key)
	return was == nil || is == nil || was.TimeoutSeconds != is.TimeoutSeconds
}

func reasons(s *PlayedStep) []string {
	if s.Error == nil {
		return nil
	}
	return []string{s.Error.Message}
}

func (c *pair) add(s ReplayedStep) {
	c.out.Steps = append(c.out.Steps, s)
	if s.Verdict == OtherCall || s.Verdict == Unknown {
		c.verdicts[c.top(s.Key)] = append(c.verdicts[c.top(s.Key)], c.iterationOf(s.Key))
	}
}

// top is the id of the step at the top level that a step is, or is inside of; of handlers their name. Ids may have dots.
func (c *pair) top(key string) string {
	first := key
	for i := len(key); i > 0; i-- {
		if i < len(key) && !strings.ContainsRune("[.:", rune(key[i])) {
			continue
		}
		if _, known := c.is.pipe.Plan().Graph.Index(key[:i]); known {
			return key[:i]
		}
		first = key[:i]
	}
	return first
}

// rest marks the steps whose verdict rests on one that is not certain: they read it, or what rests on it, or run because of how it ended.
func (c *pair) rest() {
	if len(c.verdicts) == 0 {
		return
	}
	p := c.is.pipe.Plan()
	through := make([]bool, len(p.Graph.Steps)) // rests on steps beside it
	uncertain := make([]bool, len(p.Graph.Steps))
	for again := true; again; { // a step may stand before what it depends on
		again = false
		for i := range p.Graph.Steps {
			s := &p.Graph.Steps[i]
			if through[i] {
				continue
			}
			through[i] = slices.ContainsFunc(s.Deps, func(d int32) bool { return uncertain[d] }) || restsOn(s, 0, uncertain)
			if before := uncertain[i]; !before {
				uncertain[i] = through[i] || len(c.verdicts[s.ID]) > 0
				again = again || uncertain[i]
			}
		}
	}
	for i := range c.out.Steps {
		s := &c.out.Steps[i]
		if s.Verdict != SameStep && s.Verdict != Changed && s.Verdict != Gone {
			continue
		}
		name := c.top(s.Key)
		at, known := p.Graph.Index(name)
		switch {
		case known && (through[at] || slices.Contains(c.verdicts[name], c.iterationOf(s.Key))):
			s.Verdict = Rests
		case !known && (name == "finally" || name == "on_failure" || strings.Contains(s.Key, ":")):
			s.Verdict = Rests // it sees all steps
		}
	}
}

// iterationOf is the outermost iteration that a step is in; else the step at the top level.
func (c *pair) iterationOf(key string) string {
	if i := strings.IndexByte(key, ']'); i >= 0 {
		return key[:i+1]
	}
	return c.top(key)
}

// restsOn reports whether a step, or one inside it, reads an uncertain one of the top level, which is depth scopes further out.
func restsOn(s *plan.Step, depth int32, uncertain []bool) bool {
	for _, r := range s.Reads {
		switch {
		case r.Up == plan.ReadAll:
			return slices.Contains(uncertain, true)
		case r.Up == depth && r.Step >= 0 && int(r.Step) < len(uncertain) && uncertain[r.Step]:
			return true
		case r.Step < 0:
			return slices.Contains(uncertain, true) // a family of spawned steps
		}
	}
	if s.Body == nil {
		return false
	}
	for _, g := range []*plan.Graph{s.Body.Graph, s.Body.OnFailure, s.Body.Finally} {
		if g != nil && slices.ContainsFunc(g.Steps, func(inner plan.Step) bool { return restsOn(&inner, depth+1, uncertain) }) {
			return true
		}
	}
	return false
}

// end compares what came of the executions.
func (c *pair) end() {
	c.out.Was, c.out.Is = c.ending(c.was), c.ending(c.is)
	if recorded := c.r.Ended.Sub(c.r.Started); !c.r.Started.IsZero() && recorded > 0 {
		c.out.Is.Duration = predicted(recorded, c.out.Was.Duration, c.out.Is.Duration)
		c.out.Was.Duration, c.out.Was.Waited = recorded, c.r.waited()
	}
	c.out.seat.lasts = c.out.Is.Duration
	c.out.Outputs = reflect.DeepEqual(c.was.Outputs, c.is.Outputs)
	same := c.out.Outputs && c.was.Execution.Status == c.is.Execution.Status
	for i := range c.out.Steps {
		switch c.out.Steps[i].Verdict {
		case OtherCall, Unknown, Rests:
			c.out.Assumed++
		}
		same = same && c.out.Steps[i].Verdict == SameStep
	}
	c.out.Same = same
}

func (c *pair) ending(p *Played) Ending {
	e := Ending{Status: p.Execution.Status.String(), Waited: p.waited()}
	if f := p.Execution.Failure; f != nil {
		e.Failure = f.Message
	}
	if !p.Execution.Ended.IsZero() {
		e.Duration = p.Execution.Ended.Sub(p.Execution.Started)
	}
	for i := range c.r.Steps {
		if s := p.Steps[c.r.Steps[i].Key]; s != nil && s.Attempt > 0 {
			e.Cost += c.r.Steps[i].Cost
		}
	}
	return e
}

// maxDifferences bounds how many differences of one step are told.
const maxDifferences = 5

// differences lists where two values differ, with both.
func differences(path string, was, is any, found []string) []string {
	if len(found) >= maxDifferences || reflect.DeepEqual(was, is) {
		return found
	}
	a, ok := was.(map[string]any)
	b, both := is.(map[string]any)
	if ok && both {
		names := slices.Collect(maps.Keys(a))
		for name := range b {
			if _, known := a[name]; !known {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			found = differences(spec.MemberPath(path, name), a[name], b[name], found)
		}
		return found
	}
	x, ok := was.([]any)
	y, both := is.([]any)
	if ok && both && len(x) == len(y) {
		for i := range x {
			found = differences(spec.ElementPath(path, i), x[i], y[i], found)
		}
		return found
	}
	return append(found, path+": "+brief(was)+" → "+brief(is))
}

// brief is a value as JSON, cut.
func brief(v any) string {
	raw, err := expr.Marshal(v)
	if err != nil {
		raw, err = json.Marshal(fmt.Sprint(v))
	}
	if err != nil {
		return "?"
	}
	const most = 60
	raw = which.ReplaceAll(raw, []byte(hidden))
	if text := []rune(string(raw)); len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(raw)
}
