package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/partition/ledger"
	"github.com/stepwell/stepwell/view"
)

// toldStates are those of which a table says why.
var toldStates = []string{ledger.Stale, ledger.Failed}

// maxTold bounds them.
const maxTold = 1000

// showPartitions shows in which states the partitions of the pipeline are that a file changes.
func (p *program) showPartitions(c *connection, file string) error {
	if err := p.planned(c.output.value); err != nil {
		return err
	}
	text, err := p.readText(file)
	if err != nil {
		return err
	}
	return p.calling(c, func(ctx context.Context, server *client.Client) error {
		t, err := server.ComparePartitions(ctx, api.ComparePartitions{Document: api.Document(text), States: toldStates, Limit: maxTold})
		if err != nil {
			return err
		}
		r := &request{connection: c, program: p, client: server}
		return r.show(t, func() error {
			if err := view.WritePartitions(p.out, t); err != nil {
				return err
			}
			return p.suggestBackfill(r, t)
		})
	})
}

// planned refuses the forms of a plan that partitions have not.
func (p *program) planned(form string) error {
	if form != "text" && form != "json" {
		return stepwell.Invalid("text or json", "--state has no form %s", form)
	}
	return nil
}

func (p *program) suggestBackfill(r *request, t *api.Partitions) error {
	flags, n := "", 0
	for _, state := range []string{ledger.Missing, ledger.Stale, ledger.Failed} {
		if t.Counts[state] > 0 {
			flags += " --" + state
			n += t.Counts[state]
		}
	}
	if n == 0 {
		return nil
	}
	_, err := fmt.Fprintf(p.out, "%d to do: stepwell backfill %s%s%s\n", n, view.Printable(t.Name), flags, r.where())
	return err
}

func (p *program) newPartitionsCommand() *cobra.Command {
	f, one := api.ListPartitions{}, ""
	cmd := p.asking("partitions ID", "Show which partitions of a pipeline are done, stale, failed or missing", func(ctx context.Context, r *request) error {
		f.ID = r.args[0]
		if one != "" {
			x, err := r.client.Partition(ctx, api.GetPartition{PipelinePath: f.PipelinePath, Partition: one})
			if err != nil {
				return err
			}
			return r.show(x, func() error { return view.WritePartition(p.out, x) })
		}
		if r.output.value == "text" {
			f.States, f.Limit = toldStates, maxTold
		}
		t, err := r.client.Partitions(ctx, f)
		if err != nil {
			return err
		}
		return r.show(t, func() error {
			if err := view.WritePartitions(p.out, t); err != nil {
				return err
			}
			return p.suggestBackfill(r, t)
		})
	})
	cmd.Flags().StringVar(&one, "partition", "", "only this one, such as `s2/2026-01`: its state, why, and the execution for it")
	cmd.Flags().StringSliceVar(&f.States, "state", nil, "with -o json: tell more of partitions in these `states` only: missing, running, failed, stale, done")
	cmd.Flags().IntVar(&f.Limit, "limit", 100, "with -o json: of at most so many, up to 10000")
	return cmd
}

// backfillFlags are those of `backfill`.
type backfillFlags struct {
	missing, stale, failed, dry bool
	only                        []string
	params                      []string
	parallel                    int
}

func (p *program) newBackfillCommand() *cobra.Command {
	var f backfillFlags
	c := &connection{lasts: true, own: func(flags *pflag.FlagSet) {
		flags.BoolVar(&f.missing, "missing", false, "make those that nothing has made")
		flags.BoolVar(&f.stale, "stale", false, "make those again that were made by steps which do something else now")
		flags.BoolVar(&f.failed, "failed", false, "make those again whose last execution did not complete")
		flags.StringArrayVar(&f.only, "only", nil, "`parameter=value`: only partitions with this value; given again for one parameter, with one of them")
		flags.StringArrayVarP(&f.params, "param", "p", nil, "`key=value` of a parameter that names no partition; lists and objects as JSON")
		flags.IntVar(&f.parallel, "max-parallel", 4, "at most `n` at the same time, up to 100")
		flags.BoolVar(&f.dry, "dry-run", false, "show what would be started")
	}}
	cmd := p.askingOver(c, "backfill ID", "Make partitions of a pipeline that are missing, stale or failed", func(ctx context.Context, r *request) error {
		return p.backfill(ctx, r, &f)
	})
	cmd.Long = "Start an execution for each partition of a stored pipeline (settings.partition) that is in one of the states asked for, some at a time, and wait until all have ended. " +
		"Two backfills never make one partition twice: the second finds the execution of the first. What is interrupted goes on when the command is repeated.\n\n" +
		"The exit code is that of `stepwell run`: 0 when all completed, 1 when one failed, 3 when one completed with failures."
	cmd.Example = "  stepwell backfill mirror --missing --failed --max-parallel 8\n  stepwell backfill mirror --stale --only collection=s2 --dry-run"
	return cmd
}

// wanted reports whether a partition in a state is to be made. One that is being made is waited for: an interrupted backfill may have begun it.
func (f *backfillFlags) wanted(state string) bool {
	return state == ledger.Running || f.missing && state == ledger.Missing || f.stale && state == ledger.Stale || f.failed && state == ledger.Failed
}

// states are those in which a partition is made.
func (f *backfillFlags) states() (list []string) {
	for state, asked := range map[string]bool{ledger.Missing: f.missing, ledger.Stale: f.stale, ledger.Failed: f.failed} {
		if asked {
			list = append(list, state)
		}
	}
	slices.Sort(list)
	return list
}

