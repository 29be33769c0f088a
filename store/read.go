package store

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
)

// These are the parts of reading that every database shares.

// NoID is the error of Reader.Execution and Reader.Beginning for an empty id.
func NoID() error { return stepwell.Invalid("", "the id of an execution is empty") }

// TheExecution is the one of those found, in the order of their ids, that an id or a beginning of it means: CodeNotFound when
// there is none, CodeConflict when several begin so.
func TheExecution(found []Execution, id string) (*Execution, error) {
	switch {
	case len(found) == 0:
		return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("no execution %q", id), Hint: "stepwell executions list shows them"}
	case len(found) > 1 && found[0].ID != id:
		return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("several executions begin with %q", id),
			Hint: "give more of the id, for example " + found[0].ID}
	}
	return &found[0], nil
}

// Bounds are the least level of the lines, their times from the first to before the last, in µs, and how many are read at most: of the
// last ones if tail.
func (f *LogFilter) Bounds() (level int, since, until int64, n int, tail bool, err error) {
	if f.Level != "" {
		level, err = LevelNumber(f.Level)
	}
	since, until = math.MinInt64, math.MaxInt64
	if !f.Until.IsZero() {
		until = f.Until.UnixMicro()
	}
	if !f.Since.IsZero() {
		since = f.Since.UnixMicro()
	}
	if f.Tail > 0 {
		return level, since, until, min(f.Tail, 10_000), true, err
	}
	return level, since, until, Limit(f.Limit, 1000, 10_000), false, err
}

// Add adds a line.
func (t *LogTexts) Add(seq int64, message string) {
	if len(t.Messages) == 0 {
		t.First = seq
	}
	t.Messages, t.First, t.Last = append(t.Messages, message), min(t.First, seq), max(t.Last, seq)
}

// TextsOf is what log lines say.
func TextsOf(lines []LogLine) (t LogTexts) {
	for i := range lines {
		t.Add(lines[i].Seq, lines[i].Message)
	}
	return t
}

// MaxLogSpans bounds LogSpans.
const MaxLogSpans = 1000

// LogPages yields the entries of a step log in order of version, from after the given one, page by page.
func LogPages(ctx context.Context, execution, after int64, page func(ctx context.Context, execution, after int64) ([]LogEntry, error)) iter.Seq2[LogEntry, error] {
	return func(yield func(LogEntry, error) bool) {
		for {
			entries, err := page(ctx, execution, after)
			if err != nil {
				yield(LogEntry{}, err)
				return
			}
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
				after = e.Version
			}
			if len(entries) == 0 {
				return
			}
		}
	}
}

// ViewValue is what a name in views.sql stands for, so that the views show the step log as engine.History does: cases of CASE
// or lists for IN. Not ok: it is an expression in the database's own words.
func ViewValue(name string) (text string, ok bool) {
	switch name {
	case "done":
		return fmt.Sprint(uint8(engine.Done)), true
	case "of_execution":
		return kindsThat(engine.Kind.OfExecution), true
	case "of_attempt":
		return kindsThat(engine.Kind.OfAttempt), true
	case "ends_step":
		return kindsThat(engine.Kind.EndsStep), true
	case "types":
		var cases []string
		for k := range engine.Kinds {
			if what := k.HistoryType(); what != "" {
				cases = append(cases, fmt.Sprintf("WHEN %d THEN '%s'", uint8(k), what))
			}
		}
		return strings.Join(cases, " "), true
	case "statuses":
		var cases []string
		for s := stepwell.StepPending; s <= stepwell.StepTimedOut; s++ {
			cases = append(cases, fmt.Sprintf("WHEN %d THEN '%s'", uint8(s), s))
		}
		return strings.Join(cases, " "), true
	}
	return "", false
}

func kindsThat(are func(engine.Kind) bool) string {
	var list []string
	for k := range engine.Kinds {
		if are(k) {
			list = append(list, fmt.Sprint(uint8(k)))
		}
	}
	return strings.Join(list, ", ")
}
