package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/spec"
)

// epoch is when all executions of these tests begin.
var beginning = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// catalog has any action; all but the special ones take any parameters.
type catalog struct{}

func (catalog) Spec(name string) (*spec.Spec, bool) {
	s := &spec.Spec{Name: name, OpenParams: true}
	switch name {
	case "scan":
		s.Spawns = []string{"copy", "extract"}
	case "copy":
		s.Spawns = []string{"extract"}
	case "deploy.once":
		s.NotIdempotent = true
	case "flaky":
		s.Retry = &stepwell.Retry{MaxAttempts: 2, Backoff: time.Second}
	case "discovery":
		s.Stream = &spec.Stream{Role: spec.Source, FansOut: &spec.FansOut{Output: "collections", As: "collection"}}
	case "source":
		s.Stream = &spec.Stream{Role: spec.Source, TakesItems: true}
	case "modifier":
		s.Stream = &spec.Stream{Role: spec.Modifier}
	case "sink":
		s.Stream = &spec.Stream{Role: spec.Sink}
	}
	return s, true
}

// compile makes a plan of a document; others that it runs follow after lines of ---.
func compile(t testing.TB, doc string) *plan.Plan {
	t.Helper()
	var first *definition.Definition
	others := map[string]*definition.Definition{}
	for _, text := range strings.Split(doc, "\n---\n") {
		d, problems := definition.Parse([]byte(text), definition.ParseOptions{})
		if err := problems.Err(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if first == nil {
			first = d
		} else {
			others[d.Name] = d
		}
	}
	first.Pipelines = others
	p, err := plan.Compile(first, catalog{})
	if err != nil {
		t.Fatalf("%v\n%s", err, doc)
	}
	return p
}

// harness owns a run like a conductor does: it keeps the log and the timers, and after every batch makes
// sure that the log gives the same state again.
type harness struct {
	t      testing.TB
	plan   *plan.Plan
	run    *Run
	fx     Effects
	now    int64
	log    [][]byte
	timers []Timer
	rows   map[int32]StepRow
	keys   map[int32]string // of all steps ever seen
	no     int64
	blobs  map[string][]byte
	doc    string         // of a transcript
	record func(*harness) // a run is over; nil: nobody keeps it
}

func newHarness(t testing.TB, p *plan.Plan) *harness {
	return &harness{t: t, plan: p, run: New(p, 1, "run-1"), now: beginning, rows: map[int32]StepRow{}, keys: map[int32]string{}, no: 1, blobs: map[string][]byte{}}
}

// batch applies events as one batch. It returns the effects of each event.
func (h *harness) batch(events ...Event) []string {
	h.t.Helper()
	h.fx.Reset()
	b := Batch{At: h.now}
	said := make([]string, len(events))
	for i := range events {
		events[i].At = h.now
		changed, err := h.run.Apply(&events[i], &h.fx)
		switch {
		case err != nil:
			said[i] = "refused: " + err.Error()
			if hint := stepwell.HintOf(err); hint != "" {
				said[i] += " (" + hint + ")"
			}
			if changed {
				h.t.Fatalf("event %d is refused and changes something", events[i].Kind)
			}
		case !changed:
			said[i] = "nothing changes"
		default:
			b.Events = append(b.Events, events[i])
		}
	}
	h.run.Settle(h.now, &h.fx)
	for _, task := range h.fx.Tasks {
		b.Queued = append(b.Queued, task.Idx)
		h.keys[task.Idx] = task.Key
	}
	if len(b.Events) > 0 {
		raw, err := AppendBatch(nil, &b)
		if err != nil {
			h.t.Fatal(err)
		}
		h.log = append(h.log, raw)
	} else if len(h.fx.Rows)+len(h.fx.Tasks) > 0 || h.fx.Changed {
		h.t.Fatal("effects without an event")
	}
	h.timers = append(h.timers, h.fx.Timers...)
	for _, row := range h.fx.Rows {
		if _, there := h.rows[row.Idx]; row.Again != there {
			h.t.Fatalf("the row of step %d says %v of one that was there: %v", row.Idx, row.Again, there)
		}
		if h.rows[row.Idx] = row; row.Key != "" {
			h.keys[row.Idx] = row.Key
		} else {
			h.keys[row.Idx] = h.plan.Graph.Steps[row.Idx].ID
		}
	}
	return said
}

// replayed builds the run again from its log.
func (h *harness) replayed() *Run { return h.rebuilt(false) }

func (h *harness) rebuilt(retain bool) *Run {
	h.t.Helper()
	r := New(h.plan, h.run.No, h.run.ID)
	if retain {
		r.Retain()
	}
	var fx Effects
	for i, raw := range h.log {
		b, err := DecodeBatch(int64(i+1), raw)
		if err != nil {
			h.t.Fatal(err)
		}
		for i := range b.Events {
			h.load(&b.Events[i])
		}
		fx.Reset()
		if err := r.Replay(b, &fx); err != nil {
			h.t.Fatal(err)
		}
	}
	return r
}

// load puts the content of blobs where a record has a reference.
func (h *harness) load(ev *Event) {
	if IsRef(ev.Output) {
		ev.Loaded = h.blobs[string(ev.Output)]
	}
	for i := range ev.Parts {
		if part := &ev.Parts[i]; IsRef(part.Output) {
			part.Loaded = h.blobs[string(part.Output)]
		}
	}
	if ev.Wait != nil && IsRef(ev.Wait.Output) {
		ev.Loaded = h.blobs[string(ev.Wait.Output)]
	}
	if ev.Begin != nil {
		h.loadSeeds(ev.Begin.Seeds)
	}
	h.loadSeeds(ev.Seeds)
}

func (h *harness) loadSeeds(seeds []Seed) {
	for i := range seeds {
		if s := &seeds[i]; IsRef([]byte(s.Output)) && s.Read {
			s.Loaded = h.blobs[s.Output]
		}
	}
}

// outputs fills in the outputs of seeds.
func (h *harness) outputs(seeds []Seed) {
	byKey := map[string]StepRow{}
	for idx, row := range h.rows {
		if key := h.keys[idx]; row.Status == stepwell.StepCompleted && (byKey[key].Status == 0 || byKey[key].Idx < idx) {
			byKey[key] = row
		}
	}
	for i := range seeds {
		if s := &seeds[i]; s.Output == "" {
			s.Output = string(byKey[s.Key].Output)
		}
	}
	h.loadSeeds(seeds)
}

// failedOnly is a failed-only restart, as the conductor prepares it.
func (h *harness) failedOnly(step string) Event {
	ev := Event{Kind: Restart, Step: step, FailedOnly: true, Fine: true}
	if seeds, epoch, err := h.rebuilt(true).RestartSeeds(step); err == nil {
		h.outputs(seeds)
		ev.Seeds, ev.Epoch = seeds, epoch
	}
	return ev
}

func foretell(out *strings.Builder, fc *Forecast, err error) {
	if err != nil {
		fmt.Fprintln(out, err)
		return
	}
	fmt.Fprintf(out, "repeated: %s\n", strings.Join(fc.Repeated, " "))
	for _, a := range fc.Again {
		fmt.Fprintf(out, "again: %s because of %s\n", a.Step, a.Because)
	}
	fmt.Fprintf(out, "kept: %s\n", strings.Join(fc.Kept, " "))
}

func (h *harness) sameAfterReplay() {
	h.t.Helper()
	if live, again := dump(h.run), dump(h.replayed()); live != again {
		h.t.Fatalf("the log gives another state:\n%s", firstDifference(live, again))
	}
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("live:     %s\nreplayed: %s", x[i], y[i])
		}
	}
	return fmt.Sprintf("%d and %d lines", len(x), len(y))
}

