package conformance

import (
	"encoding/json"
	"net/http"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk/wire"
)

// shortLease is what the heartbeat's worker is told; the desk waits longer, so that a busy machine changes nothing.
const shortLease = 600 * time.Millisecond

func heartbeat(r *rig) {
	r.front.setHook(func(call string, _ []byte, next func() (int, []byte)) (int, []byte) {
		status, answer := next()
		var out wire.Joined
		if call == "join" && status == http.StatusOK && json.Unmarshal(answer, &out) == nil {
			out.LeaseSeconds = shortLease.Seconds()
			if raw, err := json.Marshal(out); err == nil {
				answer = raw
			}
		}
		return status, answer
	})
	r.must(r.startWorker())
	id := r.begin("{id: h, action: conformance.sleep, params: {seconds: 600}}")
	held := r.held(id)
	for range 3 { // each time after most of the desk's lease
		r.pass(lease * 2 / 3)
		seen := r.front.count(r.front.listed, held)
		r.until("a turn that lists the running step as held", func() bool { return r.front.count(r.front.listed, held) > seen })
	}
	if now := r.held(id); now != held {
		r.errorf("the step was lost: attempt %d was given after %d", now.Epoch, held.Epoch)
	}
	r.cancel(id)
}

func again(r *rig) {
	r.front.setHook(func(call string, _ []byte, next func() (int, []byte)) (int, []byte) {
		status, answer := next()
		var out wire.Turned
		if call == "turn" && status == http.StatusOK && json.Unmarshal(answer, &out) == nil && len(out.Tasks) > 0 {
			out.Tasks = append(out.Tasks, out.Tasks...)
			if raw, err := json.Marshal(out); err == nil {
				answer = raw
			}
		}
		return status, answer
	})
	x := r.run("{id: l, action: conformance.log, params: {lines: 5}}", "{id: e, action: conformance.echo, params: {value: 1}}")
	r.front.setHook(nil)
	r.alive()
	if n := len(r.lines(x)); n != 5 {
		r.errorf("the step logged %d lines, want 5: it ran more than once", n)
	}
}

// reports tells whether a call offers an outcome of an execution.
func reports(call string, body []byte, execution string) bool {
	var in wire.Turn
	return call == "turn" && json.Unmarshal(body, &in) == nil && slices.ContainsFunc(in.Outcomes, func(o wire.Outcome) bool {
		x, _, err := wire.Split(o.StepID)
		return err == nil && x == execution
	})
}

// quick is a step that ends soon after the check has prepared for its end.
const quick = "{id: q, action: conformance.sleep, params: {seconds: 0.3}}"

func lost(r *rig) {
	id := r.begin(quick)
	r.front.setHook(func(call string, body []byte, next func() (int, []byte)) (int, []byte) {
		if !reports(call, body, id) {
			return next()
		}
		r.front.setHook(nil)
		next()
		return 0, nil
	})
	x := r.end(id, stepwell.ExecutionCompleted)
	held := r.held(id)
	r.until("the outcome once more, whose answer was lost", func() bool { return r.front.count(r.front.outcomes, held) > 1 })
	if n := x.steps["q"].Attempt; n != 1 {
		r.errorf("the step took %d attempts", n)
	}
	r.forgets(held)
}

// forgets checks that an outcome is not offered any more, and that the worker goes on.
func (r *rig) forgets(held wire.ID) {
	answered := time.Now()
	r.alive()
	before := r.front.count(r.front.outcomes, held)
	_ = action.Pause(r.ctx, max(time.Second, 2*time.Since(answered))) // a worker that doubles its pauses has offered it again by then
	r.alive()
	if after := r.front.count(r.front.outcomes, held); after > before {
		r.errorf("an outcome that the node has answered was offered %d times more", after-before)
	}
}

func refused(r *rig) {
	id := r.begin(quick)
	r.front.setHook(func(call string, body []byte, next func() (int, []byte)) (int, []byte) {
		if !reports(call, body, id) {
			return next()
		}
		var in wire.Turn
		_ = json.Unmarshal(body, &in) // it was read before
		out := wire.Turned{Tasks: []wire.Task{}, Stop: []wire.ID{}, Committed: []wire.ID{}, Refused: []wire.Refused{}}
		for _, o := range in.Outcomes {
			out.Refused = append(out.Refused, wire.Refused{ID: o.ID, Code: stepwell.CodeForbidden, Message: "it is not this worker's"})
		}
		raw, err := json.Marshal(out)
		if err != nil {
			return http.StatusInternalServerError, nil
		}
		return http.StatusOK, raw
	})
	held := r.held(id)
	r.until("an outcome", func() bool { return r.front.count(r.front.outcomes, held) > 0 })
	r.forgets(held)
}

// calm is how many calls a worker may make in the second in which the node does not serve it.
const calm = 40

