// Package lab disturbs the executions of tests of pipelines in every way that it knows: the process dies at each transition, workers
// are lost, messages come twice or late, the store refuses, and what happens at one time happens in other orders. It tells which
// steps ran twice, what differs, and the shortest schedule that shows it. docs/testing.md is its description for people.
//
// Verdicts are of three kinds. A broken rule of the book (book.go) is a fault of Stepwell. An outcome that differs from that of the
// undisturbed execution is one, too, unless a step must not run twice. A step that ran twice though nothing says that it may
// is a question to the author.
//
// Equal tests, seeds and numbers of runs give equal reports, unless the budget ends the search.
package lab

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/scenario"
	"github.com/stepwell/stepwell/sim"
	"github.com/stepwell/stepwell/store"
)

// Options configure Run. Runner is required.
type Options struct {
	// Runner makes a runner for one goroutine; done deletes what it has written.
	Runner func() (r *scenario.Runner, done func(), err error)
	// Budget is after how long no more runs begin. Defaults to 10 seconds for each test.
	Budget time.Duration
	// Seed chooses pairs and orders. Defaults to 1.
	Seed uint64
	// Orders and Pairs are how many orders, and how many pairs of faults, are tried. Default to 200.
	Orders, Pairs int
	// Seconds is how many runs have a second crash during the recovery from a first one. Defaults to 100.
	Seconds int
	// Most bounds the schedules that are tried of those that would be, evenly. Defaults to all.
	Most int
	// Workers is how many runs go on at once. Defaults to the number of processors.
	Workers int
	// Real says that the runners have steps that really run (scenario.Options.Real): each runs twice, too, and what that leaves is compared.
	Real bool
	// Store opens the database in a folder (sim.Options). Defaults to databases in memory.
	Store func(dir string) func(ctx context.Context, now func() time.Time) (store.Store, error)
	// Kill has processes really killed, and nothing else happens: each run has two processes, which are Life. Process runs one in a folder
	// and waits for its end; said is what it has said. Its error is that it could not be started.
	Kill    bool
	Process func(ctx context.Context, dir string) (said string, err error)
	// Flags are what a replay needs to be told, too, as it is written: it begins with a space.
	Flags string
	// Replay is the name of the only schedule to run. Defaults to searching.
	Replay string
}

// Lab runs tests.
type Lab struct {
	o       Options
	runners []*scenario.Runner
	done    []func()
}

// New makes a lab. Close deletes what it has written.
func New(o Options) (*Lab, error) {
	if o.Budget <= 0 {
		o.Budget = 10 * time.Second
	}
	if o.Seed == 0 {
		o.Seed = 1
	}
	if o.Orders <= 0 {
		o.Orders = 200
	}
	if o.Pairs <= 0 {
		o.Pairs = 200
	}
	if o.Seconds <= 0 {
		o.Seconds = 100
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	l := &Lab{o: o}
	for range o.Workers {
		r, done, err := o.Runner()
		if err != nil {
			l.Close()
			return nil, err
		}
		l.runners, l.done = append(l.runners, r), append(l.done, done)
	}
	return l, nil
}

// Close deletes what the lab has written.
func (l *Lab) Close() {
	for _, done := range l.done {
		done()
	}
}

// experiment is one test in the lab.
type experiment struct {
	*Lab
	t        *scenario.Test
	calm     *scenario.Played
	passages []sim.Passage
	end      time.Time
	records  records
}

// Run disturbs one test. The error is that of a test that cannot be run undisturbed, or of ctx.
func (l *Lab) Run(ctx context.Context, t *scenario.Test) (res *Result, err error) {
	if t.Pipeline == "" {
		return nil, stepwell.Invalid("leave it out with --run", "%q is the test of a schedule: nothing is run", t.Name)
	}
	x := &experiment{Lab: l, t: t}
	x.end = time.Now().Add(l.o.Budget)
	first, err := x.undisturbed(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.calm.World.Close()) }()
	res = &Result{File: t.File, Line: t.Pos.Line, Name: t.Name, Pipeline: t.Pipeline, Runs: 1, Outcome: x.calm.Execution.Status.String(),
		kill: l.o.Kill, more: l.o.Flags}
	if f := x.calm.Execution.Failure; f != nil {
		res.Failure = stepwell.Clip(strings.TrimPrefix(because(f), ": "), 300)
	}
	res.add(schedule{}, first, x.calm)
	if l.o.Replay != "" {
		err = x.replay(ctx, res)
	} else {
		err = x.find(ctx, res)
	}
	res.conclude(x.calm)
	return res, err
}

