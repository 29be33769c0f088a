package expr

import (
	"slices"

	"github.com/stepwell/stepwell/expr/jsonvalue"
)

func filterBatch(st *state, in any, a *args) (any, error) {
	items := mustOf(st.elements(in))
	size := a.int(0, 0)
	if size < 1 {
		return nil, failf(CodeValue, "batch: linecount must be at least 1")
	}
	must(st.growList(2 * len(items)))
	out := []any{}
	for chunk := range slices.Chunk(items, size) {
		out = jsonvalue.AppendDoubling(out, slices.Clip(chunk))
	}
	if len(out) > 0 && a.values[1] != nil {
		st.pad(out, len(out)-1, size, a.values[1])
	}
	return out, nil
}

// pad fills the list out[i] up to size elements.
func (st *state) pad(out []any, i, size int, with any) {
	last := out[i].([]any)
	must(st.growList(size))
	for len(last) < size {
		last = append(last, with)
	}
	out[i] = last
}

// filterSlice cuts a list into columns; the first ones are longer where it does not divide.
func filterSlice(st *state, in any, a *args) (any, error) {
	items := mustOf(st.elements(in))
	count := a.int(0, 0)
	if count < 1 {
		return nil, failf(CodeValue, "slice: slices must be at least 1")
	}
	must(st.growList(len(items) + 2*count))
	size, extra := len(items)/count, len(items)%count
	out := make([]any, count)
	for i := range out {
		n := size
		if i < extra {
			n++
		}
		out[i] = slices.Clip(items[:n])
		items = items[n:]
		if i >= extra && a.values[1] != nil {
			st.pad(out, i, size+1, a.values[1])
		}
	}
	return out, nil
}

func filterFlatten(st *state, in any, a *args) (any, error) {
	items, ok := in.([]any)
	if !ok {
		return nil, failf(CodeType, "flatten needs a list, not %s", typeName(in))
	}
	levels := a.int(0, st.limits.Depth)
	out := []any{}
	st.flatten(&out, items, levels, 0)
	return out, nil
}

func (st *state) flatten(out *[]any, items []any, levels, depth int) {
	must(st.deeper(depth))
	for _, item := range items {
		v := mustOf(st.norm(item))
		if inner, ok := v.([]any); ok && levels > 0 {
			must(st.spend(1))
			st.flatten(out, inner, levels-1, depth+1)
			continue
		}
		must(st.growList(2))
		*out = jsonvalue.AppendDoubling(*out, v)
	}
}
