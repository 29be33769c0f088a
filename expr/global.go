package expr

import (
	"maps"
	"math"
)

// globals are the functions that are called by their bare names.
var globals = map[string]*function{
	"range": {types: typing{like: wholes}, params: []param{need("start"), opt("stop", nil), opt("step", int64(1))}, call: globalRange},
	"dict":  {types: typing{gives: MapKind}, rest: true, params: []param{}, call: globalDict},
}

func globalRange(st *state, _ any, a *args) any {
	var bound [3]int64
	for i, v := range a.values {
		if v == nil && i == 1 {
			continue
		}
		n, ok := v.(int64)
		if !ok {
			panic(failf(CodeType, "range: %s must be an integer, not %s", a.params[i].name, typeName(v)))
		}
		bound[i] = n
	}
	start, stop, step := bound[0], bound[1], bound[2]
	if a.values[1] == nil {
		start, stop = 0, start
	}
	if step == 0 {
		panic(failf(CodeValue, "range: step cannot be 0"))
	}
	count := rangeCount(start, stop, step)
	st.growList(count)
	out := make([]any, count)
	for i := range out {
		out[i] = start + int64(i)*step
	}
	return out
}

// rangeCount is the length of the range, capped far above every budget.
func rangeCount(start, stop, step int64) int {
	if step > 0 && start >= stop || step < 0 && start <= stop {
		return 0
	}
	span := uint64(stop) - uint64(start)
	if step < 0 {
		span = uint64(start) - uint64(stop)
	}
	return int(min((span-1)/magnitude(step)+1, math.MaxInt32))
}

func globalDict(st *state, _ any, a *args) any {
	out := map[string]any{}
	if len(a.rest) > 1 {
		panic(failf(CodeType, "dict takes at most 1 positional argument"))
	}
	for _, source := range a.rest {
		st.fill(out, source)
	}
	for i, name := range a.names {
		out[name] = a.named[i]
	}
	st.grow(len(out) * entrySize)
	return out
}

// fill copies a mapping or a list of pairs into out.
func (st *state) fill(out map[string]any, source any) {
	if m, ok := st.mapping(source); ok {
		st.grow(len(m) * entrySize)
		maps.Copy(out, m)
		return
	}
	pairs := st.elements(source)
	st.grow(len(pairs) * entrySize)
	for _, pair := range pairs {
		kv, ok := pair.([]any)
		if !ok || len(kv) != 2 {
			panic(failf(CodeType, "dict needs a mapping or a list of pairs"))
		}
		out[mustOf(keyString(kv[0]))] = kv[1]
	}
}
