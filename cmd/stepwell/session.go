package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/view"
	"github.com/stepwell/stepwell/worker"
)

// session runs one execution in this process and shows it.
type session struct {
	program *program
	output  string // text or json
	tracker *view.Tracker
	app     *app.App
	client  *client.Client
	resume  string                   // what to type to go on with an execution that was interrupted
	where   string                   // flags that commands about it need: of its server or its database
	goal    stepwell.ExecutionStatus // an end that counts as success beside completed

	// after shows more of an execution that has ended, before the summary; nil: nothing.
	after func(ctx context.Context, x *api.ExecutionDetail) error

	asked  context.CancelFunc // ends the questions about approvals; nil: none are asked
	asking sync.WaitGroup

	reportKey string // of the step that writes the report on items, "" without streams
}

// open opens the database for running executions, which one process at a time may do.
func (p *program) open(output, resume string) (*session, error) {
	s := &session{program: p, output: output, resume: resume, where: p.dbFlag()}
	o, err := p.options()
	if err != nil {
		return nil, err
	}
	o.Log = s.log()
	t := p.settings.taping
	o.Observe = func(u *conductor.Update) {
		if t != nil && t.execution.Load() == nil {
			id := u.Execution.ID
			t.execution.Store(&id)
		}
		if s.tracker != nil {
			s.tracker.Observe(u)
		}
	}
	o.Lines = func(l store.LogLine) {
		if s.tracker != nil {
			s.tracker.Log(l)
		}
	}
	o.Progress = func(run int64, idx int32, p worker.Progress) {
		if s.tracker != nil {
			s.tracker.Advance(run, idx, p)
		}
	}
	if s.app, err = app.New(context.Background(), o); err != nil {
		return nil, err
	}
	if t != nil {
		t.guard.Store(s.app.Secrets)
	}
	if s.client, err = s.app.Client(); err != nil {
		return nil, s.abandon(err)
	}
	return s, nil
}

