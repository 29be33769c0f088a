package definition

import "math"

type kind uint8

const (
	scalarKind kind = iota
	listKind
	mapKind
)

// node is one value of a document, whatever syntax it came from. Aliases share nodes, so the tree
// is really an acyclic graph; size and height are those of the tree it stands for.
type node struct {
	kind    kind
	pos     Pos // a scalar's text (behind the quote), else the first character
	text    string
	literal bool // always text: quoted, a block, or tagged !!str
	loose   bool // columns inside text cannot be mapped to the source: escapes, folding
	filled  bool // a ${NAME} was put in
	items   []*node
	entries []entry

	size   int // bytes of the written-out tree, saturating
	height int
}

// entry is one key of a mapping with its value.
type entry struct {
	key   string
	pos   Pos
	value *node
}

// lookup finds a key's value, nil when the mapping lacks it.
func (n *node) lookup(key string) *node {
	if n == nil {
		return nil
	}
	for i := range n.entries {
		if n.entries[i].key == key {
			return n.entries[i].value
		}
	}
	return nil
}

// at is where a message about the value should point: a key's place is better than the start of the
// block that it opens.
func (e entry) at() Pos {
	if e.value.kind == scalarKind && e.value.pos.Line > 0 {
		return e.value.pos
	}
	return e.pos
}

// nodeOverhead is what one value counts beside its text in a document's size.
const nodeOverhead = 16

// measure sets size and height from the children, which must be complete.
func (n *node) measure() {
	size, height := nodeOverhead+len(n.text), 0
	for _, child := range n.items {
		size = addSaturating(size, child.size)
		height = max(height, child.height)
	}
	for i := range n.entries {
		child := n.entries[i].value
		size = addSaturating(size, child.size+nodeOverhead+len(n.entries[i].key))
		height = max(height, child.height)
	}
	n.size, n.height = size, height+1
}

func addSaturating(a, b int) int {
	if a > math.MaxInt/4 || b > math.MaxInt/4 {
		return math.MaxInt / 4
	}
	return a + b
}

// describe names the value's type for a message.
func (n *node) describe() string {
	switch n.kind {
	case listKind:
		return "a list"
	case mapKind:
		return "a mapping"
	}
	switch v, _ := n.scalar(); v.(type) {
	case nil:
		return "nothing"
	case bool:
		return n.text
	case int64, float64:
		return "the number " + n.text
	default:
		return "the text " + quoteShort(n.text)
	}
}

// isNull reports whether the value is absent: null, ~ or nothing at all.
func (n *node) isNull() bool {
	if n == nil {
		return true
	}
	return n.kind == scalarKind && !n.literal && nullText(n.text)
}