// at finds a step that exists by key.
func (h *harness) at(key string) (place, bool) {
	var found place
	if h.run.main != nil {
		h.run.visit(func(p place) {
			if p.key() == key {
				found = p
			}
		})
	}
	return found, found.s != nil
}

// script runs the commands of one stanza as one batch and prints the effects.
func (h *harness) script(lines []string) string {
	var out strings.Builder
	var events []Event
	var texts []string
	for _, line := range lines {
		words := strings.Fields(line)
		switch words[0] {
		case "advance":
			h.advance(&out, words[1])
		case "sleep": // no timer comes
			d, _ := time.ParseDuration(words[1])
			h.now += d.Microseconds()
		case "progress":
			p := h.run.Progress()
			fmt.Fprintf(&out, "%d steps: %d completed, %d failed, %d skipped, %d cancelled, %d in flight, %.0f %%", p.Total, p.Completed, p.Failed, p.Skipped, p.Cancelled, p.Running, p.Percent)
			if p.Cost > 0 || p.Breached != "" {
				fmt.Fprintf(&out, ", cost %d, breached %q", p.Cost, p.Breached)
			}
			out.WriteByte('\n')
		case "preview":
			fc, err := h.rebuilt(true).PreviewRestart(words[1], len(words) > 2)
			foretell(&out, fc, err)
		case "preview-retry":
			fc, err := h.rebuilt(true).PreviewRetry(strings.Join(words[1:], ""))
			foretell(&out, fc, err)
		case "why":
			h.why(&out, strings.Join(words[1:], " "))
		case "awaiting":
			for _, a := range h.run.Awaiting() {
				fmt.Fprintf(&out, "%s awaits %s until %s\n", a.Key, a.External, clock(a.Until))
			}
		case "crash":
			h.run = h.replayed()
			h.timers = h.run.Pending()
			events, texts = append(events, Event{Kind: Recovered}), append(texts, line)
		case "retry":
			events, texts = append(events, h.again(words[1:])), append(texts, line)
		case "attempt":
			p, _ := h.at(words[1])
			fmt.Fprintf(&out, "%s: attempt %d, epoch %d\n", words[1], p.node().attempt, p.node().epoch)
		default:
			events, texts = append(events, h.event(words, line)), append(texts, line)
		}
	}
	if len(events) > 0 {
		for i, said := range h.batch(events...) {
			if said != "" {
				fmt.Fprintf(&out, "%s: %s\n", texts[i], said)
			}
		}
		h.tell(&out)
	}
	return out.String()
}