// log takes Stepwell's own messages. While a picture is drawn they go above it, like what a step logs.
func (s *session) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(messages{s}, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

type messages struct{ s *session }

// Write implements io.Writer; slog calls it once for each message.
func (m messages) Write(text []byte) (int, error) {
	if t := m.s.tracker; t != nil && t.Live() {
		t.Say(view.OneLine(string(text), 4000))
		return len(text), nil
	}
	return m.s.program.err.Write(text)
}

// show sets up the view of the execution that is to come: of the definition d, and mine.
func (s *session) show(d *definition.Definition, mine func(*store.Execution) bool) {
	p := s.program
	plain, _ := p.env("NO_COLOR") // set to anything: no-color.org
	s.tracker = view.New(d, view.Options{Out: p.out, JSON: s.output == "json", Terminal: p.terminal(), Colour: plain == "", Workers: p.settings.workers, Asked: s.approvals(), Of: mine})
	for i := range d.Finally {
		if d.Finally[i].Action == stream.ReportAction {
			s.reportKey = "finally." + d.Finally[i].ID
		}
	}
}

// terminal returns the terminal that the output is, or nil when it is none that can be redrawn.
func (p *program) terminal() *os.File {
	f, ok := p.out.(*os.File)
	if kind, _ := p.env("TERM"); ok && kind != "" && kind != "dumb" && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// showExisting sets up the view of an execution that is in the store.
func (s *session) showExisting(id string) error {
	ctx := context.Background()
	d, err := s.definition(id)
	if err != nil {
		return err
	}
	steps, err := allSteps(ctx, s.client, api.ListSteps{ExecutionPath: api.ExecutionPath{ID: id}, Limit: 1000})
	if err != nil {
		return err
	}
	s.show(d, func(x *store.Execution) bool { return x.ID == id })
	for i := range steps {
		if x := &steps[i]; !view.Unnamed(x.ID) {
			e := view.Event{Step: x.ID, At: time.Time(x.Started.Time), Attempt: x.Attempt, Duration: x.DurationMS}
			if x.Error != nil {
				e.Message = x.Error.Message
			}
			if err := e.State.UnmarshalText([]byte(x.Status)); err != nil {
				return err
			}
			s.tracker.Restore(&e)
		}
	}
	return nil
}

// definition is what an execution runs.
func (s *session) definition(id string) (*definition.Definition, error) {
	body, err := s.client.Definition(context.Background(), id)
	if err != nil {
		return nil, err
	}
	return definition.Decode(body)
}

// run runs the app until the execution has ended that start starts or takes up, and reports it. The first
// interrupt lets the running steps finish, the second stops them. Its error carries the exit code.
func (s *session) run(start func(ctx context.Context, client *client.Client) (id string, err error)) (err error) {
	defer func() { err = errors.Join(err, s.app.Close()) }()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM) // to the end: a second interrupt must not kill what already ends
	ran := make(chan error, 1)
	go func() { ran <- s.app.Run(ctx) }()

	id, err := start(ctx, s.client)
	if err != nil {
		s.app.Drain()
		err = errors.Join(err, <-ran)
		s.closeView()
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- s.await(ctx, id) }()
	err = s.wait(ran, ended, signals, stop)
	return s.finish(id, err)
}

// wait waits for the execution's end, the app's end, or the second interrupt. The app has ended when
// it returns.
func (s *session) wait(ran <-chan error, ended <-chan error, signals <-chan os.Signal, stop func()) error {
	for interrupts := 0; ; {
		select {
		case err := <-ended:
			s.app.Drain()
			runErr := <-ran
			if stepwell.CodeOf(err) == stepwell.CodeUnavailable {
				err = nil // the conductor has stopped: why is runErr, nothing after an interrupt
			}
			return errors.Join(runErr, err)
		case err := <-ran:
			return err
		case <-signals:
			if interrupts++; interrupts == 1 {
				s.tracker.Drain()
				s.tracker.Say("interrupted: the running steps finish first, streams stop at their checkpoint; Ctrl-C again stops them at once")
				s.app.Drain()
				continue
			}
			s.tracker.Say("interrupted again: the running steps are stopped")
			stop()
			return <-ran
		}
	}
}

// await waits for the execution, and then for others that were asked for from outside meanwhile.
func (s *session) await(ctx context.Context, id string) error {
	if _, err := s.app.Conductor.Wait(ctx, id); err != nil {
		return err
	}
	err := s.app.Idle(ctx, func(other string) {
		s.tracker.Say(fmt.Sprintf("waiting for execution %s, which was asked for meanwhile", other))
	})
	if stepwell.CodeOf(err) == stepwell.CodeUnavailable || ctx.Err() != nil {
		return nil // interrupted: it is resumed like any other
	}
	return err
}

// finish shows how it went. What the drain let finish may have been the last step.
func (s *session) finish(id string, err error) error {
	s.closeView()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	x, readErr := s.client.Execution(ctx, id)
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	if s.after != nil && over(x) {
		if afterErr := s.after(ctx, x); afterErr != nil && stepwell.CodeOf(afterErr) != stepwell.CodeNotFound { // a step that did not come to its end
			err = errors.Join(err, afterErr)
		}
	}
	if sumErr := s.summary(ctx, x); sumErr != nil {
		err = errors.Join(err, sumErr)
	}
	switch {
	case err != nil:
		return err
	case over(x) && x.Status == s.goal.String():
		return nil
	case over(x):
		return exitOf(x.Status)
	case x.Status == stepwell.ExecutionPaused.String() && !s.program.settings.memory:
		fmt.Fprintf(s.program.err, "the execution is paused; continue with: stepwell executions resume %s%s\n", id, s.where)
	case s.program.settings.memory:
		fmt.Fprintln(s.program.err, "the execution was cut off, and --no-db kept nothing of it")
	case s.app == nil:
		fmt.Fprintf(s.program.err, "the execution continues there; show it again with: %s\n", s.resume)
	default:
		fmt.Fprintf(s.program.err, "the execution is unfinished; continue with: %s\n", s.resume)
	}
	return exitError(exitInterrupted)
}

// abandon closes a session that did not come to run.
func (s *session) abandon(err error) error {
	if s.asked != nil {
		s.asked()
	}
	return errors.Join(err, s.app.Close())
}

// start starts an execution of a definition and runs it to its end. Relative paths are meant from the working directory.
func (s *session) start(d *definition.Definition, params map[string]any, project string) error {
	dir, err := os.Getwd()
	if err != nil {
		return s.abandon(fmt.Errorf("working directory: %w", err))
	}
	since := s.app.Now() // of the database, as the times of its executions
	s.show(d, func(x *store.Execution) bool { return x.Pipeline == d.Name && !x.Created.Before(since) })
	return s.run(func(ctx context.Context, _ *client.Client) (string, error) {
		compiled, err := s.app.Conductor.Register(ctx, d)
		if err != nil {
			return "", err
		}
		return s.app.Conductor.Start(ctx, conductor.Request{Pipeline: compiled, Params: params, Dir: dir, Origin: store.Origin{Project: project}})
	})
}

// outputs are those of a step that completed; CodeNotFound for others.
func (s *session) outputs(ctx context.Context, id, step string, into any) error {
	found, err := s.client.Steps(ctx, api.ListSteps{ExecutionPath: api.ExecutionPath{ID: id}, Step: step, Outputs: true, Limit: 1})
	if err != nil {
		return err
	}
	if len(found.Steps) == 0 || found.Steps[0].Status != stepwell.StepCompleted.String() || len(found.Steps[0].Outputs) == 0 {
		return notFound("", "the step %s has no outputs", step)
	}
	return json.Unmarshal(found.Steps[0].Outputs, into)
}