// values are those of --only by parameter.
func (f *backfillFlags) values(t *api.Partitions) (map[string][]string, error) {
	out := map[string][]string{}
	for _, text := range f.only {
		name, value, ok := strings.Cut(text, "=")
		i := slices.Index(t.By, name)
		switch {
		case !ok || i < 0:
			return nil, stepwell.Invalid("--only "+t.By[0]+"=VALUE", "--only %q names none of %s", stepwell.Clip(text, 80), strings.Join(t.By, ", "))
		case !slices.Contains(t.Axes[i], value):
			return nil, stepwell.Invalid("stepwell pipelines partitions "+t.Name+" shows them", "%s has no value %q", name, stepwell.Clip(value, 80))
		}
		out[name] = append(out[name], value)
	}
	return out, nil
}

// todo are the partitions that are to be made, in the order of the table.
func (f *backfillFlags) todo(t *api.Partitions) (list [][]string, err error) {
	only, err := f.values(t)
	if err != nil {
		return nil, err
	}
	for at := range len(t.Grid) {
		if !f.wanted(ledger.StateOf(t.Grid[at])) {
			continue
		}
		values := t.ValuesAt(at)
		fits := true
		for i, name := range t.By {
			fits = fits && (len(only[name]) == 0 || slices.Contains(only[name], values[i]))
		}
		if fits {
			list = append(list, values)
		}
	}
	return list, nil
}

func (p *program) backfill(ctx context.Context, r *request, f *backfillFlags) error {
	switch {
	case !f.missing && !f.stale && !f.failed:
		return stepwell.Invalid("--missing, --stale, --failed, or several of them", "nothing says which partitions are to be made")
	case f.parallel < 1 || f.parallel > 100:
		return stepwell.Invalid("from 1 to 100", "--max-parallel is %d", f.parallel)
	}
	t, err := r.client.Partitions(ctx, api.ListPartitions{PipelinePath: api.PipelinePath{ID: r.args[0]}})
	if err != nil {
		return err
	}
	todo, err := f.todo(t)
	if err != nil {
		return err
	}
	params, err := p.declaredParams(ctx, r.client, r.args[0], 0, f.params)
	if err != nil {
		return err
	}
	if f.dry {
		return r.show(todo, func() error { return p.showTodo(t, todo) })
	}
	b := &backfilling{program: p, request: r, name: r.args[0], params: params, states: f.states(), all: len(todo), counts: map[string]int{}, lines: r.output.value != "json"}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(f.parallel)
	for _, values := range todo {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return b.make(ctx, values) })
	}
	err = group.Wait()
	if said := b.end(); err == nil {
		err = said
	}
	return err
}

// maxTodo bounds the partitions that a dry run names.
const maxTodo = 50

func (p *program) showTodo(t *api.Partitions, todo [][]string) error {
	for i, values := range todo {
		if i == maxTodo {
			fmt.Fprintf(p.out, "… and %d more\n", len(todo)-i) // an error comes again
			break
		}
		fmt.Fprintf(p.out, "%s\n", view.Printable(strings.Join(values, " "))) // as above
	}
	_, err := fmt.Fprintf(p.out, "%d of %d partitions would be made\n", len(todo), len(t.Grid))
	return err
}

// backfilling is a backfill at work.
type backfilling struct {
	program *program
	request *request
	name    string
	params  map[string]any
	states  []string // others have been made meanwhile
	all     int
	lines   bool // a line for each end

	mu     sync.Mutex
	counts map[string]int // of ends, by status
	done   int
}

func (b *backfilling) make(ctx context.Context, values []string) error {
	started, err := b.start(ctx, values)
	status, told := refusedStart, ""
	switch code := stepwell.CodeOf(err); {
	case err == nil:
		x, err := b.request.client.Wait(ctx, started.ID)
		if err != nil {
			return err
		}
		status, told = x.Status, started.ID
	case ctx.Err() != nil || code == stepwell.CodeUnauthenticated || code == stepwell.CodeForbidden || code == stepwell.CodeNotFound:
		return err // of all of them
	default:
		told = view.Printable(err.Error())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done++
	b.counts[status]++
	if b.lines {
		_, err = fmt.Fprintf(b.program.out, "%d of %d  %s  %s  %s\n", b.done, b.all, view.Printable(strings.Join(values, " ")), status, told)
		return err
	}
	return nil
}

// refusedStart stands for the status of a partition for which no execution could be started.
const refusedStart = "refused"

// start starts one, and again as long as the server is busy.
func (b *backfilling) start(ctx context.Context, values []string) (*api.Started, error) {
	for tries := 0; ; tries++ {
		started, err := b.request.client.StartPartition(ctx, b.name, api.StartPartition{Values: values, States: b.states, Params: b.params})
		if code := stepwell.CodeOf(err); code != stepwell.CodeLimit && code != stepwell.CodeUnavailable || tries == busyTries {
			return started, err
		}
		if paused := action.Pause(ctx, time.Duration(tries+1)*time.Second); paused != nil {
			return nil, paused
		}
	}
}

// busyTries is how often a start is tried again that a busy server refuses: for about three minutes.
const busyTries = 18

// end says how all went.
func (b *backfilling) end() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	failed, partly := 0, b.counts[stepwell.ExecutionCompletedWithFailures.String()]
	for status, n := range b.counts {
		if status != stepwell.ExecutionCompleted.String() && status != stepwell.ExecutionCompletedWithFailures.String() {
			failed += n
		}
	}
	var said error
	if b.lines {
		_, said = fmt.Fprintf(b.program.out, "%d of %d partitions made, %d failed, %d with failures\n", b.counts[stepwell.ExecutionCompleted.String()]+partly, b.all, failed, partly)
	} else {
		said = view.WriteJSON(b.program.out, b.counts)
	}
	switch {
	case failed > 0:
		return errors.Join(said, exitError(exitFailed))
	case partly > 0:
		return errors.Join(said, exitError(exitPartly))
	}
	return said
}
