package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

const (
	maxName = 64 << 10 // bytes of a member's name
	maxHeld = 1 << 20  // bytes of an object that are held until its kind is clear
)

// document reads the rows of a JSON document: the elements of a list, the features of a FeatureCollection,
// the members of an object of objects, or the one object that it is.
type document struct {
	*window
	*emitter
	geo  bool // a FeatureCollection or a Feature
	path item.Path
}

// eachJSON reads a whole document, also behind the rows: a truncated document is an error also when all rows were
// there.
func (e *emitter) eachJSON(w *window) error {
	d := &document{window: w, emitter: e, geo: e.shape.Format == formatGeoJSON}
	if e.shape.At != "" {
		var err error
		if d.path, err = item.ParsePath(e.shape.At); err != nil {
			return err
		}
	}
	if err := d.walk(0); err != nil {
		return err
	}
	c, err := w.space()
	if err == io.EOF { //nolint:errorlint // bare
		return d.complete()
	}
	if err != nil {
		return err
	}
	err = w.fault("%q follows the end of the document", c)
	return &stepwell.Error{Code: stepwell.CodeInvalid, Err: err, Hint: "if every line is an object, write `format: ndjson`"}
}

// walk goes to the value that the path names, at most item.MaxPath levels down, and reads its rows.
func (d *document) walk(level int) error {
	c, err := d.next()
	if err != nil {
		return err
	}
	if level == len(d.path) {
		switch c {
		case '[':
			return d.elements(func(int) error { return d.row("") })
		case '{':
			return d.object()
		}
		return d.fault("the rows should be a list or an object, not %s", item.KindOf(c))
	}
	step, found := d.path[level], false
	enter := func(hit bool) error {
		if !hit {
			return d.skip()
		}
		if found {
			return d.fault("%q is there twice", d.path[:level+1].String())
		}
		found = true
		return d.walk(level + 1)
	}
	switch {
	case step.Any:
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the path " + d.path.String() + " to the rows has a *", Hint: "name one list"}
	case c == '[' && step.IsIndex:
		err = d.elements(func(i int) error { return enter(i == step.Index) })
	case c == '{' && !step.IsIndex:
		err = d.members(func(key string) error { return enter(key == step.Key) })
	default:
		return d.fault("%s is %s", d.path[:level].String(), item.KindOf(c))
	}
	if err == nil && !found {
		return &stepwell.Error{Code: stepwell.CodeNotFound, Message: d.path[:level+1].String() + " is not in the document", Hint: "`at` is the path to the list of rows"}
	}
	return err
}

// elements calls f at each element of a list, which f must consume.
func (d *document) elements(f func(i int) error) error {
	return d.parts('[', ']', func(i int, _ byte) error { return f(i) })
}

// members calls f at each member's value, which f must consume.
func (d *document) members(f func(key string) error) error {
	return d.parts('{', '}', func(_ int, c byte) error {
		key, err := d.name(c)
		if err != nil {
			return err
		}
		return f(key)
	})
}

// parts calls f at each part of a list or object, which begins with c and which f must consume.
func (d *document) parts(opening, closing byte, f func(i int, c byte) error) error {
	if err := d.expect(opening); err != nil {
		return err
	}
	for i := 0; ; i++ {
		c, err := d.next()
		if err != nil {
			return err
		}
		if c == closing && i == 0 {
			d.consume(1)
			return nil
		}
		if err := f(i, c); err != nil {
			return err
		}
		if c, err = d.next(); err != nil {
			return err
		}
		if c != ',' {
			return d.expect(closing)
		}
		d.consume(1)
	}
}

// name takes a member's name and the colon.
func (d *document) name(c byte) (string, error) {
	if c != '"' {
		return "", d.fault("%q where a name in quotes should be", c)
	}
	text, err := d.value(maxName, true)
	if errors.Is(err, errTooLong) {
		return "", d.fault("a name is longer than %d bytes", maxName)
	}
	if err != nil {
		return "", err
	}
	key, err := jsontext.AppendUnquote(nil, text)
	if err != nil {
		return "", d.fault("a name cannot be parsed: %s", err)
	}
	return string(key), d.expect(':')
}

