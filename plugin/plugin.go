// Package plugin runs programs beside the server that bring actions: workers that the server itself starts, watches and ends. A
// plugin speaks the protocol of workers (package desk/wire) over a socket that only it is given the key of. What holds for a
// worker holds for a plugin; a Supervisor adds that its death is known at once, that it is started again, and that it can neither
// name actions outside of its namespace nor use more memory, connections and log lines than it may.
package plugin

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/desk"
)

// Program is how a plugin is started. Its actions are named NAME.ACTION after the plugin.
type Program struct {
	// Command is the program and its arguments.
	Command []string
	// Dir is where it runs. Defaults to that of this process.
	Dir string
	// Env are variables, PassEnv the names of variables of this process, that it gets besides PATH, HOME, LANG, TZ and TMPDIR. Default to none.
	Env     map[string]string
	PassEnv []string
	// Concurrency is the most steps that it runs at once. Defaults to what the program asks for.
	Concurrency int
	// Memory bounds the resident memory of its processes together, in bytes; a plugin that exceeds it is killed. Linux only. Defaults to none.
	Memory int64
}

// names are the plugins' names: the first part of the names of their actions.
var names = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,39}$`)

// Validate is CodeInvalid with the key.
func (p *Program) Validate(name string) error {
	key := "plugins." + name
	switch {
	case !supported:
		return stepwell.Invalid("run the program as a worker: docs/workers.md", "%s: plugins need a Unix system", key)
	case !names.MatchString(name):
		return stepwell.Invalid("lower-case letters, digits, _ and -, at most 40; its actions are named after it", "%s: the name of a plugin is malformed", key)
	case len(p.Command) == 0 || p.Command[0] == "":
		return stepwell.Invalid("a list: the program and its arguments", "%s.command is missing", key)
	case p.Memory > 0 && !measures:
		return stepwell.Invalid("leave it out, and limit the server itself", "%s.memory_bytes needs Linux", key)
	}
	for _, list := range [][]string{p.PassEnv, slices.Sorted(maps.Keys(p.Env))} {
		for _, v := range list {
			if v == "" || strings.ContainsAny(v, "=\x00") || strings.HasPrefix(v, "STEPWELL_") {
				return stepwell.Invalid("variables of Stepwell itself are never passed on", "%s: %q cannot be passed on", key, v)
			}
		}
	}
	return nil
}

// States of a plugin.
const (
	Starting = "starting" // the program runs, and has not joined
	Running  = "running"
	Waiting  = "waiting" // it has ended, and is started again after a pause
	Failing  = "failing" // likewise: it has ended five times within a minute, or before it had joined
	Stopped  = "stopped"
)

// Status is what is known of a plugin.
type Status struct {
	Name, State string
	PID         int // 0: no process
	Since       time.Time
	Restarts    int
	Error       string       // how it ended last
	Worker      *desk.Worker // nil: it has not joined
}

// Desk is what a Supervisor needs of the desk.
type Desk interface {
	Handler(who func(*http.Request) desk.Caller) http.Handler
	Workers() []desk.Worker
	Heard(caller string) time.Time
	Lose(caller string)
}

// Options configure a Supervisor.
type Options struct {
	Programs map[string]Program
	Desk     Desk
	// Lease is how long a plugin may say nothing; one that is silent for twice that is killed.
	Lease time.Duration
	// Host ends the names of the plugins' workers: acme@HOST.
	Host string
	// Hide takes secrets out of a text, for what plugins say of their end.
	Hide func(string) string
	// Now is the desk's clock.
	Now func() time.Time
	Log *slog.Logger
}

// Supervisor runs plugins.
type Supervisor struct {
	o       Options
	dir     string // of the sockets
	plugins []*plugin
	drain   chan struct{}
	once    sync.Once
}

// New makes a Supervisor of validated programs.
func New(o Options) (*Supervisor, error) {
	s := &Supervisor{o: o, drain: make(chan struct{})}
	for _, name := range slices.Sorted(maps.Keys(o.Programs)) {
		program := o.Programs[name]
		if err := program.Validate(name); err != nil {
			return nil, err
		}
		s.plugins = append(s.plugins, &plugin{s: s, name: name, program: program, status: Status{Name: name, State: Starting, Since: time.Now()}, settled: make(chan struct{})})
	}
	if len(s.plugins) == 0 {
		return s, nil
	}
	longest := 0
	for name := range o.Programs {
		longest = max(longest, len(name))
	}
	var err error
	s.dir, err = socketDir(longest)
	return s, err
}

// socketDir makes the folder of the sockets, which nobody else may read: that of temporary files if a socket's name fits into it,
// and else /tmp, where there is one.
func socketDir(longest int) (string, error) {
	dir, err := os.MkdirTemp("", "stepwell-")
	if err != nil || len(dir)+1+longest <= maxPath {
		return dir, err
	}
	if short, err := os.MkdirTemp("/tmp", "stepwell-"); err == nil {
		return short, os.Remove(dir)
	}
	return dir, nil // openDoor says that its name is too long
}

// Close removes the sockets. Call it after Run.
func (s *Supervisor) Close() error {
	if s == nil || s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// Run starts the plugins, and again when they end, until ctx ends, which kills them, or until they have ended after a drain.
func (s *Supervisor) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, p := range s.plugins {
		all.Go(func() { p.run(ctx) })
	}
	all.Wait()
}

// Drain has the plugins finish what they hold and end. It returns at once.
func (s *Supervisor) Drain() { s.once.Do(func() { close(s.drain) }) }

// Await waits until each plugin has joined or ended once, or until ctx ends.
func (s *Supervisor) Await(ctx context.Context) {
	for _, p := range s.plugins {
		select {
		case <-p.settled:
		case <-ctx.Done():
			return
		}
	}
}

// List describes the plugins, by name.
func (s *Supervisor) List() (list []Status) {
	workers := s.o.Desk.Workers()
	for _, p := range s.plugins {
		x, caller := p.current()
		for i := range workers {
			if workers[i].Caller == caller && caller != "" {
				x.Worker = &workers[i]
			}
		}
		list = append(list, x)
	}
	return list
}

// Failing names a plugin that does not come up, and says why; "": all do.
func (s *Supervisor) Failing() string {
	for _, p := range s.plugins {
		if x, _ := p.current(); x.State == Failing {
			return "the plugin " + x.Name + " does not run: " + x.Error
		}
	}
	return ""
}

// Explain says why steps of an action wait for a plugin that is not running; "": it is no plugin's, or the plugin runs.
func (s *Supervisor) Explain(action string) string {
	prefix, _, _ := strings.Cut(action, ".")
	for _, p := range s.plugins {
		if p.name != prefix {
			continue
		}
		switch x, _ := p.current(); x.State {
		case Running:
			return ""
		case Starting:
			return "waits for the plugin " + p.name + ", which is starting"
		default:
			return "waits for the plugin " + p.name + ", which does not run: " + x.Error
		}
	}
	return ""
}

var errDrained = errors.New("it was told to end")
