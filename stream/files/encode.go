package files

import (
	"fmt"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream/durable"
	"github.com/stepwell/stepwell/stream/parquet"
)

var _ durable.Maker = (*parquet.Encoder)(nil)

// newEncoder makes the encoder of a target's file; columns are those of a table that was begun, else nil.
func newEncoder(t target, columns []string) durable.Encoder {
	switch t.format {
	case formatJSON:
		return jsonEncoder{"[", "]\n"}
	case formatGeoJSON:
		return jsonEncoder{`{"type":"FeatureCollection","features":[`, "]}\n"}
	case formatCSV, formatTSV:
		if columns == nil {
			columns = t.columns
		}
		return newTableEncoder(t, columns)
	case formatParquet:
		return parquet.NewEncoder(parquet.EncoderOptions{Conflict: parquet.AsJSON})
	}
	return lineEncoder{}
}

// lineEncoder writes NDJSON.
type lineEncoder struct{}

// Columns implements durable.Encoder.
func (lineEncoder) Columns() []string { return nil }

// Begin implements durable.Encoder.
func (lineEncoder) Begin(dst []byte) ([]byte, error) { return dst, nil }

// End implements durable.Encoder.
func (lineEncoder) End(dst []byte, _ int64) []byte { return dst }

// Row implements durable.Encoder.
func (lineEncoder) Row(dst []byte, it *item.Value, _ int64) ([]byte, error) {
	return it.AppendLine(dst), nil
}

// jsonEncoder writes a list, an item per line.
type jsonEncoder struct{ head, tail string }

// Columns implements durable.Encoder.
func (jsonEncoder) Columns() []string { return nil }

// Begin implements durable.Encoder.
func (j jsonEncoder) Begin(dst []byte) ([]byte, error) { return append(dst, j.head...), nil }

// Row implements durable.Encoder.
func (j jsonEncoder) Row(dst []byte, it *item.Value, n int64) ([]byte, error) {
	if n > 0 {
		dst = append(dst, ',')
	}
	return it.AppendTo(append(dst, '\n')), nil
}

// End implements durable.Encoder.
func (j jsonEncoder) End(dst []byte, n int64) []byte {
	if n > 0 {
		dst = append(dst, '\n')
	}
	return append(dst, j.tail...)
}

// tableEncoder writes CSV (RFC 4180, but with bare line feeds).
type tableEncoder struct {
	names     []string // nil: those of the first item
	paths     []item.Path
	known     map[string]bool // members that belong to a column
	strict    bool
	delimiter byte
}

// Columns implements durable.Encoder.
func (e *tableEncoder) Columns() []string { return e.names }

func newTableEncoder(t target, columns []string) *tableEncoder {
	e := &tableEncoder{strict: t.strict, delimiter: t.delimiter}
	if len(columns) > 0 {
		e.choose(columns)
	}
	return e
}

// choose sets the columns. A name with dots is a path into items that have no member of that whole name.
func (e *tableEncoder) choose(columns []string) {
	e.names, e.known = columns, map[string]bool{}
	for _, c := range columns {
		path, err := item.ParsePath(c)
		if err != nil || len(path) < 2 {
			path = nil
		} else {
			e.known[path[0].Key] = true
		}
		e.known[c] = true
		e.paths = append(e.paths, path)
	}
}

// Begin implements durable.Encoder.
func (e *tableEncoder) Begin(dst []byte) ([]byte, error) {
	for i, name := range e.names {
		if i > 0 {
			dst = append(dst, e.delimiter)
		}
		dst = e.text(dst, name)
	}
	if len(e.names) > 0 {
		dst = append(dst, '\n')
	}
	return dst, nil
}

// Row implements durable.Encoder.
func (e *tableEncoder) Row(dst []byte, it *item.Value, n int64) ([]byte, error) {
	start := len(dst)
	if e.names == nil {
		keys := it.Keys()
		if len(keys) == 0 {
			return dst, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the first item has no members, which would name the columns", Hint: "write `columns`"}
		}
		e.choose(keys)
		dst, _ = e.Begin(dst)
	}
	if e.strict {
		for key := range it.Members() {
			if !e.known[key] {
				return dst[:start], &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("%q is not a column of the table", key),
					Hint: "write `columns`, or `extra: drop`"}
			}
		}
	}
	for i, name := range e.names {
		if i > 0 {
			dst = append(dst, e.delimiter)
		}
		v := it.Get(name)
		if v == nil && e.paths[i] != nil {
			v = it.Find(e.paths[i])
		}
		dst = e.cell(dst, v)
	}
	if len(e.names) == 1 && dst[len(dst)-1] == '\n' || len(dst) == start {
		dst = append(dst, `""`...) // a blank line would be no row
	}
	return append(dst, '\n'), nil
}

// End implements durable.Encoder.
func (e *tableEncoder) End(dst []byte, _ int64) []byte { return dst }

func (e *tableEncoder) cell(dst []byte, v *item.Value) []byte {
	switch v.Kind() {
	case item.Null:
		return dst
	case item.Text:
		s, _ := v.Str()
		return e.text(dst, s)
	case item.List, item.Object:
		return e.text(dst, string(v.Bytes()))
	}
	return append(dst, v.Bytes()...)
}

// text appends a text, in quotes where it needs them; so is an empty one, which would else be null.
func (e *tableEncoder) text(dst []byte, s string) []byte {
	plain := s != "" && s[0] != ' ' && s[len(s)-1] != ' '
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] != e.delimiter && s[i] != '"' && s[i] != '\n' && s[i] != '\r'
	}
	if plain {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	for i := range len(s) {
		if s[i] == '"' {
			dst = append(dst, '"')
		}
		dst = append(dst, s[i])
	}
	return append(dst, '"')
}
