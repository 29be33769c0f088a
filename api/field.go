package api

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/semaphore"

	"github.com/stepwell/stepwell/api/columns"
	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/field"
)

// fields are the operations that show all steps of an execution at once.
func (s *server) fields() {
	o := field.Options{Store: s.o.Store, Stopping: s.o.Stopping, Past: s.o.Forecast.StepsAt, Changes: s.o.Forecast.Changes, Plan: s.o.Forecast.Plan}
	if s.o.Feed != nil {
		o.Watch = func(no int64, notice func(*field.Commit)) func() {
			return s.o.Feed.Watch(no, func(n feed.Notice) {
				if u := n.Commit; u != nil {
					notice(&field.Commit{Execution: u.Execution, StepChanges: u.StepChanges})
				} else if n.Events || n.Ended {
					notice(nil)
				}
			})
		}
	}
	if s.o.Catalog != nil {
		o.Catalog = s.o.Catalog
	}
	f := &fields{s, field.New(o), semaphore.NewWeighted(mostPlaces)}
	handle(s, "execution.steps", f.listSteps)
	handle(s, "execution.attempts", f.attempts)
	handle(s, "execution.attempts.columns", f.attemptColumns, func(op *huma.Operation) {
		op.Description = "Binary, as /field. A row is an attempt, as in /attempts and in the same order, which a later version only adds to. index: of its step. attempt: its number. queued, started, ended: milliseconds from began, plus 1; 0: not. " +
			"backoff: milliseconds from its end until the step went on, or will: the next attempt after a failure, or the end of what it waited for; 0: it did not, or that is not known. " +
			"outcome: a position in outcomes. worker: a position in workers, 0 of those behind the first 1,000. queue: a position in queues. These lists are those of one answer. All of it, and the errors, are JSON in /attempts."
		s.describeColumns(op)
	})
	handle(s, "execution.compare", f.compare)
	handle(s, "execution.streams", f.streams)
	handle(s, "execution.streams.failures", f.streamFailures)
	handle(s, "execution.footprints", f.footprints, s.describeFootprints)
	handle(s, "execution.footprints.items", f.footprintItems)
	handle(s, "execution.footprints.item", f.footprintItem)
	handle(s, "execution.graph", f.graph)
	handle(s, "pipeline.matrix", f.matrix)
	handle(s, "execution.field.stream", f.stream, describeFieldStream)
	handle(s, "execution.field", f.table, func(op *huma.Operation) {
		op.Description = "Binary: SWC1, the length of a JSON header (schema FieldHeader) as a 32-bit number, the header, and the columns in its order, little-endian, each from a multiple of 8 bytes on. A row is the step with its index. " +
			"status: a position in states. start: milliseconds from began, plus 1; 0: not started. duration: milliseconds; 0: not ended. layer and pos: where the step is drawn within the steps around it. lane: steps in the same lane do not run at the same time. " +
			"parent: index of the step around it, plus 1; 0: none. worker: a position in workers. cost: millionths. edges: the column degree says how many dependencies each step has, edges for each of them how much lower its index is (modulo 2^32). " +
			"action and queue: positions in actions and queues, which are those of one answer. key: the bytes of the keys, one after the other; key_shared says how many bytes each has in common with the key of the row before that has one, key_length how many of its own follow; both are 0 where a row has none yet. " +
			"The parent, layer, pos and edges of a step inside another one are 0 until it has begun. All of it is JSON in /steps and /graph."
		s.describeColumns(op)
	})
	handle(s, "execution.events.columns", f.changes, func(op *huma.Operation) {
		op.Description = "Binary, as /field. A row is a change of a step by a commit: folded up to a version, they give what /field has with that version. " +
			"index: of the step. status, attempt, start and duration: as in /field, after the change. version: of the commit. dt: milliseconds since the row before, of the first one since at in the header; " +
			"65535: the next two values of gap are the milliseconds, the low and the high 32 bits. Where from is a multiple of 65,536, at_status, at_attempt, at_start and at_duration are the states of all steps before the first row. " +
			"The step log is folded unless the changes are kept, which costs what recovering the execution does. All of it is JSON in /history, and in /steps with a version."
		s.describeColumns(op)
	})
}

