package field

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/store"
)

// Filter selects steps of an execution. Zero fields select all.
type Filter struct {
	Statuses []stepwell.StepStatus
	Indexes  []int32
	Key      string // of the only one
	Parent   string // key of the step that they are directly inside of
	Prefix   string // of their keys
	Text     string // in their keys or actions, in upper or lower case
	Sort     Order
	Down     bool  // the largest first
	After    *Mark // the last one of the page before
	Limit    int
}

// Order is what steps are sorted by.
type Order uint8

const (
	ByIndex    Order = iota
	ByStarted        // those that have not started have the smallest time
	ByDuration       // until now of those that have not ended
)

// Mark is a step's place in an order.
type Mark struct {
	Value int64
	Index int32
}

// Found is a step of a selection.
type Found struct {
	Mark
	Key      string // "#" and the index while the step has no key
	Status   stepwell.StepStatus
	Attempt  int
	Duration int64 // ms; 0: it has not ended
}

// Select finds steps, without a read of the store while the table is up to date. The cost is that of looking at every step.
func (h *Hub) Select(ctx context.Context, x *store.Execution, f Filter) ([]Found, error) {
	t, err := h.Table(ctx, x)
	if err != nil {
		return nil, err
	}
	return t.Select(f), nil
}

// Select finds steps of the table. The cost is that of looking at every step.
func (t *Table) Select(f Filter) []Found {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &selection{t: t, f: &f, now: t.moment() - t.began, actions: map[int32]bool{}, text: strings.ToLower(f.Text)}
	if s.place.node = nowhere; f.Key != "" && !strings.Contains(f.Key, ":") { // those of spawned steps are given out as they come
		s.place = t.blocks.find(f.Key)
	}
	for _, status := range f.Statuses {
		s.statuses |= 1 << status
	}
	if f.Parent != "" {
		i, known := t.blocks.list[0].graph.Index(f.Parent)
		if !known {
			if i, known = t.containers[f.Parent]; !known {
				return nil
			}
		}
		s.parent = uint32(i) + 1
	}
	if f.Indexes == nil {
		for i := range int32(t.Len()) {
			s.look(i)
		}
	}
	for _, i := range f.Indexes {
		if i >= 0 && int(i) < t.Len() {
			s.look(i)
		}
	}
	slices.SortFunc(s.found, s.compare)
	if len(s.found) > f.Limit {
		s.found = s.found[:f.Limit]
	}
	for i := range s.found {
		s.found[i].Key = t.key(s.found[i].Index)
	}
	return slices.Clone(s.found)
}

// moment is the time that the table shows, in ms since 1970.
func (t *Table) moment() int64 {
	if t.at > 0 {
		return t.at
	}
	return time.Now().UnixMilli()
}

// selection is a Filter at work on a table.
type selection struct {
	t        *Table
	f        *Filter
	statuses uint
	parent   uint32
	place    place // of the only key; nowhere: that is not known
	text     string
	now      int64
	actions  map[int32]bool // which nodes have an action with the text
	found    []Found
}

// look takes a step if it is one that is looked for.
func (s *selection) look(i int32) {
	t := s.t
	if t.status[i] == absent || s.statuses != 0 && s.statuses&(1<<t.status[i]) == 0 || s.parent != 0 && t.parent[i] != s.parent {
		return
	}
	if s.place.node != nowhere && (t.node[i] != s.place.node || t.iter[i] != s.place.iter) {
		return
	}
	x := Found{Mark: Mark{s.value(i), i}, Status: stepwell.StepStatus(t.status[i]), Attempt: int(t.attempt[i]), Duration: int64(t.duration[i])}
	if s.f.After != nil && s.compare(x, Found{Mark: *s.f.After}) <= 0 {
		return
	}
	if s.f.Key != "" || s.f.Prefix != "" || s.text != "" {
		key := t.key(i)
		if s.f.Key != "" && key != s.f.Key || !strings.HasPrefix(key, s.f.Prefix) || !strings.Contains(strings.ToLower(key), s.text) && !s.does(t.node[i]) {
			return
		}
	}
	s.found = append(s.found, x)
}

