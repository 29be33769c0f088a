package transform

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stac/transform/convert"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
)

// table is a table to join items with, by key. It does not change once it is loaded; every use of a row
// parses it anew, for Values are not shared between goroutines.
type table struct {
	byKey      map[string]*entry
	bytes      int64
	rows       int64
	failed     int64
	duplicates int64
}

type entry struct {
	text []byte
	used atomic.Bool
}

// entryBytes is the approximate cost of an entry besides its texts.
const entryBytes = 128

// loader fills a table.
type loader struct {
	*transformer
	table   *table
	pending []stream.Failure // rows without a key, as long as it is not clear that any has one
	columns []string         // of the first row
}

// maxPending bounds the failures held back.
const maxPending = 1000

// load reads the files of the table.
func (t *transformer) load(ctx context.Context) error {
	l := &loader{transformer: t, table: &table{byKey: map[string]*entry{}}}
	paths, err := t.list(ctx)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := t.each(ctx, path, nil, func(row files.Row) error { return l.row(t.shown(path), row) }); err != nil {
			return &stepwell.Error{Code: stepwell.CodeOf(err), Message: t.filesKey, Hint: stepwell.HintOf(err), Err: err}
		}
	}
	if len(l.table.byKey) == 0 && len(l.pending) > 0 {
		return l.noKeys()
	}
	if err := l.flush(); err != nil {
		return err
	}
	t.table = l.table
	return nil
}

func (l *loader) noKeys() error {
	hint := "the first row has " + strings.Join(l.columns[:min(len(l.columns), 20)], ", ")
	near := spec.Closest(l.joinKey.key, l.columns)
	for _, column := range l.columns {
		if near == "" && strings.HasSuffix(strings.ToLower(column), "_"+strings.ToLower(l.joinKey.key)) {
			near = column
		}
	}
	if near != "" {
		hint = "did you mean input_join_key: " + near + "? " + hint
	}
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("no row of %s has the key %s", strings.Join(l.files, ", "), l.joinKey.key), Hint: hint}
}

func (l *loader) row(file string, row files.Row) error {
	l.table.rows++
	key, err := l.keyOf(row)
	if err != nil {
		l.table.failed++
		f := stream.Failure{Type: stream.DataProcessing, Err: err, Context: stream.Context{File: file, Line: row.Line}}
		if len(l.table.byKey) == 0 && len(l.pending) < maxPending {
			l.pending = append(l.pending, f)
			return nil
		}
		if err := l.flush(); err != nil {
			return err
		}
		return l.env.Fail(f)
	}
	if l.table.byKey[key] != nil {
		l.table.duplicates++
		l.table.bytes -= int64(len(l.table.byKey[key].text))
	} else {
		l.table.bytes += int64(len(key)) + entryBytes
	}
	if l.table.bytes += int64(len(row.Text)); l.table.bytes > l.MaxTable {
		return &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("%s, line %d: the table takes more than max_table_bytes (%d)", file, row.Line, l.MaxTable),
			Hint: "raise max_table_bytes, or take columns that no mapping needs out of the table"}
	}
	l.table.byKey[key] = &entry{text: row.Text}
	return nil
}

func (l *loader) keyOf(row files.Row) (string, error) {
	if row.Err != nil {
		return "", row.Err
	}
	v, err := item.Parse(row.Text)
	if err != nil {
		return "", err
	}
	if l.columns == nil {
		l.columns = v.Keys()
	}
	if row.Key != "" && !l.keyGiven {
		return row.Key, nil
	}
	found, err := l.joinKey.in(v)
	if err != nil {
		return "", err
	}
	if key := text(found); key != "" {
		return key, nil
	}
	return "", &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the row has no " + l.joinKey.key}
}

func (l *loader) flush() error {
	for _, f := range l.pending {
		if err := l.env.Fail(f); err != nil {
			return err
		}
	}
	l.pending = nil
	return nil
}

// text is a key: a text, or the digits of a number as they stand.
func text(v *item.Value) string {
	t, err := convert.Text(v)
	if err != nil {
		return ""
	}
	s, _ := t.Str()
	return s
}

// each reads the rows of a file.
func (t *transformer) each(ctx context.Context, path string, from *files.Position, row func(files.Row) error) error {
	if t.rowsAt == nil {
		return t.places.Each(ctx, path, t.Shape, from, row)
	}
	rows, err := t.found(ctx, path)
	if err != nil {
		return &stepwell.Error{Code: stepwell.CodeOf(err), Message: t.shown(path), Hint: stepwell.HintOf(err), Err: err}
	}
	for i, v := range rows.Elements() {
		n := int64(i + 1)
		if from != nil && n <= from.Row {
			continue
		}
		r := files.Row{Text: v.Bytes(), Line: n, Next: files.Position{Row: n}}
		if v.Kind() != item.Object {
			r.Text, r.Err = nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("row %d is %s, not an object", n, v.Kind())}
		}
		if err := row(r); err != nil {
			return err
		}
	}
	return nil
}

// found is the list that a data_path that is no plain path leads to: it needs the whole document.
func (t *transformer) found(ctx context.Context, path string) (*item.Value, error) {
	in, _, err := t.places.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	raw, err := io.ReadAll(io.LimitReader(in, t.MaxTable+1))
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) > t.MaxTable {
		return nil, &stepwell.Error{Code: stepwell.CodeLimit, Message: "the document is larger than max_table_bytes", Hint: "a data_path that is a plain path (a.b.c) is read as a stream, without a limit"}
	}
	doc, err := item.Parse(raw)
	if err != nil {
		return nil, err
	}
	rows, err := search(t.rowsAt, doc)
	if err == nil && rows.Kind() != item.List {
		err = &stepwell.Error{Code: stepwell.CodeInvalid, Message: "data_path leads to " + rows.Kind().String() + ", not a list"}
	}
	return rows, err
}
