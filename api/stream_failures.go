package api

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
)

// FailureGroups are the failed items of an execution's streams, by module and message.
type FailureGroups struct {
	Groups   []FailureGroup `json:"groups" nullable:"false" doc:"The largest first."`
	Failures int64          `json:"failures" doc:"How many failures were read."`
	Complete bool           `json:"complete" doc:"False: there are more failures, or more different ones, than one request reads; the numbers are those of the first 500,000."`
	Next     string         `json:"next_cursor,omitempty"`
}

// FailureGroup is failures that say the same.
type FailureGroup struct {
	Step     string        `json:"step_id"`
	Type     string        `json:"error_type"`
	Message  string        `json:"message" doc:"With # for numbers and … for what is quoted, as these differ."`
	Count    int64         `json:"count"`
	Examples []ItemFailure `json:"examples" nullable:"false" doc:"The first three."`
}

// ItemFailure is one failed item, as in failures.json.
type ItemFailure struct {
	Step       string          `json:"step_id"`
	Item       string          `json:"item_id"`
	Collection string          `json:"collection_id,omitempty"`
	Type       string          `json:"error_type"`
	Message    string          `json:"message"`
	Time       string          `json:"timestamp"`
	Context    json.RawMessage `json:"context,omitempty" doc:"Where it is: file, line, url, field, schema, as far as that is known."`
}

// ListStreamFailures selects groups.
type ListStreamFailures struct {
	ExecutionPath
	Step   string `query:"step_id" maxLength:"300" doc:"Only failures of the module with this id in the pipeline."`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
	Cursor string `query:"cursor" maxLength:"600"`
}

// Bounds of one request.
const (
	mostFailures = 500_000
	mostGroups   = 2_000
	mostExamples = 3
)

func (f *fields) streamFailures(ctx context.Context, in *ListStreamFailures) (*answer[FailureGroups], error) {
	from, err := numberCursor("failures", in.Cursor)
	if err != nil {
		return nil, err
	}
	x, err := f.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	all := failureGroups{groups: map[[3]string]*FailureGroup{}, complete: true}
	if f.o.StreamFailures != nil {
		for raw, err := range f.o.StreamFailures(ctx, x.Pipeline, x.ID) {
			if err != nil {
				return nil, err
			}
			if err := all.add(raw, in.Step); err != nil {
				return nil, err
			}
			if all.total >= mostFailures {
				all.complete = false
				break
			}
		}
	}
	out := FailureGroups{Groups: []FailureGroup{}, Failures: all.total, Complete: all.complete}
	list := all.sorted()
	list = list[min(int(min(from, mostGroups)), len(list)):]
	for i, g := range list {
		if i == in.Limit {
			out.Next = cursorTo("failures", strconv.FormatInt(from+int64(i), 10))
			break
		}
		out.Groups = append(out.Groups, f.shownGroup(x.ID, g))
	}
	return reply(out, nil)
}

// shownGroup is a group without secrets.
func (f *fields) shownGroup(execution string, g *FailureGroup) FailureGroup {
	shown := *g
	shown.Message = f.text(execution, g.Message)
	shown.Examples = slices.Clone(g.Examples)
	for i := range shown.Examples {
		e := &shown.Examples[i]
		e.Message, e.Item, e.Context = f.text(execution, e.Message), f.text(execution, e.Item), f.json(execution, e.Context)
	}
	return shown
}

// failureGroups collects failures.
type failureGroups struct {
	groups   map[[3]string]*FailureGroup
	total    int64
	complete bool
}

func (a *failureGroups) add(raw json.RawMessage, step string) error {
	var r ItemFailure
	if err := json.Unmarshal(raw, &r); err != nil {
		return &stepwell.Error{Code: stepwell.CodeInternal, Message: "a failure record cannot be read", Err: err}
	}
	if step != "" && r.Step != step {
		return nil
	}
	a.total++
	key := [3]string{r.Step, r.Type, pattern(r.Message)}
	g := a.groups[key]
	if g == nil {
		if len(a.groups) >= mostGroups {
			a.complete = false
			return nil
		}
		g = &FailureGroup{Step: r.Step, Type: r.Type, Message: key[2]}
		a.groups[key] = g
	}
	if g.Count++; len(g.Examples) < mostExamples {
		g.Examples = append(g.Examples, r)
	}
	return nil
}

// sorted are the groups, the largest first.
func (a *failureGroups) sorted() []*FailureGroup {
	list := make([]*FailureGroup, 0, len(a.groups))
	for _, g := range a.groups {
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b *FailureGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Message, b.Message))
	})
	return list
}

// pattern is a message without what differs from item to item: numbers, and texts in quotes.
func pattern(message string) string {
	var b strings.Builder
	for i := 0; i < len(message); {
		c := message[i]
		end := -1
		if c == '"' || c == '`' {
			end = strings.IndexByte(message[i+1:], c)
		}
		switch {
		case end >= 0:
			b.WriteByte(c)
			b.WriteString("…")
			b.WriteByte(c)
			i += end + 2
		case c >= '0' && c <= '9':
			b.WriteByte('#')
			for i < len(message) && message[i] >= '0' && message[i] <= '9' {
				i++
			}
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String()
}
