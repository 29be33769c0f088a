package api

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// Bounds of one request that searches a log.
const (
	searchTime  = 500 * time.Millisecond
	searchFirst = 100 * time.Millisecond // with a hit: whoever asks sees it at once, and goes on
	searchLines = 1_000_000
	searchLeast = 200 // lines are looked at in any time, so that every request gets on
	searchPage  = 2_000
	maxContext  = 20 // lines around a hit; fewer than searchLeast
)

// logSearch is a search in a log, which goes from line to line in one direction.
type logSearch struct {
	match    func(message string) bool
	shown    func(l *store.LogLine) LogLine
	step     string
	level    int
	attempt  int       // 0: all
	until    time.Time // zero: all
	limit    int       // hits
	around   int       // lines on each side of a hit
	hits     int
	searched int
	trail    int       // lines still wanted behind the last hit
	recent   []LogLine // not taken yet: they are in front of a hit if one comes
	out      []LogLine
	page     int // lines that are read at once: few where something was found, more with each time that nothing was
	ahead    ahead
}

// searchLogs answers with the lines that have what q asks for. What is searched is what is shown, so that nobody finds out a
// secret by asking for its parts. Only the store's own bounds are left to it that an index answers: the others would make it
// look at more lines than one request may.
func (s *server) searchLogs(ctx context.Context, x *store.Execution, in *ListLogs, p *logPage) (*answer[LogList], error) {
	match, err := logMatcher(in.Query, in.Regex)
	if err != nil {
		return nil, err
	}
	w := &logSearch{match: match, step: p.f.StepKey, limit: p.limit, around: min(in.Context, maxContext), shown: func(l *store.LogLine) LogLine { return s.logLineOf(x.ID, l) }}
	w.attempt, w.until = p.f.Attempt, p.f.Until
	p.f.StepKey, p.f.Attempt, p.f.Until = "", 0, time.Time{}
	if p.f.Level == "debug" || p.f.Level == "info" {
		w.level, _ = store.LevelNumber(p.f.Level) // checked before
		p.f.Level = ""
	}
	w.page = searchPage
	w.ahead.read = func(ctx context.Context, f store.LogFilter) (out said) {
		got, err := s.o.Store.LogTexts(ctx, x.No, f)
		out = said{n: len(got.Messages), first: got.First, last: got.Last, err: err}
		for i := 0; i < out.n && !out.found; i++ {
			out.found = match(s.text(x.ID, got.Messages[i]))
		}
		return out
	}
	defer w.ahead.wait.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	began := time.Now()
	enough := func() bool { // not before the lines behind a hit: the next request does not know that they are wanted
		took := time.Since(began)
		return w.trail == 0 && (took > searchTime || w.hits > 0 && took > searchFirst) || took > 2*searchTime
	}
	for {
		// Most lines of a search without lines around its hits have nothing to do with it: what they say is read first.
		if w.around == 0 && w.hits < w.limit && p.f.Level == "" {
			more, skipped, err := w.skip(ctx, p)
			switch {
			case err != nil:
				return nil, err
			case !more:
				return reply(w.list(p, false), nil)
			case skipped && (enough() || w.searched >= searchLines):
				return reply(w.list(p, true), nil)
			case skipped:
				continue
			}
		}
		lines, err := s.readLogs(ctx, x.No, p, w.page)
		if err != nil {
			return nil, err
		}
		if p.backward {
			slices.Reverse(lines)
		}
		for i := range lines {
			if !w.add(&lines[i]) {
				return reply(w.list(p, true), nil)
			}
			if p.f.After = lines[i].Seq; p.backward {
				p.f.After, p.f.Before = 0, lines[i].Seq
			}
			if w.searched > searchLeast && enough() || w.searched >= searchLines {
				return reply(w.list(p, true), nil)
			}
		}
		if len(lines) < w.page {
			return reply(w.list(p, false), nil)
		}
	}
}

// skip passes the next lines if none of them says what is asked for. More is false when there are none behind them.
func (w *logSearch) skip(ctx context.Context, p *logPage) (more, skipped bool, err error) {
	for {
		got, all := w.ahead.next(ctx, p, w.page)
		switch {
		case got.err != nil:
			return false, false, got.err
		case got.found && w.page > searchFew: // where in them is found by reading fewer
			w.page, w.ahead.parts = max(searchFew, w.page/8), nil
			continue
		case got.found:
			return true, false, nil
		}
		w.page = min(searchMost, w.page*2)
		w.searched += got.n
		if got.last > 0 {
			if p.f.After = got.last; p.backward {
				p.f.After, p.f.Before = 0, got.first
			}
		}
		return !all, true, nil
	}
}

// add looks at a line; false: the page is full, and ends before it.
func (w *logSearch) add(l *store.LogLine) bool {
	level, err := store.LevelNumber(l.Level)
	if w.step != "" && l.StepKey != w.step || err == nil && level < w.level || w.attempt > 0 && l.Attempt != w.attempt || !w.until.IsZero() && !l.At.Before(w.until) {
		w.searched++
		return true
	}
	v := w.shown(l)
	hit := w.match(v.Message)
	full := w.hits == w.limit
	if full && (hit || w.trail == 0) {
		return false
	}
	w.searched++
	switch {
	case hit:
		v.Hit = true
		w.out = append(append(w.out, w.recent...), v)
		w.recent, w.trail = w.recent[:0], w.around
		w.hits++
	case w.trail > 0:
		w.out = append(w.out, v)
		w.trail--
	case w.around > 0:
		if len(w.recent) == w.around {
			w.recent = slices.Delete(w.recent, 0, 1)
		}
		w.recent = append(w.recent, v)
	}
	return true
}

// list is the answer, with the cursor behind the last line that was looked at, if there may be more.
func (w *logSearch) list(p *logPage, more bool) LogList {
	out := LogList{Logs: append([]LogLine{}, w.out...), Searched: w.searched}
	switch {
	case more && p.backward:
		before := p.f.Before
		if len(w.recent) > 0 {
			before = w.recent[0].Seq + 1 // they are looked at again: a hit may follow them
		}
		out.Previous = logCursor(logsBefore, before)
	case more:
		after := p.f.After
		if len(w.recent) > 0 {
			after = w.recent[0].Seq - 1
		}
		out.Next = logCursor(logsAfter, after)
	}
	if p.backward {
		slices.Reverse(out.Logs)
	}
	return out
}

// logMatcher says whether a message has what is asked for.
func logMatcher(q string, regex bool) (func(string) bool, error) {
	if !regex {
		q = strings.ToLower(q)
		return func(message string) bool { return strings.Contains(strings.ToLower(message), q) }, nil
	}
	re, err := regexp.Compile(q)
	if err != nil {
		return nil, stepwell.Invalid("write it as RE2 does, or leave out regex", "query.q: %v", err)
	}
	return re.MatchString, nil
}
