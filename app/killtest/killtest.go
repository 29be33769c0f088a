// Package killtest runs an execution in a process that a test kills, and goes on with it in the next one.
package killtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/store"
)

// folder in the environment makes the test binary the process that is killed.
const folder = "STEPWELL_TEST_KILL"

// Child is the body of TestKillChild: it runs the execution of Command's folder until its end, which it prints as ENDED and the status. The first
// process begins the execution: one step, whose relative paths start at charts in the folder.
func Child(t *testing.T, options func(dir string) app.Options, step func(dir string) definition.Step) {
	dir := os.Getenv(folder)
	if dir == "" {
		t.Skip("it is the other half of TestKill")
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	o := options(dir)
	o.DB, o.Log = filepath.Join(dir, "kill.db"), slog.New(slog.DiscardHandler)
	a, err := app.New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	running := make(chan error, 1)
	go func() { running <- errors.Join(a.Run(ctx), a.Close()) }()
	execution := filepath.Join(dir, "execution")
	raw, err := os.ReadFile(execution)
	id := string(raw)
	if err == nil {
		err = a.Conductor.Recover(ctx, id)
	} else {
		id, err = begin(ctx, a, dir, step(dir))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(execution, []byte(id), 0o600); err != nil {
		t.Fatal(err)
	}
	for {
		x, err := a.Store.Execution(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if x.Status.Terminal() {
			fmt.Println("ENDED", x.Status)
			explain(ctx, t, a, x.No)
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	if err := <-running; err != nil {
		t.Error(err)
	}
}

// explain prints why steps failed.
func explain(ctx context.Context, t *testing.T, a *app.App, execution int64) {
	steps, err := a.Store.Steps(ctx, execution, store.StepFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		if s.Error != nil {
			fmt.Println(s.Key, "failed:", s.Error.Code, s.Error.Message)
		}
	}
}

func begin(ctx context.Context, a *app.App, dir string, step definition.Step) (string, error) {
	p, err := a.Conductor.Register(ctx, &definition.Definition{Name: "kill", Steps: []definition.Step{step}})
	if err != nil {
		return "", err
	}
	return a.Conductor.Start(ctx, conductor.Request{Pipeline: p, Dir: filepath.Join(dir, "charts")})
}

// Command is a process that runs TestKillChild of the calling test's package in a folder. Programs in bin below it come first on its PATH; env are further
// variables.
func Command(t *testing.T, dir string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKillChild$", "-test.timeout=90s")
	cmd.Env = append(append(os.Environ(), folder+"="+dir, "PATH="+filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"), "TMPDIR="+dir), env...)
	return cmd
}
