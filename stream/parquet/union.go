package parquet

import (
	"errors"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

// Conflict handles a column whose rows disagree: a text here, a number there.
type Conflict uint8

// The ways.
const (
	Refuse Conflict = iota // the row that disagrees with those before does not fit
	AsJSON                 // the column becomes JSON
)

// Union finds the schema that fits all rows: members of objects are collected, whole numbers and fractions
// make a Double. It is not safe for concurrent use.
type Union struct {
	root     *Type
	conflict Conflict
	closed   bool // nothing can grow any more
	scratch  []byte
}

// NewUnion begins with the columns that are known already.
func NewUnion(base Schema, conflict Conflict) *Union {
	return &Union{root: &Type{Kind: Struct, Keep: true, Fields: base.clone()}, conflict: conflict}
}

// Add makes the schema fit a row as well. When it cannot, it returns a RowError and leaves the schema as
// it was.
func (u *Union) Add(row *item.Value) error { return u.add(row, row.Bytes()) }

func (u *Union) add(row *item.Value, text []byte) error {
	misfit := u.check(u.root, &scan{b: text})
	if misfit == nil {
		return nil
	}
	if u.closed {
		return misfit
	}
	next := u.root.clone()
	if misfit := u.merge(next, row, 0); misfit != nil {
		return misfit
	}
	if next.leaves() > MaxColumns {
		misfit.Err = &stepwell.Error{Code: stepwell.CodeLimit, Message: "one column more than the limit of " + strconv.Itoa(MaxColumns),
			Hint: "write one file per collection, or leave members out before"}
		return misfit
	}
	if misfit := u.check(next, &scan{b: text}); misfit != nil { // a required member is missing
		return misfit
	}
	u.root = next
	return nil
}

// Freeze ends the growing, but for types that are Open: from now on rows either fit or do not.
func (u *Union) Freeze() {
	u.root.finish(false)
	u.closed = u.root.close()
}

// close closes a type, and reports whether nothing inside is open.
func (t *Type) close() bool {
	if t.Open {
		return false
	}
	t.closed = true
	all := true
	for _, f := range t.Fields {
		all = f.Type.close() && all
	}
	if t.Elem != nil {
		all = t.Elem.close() && all
	}
	return all
}

// Schema is the schema as it is to be written: without Unknown kinds and empty structs.
func (u *Union) Schema() Schema {
	s := u.root.clone()
	for _, f := range s.Fields {
		f.Type.finish(true)
	}
	return s.Fields
}

// finish resolves unknown types.
func (t *Type) finish(open bool) {
	switch {
	case t.Open && !open:
		return
	case t.Kind == Unknown:
		t.Kind = Text
	case t.Kind == Struct && len(t.Fields) == 0 && t.Empty != nil:
		t.Fields, t.index, t.needs, t.plain = Schema(t.Empty).clone(), nil, 0, nil
	case t.Kind == Struct && len(t.Fields) == 0 && !t.Keep:
		t.Kind = JSON
	case t.Kind == List:
		t.Elem.finish(open)
	}
	for i := range t.Fields {
		t.Fields[i].Type.finish(open)
	}
}

func (t *Type) leaves() int {
	switch t.Kind {
	case List:
		return t.Elem.leaves()
	case Struct:
		n := 0
		for _, f := range t.Fields {
			n += f.Type.leaves()
		}
		return n
	}
	return 1
}

// check moves past a value, and returns why it does not fit a type; nil when it does.
func (u *Union) check(t *Type, p *scan) *RowError {
	if p.null() {
		if t.Required {
			return misfit("must not be null or absent")
		}
		return nil
	}
	switch first := p.peek(); {
	case t.Kind == JSON:
		p.value()
	case t.Kind == List && first == '[':
		p.i++
		for n := 0; p.more(n); n++ {
			if err := u.check(t.Elem, p); err != nil {
				return err.inList()
			}
		}
	case t.Kind == Struct && first == '{':
		return u.checkMembers(t, p)
	default:
		if text := p.value(); !u.scalar(t, text) {
			return reason(t, text)
		}
	}
	return nil
}

func (u *Union) checkMembers(t *Type, p *scan) *RowError {
	start, found := p.i, 0
	t.lookup()
	p.i++
	for n, guess := 0, 0; p.more(n); n++ {
		at, name, known := t.at(p, guess)
		if !known {
			if t.closed && p.null() {
				continue
			}
			return misfit("not in the schema").under(string(name))
		}
		f := t.Fields[at].Type
		if f.Required {
			found++
		}
		if err := u.check(f, p); err != nil {
			return err.under(t.Fields[at].Name)
		}
		guess = at + 1
	}
	if found < t.needs {
		return t.missing(p.b[start:p.i])
	}
	return nil
}

// scalar reports whether the text of a value fits a type that is no list, struct or JSON.
func (u *Union) scalar(t *Type, text []byte) (fits bool) {
	number := text[0] == '-' || text[0] >= '0' && text[0] <= '9'
	switch t.Kind {
	case Bool:
		return text[0] == 't' || text[0] == 'f'
	case Text:
		return text[0] == '"'
	case Int:
		if number {
			if len(text) <= 15 {
				return whole(text)
			}
			n, ok := int64Of(text)
			return ok && (t.Wide || t.closed || holds(float64(n), text))
		}
	case Double:
		return number && fitsDouble(text)
	case Timestamp:
		if text[0] == '"' {
			_, fits = micros(plainText(text))
		}
	case Binary:
		out, err := t.encode(u.scratch[:0], text)
		if err == nil {
			u.scratch = out
		}
		return err == nil
	}
	return fits
}

// reason says why a value does not fit.
func reason(t *Type, text []byte) *RowError {
	number := text[0] == '-' || text[0] >= '0' && text[0] <= '9'
	switch {
	case t.Kind == Binary:
		_, err := t.encode(nil, text)
		if row, ok := errors.AsType[*RowError](err); ok {
			return row
		}
		return &RowError{Err: err}
	case t.Kind == Timestamp && text[0] == '"':
		return misfit(stepwell.Clip(text, 40) + " is not a time of RFC 3339")
	case number && (t.Kind == Int || t.Kind == Double):
		return misfit(stepwell.Clip(text, 40) + " is not a number that fits " + t.Kind.String())
	}
	return misfit(stepwell.Clip(text, 40) + " is " + item.KindOf(text[0]).String() + ", where " + t.Kind.String() + " is expected")
}

// merge makes a type fit a value.
func (u *Union) merge(t *Type, v *item.Value, depth int) *RowError {
	if v.IsNull() {
		return nil
	}
	if depth > MaxDepth {
		return misfit("nested deeper than " + strconv.Itoa(MaxDepth) + " levels")
	}
	if t.Kind == Unknown {
		t.Kind = first(v)
		if t.Kind == List {
			t.Elem = &Type{}
		}
	}
	switch {
	case t.Kind == List && v.Kind() == item.List:
		for _, e := range v.Elements() {
			if err := u.merge(t.Elem, e, depth+1); err != nil {
				return err.inList()
			}
		}
		return nil
	case t.Kind == Struct && v.Kind() == item.Object:
		return u.mergeMembers(t, v, depth)
	case t.Kind == JSON:
		return nil
	case (t.Kind == Int || t.Kind == Double) && v.Kind() == item.Number:
		if t.mergeNumber(v.Bytes()) {
			return nil
		}
	case t.Kind != List && t.Kind != Struct && u.scalar(t, v.Bytes()):
		return nil
	}
	if !t.pliable() {
		return reason(t, v.Bytes())
	}
	if u.conflict == Refuse {
		misfit := reason(t, v.Bytes())
		misfit.Mixed = true
		return misfit
	}
	*t = Type{Kind: JSON}
	return nil
}

// pliable reports whether a type may become JSON.
func (t *Type) pliable() bool {
	return !t.Keep && !t.closed && !t.Required && t.Kind != Binary && t.Kind != Timestamp
}

func (u *Union) mergeMembers(t *Type, v *item.Value, depth int) *RowError {
	for name, m := range v.Members() {
		at, known := t.lookup()[name]
		switch {
		case !known && t.closed && m.IsNull():
			continue
		case !known && t.closed:
			return misfit("not in the schema").under(name)
		case !known:
			at = len(t.Fields)
			t.index[name] = at
			t.plain = append(t.plain, !strings.ContainsAny(name, `"\`))
			t.Fields = append(t.Fields, Field{name, &Type{}})
		}
		if err := u.merge(t.Fields[at].Type, m, depth+1); err != nil {
			return err.under(name)
		}
	}
	return nil
}

func first(v *item.Value) Kind {
	switch v.Kind() {
	case item.Bool:
		return Bool
	case item.Number:
		return Int
	case item.List:
		return List
	case item.Object:
		return Struct
	}
	return Text
}

// mergeNumber makes an Int or a Double fit a number, and reports whether it can.
func (t *Type) mergeNumber(text []byte) bool {
	if n, ok := int64Of(text); ok && t.Kind == Int {
		t.Wide = t.Wide || !holds(float64(n), text)
		return true
	}
	if _, ok := doubleOf(text); !ok || t.Wide {
		return false
	}
	if t.Kind == Int && (t.Keep || t.closed) {
		return false
	}
	t.Kind = Double
	return true
}
