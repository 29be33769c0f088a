package rehearsal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
)

// maxAnswer bounds what a rehearsal may answer.
const maxAnswer = 16 << 20

// Company lets callers rehearse, one thing at a time each, and together as many as Most.
type Company struct {
	// Args are the arguments with which this program serves a rehearsal (Stage.Serve). Required.
	Args []string
	// Most is how many go on at once. Defaults to 2.
	Most int

	mu   sync.Mutex
	busy map[string]bool
}

// Enter begins something of a caller, who has one thing going on at a time; leave ends it. CodeLimit: it has one already.
// CodeUnavailable: too many others have.
func (c *Company) Enter(caller string) (leave func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := c.Most
	if most <= 0 {
		most = 2
	}
	switch {
	case c.busy[caller]:
		return nil, stepwell.Errorf(stepwell.CodeLimit, "wait for its answer", "another plan, test or lab of this caller is going on")
	case len(c.busy) >= most:
		return nil, stepwell.Errorf(stepwell.CodeUnavailable, "try again in some seconds", "too many plans, tests and labs are going on")
	}
	if c.busy == nil {
		c.busy = map[string]bool{}
	}
	c.busy[caller] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.busy, caller)
	}, nil
}

// Perform has a rehearsal in a process of its own, and ends it after MaxTime. CodeTimeout and CodeLimit: it took too much.
func (c *Company) Perform(ctx context.Context, r *Request) (*Answer, error) {
	sent, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(sent) > maxSent {
		return nil, stepwell.Errorf(stepwell.CodeLimit, "take fewer or smaller executions", "the request is larger than %d MiB", maxSent>>20)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "stepwell-rehearsal-") // here: the process may be killed
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // what cannot be deleted stays in the system's folder for temporary files
	late := stepwell.Errorf(stepwell.CodeTimeout, "ask for less: fewer tests, a smaller definition", "it has taken longer than %s", MaxTime)
	ctx, cancel := context.WithTimeoutCause(ctx, MaxTime, late)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, c.Args...)
	cmd.Args[0] = os.Args[0] // a program may go by several names
	cmd.Env, cmd.Stdin, cmd.WaitDelay = append(harmless(os.Environ()), "TMPDIR="+dir, "TMP="+dir, "TEMP="+dir), bytes.NewReader(sent), time.Second
	out, said := &limited{left: maxAnswer}, &limited{left: 4 << 10}
	cmd.Stdout, cmd.Stderr = out, said
	err = cmd.Run()
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case out.full:
		return nil, stepwell.Errorf(stepwell.CodeLimit, "ask for less: fewer tests", "the answer is larger than %d MiB", maxAnswer>>20)
	case errors.As(err, &ended) && ended.ExitCode() == exitMemory:
		return nil, stepwell.Errorf(stepwell.CodeLimit, "ask for less: fewer tests, a smaller definition", "it has used more than %d MB of memory", MaxMemory>>20)
	case err != nil:
		return nil, fmt.Errorf("a rehearsal: %w: %s", err, strings.TrimSpace(said.String()))
	}
	answer := &Answer{}
	if err := json.Unmarshal(out.Bytes(), answer); err != nil {
		return nil, fmt.Errorf("the answer of a rehearsal: %w", err)
	}
	if f := answer.Failure; f != nil {
		return nil, &stepwell.Error{Code: f.Code, Message: f.Message, Hint: f.Hint}
	}
	return answer, nil
}

// harmless is the environment without what might be a secret.
func harmless(environ []string) (out []string) {
	for _, v := range environ {
		name, _, _ := strings.Cut(strings.ToUpper(v), "=")
		secret := strings.Contains(v, "://") && strings.Contains(v, "@") // a URL with a password
		for _, word := range []string{"KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "_DSN", "DATABASE_URL"} {
			secret = secret || strings.Contains(name, word)
		}
		if !secret {
			out = append(out, v)
		}
	}
	return out
}

// limited keeps the beginning of what is written. The writer is not told: it ends by itself.
type limited struct {
	bytes.Buffer
	left int
	full bool
}

var _ io.Writer = (*limited)(nil)

// Write implements io.Writer.
func (l *limited) Write(b []byte) (int, error) {
	n := min(len(b), l.left)
	l.full = l.full || n < len(b)
	l.left -= n
	l.Buffer.Write(b[:n])
	return len(b), nil
}
