package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/worker"
)

// checks are made in this order. Those of steps share a node and a worker; those that disturb have their own.
var checks = []check{
	{name: "joins", about: "joins with its name, protocol 1, its actions and slots, and sends its API key with every call", run: joins},
	{name: "echo", about: "gives parameters of every JSON type back unchanged", run: echo},
	{name: "fail", about: "reports failures with code and message, permanent ones as such, and skips", run: fail},
	{name: "log", about: "sends log lines in their order, with level and metadata, before the step has ended", run: log},
	{name: "progress", about: "sends progress while a step runs", run: progress},
	{name: "memo", about: "records a memo that the next attempt recalls", run: memo},
	{name: "spawn", about: "spawns steps, of which other steps may wait", run: spawn},
	{name: "wait", about: "gives the worker back and completes later, or is called again with its state", run: wait},
	{name: "outputs", about: "asks for the outputs of other steps", run: outputs},
	{name: "large", about: "reports outputs of 2 MiB; larger ones than the node takes fail their step, and nothing else", run: large},
	{name: "many", about: "runs 300 steps, each once", run: many},
	{name: "stop", about: "stops a step that is on the stop list", run: stop},
	{name: "cancels", about: "stops work outside when it is told to, if it announces cancels", run: cancels},
	{name: "timeout", about: "ends a step when its time is over", run: timeout},
	{name: "flood", about: "sends 25,000 log lines in calls that are within the limits", run: flood},
	{name: "unknown", about: "ignores members of answers and tasks that it does not know", run: unknown},
	{name: "heartbeat", about: "lists what it holds within a lease, again and again", run: heartbeat, starts: true, disturbs: true},
	{name: "again", about: "runs a task once that is handed to it twice", run: again, disturbs: true},
	{name: "lost", about: "offers an outcome again whose answer was lost, and forgets it then", run: lost, disturbs: true},
	{name: "refused", about: "forgets an outcome that is refused, and continues", run: refused, disturbs: true},
	{name: "busy", about: "tries again, with pauses, while the node is unavailable", run: busy, disturbs: true},
	{name: "late", about: "continues after a step was taken from it because nothing was heard of it", run: late, disturbs: true},
	{name: "restart", about: "keeps outcomes while the node is unavailable, and joins the restarted one", run: restart, disturbs: true},
	{name: "dies", about: "killed in the middle of a step and restarted, it gets the step again", run: dies, disturbs: true},
	{name: "leaves", about: "on SIGTERM reports or gives back what it holds, says that it leaves, and exits with 0", run: leaves, disturbs: true},
	{name: "drain", about: "ends in the same way when a turn's answer says so", run: drain, disturbs: true},
	{name: "protocol", about: "says what the node says when it does not serve the worker's protocol, and does not hammer it", run: protocol, starts: true, disturbs: true},
}

// joined is the worker's first join.
func (r *rig) joined() wire.Join {
	r.until("a join", func() bool {
		r.front.mu.Lock()
		defer r.front.mu.Unlock()
		return len(r.front.joins) > 0
	})
	r.front.mu.Lock()
	defer r.front.mu.Unlock()
	return r.front.joins[0]
}

func joins(r *rig) {
	in := r.joined()
	if in.Worker == "" || in.Protocol != wire.Protocol || in.Concurrency < 1 {
		r.errorf("it joined as %q, with protocol %d and %d slots", in.Worker, in.Protocol, in.Concurrency)
	}
	for _, s := range specs {
		if !slices.ContainsFunc(in.Actions, func(a wire.Action) bool { return a.Name == s.Name }) {
			r.errorf("it does not serve %s", s.Name)
		}
	}
	if len(r.wrong) == 0 {
		r.alive()
	}
}

func echo(r *rig) {
	values := []string{`null`, `true`, `0`, `-1.5`, `9007199254740991`, `""`, `"ümläut \u2028 \\ \" 🚀"`, `[]`, `{}`, `[1, [2, {"a": null}]]`, `{"b": {"c": ["d"]}, "": 1}`}
	var steps []string
	for i, v := range values {
		steps = append(steps, fmt.Sprintf("{id: e%d, action: conformance.echo, params: {value: %s}}", i, v))
	}
	x := r.run(steps...)
	for i, v := range values {
		r.gives(x, fmt.Sprint("e", i), `{"value":`+v+`}`)
	}
}

