package rehearsal

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/scenario"
)

// Player plays recorded executions with another definition. Runner and Actions are required.
type Player struct {
	// Runner makes a runner for one goroutine; done deletes what it has written.
	Runner  func() (r *scenario.Runner, done func(), err error)
	Actions *action.Registry
	How     scenario.ReplayOptions // without Was
	Cores   int                    // Defaults to those of the machine

	mu    sync.Mutex
	known map[string]*definition.Definition // by their text: executions of one version share theirs
}

// maxKnown bounds the definitions that a Player remembers, of executions of a version each one.
const maxKnown = 64

// Ended are the statuses of executions that can be played.
var Ended = []string{"completed", "completed_with_failures", "failed", "cancelled", "timed_out"}

// Replay plays one execution.
func (p *Player) Replay(ctx context.Context, c *client.Client, id string) (*scenario.Replayed, error) {
	r, done, err := p.Runner()
	if err != nil {
		return nil, err
	}
	defer done()
	return p.play(ctx, r, c, id)
}

func (p *Player) play(ctx context.Context, runner *scenario.Runner, c *client.Client, id string) (*scenario.Replayed, error) {
	r, err := Record(ctx, c, id, p.streams)
	if err != nil {
		return nil, err
	}
	body, err := c.Definition(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	how := p.How
	if how.Was, err = p.definition(string(body)); err != nil {
		return nil, err
	}
	return runner.Replay(ctx, r, how)
}

func (p *Player) streams(name string) bool {
	about, ok := p.Actions.Spec(name)
	return ok && about.Stream != nil
}

// definition reads one, once.
func (p *Player) definition(text string) (*definition.Definition, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.known[text]; d != nil {
		return d, nil
	}
	d, err := definition.Decode([]byte(text))
	if err != nil {
		return nil, err
	}
	if p.known == nil || len(p.known) >= maxKnown {
		p.known = map[string]*definition.Definition{}
	}
	p.known[text] = d
	return d, nil
}

// pageSize is how many executions are played before they are counted: so much is in memory.
const pageSize = 500

// Backtest plays the newest executions of a pipeline that have ended, at most last of them, created since a time; zero: ever. Equal
// executions give equal reports, whatever the cores. CodeNotFound: there are none. What cannot be played is in the report.
func (p *Player) Backtest(ctx context.Context, c *client.Client, pipeline string, last int, since time.Time) (*scenario.Backtest, error) {
	report := &scenario.Backtest{Limit: p.How.Is.Settings.Concurrency, Groups: []scenario.BacktestGroup{}, Failures: []scenario.BacktestError{}}
	cores := p.Cores
	if cores <= 0 {
		cores = runtime.GOMAXPROCS(0)
	}
	var runners []*scenario.Runner
	for range cores {
		r, done, err := p.Runner()
		if err != nil {
			return nil, err
		}
		defer done()
		runners = append(runners, r)
	}
	filter := api.ListExecutions{Status: Ended, Limit: min(last, pageSize)}
	filter.Pipeline, filter.From = pipeline, since
	for left := last; left > 0; {
		page, err := c.Executions(ctx, filter)
		if err != nil {
			return nil, err
		}
		list := page.Executions[:min(left, len(page.Executions))]
		if err := p.playAll(ctx, runners, c, list, report); err != nil {
			return nil, err
		}
		left -= len(list)
		if filter.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	if report.Executions+len(report.Failures) == 0 {
		return nil, stepwell.Errorf(stepwell.CodeNotFound, "`stepwell executions list` shows the executions there are", "no execution of %q has ended", pipeline)
	}
	report.Finish()
	return report, nil
}

// playAll plays executions on all runners, and counts them in their order.
func (p *Player) playAll(ctx context.Context, runners []*scenario.Runner, c *client.Client, list []api.Execution, report *scenario.Backtest) error {
	played, failed := make([]*scenario.Replayed, len(list)), make([]error, len(list))
	next := make(chan int)
	var all sync.WaitGroup
	for _, r := range runners {
		all.Go(func() {
			for i := range next {
				if ctx.Err() == nil {
					played[i], failed[i] = p.play(ctx, r, c, list[i].ID)
				}
			}
		})
	}
	for i := range list {
		next <- i
	}
	close(next)
	all.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for i, x := range played {
		switch {
		case failed[i] == nil:
			report.Add(x)
		case errors.Is(failed[i], context.Canceled):
			return failed[i]
		default:
			report.Fail(list[i].ID, failed[i])
		}
	}
	return nil
}
