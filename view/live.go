package view

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/stepwell/stepwell"
)

// redrawInterval is how often the picture is drawn while something runs.
const redrawInterval = 100 * time.Millisecond

// liveView redraws a tree of steps in place. It reads the tracker's board, under its lock.
type liveView struct {
	out     io.Writer
	size    func() (width, height int)
	colour  bool
	tracker *Tracker
	drawn   int // lines of the last picture
	notes   []string
	frame   int

	stop chan struct{}
	done sync.WaitGroup
}

func newLiveView(f *os.File, colour bool, t *Tracker) *liveView {
	v := &liveView{out: f, colour: colour, tracker: t, stop: make(chan struct{}), size: func() (int, int) {
		w, h, err := term.GetSize(int(f.Fd()))
		if err != nil || w < 20 || h < 5 {
			return 80, 24
		}
		return w, h
	}}
	v.done.Go(func() { // until close
		tick := time.NewTicker(redrawInterval)
		defer tick.Stop()
		for {
			select {
			case <-v.stop:
				return
			case now := <-tick.C:
				t.mu.Lock()
				v.frame++
				v.draw(now, false)
				t.mu.Unlock()
			}
		}
	})
	return v
}

// show puts warnings and errors above the picture, where they stay.
func (v *liveView) show(e *Event) {
	if e.Type == "log" && (e.Level == "warning" || e.Level == "error") {
		v.notes = append(v.notes, v.paint(yellow, e.Level)+" "+e.Step+": "+OneLine(e.Message, 1000)+Attributes(e.Attrs))
	}
}

func (v *liveView) say(text string) { v.notes = append(v.notes, v.paint(bold, text)) }

// close ends the loop, draws the last picture and leaves it.
func (v *liveView) close() {
	close(v.stop)
	v.done.Wait()
	v.tracker.mu.Lock()
	defer v.tracker.mu.Unlock()
	v.draw(time.Now(), true)
}

// longestPicture bounds what is left on the screen at the end.
const longestPicture = 200

// draw replaces the last picture, in one write.
func (v *liveView) draw(now time.Time, last bool) {
	width, height := v.size()
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r\x1b[J", v.drawn)
	}
	for _, n := range v.notes {
		b.WriteString(n + "\n") // it stays, so it may be as long as it is
	}
	v.notes = v.notes[:0]
	var lines []string
	if last {
		lines = v.picture(now, width-1, longestPicture)
	} else {
		lines = append(v.picture(now, width-1, height-2), v.footer(now))
	}
	for _, l := range lines {
		b.WriteString(cut(l, width-1) + "\n")
	}
	v.drawn = len(lines)
	io.WriteString(v.out, b.String()) //nolint:errcheck // a terminal that is gone ends the process by itself
}

// picture is the lines of the steps, or of those among them that matter most when the screen is too
// small: what runs or has failed comes first, then what is next.
func (v *liveView) picture(now time.Time, width, height int) []string {
	shown, rest := choose(v.tracker.board.lines, height)
	names := 8
	for _, l := range shown {
		names = max(names, len([]rune(l.label()))+2*l.depth)
	}
	names = min(names, max(12, width/3))
	var out []string
	for _, l := range shown {
		out = append(out, v.step(l, now, names, width))
	}
	if rest != "" {
		out = append(out, v.paint(dim, "   "+rest))
	}
	return out
}

// choose finds at most height lines to show, and says what is left out.
func choose(lines []*line, height int) (shown []*line, rest string) {
	var visible []*line
	for _, l := range lines {
		if !l.hidden {
			visible = append(visible, l)
		}
	}
	if len(visible) <= height {
		return visible, ""
	}
	left := height - 1
	keep := make(map[*line]bool, height)
	for _, wanted := range []func(stepwell.StepStatus) bool{active, ended, waiting, stepwell.StepStatus.Terminal} {
		for _, l := range visible {
			if left > 0 && !keep[l] && wanted(l.state()) {
				keep[l] = true
				left--
			}
		}
	}
	done := 0
	for _, l := range visible {
		switch {
		case keep[l]:
			shown = append(shown, l)
		case l.state().Terminal():
			done++
		}
	}
	return shown, fmt.Sprintf("… and %d more, %d of them done", len(visible)-len(shown), done)
}

// The order in which a small screen is filled.
func active(s stepwell.StepStatus) bool {
	return s == stepwell.StepRunning || s == stepwell.StepRetrying || s == stepwell.StepWaiting
}
func ended(s stepwell.StepStatus) bool {
	return s == stepwell.StepFailed || s == stepwell.StepTimedOut || s == stepwell.StepCancelled
}
func waiting(s stepwell.StepStatus) bool { return !s.Terminal() }

func (v *liveView) footer(now time.Time) string {
	t := v.tracker
	p := t.progress
	text := fmt.Sprintf(" %s · %s · %d of %d steps · %d running", t.status, Short(now.Sub(t.begun)),
		p.Completed+p.Failed+p.Skipped+p.Cancelled, p.Total, t.active)
	if t.draining {
		text += " · waiting for the running steps, Ctrl-C stops them"
	}
	return v.paint(dim, text)
}

// The marks of the states.
const (
	markCompleted = "✔"
	markFailed    = "✘"
	markSkipped   = "⊘"
	markWaiting   = "◷"
	markRetrying  = "↻"
	markPending   = "·"
)

var spinner = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

func (v *liveView) mark(s stepwell.StepStatus) string {
	switch s {
	case stepwell.StepRunning:
		return v.paint(cyan, spinner[v.frame%len(spinner)])
	case stepwell.StepCompleted:
		return v.paint(green, markCompleted)
	case stepwell.StepFailed, stepwell.StepTimedOut:
		return v.paint(red, markFailed)
	case stepwell.StepSkipped, stepwell.StepCancelled:
		return v.paint(yellow, markSkipped)
	case stepwell.StepRetrying:
		return v.paint(yellow, markRetrying)
	case stepwell.StepWaiting:
		return v.paint(cyan, markWaiting)
	}
	return v.paint(dim, markPending)
}
