//go:build linux

package builtin

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stepwell/stepwell/action/actiontest"
)

// leftover starts a command as a Stepwell would have that is dead now, or still alive.
func leftover(t *testing.T, execution string, alive bool) (*exec.Cmd, string) {
	t.Helper()
	r := run(t, "util.exec", actiontest.Call{Execution: execution, Params: params{"command": "dirname \"$(dirname $STEPWELL_OUTPUT)\""}})
	dir, _ := r.Outputs["stdout"].(string)
	if r.Err != nil || dir == "" {
		t.Fatalf("outputs %v, error %v", r.Outputs, r.Err)
	}
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	})
	h := holder{Owner: os.Getpid(), OwnerStart: "1", Group: cmd.Process.Pid, GroupStart: startOf(cmd.Process.Pid)}
	if alive {
		h.OwnerStart = startOf(h.Owner)
	}
	raw, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, holderFile), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return cmd, dir
}

// The command that a dead process has left running is ended before the step runs again.
func TestLeftoverIsEnded(t *testing.T) {
	cmd, dir := leftover(t, "left-1", false)
	r := run(t, "util.exec", actiontest.Call{Execution: "left-1", Params: params{"command": "dirname \"$(dirname $STEPWELL_OUTPUT)\""}})
	if r.Err != nil || r.Outputs["stdout"] != dir {
		t.Errorf("the folder was not taken over: %v, %v", r.Outputs, r.Err)
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the command left running ended with %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder stays behind: %v", err)
	}
}

// What a living process runs for the same step is not touched.
func TestLeftoverOfTheLiving(t *testing.T) {
	cmd, dir := leftover(t, "left-2", true)
	r := run(t, "util.exec", actiontest.Call{Execution: "left-2", Params: params{"command": "dirname \"$(dirname $STEPWELL_OUTPUT)\""}})
	if r.Err != nil || r.Outputs["stdout"] == dir {
		t.Errorf("outputs %v, error %v", r.Outputs, r.Err)
	}
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the command of the living process: %v", err)
	}
}
