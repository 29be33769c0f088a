// Package parquet reads and writes rows of JSON objects as Parquet files.
//
// Each streams a file's rows. A Writer writes rows of a known Schema. A Union finds the schema of rows as they come, and an
// Encoder does both for a durable.File, whose spool keeps the rows until the schema over all of them is known. Memory is
// bounded by one row group, whatever the number of rows. Stable.
//
// Pages, encodings and compression are parquet-go's (0.32.0; arrow-go adds 29 MB to the program, parquet-go 9). Rows are split
// into columns here: parquet-go writes nested values of a map by reflection and asks for the schema first, while items come
// as text, are written without being decoded, and tell their schema only at the end.
package parquet

import (
	"errors"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

// Kind is the kind of a Type.
type Kind uint8

// The kinds. Unknown is that of a column with nothing but nulls, or without values; it is written as Text. JSON is text
// that holds any JSON value (the logical type JSON): for columns whose rows disagree, and objects without known
// members.
const (
	Unknown Kind = iota
	Bool
	Int       // 64-bit
	Double    // also of whole numbers, as far as a double holds them or reads back as their digits
	Text      // UTF-8
	Timestamp // UTC, microseconds; from RFC 3339, of which digits beyond microseconds are cut
	Binary    // bytes: the output of Type.Encode
	JSON
	List
	Struct
)

var kindNames = [...]string{"unknown", "bool", "int", "double", "text", "timestamp", "binary", "json", "list", "struct"}

func (k Kind) String() string { return kindNames[k] }

// Limits of a schema.
const (
	MaxColumns = 10_000 // leaf columns; each costs memory while a row group is written
	MaxDepth   = 60     // of lists and structs inside each other
)

// Schema is the columns of a file's rows, in order.
type Schema []Field

// Field is a column, or a member of a struct.
type Field struct {
	Name string
	Type *Type
}

// Type is the type of a column.
type Type struct {
	Kind     Kind
	Fields   []Field // of a Struct, in order
	Elem     *Type   // of a List. Defaults to Unknown
	Required bool    // never null: a row without it does not fit
	Keep     bool    // a Union never makes another kind of it, not even JSON
	Open     bool    // a Union goes on collecting members after Freeze
	Empty    []Field // the fields of a Struct without known members, in place of JSON
	// Encode appends the bytes of a value to dst, of a Binary. It must not keep or change the value. An error
	// says that the value does not fit. Defaults to decoding base64.
	Encode func(dst []byte, v *item.Value) ([]byte, error) `json:"-"`
	// Wide says of an Int that it has whole numbers that a double cannot hold, so that it never becomes one.
	Wide bool

	closed bool           // no field is added any more, and the kind stays
	index  map[string]int // of Fields by name, made by at
	needs  int            // Fields that are Required, made by at
	plain  []bool         // Fields whose names JSON writes as they are, made by at
}

// ErrNoColumns is a file without a known column: there is no row, or only empty ones.
var ErrNoColumns = errors.New("a Parquet file needs a column, and no row has a member")

// RowError says that a row does not fit the schema. Its cause is CodeInvalid.
type RowError struct {
	Column string // as a path: assets.B1.href, links[].title
	Mixed  bool   // the column's rows disagree: with AsJSON, the row would fit
	Err    error
}

func (e *RowError) Error() string { return "column " + strconv.Quote(e.Column) + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *RowError) Unwrap() error { return e.Err }

func misfit(message string) *RowError {
	return &RowError{Err: &stepwell.Error{Code: stepwell.CodeInvalid, Message: message}}
}

// under puts the parent's name in front of the path.
func (e *RowError) under(name string) *RowError {
	switch {
	case e.Column == "" || strings.HasPrefix(e.Column, "["):
		e.Column = name + e.Column
	default:
		e.Column = name + "." + e.Column
	}
	return e
}

func (e *RowError) inList() *RowError {
	if e.Column == "" || strings.HasPrefix(e.Column, "[") {
		e.Column = "[]" + e.Column
	} else {
		e.Column = "[]." + e.Column
	}
	return e
}

// clone makes a deep copy.
func (t *Type) clone() *Type {
	if t == nil {
		return nil
	}
	out := *t
	if out.Elem = t.Elem.clone(); t.Kind == List && t.Elem == nil {
		out.Elem = &Type{}
	}
	out.Fields = Schema(t.Fields).clone()
	out.index, out.needs, out.plain = nil, 0, nil
	return &out
}

func (s Schema) clone() Schema {
	out := make(Schema, len(s))
	for i, f := range s {
		out[i] = Field{f.Name, f.Type.clone()}
	}
	return out
}

// at reads a member's name, and returns the index of its field, if known. guess is the likely index: members mostly
// come in the order of the fields.
func (t *Type) at(p *scan, guess int) (at int, name []byte, known bool) {
	index := t.lookup()
	if guess < len(t.Fields) && t.plain[guess] && p.keyIs(t.Fields[guess].Name) {
		return guess, nil, true
	}
	name = p.key()
	at, known = index[string(name)]
	return at, name, known
}

func (t *Type) lookup() map[string]int {
	if t.index == nil {
		t.index = make(map[string]int, len(t.Fields))
		for i, f := range t.Fields {
			t.index[f.Name] = i
			if f.Type.Required {
				t.needs++
			}
			t.plain = append(t.plain, !strings.ContainsAny(f.Name, `"\`))
		}
	}
	return t.index
}

// missing names a Required field that is not among the members of an object.
func (t *Type) missing(object []byte) *RowError {
	present := map[string]bool{}
	p := &scan{b: object}
	p.peek()
	p.i++
	for n := 0; p.more(n); n++ {
		name := string(p.key())
		present[name] = !p.null()
		if present[name] {
			p.value()
		}
	}
	for _, f := range t.Fields {
		if f.Type.Required && !present[f.Name] {
			return misfit("must not be null or absent").under(f.Name)
		}
	}
	return nil
}
