package parquet

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

type shape uint8

const (
	scalar shape = iota
	object
	list
	table // a map
)

// column is a column of a file, as JSON sees it.
type column struct {
	name   string
	quoted []byte // the name
	shape  shape
	def    int // definition level of a value that is there
	inner  int // of an element that is there, of a list or a map
	rep    int // repetition level of further elements
	first  int // leaf columns first ≤ c < end
	end    int
	kids   []*column // members; the element of a list; key and value of a map
	kind   Kind      // of a scalar
	leaf   func(dst []byte, v *parquet.Value) ([]byte, error)
}

// layOut makes the columns of a file's root.
func layOut(root *parquet.Column) (*column, error) {
	c := &column{shape: object}
	err := c.addMembers(root, 0, 0, 0)
	return c, err
}

func (c *column) addMembers(of *parquet.Column, def, rep, depth int) error {
	if depth > 2*MaxDepth {
		return errors.New("columns are nested too deep")
	}
	names := map[string]bool{}
	for _, col := range of.Columns() {
		if names[col.Name()] {
			return fmt.Errorf("column %q is there twice", col.Name())
		}
		names[col.Name()] = true
		kid, err := lay(col, c.end, def, rep, depth+1)
		if err != nil {
			return err
		}
		c.kids = append(c.kids, kid)
		c.end = kid.end
	}
	return nil
}

// lay makes one column and its children. leaf is its first leaf column, def and rep are the levels of its parent.
func lay(col *parquet.Column, leaf, def, rep, depth int) (*column, error) {
	c := &column{name: col.Name(), first: leaf, end: leaf, def: def}
	c.quoted, _ = jsontext.AppendQuote(nil, c.name) // invalid UTF-8 is replaced
	if !col.Repeated() {
		if col.Optional() {
			c.def++
		}
		return c, c.fillIn(col, c.def, rep, depth)
	}
	// A repeated column outside of a LIST is a list that is never null.
	elem := &column{first: leaf, end: leaf, def: def + 1}
	if err := elem.fillIn(col, def+1, rep+1, depth); err != nil {
		return nil, err
	}
	c.shape, c.inner, c.rep, c.kids, c.end = list, def+1, rep+1, []*column{elem}, elem.end
	return c, nil
}

// fillIn makes the children of a column, regardless of its repetition.
func (c *column) fillIn(col *parquet.Column, def, rep, depth int) error {
	if col.Leaf() {
		c.end++
		c.leaf, c.kind = leafOf(col.Type()), kindOfLeaf(col.Type())
		return nil
	}
	inside := col.Columns()
	logical := col.Type().LogicalType()
	if logical == nil || len(inside) != 1 || !inside[0].Repeated() {
		c.shape = object
		return c.addMembers(col, def, rep, depth)
	}
	middle := inside[0]
	switch logical.Value.(type) {
	case *format.ListType:
		c.shape, c.inner, c.rep = list, def+1, rep+1
		elem := &column{first: c.first, end: c.first, def: def + 1}
		var err error
		if old := middle.Leaf() || len(middle.Columns()) != 1 || middle.Name() == "array" || middle.Name() == col.Name()+"_tuple"; old {
			err = elem.fillIn(middle, def+1, rep+1, depth+1)
		} else {
			elem, err = lay(middle.Columns()[0], c.first, def+1, rep+1, depth+1)
		}
		if err != nil {
			return err
		}
		c.kids, c.end = []*column{elem}, elem.end
		return nil
	case *format.MapType:
		if n := len(middle.Columns()); n == 2 {
			c.shape, c.inner, c.rep = table, def+1, rep+1
			return c.addMembers(middle, def+1, rep+1, depth+1)
		}
	}
	c.shape = object
	return c.addMembers(col, def, rep, depth)
}

// assembly puts rows together from the values of the leaf columns (Dremel's assembly, written as a
// recursive descent: every column takes exactly its values).
type assembly struct {
	cursors   []cursor
	dropNulls bool // of columns, too
}

