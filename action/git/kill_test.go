package git_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/action/git"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/app/killtest"
	"github.com/stepwell/stepwell/definition"
)

// killRepo in the environment is the repository of the process that is killed.
const killRepo = "STEPWELL_TEST_KILL_REPO"

// TestKillChild is a process that runs the execution of a folder to its end, or until it is killed.
func TestKillChild(t *testing.T) {
	killtest.Child(t, func(string) app.Options { return app.Options{Git: git.Options{Protocols: []string{"file"}}} }, func(dir string) definition.Step {
		witness := filepath.Join(dir, "witness")
		return definition.Step{ID: "deploy", Action: git.Name, Params: params{"repo": os.Getenv(killRepo),
			"command": "echo $STEPWELL_COMMIT $(cat name) >> " + witness + "; test -e " + dir + "/killed || { touch " + dir + "/killed; kill -9 $PPID; sleep 0.2; }"}}
	})
}

// The points at which the process is killed: as git is called for the nth time, so that it goes on alone; or when it has
// ended. The last is in the command.
const gitCalls = 9

// TestKill kills the process at every point, with the branch moving on meanwhile: whatever was done before, all attempts
// check out and run one commit, and the step completes. Without STEPWELL_TEST_LONG it has the points that leave most behind.
func TestKill(t *testing.T) {
	points := []string{"in 2", "in 5", "after 9"}
	if os.Getenv("STEPWELL_TEST_LONG") != "" {
		points = nil
		for n := 1; n <= gitCalls; n++ {
			points = append(points, fmt.Sprintf("in %d", n), fmt.Sprintf("after %d", n))
		}
	}
	for _, point := range points {
		t.Run(point, func(t *testing.T) { t.Parallel(); kill(t, point) })
	}
	t.Run("in the command", func(t *testing.T) { t.Parallel(); kill(t, "") })
}

func kill(t *testing.T, point string) {
	o := newOrigin(t)
	o.commit(map[string]string{"name": "one"})
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	o.write(filepath.Join(bin, "git"), fmt.Sprintf(`#!/bin/sh
cd %[1]s || exit 9
n=$(($(cat count 2>/dev/null || echo 0) + 1)); echo $n > count
[ -e killed ] && point= || point=$(cat point)
cd "$OLDPWD" || exit 9
case "$point" in
"in $n") touch %[1]s/killed; kill -9 $PPID;;
"after $n") %[2]s "$@"; touch %[1]s/killed; kill -9 $PPID; exit;;
esac
exec %[2]s "$@"
`, dir, program(t)))
	o.write(filepath.Join(dir, "point"), point)
	child := func() string {
		out, _ := killtest.Command(t, dir, killRepo+"="+o.bare).CombinedOutput() // how it ended is in the output
		return string(out)
	}
	if out := child(); strings.Contains(out, "ENDED") {
		t.Fatalf("the process was not killed: %s", out)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "count")); err != nil || point == "" && strings.TrimSpace(string(raw)) != fmt.Sprint(gitCalls) {
		t.Errorf("git was called %s times before the command, want %d: %v", raw, gitCalls, err)
	}
	o.commit(map[string]string{"name": "two"})
	if out := child(); !strings.Contains(out, "ENDED completed") {
		t.Fatalf("the next process: %s", out)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "witness"))
	if err != nil {
		t.Fatal(err)
	}
	commits := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		commits[line] = true
	}
	if len(commits) != 1 {
		t.Errorf("the attempts ran %v", commits)
	}
}