func (d *document) skip() error {
	if _, err := d.value(d.shape.MaxItem, false); err != nil && !errors.Is(err, errTooLong) {
		return err
	}
	return nil
}

// row takes the value that comes next as a row.
func (d *document) row(key string) error {
	line := d.line + 1
	text, err := d.value(d.shape.MaxItem, d.wanted())
	if err != nil && !errors.Is(err, errTooLong) {
		return err
	}
	return d.emit(d.judged(Row{Text: text, Key: key, Line: line}, err))
}

// judged adds an error to a row.
func (d *document) judged(r Row, err error) Row {
	switch {
	case err != nil:
		r.Text, r.Err = nil, d.tooLong()
	case len(r.Text) > 0 && r.Text[0] != '{':
		r.Text, r.Err = nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("row %d is %s, not an object", d.count+1, item.KindOf(r.Text[0]))}
	}
	return r
}

// member is a member of an object that is held until the object's kind is clear.
type member struct {
	key  string
	text []byte
	line int64
	err  error
}

// object reads an object as rows. A list `features` makes it a FeatureCollection, whatever comes before (RFC 7946
// §3.3). Else, when all its members are objects, they are the rows, with their names as keys; else it is itself the
// only row. The first member that is no object decides.
func (d *document) object() error {
	o := held{document: d, single: d.geo}
	if err := d.members(o.member); err != nil {
		return err
	}
	return o.end()
}

type held struct {
	*document
	kept   []member
	size   int64
	single bool // not all members are objects
	keyed  bool // they are, or there are too many to wait for more
	geo    bool // features have been read
	kind   string
	long   bool
}

func (o *held) member(key string) error {
	c, err := o.next()
	if err != nil {
		return err
	}
	switch {
	case key == "features" && c == '[' && !o.keyed && (o.kind == "" || o.kind == `"FeatureCollection"`):
		if o.geo {
			return o.fault("features are there twice")
		}
		o.geo, o.kept = true, nil
		return o.elements(func(int) error { return o.row("") })
	case o.geo:
		return o.skip()
	case o.keyed:
		return o.row(key)
	}
	line := o.line + 1
	text, err := o.value(o.shape.MaxItem, !o.long)
	if err != nil && !errors.Is(err, errTooLong) {
		return err
	}
	if key == "type" {
		o.kind = string(text)
	}
	o.single = o.single || c != '{'
	o.size += int64(len(text) + len(key))
	o.kept = append(o.kept, member{key, text, line, err})
	switch {
	case !o.single && o.size > maxHeld:
		o.keyed = true
		return o.flush()
	case o.single && (o.size > o.shape.MaxItem || err != nil):
		o.long, o.kept = true, nil
	}
	return nil
}

// flush gives the members that were held as rows.
func (o *held) flush() error {
	for _, m := range o.kept {
		if err := o.emit(o.judged(Row{Text: m.text, Key: m.key, Line: m.line}, m.err)); err != nil {
			return err
		}
	}
	o.kept = nil
	return nil
}

func (o *held) end() error {
	switch {
	case o.geo:
		return nil
	case o.kind == `"FeatureCollection"`:
		return o.fault("the FeatureCollection has no list of features")
	case !o.single:
		return o.flush()
	case o.long:
		return o.emit(Row{Line: 1, Err: o.tooLong()})
	case len(o.kept) == 0:
		return o.fault("the object is empty")
	}
	var b bytes.Buffer
	for i, m := range o.kept {
		b.WriteByte("{,"[min(i, 1)])
		name, err := jsontext.AppendQuote(b.AvailableBuffer(), m.key)
		if err != nil {
			return o.fault("the name %q is not UTF-8", m.key)
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.text)
	}
	b.WriteByte('}')
	return o.emit(Row{Text: b.Bytes(), Line: o.kept[0].line})
}