// describeColumns describes the answer of an operation that gives columns.
func (s *server) describeColumns(op *huma.Operation) {
	header := s.schemaOf(reflect.TypeFor[FieldHeader]())
	op.Responses["200"] = &huma.Response{Description: "The columns", Headers: map[string]*huma.Param{"ETag": {Schema: &huma.Schema{Type: huma.TypeString}}},
		Content: map[string]*huma.MediaType{columns.MediaType: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary", Extensions: map[string]any{"x-header": header}}}}}
}

type fields struct {
	*server
	hub *field.Hub
	// places bounds the requests that read footprints at once: each may hold those of a whole execution.
	places *semaphore.Weighted
}

const mostPlaces = 2

// FieldHeader describes the columns of an execution's steps.
type FieldHeader columns.Header

// Graph is an execution as few nodes.
type Graph struct {
	Version   int64       `json:"version" doc:"Of the execution: the number of its last commit."`
	Nodes     []GraphNode `json:"nodes" nullable:"false" doc:"At most 2,000 in all."`
	Truncated bool        `json:"truncated" doc:"There are too many steps for a node each: neighbouring ones are merged into clusters, or some dependencies are left out."`
	As        *Then       `json:"as_of,omitempty" doc:"The commit that this is the state after, when a version or time was asked for."`
}

// GraphNode is a step, or several of them.
type GraphNode struct {
	field.Node
	Cost Money `json:"cost,omitempty" doc:"Of all its steps."`
}

// GetGraph selects the nodes of a graph.
type GetGraph struct {
	ExecutionPath
	Expand      []string `query:"expand" maxItems:"50" doc:"Nodes whose steps inside get nodes of their own: groups, for_each steps and sub-pipelines, by id, with commas between them."`
	IfNoneMatch string   `header:"If-None-Match" maxLength:"2000"`
	Moment
}

func (f *fields) graph(ctx context.Context, in *GetGraph) (*tagged[Graph], error) {
	x, err := f.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	var as *Then
	var g *field.Graph
	if in.past() {
		var p *field.Past
		if p, err = f.hub.At(ctx, x, in.Moment.Version, in.At); err == nil {
			as = asOf(p)
			g, err = p.Table.Graph(in.Expand)
		}
	} else if unchanged(in.IfNoneMatch, x.Version) {
		return nil, notModified(x.Version)
	} else {
		g, err = f.hub.Graph(ctx, x, in.Expand)
	}
	if err != nil {
		return nil, err
	}
	out := &tagged[Graph]{etag(g.Version), Graph{Version: g.Version, Nodes: make([]GraphNode, len(g.Nodes)), Truncated: g.Truncated, As: as}}
	for i, n := range g.Nodes {
		out.Body.Nodes[i] = GraphNode{n, Money(n.Cost)}
	}
	return out, nil
}

// GetField selects the columns and rows of a field.
type GetField struct {
	ExecutionPath
	Columns     []string `query:"columns" maxItems:"14" enum:"status,attempt,layer,pos,start,duration,lane,parent,worker,cost,edges,key,action,queue" doc:"Only these, with commas between them. Defaults to all but key, action and queue."`
	From        int      `query:"from" minimum:"0" maximum:"1000000" doc:"Index of the step of the first row."`
	Limit       int      `query:"limit" minimum:"1" maximum:"100000" default:"100000" doc:"Rows at most; total in the header says how many there are."`
	IfNoneMatch string   `header:"If-None-Match" maxLength:"2000"`
	Moment
}

func (f *fields) table(ctx context.Context, in *GetField) (*streamed, error) {
	x, err := f.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	var t *field.Table
	if in.past() {
		var p *field.Past
		if p, err = f.hub.At(ctx, x, in.Version, in.At); err == nil {
			t = p.Table
		}
	} else if unchanged(in.IfNoneMatch, x.Version) {
		return nil, notModified(x.Version)
	} else {
		t, err = f.hub.Table(ctx, x)
	}
	if err != nil {
		return nil, err
	}
	encode, packed := t.Encode, zips(ctx)
	if packed {
		encode = t.Packed
	}
	raw, err := encode(in.Columns, in.From, in.Limit)
	if err != nil {
		return nil, err
	}
	return asColumns(raw, packed, t.Version), nil
}

// zips reports whether the client takes compressed answers.
func zips(ctx context.Context) bool {
	return strings.Contains(callOf(ctx).request.Header.Get("Accept-Encoding"), "gzip")
}

// asColumns answers with a table of columns, of a version of the execution; 0: of none, so that nobody keeps it.
func asColumns(raw []byte, packed bool, version int64) *streamed {
	return &streamed{func(hc huma.Context) {
		if version > 0 {
			hc.SetHeader("ETag", etag(version))
		}
		hc.SetHeader("Content-Type", columns.MediaType)
		hc.SetHeader("Vary", "Accept-Encoding")
		if packed {
			hc.SetHeader("Content-Encoding", "gzip")
		}
		hc.SetHeader("Content-Length", strconv.Itoa(len(raw)))
		hc.SetStatus(http.StatusOK)
		_, _ = hc.BodyWriter().Write(raw) // the client may have gone
	}}
}
