package definition

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// fromYAML converts a YAML node and what is below it. An anchor always comes before its aliases, so
// each node is converted once; one that is met again while it is being converted contains itself.
func (l *loader) fromYAML(y *yaml.Node) *node {
	if y.Kind == yaml.AliasNode {
		return l.alias(y)
	}
	n := &node{pos: Pos{y.Line, y.Column}}
	if y.Anchor != "" {
		l.seen[y] = nil
	}
	l.tag(y, n)
	switch y.Kind {
	case yaml.ScalarNode:
		l.yamlScalar(y, n)
	case yaml.SequenceNode:
		n.kind = listKind
		n.items = make([]*node, 0, len(y.Content))
		for i, child := range y.Content {
			n.items = append(n.items, l.within(itoa(i), func() *node { return l.fromYAML(child) }))
		}
	case yaml.MappingNode:
		l.yamlMapping(y, n)
	}
	n.measure()
	l.plain = addSaturating(l.plain, nodeOverhead+len(y.Value))
	if y.Anchor != "" {
		l.seen[y] = n
	}
	return n
}

func (l *loader) alias(y *yaml.Node) *node {
	pos := Pos{y.Line, y.Column}
	if n, done := l.seen[y.Alias]; done && n != nil {
		l.plain = addSaturating(l.plain, nodeOverhead)
		return n
	}
	l.report.fail(pos, l.path(), "*"+y.Value+" stands inside its own anchor", "an alias cannot contain itself")
	n := &node{pos: pos}
	n.measure()
	return n
}

// tag refuses the tags that would make other values than JSON has.
func (l *loader) tag(y *yaml.Node, n *node) {
	if y.Style&yaml.TaggedStyle == 0 {
		return
	}
	switch y.ShortTag() {
	case "!!str":
		n.literal = true
	case "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq":
	default:
		l.report.fail(n.pos, l.path(), "the tag "+y.Tag+" is not supported", "values are text, numbers, booleans, lists and mappings")
	}
}

func (l *loader) yamlScalar(y *yaml.Node, n *node) {
	n.text = y.Value
	switch {
	case y.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		forced := n.literal // by !!str
		n.literal = true
		n.pos.Column++
		n.loose = !l.oneToOne(n)
		l.fill.apply(n, l.path)
		n.literal = n.literal || forced
		return
	case y.Style&yaml.LiteralStyle != 0:
		n.literal = true
		l.blockStart(n)
	case y.Style&yaml.FoldedStyle != 0:
		n.literal, n.loose = true, true
	default:
		n.loose = y.Style&yaml.TaggedStyle != 0 || y.Anchor != "" || !l.oneToOne(n)
	}
	forced := n.literal
	l.fill.apply(n, l.path)
	n.literal = n.literal || forced
}

// oneToOne reports whether the scalar's text stands in the source exactly as its value reads.
func (l *loader) oneToOne(n *node) bool {
	if !strings.Contains(n.text, "{{") {
		return true // nobody will point into it
	}
	const longest = 10_000 // looking at a longer line once per value would take quadratic time
	if start, end := l.bounds(n.pos.Line); end-start > longest {
		return false
	}
	line := []rune(l.line(n.pos.Line))
	from := n.pos.Column - 1
	return from <= len(line) && strings.HasPrefix(string(line[from:]), n.text)
}

// blockStart moves the place of a literal block scalar from its indicator to its first character.
func (l *loader) blockStart(n *node) {
	if !strings.Contains(n.text, "{{") {
		return
	}
	line := l.line(n.pos.Line + 1)
	indent := len(line) - len(strings.TrimLeft(line, " "))
	first, _, _ := strings.Cut(n.text, "\n")
	indent -= len(first) - len(strings.TrimLeft(first, " "))
	if strings.TrimSpace(line) == "" || indent < 0 || strings.TrimRight(line[indent:], " ") != strings.TrimRight(first, " ") {
		n.loose = true
		return
	}
	n.pos = Pos{n.pos.Line + 1, indent + 1}
}

func (l *loader) yamlMapping(y *yaml.Node, n *node) {
	n.kind = mapKind
	n.entries = make([]entry, 0, len(y.Content)/2)
	var merges []*yaml.Node
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, value := y.Content[i], y.Content[i+1]
		if key.Kind == yaml.AliasNode && key.Alias != nil {
			key = key.Alias
		}
		pos := Pos{key.Line, key.Column}
		switch {
		case key.Kind != yaml.ScalarNode:
			l.complexKey(key, pos)
		case key.Tag == "!!merge":
			merges = append(merges, value)
		case key.Tag == "!!null" && key.Value != "null":
			l.report.fail(pos, l.path(), "a key is empty", "")
		default:
			n.entries = append(n.entries, entry{key.Value, pos, l.within(key.Value, func() *node { return l.fromYAML(value) })})
			l.plain = addSaturating(l.plain, nodeOverhead+len(key.Value))
		}
	}
	l.unique(n)
	for _, m := range merges {
		l.merge(n, m)
	}
}

func (l *loader) complexKey(key *yaml.Node, pos Pos) {
	if key.Kind == yaml.MappingNode && key.Style&yaml.FlowStyle != 0 {
		l.report.fail(pos, l.path(), "a mapping cannot be a key", `a template must be quoted: "{{ … }}"`)
		return
	}
	l.report.fail(pos, l.path(), "a list or mapping cannot be a key", "keys are text")
}

// unique reports keys that a mapping has twice; the first one stays.
func (l *loader) unique(n *node) {
	n.entries = l.withoutDuplicates(n.entries)
}

func (l *loader) withoutDuplicates(entries []entry) []entry {
	const few = 8
	var index map[string]Pos
	if len(entries) > few {
		index = make(map[string]Pos, len(entries))
	}
	kept := entries[:0]
	for _, e := range entries {
		first, twice := Pos{}, false
		if index != nil {
			first, twice = index[e.key]
		} else {
			for i := range kept {
				if kept[i].key == e.key {
					first, twice = kept[i].pos, true
				}
			}
		}
		if twice {
			l.report.fail(e.pos, member(l.path(), e.key), "the key "+quoteShort(e.key)+" appears twice in this mapping", "the first one is in line "+itoa(first.Line))
			continue
		}
		if index != nil {
			index[e.key] = e.pos
		}
		kept = append(kept, e)
	}
	return kept
}

// merge adds what `<<` names: a mapping, or a list of them of which the first wins. Own keys win.
func (l *loader) merge(into *node, value *yaml.Node) {
	source := l.fromYAML(value)
	sources := []*node{source}
	if source.kind == listKind {
		sources = source.items
	}
	have := make(map[string]bool, len(into.entries))
	for _, e := range into.entries {
		have[e.key] = true
	}
	for _, s := range sources {
		if s.kind != mapKind {
			l.report.fail(Pos{value.Line, value.Column}, l.path(), "<< takes a mapping or a list of mappings, not "+s.describe(), "")
			continue
		}
		if l.merged += len(s.entries) + 1; l.merged > maxMerged {
			l.report.fail(Pos{value.Line, value.Column}, l.path(), "merge keys (<<) bring in more than "+itoa(maxMerged)+" keys", "")
			return
		}
		for _, e := range s.entries {
			if !have[e.key] {
				have[e.key] = true
				into.entries = append(into.entries, e)
			}
		}
	}
}