// replay runs the one schedule that is asked for.
func (x *experiment) replay(ctx context.Context, res *Result) error {
	one, err := parseSchedule(x.o.Replay)
	if err != nil {
		return err
	}
	if x.o.Kill && !one.crash() {
		return stepwell.Invalid("leave out --kill, or name one death, like dies@after-report:deploy#1", "%s is no schedule of one process that dies", one)
	}
	verdicts, err := x.take(ctx, res, []schedule{one})
	if err == nil && verdicts[0] != nil {
		res.Story = verdicts[0].story
	}
	return err
}

// find searches.
func (x *experiment) find(ctx context.Context, res *Result) error {
	if x.o.Kill {
		_, err := x.take(ctx, res, evenly(x.kills(), x.o.Most))
		return err
	}
	todo := evenly(x.search(), x.o.Most)
	_, res.Points = singles(x.passages)
	var err error
	if x.o.Real {
		err = x.again(ctx, res)
	}
	var verdicts []*verdict
	if err == nil {
		verdicts, err = x.take(ctx, res, todo)
	}
	if err == nil {
		_, err = x.take(ctx, res, x.seconds(todo, verdicts))
	}
	if err == nil {
		err = x.shorten(ctx, res)
	}
	return err
}

// take runs schedules and takes their verdicts in.
func (x *experiment) take(ctx context.Context, res *Result, todo []schedule) ([]*verdict, error) {
	verdicts, err := x.all(ctx, todo)
	if err != nil {
		return nil, err
	}
	for i, v := range verdicts {
		if v == nil {
			res.Left++
			continue
		}
		res.Runs++
		res.count(todo[i])
		res.add(todo[i], v, x.calm)
	}
	return verdicts, nil
}

