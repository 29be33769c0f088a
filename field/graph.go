package field

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// Limits of a graph.
const (
	MaxNodes  = 2_000
	MaxExpand = 50
	maxEdges  = 20_000 // of all nodes together
	keptNodes = 200    // of the graph that a table keeps
)

// Graph is an execution as few nodes.
type Graph struct {
	Version   int64
	Nodes     []Node
	Truncated bool
}

// Node is a step, or several of them.
type Node struct {
	Index     int32          `json:"index" doc:"Index of the step; −1 for several."`
	Count     int            `json:"count" doc:"How many steps are counted in states."`
	ID        string         `json:"id" doc:"The id of the step, behind those of the steps around it: group.step."`
	Kind      string         `json:"kind" enum:"step,group,for_each,pipeline,stream,spawned,cluster" doc:"spawned: steps of one name that steps have added; cluster: neighbouring steps of a graph with too many."`
	Action    string         `json:"action,omitempty"`
	Parent    string         `json:"parent,omitempty" doc:"The node that it is inside of."`
	DependsOn []string       `json:"depends_on" nullable:"false" doc:"Ids of nodes with the same parent."`
	Layer     int32          `json:"layer" doc:"Above the layers of the nodes that it depends on, within its parent."`
	Pos       int32          `json:"pos" doc:"Position in the layer."`
	Status    string         `json:"status,omitempty" enum:"pending,queued,running,retrying,waiting,completed,failed,skipped,cancelled,timed_out" doc:"Of the step itself, if it is one."`
	States    map[string]int `json:"states" nullable:"false" doc:"How many of the steps are in which status: those inside of it, as far as they exist, or else the step itself."`
	First     *resource.Time `json:"first_started,omitempty"`
	Last      *resource.Time `json:"last_ended,omitempty" doc:"Of the steps that have ended."`
	// Cost is in millionths.
	Cost int64 `json:"-"`
}

// Graph is the graph of an execution, whose row the caller has read. The steps inside the nodes named by expand have nodes of
// their own; those of a for_each stand for all iterations. Steps that have not been created yet are there too. CodeInvalid for a
// name that has nothing inside.
func (h *Hub) Graph(ctx context.Context, x *store.Execution, expand []string) (*Graph, error) {
	t, err := h.Table(ctx, x)
	if err != nil {
		return nil, err
	}
	return t.Graph(expand)
}

