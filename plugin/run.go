package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
)

// How plugins are started again.
const (
	firstPause   = 100 * time.Millisecond
	lastPause    = 30 * time.Second
	steady       = time.Minute          // a plugin that has run for so long begins with the first pause again
	failsAt      = 5                    // deaths within steady
	joinPatience = time.Minute          // until the program has joined
	endPatience  = time.Second          // for its last lines, and for processes that it has left behind
	joinPeriod   = 5 * time.Millisecond // until it has joined
	watchPeriod  = 100 * time.Millisecond
)

// plugin is a program and its processes, one after the other.
type plugin struct {
	s       *Supervisor
	name    string
	program Program
	settled chan struct{} // closed when it has joined or ended for the first time
	once    sync.Once

	mu     sync.Mutex
	status Status
	caller string // identity of the process at the desk, "": there is none
}

func (p *plugin) current() (Status, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status, p.caller
}

func (p *plugin) change(f func(*Status)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.status.State
	if f(&p.status); p.status.State != was {
		p.status.Since = time.Now()
	}
}

// run starts the program again and again.
func (p *plugin) run(ctx context.Context) {
	defer p.settle()
	defer p.change(func(x *Status) { x.State, x.PID = Stopped, 0 })
	pause, deaths := firstPause, []time.Time{}
	for n := 1; ; n++ {
		begun := time.Now()
		joined, err := p.runProcess(ctx, n)
		p.settle()
		if ctx.Err() != nil || errors.Is(err, errDrained) {
			return
		}
		now := time.Now()
		if joined && now.Sub(begun) > steady {
			pause = firstPause
		}
		for deaths = append(deaths, now); now.Sub(deaths[0]) > steady; {
			deaths = deaths[1:]
		}
		deaths = deaths[max(0, len(deaths)-failsAt):]
		p.change(func(x *Status) {
			x.State, x.PID, x.Error, x.Restarts = Waiting, 0, p.s.o.Hide(err.Error()), n
			if len(deaths) == failsAt || !joined {
				x.State = Failing
			}
		})
		p.s.o.Log.Warn("a plugin has ended; it is started again", "plugin", p.name, "error", err, "after", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		case <-p.s.drain:
			return
		}
		pause = min(2*pause, lastPause)
	}
}

func (p *plugin) settle() { p.once.Do(func() { close(p.settled) }) }

// runProcess runs the program once. The error says how it ended.
func (p *plugin) runProcess(ctx context.Context, n int) (joined bool, err error) {
	d, err := openDoor(p, n)
	if err != nil {
		return false, err
	}
	defer d.close() // again: it does nothing then
	c, err := startProcess(p, d)
	if err != nil {
		return false, fmt.Errorf("it does not start: %w", err)
	}
	p.mu.Lock()
	p.caller = d.caller.ID
	p.mu.Unlock()
	p.change(func(x *Status) {
		x.PID = c.pid()
		if x.State == Waiting || n == 1 {
			x.State = Starting
		}
	})
	why := p.watch(ctx, c, d.caller.ID, &joined)
	c.kill()
	p.mu.Lock()
	p.caller = ""
	p.mu.Unlock()
	d.close()
	if ctx.Err() == nil { // else its steps are those of a server that has ended
		p.s.o.Desk.Lose(d.caller.ID)
	}
	if why == nil {
		why = c.death()
	}
	return joined, why
}

// watch returns when the process has ended (nil, or errDrained if it was told to), or says why it has to.
func (p *plugin) watch(ctx context.Context, c *process, caller string, joined *bool) error {
	begun, drain := time.Now(), p.s.drain
	tick := time.NewTicker(joinPeriod)
	defer tick.Stop()
	for {
		select {
		case <-c.ended:
			if drain == nil {
				return errDrained
			}
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-drain:
			drain = nil
			c.terminate()
			continue
		case <-tick.C:
		}
		heard := p.s.o.Desk.Heard(caller)
		if !*joined && !heard.IsZero() {
			*joined = true
			tick.Reset(watchPeriod)
			p.change(func(x *Status) { x.State, x.Error = Running, "" })
			p.s.o.Log.Info("a plugin runs", "plugin", p.name, "pid", c.pid())
			p.settle()
		}
		if err := p.exceeds(c, begun, heard, *joined); err != nil && drain != nil {
			return err
		}
	}
}

// exceeds says which limit a process has exceeded.
func (p *plugin) exceeds(c *process, begun, heard time.Time, joined bool) error {
	if !joined && time.Since(begun) > joinPatience {
		return stepwell.Errorf(stepwell.CodeTimeout, "", "it has not joined within %s", joinPatience)
	}
	if silent := p.s.o.Now().Sub(heard); joined && !heard.IsZero() && silent > 2*p.s.o.Lease {
		return stepwell.Errorf(stepwell.CodeTimeout, "", "it has said nothing for %s", silent.Round(time.Second))
	}
	if limit := p.program.Memory; limit > 0 {
		if used := c.memory(); used > limit {
			return stepwell.Errorf(stepwell.CodeLimit, "", "it uses %d MiB of memory, its limit is %d MiB", used>>20, limit>>20)
		}
	}
	return nil
}
