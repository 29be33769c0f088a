package api

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// LogLine is one line of a step's log.
type LogLine struct {
	Timestamp Time            `json:"timestamp"`
	Level     string          `json:"level" enum:"debug,info,warning,error"`
	Step      string          `json:"step_id"`
	Message   string          `json:"message"`
	Metadata  json.RawMessage `json:"metadata" doc:"An object; {} when there is nothing more."`
	Attempt   int             `json:"attempt,omitempty"`
	Seq       int64           `json:"seq" doc:"Order of the line."`
	Hit       bool            `json:"hit,omitempty" doc:"The line has what q asks for; it is missing of lines around such ones."`
}

// LogList is a page of log lines, in order.
type LogList struct {
	Logs     []LogLine `json:"logs" nullable:"false"`
	Next     string    `json:"next_cursor,omitempty" doc:"The cursor of the lines behind these; missing when there are none."`
	Previous string    `json:"previous_cursor,omitempty" doc:"The cursor of the lines before these, when they were asked for with before, around, tail or such a cursor; missing when there are none."`
	Searched int       `json:"searched,omitempty" doc:"With q: how many lines this request has looked at."`
}

// ListLogs selects log lines.
type ListLogs struct {
	ExecutionPath
	Step    string    `query:"step_id" maxLength:"300"`
	Level   string    `query:"level" doc:"At least this level: debug, info, warning or error." maxLength:"10"`
	Since   time.Time `query:"since" doc:"Lines from this time on."`
	Until   time.Time `query:"until" doc:"Lines before this time."`
	Attempt int       `query:"attempt" minimum:"0" maximum:"1000000" doc:"Only lines of the attempt with this number."`
	Tail    int       `query:"tail" minimum:"0" maximum:"10000" doc:"The last lines only."`
	Before  int64     `query:"before" minimum:"0" doc:"The last lines before the line with this seq."`
	Around  int64     `query:"around" minimum:"0" doc:"The line with this seq, or the next one, and the lines around it."`
	Context int       `query:"context" minimum:"0" maximum:"5000" doc:"Lines on each side: of around, 100 unless told; of each hit of q, at most 20, none unless told."`
	Query   string    `query:"q" maxLength:"500" doc:"Only lines whose message has this text, in upper or lower case."`
	Regex   bool      `query:"regex" doc:"q is a regular expression (RE2); upper and lower case differ unless it begins with (?i)."`
	Limit   int       `query:"limit" minimum:"1" maximum:"10000" default:"1000"`
	Cursor  string    `query:"cursor" maxLength:"600"`
}

func describeLogs(op *huma.Operation) {
	op.Description = "In order, from the beginning unless before, around, tail or a cursor says otherwise. A search (q) looks at 1,000,000 lines or for half a second in one request: a page may have few hits or none, and a cursor to go on with."
}

// Names of the lists that cursors of log lines belong to.
const (
	logsAfter  = "logs"
	logsBefore = "logs before"
)

// logPage is which lines to list, and in which direction.
type logPage struct {
	f        store.LogFilter
	backward bool
	limit    int
}

// page reads where a list begins, and checks what selects its lines.
func (in *ListLogs) page() (*logPage, error) {
	level := strings.ToLower(in.Level)
	if level != "" && !slices.Contains([]string{"debug", "info", "warning", "error"}, level) {
		return nil, stepwell.Invalid("one of debug, info, warning, error", "query.level: there is no level %q", stepwell.Clip(in.Level, 20))
	}
	begins := 0
	for _, given := range []bool{in.Before > 0, in.Around > 0, in.Tail > 0, in.Cursor != ""} {
		if given {
			begins++
		}
	}
	if !in.Until.IsZero() && !in.Until.After(in.Since) {
		return nil, stepwell.Invalid("give an end after the beginning", "query.until: no time lies between since and until")
	}
	if begins > 1 || in.Around > 0 && in.Query != "" {
		return nil, stepwell.Invalid("take one of them", "query: before, around, tail and cursor exclude each other, and around excludes q")
	}
	p := &logPage{f: store.LogFilter{StepKey: in.Step, Level: level, Since: in.Since, Until: in.Until, Attempt: in.Attempt, Before: in.Before}, backward: in.Before > 0 || in.Tail > 0, limit: in.Limit}
	if in.Tail > 0 {
		p.limit = in.Tail
	}
	if before, err := numberCursor(logsBefore, in.Cursor); err == nil && before > 0 {
		p.f.Before, p.backward = before, true
		return p, nil
	}
	var err error
	p.f.After, err = numberCursor(logsAfter, in.Cursor)
	return p, err
}

