package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/worker"
)

// session runs one execution in this process and shows it.
type session struct {
	program *program
	output  string // text or json
	tracker *tracker
	app     *app.App
	resume  string                   // what to type to go on with an execution that was interrupted
	goal    stepwell.ExecutionStatus // an end that counts as success beside completed

	// after shows more of an execution that has ended, before the summary; nil: nothing.
	after func(ctx context.Context, x *store.Execution) error

	reportKey string // of the step that writes the report on items, "" without streams
}

// begin starts or takes up an execution and gives its id. It is called while the app runs.
type begin func(ctx context.Context, a *app.App) (id string, err error)

// open opens the database for running executions, which one process at a time may do.
func (p *program) open(output, resume string) (*session, error) {
	s := &session{program: p, output: output, resume: resume}
	o, err := p.options()
	if err != nil {
		return nil, err
	}
	o.Log = s.log()
	o.Observe = func(u *conductor.Update) {
		if s.tracker != nil {
			s.tracker.observe(u)
		}
	}
	o.Lines = func(l store.LogLine) {
		if s.tracker != nil {
			s.tracker.logged(l)
		}
	}
	o.Progress = func(run int64, idx int32, p worker.Progress) {
		if s.tracker != nil {
			s.tracker.advanced(run, idx, p)
		}
	}
	s.app, err = app.New(context.Background(), o)
	return s, err
}

// log takes Stepwell's own messages. While a picture is drawn they go above it, like what a step logs.
func (s *session) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(messages{s}, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

type messages struct{ s *session }

// Write implements io.Writer; slog calls it once for each message.
func (m messages) Write(text []byte) (int, error) {
	if t := m.s.tracker; t != nil {
		if _, live := t.view.(*liveView); live {
			t.say(oneLine(string(text), 4000))
			return len(text), nil
		}
	}
	return m.s.program.err.Write(text)
}

// show sets up the view of the execution that is to come: of the definition d, and mine.
func (s *session) show(d *definition.Definition, mine func(*store.Execution) bool) {
	p := s.program
	var v view
	live, isTerminal := p.terminal()
	switch {
	case s.output == "json":
		v = newJSONView(p.out)
	case isTerminal:
		v = p.newLiveView(live)
	default:
		v = &plainView{p.out}
	}
	s.tracker = newTracker(d, v, p.settings.workers, mine)
	for i := range d.Finally {
		if d.Finally[i].Action == definition.ReportAction {
			s.reportKey = "finally." + d.Finally[i].ID
		}
	}
	if l, ok := v.(*liveView); ok {
		l.run(s.tracker)
	}
}

// showExisting sets up the view of an execution that is in the store.
func (s *session) showExisting(ctx context.Context, x *store.Execution) error {
	d, err := snapshotOf(ctx, s.app, x)
	if err != nil {
		return err
	}
	steps, err := s.app.Store.Steps(ctx, x.No, store.StepFilter{Limit: 10_000})
	if err != nil {
		return err
	}
	s.show(d, func(y *store.Execution) bool { return y.ID == x.ID })
	s.tracker.follow(x, steps)
	return nil
}

func snapshotOf(ctx context.Context, a *app.App, x *store.Execution) (*definition.Definition, error) {
	body, err := a.Store.Definition(ctx, x.Definition)
	if err != nil {
		return nil, err
	}
	return definition.Decode(body)
}

// run runs the app until the execution that begin gives has ended, and reports it. The first
// interrupt lets the running steps finish, the second stops them. Its error carries the exit code.
func (s *session) run(start begin) (err error) {
	defer func() { err = errors.Join(err, s.app.Close()) }()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	ran := make(chan error, 1)
	go func() { ran <- s.app.Run(ctx) }()

	id, err := start(ctx, s.app)
	if err != nil {
		s.app.Drain()
		err = errors.Join(err, <-ran)
		s.tracker.close()
		return err
	}
	ended := make(chan ending, 1)
	go func() { ended <- s.await(ctx, id) }()
	end, err := s.wait(ran, ended, signals, stop)
	return s.finish(id, end, err)
}

// wait waits for the execution's end, the app's end, or the second interrupt. The app has ended when
// it returns.
func (s *session) wait(ran <-chan error, ended <-chan ending, signals <-chan os.Signal, stop func()) (ending, error) {
	for interrupts := 0; ; {
		select {
		case end := <-ended:
			s.app.Drain()
			runErr := <-ran
			if stepwell.CodeOf(end.err) == stepwell.CodeUnavailable {
				end.err = nil // the conductor has stopped: why is runErr, nothing after an interrupt
			}
			return end, errors.Join(runErr, end.err)
		case err := <-ran:
			return ending{}, err
		case <-signals:
			if interrupts++; interrupts == 1 {
				s.tracker.drain()
				s.tracker.say("interrupted: the running steps finish first, streams stop at their checkpoint; Ctrl-C again stops them at once")
				s.app.Drain()
				continue
			}
			s.tracker.say("interrupted again: the running steps are stopped")
			stop()
			return ending{}, <-ran
		}
	}
}

// ending is how an execution ended here; a nil row means that it has not.
type ending struct {
	row *store.Execution
	err error
}

// await waits for the execution, and then for others that were asked for from outside meanwhile.
func (s *session) await(ctx context.Context, id string) ending {
	row, err := s.app.Conductor.Wait(ctx, id)
	if err != nil {
		return ending{err: err}
	}
	for _, other := range s.app.Conductor.Active() {
		x, err := s.app.Store.Execution(ctx, other)
		if err != nil || x.Status == stepwell.ExecutionPaused {
			continue
		}
		s.tracker.say(fmt.Sprintf("waiting for execution %s, which was asked for meanwhile", other))
		if _, err := s.app.Conductor.Wait(ctx, other); err != nil {
			break // interrupted: it is resumed like any other
		}
	}
	return ending{row: row}
}

// finish shows how it went. What the drain let finish may have been the last step.
func (s *session) finish(id string, end ending, err error) error {
	s.tracker.close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	row := end.row
	if row == nil {
		var readErr error
		if row, readErr = s.app.Store.Execution(ctx, id); readErr != nil {
			return errors.Join(err, readErr)
		}
	}
	if s.after != nil && row.Status.Terminal() {
		if afterErr := s.after(ctx, row); afterErr != nil && stepwell.CodeOf(afterErr) != stepwell.CodeNotFound { // a step that did not come to its end
			err = errors.Join(err, afterErr)
		}
	}
	if sumErr := s.summary(ctx, row); sumErr != nil {
		err = errors.Join(err, sumErr)
	}
	switch {
	case err != nil:
		return err
	case row.Status.Terminal() && row.Status == s.goal:
		return nil
	case row.Status.Terminal():
		return exitOf(row.Status)
	case row.Status == stepwell.ExecutionPaused:
		fmt.Fprintf(s.program.err, "the execution is paused; go on with: stepwell executions resume %s\n", id)
	default:
		fmt.Fprintf(s.program.err, "the execution is unfinished; go on with: %s\n", s.resume)
	}
	return exitError(exitInterrupted)
}

// abandon closes a session that did not come to run.
func (s *session) abandon(err error) error { return errors.Join(err, s.app.Close()) }
