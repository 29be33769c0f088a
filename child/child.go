// Package child runs this program in processes of its own: servers and workers that measurements and `stepwell chaos` start,
// watch and end.
package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// maxSaid bounds what is kept of a process's output: its last lines.
const maxSaid = 200

// Process is this program, running with other arguments.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // how it ended; read after ended

	mu      sync.Mutex
	lines   []string
	ready   chan struct{} // closed when address is known
	address string
}

// Start starts this program in a folder, with more variables.
func Start(folder string, env []string, args ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(self, args...), ended: make(chan struct{}), ready: make(chan struct{})}
	p.cmd.Args[0] = os.Args[0] // a program may go by several names
	p.cmd.Dir, p.cmd.Env = folder, append(os.Environ(), env...)
	said, w := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = w, w
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.read(said)
	go func() {
		p.err = p.cmd.Wait()
		_ = w.Close() // cannot fail
		close(p.ended)
	}()
	return p, nil
}

// read keeps the last lines, and the address of a server.
func (p *Process) read(said io.Reader) {
	lines := bufio.NewScanner(said)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.mu.Lock()
		if p.lines = append(p.lines, lines.Text()); len(p.lines) > maxSaid {
			p.lines = p.lines[1:]
		}
		var said struct{ Msg, Address, Node string }
		if p.address == "" && json.Unmarshal(lines.Bytes(), &said) == nil {
			switch {
			case said.Msg == "ready":
				p.address = said.Address
			case said.Msg == "joined" && p.cmd.Args[1] != "serve": // a server's own worker joins it before it is ready
				p.address = said.Node
			}
			if p.address != "" {
				close(p.ready)
			}
		}
		p.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, said) // a line too long: nothing waits for its reader
}

// Address waits until a server says where it listens, the address that the process itself has, whatever else listens on this
// machine; or until a worker has joined a server.
func (p *Process) Address(ctx context.Context) (string, error) {
	select {
	case <-p.ready:
		return p.address, nil
	case <-p.ended:
		return "", fmt.Errorf("the process has not become ready: %w\n%s", errors.Join(p.err, ctx.Err()), p.Said())
	case <-ctx.Done():
		return "", fmt.Errorf("the process is not ready: %w\n%s", ctx.Err(), p.Said())
	}
}

// Said returns the last lines of its output.
func (p *Process) Said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Kill ends the process at once, as a loss of power would.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it has ended already, or ends now
	<-p.ended
}

// Stop ends the process in order; its output is part of the error when it fails. Where it does not end before ctx, it is
// killed.
func (p *Process) Stop(ctx context.Context) error {
	select {
	case <-p.ended:
	default:
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			p.Kill() // this system has no such signal
			return nil
		}
	}
	select {
	case <-p.ended:
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("it did not stop in time: %w\n%s", ctx.Err(), p.Said())
	}
	if p.err != nil {
		return fmt.Errorf("%w\n%s", p.err, p.Said())
	}
	return nil
}