func (s *server) listLogs(ctx context.Context, in *ListLogs) (*answer[LogList], error) {
	x, err := s.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	p, err := in.page()
	if err != nil {
		return nil, err
	}
	switch {
	case in.Query != "":
		return s.searchLogs(ctx, x, in, p)
	case in.Around > 0:
		return s.logsAround(ctx, x, in, p)
	}
	lines, err := s.readLogs(ctx, x.No, p, p.limit)
	if err != nil {
		return nil, err
	}
	out := LogList{Logs: s.logLinesOf(x.ID, lines)}
	if n := len(lines); n == p.limit && p.backward {
		out.Previous = logCursor(logsBefore, lines[0].Seq)
	} else if n == p.limit {
		out.Next = logCursor(logsAfter, lines[n-1].Seq)
	}
	return reply(out, nil)
}

// readLogs reads up to n lines from where a page begins, in order.
func (s *server) readLogs(ctx context.Context, no int64, p *logPage, n int) ([]store.LogLine, error) {
	f := p.f
	f.Limit = n
	if p.backward {
		f.Tail = n
	}
	return s.o.Store.Logs(ctx, no, f)
}

// logsAround lists a line and those on both sides of it.
func (s *server) logsAround(ctx context.Context, x *store.Execution, in *ListLogs, p *logPage) (*answer[LogList], error) {
	side := in.Context
	if side == 0 {
		side = 100
	}
	p.f.After = in.Around - 1
	lines, err := s.readLogs(ctx, x.No, p, side+1)
	if err != nil {
		return nil, err
	}
	out := LogList{}
	if n := len(lines); n == side+1 {
		out.Next = logCursor(logsAfter, lines[n-1].Seq)
	}
	p.f.After, p.f.Before, p.backward = 0, in.Around, true
	before, err := s.readLogs(ctx, x.No, p, side)
	if err != nil {
		return nil, err
	}
	if len(before) == side {
		out.Previous = logCursor(logsBefore, before[0].Seq)
	}
	out.Logs = s.logLinesOf(x.ID, append(before, lines...))
	return reply(out, nil)
}

func logCursor(list string, seq int64) string { return cursorTo(list, strconv.FormatInt(seq, 10)) }

func (s *server) logLinesOf(execution string, lines []store.LogLine) []LogLine {
	out := make([]LogLine, 0, len(lines))
	for i := range lines {
		out = append(out, s.logLineOf(execution, &lines[i]))
	}
	return out
}

func (s *server) logLineOf(execution string, l *store.LogLine) LogLine {
	v := LogLine{Timestamp: resource.At(l.At), Level: l.Level, Step: l.StepKey, Message: s.text(execution, l.Message), Metadata: s.json(execution, l.Attrs), Attempt: l.Attempt, Seq: l.Seq}
	if len(v.Metadata) == 0 {
		v.Metadata = json.RawMessage("{}")
	}
	return v
}

// LogHistogram is how many lines of each level the parts of a log have.
type LogHistogram struct {
	Lines   int       `json:"lines" doc:"Of the whole log."`
	Spans   []LogSpan `json:"spans" nullable:"false" doc:"In order, without parts that have no lines. Each covers equally many seqs."`
	Version int64     `json:"version" doc:"Of the execution, when it was counted."`
}

// LogSpan is a part of a log.
type LogSpan struct {
	First   int64 `json:"first_seq" doc:"The seq of its first line: around shows it."`
	Until   int64 `json:"until_seq" doc:"All its lines have lower seqs."`
	At      Time  `json:"from" doc:"When its first line was written."`
	Lines   int   `json:"lines"`
	Debug   int   `json:"debug"`
	Info    int   `json:"info"`
	Warning int   `json:"warning"`
	Error   int   `json:"error"`
}

// GetLogHistogram says how finely lines are counted.
type GetLogHistogram struct {
	ExecutionPath
	Spans int `query:"spans" minimum:"1" maximum:"1000" default:"100" doc:"Parts at most."`
}

func (s *server) logHistogram(ctx context.Context, in *GetLogHistogram) (*answer[LogHistogram], error) {
	x, err := s.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	spans, err := s.o.Store.LogSpans(ctx, x.No, in.Spans)
	if err != nil {
		return nil, err
	}
	out := LogHistogram{Spans: make([]LogSpan, len(spans)), Version: x.Version}
	for i, v := range spans {
		out.Lines += v.Lines
		out.Spans[i] = LogSpan{v.First, v.Until, resource.At(v.At), v.Lines, v.Debug, v.Lines - v.Debug - v.Warnings - v.Errors, v.Warnings, v.Errors}
	}
	return reply(out, nil)
}
