package parquet

import (
	"reflect"

	"github.com/parquet-go/parquet-go"
)

// ordered is a group whose fields keep their order; parquet.Group sorts them by name.
type ordered struct {
	parquet.Group
	fields []parquet.Field
}

func (o *ordered) Fields() []parquet.Field { return o.fields }

// GoType is not needed for writing column by column; the library's would make a struct type of names such as
// "eo:cloud_cover".
func (o *ordered) GoType() reflect.Type { return reflect.TypeFor[map[string]any]() }

type named struct {
	parquet.Node
	name string
}

func (n *named) Name() string { return n.name }

// Value is for rows that are Go values; ours never are.
func (n *named) Value(base reflect.Value) reflect.Value {
	return base.MapIndex(reflect.ValueOf(n.name))
}

func group(fields []Field) parquet.Node {
	o := &ordered{Group: parquet.Group{}}
	for _, f := range fields {
		n := node(f.Type)
		o.Group[f.Name] = n
		o.fields = append(o.fields, &named{n, f.Name})
	}
	return o
}

// node makes the library's node of a type.
func node(t *Type) parquet.Node {
	var n parquet.Node
	switch t.Kind {
	case Bool:
		n = parquet.Leaf(parquet.BooleanType)
	case Int:
		n = parquet.Encoded(parquet.Int(64), &parquet.RLEDictionary)
	case Double:
		n = parquet.Encoded(parquet.Leaf(parquet.DoubleType), &parquet.RLEDictionary)
	case Timestamp:
		n = parquet.Timestamp(parquet.Microsecond)
	case Binary:
		n = parquet.Leaf(parquet.ByteArrayType)
	case JSON:
		n = parquet.Encoded(parquet.JSON(), &parquet.RLEDictionary)
	case List:
		n = parquet.List(node(t.Elem))
	case Struct:
		n = group(t.Fields)
	default:
		n = parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
	}
	if t.Required {
		return parquet.Required(n)
	}
	return parquet.Optional(n)
}

// slot is a Type with its place among the leaf columns and its levels (Dremel's).
type slot struct {
	*Type
	def   int // definition level of a value that is there
	rep   int // repetition level of further elements, of a List
	first int // leaf columns first ≤ c < end
	end   int
	kids  []*slot // of a Struct; the element of a List
	seen  int     // the visit of the struct around that met it
}

// place lays a type out.
func place(t *Type, leaf, def, rep int) *slot {
	s := &slot{Type: t, def: def, first: leaf, end: leaf + 1}
	if !t.Required {
		s.def++
	}
	switch t.Kind {
	case List:
		s.rep = rep + 1
		elem := place(t.Elem, leaf, s.def+1, s.rep)
		s.kids, s.end = []*slot{elem}, elem.end
	case Struct:
		s.end = leaf
		for _, f := range t.Fields {
			kid := place(f.Type, s.end, s.def, rep)
			s.kids = append(s.kids, kid)
			s.end = kid.end
		}
	}
	return s
}
