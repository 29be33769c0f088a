package media

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	programTimeout = 30 * time.Second
	programOutput  = 1 << 20 // bytes of an answer
	programErrors  = 4 << 10 // bytes of its error output
)

// Find looks for ffprobe and exiftool on PATH. A program that is not there stays empty.
func Find() Options {
	var o Options
	for name, path := range map[string]*string{"ffprobe": &o.Ffprobe, "exiftool": &o.Exiftool} {
		if found, err := exec.LookPath(name); err == nil {
			*path = found
		}
	}
	return o
}

// ask runs a program that describes a file and returns its answer and the first line of its error output. It gets no
// input, a minimal environment, and limited time and output.
func ask(ctx context.Context, program string, args ...string) (answer []byte, complaint string, err error) {
	ctx, cancel := context.WithTimeout(ctx, programTimeout)
	defer cancel()
	out, errs := &capped{left: programOutput}, &capped{left: programErrors, cut: true}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, errs, time.Second
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TZ=UTC"}
	if root := os.Getenv("SystemRoot"); root != "" { // Windows starts nothing without it
		cmd.Env = append(cmd.Env, "SystemRoot="+root)
	}
	err = cmd.Run()
	complaint, _, _ = strings.Cut(strings.TrimSpace(errs.String()), "\n")
	if ctx.Err() != nil {
		err = fmt.Errorf("no answer within %s: %w", programTimeout, ctx.Err())
	}
	return out.Bytes(), cleanText(complaint), err
}

var errTooLong = errors.New("the answer is too long")

// capped keeps a bounded amount of output: more is an error, or left out where cut says so.
type capped struct {
	bytes.Buffer
	left int
	cut  bool
}

func (c *capped) Write(p []byte) (int, error) {
	n := min(len(p), c.left)
	if n < len(p) && !c.cut {
		return 0, errTooLong
	}
	c.left -= n
	c.Buffer.Write(p[:n])
	return len(p), nil
}