func (h *harness) why(out *strings.Builder, key string) {
	reasons, err := h.run.Why(key)
	if err != nil {
		fmt.Fprintln(out, err)
	}
	for _, reason := range reasons {
		fmt.Fprintf(out, "%s: %s", reason.Code, reason.Message)
		if len(reason.Steps) > 0 {
			fmt.Fprintf(out, " [%s]", strings.Join(reason.Steps, " "))
		}
		out.WriteByte('\n')
	}
}

// advance moves the clock and fires due timers, each as its own batch.
func (h *harness) advance(out *strings.Builder, by string) {
	d, err := time.ParseDuration(by)
	if err != nil {
		h.t.Fatal(err)
	}
	until := h.now + d.Microseconds()
	for {
		slices.SortStableFunc(h.timers, func(a, b Timer) int { return int(min(max(a.At-b.At, -1), 1)) })
		if len(h.timers) == 0 || h.timers[0].At > until {
			break
		}
		next := h.timers[0]
		h.timers = h.timers[1:]
		h.now = max(h.now, next.At)
		h.batch(Event{Kind: TimerDue, Idx: next.Idx, Epoch: next.Epoch})
		h.tell(out)
	}
	h.now = until
}

// aboutLesson is what "start about" is about.
const aboutLesson = `{"project":{"name":"Biology"},"lesson":{"name":"Cells","media":{"path":"media:1/cells.mp4","bytes":12}}}`