// does reports whether the action of a node has the text.
func (s *selection) does(node int32) bool {
	if node == nowhere {
		return false
	}
	has, known := s.actions[node]
	if b := s.t.blockOf(node); !known && b.graph != nil {
		has = strings.Contains(strings.ToLower(actionOf(&b.graph.Steps[node-b.first])), s.text)
		s.actions[node] = has
	}
	return has
}

// actionOf is what a step does: of a for_each, what each iteration does.
func actionOf(s *plan.Step) string {
	if s.Body != nil && s.Body.Single {
		return s.Body.Graph.Steps[0].Does()
	}
	return s.Does()
}

// value is what a step is sorted by, besides its index.
func (s *selection) value(i int32) int64 {
	start := int64(s.t.start[i])
	switch {
	case s.f.Sort == ByStarted:
		return start
	case s.f.Sort == ByIndex || start == 0:
		return 0
	case stepwell.StepStatus(s.t.status[i]).Terminal():
		return int64(s.t.duration[i])
	}
	return max(0, s.now-start+1)
}

func (s *selection) compare(a, b Found) int {
	c := cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(a.Index, b.Index))
	if s.f.Down {
		return -c
	}
	return c
}

// key is that of a step, or "#" and its index while it has none. The caller holds t.mu.
func (t *Table) key(i int32) string {
	node := t.node[i]
	if node == nowhere {
		return "#" + strconv.Itoa(int(i))
	}
	b := t.blockOf(node)
	if b.graph == nil {
		return t.spawned[i]
	}
	key := b.graph.Steps[node-b.first].ID
	if b.around >= 0 { // a handler
		key = b.id[strings.LastIndexByte(b.id[:len(b.id)-1], '.')+1:] + key
	}
	if b.up < 0 {
		return key
	}
	parent := int32(t.parent[i]) - 1
	if parent < 0 {
		return "#" + strconv.Itoa(int(i)) // the step around it has no row yet
	}
	around := t.key(parent)
	if up := t.node[parent]; up != nowhere {
		if of := t.blockOf(up); of.graph != nil && of.graph.Steps[up-of.first].ForEach != nil {
			around += "[" + strconv.Itoa(int(t.iter[i])) + "]"
		}
	}
	if b.single {
		return around
	}
	return around + "." + key
}

// About is what the plan says of a step.
type About struct {
	Name      string
	Action    string
	Kind      string // as of nodes
	Parent    string // key of the step that it is inside of; "": none
	DependsOn []string
	Attempts  int      // that it may have; 0: unknown
	Queue     string   // that it is queued in; "": the default one
	Inputs    []string // of a stream step: whose items it takes
	Lead      string   // of a stream step: key of the step that runs it, itself or another
}

// About returns what the plan of an execution says of steps, by their keys. What it returns is for one goroutine.
func (h *Hub) About(ctx context.Context, x *store.Execution) (func(key string) About, error) {
	s, err := h.shapeOf(ctx, x.Definition)
	if err != nil {
		return nil, err
	}
	blocks := newBlocks(s)
	return func(key string) About {
		p := blocks.find(key)
		if p.node == nowhere {
			return About{Kind: "step"}
		}
		b := blocks.list[blocks.of(p.node)]
		if b.graph == nil {
			return About{Kind: "spawned", Parent: key[:p.parent]}
		}
		step := &b.graph.Steps[p.node-b.first]
		out := About{Name: step.Name, Action: actionOf(step), Kind: kindOf(step), Parent: key[:p.parent]}
		if step.Policy != nil && step.Body == nil {
			out.Attempts, out.Queue = step.Policy.Retry.MaxAttempts, step.Policy.Queue
		}
		before, ok := strings.CutSuffix(key, step.ID)
		if out.Lead = key; step.Stream == nil {
			out.Lead = ""
		} else if ok {
			if lead, led := step.Lead(); led {
				out.Lead = before + b.graph.Steps[lead].ID
			}
			for _, from := range step.Stream.Inputs {
				out.Inputs = append(out.Inputs, before+b.graph.Steps[from].ID)
			}
		}
		if ok && !b.single {
			for _, dep := range b.layout.Deps(p.node - b.first) {
				out.DependsOn = append(out.DependsOn, before+b.graph.Steps[dep].ID)
			}
		}
		return out
	}, nil
}
