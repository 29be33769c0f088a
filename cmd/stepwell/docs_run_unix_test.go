//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stepwell/stepwell/tooltest"
)

// pageSession is the shell in which the commands of a page run, from top to bottom, in a folder of the page's own.
type pageSession struct {
	page    *page
	dir     string
	shell   *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	ports   map[string]string // the port that runs for each that the page shows
	started int
	moved   int // by how many lines the page has grown
	broken  bool
}

// shownFolder is the page's folder as outputs show it.
const shownFolder = "/home/ada/work"

// docsPatience bounds one command of a page.
const docsPatience = 3 * time.Minute

var portOf = regexp.MustCompile(`(?:127\.0\.0\.1|localhost|0\.0\.0\.0|--listen |--port |http\.server )[:]?(\d{4,5})\b`)

// newPageSession starts the shell of a page.
func newPageSession(t *testing.T, p *page) *pageSession {
	t.Helper()
	for _, program := range p.needs {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("CI") == "" {
			t.Skipf("%s is run with %s only", p.name, program)
		}
	}
	s := &pageSession{page: p, dir: filepath.Join(t.TempDir(), "work"), ports: map[string]string{}}
	must(t, os.Mkdir(s.dir, 0o700))
	must(t, os.Symlink(filepath.Join(tooltest.Root(t), "examples"), filepath.Join(s.dir, "examples")))
	ports := []string{"8010"}
	for _, b := range p.blocks {
		if strings.HasPrefix(b.marking, "run") || strings.HasPrefix(b.marking, "file") {
			for _, m := range portOf.FindAllStringSubmatch(b.text(), -1) {
				ports = append(ports, m[1])
			}
		}
	}
	for _, port := range ports {
		if s.ports[port] == "" {
			_, free, err := net.SplitHostPort(freeAddress())
			must(t, err)
			s.ports[port] = free
		}
	}
	s.shell = exec.Command("bash", "--norc", "--noprofile")
	s.shell.Dir = s.dir
	s.shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "STEPWELL_") {
			s.shell.Env = append(s.shell.Env, v)
		}
	}
	s.shell.Env = append(s.shell.Env, "HOME="+s.dir, "TZ=UTC", "NO_COLOR=1", "COLUMNS=120",
		"STEPWELL_LISTEN=127.0.0.1:"+s.ports["8010"], serverVariable+"=http://127.0.0.1:"+s.ports["8010"])
	var err error
	s.in, err = s.shell.StdinPipe()
	must(t, err)
	out, err := s.shell.StdoutPipe()
	must(t, err)
	s.out, s.shell.Stderr = bufio.NewReader(out), nil
	must(t, s.shell.Start())
	return s
}

// close ends the shell and everything that it has started.
func (s *pageSession) close(t *testing.T) {
	_ = syscall.Kill(-s.shell.Process.Pid, syscall.SIGTERM) // servers release what they hold
	time.AfterFunc(10*time.Second, func() { _ = syscall.Kill(-s.shell.Process.Pid, syscall.SIGKILL) })
	_ = s.in.Close()
	_ = s.shell.Wait() // killed
	_ = syscall.Kill(-s.shell.Process.Pid, syscall.SIGKILL)
}

// write writes a block to the file that its marking names.
func (s *pageSession) write(t *testing.T, b *block, name string) {
	path := filepath.Join(s.dir, filepath.FromSlash(name))
	if !filepath.IsLocal(name) {
		s.page.find(b.at, "%s is outside of the page's folder", name)
		return
	}
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte(s.withPorts(b.text(), false)), 0o700))
}

// withPorts replaces the ports that the page shows by those that run, or back.
func (s *pageSession) withPorts(text string, back bool) string {
	for shown, free := range s.ports {
		if back {
			shown, free = free, shown
		}
		text = regexp.MustCompile(`\b`+shown+`\b`).ReplaceAllString(text, free)
	}
	return text
}

// run runs the commands of a block. how is a list of: exit N, the exit code of the last command; background, the last
// command goes on while the rest of the page runs; until, the last command is run until its output is there.
func (s *pageSession) run(t *testing.T, b *block, how string) {
	if s.broken {
		return // what follows would fail for the same reason
	}
	wantExit, background, again := 0, false, false
	for _, word := range strings.Split(how, ", ") {
		switch code, isExit := strings.CutPrefix(word, "exit "); {
		case isExit:
			wantExit, _ = strconv.Atoi(code)
		case word == "background":
			background = true
		case word == "until":
			again = true
		case word != "":
			s.page.find(b.at-2, "unknown way to run a block: %q", word)
			return
		}
	}
	commands := b.commands()
	for i, c := range commands {
		last := i == len(commands)-1
		exit := 0
		if last {
			exit = wantExit
		}
		if !s.command(t, b, c, exit, last && background, last && again) {
			s.broken = true
			return
		}
	}
}