func busy(r *rig) {
	id := r.begin(quick)
	r.held(id)
	r.front.setHook(func(string, []byte, func() (int, []byte)) (int, []byte) {
		return problem(http.StatusServiceUnavailable, stepwell.CodeUnavailable, "offer it again in a moment")
	})
	before := r.calls()
	_ = action.Pause(r.ctx, time.Second)
	if n := r.calls() - before; n > calm {
		r.errorf("it made %d calls in the second in which the node was unavailable, want %d at most", n, calm)
	}
	r.front.setHook(nil)
	r.end(id, stepwell.ExecutionCompleted)
	r.alive()
}

func (r *rig) calls() int {
	r.front.mu.Lock()
	defer r.front.mu.Unlock()
	return r.front.calls
}

func late(r *rig) {
	id := r.begin("{id: q, action: conformance.sleep, params: {seconds: 1}}")
	first := r.held(id)
	r.front.setHook(func(string, []byte, func() (int, []byte)) (int, []byte) { return 0, nil })
	r.pass(2 * lease)
	r.until("the loss of the step", func() bool { // a waiting turn may have taken it again already
		list := r.node.desk.Workers()
		return len(list) == 0 || list[0].Held == 0 || r.held(id).Epoch > first.Epoch
	})
	r.front.setHook(nil)
	x := r.end(id, stepwell.ExecutionCompleted)
	if last := r.held(id); last.Epoch <= first.Epoch {
		r.errorf("attempt %d of the step completed, which was given up", last.Epoch)
	}
	if n := x.steps["q"].Attempt; n > 2 {
		r.errorf("the step took %d attempts", n)
	}
	r.alive()
}

func restart(r *rig) {
	id := r.begin(quick, "{id: after, action: conformance.echo, depends_on: [q], params: {value: 1}}")
	r.front.setHook(func(call string, body []byte, next func() (int, []byte)) (int, []byte) {
		if !reports(call, body, id) {
			return next()
		}
		return 0, nil
	})
	held := r.held(id)
	r.until("an outcome", func() bool { return r.front.count(r.front.outcomes, held) > 0 }) // only now has the worker the step for certain
	r.front.cut()
	r.must(r.node.stop())
	_ = action.Pause(r.ctx, 600*time.Millisecond) // it is offered in vain meanwhile
	r.must(r.startNode())
	r.front.setHook(nil)
	r.front.down.Store(false)
	x := r.end(id, stepwell.ExecutionCompleted)
	if given := r.front.count(r.front.given, held); given != 1 || x.steps["q"].Attempt != 1 {
		r.errorf("the step was given %d times and took %d attempts: its outcome was not kept", given, x.steps["q"].Attempt)
	}
	r.alive()
}

func dies(r *rig) {
	id := r.begin("{id: s, action: conformance.sleep, params: {seconds: 600}}")
	first := r.held(id)
	r.process.kill()
	r.must(r.startWorker())
	r.pass(2 * lease)
	r.until("the step, given to the restarted worker", func() bool { return r.held(id).Epoch > first.Epoch })
	r.cancel(id)
	r.alive()
}

func leaves(r *rig) {
	if runtime.GOOS == "windows" {
		r.skipped = "there is no SIGTERM on Windows"
		return
	}
	id := r.begin(quick)
	r.held(id)
	if err := r.process.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.fatal("the command had ended before: %v", err)
	}
	r.endsInOrder(id, "SIGTERM")
}

func drain(r *rig) {
	id := r.begin(quick)
	r.held(id)
	r.front.setHook(func(call string, _ []byte, next func() (int, []byte)) (int, []byte) {
		status, answer := next()
		if call == "turn" && status == http.StatusOK {
			answer = append([]byte(`{"drain":true,`), answer[1:]...)
		}
		return status, answer
	})
	r.endsInOrder(id, "it was told to drain")
}

// endsInOrder checks that the command ends after something, and that the step that it held loses no attempt.
func (r *rig) endsInOrder(id, why string) {
	r.until("the end of the command after "+why, r.process.over)
	if r.process.err != nil {
		r.errorf("the command ended with %v, want exit code 0", r.process.err)
	}
	r.front.mu.Lock()
	leaving := r.front.leaving
	r.front.mu.Unlock()
	if leaving == 0 {
		r.errorf(`no turn said "leaving": true`)
	}
	r.front.setHook(nil)
	r.must(r.startWorker())
	x := r.end(id, stepwell.ExecutionCompleted)
	if n := x.steps["q"].Attempt; n != 1 {
		r.errorf("the step took %d attempts: an orderly stop loses none", n)
	}
}

func protocol(r *rig) {
	const says = "protocol 1 is not served, but 2 to 3"
	r.front.setHook(func(call string, _ []byte, next func() (int, []byte)) (int, []byte) {
		if call == "join" {
			return problem(http.StatusBadRequest, stepwell.CodeInvalid, says)
		}
		return next()
	})
	r.must(r.startWorker())
	r.until("the node's words in what the command prints: "+says, func() bool { return r.process.printed.holds(says) })
	before := r.calls()
	if !r.within(time.Second, r.process.over) {
		if n := r.calls() - before; n > calm {
			r.errorf("it made %d calls in the second after it was refused, want %d at most", n, calm)
		}
	} else if r.process.err == nil {
		r.errorf("the command ended with exit code 0 although it was refused")
	}
}
