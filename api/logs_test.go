package api_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/store"
)

// logged is an execution that has ended, with n more lines; every tenth is a warning, and one in a thousand says needle.
func (r *rig) logged(n int) api.ExecutionPath {
	r.t.Helper()
	x := r.finished("name: logged\nsteps:\n  - {id: one, action: util.noop}\n")
	row, err := r.app.Store.Execution(r.t.Context(), x.ID)
	good(r.t, err)
	lines := make([]store.LogLine, n)
	for i := range lines {
		l := store.LogLine{Execution: row.No, StepKey: fmt.Sprintf("one[%d]", i%4), Attempt: 1, At: x.Started.Add(time.Duration(i) * time.Millisecond), Level: "info", Message: fmt.Sprintf("line %d", i)}
		if i%10 == 0 {
			l.Level = "warning"
		}
		if i%1000 == 999 {
			l.Message += ": a Needle"
		}
		lines[i] = l
	}
	for part := range slices.Chunk(lines, 10_000) {
		good(r.t, r.app.Store.AppendLogs(r.t.Context(), part))
	}
	return api.ExecutionPath{ID: x.ID}
}

func said(l *api.LogList) string {
	var out []string
	for _, line := range l.Logs {
		text := strings.TrimPrefix(line.Message, "line ")
		if line.Hit {
			text += "!"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestLogIsReadBothWays(t *testing.T) {
	r := newRig(t)
	id := r.logged(100)
	c, ctx := r.client("viewer"), t.Context()
	read := func(f api.ListLogs) *api.LogList {
		t.Helper()
		f.ExecutionPath = id
		l, err := c.Logs(ctx, f)
		good(t, err)
		return l
	}
	all := read(api.ListLogs{Limit: 1000})
	seq := func(i int) int64 { return all.Logs[i].Seq }
	if len(all.Logs) != 100 || all.Next != "" || all.Previous != "" {
		t.Fatalf("%d lines, cursors %q, %q", len(all.Logs), all.Next, all.Previous)
	}
	around := read(api.ListLogs{Around: seq(50), Context: 2})
	if got := said(around); got != "48 49 50 51 52" {
		t.Errorf("around: %s", got)
	}
	if next := read(api.ListLogs{Cursor: around.Next, Limit: 3}); said(next) != "53 54 55" || next.Next == "" {
		t.Errorf("behind: %s", said(next))
	}
	before := read(api.ListLogs{Cursor: around.Previous, Limit: 3})
	if said(before) != "45 46 47" {
		t.Errorf("before: %s", said(before))
	}
	if further := read(api.ListLogs{Cursor: before.Previous, Limit: 45}); len(further.Logs) != 45 || said(read(api.ListLogs{Cursor: further.Previous})) != "" {
		t.Errorf("before the first page: %s", said(further))
	}
	if last := read(api.ListLogs{Tail: 2}); said(last) != "98 99" || said(read(api.ListLogs{Cursor: last.Previous, Limit: 2})) != "96 97" {
		t.Errorf("the last: %s", said(last))
	}
	if got := said(read(api.ListLogs{Before: seq(3), Limit: 2})); got != "1 2" {
		t.Errorf("before a line: %s", got)
	}
	if got := said(read(api.ListLogs{Around: seq(0), Context: 1})); got != "0 1" {
		t.Errorf("around the first: %s", got)
	}
	if got := said(read(api.ListLogs{Around: seq(55), Context: 1, Level: "warning"})); got != "50 60 70" {
		t.Errorf("around a line that is filtered out: %s", got)
	}
	for _, bad := range []api.ListLogs{{Around: 1, Tail: 2}, {Before: 4, Cursor: around.Next}, {Around: 3, Query: "x"}, {Query: "(", Regex: true}, {Cursor: "AAAA"}} {
		bad.ExecutionPath = id
		_, err := c.Logs(ctx, bad)
		want(t, err, stepwell.CodeInvalid)
	}
}

func TestLogIsSearched(t *testing.T) {
	r := newRig(t)
	id := r.logged(30_000)
	c, ctx := r.client("viewer"), t.Context()
	// found reads all pages of a search.
	found := func(f api.ListLogs) (hits []string, pages int) {
		t.Helper()
		backward := f.Tail > 0
		for f.ExecutionPath = id; ; pages++ {
			l, err := c.Logs(ctx, f)
			good(t, err)
			var page []string
			for _, line := range l.Logs {
				if line.Hit {
					page = append(page, line.Message)
				}
			}
			if f.Cursor = l.Next; backward {
				slices.Reverse(page)
				f.Cursor = l.Previous
			}
			hits = append(hits, page...)
			if f.Tail = 0; f.Cursor == "" {
				return hits, pages + 1
			}
			if l.Searched == 0 || l.Searched > 1_000_000 {
				t.Fatalf("a page looked at %d lines", l.Searched)
			}
		}
	}
	hits, _ := found(api.ListLogs{Query: "NEEDLE"})
	if len(hits) != 30 || hits[0] != "line 999: a Needle" || hits[29] != "line 29999: a Needle" {
		t.Errorf("found %d: %v", len(hits), hits)
	}
	if small, pages := found(api.ListLogs{Query: "needle", Limit: 7}); !slices.Equal(small, hits) || pages < 5 {
		t.Errorf("by sevens: %d in %d pages", len(small), pages)
	}
	back, _ := found(api.ListLogs{Query: "needle", Tail: 7, Limit: 7})
	slices.Reverse(back)
	if !slices.Equal(back, hits) {
		t.Errorf("backwards: %v", back)
	}
	if got, _ := found(api.ListLogs{Query: `^line 1\d99: .*N`, Regex: true}); len(got) != 1 || got[0] != "line 1999: a Needle" {
		t.Errorf("as an expression: %v", got)
	}
	if got, _ := found(api.ListLogs{Query: "needle", Step: "one[2]"}); len(got) != 0 {
		t.Errorf("of a step without hits: %v", got)
	}
	if got, _ := found(api.ListLogs{Query: "line 29", Level: "warning"}); len(got) != 111 {
		t.Errorf("%d warnings", len(got))
	}
	l, err := c.Logs(ctx, api.ListLogs{ExecutionPath: id, Query: "line 1001", Context: 2, Limit: 1})
	good(t, err)
	if said(l) != "999: a Needle 1000 1001! 1002 1003" {
		t.Errorf("with the lines around it: %s", said(l))
	}
}

// TestLogSearchIsThatOfEachLine: all pages together have the lines that a look at each would find, wherever those of other executions
// lie between them.
func TestLogSearchIsThatOfEachLine(t *testing.T) {
	r := newRig(t, func(o *api.Options) { o.Redact = hides("hunter2") })
	id, other := r.logged(1), r.logged(1)
	row, err := r.app.Store.Execution(t.Context(), id.ID)
	good(t, err)
	beside, err := r.app.Store.Execution(t.Context(), other.ID)
	good(t, err)
	words := []string{"Needle", "nEEDLE in it", "KELVIN \u212a", "İstanbul", "straße", "a \x00 needle", "needhunter2le", "hunter2", "hay", "hay", "hay", ""}
	dice := rand.New(rand.NewPCG(1, 2))
	var lines []store.LogLine
	for i := range 12_000 {
		l := store.LogLine{Execution: row.No, StepKey: "one", At: time.Now(), Level: "info", Message: "straw"}
		if i%1000 < 40 || i == 7_500 {
			l.Message = words[dice.IntN(len(words))]
		}
		if i > 4_000 && i < 9_000 && dice.IntN(5) > 0 {
			l.Execution = beside.No
		}
		lines = append(lines, l)
	}
	good(t, r.app.Store.AppendLogs(t.Context(), lines))
	all, err := r.app.Store.Logs(t.Context(), row.No, store.LogFilter{Limit: 10_000})
	good(t, err)
	for _, q := range []string{"needle", "NEEDLE", "k", "i̇", "\u212a", "SS", "ß", "hunter", "***", "straw", "nowhere"} {
		var want []int64
		for i := range all {
			if strings.Contains(strings.ToLower(hides("hunter2").Text("", all[i].Message)), strings.ToLower(q)) {
				want = append(want, all[i].Seq)
			}
		}
		for _, tail := range []int{0, 500} {
			var got []int64
			for f := (api.ListLogs{ExecutionPath: id, Query: q, Limit: 500, Tail: tail}); ; f.Tail = 0 {
				l, err := r.client("viewer").Logs(t.Context(), f)
				good(t, err)
				for _, line := range l.Logs {
					got = append(got, line.Seq)
				}
				if f.Cursor = l.Next; tail > 0 {
					f.Cursor = l.Previous
				}
				if f.Cursor == "" {
					break
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%q with a tail of %d: %d lines, want %d", q, tail, len(got), len(want))
			}
		}
	}
}

// TestLogSearchReadsAhead: a search of a long log, most of which says nothing of what is asked for, passes no line, in either direction,
// where other executions have many lines between those of this one too.
func TestLogSearchReadsAhead(t *testing.T) {
	r := newRig(t)
	id, other := r.logged(1), r.logged(1)
	row, err := r.app.Store.Execution(t.Context(), id.ID)
	good(t, err)
	beside, err := r.app.Store.Execution(t.Context(), other.ID)
	good(t, err)
	const n = 60_000
	var want []string
	lines := make([]store.LogLine, 0, n)
	for i := range n {
		l := store.LogLine{Execution: row.No, StepKey: "one", At: time.UnixMicro(int64(i + 1)), Level: "info", Message: "straw"}
		switch {
		case i%13 == 0 || i > 40_000 && i < 48_000 && i%4 != 0:
			l.Execution, l.Message = beside.No, "needle of another"
		case i == 25_001 || i == 25_003 || i == 44_000 || i == n-1:
			l.Message = fmt.Sprintf("needle %d", i)
			want = append(want, l.Message)
		}
		lines = append(lines, l)
	}
	good(t, r.app.Store.AppendLogs(t.Context(), lines))
	for _, tail := range []int{0, 500} {
		var got []string
		searched := 0
		for f := (api.ListLogs{ExecutionPath: id, Query: "needle", Limit: 500, Tail: tail}); ; f.Tail = 0 {
			l, err := r.client("viewer").Logs(t.Context(), f)
			good(t, err)
			for _, line := range l.Logs {
				got = append(got, line.Message)
			}
			searched += l.Searched
			if f.Cursor = l.Next; tail > 0 {
				f.Cursor = l.Previous
			}
			if f.Cursor == "" {
				break
			}
		}
		slices.Sort(got)
		mine := 1 // of logged
		for i := range lines {
			if lines[i].Execution == row.No {
				mine++
			}
		}
		if !slices.Equal(got, want) || searched != mine {
			t.Errorf("with a tail of %d: %v of %d lines, want %v of %d", tail, got, searched, want, mine)
		}
	}
}

// TestLogSearchFindsNoSecret: what is not shown cannot be found.
func TestLogSearchFindsNoSecret(t *testing.T) {
	r := newRig(t, func(o *api.Options) { o.Redact = hides("hunter2") })
	id := r.logged(1)
	row, err := r.app.Store.Execution(t.Context(), id.ID)
	good(t, err)
	good(t, r.app.Store.AppendLogs(t.Context(), []store.LogLine{{Execution: row.No, StepKey: "one", At: time.Now(), Level: "info", Message: "the word is hunter2"}}))
	for q, want := range map[string]int{"hunter": 0, "word is": 1, "***": 1} {
		l, err := r.client("viewer").Logs(t.Context(), api.ListLogs{ExecutionPath: id, Query: q})
		good(t, err)
		if len(l.Logs) != want || strings.Contains(said(l), "hunter") {
			t.Errorf("%q finds %v", q, l.Logs)
		}
	}
}

func TestLogHistogram(t *testing.T) {
	r := newRig(t)
	id := r.logged(10_000)
	h, err := r.client("viewer").LogHistogram(t.Context(), api.GetLogHistogram{ExecutionPath: id, Spans: 10})
	good(t, err)
	if h.Lines != 10_000 || len(h.Spans) != 10 {
		t.Fatalf("%d lines in %d spans", h.Lines, len(h.Spans))
	}
	for i, s := range h.Spans {
		if s.Lines != 1000 || s.Warning != 100 || s.Info != 900 || s.Error != 0 || s.At.IsZero() || i > 0 && s.First != h.Spans[i-1].Until {
			t.Errorf("span %d is %+v", i, s)
		}
	}
	_, err = r.client("viewer").LogHistogram(t.Context(), api.GetLogHistogram{ExecutionPath: api.ExecutionPath{ID: "00000000-0000"}})
	want(t, err, stepwell.CodeNotFound)
}

// hides is a redactor of one word.
type hides string

func (h hides) Text(_, text string) string { return strings.ReplaceAll(text, string(h), "***") }

func (h hides) JSON(_ string, raw []byte) []byte {
	return []byte(strings.ReplaceAll(string(raw), string(h), "***"))
}

// TestLogOfAnAttemptAndATime: lines of one attempt, and lines up to a time, also where they are searched.
func TestLogOfAnAttemptAndATime(t *testing.T) {
	r := newRig(t)
	x := r.finished("name: again\nsteps:\n  - {id: one, action: util.noop}\n")
	row, err := r.app.Store.Execution(t.Context(), x.ID)
	good(t, err)
	var lines []store.LogLine
	for i := range 30 {
		lines = append(lines, store.LogLine{Execution: row.No, StepKey: "one", Attempt: 1 + i/10, At: x.Started.Add(time.Duration(i) * time.Millisecond), Level: "info", Message: fmt.Sprintf("line %d", i)})
	}
	good(t, r.app.Store.AppendLogs(t.Context(), lines))
	at := func(i int) time.Time { return x.Started.Add(time.Duration(i) * time.Millisecond) }
	for name, c := range map[string]struct {
		in   api.ListLogs
		want string
	}{
		"an attempt":             {api.ListLogs{Step: "one", Attempt: 2}, "10 11 12 13 14 15 16 17 18 19"},
		"the last of an attempt": {api.ListLogs{Attempt: 2, Tail: 2}, "18 19"},
		"a time":                 {api.ListLogs{Since: at(8), Until: at(11)}, "8 9 10"},
		"an attempt in a time":   {api.ListLogs{Attempt: 1, Since: at(8), Until: at(11)}, "8 9"},
		"searched in an attempt": {api.ListLogs{Attempt: 2, Query: "line 1"}, "10! 11! 12! 13! 14! 15! 16! 17! 18! 19!"},
		"searched in a time":     {api.ListLogs{Since: at(1), Until: at(11), Query: "1"}, "1! 10!"},
		"no such attempt":        {api.ListLogs{Attempt: 9}, ""},
	} {
		c.in.ExecutionPath = api.ExecutionPath{ID: x.ID}
		got, err := r.client("viewer").Logs(t.Context(), c.in)
		good(t, err)
		if said(got) != c.want {
			t.Errorf("%s: %q, want %q", name, said(got), c.want)
		}
	}
	_, err = r.client("viewer").Logs(t.Context(), api.ListLogs{ExecutionPath: api.ExecutionPath{ID: x.ID}, Since: at(5), Until: at(5)})
	want(t, err, stepwell.CodeInvalid)
}
