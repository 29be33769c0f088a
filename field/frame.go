package field

import (
	"context"
	"maps"
	"slices"

	"github.com/stepwell/stepwell/api/columns"
)

// since is the frame of what differs from an earlier table.
func (t *Table) since(before *Table) []byte {
	if before.began != t.began { // all times count anew
		return t.frame(nil, true)
	}
	var of []int32
	for i := range t.Len() {
		if i >= before.Len() || t.status[i] != before.status[i] || t.attempt[i] != before.attempt[i] || t.start[i] != before.start[i] || t.duration[i] != before.duration[i] {
			of = append(of, int32(i))
		}
	}
	return t.frame(of, len(of) > max(1000, t.Len()/patchShare))
}

// frame is the states of some steps, or says that all are to be fetched again.
func (t *Table) frame(of []int32, again bool) []byte {
	head := columns.Header{Version: t.Version, Total: t.Len(), Began: t.began, States: stateNames, Again: again}
	n := len(of)
	if again {
		n = 0
	}
	head.Rows = n
	index, start, duration := make([]uint32, n), make([]uint32, n), make([]uint32, n)
	status, attempt := make([]uint8, n), make([]uint8, n)
	for k, i := range of[:n] {
		index[k], start[k], duration[k], status[k], attempt[k] = uint32(i), t.start[i], t.duration[i], t.status[i], t.attempt[i]
	}
	raw, err := columns.Encode(head, []columns.Data{{Name: "index", U32: index}, {Name: "status", U8: status}, {Name: "attempt", U8: attempt}, {Name: "start", U32: start}, {Name: "duration", U32: duration}})
	if err != nil {
		panic(err) // lengths and header are ours
	}
	return raw
}

// catchUp is the frame for a follower who is further behind than the kept frames: what the log says has changed since.
func (w *wave) catchUp(ctx context.Context, since int64) (frame, error) {
	t := w.table
	f := frame{from: since, to: t.Version}
	c, err := w.hub.changes(ctx, w.no, since, t.Version, max(1000, t.Len()/patchShare))
	if err != nil {
		return f, err
	}
	if c.rest || since <= 0 {
		f.body = t.frame(nil, true)
		return f, nil
	}
	for _, i := range slices.Collect(maps.Keys(c.touched)) { // and the steps around them, which have no events of their own
		for int(i) < t.Len() && t.parent[i] > 0 && !c.touched[int32(t.parent[i])-1] {
			i = int32(t.parent[i]) - 1
			c.touched[i] = true
		}
	}
	of := slices.DeleteFunc(slices.Sorted(maps.Keys(c.touched)), func(i int32) bool { return int(i) >= t.Len() })
	f.body = t.frame(of, false)
	return f, nil
}
