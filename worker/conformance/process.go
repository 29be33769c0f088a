package conformance

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
)

// process is the worker's command while it runs.
type process struct {
	cmd     *exec.Cmd
	printed *printed
	ended   chan struct{} // closed when it has ended
	err     error         // read after ended
}

// startWorker starts the command.
func (r *rig) startWorker() error {
	cmd := exec.Command(r.o.Command[0], r.o.Command[1:]...) //nolint:gosec // the user names it
	p := &process{cmd: cmd, printed: &printed{also: r.o.Output}, ended: make(chan struct{})}
	if r.process != nil { // what it printed is judged with what comes
		p.printed = r.process.printed
	}
	cmd.Dir, cmd.Env = r.o.Dir, append(os.Environ(), "STEPWELL_SERVER="+r.front.url, "STEPWELL_API_KEY="+r.key)
	cmd.Stdout, cmd.Stderr = p.printed, p.printed
	cmd.WaitDelay = time.Second // a child of the command may hold its output open
	if err := cmd.Start(); err != nil {
		return stepwell.Invalid("the command and its arguments come after --", "the worker's command does not start: %v", err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	r.process = p
	return nil
}

// kill ends the command at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// over reports whether the command has ended.
func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// maxPrinted bounds what is kept of the command's output, in bytes.
const maxPrinted = 1 << 20

// printed keeps the last of what a command prints.
type printed struct {
	mu   sync.Mutex
	text []byte
	also io.Writer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = append(p.text, b...)
	if n := len(p.text) - maxPrinted; n > 0 {
		p.text = append([]byte{}, p.text[n:]...)
	}
	_, _ = p.also.Write(b) // the judgement does not depend on it
	return len(b), nil
}

func (p *printed) holds(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Contains(p.text, []byte(text))
}

func (p *printed) last(n int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.text[max(0, len(p.text)-n):])
}

// oneWriter lets several commands write, one at a time.
type oneWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *oneWriter) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(b)
}
