package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/field"
	"github.com/stepwell/stepwell/store"
)

// StreamList is a page of the streams of an execution.
type StreamList struct {
	Streams []ItemStream `json:"streams" nullable:"false" doc:"In the order of their steps. Those of iterations that have not begun are missing."`
	Next    string       `json:"next_cursor,omitempty"`
}

// ItemStream is the steps that items connect, which run as one.
type ItemStream struct {
	ID         string         `json:"id" doc:"The step that runs them: the first source."`
	Modules    []StreamModule `json:"modules" nullable:"false" doc:"Each behind those whose items it takes."`
	Bottleneck *Bottleneck    `json:"bottleneck,omitempty" doc:"Missing when nothing says which module it is: before the first looks at them, or of a stream that was over in less."`
}

// Bottleneck is the module that limits a stream.
type Bottleneck struct {
	Step   string `json:"step_id"`
	Reason string `json:"reason" doc:"Why it is that one, in words."`
}

// StreamModule is a step of a stream.
type StreamModule struct {
	Step     string   `json:"step_id"`
	Index    int32    `json:"index"`
	Module   string   `json:"module"`
	Role     string   `json:"role" enum:"source,modifier,sink"`
	Inputs   []string `json:"inputs" nullable:"false" doc:"The steps whose items it takes."`
	Status   string   `json:"status" enum:"pending,queued,running,retrying,waiting,completed,failed,skipped,cancelled,timed_out"`
	Items    *Items   `json:"items,omitempty" doc:"So far, in this attempt; missing before its first report, and while it runs on a node that this one does not follow."`
	Total    int64    `json:"total,omitempty" doc:"How many items will come, while that is known."`
	InRate   *float64 `json:"in_per_second,omitempty" doc:"Of the last seconds; after the end, of its whole run."`
	OutRate  *float64 `json:"out_per_second,omitempty"`
	Buffered *int64   `json:"buffered,omitempty" doc:"Items that the step before has passed on and that it has not taken yet, while it runs. Missing behind several steps."`
	Capacity *int64   `json:"buffer_capacity,omitempty" doc:"How many may wait so, beside buffered: when as many do, the step before waits. More can be where that one makes several items of one. Missing as buffered is, and where items pass from step to step without a buffer."`
	Working  *float64 `json:"working,omitempty" doc:"The share of its time in which it worked, 0 to 1, without waiting for the modules around it: of the last seconds, after the end of its whole run. Modules that run on several items at once share it."`

	room     int64
	together string // first step of the modules that take turns at the same items
	parallel bool
	ended    bool
}

