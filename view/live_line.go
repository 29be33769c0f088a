package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// The colours, as terminals know them.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

func (v *liveView) paint(code, text string) string {
	if !v.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// step is one line of the picture.
func (v *liveView) step(l *line, now time.Time, names, width int) string {
	indent := strings.Repeat("  ", l.depth)
	name := OneLine(l.label(), max(4, names-len(indent)))
	pad := strings.Repeat(" ", max(0, names-len(indent)-len([]rune(name))))
	return " " + v.mark(l.state()) + " " + indent + name + pad + "  " + v.details(l, now, max(10, width-names-6))
}

// details is what is known about a step beyond its name.
func (v *liveView) details(l *line, now time.Time, width int) string {
	message := OneLine(l.message, max(10, width-12))
	switch s := l.state(); {
	case l.many && (s == stepwell.StepRunning || l.ended > 0):
		return v.counted(l, now, width)
	case s == stepwell.StepRunning:
		return v.working(l, now, width)
	case s == stepwell.StepRetrying:
		return v.paint(yellow, fmt.Sprintf("attempt %d failed, again in %s: ", l.attempt, Short(max(0, l.wake.Sub(now))))) + message
	case s == stepwell.StepWaiting && l.asks:
		return v.paint(yellow, "waits for an approval: ") + message
	case s == stepwell.StepWaiting:
		if l.wake.IsZero() {
			return "waits"
		}
		return "waits until " + near(l.wake, now)
	case s == stepwell.StepCompleted && l.attempt > 1:
		return v.paint(dim, fmt.Sprintf("%s, attempt %d", Short(l.took), l.attempt))
	case s == stepwell.StepCompleted && l.items != nil:
		return v.paint(dim, Short(l.took)+"  "+l.items.text())
	case s == stepwell.StepCompleted:
		return v.paint(dim, Short(l.took))
	case s == stepwell.StepFailed || s == stepwell.StepTimedOut:
		return v.paint(red, strings.ReplaceAll(s.String(), "_", " ")+": ") + message
	case s == stepwell.StepSkipped || s == stepwell.StepCancelled:
		if message == "" {
			return v.paint(dim, s.String())
		}
		return v.paint(dim, s.String()+": "+message)
	case s == stepwell.StepQueued:
		return v.paint(dim, "queued")
	}
	return ""
}

// near is a time with its zone, and with its day if that is another one.
func near(t, now time.Time) string {
	if t = t.Local(); t.Format(time.DateOnly) == now.Local().Format(time.DateOnly) {
		return t.Format("15:04:05 MST")
	}
	return t.Format(cellTime)
}

// working: a step that runs, with its own progress when it reports any.
func (v *liveView) working(l *line, now time.Time, width int) string {
	since := now.Sub(l.started)
	var parts []string
	if share, known := l.share(); known {
		parts = append(parts, v.bar(share), fmt.Sprintf("%3.0f%%", 100*share), Short(since)+eta(share, since))
	} else {
		parts = append(parts, Short(since))
	}
	if l.attempt > 1 {
		parts = append(parts, v.paint(yellow, fmt.Sprintf("attempt %d", l.attempt)))
	}
	return strings.Join(append(parts, v.paint(dim, OneLine(l.note, width))), "  ")
}

// counted: a line that stands for many steps.
func (v *liveView) counted(l *line, now time.Time, width int) string {
	var parts []string
	count := fmt.Sprint(l.ended)
	share, known := l.share()
	over := l.state().Terminal()
	if known {
		count = fmt.Sprintf("%d/%d", l.ended, l.total)
		if !over {
			parts = append(parts, v.bar(share))
		}
	}
	parts = append(parts, count)
	if l.failed > 0 {
		parts = append(parts, v.paint(red, fmt.Sprintf("%d failed", l.failed)))
	}
	if over || l.started.IsZero() {
		if l.took > 0 {
			parts = append(parts, v.paint(dim, Short(l.took)))
		}
		return strings.Join(parts, "  ")
	}
	since := now.Sub(l.started)
	if l.running > 0 {
		parts = append(parts, fmt.Sprintf("%d running", l.running))
	}
	if rate := float64(l.ended) / max(since.Seconds(), 0.001); l.ended > 1 && since > time.Second {
		parts = append(parts, rateText(rate))
	}
	parts = append(parts, Short(since)+eta(share, since), v.paint(dim, OneLine(l.note, width)))
	return strings.Join(parts, "  ")
}

// rateText is a rate with about three digits.
func rateText(perSecond float64) string {
	if perSecond >= 100 {
		return fmt.Sprintf("%.0f/s", perSecond)
	}
	return fmt.Sprintf("%.3g/s", perSecond)
}

// eta is how long it will take still, once that can be said.
func eta(share float64, since time.Duration) string {
	if share < 0.02 || share >= 1 || since < time.Second {
		return ""
	}
	return ", " + Short(time.Duration(float64(since)*(1-share)/share)) + " left"
}

const barWidth = 20

func (v *liveView) bar(share float64) string {
	full := int(share * barWidth)
	return v.paint(cyan, strings.Repeat("━", full)) + v.paint(dim, strings.Repeat("─", barWidth-full))
}

// cut shortens a line to a width without counting colours, and ends them.
func cut(s string, width int) string {
	var b strings.Builder
	count, colour := 0, false
	for i := 0; i < len(s); {
		if s[i] == 0x1b {
			end := strings.IndexByte(s[i:], 'm')
			if end < 0 {
				break
			}
			b.WriteString(s[i : i+end+1])
			i += end + 1
			colour = true
			continue
		}
		if count == width {
			break
		}
		r := []rune(s[i:min(len(s), i+4)])[0]
		b.WriteRune(r)
		i += len(string(r))
		count++
	}
	if colour {
		b.WriteString("\x1b[0m")
	}
	return b.String()
}
