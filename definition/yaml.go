package definition

import (
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/stepwell/stepwell/spec"
)

// fromYAML converts a YAML node and its children. An anchor always comes before its aliases, so each node is
// converted once; a node met again during its conversion contains itself.
func (l *loader) fromYAML(y *yaml.Node) *spec.Node {
	if y.Kind == yaml.AliasNode {
		return l.alias(y)
	}
	n := &spec.Node{Pos: Pos{Line: y.Line, Column: y.Column}}
	if y.Anchor != "" {
		l.seen[y] = nil
	}
	l.tag(y, n)
	switch y.Kind {
	case yaml.ScalarNode:
		l.yamlScalar(y, n)
	case yaml.SequenceNode:
		n.Kind = spec.ListNode
		n.Items = make([]*spec.Node, 0, len(y.Content))
		for i, child := range y.Content {
			n.Items = append(n.Items, l.within(itoa(i), func() *spec.Node { return l.fromYAML(child) }))
		}
	case yaml.MappingNode:
		l.yamlMapping(y, n)
	}
	n.Measure()
	l.plain = spec.AddSaturating(l.plain, spec.NodeOverhead+len(y.Value))
	if y.Anchor != "" {
		l.seen[y] = n
	}
	return n
}

func (l *loader) alias(y *yaml.Node) *spec.Node {
	pos := Pos{Line: y.Line, Column: y.Column}
	if n, done := l.seen[y.Alias]; done && n != nil {
		l.plain = spec.AddSaturating(l.plain, spec.NodeOverhead)
		return n
	}
	l.report.Fail(pos, l.path(), "*"+y.Value+" stands inside its own anchor", "an alias cannot contain itself")
	n := &spec.Node{Pos: pos}
	n.Measure()
	return n
}

// tag refuses the tags that would make other values than JSON has.
func (l *loader) tag(y *yaml.Node, n *spec.Node) {
	if y.Style&yaml.TaggedStyle == 0 {
		return
	}
	switch y.ShortTag() {
	case "!!str":
		n.Literal = true
	case "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq":
	default:
		l.report.Fail(n.Pos, l.path(), "the tag "+y.Tag+" is not supported", "values are text, numbers, booleans, lists and mappings")
	}
}

func (l *loader) yamlScalar(y *yaml.Node, n *spec.Node) {
	n.Text = y.Value
	switch {
	case y.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		forced := n.Literal // by !!str
		n.Literal = true
		n.Pos.Column++
		n.Loose = !l.oneToOne(n)
		l.fill.apply(n, l.path)
		n.Literal = n.Literal || forced
		return
	case y.Style&yaml.LiteralStyle != 0:
		n.Literal = true
		l.blockStart(n)
	case y.Style&yaml.FoldedStyle != 0:
		n.Literal, n.Loose = true, true
	default:
		n.Loose = y.Style&yaml.TaggedStyle != 0 || y.Anchor != "" || !l.oneToOne(n)
	}
	forced := n.Literal
	l.fill.apply(n, l.path)
	n.Literal = n.Literal || forced
}

// oneToOne reports whether the scalar's text stands in the source exactly as its value reads.
func (l *loader) oneToOne(n *spec.Node) bool {
	if !strings.Contains(n.Text, "{{") {
		return true // no problem will point into it
	}
	const longest = 10_000 // looking at a longer line once per value would take quadratic time
	if start, end := l.bounds(n.Pos.Line); end-start > longest {
		return false
	}
	line := []rune(l.line(n.Pos.Line))
	from := n.Pos.Column - 1
	return from <= len(line) && strings.HasPrefix(string(line[from:]), n.Text)
}

