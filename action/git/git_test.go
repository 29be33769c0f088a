package git_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
)

// The command runs in the commit's files; a script of the repository gives outputs as one of util.exec does.
func TestRun(t *testing.T) {
	o := newOrigin(t)
	first := o.commit(map[string]string{"run.sh": "#!/bin/sh\necho \"n=$1\" >> $STEPWELL_OUTPUT\n", "tools/eu/name": "eu\n"})
	o.git(o.work, "tag", "-a", "-m", "one", "v1")
	o.git(o.work, "push", "-q", o.bare, "v1")
	second := o.commit(map[string]string{"tools/eu/name": "europe\n"})
	r := o.rig()
	tests := map[string]struct {
		params params
		commit string
		want   params
	}{
		"main":                {params{"command": []any{"./run.sh", 7}}, second, params{"n": "7", "exit_code": int64(0)}},
		"folder":              {params{"command": "cat name; pwd | grep -o tools.*", "path": "tools/eu"}, second, params{"stdout": "europe\ntools/eu"}},
		"tag":                 {params{"command": "cat tools/eu/name", "ref": "v1"}, first, params{"stdout": "eu"}},
		"default branch":      {params{"command": "true", "ref": "HEAD"}, second, params{"stdout": ""}},
		"whole name":          {params{"command": "true", "ref": "refs/heads/main"}, second, params{"stdout": ""}},
		"commit":              {params{"command": "cat tools/eu/name; echo $STEPWELL_COMMIT", "ref": first}, first, params{"stdout": "eu\n" + first}},
		"history":             {params{"command": "git rev-list --count HEAD", "depth": 0}, second, params{"stdout": "2"}},
		"no history":          {params{"command": "git rev-list --count HEAD; git status --short"}, second, params{"stdout": "1"}},
		"one folder":          {params{"command": "ls; ls tools; git status --short", "sparse": []any{"tools/eu"}}, second, params{"stdout": "run.sh\ntools\neu"}},
		"exit code":           {params{"command": "exit 3", "success_codes": []any{3}}, second, params{"exit_code": int64(3)}},
		"not the environment": {params{"command": "env | grep -c GIT_ || true"}, second, params{"stdout": "0"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.params["repo"] = o.url
			got := succeeds(t, r.run(t, actiontest.Call{Params: test.params}))
			if got["commit"] != test.commit {
				t.Errorf("commit %v, want %s", got["commit"], test.commit)
			}
			for name, want := range test.want {
				if got[name] != want {
					t.Errorf("%s is %q, want %q", name, got[name], want)
				}
			}
		})
	}
}

// An attempt knows what git has brought over the network, and the processor time of git and of the command.
func TestResources(t *testing.T) {
	o := newOrigin(t)
	o.commit(map[string]string{"noise": noise(200_000)})
	var meter action.Meter
	call := actiontest.Call{Execution: "x", Params: params{"repo": o.url, "command": "true"}}
	succeeds(t, actiontest.Run(context.WithValue(t.Context(), action.MeterKey{}, &meter), o.rig().action, call))
	if used := meter.Used(); used == nil || used.BytesIn < 100_000 || used.BytesIn > 10_000_000 || used.BytesOut < 100 || used.CPUSeconds <= 0 {
		t.Errorf("the attempt has used %+v", used)
	}
}

// All attempts of a step use the commit of the first one, wherever the branch has gone.
func TestOneCommitForAllAttempts(t *testing.T) {
	o := newOrigin(t)
	first := o.commit(map[string]string{"name": "one"})
	r := o.rig()
	call := actiontest.Call{Params: params{"repo": o.url, "command": "cat name; exit 1"}}
	got := r.run(t, call)
	fails(t, got, stepwell.CodeFailed, false, "one")
	second := o.commit(map[string]string{"name": "two"})
	call.Memory, call.Attempt = got.Memory, 2
	call.Params["command"] = "cat name"
	if out := succeeds(t, r.run(t, call)); out["stdout"] != "one" || out["commit"] != first {
		t.Errorf("the second attempt has %v", out)
	}
	call.Memory = nil // a restart
	if out := succeeds(t, r.run(t, call)); out["stdout"] != "two" || out["commit"] != second {
		t.Errorf("the restart has %v", out)
	}
}

// A branch that was forced to another history: the recorded commit comes from the server as long as it has it, then from
// the cache, else the step fails.
func TestForcePush(t *testing.T) {
	o := newOrigin(t)
	first := o.commit(map[string]string{"name": "one"})
	r := o.rig()
	call := actiontest.Call{Params: params{"repo": o.url, "command": "cat name; exit 1"}}
	got := r.run(t, call)
	fails(t, got, stepwell.CodeFailed, false, "one")
	o.git(o.work, "checkout", "-q", "--orphan", "other")
	o.commit(map[string]string{"name": "two"})
	o.git(o.bare, "reflog", "expire", "--expire=now", "--all")
	o.git(o.bare, "gc", "-q", "--prune=now")
	call.Memory = got.Memory
	call.Params["command"] = "cat name"
	if out := succeeds(t, r.run(t, call)); out["stdout"] != "one" || out["commit"] != first {
		t.Errorf("with the cache: %v", out)
	}
	fails(t, o.rig().run(t, call), stepwell.CodeNotFound, true, "force-pushed")
}

// Without git the error says what to install.
func TestNoGit(t *testing.T) {
	r := newOrigin(t).rig()
	t.Setenv("PATH", t.TempDir())
	got := r.run(t, actiontest.Call{Params: params{"repo": "https://example.org/a.git", "command": "true"}})
	fails(t, got, stepwell.CodeInvalid, true, "which is not on PATH")
	if hint := stepwell.HintOf(got.Err); !strings.Contains(hint, "install git 2.32 or later") {
		t.Errorf("hint %q", hint)
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\necho git version 2.17.1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	fails(t, r.run(t, actiontest.Call{Params: params{"repo": "https://example.org/a.git", "command": "true"}}), stepwell.CodeInvalid, true, "is version 2.17.1")
}

// Files stay where and when the step says; nothing else is replaced.
func TestDir(t *testing.T) {
	o := newOrigin(t)
	o.commit(map[string]string{"name": "one"})
	r := o.rig()
	tests := map[string]struct {
		command string
		keep    string
		stays   bool
	}{
		"never":             {"true", "never", false},
		"never, failed":     {"false", "never", false},
		"failed, completed": {"true", "failed", false},
		"failed":            {"false", "failed", true},
		"always":            {"true", "always", true},
		"always, failed":    {"false", "always", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			call := actiontest.Call{Dir: base, Params: params{"repo": o.url, "command": test.command, "dir": "out/files", "keep": test.keep}}
			got := r.run(t, call)
			_, err := os.Stat(filepath.Join(base, "out", "files", "name"))
			if (err == nil) != test.stays {
				t.Errorf("the files stay: %v; the step: %v", err, got.Err)
			}
			if dir := got.Outputs["dir"]; got.Err == nil && (dir == filepath.Join(base, "out", "files")) != test.stays {
				t.Errorf("dir is %v", dir)
			}
			call.Params["command"] = "cat name"
			succeeds(t, r.run(t, call)) // again, also over what stays
		})
	}
	t.Run("somebody's files", func(t *testing.T) {
		base := t.TempDir()
		mine := filepath.Join(base, "mine.txt")
		o.write(mine, "mine")
		fails(t, r.run(t, actiontest.Call{Dir: base, Params: params{"repo": o.url, "command": "true", "dir": "."}}), stepwell.CodeConflict, true, "not empty")
		if _, err := os.Stat(mine); err != nil {
			t.Error(err)
		}
	})
}
