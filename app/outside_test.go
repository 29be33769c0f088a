package app_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

// outsideHow says when a child of TestKillNineWhileCancelling dies: before, in or after the call of Cancel; "" is not at all.
const outsideHow = "STEPWELL_TEST_OUTSIDE"

// outsideAction leaves work outside, or owns it while it runs; what was stopped is a line in a file.
type outsideAction struct{ how, file string }

func (o outsideAction) Run(ctx context.Context, c *action.Call) (any, error) {
	if c.Params["own"] != true {
		return nil, action.Poll(time.Now().Add(time.Hour), "job", "left")
	}
	if err := c.Host.Own(ctx, []byte(`"owned"`)); err != nil {
		return nil, err
	}
	fmt.Println("owns")
	<-ctx.Done()
	if o.how == "before" {
		die()
	}
	return nil, ctx.Err()
}

func (o outsideAction) Cancel(_ context.Context, c *action.Call) error {
	if o.how == "before" {
		die()
	}
	f, err := os.OpenFile(o.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%s %s\n", c.StepKey, c.State); err != nil {
		return err
	}
	if o.how == "in" {
		die()
	}
	return nil
}

// die is kill -9.
func die() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}

func outsideChild(db, how string) error {
	ctx := context.Background()
	register := func(r *action.Registry) error {
		return r.Add(action.Action{Spec: spec.Spec{Name: "t.outside", Summary: "For tests.", Params: []spec.Field{{Name: "own", Type: spec.Boolean}}}, Handler: outsideAction{how, db + ".stopped"}})
	}
	a, err := app.New(ctx, app.Options{DB: db, Register: register})
	if err != nil {
		return err
	}
	go a.Run(ctx)
	list, err := a.Store.Executions(ctx, store.Filter{})
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return outsideBegin(ctx, a)
	}
	if err := a.Conductor.RecoverAll(ctx); err != nil {
		return err
	}
	if _, err := a.Conductor.Wait(ctx, list[0].ID); err != nil {
		return err
	}
	for {
		left, err := a.Store.OutsideWork(ctx, 0, store.OutsideWork{}, 0)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			fmt.Println("nothing left")
			return nil
		}
	}
}

// outsideBegin starts an execution, cancels it when its steps have work outside, and waits for its death.
func outsideBegin(ctx context.Context, a *app.App) error {
	d := &definition.Definition{Name: "outside", Steps: []definition.Step{{ID: "left", Action: "t.outside"}, {ID: "owned", Action: "t.outside", Params: map[string]any{"own": true}}}}
	p, err := a.Conductor.Register(ctx, d)
	if err != nil {
		return err
	}
	id, err := a.Conductor.Start(ctx, conductor.Request{Pipeline: p})
	if err != nil {
		return err
	}
	for waiting, owned := false, false; !waiting || !owned; {
		steps, err := a.Store.Steps(ctx, 1, store.StepFilter{Key: "left"})
		if err != nil {
			return err
		}
		waiting = len(steps) == 1 && steps[0].Status == stepwell.StepWaiting
		rows, err := a.Store.OutsideWork(ctx, 0, store.OutsideWork{}, 0)
		if err != nil {
			return err
		}
		owned = len(rows) == 1 && rows[0].Held
	}
	if err := a.Conductor.Cancel(ctx, id, "enough"); err != nil {
		return err
	}
	select {}
}

// The process dies at every point between the commit that cancels steps and the removal of their rows: what they had going on
// outside is stopped at least once, by a later process, and no row is left (A15).
func TestKillNineWhileCancelling(t *testing.T) {
	for _, how := range []string{"before", "in"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			db := filepath.Join(t.TempDir(), "outside.db")
			child := func(how string) (string, error) {
				cmd := exec.CommandContext(t.Context(), os.Args[0])
				cmd.Env = append(os.Environ(), crashDB+"="+db, outsideHow+"="+how)
				cmd.Stderr = os.Stderr
				out, err := cmd.Output()
				return string(out), err
			}
			for range 2 { // the second finds what the first has left, and dies too
				var exit *exec.ExitError
				if out, err := child(how); !errors.As(err, &exit) || exit.ExitCode() != -1 {
					t.Fatalf("the process was not killed: %v, %q", err, out)
				}
			}
			if out, err := child("never"); err != nil || !strings.HasSuffix(out, "nothing left\n") {
				t.Fatalf("%q, %v", out, err)
			}
			stopped, err := os.ReadFile(db + ".stopped")
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range []string{`left "left"`, `owned "owned"`} {
				if !strings.Contains(string(stopped), line+"\n") {
					t.Errorf("%s was not stopped:\n%s", line, stopped)
				}
			}
		})
	}
}