// again is the start of a new execution with the present one's seeds.
func (h *harness) again(args []string) Event {
	from, held := "", false
	for _, arg := range args {
		if held = arg == "held"; !held {
			from = arg
		}
	}
	seeds, err := h.rebuilt(true).Seeds(from)
	if err != nil {
		h.t.Fatal(err)
	}
	params, _ := expr.Marshal(h.run.params)
	h.outputs(seeds)
	if h.record != nil {
		h.record(h)
	}
	h.no++
	h.run, h.log, h.timers = New(h.plan, h.no, fmt.Sprintf("run-%d", h.no)), nil, nil
	h.rows, h.keys = map[int32]StepRow{}, map[int32]string{}
	about, _ := expr.Marshal(map[string]any(h.run.About()))
	return Event{Kind: Start, Begin: &Begin{Params: params, About: about, Seeds: seeds, Held: held, Revision: Revision}}
}

// event reads a command; args such as epoch=2 follow, and a JSON object or a quoted text.
func (h *harness) event(words []string, line string) Event {
	ev := Event{Started: h.now, Worker: "w1"}
	var text string
	if i := strings.IndexAny(line, "{\"@"); i > 0 && words[0] != "start" && words[0] != "spawn" {
		text = line[i:]
	}
	if strings.HasPrefix(text, `"`) {
		text = text[1 : 1+strings.IndexByte(text[1:], '"')]
	}
	kinds := map[string]Kind{"start": Start, "done": Done, "fail": Failed, "skip": Skipped, "wait": Waiting, "running": Running, "spawn": Spawned,
		"segment": DoneAll, "recovered": Recovered, "lost": Lost, "cancel": Cancel, "pause": Pause, "resume": Resume, "restart": Restart, "admit": Admit, "settle": Settled, "advanced": Advanced}
	var ok bool
	if ev.Kind, ok = kinds[words[0]]; !ok {
		h.t.Fatalf("unknown command %q", line)
	}
	args := map[string]string{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		args[k] = v
	}
	switch ev.Kind {
	case Start:
		ev.Begin = &Begin{Revision: Revision}
		if i := strings.IndexByte(line, '{'); i > 0 {
			ev.Begin.Params = json.RawMessage(line[i:])
		}
		_, ev.Begin.Held = args["held"]
		if _, ok := args["about"]; ok {
			ev.Begin.About = json.RawMessage(aboutLesson)
		}
		ev.Begin.Priority, _ = strconv.Atoi(args["priority"])
		if r := args["revision"]; r != "" {
			ev.Begin.Revision, _ = strconv.Atoi(r)
		}
		if w := args["window"]; w != "" {
			ev.Begin.Window, _ = strconv.Atoi(w)
		}
	case Cancel:
		ev.Reason = text
	case Restart:
		ev.Step = words[1]
		_, ev.FailedOnly = args["iterations"] // as earlier versions did
		if _, failed := args["failed"]; failed {
			return h.failedOnly(words[1])
		}
	case Pause, Resume, Recovered, Admit:
	default:
		h.reportArgs(&ev, words, args, text)
	}
	return ev
}

func (h *harness) reportArgs(ev *Event, words []string, args map[string]string, text string) {
	if p, ok := h.at(words[1]); ok {
		ev.Idx, ev.Epoch = p.idx(), p.node().epoch
	} else { // a scope that is gone: by the last known number
		ev.Idx = -2
		for idx, key := range h.keys {
			if key == words[1] {
				ev.Idx = max(ev.Idx, idx)
			}
		}
	}
	if e := args["epoch"]; e != "" {
		n, _ := strconv.Atoi(e)
		ev.Epoch = uint32(n)
	}
	ev.Cost, _ = strconv.ParseInt(args["cost"], 10, 64)
	if w := args["by"]; w != "" {
		ev.Worker = w
	}
	duration := func(name string) time.Duration { d, _ := time.ParseDuration(args[name]); return d }
	switch ev.Kind {
	case Done:
		ev.Output = []byte(text)
		h.load(ev)
	case DoneAll:
		h.parts(ev, text)
		_, ev.Partial = args["partial"]
	case Failed:
		ev.Failure = &Failure{Code: stepwell.CodeFailed, Message: text}
		if _, yes := args["timeout"]; yes {
			ev.Failure.Code = stepwell.CodeTimeout
		}
		_, ev.Permanent = args["permanent"]
		if m := args["member"]; m != "" {
			p, _ := h.at(m)
			ev.Member = p.idx() + 1
		}
		if list := args["parts"]; list != "" {
			h.fates(ev, list)
		}
		_, ev.Defer = args["defer"]
		ev.After = duration("after")
	case Skipped:
		ev.Reason = text
	case Waiting:
		ev.Wait = &Wait{Until: h.now + duration("for").Microseconds(), State: []byte(args["state"])}
		if _, ev.Wait.Resume = args["poll"]; !ev.Wait.Resume {
			ev.Wait.Output = []byte(text)
		}
		_, ev.Wait.Elsewhere = args["elsewhere"]
		if ev.Wait.External, ev.Wait.Await = args["await"]; args["for"] == "" {
			ev.Wait.Until = 0
		}
		h.load(ev)
	case Settled:
		h.answer(ev, args, text)
	case Spawned:
		ev.Spawns = spawnsOf(words[2:])
	}
}

