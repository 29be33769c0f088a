package output

import (
	"fmt"
	"path"
	"strconv"

	"github.com/stepwell/stepwell"
)

// node is one file of a catalog that links to items: a collection.json, or the catalog.json of a part of it.
type node struct {
	number  int // from 1
	unit    int
	parent  int // 0: it is the collection's own
	dir     string
	count   int     // of items, those on their way included
	offsets []int64 // of items in the ledger
	kids    []*node
	last    *node // the overflow that takes items now
	changed bool
}

// maxNodes bounds the files that split can make.
const maxNodes = 100_000

func (t *tree) nodeAt(number int) *node {
	if number < 1 || number > len(t.nodes) {
		return nil
	}
	return t.nodes[number-1]
}

func (t *tree) addNode(n *node) {
	t.nodes = append(t.nodes, n)
	t.named[fold(n.dir)] = n
	if parent := t.nodeAt(n.parent); parent != nil {
		parent.kids = append(parent.kids, n)
		if overflow.MatchString(path.Base(n.dir)) {
			parent.last = n
		}
	}
}

// newNode makes a node and writes it down.
func (t *tree) newNode(u *unit, parent *node, dir string) (*node, error) {
	if len(t.nodes) >= maxNodes {
		return nil, &stepwell.Error{Code: stepwell.CodeLimit, Message: "the catalog has more than " + strconv.Itoa(maxNodes) + " parts",
			Hint: "split by what fewer items differ in"}
	}
	n := &node{number: len(t.nodes) + 1, unit: u.number, dir: dir, changed: true}
	if parent != nil {
		n.parent = parent.number
		parent.changed = true
	}
	t.addNode(n)
	t.ledger.add(record{kind: recordNode, number: n.number, entry: entry{unit: n.unit}, parent: n.parent, text: n.dir})
	return n, nil
}

// nodeFor is the node that takes another item of a collection: at the end of names, or, where that is full,
// its newest overflow.
func (t *tree) nodeFor(u *unit, names []string) (*node, error) {
	n, err := t.child(u, nil, u.Dir)
	for i := 0; err == nil && i < len(names); i++ {
		n, err = t.child(u, n, path.Join(n.dir, names[i]))
	}
	if err != nil {
		return nil, err
	}
	if n.count >= t.config.MaxLinks {
		number := 2
		if n.last != nil {
			number, err = strconv.Atoi(path.Base(n.last.dir)[len("part-"):])
			if err != nil {
				return nil, err
			}
			if n.last.count >= t.config.MaxLinks {
				number++
			}
		}
		if n, err = t.child(u, n, path.Join(n.dir, fmt.Sprintf("part-%05d", number))); err != nil {
			return nil, err
		}
	}
	n.count++
	return n, nil
}

func (t *tree) child(u *unit, parent *node, dir string) (*node, error) {
	if n := t.named[fold(dir)]; n != nil {
		return n, nil
	}
	return t.newNode(u, parent, dir)
}

// docOf is the file of a node.
func (t *tree) docOf(n *node) string {
	if n.parent == 0 {
		return path.Join(n.dir, collectionFile)
	}
	return path.Join(n.dir, catalogFile)
}
