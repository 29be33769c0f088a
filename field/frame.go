package field

import (
	"context"
	"maps"
	"slices"

	"github.com/stepwell/stepwell/api/columns"
)

// maxFrame is how many steps a frame has at most, unless a fifth of all are more.
const maxFrame = 15_000

// touched is which steps of a followed execution have changed, and when last.
type touched struct {
	since  int64   // everything after this version is known
	state  []int64 // version of the table in which a step's state was another one; 0: none
	placed []int64 // the same of its place
	fresh  int64   // version of the last table whose times count anew
}

// perTouched is the memory of a step in bytes.
const perTouched = 16

// followedSize is the memory of a followed table in bytes.
func followedSize(t *Table) int { return t.size() + perTouched*t.Len() }

// add notes what differs from an earlier table.
func (d *touched) add(t, before *Table) {
	d.state, d.placed = resized(d.state, t.Len()), resized(d.placed, t.Len())
	if before.began != t.began {
		d.fresh = t.Version
	}
	for i := range t.Len() {
		if i >= before.Len() || t.node[i] != before.node[i] || t.parent[i] != before.parent[i] {
			d.placed[i] = t.Version
		}
		if i >= before.Len() || t.status[i] != before.status[i] || t.attempt[i] != before.attempt[i] || t.start[i] != before.start[i] || t.duration[i] != before.duration[i] || t.worker[i] != before.worker[i] {
			d.state[i] = t.Version
		}
	}
}

// after is what has changed after a version; again: everything may have.
func (d *touched) after(version int64) (of, placed []int32, again bool) {
	for i, v := range d.state {
		if v > version {
			of = append(of, int32(i))
		}
		if d.placed[i] > version {
			placed = append(placed, int32(i))
		}
	}
	return of, placed, d.fresh > version
}

// most is how many steps a frame of a table has at most.
func (t *Table) most() int { return max(maxFrame, t.Len()/patchShare) }

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

// logged is what the log has told of the steps after a version, up to another one.
type logged struct {
	from, to int64
	touched  map[int32]bool
	again    bool
}

// catchUp is the frame for a follower who is further behind than the wave has seen: with what the log says has changed until then.
func (w *wave) catchUp(ctx context.Context, since int64) (*frame, error) {
	w.reading.Lock()
	defer w.reading.Unlock()
	w.mu.Lock()
	t, made := w.table, w.found(since)
	w.mu.Unlock()
	if made != nil {
		return made, nil
	}
	if l := w.log; l == nil || l.from != since {
		l = &logged{from: since, to: t.Version, again: since <= 0}
		if !l.again {
			c, err := w.hub.changes(ctx, w.no, since, t.Version, t.most())
			if err != nil {
				return nil, err
			}
			l.touched, l.again = c.touched, c.rest
		}
		w.log = l
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.keep(newFrame(since, w.table.Version, w.behind(w.log))), nil
}

// behind is the body of the frame of what the log has told, and of what has changed since. The caller holds w.mu.
func (w *wave) behind(l *logged) []byte {
	t := w.table
	of, placed, again := w.touched.after(l.to)
	if again || l.again {
		return t.frame(nil, nil, true)
	}
	all := maps.Clone(l.touched)
	for _, i := range slices.Collect(maps.Keys(all)) { // and the steps around them, which have no events of their own
		for int(i) < t.Len() && t.parent[i] > 0 && !all[int32(t.parent[i])-1] {
			i = int32(t.parent[i]) - 1
			all[i] = true
		}
	}
	for _, i := range of {
		all[i] = true
	}
	of = slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(i int32) bool { return int(i) >= t.Len() })
	placed = slices.Compact(slices.Sorted(slices.Values(append(placed, t.placedBy(all, of)...))))
	return t.frame(of, placed, max(len(of), len(placed)) > t.most())
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
