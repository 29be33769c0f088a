//go:build linux

package git_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/actiontest"
	"github.com/stepwell/stepwell/action/builtin"
	"github.com/stepwell/stepwell/action/git"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/sandbox"
)

// A confined command works on its own files, with git too, and reaches neither the cache nor a folder that is not opened.
func TestConfined(t *testing.T) {
	o := newOrigin(t)
	o.commit(map[string]string{"name": "one"})
	open, cache := t.TempDir(), filepath.Join(t.TempDir(), "cache")
	box, err := sandbox.New(sandbox.Options{Folders: []string{open}, Hidden: []string{cache}})
	if err != nil {
		t.Skipf("commands cannot be confined here: %v", err)
	}
	commands := builtin.Options{Sandbox: func(context.Context) (*sandbox.Sandbox, error) { return box, nil }}
	r := newRig(t, git.Options{CAFile: o.caFile, Cache: cache, Commands: commands}, outbound.Options{AllowCIDRs: loopback})
	call := actiontest.Call{Params: params{"repo": o.url, "command": "cat name; echo two > name; git diff --stat 2>&1; ls " + cache + " 2>&1; cat " + o.caFile + " 2>&1; true"}}
	out, _ := succeeds(t, r.run(t, call))["stdout"].(string)
	if !strings.HasPrefix(out, "one name | 2 +-\n 1 file changed") || strings.Count(out, "Permission denied") != 2 {
		t.Errorf("the command saw:\n%s", out)
	}
	call.Params["dir"] = filepath.Join(open, "files")
	succeeds(t, r.run(t, call))
	call.Params["dir"] = filepath.Join(t.TempDir(), "files")
	fails(t, r.run(t, call), stepwell.CodeDenied, true, "commands may not touch the folder")
}
