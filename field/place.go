package field

import (
	"strconv"
	"strings"

	"github.com/stepwell/stepwell/layout"
	"github.com/stepwell/stepwell/plan"
)

// block is one graph at one place of the plan: the definition's top level, what is inside a step, handlers, or one family of
// spawned steps. All iterations of a for_each share one. Its steps are the nodes from first on.
type block struct {
	graph  *plan.Graph    // nil: a family
	layout *layout.Layout // of the graph; of a family, that of the block around it
	first  int32          // number of its first node
	n      int32          // nodes
	up     int32          // node that it is inside of; −1: none
	around int32          // of a family and of handlers: the block that they belong to; −1: none
	id     string         // what the ids of its steps begin with, without iterations; of a family all of it
	single bool           // it is the one step of an iteration, which has the iteration's key: none of its own in ids
}

// nowhere is the node of a step whose key is not known yet.
const nowhere = -1

// blocks are those of one table. They only grow.
type blocks struct {
	shape   *shape
	list    []block
	by      map[blockKey]int32
	members map[int32]int32 // how many steps a family has, by block
	nodes   int32
}

type blockKey struct {
	up, around int32
	name       string // of handlers and families
}

func newBlocks(s *shape) *blocks {
	b := &blocks{shape: s, by: map[blockKey]int32{}, members: map[int32]int32{}}
	b.add(blockKey{-1, -1, ""}, block{graph: s.plan.Graph, layout: s.main, up: -1, around: -1})
	return b
}

func (b *blocks) add(key blockKey, x block) int32 {
	if at, ok := b.by[key]; ok {
		return at
	}
	x.first, x.n = b.nodes, 1
	if x.graph != nil {
		x.n = int32(len(x.graph.Steps))
	}
	b.nodes += x.n
	at := int32(len(b.list))
	b.list, b.by[key] = append(b.list, x), at
	return at
}

// of is the block of a node.
func (b *blocks) of(node int32) int32 {
	lo, hi := 0, len(b.list)
	if node < b.list[0].n {
		hi = 1
	}
	for lo+1 < hi {
		if mid := (lo + hi) / 2; b.list[mid].first <= node {
			lo = mid
		} else {
			hi = mid
		}
	}
	return int32(lo)
}

// inside is the block inside a step, or a negative number when there is none.
func (b *blocks) inside(at, i int32) int32 {
	x := b.list[at]
	body := x.graph.Steps[i].Body
	if body == nil {
		return -1
	}
	key := blockKey{x.first + i, -1, ""}
	if known, ok := b.by[key]; ok {
		return known
	}
	id := x.id
	if !x.single {
		id += x.graph.Steps[i].ID + "."
	}
	return b.add(key, block{graph: body.Graph, layout: b.shape.layout(body.Graph), up: x.first + i, around: -1, id: id, single: body.Single})
}

// handlers is the block of the handlers of a block's pipeline, or a negative number when there are none of that name.
func (b *blocks) handlers(at int32, name string) int32 {
	x := b.list[at]
	if x.around >= 0 {
		return -1
	}
	onFailure, finally := b.shape.plan.OnFailure, b.shape.plan.Finally
	if x.up >= 0 {
		owner := &b.list[b.of(x.up)]
		body := owner.graph.Steps[x.up-owner.first].Body
		onFailure, finally = body.OnFailure, body.Finally
	}
	g := map[string]*plan.Graph{"on_failure": onFailure, "finally": finally}[name]
	if g == nil {
		return -1
	}
	return b.add(blockKey{x.up, at, name}, block{graph: g, layout: b.shape.layout(g), up: x.up, around: at, id: x.id + name + "."})
}

// place is where a step is: its node, its iteration, and the length of the key of the step that it is inside of.
type place struct {
	node   int32
	iter   int32
	parent int
}

// find reads the key of a step: "a", "group.a", "loop[3]", "loop[3].a", "finally.a", "family:identifier".
func (b *blocks) find(key string) place {
	at, p := int32(0), place{node: nowhere}
	for from := 0; ; {
		x, rest := b.list[at], key[from:]
		end := strings.IndexAny(rest, ".[:")
		if end < 0 {
			end = len(rest)
		}
		i, known := x.graph.Index(rest[:end])
		switch {
		case end < len(rest) && rest[end] == ':':
			family := b.add(blockKey{x.up, at, rest[:end+1]}, block{layout: x.layout, up: x.up, around: at, id: x.id + rest[:end]})
			p.node, p.iter = b.list[family].first, b.members[family]
			b.members[family]++
			return p
		case !known && end < len(rest) && rest[end] == '.':
			if at = b.handlers(at, rest[:end]); at < 0 {
				return p
			}
			from += end + 1
			continue
		case !known:
			return p
		case end == len(rest):
			p.node = x.first + i
			return p
		}
		if at = b.inside(at, i); at < 0 {
			return p
		}
		p.parent = from + end
		if rest[end] == '[' {
			last := strings.IndexByte(rest, ']')
			if last < 0 {
				return p
			}
			n, err := strconv.ParseInt(rest[end+1:last], 10, 32)
			if err != nil || n < 0 {
				return p
			}
			p.iter, end = int32(n), last+1
			if one := b.list[at]; one.single && end == len(rest) {
				p.node = one.first
				return p
			} else if one.single {
				at, p.parent = b.inside(at, 0), from+end
			}
			if at < 0 || end == len(rest) || rest[end] != '.' {
				return p
			}
		}
		from += end + 1
	}
}
