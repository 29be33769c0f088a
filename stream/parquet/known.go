package parquet

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// Describe returns the number of rows and the columns of a file on this machine. Errors are those of the disk and of Open.
func Describe(path string) (rows int64, columns Schema, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, nil, err
	}
	file, err := Open(f, info.Size())
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w", path, err)
	}
	return file.Rows, file.Schema(), nil
}

// Schema are the columns of the file as a Union has them, for other rows that are to be read together with these
// (EncoderOptions.Base). A column of nothing but nulls is Unknown, none is Required, and types that a Writer never writes
// are JSON.
func (f *File) Schema() Schema { return f.typeOf(f.root).Fields }

func (f *File) typeOf(c *column) *Type {
	t := &Type{Kind: JSON}
	switch c.shape {
	case scalar:
		if c.first == c.end { // a group without columns
			return t
		}
		if t.Kind = c.kind; f.empty(c.first) {
			t.Kind = Unknown
		}
		t.Wide = t.Kind == Int && f.wide(c.first)
	case list:
		t.Kind, t.Elem = List, f.typeOf(c.kids[0])
	case object:
		t.Kind = Struct
		for _, kid := range c.kids {
			t.Fields = append(t.Fields, Field{kid.name, f.typeOf(kid)})
		}
	}
	return t
}

// kindOfLeaf is the kind whose values a leaf column holds.
func kindOfLeaf(t parquet.Type) Kind {
	if logical := t.LogicalType(); logical != nil {
		switch l := logical.Value.(type) {
		case *format.StringType, *format.EnumType:
			return Text
		case *format.TimestampType:
			return Timestamp
		case *format.IntType:
			if l.IsSigned {
				return Int
			}
		}
		return JSON
	}
	switch t.Kind() {
	case parquet.Boolean:
		return Bool
	case parquet.Int32, parquet.Int64:
		return Int
	case parquet.Float, parquet.Double:
		return Double
	case parquet.ByteArray:
		return Binary
	}
	return JSON
}

// empty reports whether a leaf column has nothing but nulls, as the file says.
func (f *File) empty(leaf int) bool {
	for _, g := range f.file.Metadata().RowGroups {
		if m := &g.Columns[leaf].MetaData; m.Statistics.NullCount < m.NumValues {
			return false
		}
	}
	return true
}

// wide is Type.Wide of a leaf column of integers; true when the file does not tell.
func (f *File) wide(leaf int) bool {
	for _, g := range f.file.Metadata().RowGroups {
		m := &g.Columns[leaf].MetaData
		if m.Statistics.NullCount == m.NumValues || m.Type == format.Int32 {
			continue
		}
		for _, bound := range [][]byte{m.Statistics.MinValue, m.Statistics.MaxValue} {
			if len(bound) != 8 {
				return true
			}
			if n := int64(binary.LittleEndian.Uint64(bound)); n < -safe || n > safe {
				return true
			}
		}
	}
	return false
}

// Join is a schema with the columns of both, those of s first. Types grow as in a Union; where they cannot agree (a
// text here, a number there), that of s stays. It is s where both together have more than MaxColumns.
func (s Schema) Join(more Schema) Schema {
	t := &Type{Kind: Struct, Fields: s.clone()}
	t.join(&Type{Kind: Struct, Fields: more.clone()})
	if t.leaves() > MaxColumns {
		return s
	}
	return t.Fields
}

// join takes another type in, which is given away.
func (t *Type) join(other *Type) {
	switch {
	case other.Kind == Unknown:
	case t.Kind == Unknown:
		other.Required, other.Keep, other.Open = t.Required, t.Keep, t.Open
		*t = *other
	case t.Kind == Struct && other.Kind == Struct:
		if t.Empty == nil || len(t.Fields) > 0 || !other.blank() {
			t.joinFields(other.Fields)
		}
	case t.Kind == List && other.Kind == List:
		t.Elem.join(other.Elem)
	case t.Kind == Int && other.Kind == Int:
		t.Wide = t.Wide || other.Wide
	case t.Kind == Int && other.Kind == Double && !t.Keep:
		t.Kind, t.Wide = Double, false
	case other.Kind == JSON && t.pliable():
		*t = Type{Kind: JSON, Open: t.Open}
	}
}

func (t *Type) joinFields(more []Field) {
	index := make(map[string]int, len(t.Fields))
	for i, f := range t.Fields {
		index[f.Name] = i
	}
	for _, f := range more {
		if at, known := index[f.Name]; known {
			t.Fields[at].Type.join(f.Type)
			continue
		}
		f.Type.loosen()
		t.Fields = append(t.Fields, f)
	}
	t.index, t.needs, t.plain = nil, 0, nil
}

// loosen removes the requirements of a type.
func (t *Type) loosen() {
	t.Required, t.Keep, t.Open, t.closed = false, false, false, false
	for _, f := range t.Fields {
		f.Type.loosen()
	}
	if t.Elem != nil {
		t.Elem.loosen()
	}
}

// blank reports whether nothing is known of the children.
func (t *Type) blank() bool {
	switch t.Kind {
	case Struct:
		return !slices.ContainsFunc(t.Fields, func(f Field) bool { return !f.Type.blank() })
	case List:
		return t.Elem.blank()
	}
	return t.Kind == Unknown
}