// blockStart moves the place of a literal block scalar from its indicator to its first character.
func (l *loader) blockStart(n *spec.Node) {
	if !strings.Contains(n.Text, "{{") {
		return
	}
	line := l.line(n.Pos.Line + 1)
	indent := len(line) - len(strings.TrimLeft(line, " "))
	first, _, _ := strings.Cut(n.Text, "\n")
	indent -= len(first) - len(strings.TrimLeft(first, " "))
	if strings.TrimSpace(line) == "" || indent < 0 || strings.TrimRight(line[indent:], " ") != strings.TrimRight(first, " ") {
		n.Loose = true
		return
	}
	n.Pos = Pos{Line: n.Pos.Line + 1, Column: indent + 1}
}

func (l *loader) yamlMapping(y *yaml.Node, n *spec.Node) {
	n.Kind = spec.MapNode
	n.Entries = make([]spec.Entry, 0, len(y.Content)/2)
	var merges []*yaml.Node
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, value := y.Content[i], y.Content[i+1]
		if key.Kind == yaml.AliasNode && key.Alias != nil {
			key = key.Alias
		}
		pos := Pos{Line: key.Line, Column: key.Column}
		switch {
		case key.Kind != yaml.ScalarNode:
			l.complexKey(key, pos)
		case key.Tag == "!!merge":
			merges = append(merges, value)
		case key.Tag == "!!null" && key.Value != "null":
			l.report.Fail(pos, l.path(), "a key is empty", "")
		default:
			n.Entries = append(n.Entries, spec.Entry{Key: key.Value, Pos: pos, Value: l.within(key.Value, func() *spec.Node { return l.fromYAML(value) })})
			l.plain = spec.AddSaturating(l.plain, spec.NodeOverhead+len(key.Value))
		}
	}
	l.unique(n)
	for _, m := range merges {
		l.merge(n, m)
	}
}

func (l *loader) complexKey(key *yaml.Node, pos Pos) {
	if key.Kind == yaml.MappingNode && key.Style&yaml.FlowStyle != 0 {
		l.report.Fail(pos, l.path(), "a mapping cannot be a key", `a template must be quoted: "{{ … }}"`)
		return
	}
	l.report.Fail(pos, l.path(), "a list or mapping cannot be a key", "keys are text")
}

// unique reports keys that a mapping has twice; the first one stays.
func (l *loader) unique(n *spec.Node) {
	const few = 8
	var index map[string]Pos
	if len(n.Entries) > few {
		index = make(map[string]Pos, len(n.Entries))
	}
	kept := n.Entries[:0]
	for _, e := range n.Entries {
		first, twice := Pos{}, false
		if index != nil {
			first, twice = index[e.Key]
		} else {
			for i := range kept {
				if kept[i].Key == e.Key {
					first, twice = kept[i].Pos, true
				}
			}
		}
		if twice {
			l.report.Fail(e.Pos, spec.MemberPath(l.path(), e.Key), "the key "+spec.Quote(e.Key)+" appears twice in this mapping", "the first one is in line "+itoa(first.Line))
			continue
		}
		if index != nil {
			index[e.Key] = e.Pos
		}
		kept = append(kept, e)
	}
	n.Entries = kept
}

// merge adds the operand of `<<`: a mapping, or a list of them of which the first wins. Own keys win.
func (l *loader) merge(into *spec.Node, value *yaml.Node) {
	source := l.fromYAML(value)
	sources := []*spec.Node{source}
	if source.Kind == spec.ListNode {
		sources = source.Items
	}
	have := make(map[string]bool, len(into.Entries))
	for _, e := range into.Entries {
		have[e.Key] = true
	}
	for _, s := range sources {
		if s.Kind != spec.MapNode {
			l.report.Fail(Pos{Line: value.Line, Column: value.Column}, l.path(), "<< takes a mapping or a list of mappings, not "+s.Describe(), "")
			continue
		}
		if l.merged += len(s.Entries) + 1; l.merged > maxMerged {
			l.report.Fail(Pos{Line: value.Line, Column: value.Column}, l.path(), "merge keys (<<) bring in more than "+itoa(maxMerged)+" keys", "")
			return
		}
		for _, e := range s.Entries {
			if !have[e.Key] {
				have[e.Key] = true
				into.Entries = append(into.Entries, e)
			}
		}
	}
}
