package builtin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/sandbox"
)

const outputName = "output"

// sandbox is the sandbox of the command; nil: no confinement.
func (h execHandler) sandbox(ctx context.Context) (*sandbox.Sandbox, error) {
	if h.o.Sandbox == nil {
		return nil, nil
	}
	box, err := h.o.Sandbox(ctx)
	return box, final(err)
}

// final ends the step when something is denied: trying again does not help.
func final(err error) error {
	if stepwell.CodeOf(err) == stepwell.CodeDenied {
		return action.Fail(err)
	}
	return err
}

func admitted(box *sandbox.Sandbox, dir string) error { return final(box.Admits(cmp.Or(dir, "."))) }

// makeOwn makes the command's own folder, with its output file and its temporary directory. It is apart from the
// records about the command, which the command must not change.
func makeOwn(scratch string, box *sandbox.Sandbox) (string, error) {
	own := filepath.Join(scratch, "own")
	if err := os.Mkdir(own, 0o700); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(own, outputName), nil, 0o600); err != nil {
		return "", err
	}
	if box == nil {
		return own, nil
	}
	if err := os.Mkdir(filepath.Join(own, "tmp"), 0o700); err != nil {
		return "", err
	}
	return own, errors.Join(box.Own(own), os.Chmod(scratch, 0o711)) // another user passes through, and sees nothing else
}

// lend lets a confined command read the lesson's file, and names it as the command reaches it.
func lend(p *execParams, file, own string, box *sandbox.Sandbox) (lent []string, err error) {
	if file == "" || box == nil {
		return nil, nil
	}
	path, err := box.Lend(file, own)
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the lesson's file for the command", Err: err}
	}
	for _, list := range [][]string{p.argv, p.env} {
		for i := range list {
			list[i] = strings.ReplaceAll(list[i], file, path)
		}
	}
	was, _ := json.Marshal(file) // as it stands in JSON
	is, err := json.Marshal(path)
	p.stdin = bytes.ReplaceAll(bytes.ReplaceAll(p.stdin, was, is), []byte(file), []byte(path))
	return []string{path}, err
}

// environment is the whole environment of the program; of a repeated name the last entry counts.
func (h execHandler) environment(p execParams, call *action.Call, own string, box *sandbox.Sandbox) ([]string, error) {
	names := []string{"PATH", "HOME", "LANG", "TMPDIR"}
	for _, name := range p.PassEnv {
		if box != nil && (strings.HasPrefix(name, "STEPWELL_") || !slices.Contains(h.o.PassEnv, name)) {
			return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeDenied, Message: fmt.Sprintf("pass_env: commands may not see the server's variable %s", name),
				Hint: "add it to exec.pass_env in the server's settings; variables of Stepwell itself are never passed on"})
		}
	}
	var env []string
	for _, name := range append(names, p.PassEnv...) {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	if box != nil {
		home := filepath.Join(own, "tmp")
		env = append(env, "HOME="+home, "TMPDIR="+home)
	}
	env = append(env, p.env...)
	values := []string{filepath.Join(own, outputName), call.Execution, call.StepKey, fmt.Sprint(call.Attempt), call.IdempotencyKey()}
	for i, name := range reservedEnv {
		env = append(env, name+"="+strings.ReplaceAll(values[i], "\x00", ""))
	}
	if trace := call.Traceparent(); trace != "" {
		env = append(env, "TRACEPARENT="+trace)
	}
	return env, nil
}
