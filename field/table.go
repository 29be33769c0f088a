package field

import (
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api/columns"
	"github.com/stepwell/stepwell/store"
)

// absent is the status of an index that has no step, or none that is known yet.
const absent = uint8(stepwell.StepTimedOut) + 1

// stateNames are the values of the column status.
var stateNames = func() (names []string) {
	for s := stepwell.StepPending; s <= stepwell.StepTimedOut; s++ {
		names = append(names, s.String())
	}
	return append(names, "absent")
}()

// maxWorkers bounds the names of workers in a table; the steps of further ones have none.
const maxWorkers = 1000

// Table is all steps of an execution, by index. It is not changed once it is given out.
type Table struct {
	Version  int64
	began    int64 // ms since 1970
	at       int64 // ms since 1970 of the commit, of a table of the past; 0: now
	status   []uint8
	attempt  []uint8
	start    []uint32 // ms from began, plus 1; 0: not started
	duration []uint32 // ms; 0: not ended
	parent   []uint32 // index of the step that it is inside of, plus 1; 0: none
	worker   []uint16 // in workers
	cost     []uint32 // millionths
	node     []int32  // in blocks
	iter     []int32
	workers  []string

	*structure
	laning sync.Once
	lane   []uint32
	packed packed

	graph   *Graph // the last small one that was made; structure.mu guards it
	graphOf []string
}

// structure is what the successive tables of an execution share; mu guards it.
type structure struct {
	mu         sync.Mutex
	blocks     *blocks
	containers map[string]int32   // steps with others inside, by key
	spawned    map[int32]string   // keys of steps that steps have added
	orphans    map[string][]int32 // steps whose parent has no row yet, by its key
	numbers    map[string]uint16
}

// perStep is the memory of a step of a table in bytes, with its lane and its part of the compressed columns.
const perStep = 2 + 4*4 + 2 + 2*4 + 4 + perPacked

func (t *Table) size() int { return perStep * len(t.status) }

// Len is the number of indexes.
func (t *Table) Len() int { return len(t.status) }

// origin is the moment from which an execution's times count.
func origin(x *store.Execution) int64 {
	if x.Started.IsZero() {
		return x.Created.UnixMilli()
	}
	return x.Started.UnixMilli()
}

func newTable(x *store.Execution, s *shape, states []store.StepState) *Table {
	t := &Table{Version: x.Version, began: origin(x), workers: []string{""},
		structure: &structure{blocks: newBlocks(s), containers: map[string]int32{}, spawned: map[int32]string{}, orphans: map[string][]int32{}, numbers: map[string]uint16{"": 0}}}
	n := len(s.plan.Graph.Steps)
	if len(states) > 0 {
		n = max(n, int(states[len(states)-1].Idx)+1)
	}
	t.grow(n)
	for i := range states {
		t.set(&states[i])
	}
	return t
}

// grow adds indexes.
func (t *Table) grow(n int) {
	main, from := int(t.blocks.list[0].n), len(t.status)
	n = max(n, from)
	t.status, t.attempt, t.worker = resized(t.status, n), resized(t.attempt, n), resized(t.worker, n)
	t.start, t.duration, t.parent, t.cost = resized(t.start, n), resized(t.duration, n), resized(t.parent, n), resized(t.cost, n)
	t.node, t.iter = resized(t.node, n), resized(t.iter, n)
	for i := from; i < n; i++ {
		if t.node[i] = int32(i); i >= main {
			t.node[i], t.status[i] = nowhere, absent
		}
	}
}

func resized[T any](of []T, n int) []T {
	if n == len(of) {
		return of
	}
	return append(of[:len(of):len(of)], make([]T, n-len(of))...)
}

// set writes the state of a step.
func (t *Table) set(s *store.StepState) {
	i := s.Idx
	if t.node[i] == nowhere && s.Key != "" {
		t.name(i, s.Key)
	}
	t.status[i], t.attempt[i], t.start[i], t.duration[i] = stateColumns(s, t.began)
	t.cost[i] = uint32(min(max(s.Cost, 0), math.MaxUint32))
	t.worker[i] = t.workerOf(s.Worker)
}

// stateColumns are the values of the columns that change with a step's state.
func stateColumns(s *store.StepState, began int64) (status, attempt uint8, start, duration uint32) {
	if status = uint8(s.Status); s.Superseded {
		status = absent
	}
	if s.Started > 0 {
		start = millis(s.Started/1000-began) + 1
		if s.Ended > 0 {
			duration = millis((s.Ended - s.Started) / 1000)
		}
	}
	return status, uint8(min(s.Attempt, math.MaxUint8)), start, duration
}

func millis(ms int64) uint32 { return uint32(min(max(ms, 0), math.MaxUint32-1)) }

func (t *Table) workerOf(name string) uint16 {
	n, known := t.numbers[name]
	if !known && len(t.numbers) < maxWorkers {
		n = uint16(len(t.numbers))
		t.numbers[name] = n
		t.workers = append(t.workers, name)
	}
	return n
}

// name finds the place of a step by its key.
func (t *Table) name(i int32, key string) {
	p := t.blocks.find(key)
	t.node[i], t.iter[i] = p.node, p.iter
	if p.parent > 0 {
		if parent, ok := t.blocks.list[0].graph.Index(key[:p.parent]); ok {
			t.parent[i] = uint32(parent) + 1
		} else if parent, ok := t.containers[key[:p.parent]]; ok {
			t.parent[i] = uint32(parent) + 1
		} else { // an iteration has no event of its own when it begins: its row may come later
			around := strings.Clone(key[:p.parent])
			t.orphans[around] = append(t.orphans[around], i)
		}
	}
	if p.node != nowhere && t.blockOf(p.node).graph == nil {
		t.spawned[i] = strings.Clone(key) // the row's may be part of something larger
	}
	if t.container(i) {
		t.containers[strings.Clone(key)] = i
		for _, inside := range t.orphans[key] {
			t.parent[inside] = uint32(i) + 1
		}
		delete(t.orphans, key)
	}
}

