package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
)

// How long, and how often, a command looks for what another process has made of its request.
const (
	requestPatience = 5 * time.Second
	requestPause    = 50 * time.Millisecond
)

// change is something that cancel, pause, resume and restart do to an execution.
type change struct {
	kind string // of the request
	body conductor.RequestBody
	// here does it in this process.
	here func(ctx context.Context, s *session, x *store.Execution) error
	// seen says whether another process has done it.
	seen func(ctx context.Context, s store.Store, before, now *store.Execution) (bool, error)
}

// apply does a change here, or asks the process that runs the executions to.
func (p *program) apply(x *store.Execution, c *change, output string) error {
	s, err := p.open(output, "stepwell executions resume "+x.ID+p.dbFlag())
	if stepwell.CodeOf(err) == stepwell.CodeConflict {
		return p.ask(x, c)
	}
	if err != nil {
		return err
	}
	return c.here(context.Background(), s, x)
}

// ask leaves a request for the process that runs the executions, and waits a little for its effect.
func (p *program) ask(x *store.Execution, c *change) (err error) {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Options{Path: p.settings.db, Log: p.log()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	body, err := json.Marshal(c.body)
	if err != nil {
		return err
	}
	if err := s.PutRequest(ctx, store.Request{Execution: x.ID, Kind: c.kind, Body: body}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestPatience)
	defer cancel()
	for {
		now, err := s.Execution(context.WithoutCancel(ctx), x.ID)
		if err != nil {
			return err
		}
		if done, err := c.seen(context.WithoutCancel(ctx), s, x, now); err != nil {
			return err
		} else if done {
			fmt.Fprintf(p.out, "another process runs the executions of this database; it has taken the %s: the execution is %s\n", c.kind, now.Status)
			return nil
		}
		select {
		case <-ctx.Done():
			return &stepwell.Error{Code: stepwell.CodeTimeout, Message: fmt.Sprintf("the process that runs the executions has not acted on the %s within %s; the execution is %s", c.kind, requestPatience, now.Status),
				Hint: "the request stays; that process says in its own output when it refuses one"}
		case <-time.After(requestPause):
		}
	}
}

// nothingToDo says that a wish is fulfilled already.
func (p *program) nothingToDo(x *store.Execution, output string) error {
	if output == "json" {
		return writeJSON(p.out, map[string]any{"execution_id": x.ID, "status": x.Status, "changed": false})
	}
	_, err := fmt.Fprintf(p.out, "nothing to do: the execution is %s\n", x.Status)
	return err
}

// lookUp finds an execution by the beginning of its id, without opening anything for longer.
func (p *program) lookUp(id string) (x *store.Execution, err error) {
	err = p.reading(id, func(_ context.Context, _ store.Store, found *store.Execution) error {
		x = found
		return nil
	})
	return x, err
}

// changing makes a command of a change: there asks a server for it, do does it with the database.
func (p *program) changing(cmd *cobra.Command, there func(c *connection, id string, args []string) error,
	do func(x *store.Execution, args []string, output string) error) *cobra.Command {
	var c connection
	output := format(cmd.Flags(), "text", "json")
	p.settings.addRun(cmd.Flags())
	c.addServer(cmd.Flags(), output)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if p.elsewhere(&c) {
			return there(&c, args[0], args[1:])
		}
		x, err := p.lookUp(args[0])
		if err != nil {
			return err
		}
		return do(x, args[1:], output.value)
	}
	return cmd
}

func (p *program) newCancelCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "cancel ID",
		Short: "Stops an execution; its finally steps still run",
		Args:  arguments(1, 1, "ID"),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`text` that says why")
	there := func(c *connection, id string, _ []string) error {
		return p.changeThere(c, id, "cancel", object{"reason": reason})
	}
	return p.changing(cmd, there, func(x *store.Execution, _ []string, output string) error {
		if x.Status.Terminal() {
			return p.nothingToDo(x, output)
		}
		return p.apply(x, &change{kind: conductor.RequestCancel, body: conductor.RequestBody{Reason: reason},
			here: func(ctx context.Context, s *session, x *store.Execution) error {
				s.goal = stepwell.ExecutionCancelled
				return s.steer(ctx, x, func(ctx context.Context, c *conductor.Conductor) error { return c.Cancel(ctx, x.ID, reason) })
			},
			seen: func(_ context.Context, _ store.Store, _, now *store.Execution) (bool, error) {
				return now.Status.Terminal() || now.Status == stepwell.ExecutionCancelling, nil
			},
		}, output)
	})
}

func (p *program) newPauseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pause ID",
		Short: "Lets the running steps finish and starts no others",
		Args:  arguments(1, 1, "ID"),
	}
	there := func(c *connection, id string, _ []string) error { return p.changeThere(c, id, "pause", nil) }
	return p.changing(cmd, there, func(x *store.Execution, _ []string, output string) error {
		switch {
		case x.Status.Terminal():
			return &stepwell.Error{Code: stepwell.CodeConflict, Message: "the execution has ended: " + x.Status.String()}
		case x.Status == stepwell.ExecutionPaused:
			return p.nothingToDo(x, output)
		}
		return p.apply(x, &change{kind: conductor.RequestPause, here: p.pauseHere,
			seen: func(_ context.Context, _ store.Store, _, now *store.Execution) (bool, error) {
				return now.Status == stepwell.ExecutionPaused || now.Status.Terminal(), nil
			},
		}, output)
	})
}

// pauseHere pauses an execution that no process runs. Only the conductor is needed: no step may start.
func (p *program) pauseHere(ctx context.Context, s *session, x *store.Execution) error {
	ctx, stop := context.WithCancel(ctx)
	ran := make(chan error, 1)
	go func() { ran <- s.app.Conductor.Run(ctx) }()
	err := s.app.Conductor.Pause(ctx, x.ID)
	stop()
	if err = errors.Join(err, <-ran); err == nil {
		_, err = fmt.Fprintf(p.out, "execution %s is paused; go on with: stepwell executions resume %s%s\n", x.ID, x.ID, p.dbFlag())
	}
	return s.abandon(err)
}

func (p *program) newResumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume ID",
		Short: "Goes on with an execution that is paused or was interrupted",
		Args:  arguments(1, 1, "ID"),
	}
	there := func(c *connection, id string, _ []string) error { return p.changeThere(c, id, "resume", nil) }
	return p.changing(cmd, there, func(x *store.Execution, _ []string, output string) error {
		if x.Status.Terminal() {
			return &stepwell.Error{Code: stepwell.CodeConflict, Message: "the execution has ended: " + x.Status.String(),
				Hint: "`stepwell executions retry` starts it again, keeping what completed"}
		}
		return p.apply(x, &change{kind: conductor.RequestResume,
			here: func(ctx context.Context, s *session, x *store.Execution) error { return s.takeUp(ctx, x) },
			seen: func(_ context.Context, _ store.Store, _, now *store.Execution) (bool, error) {
				return now.Status == stepwell.ExecutionRunning || now.Status.Terminal(), nil
			},
		}, output)
	})
}

// steer brings an execution into this process, does something to it and runs it to its end.
func (s *session) steer(ctx context.Context, x *store.Execution, do func(context.Context, *conductor.Conductor) error) error {
	if err := s.showExisting(ctx, x); err != nil {
		return s.abandon(err)
	}
	return s.run(func(ctx context.Context, a *app.App) (string, error) { return x.ID, do(ctx, a.Conductor) })
}
