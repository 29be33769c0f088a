// Package conformance judges workers: it starts a worker's command against a private node, gives it steps, disturbs it, and
// says what it does wrong. It knows the worker by the protocol alone (package desk/wire), so the worker may be written in
// any language and with or without a library.
//
// The command finds the node's address, with Options.Socket that of a socket, in STEPWELL_SERVER and its API key in STEPWELL_API_KEY. It serves the actions
// that Actions lists, and ends in order on SIGTERM.
package conformance

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

// Patience is how long a check waits for something that must come, unless Options say otherwise.
const Patience = 30 * time.Second

// Options configure a run. Command is required.
type Options struct {
	Command  []string
	Dir      string        // of the command. Defaults to that of this process
	Socket   bool          // serves it over a socket of this machine, as plugins are served
	Only     []string      // names of the checks to make. Defaults to all
	Patience time.Duration // Defaults to Patience
	Output   io.Writer     // takes what the command prints; several of it run at once. Defaults to nothing
	Each     func(Result)  // gets each result as it is known, one at a time. Defaults to nothing
}

// Result is the outcome of one check.
type Result struct {
	Check   string   `json:"check"`
	About   string   `json:"about"`
	Passed  bool     `json:"passed"`
	Skipped string   `json:"skipped,omitempty"` // why the check cannot be made here
	Wrong   []string `json:"wrong,omitempty"`
	Printed string   `json:"printed,omitempty"` // the command's last lines, of a failed check
}

// Checks lists the checks in their order: name and what is checked.
func Checks() (list [][2]string) {
	for _, c := range checks {
		list = append(list, [2]string{c.name, c.about})
	}
	return list
}

// together is how many of the checks that have a node of their own are made at once.
const together = 4

// Run makes the checks. The error says why they cannot be made at all: CodeInvalid for an unknown check or a command that does not
// start, else it comes from the private nodes or from ctx.
func Run(ctx context.Context, o Options) ([]Result, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	var chosen []check
	for _, c := range checks {
		if len(o.Only) == 0 || slices.Contains(o.Only, c.name) {
			chosen = append(chosen, c)
		}
	}
	results := make([]Result, len(chosen))
	var one sync.Mutex
	known := func(i int, x Result) {
		one.Lock()
		defer one.Unlock()
		results[i] = x
		o.Each(x)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(together + 1)
	g.Go(func() error { return judgeShared(ctx, o, chosen, known) })
	for i, c := range chosen {
		if c.disturbs {
			g.Go(func() error { return judgeAlone(ctx, o, c, func(x Result) { known(i, x) }) })
		}
	}
	err := g.Wait()
	if err != nil {
		results = nil
	}
	return results, err
}

// judgeShared makes the checks that disturb nothing, one after the other, on one node; after a failure on another one.
func judgeShared(ctx context.Context, o Options, list []check, known func(int, Result)) (err error) {
	var r *rig
	defer func() {
		if r != nil {
			err = errors.Join(err, r.close())
		}
	}()
	for i, c := range list {
		if c.disturbs {
			continue
		}
		if r != nil && r.spoiled {
			err = r.close()
			r = nil
		}
		if err == nil && r == nil {
			if r, err = newRig(ctx, o); err == nil {
				err = r.startWorker()
			}
		}
		if err != nil {
			return err
		}
		x := r.judge(c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		known(i, x)
	}
	return nil
}

// judgeAlone makes a check on a node of its own.
func judgeAlone(ctx context.Context, o Options, c check, known func(Result)) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r, err := newRig(ctx, o)
	if err != nil {
		return err
	}
	if !c.starts {
		err = r.startWorker()
	}
	if err == nil {
		x := r.judge(c)
		if err = ctx.Err(); err == nil {
			known(x)
		}
	}
	return errors.Join(err, r.close())
}

func (o *Options) validate() error {
	if o.Patience <= 0 {
		o.Patience = Patience
	}
	if o.Output == nil {
		o.Output = io.Discard
	}
	o.Output = &oneWriter{w: o.Output}
	if o.Each == nil {
		o.Each = func(Result) {}
	}
	if len(o.Command) == 0 {
		return stepwell.Invalid("give the worker's command and its arguments", "there is no command to check")
	}
	if _, err := exec.LookPath(o.Command[0]); err != nil && o.Dir == "" {
		return stepwell.Invalid("the command and its arguments come after --", "the worker's command does not start: %v", err)
	}
	for _, name := range o.Only {
		if !slices.ContainsFunc(checks, func(c check) bool { return c.name == name }) {
			var names []string
			for _, c := range checks {
				names = append(names, c.name)
			}
			hint := "run all checks"
			if near := spec.Closest(name, names); near != "" {
				hint = "did you mean " + near + "?"
			}
			return stepwell.Invalid(hint, "there is no check %q", stepwell.Head(name, 40))
		}
	}
	return nil
}

// check is one thing that a worker must do. It ends early by (*rig).fatal.
type check struct {
	name, about string
	run         func(*rig)
	disturbs    bool // it has a node and a worker of its own
	starts      bool // likewise, and starts the command itself
}

// judge makes a check.
func (r *rig) judge(c check) (x Result) {
	x = Result{Check: c.name, About: c.about}
	r.wrong, r.skipped = nil, ""
	r.front.forgetWrong()
	func() {
		defer func() {
			if v := recover(); v != nil && v != any(stopped{}) {
				panic(v)
			}
		}()
		c.run(r)
	}()
	r.front.setHook(nil)
	r.front.unknown.Store(false)
	r.wrong = append(r.wrong, r.front.forgetWrong()...)
	if r.process != nil && r.process.printed.holds(r.key) {
		r.wrong = append(r.wrong, "the command printed the API key")
	}
	x.Wrong, x.Skipped = r.wrong, r.skipped
	if x.Passed = len(r.wrong) == 0; !x.Passed {
		r.spoiled = true
		if r.process != nil {
			x.Printed = r.process.printed.last(2000)
		}
	}
	return x
}

// stopped ends a check.
type stopped struct{}
