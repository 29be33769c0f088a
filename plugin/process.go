package plugin

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
)

// Bounds of what a plugin prints, all of which goes into the server's log.
const (
	maxLine   = 4000 // bytes of a line
	maxLines  = 100  // a second; the others are left out
	lastWords = 500  // bytes of its last line in messages
)

// process is one process of a plugin, with those that it starts.
type process struct {
	cmd   *exec.Cmd
	alive io.Closer     // the write end of its standard input: its end tells the process that the server has gone
	ended chan struct{} // closed when it has ended
	err   error         // read after ended

	printing sync.WaitGroup
	mu       sync.Mutex
	last     string // line that it has printed
}

// startProcess starts the program.
func startProcess(p *plugin, d *door) (*process, error) {
	path, err := p.program.find()
	if err != nil {
		return nil, err
	}
	c := &process{ended: make(chan struct{})}
	c.cmd = &exec.Cmd{Path: path, Args: p.program.Command, Dir: p.program.Dir, Env: append(p.program.environment(), "STEPWELL_SERVER=unix://"+d.path, "STEPWELL_API_KEY="+d.key), SysProcAttr: attributes()}
	alive, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.alive = alive
	read, write, err := os.Pipe() // of our own: a process that it leaves behind does not hold up Wait
	if err != nil {
		return nil, errors.Join(err, alive.Close())
	}
	c.cmd.Stdout, c.cmd.Stderr = write, write
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the process ends with the thread that has started it, and so with this program
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		_ = write.Close() // the process has it
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
			close(c.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(err, read.Close(), alive.Close())
	}
	expose(c.pid())
	log := p.s.o.Log.With("plugin", p.name, "pid", c.pid())
	c.printing.Go(func() { c.print(log, read) })
	return c, nil
}

func (c *process) pid() int { return c.cmd.Process.Pid }

// kill ends the process, and those that it has started.
func (c *process) kill() {
	killGroup(c.pid())
	<-c.ended
	_ = c.alive.Close() // it has ended
	printed := make(chan struct{})
	go func() { c.printing.Wait(); close(printed) }()
	select {
	case <-printed:
	case <-time.After(endPatience):
	}
}

// terminate asks the process to finish what it holds.
func (c *process) terminate() { terminate(c.pid()) }

// death says how it ended, with its last line.
func (c *process) death() error {
	<-c.ended
	c.mu.Lock()
	defer c.mu.Unlock()
	how := "exit status 0"
	if c.err != nil {
		how = c.err.Error()
	}
	if c.last != "" {
		how += ": " + stepwell.Head(c.last, lastWords)
	}
	return errors.New(how)
}

// print writes the lines of a plugin into the log, at most maxLines a second.
func (c *process) print(log *slog.Logger, from io.ReadCloser) {
	defer from.Close()
	lines := bufio.NewReaderSize(from, maxLine)
	second, printed := time.Now(), 0
	for {
		raw, more, err := lines.ReadLine()
		if err != nil {
			return
		}
		text := strings.ToValidUTF8(string(raw), "\uFFFD")
		for more && err == nil { // the rest of a long line
			_, more, err = lines.ReadLine()
		}
		if strings.TrimSpace(text) == "" {
			continue
		}
		c.mu.Lock()
		c.last = text
		c.mu.Unlock()
		if now := time.Now(); now.Sub(second) > time.Second {
			second, printed = now, 0
		}
		switch printed++; {
		case printed <= maxLines:
			log.Info("a plugin says", "line", text)
		case printed == maxLines+1:
			log.Warn("a plugin prints too much: the other lines of this second are left out")
		}
	}
}

// find looks for the program as a shell in its folder would.
func (p *Program) find() (string, error) {
	name := p.Command[0]
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		dir, err := filepath.Abs(p.Dir)
		if err != nil {
			return "", err
		}
		name = filepath.Join(dir, name)
	}
	return exec.LookPath(name)
}

// Check reports whether the program can be started. CodeInvalid, CodeNotFound.
func (p *Program) Check(name string) error {
	if err := p.Validate(name); err != nil {
		return err
	}
	if _, err := p.find(); err != nil {
		return stepwell.Errorf(stepwell.CodeNotFound, "a relative path is one below dir", "plugins.%s.command: %v", name, err)
	}
	if info, err := os.Stat(p.Dir); p.Dir != "" && (err != nil || !info.IsDir()) {
		return stepwell.Errorf(stepwell.CodeNotFound, "", "plugins.%s.dir: %s is not a folder", name, p.Dir)
	}
	return nil
}

// environment is all that the program sees of this process's variables, and its own.
func (p *Program) environment() (env []string) {
	for _, name := range append([]string{"PATH", "HOME", "LANG", "TZ", "TMPDIR"}, p.PassEnv...) {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	for name, v := range p.Env {
		env = append(env, fmt.Sprintf("%s=%s", name, v))
	}
	return env
}
