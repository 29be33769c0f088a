package definition

import "strings"

// places records where the values inside a step stand.
type places struct {
	at    map[string]Pos
	loose map[string]bool // texts whose columns do not map to the source
}

// value turns a node into plain data: nil, bool, int64, float64, string, []any, map[string]any. Places
// are recorded under at, a path of Step.At.
func (d *decoder) value(n *node, path, at string, p *places) any {
	switch n.kind {
	case listKind:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			below := below(at, itoa(i))
			p.record(below, item, item.pos)
			list[i] = d.value(item, element(path, i), below, p)
		}
		return list
	case mapKind:
		m := make(map[string]any, len(n.entries))
		for _, e := range n.entries {
			below := below(at, e.key)
			p.record(below, e.value, e.at())
			m[e.key] = d.value(e.value, member(path, e.key), below, p)
		}
		return m
	}
	v, reason := n.scalar()
	if reason != "" {
		d.fail(n.pos, path, n.text+": "+reason, "quote it to pass it as text")
	}
	return v
}

func (p *places) record(path string, n *node, pos Pos) {
	if p == nil || pos.Line == 0 {
		return
	}
	p.at[path] = pos
	if n.loose && strings.Contains(n.text, "{{") {
		if p.loose == nil {
			p.loose = map[string]bool{}
		}
		p.loose[path] = true
	}
}

// mapping reads the value of a key that must be a mapping of anything.
func (d *decoder) mapping(e entry, path string, p *places) map[string]any {
	if e.value.isNull() {
		return nil
	}
	if e.value.kind != mapKind {
		d.fail(e.at(), member(path, e.key), e.key+" must be a mapping of names to values, not "+e.value.describe(), "")
		return nil
	}
	p.record(e.key, e.value, e.pos)
	if len(e.value.entries) == 0 {
		return nil
	}
	m, _ := d.value(e.value, member(path, e.key), e.key, p).(map[string]any)
	return m
}