// answer is an outside result for a step: a result, failed or skipped with a text.
func (h *harness) answer(ev *Event, args map[string]string, text string) {
	ev.Started = 0
	_, failed := args["failed"]
	_, skipped := args["skipped"]
	switch {
	case failed:
		ev.Failure = &Failure{Code: stepwell.CodeFailed, Message: text}
		_, ev.Permanent = args["permanent"]
	case skipped:
		ev.Reason = text
	default:
		ev.Output = []byte(text)
		h.load(ev)
	}
}

// parts are the results of a segment's steps, by id.
func (h *harness) parts(ev *Event, text string) {
	var outputs map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &outputs); err != nil {
		h.t.Fatal(err)
	}
	lead, ok := h.run.find(ev.Idx)
	if !ok {
		return
	}
	for _, m := range lead.step().Members() {
		p := place{lead.s, m.Step}
		if p.i == lead.i {
			ev.Output = outputs[m.ID]
			continue
		}
		ev.Parts = append(ev.Parts, Part{Idx: p.idx(), Output: outputs[m.ID]})
	}
}

// fates reads the outcomes of a segment that failed in parts: "a:failed,b:a" says that a failed and that b was
// stopped by it; the others completed.
func (h *harness) fates(ev *Event, list string) {
	lead, ok := h.run.find(ev.Idx)
	if !ok {
		return
	}
	index, fate := map[string]int32{}, map[string]string{}
	for one := range strings.SplitSeq(list, ",") {
		id, what, _ := strings.Cut(one, ":")
		fate[id] = what
	}
	for _, m := range lead.step().Members() {
		index[m.ID] = lead.s.idx(m.Step)
	}
	for _, m := range lead.step().Members() {
		part := Part{Idx: index[m.ID]}
		switch what := fate[m.ID]; what {
		case "":
			part.Output = []byte(`{"items_in":1}`)
		case "failed":
			part.Failure = &Failure{Code: stepwell.CodeFailed, Message: m.ID + " broke"}
		default:
			part.StoppedBy = index[what] + 1
		}
		ev.Parts = append(ev.Parts, part)
	}
}

// spawnsOf reads "name:key[dep,dep]{json} …"; a trailing + makes it continue after a failure.
func spawnsOf(words []string) []Spawn {
	var out []Spawn
	for _, w := range words {
		var x Spawn
		w, x.Continue = strings.CutSuffix(w, "+")
		if i := strings.IndexByte(w, '{'); i > 0 {
			w, x.Params = w[:i], json.RawMessage(w[i:])
		}
		if key, deps, ok := strings.Cut(w, "["); ok {
			w, x.DependsOn = key, strings.Split(strings.TrimSuffix(deps, "]"), ",")
		}
		x.Key = w
		x.Name, _, _ = strings.Cut(w, ":")
		x.Action = x.Name
		if x.Name == "copy" {
			x.Spawns = []string{"extract"}
		}
		out = append(out, x)
	}
	return out
}