// Graph is the graph of the table, as Hub.Graph makes it. The caller must not change it: the last small one is kept, as each looks at all
// steps.
func (t *Table) Graph(expand []string) (*Graph, error) {
	if len(expand) > MaxExpand {
		return nil, stepwell.Invalid("", "query.expand: %d names, at most %d are allowed", len(expand), MaxExpand)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.graph != nil && slices.Equal(t.graphOf, expand) {
		return t.graph, nil
	}
	m := &merger{t: t, of: map[int32]int32{0: 0}, besides: map[int32]int32{}, open: []int32{0}}
	for _, id := range expand {
		if err := m.expand(id); err != nil {
			return nil, err
		}
	}
	m.arrange()
	m.sum()
	g := &Graph{Version: t.Version, Nodes: m.finish(), Truncated: m.truncated}
	if len(g.Nodes) <= keptNodes {
		t.graph, t.graphOf = g, slices.Clone(expand)
	}
	return g, nil
}

// merger makes a graph of a table.
type merger struct {
	t         *Table
	open      []int32         // blocks whose steps have nodes
	of        map[int32]int32 // of such a block: its place in first
	first     [][]int32       // of an open block: the node of each of its steps
	besides   map[int32]int32 // nodes of families and handlers, by block
	nodes     []Node
	sums      []sum
	edges     int
	truncated bool
}

// sum is what is behind a node.
type sum struct {
	steps       int // that the node itself stands for
	own         uint8
	containers  [absent]int // steps with others inside, by status
	inside      [absent]int // other steps
	first, last int64       // ms since 1970
	cost        int64
}

// expand opens the block inside the step with an id, and those around it.
func (m *merger) expand(id string) error {
	bad := stepwell.Invalid("name groups, for_each steps and sub-pipelines by the ids of nodes, such as group.inner", "query.expand: there is nothing inside %q", stepwell.Clip(id, 100))
	at := int32(0)
	for name := range strings.SplitSeq(id, ".") {
		g := m.t.blocks.list[at].graph
		i, ok := g.Index(name)
		switch {
		case ok:
			if at = m.t.blocks.inside(at, i); at >= 0 && m.t.blocks.list[at].single {
				if within := m.t.blocks.inside(at, 0); within >= 0 {
					at = within
				}
			}
		default:
			at = m.t.blocks.handlers(at, name)
		}
		if at < 0 {
			return bad
		}
		if _, known := m.of[at]; !known {
			m.of[at] = int32(len(m.open))
			m.open = append(m.open, at)
		}
	}
	return nil
}

// arrange makes the nodes of the open blocks, and of the families and handlers that belong to them.
func (m *merger) arrange() {
	total := 0
	for _, at := range m.open {
		total += int(m.t.blocks.list[at].n)
	}
	m.first = make([][]int32, len(m.open))
	for k, at := range m.open {
		b := m.t.blocks.list[at]
		if total <= MaxNodes {
			m.steps(k, &b)
		} else {
			m.clusters(k, &b, max(2, MaxNodes/len(m.open)))
		}
	}
	for k, at := range m.open {
		for _, name := range []string{"on_failure", "finally"} {
			if handlers := m.t.blocks.handlers(at, name); handlers >= 0 {
				m.beside(handlers, k)
			}
		}
	}
}

// parent is the id of the node around a block: its id without the dot.
func parent(b *block) string { return strings.TrimSuffix(b.id, ".") }

func (m *merger) add(n Node) int32 {
	m.nodes, m.sums = append(m.nodes, n), append(m.sums, sum{first: math.MaxInt64})
	return int32(len(m.nodes)) - 1
}

// steps gives each step of a block a node.
func (m *merger) steps(k int, b *block) {
	for i := range b.n {
		step := &b.graph.Steps[i]
		n := Node{Index: -1, ID: b.id + step.ID, Kind: kindOf(step), Action: step.Does(), Parent: parent(b), Layer: b.layout.Layer[i], Pos: b.layout.Pos[i], DependsOn: []string{}}
		for _, dep := range b.layout.Deps(i) {
			m.depend(&n, b.id+b.graph.Steps[dep].ID)
		}
		m.first[k] = append(m.first[k], m.add(n))
	}
}

func (m *merger) depend(n *Node, on string) {
	if m.edges++; m.edges > maxEdges {
		m.truncated = true
		return
	}
	n.DependsOn = append(n.DependsOn, on)
}

// clusters gives the steps of a block at most so many nodes.
func (m *merger) clusters(k int, b *block, most int) {
	if int(b.n) <= most {
		m.steps(k, b)
		return
	}
	m.truncated = true
	c := b.layout.Clusters(most)
	from := int32(len(m.nodes))
	id := func(cluster int32) string { return b.id + "#" + strconv.Itoa(int(cluster)) }
	for i := range int32(c.Len()) {
		n := Node{Index: -1, ID: id(i), Kind: "cluster", Parent: parent(b), Layer: c.Layer[i], Pos: c.Pos[i], DependsOn: []string{}}
		for _, dep := range c.Deps(i) {
			m.depend(&n, id(dep))
		}
		m.add(n)
	}
	m.first[k] = make([]int32, b.n)
	for i, cluster := range c.Of {
		m.first[k][i] = from + cluster
	}
}

func kindOf(s *plan.Step) string {
	switch {
	case s.ForEach != nil:
		return "for_each"
	case s.Body != nil && s.Body.Pipeline != "":
		return "pipeline"
	case s.Body != nil:
		return "group"
	case s.Stream != nil:
		return "stream"
	}
	return "step"
}

// target is the node that the steps of a block count for: one for each in an open block, else that of the step around it.
func (m *merger) target(at int32) (each []int32, node int32) {
	for {
		b := m.t.blocks.list[at]
		if k, open := m.of[at]; open {
			return m.first[k], -1
		}
		if b.around >= 0 { // a family, or handlers
			if k, open := m.of[b.around]; open {
				return nil, m.beside(at, int(k))
			}
			at = b.around
			continue
		}
		up := m.t.blocks.of(b.up)
		if k, open := m.of[up]; open {
			return nil, m.first[k][b.up-m.t.blocks.list[up].first]
		}
		at = up
	}
}

// beside makes the node of a family or of handlers, behind the last layer of the block that they belong to.
func (m *merger) beside(at int32, k int) int32 {
	if node, known := m.besides[at]; known {
		return node
	}
	b := &m.t.blocks.list[at]
	around := m.t.blocks.list[b.around]
	n := Node{Index: -1, ID: parent(b), Kind: "group", Parent: parent(&around), Layer: int32(len(around.layout.Width)), Pos: at, DependsOn: []string{}}
	if b.graph == nil {
		n.Kind = "spawned"
		name := strings.TrimPrefix(b.id, around.id)
		for _, s := range around.graph.Spawners {
			if s.Name != name && !strings.HasPrefix(s.Name, name+":") {
				continue
			}
			for _, i := range s.Steps {
				m.depend(&n, m.nodes[m.first[k][i]].ID)
			}
		}
	}
	m.besides[at] = m.add(n)
	return m.besides[at]
}

// sum adds every step of the table to its node.
func (m *merger) sum() {
	t := m.t
	each, node := make([][]int32, len(t.blocks.list)), make([]int32, len(t.blocks.list))
	for at := range t.blocks.list {
		each[at], node[at] = m.target(int32(at))
	}
	for i := range t.node {
		if t.node[i] == nowhere || t.status[i] == absent {
			continue
		}
		at := t.blocks.of(t.node[i])
		to := node[at]
		if each[at] != nil {
			to = each[at][t.node[i]-t.blocks.list[at].first]
			m.sums[to].steps++
			m.nodes[to].Index, m.sums[to].own = int32(i), t.status[i]
		}
		m.count(to, i)
	}
}

func (m *merger) count(to int32, i int) {
	s, t := &m.sums[to], m.t
	if t.container(int32(i)) {
		s.containers[t.status[i]]++
	} else {
		s.inside[t.status[i]]++
	}
	if t.start[i] > 0 {
		began := t.began + int64(t.start[i]) - 1
		s.first = min(s.first, began)
		if stepwell.StepStatus(t.status[i]).Terminal() {
			s.last = max(s.last, began+int64(t.duration[i]))
		}
	}
	s.cost += int64(t.cost[i])
}

// finish writes the sums into the nodes.
func (m *merger) finish() []Node {
	for i := range m.nodes {
		n, s := &m.nodes[i], &m.sums[i]
		n.States = map[string]int{}
		counts := &s.inside
		if *counts == [absent]int{} {
			counts = &s.containers // nothing inside exists yet, or it has nodes of its own
		}
		for status, c := range counts {
			if c > 0 {
				n.States[stateNames[status]] = c
				n.Count += c
			}
		}
		if n.Count == 0 {
			n.Count, n.States["pending"] = 1, 1 // it will be created
		}
		if s.steps == 1 {
			n.Status = stateNames[s.own]
		} else {
			n.Index = -1
		}
		if s.first != math.MaxInt64 {
			n.First = at(s.first)
		}
		if s.last > 0 {
			n.Last = at(s.last)
		}
		n.Cost = s.cost
	}
	return m.nodes
}

func at(ms int64) *resource.Time {
	t := resource.At(time.UnixMilli(ms).UTC())
	return &t
}
