package scenario

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell/definition"
)

// WriteText writes what would come of an execution, for people.
func (r *Replayed) WriteText(w io.Writer) error {
	var b strings.Builder
	var same []string
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Verdict == SameStep {
			same = append(same, s.Key)
		}
	}
	if len(same) > 0 {
		fmt.Fprintf(&b, "%-10s  %s\n", SameStep, ranges(same))
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Verdict == SameStep {
			continue
		}
		fmt.Fprintf(&b, "%-10s  %s", s.Verdict, s.Key)
		if s.Was != s.Is && s.Was != "" && s.Is != "" {
			fmt.Fprintf(&b, " (%s → %s)", s.Was, s.Is)
		}
		if len(s.Details) > 0 {
			fmt.Fprintf(&b, ": %s", strings.Join(s.Details, "; "))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%-10s  %s\n", "outcome", r.outcome())
	_, err := io.WriteString(w, b.String())
	return err
}

// outcome is the change of the whole in one line.
func (r *Replayed) outcome() string {
	text := r.Was.Status + " → " + r.Is.Status
	if r.Is.Failure != "" && r.Is.Failure != r.Was.Failure {
		text += " (" + r.Is.Failure + ")"
	}
	if r.Outputs {
		text += ", outputs equal"
	} else {
		text += ", outputs differ"
	}
	text += fmt.Sprintf(", %s → %s", seconds(r.Was.Duration), seconds(r.Is.Duration))
	if told(r.Was.Waited) || told(r.Is.Waited) {
		text += fmt.Sprintf(", waiting for workers %s → %s", seconds(r.Was.Waited), seconds(r.Is.Waited))
	}
	if r.Was.Cost != 0 || r.Is.Cost != 0 {
		text += fmt.Sprintf(", cost %s → %s", money(r.Was.Cost), money(r.Is.Cost))
	}
	if r.Assumed > 0 {
		text += fmt.Sprintf(" (%d steps assumed)", r.Assumed)
	}
	return text
}

// told reports whether a time of waiting is worth a word: less is what dispatching takes.
func told(d time.Duration) bool { return d >= 100*time.Millisecond }

func seconds(d time.Duration) string { return d.Round(time.Millisecond).String() }

// money is an amount in millionths as a decimal.
func money(millionths int64) string {
	text := fmt.Sprintf("%.6f", float64(millionths)/1e6)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// ranges joins keys, with iterations that follow each other as one: each[0..41].
func ranges(keys []string) string {
	var out []string
	for i := 0; i < len(keys); {
		head, n, tail, ok := iteration(keys[i])
		j := i + 1
		for ; ok && j < len(keys); j++ {
			if h, m, t, more := iteration(keys[j]); !more || h != head || t != tail || m != n+j-i {
				break
			}
		}
		if j > i+1 {
			out = append(out, fmt.Sprintf("%s[%d..%d]%s", head, n, n+j-i-1, tail))
		} else {
			out = append(out, keys[i])
		}
		i = j
	}
	return strings.Join(out, ", ")
}

// iteration splits a key at its first iteration.
func iteration(key string) (head string, n int, tail string, ok bool) {
	open := strings.IndexByte(key, '[')
	if open < 0 {
		return key, 0, "", false
	}
	end := strings.IndexByte(key[open:], ']')
	if end < 0 {
		return key, 0, "", false
	}
	if _, err := fmt.Sscanf(key[open:open+end+1], "[%d]", &n); err != nil {
		return key, 0, "", false
	}
	return key[:open], n, key[open+end+1:], true
}

// Backtest is what would come of many recorded executions.
type Backtest struct {
	Executions int `json:"executions"`
	Same       int `json:"same"`
	Changed    int `json:"changed" doc:"Certainly."`
	Assumed    int `json:"assumed" doc:"Executions with steps of which nobody knows how they would end."`
	// Groups are the executions that change in the same way.
	Groups   []BacktestGroup `json:"groups" nullable:"false"`
	Failures []BacktestError `json:"not_replayed" nullable:"false"`
	Was      Spread          `json:"was"`
	Is       Spread          `json:"is"`

	// Limit is settings.concurrency of the other definition; nil: it has none.
	Limit *definition.Concurrency `json:"-"`

	was, is, queued []time.Duration
	seats           []*seat
}

// BacktestGroup are executions that change in the same way.
type BacktestGroup struct {
	Change     string   `json:"change"`
	Executions int      `json:"executions"`
	Examples   []string `json:"examples" nullable:"false" doc:"The ids of some of them."`
}

// BacktestError is an execution that could not be played again.
type BacktestError struct {
	ID    string `json:"execution_id"`
	Error string `json:"error"`
}

// Spread is how long executions take, and what they cost together.
type Spread struct {
	P50       time.Duration `json:"p50_ns"`
	P95       time.Duration `json:"p95_ns"`
	QueuedP50 time.Duration `json:"queued_p50_ns" doc:"From the creation of an execution to its start: the wait for a slot of its concurrency key."`
	QueuedP95 time.Duration `json:"queued_p95_ns"`
	Refused   int           `json:"refused" doc:"Executions for which no slot is free, and that do not wait for one (on_conflict: skip)."`
	Cost      int64         `json:"cost"`
}

const maxExamples = 5

// Add counts an execution.
func (b *Backtest) Add(r *Replayed) {
	b.Executions++
	b.was, b.is = append(b.was, r.Was.Duration), append(b.is, r.Is.Duration)
	s := r.seat // a copy: the list is not to keep all steps
	b.queued, b.seats = append(b.queued, r.queued), append(b.seats, &s)
	b.Was.Cost, b.Is.Cost = b.Was.Cost+r.Was.Cost, b.Is.Cost+r.Is.Cost
	switch {
	case r.Same:
		b.Same++
		return
	case r.Assumed > 0:
		b.Assumed++
	default:
		b.Changed++
	}
	for _, change := range r.changes() {
		b.group(change, r.ID)
	}
}

// Fail counts an execution that could not be played again.
func (b *Backtest) Fail(id string, err error) {
	b.Failures = append(b.Failures, BacktestError{ID: id, Error: err.Error()})
}

func (b *Backtest) group(change, id string) {
	i := slices.IndexFunc(b.Groups, func(g BacktestGroup) bool { return g.Change == change })
	if i < 0 {
		b.Groups, i = append(b.Groups, BacktestGroup{Change: change}), len(b.Groups)
	}
	g := &b.Groups[i]
	if g.Executions++; len(g.Examples) < maxExamples {
		g.Examples = append(g.Examples, id)
	}
}

// changes are the ways in which an execution changes, each once. Iterations of one step are one.
func (r *Replayed) changes() (list []string) {
	say := func(text string) {
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	if r.Was.Status != r.Is.Status {
		text := r.Was.Status + " → " + r.Is.Status
		if r.Is.Failure != "" {
			text += ": " + r.Is.Failure
		}
		say(text)
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		switch key := plainKey(s.Key); s.Verdict {
		case Gone:
			say(key + " does not run")
		case Unknown:
			say(key + " runs, and nothing is known of it")
		case OtherCall:
			say(key + " is called with other params")
		case Changed:
			if s.Was != s.Is {
				say(key + " is " + s.Is + ", not " + s.Was)
			} else {
				say(key + " has another result")
			}
		}
	}
	if !r.Outputs {
		say("the outputs differ")
	}
	return list
}

// Finish reckons what is reckoned over all executions.
func (b *Backtest) Finish() {
	b.Was.P50, b.Was.P95 = quantiles(b.was)
	b.Is.P50, b.Is.P95 = quantiles(b.is)
	b.Was.QueuedP50, b.Was.QueuedP95 = quantiles(b.queued)
	seated(b.seats, b.Limit)
	queued := make([]time.Duration, len(b.seats))
	for i, s := range b.seats {
		if queued[i] = s.queued; s.refused {
			b.Is.Refused++
		}
	}
	b.Is.QueuedP50, b.Is.QueuedP95 = quantiles(queued)
	slices.SortStableFunc(b.Groups, func(x, y BacktestGroup) int { return y.Executions - x.Executions })
}

func quantiles(list []time.Duration) (p50, p95 time.Duration) {
	if len(list) == 0 {
		return 0, 0
	}
	slices.Sort(list)
	at := func(share int) time.Duration { return list[(len(list)-1)*share/100] }
	return at(50), at(95)
}

// WriteText writes the report for people.
func (b *Backtest) WriteText(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "%d executions: %d the same, %d change, %d change with something assumed", b.Executions, b.Same, b.Changed, b.Assumed)
	if len(b.Failures) > 0 {
		fmt.Fprintf(&out, "; %d more cannot be played again", len(b.Failures))
	}
	out.WriteByte('\n')
	for _, g := range b.Groups {
		fmt.Fprintf(&out, "  %5d  %s (%s%s)\n", g.Executions, g.Change, strings.Join(g.Examples, ", "), more(g.Executions > len(g.Examples)))
	}
	for i, f := range b.Failures {
		if i == maxExamples {
			fmt.Fprintf(&out, "  not played again: %d more\n", len(b.Failures)-i)
			break
		}
		fmt.Fprintf(&out, "  not played again: %s: %s\n", f.ID, f.Error)
	}
	if b.Executions > 0 {
		fmt.Fprintf(&out, "duration p50 %s → %s, p95 %s → %s", seconds(b.Was.P50), seconds(b.Is.P50), seconds(b.Was.P95), seconds(b.Is.P95))
		if told(b.Was.QueuedP95) || told(b.Is.QueuedP95) {
			fmt.Fprintf(&out, "; queued p50 %s → %s, p95 %s → %s", seconds(b.Was.QueuedP50), seconds(b.Is.QueuedP50), seconds(b.Was.QueuedP95), seconds(b.Is.QueuedP95))
		}
		if b.Is.Refused > 0 {
			fmt.Fprintf(&out, "; %d find no slot", b.Is.Refused)
		}
		if b.Was.Cost != 0 || b.Is.Cost != 0 {
			fmt.Fprintf(&out, "; cost %s → %s", money(b.Was.Cost), money(b.Is.Cost))
		}
		out.WriteByte('\n')
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func more(yes bool) string {
	if yes {
		return ", …"
	}
	return ""
}