// tell writes the effects of the last batch.
func (h *harness) tell(out *strings.Builder) {
	for i := range h.fx.Rows {
		row := &h.fx.Rows[i]
		fmt.Fprintf(out, "%s: %s", h.keys[row.Idx], row.Status)
		if row.Attempt > 1 {
			fmt.Fprintf(out, ", attempt %d", row.Attempt)
		}
		if len(row.Output) > 0 {
			fmt.Fprintf(out, " %s", row.Output)
		}
		if row.Error != nil {
			fmt.Fprintf(out, " (%s)", row.Error.Message)
		}
		if row.Cost > 0 {
			fmt.Fprintf(out, ", cost %d", row.Cost)
		}
		if row.Worker != "" && row.Worker != "w1" && row.Status.Terminal() && row.Error == nil {
			fmt.Fprintf(out, ", by %s", row.Worker)
		}
		out.WriteByte('\n')
	}
	for _, task := range h.fx.Tasks {
		fmt.Fprintf(out, "  dispatch %s%s\n", task.Key, taskDetails(task))
	}
	for _, a := range h.fx.Awaits {
		fmt.Fprintf(out, "  %s awaits %s\n", a.Key, a.External)
	}
	for _, t := range h.fx.Cancels {
		fmt.Fprintf(out, "  cancel the work of %s, state=%s\n", t.Key, t.State)
	}
	for _, r := range h.fx.Revokes {
		fmt.Fprintf(out, "  revoke %s\n", h.keys[r.Idx])
	}
	for _, timer := range h.fx.Timers {
		name := "the execution"
		switch {
		case timer.Idx >= 0:
			name = h.keys[timer.Idx]
		case timer.Idx < timeoutTimer:
			name = "what was promised"
		}
		fmt.Fprintf(out, "  timer of %s in %v\n", name, time.Duration(timer.At-h.now)*time.Microsecond)
	}
	if h.fx.Changed {
		fmt.Fprintf(out, "execution %s", h.run.Status())
		if b := h.run.Progress().Breached; b != "" {
			fmt.Fprintf(out, ", longer than %s", b)
		}
		if f := h.run.Failure(); f != nil {
			fmt.Fprintf(out, ": %s", f.Message)
			if f.Step != "" {
				fmt.Fprintf(out, " [%s]", f.Step)
			}
		}
		if h.run.Outputs() != nil {
			fmt.Fprintf(out, " %s", h.run.Outputs())
		}
		out.WriteByte('\n')
	}
}

func taskDetails(task *Task) string {
	var b strings.Builder
	if task.Attempt > 1 {
		fmt.Fprintf(&b, ", attempt %d", task.Attempt)
	}
	if int(task.Epoch) != task.Attempt {
		fmt.Fprintf(&b, ", epoch %d", task.Epoch)
	}
	if task.Queue != "" {
		fmt.Fprintf(&b, ", queue %s", task.Queue)
	}
	if own := task.Step.Policy.Priority; task.Priority != own {
		fmt.Fprintf(&b, ", priority %d", task.Priority)
	}
	if len(task.State) > 0 {
		fmt.Fprintf(&b, ", state %s", task.State)
	}
	switch {
	case len(task.Members) > 0:
		var ids []string
		for _, m := range task.Members {
			ids = append(ids, m.Key)
		}
		v, err := task.Step.Params.Render(task.Scope, task.Limits)
		if err != nil {
			fmt.Fprintf(&b, " params: %v", err)
			break
		}
		fmt.Fprintf(&b, " for %s", strings.Join(ids, ", "))
		if c := v.(map[string]any)["each"]; c != nil {
			fmt.Fprintf(&b, ", collection %s", value(c))
		}
	case task.Params != nil:
		fmt.Fprintf(&b, " %s", task.Params)
	case task.Step.Params != nil:
		var scope expr.Scope = expr.Vars(nil)
		if task.Scope != nil {
			scope = task.Scope
		}
		if v, err := task.Step.Params.Render(scope, task.Limits); err != nil {
			fmt.Fprintf(&b, " params: %v", err)
		} else {
			fmt.Fprintf(&b, " %s", value(v))
		}
	}
	return b.String()
}