func fail(r *rig) {
	x := r.end(r.begin("{id: f, action: conformance.fail, params: {message: bad luck}, retry: {max_attempts: 3, backoff_seconds: 0.001}}"), stepwell.ExecutionFailed)
	r.failed(x, 3, stepwell.CodeFailed, "bad luck")
	x = r.end(r.begin("{id: f, action: conformance.fail, params: {message: no use, code: invalid, permanent: true}, retry: {max_attempts: 3}}"), stepwell.ExecutionFailed)
	r.failed(x, 1, stepwell.CodeInvalid, "no use")
	x = r.run("{id: f, action: conformance.fail, params: {message: not today, skip: true}}")
	if s := x.steps["f"]; s.Status != stepwell.StepSkipped {
		r.errorf("a step that skips itself is %s", s.Status)
	}
}

func (r *rig) failed(x ended, attempts int, code stepwell.Code, message string) {
	s := x.steps["f"]
	if s.Attempt != attempts || s.Error == nil || s.Error.Code != code || !strings.Contains(s.Error.Message, message) {
		r.errorf("the step failed in attempt %d with %s; want attempt %d and %s: %s", s.Attempt, problemOf(s.Error), attempts, code, message)
	}
}

func log(r *rig) {
	x := r.run("{id: l, action: conformance.log, params: {lines: 50}}")
	list := r.lines(x)
	if len(list) != 50 {
		r.fatal("%d lines came, want 50", len(list))
	}
	for i, l := range list {
		if l.Message != fmt.Sprint("line ", i+1) || l.Level != "info" || l.StepKey != "l" || !sameJSON(l.Attrs, fmt.Appendf(nil, `{"n":%d}`, i+1)) {
			r.fatal("line %d is %q at %s with %s, want %q at info with {\"n\":%d}", i+1, l.Message, l.Level, l.Attrs, fmt.Sprint("line ", i+1), i+1)
		}
	}
}

func progress(r *rig) {
	id := r.begin("{id: p, action: conformance.progress, params: {fraction: 0.25, note: a quarter}}")
	run, _, err := r.node.locate(r.ctx, id)
	r.must(err)
	r.until("progress", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.ContainsFunc(r.progress[run], func(p worker.Progress) bool { return p.Fraction == 0.25 && p.Note == "a quarter" })
	})
	r.cancel(id)
}

// cancel cancels an execution and waits for its end.
func (r *rig) cancel(id string) ended {
	r.must(r.node.Cancel(r.ctx, id, "the check has seen enough"))
	return r.end(id, stepwell.ExecutionCancelled)
}

func memo(r *rig) {
	x := r.run(`{id: m, action: conformance.memo, params: {value: {"of": "{{ execution.id }}"}}, retry: {max_attempts: 3, backoff_seconds: 0.001}}`)
	r.gives(x, "m", fmt.Sprintf(`{"value":{"of":%q}}`, x.ID))
	if x.steps["m"].Attempt != 2 {
		r.errorf("the memo was recalled in attempt %d, want 2", x.steps["m"].Attempt)
	}
}

func spawn(r *rig) {
	x := r.run("{id: s, action: conformance.spawn, params: {count: 20}}", "{id: after, action: conformance.echo, depends_on: [leaf], params: {value: last}}")
	for i := range 20 {
		r.gives(x, fmt.Sprint("leaf:", i), fmt.Sprintf(`{"value":%d}`, i))
	}
	r.gives(x, "after", `{"value":"last"}`)
}

func wait(r *rig) {
	x := r.run("{id: w, action: conformance.wait, params: {seconds: 0.05, value: woke}}", "{id: p, action: conformance.poll, params: {times: 3}}")
	r.gives(x, "w", `{"value":"woke"}`)
	r.gives(x, "p", `{"polls":3}`)
	if n := x.steps["p"].Attempt; n != 1 {
		r.errorf("polling took %d attempts: a wait is not a failure", n)
	}
}

func outputs(r *rig) {
	x := r.run("{id: first, action: conformance.echo, params: {value: 7}}", "{id: second, action: conformance.outputs, depends_on: [first], params: {step: first}}")
	r.gives(x, "second", `{"outputs":{"value":7}}`)
}

