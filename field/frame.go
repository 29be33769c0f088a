package field

import (
	"context"
	"maps"
	"slices"

	"github.com/stepwell/stepwell/api/columns"
)

// maxFrame is how many steps a frame has at most, unless a fifth of all are more.
const maxFrame = 15_000

// since is the frame of what differs from an earlier table.
func (t *Table) since(before *Table) []byte {
	if before.began != t.began { // all times count anew
		return t.frame(nil, nil, true)
	}
	var of, placed []int32
	for i := range t.Len() {
		if i >= before.Len() || t.node[i] != before.node[i] || t.parent[i] != before.parent[i] {
			placed = append(placed, int32(i))
		}
		if i >= before.Len() || t.status[i] != before.status[i] || t.attempt[i] != before.attempt[i] || t.start[i] != before.start[i] || t.duration[i] != before.duration[i] || t.worker[i] != before.worker[i] {
			of = append(of, int32(i))
		}
	}
	return t.frame(of, placed, max(len(of), len(placed)) > max(maxFrame, t.Len()/patchShare))
}

// frame is the states of some steps and the places of some, or says that all are to be fetched again.
func (t *Table) frame(of, placed []int32, again bool) []byte {
	head := columns.Header{Version: t.Version, Total: t.Len(), Began: t.began, States: stateNames, Again: again}
	if again {
		of, placed = nil, nil
	} else {
		head.Workers = t.workers
	}
	n := len(of)
	head.Rows = n
	index, start, duration := make([]uint32, n), make([]uint32, n), make([]uint32, n)
	status, attempt, worker := make([]uint8, n), make([]uint8, n), make([]uint16, n)
	for k, i := range of {
		index[k], start[k], duration[k], status[k], attempt[k], worker[k] = uint32(i), t.start[i], t.duration[i], t.status[i], t.attempt[i], t.worker[i]
	}
	data := []columns.Data{{Name: "index", U32: index}, {Name: "status", U8: status}, {Name: "attempt", U8: attempt}, {Name: "start", U32: start}, {Name: "duration", U32: duration}, columns.Narrow("worker", widened(worker))}
	raw, err := columns.Encode(head, append(data, t.placeColumns(placed)...))
	if err != nil {
		panic(err) // lengths and header are ours
	}
	return raw
}

func widened(of []uint16) []uint32 {
	out := make([]uint32, len(of))
	for i, v := range of {
		out[i] = uint32(v)
	}
	return out
}

// placeColumns are where steps are: what Encode writes as parent, layer, pos and edges.
func (t *Table) placeColumns(of []int32) []columns.Data {
	n := len(of)
	index, parent, layer, pos, degree, edges := make([]uint32, n), make([]uint32, n), make([]uint32, n), make([]uint32, n), make([]uint32, n), make([]uint32, 0, n)
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, i := range of {
		index[k], parent[k] = uint32(i), t.parent[i]
		layer[k], pos[k] = t.placeOf(int(i))
		before := len(edges)
		edges = t.edgesOf(edges, int(i))
		degree[k] = uint32(len(edges) - before)
	}
	return []columns.Data{{Name: "place_index", U32: index}, {Name: "place_parent", U32: parent}, columns.Narrow("place_layer", layer), columns.Narrow("place_pos", pos),
		columns.Narrow("place_degree", degree), {Name: "place_edges", U32: edges}}
}

// catchUp is the frame for a follower who is further behind than the kept frames: what the log says has changed since.
func (w *wave) catchUp(ctx context.Context, since int64) (frame, error) {
	t := w.table
	f := frame{from: since, to: t.Version}
	c, err := w.hub.changes(ctx, w.no, since, t.Version, max(maxFrame, t.Len()/patchShare))
	if err != nil {
		return f, err
	}
	if c.rest || since <= 0 {
		f.body = t.frame(nil, nil, true)
		return f, nil
	}
	for _, i := range slices.Collect(maps.Keys(c.touched)) { // and the steps around them, which have no events of their own
		for int(i) < t.Len() && t.parent[i] > 0 && !c.touched[int32(t.parent[i])-1] {
			i = int32(t.parent[i]) - 1
			c.touched[i] = true
		}
	}
	of := slices.DeleteFunc(slices.Sorted(maps.Keys(c.touched)), func(i int32) bool { return int(i) >= t.Len() })
	f.body = t.frame(of, t.placedBy(c.touched, of), false)
	return f, nil
}

// placedBy are some steps and those whose place may have become known with one of them: inside an iteration, which may have got its row
// after what is inside of it.
func (t *Table) placedBy(touched map[int32]bool, of []int32) []int32 {
	main := t.blocks.list[0].n
	placed := slices.Clone(of)
	for i, parent := range t.parent {
		if p := int32(parent) - 1; p >= main && touched[p] && !touched[int32(i)] {
			placed = append(placed, int32(i))
		}
	}
	slices.Sort(placed)
	return placed
}