// command runs one command and compares what it says. It reports whether the page can go on.
func (s *pageSession) command(t *testing.T, b *block, c shownCommand, wantExit int, background, again bool) bool {
	s.started++
	script := filepath.Join(filepath.Dir(s.dir), fmt.Sprintf("%d.sh", s.started))
	output := filepath.Join(filepath.Dir(s.dir), fmt.Sprintf("%d.out", s.started))
	must(t, os.WriteFile(script, []byte(s.withPorts(c.text, false)+"\n"), 0o600))
	run := fmt.Sprintf(". %s </dev/null >%s 2>&1; echo DONE $?\n", script, output)
	if background {
		run = fmt.Sprintf("{ . %s; } </dev/null >%s 2>&1 & echo DONE 0\n", script, output)
	}
	compared := b.language == "console" // a block of sh shows no output
	patience := docsPatience
	if *update {
		patience = 20 * time.Second // then what has come is the output
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		code, err := 0, error(nil)
		if run != "" {
			if code, err = s.say(run); err != nil {
				s.page.find(b.at+c.at, "%s: %v; output:\n%s", c.text, err, s.output(output))
				return false
			}
		}
		if background {
			run = ""
		}
		got := s.output(output)
		said := !compared || matches(c.wants, got)
		if said && background && strings.Contains(c.text, "stepwell serve") {
			said = s.ready()
		}
		if said && code == wantExit {
			return true
		}
		if (background || again) && time.Now().Before(deadline) {
			continue
		}
		if code != wantExit {
			s.page.find(b.at+c.at, "%s: exit code %d, want %d; output:\n%s", c.text, code, wantExit, got)
			return false
		}
		if !*update {
			s.page.find(b.at+c.at, "%s says\n%s\nand not\n%s", c.text, got, strings.Join(c.wants, "\n"))
			return true
		}
		s.replace(b, c, got)
		return true
	}
}

// say gives the shell a line and waits for the exit code.
func (s *pageSession) say(line string) (int, error) {
	late := time.AfterFunc(docsPatience, func() { _ = syscall.Kill(-s.shell.Process.Pid, syscall.SIGKILL) })
	defer late.Stop()
	if _, err := io.WriteString(s.in, line); err != nil {
		return 0, err
	}
	answer, err := s.out.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("the shell has ended, perhaps after %s without an answer: %w", docsPatience, err)
	}
	return strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(answer, "DONE ")))
}

// ready reports whether the server of the page is ready.
func (s *pageSession) ready() bool {
	answer, err := http.Get("http://127.0.0.1:" + s.ports["8010"] + "/readyz")
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// killedLine is what the shell says of a program that was killed.
var killedLine = regexp.MustCompile(`(?m)^\S+/\d+\.sh: line \d+: +\d+ (Killed|Terminated).*\n?`)

// output is what a command has said, as the page shows it.
func (s *pageSession) output(file string) string {
	raw, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	text := s.withPorts(string(raw), true)
	text = killedLine.ReplaceAllString(text, "")
	return strings.TrimRight(strings.ReplaceAll(text, s.dir, shownFolder), "\n ")
}

// replace writes what a command has said into the page.
func (s *pageSession) replace(b *block, c shownCommand, got string) {
	var lines []string
	if got != "" {
		for line := range strings.SplitSeq(got, "\n") {
			lines = append(lines, strings.TrimRight(b.indent+line, " "))
		}
	}
	from := b.at + c.output + s.moved
	s.page.lines = slices.Replace(s.page.lines, from, from+len(c.wants), lines...)
	s.moved += len(lines) - len(c.wants)
	s.page.changed = true
}

// varying are parts of an output that differ from run to run, and what they are compared as.
var varying = []struct {
	pattern *regexp.Regexp
	as      string
}{
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b`), "ID"},
	{regexp.MustCompile(`\b01[0-9a-f]{6}\b`), "ID"}, // the beginning of one
	{regexp.MustCompile(`\b(sw|whsec)_[0-9A-Za-z_-]{8,}`), "KEY"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d| [A-Z]{3,4}\b)?`), "TIME"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d(\.\d+)?\b`), "TIME"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(ms|µs|s|m|h))+\b`), "DURATION"},
	{regexp.MustCompile(`[ \t]+`), " "},
}

func comparable(text string) string {
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.as)
	}
	return strings.TrimRight(text, " ")
}

// matches reports whether an output is as shown: ids, times and durations may differ, … stands for any text, and a line of
// its own for any lines.
func matches(wants []string, got string) bool {
	var b strings.Builder
	b.WriteString(`^`)
	for i, want := range wants {
		if strings.TrimSpace(want) == "…" {
			b.WriteString(`(?:.*\n)*`)
			continue
		}
		for j, part := range strings.Split(comparable(want), "…") {
			if j > 0 {
				b.WriteString(`.*`)
			}
			b.WriteString(regexp.QuoteMeta(part))
		}
		if b.WriteString(`\n`); i == len(wants)-1 {
			break
		}
	}
	b.WriteString(`\n*$`)
	var lines []string
	for line := range strings.SplitSeq(got, "\n") {
		lines = append(lines, comparable(line))
	}
	return regexp.MustCompile(b.String()).MatchString(strings.Join(lines, "\n") + "\n")
}