// ListStreams selects streams.
type ListStreams struct {
	ExecutionPath
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"200" doc:"Modules on a page, about: a stream that begins on it is whole, up to 1,000 modules."`
	Cursor string `query:"cursor" maxLength:"600"`
}

// streamScan is how many steps one request looks at for modules.
const streamScan = 5_000

func (f *fields) streams(ctx context.Context, in *ListStreams) (*answer[StreamList], error) {
	from, err := numberCursor("streams", in.Cursor)
	if err != nil {
		return nil, err
	}
	x, err := f.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	about, err := f.hub.About(ctx, x)
	if err != nil {
		return nil, err
	}
	var flows map[int32]feed.Flow
	if f.o.Feed != nil {
		flows = f.o.Feed.Flows(x.No)
	}
	out := StreamList{Streams: []ItemStream{}}
	modules := 0
	for looked := 0; ; {
		rows, err := f.o.Store.Steps(ctx, x.No, store.StepFilter{From: int32(from), Limit: 500})
		if err != nil {
			return nil, err
		}
		for i := range rows {
			row := &rows[i]
			a := about(row.Key)
			at := slices.IndexFunc(out.Streams, func(s ItemStream) bool { return s.ID == a.Lead })
			if a.Lead != "" && (at >= 0 || modules < in.Limit) && modules < 1000 {
				if at < 0 {
					at = len(out.Streams)
					out.Streams = append(out.Streams, ItemStream{ID: a.Lead})
				}
				s := &out.Streams[at]
				s.Modules = append(s.Modules, f.moduleOf(x, row, &a, flows))
				modules++
			} else if a.Lead != "" || looked+i >= streamScan && (len(out.Streams) == 0 || out.Streams[len(out.Streams)-1].ID != a.Lead) {
				out.Next = cursorTo("streams", fmt.Sprint(row.Idx))
				return reply(out.finished(), nil)
			}
			from = int64(row.Idx) + 1
		}
		if looked += len(rows); len(rows) < 500 {
			return reply(out.finished(), nil)
		}
	}
}

// finished orders the modules, and names the bottlenecks.
func (l StreamList) finished() StreamList {
	for i := range l.Streams {
		s := &l.Streams[i]
		s.order()
		s.buffers()
		s.Bottleneck = s.slowest()
	}
	return l
}

// moduleOf is the view of a step of a stream.
func (f *fields) moduleOf(x *store.Execution, row *store.Step, about *field.About, flows map[int32]feed.Flow) StreamModule {
	m := StreamModule{Step: row.Key, Index: row.Idx, Module: about.Action, Role: "modifier", Inputs: []string{}, Status: row.Status.String(), together: row.Key, ended: row.Status.Terminal()}
	m.Inputs = append(m.Inputs, about.Inputs...)
	if spec, ok := f.o.Catalog.Spec(about.Action); ok && spec.Stream != nil {
		m.Role = string(spec.Stream.Role)
		if spec.Stream.AlsoSource && len(m.Inputs) == 0 {
			m.Role = "source"
		}
		m.parallel = m.Role == "modifier" && spec.Stream.Parallel
	}
	if flow, ok := flows[row.Idx]; ok && !row.Status.Terminal() {
		m.Items = &Items{In: flow.In, Out: flow.Out, Failed: flow.Failed, Dropped: flow.Dropped, Skipped: flow.Skipped}
		m.Total, m.InRate, m.OutRate, m.Working = flow.Total, &flow.InRate, &flow.OutRate, &flow.Working
		m.room = flow.Room
		return m
	}
	counts := row.Items()
	if counts == nil {
		return m
	}
	items := Items(*counts)
	m.Items = &items
	m.ran(row)
	return m
}

// ran adds the rates of a step that has ended.
func (m *StreamModule) ran(row *store.Step) {
	var out struct {
		Duration float64 `json:"duration_seconds"`
		Busy     float64 `json:"busy_seconds"`
	}
	if json.Unmarshal(row.Output, &out) != nil || out.Duration == 0 {
		out.Duration = float64(row.Ended-row.Started) / 1e6
	}
	if out.Duration <= 0 {
		return
	}
	in, passed := float64(m.Items.In)/out.Duration, float64(m.Items.Out)/out.Duration
	m.InRate, m.OutRate = &in, &passed
	if out.Busy > 0 {
		working := min(out.Busy/out.Duration, 1)
		m.Working = &working
	}
}

// order puts each module behind those whose items it takes. What is not on the page is no input.
func (s *ItemStream) order() {
	there := map[string]*StreamModule{}
	for i := range s.Modules {
		there[s.Modules[i].Step] = &s.Modules[i]
	}
	var sorted []StreamModule
	done := map[string]bool{}
	for len(sorted) < len(s.Modules) {
		before := len(sorted)
		for i := range s.Modules {
			m := &s.Modules[i]
			m.Inputs = slices.DeleteFunc(m.Inputs, func(id string) bool { return there[id] == nil })
			if !done[m.Step] && !slices.ContainsFunc(m.Inputs, func(id string) bool { return !done[id] }) {
				done[m.Step] = true
				sorted = append(sorted, *m)
			}
		}
		if len(sorted) == before {
			return // a circle cannot be: the plan has refused it
		}
	}
	s.Modules = sorted
}

// buffers finds out how many items wait before each module, and which modules work on the same ones in turn.
func (s *ItemStream) buffers() {
	outs := map[string]int{}
	for i := range s.Modules {
		for _, id := range s.Modules[i].Inputs {
			outs[id]++
		}
	}
	for i := range s.Modules {
		m := &s.Modules[i]
		if len(m.Inputs) != 1 {
			continue
		}
		from := s.module(m.Inputs[0])
		if m.parallel && from.parallel && outs[from.Step] == 1 {
			m.together = from.together
		}
		if m.Status == "running" && m.Items != nil && from.Items != nil {
			waiting := max(from.Items.Out-m.Items.In, 0)
			m.Buffered = &waiting
			if m.room > 0 {
				room := m.room
				m.Capacity = &room
			}
		}
	}
}

func (s *ItemStream) module(id string) *StreamModule {
	return &s.Modules[slices.IndexFunc(s.Modules, func(m StreamModule) bool { return m.Step == id })]
}

// slowest names the module that limits the stream: the one that works all the time while the others wait for it. Modules that take turns
// at the same items are looked at as one, and of them it is the one that takes the most.
func (s *ItemStream) slowest() *Bottleneck {
	shares, known := map[string]float64{}, 0
	for i := range s.Modules {
		if m := &s.Modules[i]; m.Working != nil && m.Items != nil {
			shares[m.together] += *m.Working
			known++
		}
	}
	if known < 2 || known < len(s.Modules)/2 {
		return nil
	}
	var most *StreamModule
	for i := range s.Modules {
		m := &s.Modules[i]
		if m.Working == nil || m.Items == nil {
			continue
		}
		if most == nil || shares[m.together] > shares[most.together] || m.together == most.together && *m.Working > *most.Working {
			most = m
		}
	}
	if shares[most.together] < 0.2 {
		return nil
	}
	return &Bottleneck{Step: most.Step, Reason: s.reason(most)}
}

// reason says why a module is the bottleneck.
func (s *ItemStream) reason(m *StreamModule) string {
	was, wait, took := "is", "wait", "now"
	if m.ended {
		was, wait, took = "was", "waited", "over its whole run"
	}
	if m.Role == "source" {
		return fmt.Sprintf("%s %s at work %.0f %% of the time: it gives %.0f items a second (%s), and the steps behind it %s for them.", m.Step, was, *m.Working*100, *m.OutRate, took, wait)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s at work %.0f %% of the time, more than any other module: it takes %.0f items a second (%s)", m.Step, was, *m.Working*100, *m.InRate, took)
	if m.Buffered != nil && *m.Buffered > 0 {
		fmt.Fprintf(&b, ", %d wait in front of it", *m.Buffered)
	}
	fmt.Fprintf(&b, ", and the steps around it %s for it.", wait)
	return b.String()
}