// again runs each step that really runs twice, and compares what both leave.
func (x *experiment) again(ctx context.Context, res *Result) error {
	got, err := x.runners[0].Play(ctx, x.t, scenario.How{Repeat: true})
	if err != nil {
		return err
	}
	res.Runs++
	found := map[string]string{}
	for i := range got.Repeated {
		one := &got.Repeated[i]
		key := iteration.ReplaceAllString(one.Key, "[*]")
		if found[key] == "" {
			found[key] = unlike(one)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if found[key] == "" {
			res.Alike = append(res.Alike, key)
		} else if s := x.calm.StepOf(key); s == nil || s.Idempotent == nil || *s.Idempotent {
			res.Findings = append(res.Findings, &Finding{Kind: Unlike, Step: key, Message: found[key], Runs: 1})
		}
	}
	return got.World.Close()
}

// maxSecond is how many of the first passages after a death are those of the recovery.
const maxSecond = 8

// seconds are schedules in which the process dies again while it recovers, or the store or the blobs are away then: evenly of all first
// deaths, and of what passes after them.
func (x *experiment) seconds(todo []schedule, verdicts []*verdict) (list []schedule) {
	for i, v := range verdicts {
		if v == nil || !todo[i].crash() {
			continue
		}
		for _, p := range v.after {
			for _, at := range sim.Fates {
				for _, fate := range at.Fates {
					if at.Point == p.Point && (fate == sim.Dies || fate == sim.Away) {
						list = append(list, schedule{faults: []fault{todo[i].faults[0], {p, fate}}, second: true})
					}
				}
			}
		}
	}
	return evenly(list, x.o.Seconds)
}

// evenly are at most so many of the schedules; 0: all.
func evenly(list []schedule, most int) []schedule {
	if most <= 0 || len(list) <= most {
		return list
	}
	some := make([]schedule, most)
	for i := range some {
		some[i] = list[i*len(list)/most]
	}
	return some
}

// undisturbed runs the test as it is, and notes what passes each point.
func (x *experiment) undisturbed(ctx context.Context) (*verdict, error) {
	b := newBook(&x.records)
	var err error
	x.calm, err = x.runners[0].Play(ctx, x.t, scenario.How{Trace: b.trace, Fault: func(p sim.Passage) sim.Fate {
		x.passages = append(x.passages, p)
		return sim.Passes
	}})
	if err != nil {
		return nil, err
	}
	return judge(ctx, b, schedule{}, x.calm, x.calm)
}

// search is what is tried, in order.
func (x *experiment) search() []schedule {
	list, _ := singles(x.passages)
	single := list
	random := rand.New(rand.NewPCG(x.o.Seed, 1))
	for range x.o.Orders {
		list = append(list, schedule{seed: 1 + random.Uint64N(1<<32)})
	}
	for range x.o.Pairs {
		a, b := single[random.IntN(len(single))], single[random.IntN(len(single))]
		s := schedule{faults: []fault{a.faults[0], b.faults[0]}}
		if a.faults[0].Passage == b.faults[0].Passage {
			s.faults = s.faults[:1]
		}
		if random.IntN(2) == 0 {
			s.seed = 1 + random.Uint64N(1<<32)
		}
		list = append(list, s)
	}
	return list
}

// all runs schedules on all processors. The verdicts are nil of those for which no time was left.
func (x *experiment) all(ctx context.Context, todo []schedule) ([]*verdict, error) {
	verdicts := make([]*verdict, len(todo))
	within, stop := context.WithCancel(ctx)
	defer stop()
	var next, late atomic.Int64
	var failed atomic.Pointer[error]
	end := time.AfterFunc(time.Until(x.end), func() { late.Store(1) })
	defer end.Stop()
	var all sync.WaitGroup
	for _, r := range x.runners {
		all.Go(func() {
			for late.Load() == 0 && within.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(todo) {
					return
				}
				v, err := x.run(within, r, todo[i])
				if err != nil {
					failed.CompareAndSwap(nil, &err)
					stop()
					return
				}
				verdicts[i] = v
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	return verdicts, ctx.Err()
}

// run runs one schedule.
func (x *experiment) run(ctx context.Context, r *scenario.Runner, s schedule) (v *verdict, err error) {
	if x.o.Kill {
		return x.killed(ctx, s)
	}
	store, done, err := x.store()
	if err != nil {
		return nil, err
	}
	defer done()
	b := newBook(&x.records)
	defer b.done()
	var after []sim.Passage
	got, err := r.Play(ctx, x.t, scenario.How{Seed: s.seed, Trace: b.trace, Calm: x.calm, Store: store, Fault: func(p sim.Passage) sim.Fate {
		if b.boots > 1 && len(after) < maxSecond {
			after = append(after, p)
		}
		return s.fate(p)
	}})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return &verdict{broken: b.broken, different: "it could not be run: " + err.Error()}, nil
	}
	defer func() { err = errors.Join(err, got.World.Close()) }()
	v, err = judge(ctx, b, s, got, x.calm)
	if err == nil {
		v.after = after
	}
	if err == nil && x.o.Replay != "" {
		v.story = story(ctx, got)
	}
	return v, err
}

// store opens the database of one run. done deletes it.
func (x *experiment) store() (open func(context.Context, func() time.Time) (store.Store, error), done func(), err error) {
	if x.o.Store == nil {
		return nil, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "stepwell-lab-")
	if err != nil {
		return nil, nil, err
	}
	return x.o.Store(dir), func() { os.RemoveAll(dir) }, nil // what cannot be deleted stays in the system's folder for temporary files
}

// shorten finds for each finding the shortest schedule that shows it: faults are left out as long as it stays.
func (x *experiment) shorten(ctx context.Context, res *Result) error {
	for _, f := range res.Findings {
		if f.Kind == Unlike {
			continue
		}
		for shorter := true; shorter; {
			shorter = false
			for _, s := range f.schedule.parts() {
				v, err := x.run(ctx, x.runners[0], s)
				if err != nil {
					return err
				}
				if v.shows(f) {
					f.schedule, shorter = s, true
					break
				}
			}
		}
	}
	return nil
}

// parts are the schedules with one part left out.
func (s schedule) parts() (list []schedule) {
	if s.seed != 0 && len(s.faults) > 0 {
		list = append(list, schedule{faults: s.faults})
	}
	if len(s.faults) < 2 && s.seed == 0 {
		return list
	}
	for i := range s.faults {
		rest := schedule{seed: s.seed}
		rest.faults = append(append(rest.faults, s.faults[:i]...), s.faults[i+1:]...)
		list = append(list, rest)
	}
	return list
}