var errDisagree = errors.New("columns do not agree on where rows begin")

// row appends the next row.
func (a *assembly) row(dst []byte, root *column) ([]byte, error) {
	for i := range a.cursors {
		v, err := a.cursors[i].peek()
		if err != nil {
			return nil, ended(err)
		}
		if v.RepetitionLevel() != 0 {
			return nil, errDisagree
		}
	}
	return a.members(dst, root, a.dropNulls)
}

func ended(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// value appends the next value of a column.
func (a *assembly) value(dst []byte, c *column) ([]byte, error) {
	if c.first == c.end { // a group without columns
		return append(dst, "null"...), nil
	}
	if len(dst) > MaxRow {
		return nil, fmt.Errorf("the row is longer than %d bytes", MaxRow)
	}
	first := &a.cursors[c.first]
	v, err := first.peek()
	if err != nil {
		return nil, ended(err)
	}
	if v.DefinitionLevel() < c.def {
		return append(dst, "null"...), a.skip(c)
	}
	switch c.shape {
	case scalar:
		first.at++
		return c.leaf(dst, v)
	case object:
		return a.members(dst, c, true)
	}
	closing, empty := byte(']'), v.DefinitionLevel() < c.inner
	if c.shape == table {
		closing = '}'
	}
	dst = append(dst, closing-2)
	if empty {
		return append(dst, closing), a.skip(c)
	}
	if c.shape == table {
		dst, err = a.entries(dst, c)
	} else {
		dst, err = a.elements(dst, c)
	}
	return append(dst, closing), err
}

// skip takes the one value that a null or an empty list has in every column.
func (a *assembly) skip(c *column) error {
	for i := c.first; i < c.end; i++ {
		if _, err := a.cursors[i].peek(); err != nil {
			return ended(err)
		}
		a.cursors[i].at++
	}
	return nil
}

func (a *assembly) members(dst []byte, c *column, dropNulls bool) ([]byte, error) {
	dst = append(dst, '{')
	begin := len(dst)
	for _, kid := range c.kids {
		start := len(dst)
		if start > begin {
			dst = append(dst, ',')
		}
		dst = append(append(dst, kid.quoted...), ':')
		named := len(dst)
		var err error
		if dst, err = a.value(dst, kid); err != nil {
			return nil, fmt.Errorf("column %q: %w", kid.name, err)
		}
		if dropNulls && string(dst[named:]) == "null" {
			dst = dst[:start]
		}
	}
	return append(dst, '}'), nil
}

// more reports whether another element follows.
func (a *assembly) more(c *column) (bool, error) {
	v, err := a.cursors[c.first].peek()
	switch {
	case err == io.EOF:
		return false, nil
	case err != nil:
		return false, err
	}
	return v.RepetitionLevel() >= c.rep, nil
}

func (a *assembly) elements(dst []byte, c *column) ([]byte, error) {
	for n := 0; ; n++ {
		if n > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = a.value(dst, c.kids[0]); err != nil {
			return nil, err
		}
		if more, err := a.more(c); !more {
			return dst, err
		}
	}
}

// entries appends the members that a map is. Of a key that is there twice the first counts.
func (a *assembly) entries(dst []byte, c *column) ([]byte, error) {
	keys := map[string]bool{}
	for begin := len(dst); ; {
		start := len(dst)
		if start > begin {
			dst = append(dst, ',')
		}
		at := len(dst)
		var err error
		if dst, err = a.value(dst, c.kids[0]); err != nil {
			return nil, err
		}
		if key := string(dst[at:]); !strings.HasPrefix(key, `"`) {
			if dst, err = jsontext.AppendQuote(dst[:at], key); err != nil {
				return nil, err
			}
		}
		key := string(dst[at:])
		dst = append(dst, ':')
		if dst, err = a.value(dst, c.kids[1]); err != nil {
			return nil, err
		}
		if keys[key] {
			dst = dst[:start]
		}
		keys[key] = true
		if more, err := a.more(c); !more {
			return dst, err
		}
	}
}
