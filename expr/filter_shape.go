package expr

import (
	"slices"

	"github.com/stepwell/stepwell/expr/jsonvalue"
)

func filterBatch(st *state, in any, a *args) any {
	items := st.elements(in)
	size := a.int(0, 0)
	if size < 1 {
		panic(failf(CodeValue, "batch: linecount must be at least 1"))
	}
	st.growList(2 * len(items))
	out := []any{}
	for chunk := range slices.Chunk(items, size) {
		out = jsonvalue.AppendDoubling(out, slices.Clip(chunk))
	}
	if len(out) > 0 && a.values[1] != nil {
		st.pad(out, len(out)-1, size, a.values[1])
	}
	return out
}

// pad fills the list out[i] up to size elements.
func (st *state) pad(out []any, i, size int, with any) {
	last := out[i].([]any)
	st.growList(size)
	for len(last) < size {
		last = append(last, with)
	}
	out[i] = last
}

// filterSlice cuts a list into columns; the first ones are longer where it does not divide.
func filterSlice(st *state, in any, a *args) any {
	items := st.elements(in)
	count := a.int(0, 0)
	if count < 1 {
		panic(failf(CodeValue, "slice: slices must be at least 1"))
	}
	st.growList(len(items) + 2*count)
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
	return out
}

func filterFlatten(st *state, in any, a *args) any {
	items, ok := in.([]any)
	if !ok {
		panic(failf(CodeType, "flatten needs a list, not %s", typeName(in)))
	}
	levels := a.int(0, st.limits.Depth)
	out := []any{}
	st.flatten(&out, items, levels, 0)
	return out
}

func (st *state) flatten(out *[]any, items []any, levels, depth int) {
	st.deeper(depth)
	for _, item := range items {
		v := mustOf(st.norm(item))
		if inner, ok := v.([]any); ok && levels > 0 {
			st.spend(1)
			st.flatten(out, inner, levels-1, depth+1)
			continue
		}
		st.growList(2)
		*out = jsonvalue.AppendDoubling(*out, v)
	}
}
