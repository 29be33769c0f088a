package spec

import (
	"math"
	"slices"
	"strings"
)

// Pos is a place in a document: 1-based line and column, zero when unknown.
type Pos struct{ Line, Column int }

// Kind is the type of a node.
type Kind uint8

// The kinds.
const (
	ScalarNode Kind = iota
	ListNode
	MapNode
)

// Node is one value of a document in any syntax. Aliases share nodes, so the tree is really an acyclic graph; Size
// and Height are those of the expanded tree.
type Node struct {
	Kind    Kind
	Pos     Pos // a scalar's text (behind the quote), else the first character
	Text    string
	Literal bool // always text: quoted, a block, or tagged !!str
	Loose   bool // columns inside text cannot be mapped to the source: escapes, folding
	Filled  bool // a ${NAME} was put in
	Items   []*Node
	Entries []Entry

	Size   int // bytes of the written-out tree, saturating
	Height int
}

// Entry is one key of a mapping with its value.
type Entry struct {
	Key   string
	Pos   Pos
	Value *Node
}

// Lookup finds a key's value, nil when the mapping lacks it.
func (n *Node) Lookup(key string) *Node { return n.Entry(key).Value }

// Entry finds a key with its value, the zero Entry when the mapping lacks it.
func (n *Node) Entry(key string) Entry {
	if n != nil {
		for i := range n.Entries {
			if n.Entries[i].Key == key {
				return n.Entries[i]
			}
		}
	}
	return Entry{}
}

// NodeAt makes the document in which a text stands at a path, for a value that comes from elsewhere, such as a
// variable of the environment: as if it had been written there. With list, commas separate its elements.
func NodeAt(path []string, text string, list bool) *Node {
	n := &Node{Text: text, Literal: true, Filled: true}
	if list {
		n = &Node{Kind: ListNode}
		for part := range strings.SplitSeq(text, ",") {
			n.Items = append(n.Items, &Node{Text: part, Literal: true})
		}
	}
	for _, key := range slices.Backward(path) {
		n = &Node{Kind: MapNode, Entries: []Entry{{Key: key, Value: n}}}
	}
	return n
}

// At is where a message about the value should point: a key's place is better than the start of the
// block that it opens.
func (e Entry) At() Pos {
	if e.Value.Kind == ScalarNode && e.Value.Pos.Line > 0 {
		return e.Value.Pos
	}
	return e.Pos
}

// NodeOverhead is the size of one value without its text.
const NodeOverhead = 16

// Measure sets Size and Height from the children, which must be complete.
func (n *Node) Measure() {
	size, height := NodeOverhead+len(n.Text), 0
	for _, child := range n.Items {
		size = AddSaturating(size, child.Size)
		height = max(height, child.Height)
	}
	for i := range n.Entries {
		child := n.Entries[i].Value
		size = AddSaturating(size, child.Size+NodeOverhead+len(n.Entries[i].Key))
		height = max(height, child.Height)
	}
	n.Size, n.Height = size, height+1
}

// AddSaturating is a + b, or a bound that is never passed.
func AddSaturating(a, b int) int {
	if a > math.MaxInt/4 || b > math.MaxInt/4 {
		return math.MaxInt / 4
	}
	return a + b
}

// Describe names the value's type for a message.
func (n *Node) Describe() string {
	switch n.Kind {
	case ListNode:
		return "a list"
	case MapNode:
		return "a mapping"
	}
	switch v, _ := n.Scalar(); v.(type) {
	case nil:
		return "nothing"
	case bool:
		return n.Text
	case int64, float64:
		return "the number " + n.Text
	default:
		return "the text " + Quote(n.Text)
	}
}

// IsNull reports whether the value is absent: null, ~ or nothing at all.
func (n *Node) IsNull() bool {
	if n == nil {
		return true
	}
	return n.Kind == ScalarNode && !n.Literal && nullText(n.Text)
}