// container reports whether a step has others inside.
func (t *Table) container(i int32) bool {
	if t.node[i] == nowhere {
		return false
	}
	b := t.blockOf(t.node[i])
	return b.graph != nil && b.graph.Steps[t.node[i]-b.first].Body != nil
}

// copied is a table that may be changed.
func (t *Table) copied() *Table {
	c := &Table{Version: t.Version, began: t.began, structure: t.structure}
	c.status, c.attempt, c.worker, c.workers = slices.Clone(t.status), slices.Clone(t.attempt), slices.Clone(t.worker), slices.Clone(t.workers)
	c.start, c.duration, c.parent, c.cost = slices.Clone(t.start), slices.Clone(t.duration), slices.Clone(t.parent), slices.Clone(t.cost)
	c.node, c.iter = slices.Clone(t.node), slices.Clone(t.iter)
	return c
}

// Columns are the names of the columns that Encode writes unless it is told which.
var Columns = []string{"status", "attempt", "layer", "pos", "start", "duration", "lane", "parent", "worker", "cost", "edges"}

// Encode writes rows of the table, from an index on, as a table of columns. No names mean all of Columns; beside them it knows key, action
// and queue. Another name is CodeInvalid.
func (t *Table) Encode(names []string, from, limit int) ([]byte, error) {
	if len(names) == 0 {
		names = Columns
	}
	from = min(max(from, 0), t.Len())
	to := min(from+max(limit, 0), t.Len())
	head := columns.Header{Version: t.Version, Rows: to - from, From: from, Total: t.Len(), Began: t.began, At: t.at, States: stateNames, Workers: t.workers}
	var data []columns.Data
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		switch name {
		case "status":
			data = append(data, columns.Data{Name: name, U8: t.status[from:to]})
		case "attempt":
			data = append(data, columns.Data{Name: name, U8: t.attempt[from:to]})
		case "layer", "pos":
			data = append(data, columns.Narrow(name, t.places(name == "layer", from, to)))
		case "start":
			data = append(data, columns.Data{Name: name, U32: t.start[from:to]})
		case "duration":
			data = append(data, columns.Data{Name: name, U32: t.duration[from:to]})
		case "lane":
			t.laning.Do(t.arrangeLanes)
			data = append(data, columns.Narrow(name, t.lane[from:to]))
		case "parent":
			data = append(data, columns.Data{Name: name, U32: t.parent[from:to]})
		case "worker":
			data = append(data, columns.Data{Name: name, U16: t.worker[from:to]})
		case "cost":
			data = append(data, columns.Narrow(name, t.cost[from:to]))
		case "key":
			data = append(data, t.keyColumns(from, to)...)
		case "action", "queue":
			action, queue, actions, queues := t.planned(from, to)
			if name == "action" {
				head.Actions = actions
				data = append(data, columns.Narrow(name, action))
				continue
			}
			head.Queues = queues
			data = append(data, columns.Narrow(name, queue))
		case "edges":
			degree, distance := t.edges(from, to)
			data = append(data, columns.Narrow("degree", degree), columns.Data{Name: name, U32: distance})
		default:
			return nil, stepwell.Invalid("known: status, attempt, layer, pos, start, duration, lane, parent, worker, cost, edges, key, action, queue", "query.columns: there is no column %q", stepwell.Clip(name, 40))
		}
	}
	return columns.Encode(head, data)
}

// blockOf is the block of a node.
func (t *Table) blockOf(node int32) *block { return &t.blocks.list[t.blocks.of(node)] }

// places are the layers or positions of steps within the graph that they are part of.
func (t *Table) places(layer bool, from, to int) []uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]uint32, to-from)
	for i := from; i < to; i++ {
		if l, pos := t.placeOf(i); layer {
			out[i-from] = l
		} else {
			out[i-from] = pos
		}
	}
	return out
}

// placeOf is the layer of a step and its position in it. The iterations of a for_each lie beside each other, spawned steps behind the
// last layer. The caller holds t.mu.
func (t *Table) placeOf(i int) (layer, pos uint32) {
	node := t.node[i]
	if node == nowhere {
		return 0, 0
	}
	b := t.blockOf(node)
	if b.graph == nil {
		return uint32(len(b.layout.Width)), uint32(t.iter[i])
	}
	local := node - b.first
	of := b.layout.Layer[local]
	return uint32(of), uint32(b.layout.Pos[local]) + uint32(t.iter[i])*uint32(b.layout.Width[of])
}

// edges are how many dependencies each step has, and for each of them how many indexes lie between, from the step back to it,
// modulo 2³² because it may come behind the step.
func (t *Table) edges(from, to int) (degree, distance []uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	degree, distance = make([]uint32, to-from), make([]uint32, 0, 2*(to-from))
	for i := from; i < to; i++ {
		before := len(distance)
		distance = t.edgesOf(distance, i)
		degree[i-from] = uint32(len(distance) - before)
	}
	return degree, distance
}

// edgesOf appends the dependencies of a step. The caller holds t.mu.
func (t *Table) edgesOf(to []uint32, i int) []uint32 {
	node := t.node[i]
	if node == nowhere {
		return to
	}
	b := t.blockOf(node)
	if b.graph == nil {
		return to
	}
	for _, dep := range b.layout.Deps(node - b.first) {
		to = append(to, uint32(node-b.first-dep))
	}
	return to
}
