package view

import (
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
)

// shape is the part of a line that never changes.
type shape struct {
	key    string
	around string // keys of the steps around it, up to the last dot
	depth  int
	many   bool // stands for iterations or spawned steps, which are counted
	single bool // each iteration is one step: their number follows from the total
	body   bool // has steps inside, or iterations
	stream bool // a module of a stream
	asks   bool // an approval
	inside bool // in another step, in on_failure or in finally: known by its number alone until it has a row
	parent *line
}

// line is the picture of a step of the definition, or of all steps spawned under one name.
type line struct {
	shape
	status   stepwell.StepStatus
	hidden   bool // a handler that has not been needed
	attempt  int
	started  time.Time
	took     time.Duration
	wake     time.Time // end of a backoff or a wait
	fraction float64   // as the action says, 0 when it says nothing
	note     string
	items    *items // of a stream step
	message  string // why it failed, was skipped, is tried again

	total, ended, failed, running int
}

// label is the key without that of the steps around it, which are shown above.
func (l *line) label() string { return strings.TrimPrefix(l.key, l.around) }

// board is the lines in the order of the definition, found by key.
type board struct {
	lines []*line
	byKey map[string]*line
	ids   []string // keys of the steps at top level, by index
	waits map[string]string
}

// newBoard makes the lines of a definition. Steps inside groups and sub-pipelines get lines of
// their own, those inside a for_each are counted on its line.
func newBoard(d *definition.Definition) *board {
	b := &board{byKey: map[string]*line{}, waits: map[string]string{}}
	for i := range d.Steps {
		b.ids = append(b.ids, d.Steps[i].ID)
	}
	b.addAll(d, d.Steps, nil, "", 0, false)
	b.addAll(d, d.OnFailure, nil, "on_failure.", 0, true)
	b.addAll(d, d.Finally, nil, "finally.", 0, true)
	for i := range d.Steps {
		for _, dep := range d.Steps[i].DependsOn {
			if b.byKey[dep] == nil && b.waits[dep] == "" {
				b.waits[dep] = d.Steps[i].ID // a name of spawned steps: their line goes before who waits for them
			}
		}
	}
	return b
}

// maxDepth bounds the lines of nested groups; what is deeper is not shown.
const maxDepth = 4

func (b *board) addAll(root *definition.Definition, steps []definition.Step, parent *line, prefix string, depth int, hidden bool) {
	if depth > maxDepth {
		return
	}
	for i := range steps {
		s := &steps[i]
		l := &line{shape: shape{key: prefix + s.ID, depth: depth, many: s.ForEach != nil, stream: s.Module != "", asks: s.Action == "util.approval" || s.Action == "approval", inside: prefix != "", parent: parent}, hidden: hidden}
		l.single = l.many && s.Action != ""
		l.body = l.many || s.Action == "" && s.Module == ""
		if depth > 0 {
			l.around = prefix
		}
		b.lines = append(b.lines, l)
		b.byKey[l.key] = l
		switch sub := root.Pipelines[s.Pipeline]; {
		case l.many:
		case s.Pipeline != "" && sub != nil:
			b.addAll(root, sub.Steps, l, l.key+".", depth+1, hidden)
		default:
			b.addAll(root, s.Steps, l, l.key+".", depth+1, hidden)
		}
	}
}

// kin says what a step key is on the board.
type kin uint8

const (
	itself kin = iota // the line's own step
	child             // one of those that the line counts
	inner             // a step inside of one of those
	stray             // nothing that is shown
)

// find gives the line that a step belongs to; spawned steps get a line when the first one comes.
func (b *board) find(key string) (*line, kin) {
	if l := b.byKey[key]; l != nil && (!l.many || l.body) {
		return l, itself
	}
	for i, c := range key {
		switch c {
		case '[':
			if l := b.byKey[key[:i]]; l != nil && l.many {
				if end := strings.IndexByte(key[i:], ']'); end >= 0 && i+end+1 < len(key) {
					return l, inner
				}
				return l, child
			}
		case ':':
			return b.spawned(key[:i]), child
		}
	}
	if strings.ContainsAny(key, ".[") && b.byKey[key] == nil {
		return nil, stray
	}
	return b.spawned(key), child
}

func (b *board) spawned(name string) *line {
	if l := b.byKey[name]; l != nil {
		return l
	}
	l := &line{shape: shape{key: name, many: true}}
	at := slices.IndexFunc(b.lines, func(l *line) bool { return l.key == b.waits[name] || l.hidden })
	if at < 0 {
		at = len(b.lines)
	}
	b.lines = slices.Insert(b.lines, at, l)
	b.byKey[name] = l
	return l
}

// share is how much of the line is done, and whether that is known.
func (l *line) share() (float64, bool) {
	switch {
	case l.many && l.total > 0:
		return min(1, float64(l.ended)/float64(l.total)), true
	case !l.many && l.fraction > 0:
		return l.fraction, true
	}
	return 0, false
}

// state is the line's status; one that stands for spawned steps has none of its own.
func (l *line) state() stepwell.StepStatus {
	switch {
	case !l.many || l.body:
		return l.status
	case l.ended < l.total:
		return stepwell.StepRunning
	case l.failed > 0:
		return stepwell.StepFailed
	}
	return stepwell.StepCompleted
}