func large(r *rig) {
	x := r.run(fmt.Sprintf("{id: l, action: conformance.large, params: {bytes: %d}}", 2<<20))
	raw := x.steps["l"].Output
	if engine.IsRef(raw) {
		var err error
		raw, err = r.node.store.Blobs().Load(r.ctx, string(raw))
		r.must(err)
	}
	if want := `{"text":"` + strings.Repeat("x", 2<<20) + `"}`; !sameJSON(raw, []byte(want)) {
		r.errorf("outputs of %d bytes came, want %d", len(raw), len(want))
	}
	x = r.end(r.begin(fmt.Sprintf("{id: f, action: conformance.large, params: {bytes: %d}, retry: {max_attempts: 1}}", worker.MaxOutput+(20<<20))), stepwell.ExecutionFailed)
	r.failed(x, 1, stepwell.CodeLimit, "")
	r.alive()
}

func many(r *rig) {
	var steps []string
	for i := range 300 {
		steps = append(steps, fmt.Sprintf("{id: s%d, action: conformance.echo, params: {value: %d}}", i, i))
	}
	x := r.run(steps...)
	for i := range 300 {
		r.gives(x, fmt.Sprint("s", i), fmt.Sprintf(`{"value":%d}`, i))
		if n := x.steps[fmt.Sprint("s", i)].Attempt; n != 1 {
			r.errorf("step s%d took %d attempts", i, n)
		}
	}
}

func stop(r *rig) {
	id := r.begin("{id: s, action: conformance.sleep, params: {seconds: 600}}")
	held := r.held(id)
	r.must(r.node.Cancel(r.ctx, id, "the check has seen enough"))
	r.until("an outcome of the step that was to stop", func() bool { return r.front.count(r.front.outcomes, held) > 0 })
	r.end(id, stepwell.ExecutionCancelled)
	r.alive()
}

// cancels makes two calls that stop work outside.
func cancels(r *rig) {
	const name = "conformance.poll"
	if !slices.ContainsFunc(r.joined().Actions, func(a wire.Action) bool { return a.Name == name && a.Cancels }) {
		r.skipped = "the worker announces no cancels of " + name
		return
	}
	for n := range 2 {
		ctx, end := context.WithTimeout(r.ctx, lease)
		t := &engine.Task{Run: 1, Execution: "gone", Idx: int32(n), Epoch: 1, Attempt: 1, Key: "p", Step: &plan.Step{ID: "p", Action: name}, State: fmt.Appendf(nil, `{"n":%d}`, n)}
		heard := &listener{}
		err := r.node.desk.Cancel(ctx, t, t.State, heard)
		end()
		if want := fmt.Sprintf(`stopped n=%d`, n); err != nil || len(heard.lines) != 1 || heard.lines[0] != want {
			r.fatal("the call of state %s ended with %v and the lines %q, want %q", t.State, err, heard.lines, want)
		}
	}
	r.alive()
}

// listener hears the lines of a step's log.
type listener struct {
	action.Host
	lines []string
}

// Log implements action.Host.
func (l *listener) Log(_ slog.Level, message string, attrs ...slog.Attr) {
	for _, a := range attrs {
		message += " " + a.String()
	}
	l.lines = append(l.lines, message)
}

func timeout(r *rig) {
	id := r.begin("{id: f, action: conformance.sleep, params: {seconds: 600}, timeout_seconds: 0.2}")
	held := r.held(id)
	x := r.end(id, stepwell.ExecutionFailed)
	r.failed(x, 1, stepwell.CodeTimeout, "")
	if r.front.count(r.front.outcomes, held) == 0 {
		r.errorf("the node had to end the step, because the worker did not")
	}
	r.alive()
}

func flood(r *rig) {
	x := r.run("{id: l, action: conformance.log, params: {lines: 25000}}")
	if x.steps["l"].Attempt != 1 {
		r.errorf("the step took %d attempts", x.steps["l"].Attempt)
	}
	if len(r.lines(x)) == 0 {
		r.errorf("no line came")
	}
	r.alive()
}

func unknown(r *rig) {
	r.front.unknown.Store(true)
	echo(r)
	spawn(r)
	memo(r)
	stop(r)
}
