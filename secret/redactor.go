package secret

import (
	"strings"
	"sync"
)

// The memory of one execution: two generations of values of limited size; the older one is dropped when the younger is
// full. Secret parameters are in both.
const (
	maxLearned  = 2000
	maxLearnedB = 4 << 20 // bytes of patterns
	maxEnded    = 200     // executions that have ended, of which late lines may come
	minLearned  = 6       // bytes of a value derived from a secret
	minPiece    = 8       // bytes, when it is a piece of the secret itself
)

// Redactor knows values and hides them. It may be used by any goroutine. Looking costs about a nanosecond a byte,
// and nothing while there is nothing to look for.
type Redactor struct {
	mu    sync.RWMutex
	all   *matcher // for every execution
	known map[string]bool
	runs  map[string]*learned
	ended []string
}

// learned are the secrets known for one execution only.
type learned struct {
	pinned     []string
	young, old *matcher
	seen, past map[string]bool // the values of young and old, and whether they are mixed
}

// NewRedactor makes a redactor without secrets.
func NewRedactor() *Redactor {
	return &Redactor{all: newMatcher(), known: map[string]bool{}, runs: map[string]*learned{}}
}

// Add makes values known for everything that is shown, for as long as the process lives.
func (r *Redactor) Add(values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range values {
		if len(v) >= MinValue && !r.known[v] {
			r.known[v] = true
			r.all.add(v, false)
		}
	}
}

// Pin makes values known for one execution until it is forgotten: its secret parameters.
func (r *Redactor) Pin(execution string, values ...string) {
	for _, v := range values {
		r.take(execution, v, true)
	}
}

// take makes a value of any length known.
func (r *Redactor) take(execution, v string, pin bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(v) < MinValue || r.known[v] {
		return
	}
	if run := r.run(execution); run.learn(v, false) && pin {
		run.pinned = append(run.pinned, v)
	}
}

// Learn makes values known that came about during one execution. The last 2,000 are remembered at least. Values too
// short to be distinctive are ignored.
func (r *Redactor) Learn(execution string, values ...string) {
	for _, v := range values {
		if len(v) < minLearned || r.remembers(execution, v) {
			continue
		}
		spans := r.find(execution, v)
		r.mu.Lock()
		if !r.known[v] && (len(v) >= minPiece || !r.piece(execution, v)) {
			r.run(execution).learn(v, len(spans) > 0)
		}
		r.mu.Unlock()
	}
}

func (r *Redactor) remembers(execution, v string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	run := r.runs[execution]
	if run == nil {
		return r.known[v]
	}
	_, known := run.seen[v]
	return known || r.known[v]
}

// piece reports whether a known value contains it. The lock is held.
func (r *Redactor) piece(execution, v string) bool {
	sets := [][]string{r.all.values}
	if run := r.runs[execution]; run != nil {
		sets = append(sets, run.young.values)
		if run.old != nil {
			sets = append(sets, run.old.values)
		}
	}
	for _, values := range sets {
		for _, known := range values {
			if strings.Contains(known, v) {
				return true
			}
		}
	}
	return false
}

func (r *Redactor) run(execution string) *learned {
	run := r.runs[execution]
	if run == nil {
		run = &learned{young: newMatcher(), seen: map[string]bool{}}
		r.runs[execution] = run
	}
	return run
}

// learn reports whether the value was not known yet; mixed as with matcher.add.
func (l *learned) learn(v string, mixed bool) bool {
	if _, known := l.seen[v]; known {
		return false
	}
	if len(l.seen) >= maxLearned || l.young.size >= maxLearnedB {
		l.old, l.past = l.young, l.seen
		l.young, l.seen = newMatcher(), map[string]bool{}
		for _, p := range l.pinned {
			l.seen[p] = false
			l.young.add(p, false)
		}
	}
	was, old := l.past[v]
	if old {
		mixed = was
	}
	l.seen[v] = mixed
	l.young.add(v, mixed)
	return !old
}

// Forget drops the secrets of an ended execution; a little later, as log lines of it may still come.
func (r *Redactor) Forget(execution string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs[execution] == nil {
		return
	}
	r.ended = append(r.ended, execution)
	if len(r.ended) > maxEnded {
		delete(r.runs, r.ended[0])
		r.ended = r.ended[1:]
	}
}

// Active reports whether anything is known that an execution could show.
func (r *Redactor) Active(execution string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return !r.all.empty() || r.runs[execution] != nil
}

// Knows reports whether a text holds a known value.
func (r *Redactor) Knows(execution, text string) bool { return len(r.find(execution, text)) > 0 }

// find is where a text holds known values.
func (r *Redactor) find(execution, text string) []span {
	r.mu.RLock()
	defer r.mu.RUnlock()
	run := r.runs[execution]
	if r.all.empty() && run == nil {
		return nil
	}
	spans := r.search(run, text, nil)
	for _, v := range readings(text) {
		for _, s := range r.search(run, v.text, nil) {
			spans = append(spans, span{v.origin(s.from), v.origin(s.to)})
		}
	}
	return merge(text, spans)
}

func (r *Redactor) search(run *learned, text string, spans []span) []span {
	spans = r.all.find(text, spans)
	if run != nil {
		spans = run.old.find(text, run.young.find(text, spans))
	}
	return spans
}

// Text redacts a text.
func (r *Redactor) Text(execution, text string) string {
	spans := r.find(execution, text)
	if len(spans) == 0 {
		return text
	}
	return splice(text, spans, func(string) string { return Hidden })
}

// JSON redacts JSON, which stays JSON.
func (r *Redactor) JSON(execution string, raw []byte) []byte {
	if !r.Active(execution) {
		return raw
	}
	return rewrite(raw, func(text string) (string, bool) {
		out := r.Text(execution, text)
		return quote(out), out != text
	}, func(number string) (string, bool) {
		return quote(Hidden), r.Knows(execution, number)
	})
}

// splice replaces the spans of a text.
func splice(text string, spans []span, with func(string) string) string {
	var b strings.Builder
	at := 0
	for _, s := range spans {
		b.WriteString(text[at:s.from])
		b.WriteString(with(text[s.from:s.to]))
		at = s.to
	}
	b.WriteString(text[at:])
	return b.String()
}
