package parquet

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/stepwell/stepwell/item"
)

// Options are the options of a Writer.
type Options struct {
	// RowGroup is the number of rows of a row group. Defaults to 20,000. A row group ends earlier when its
	// rows are 128 MiB of text.
	RowGroup int
	// Metadata is written as key/value metadata.
	Metadata map[string]string
}

const (
	defaultRowGroup = 20_000
	maxGroupText    = 128 << 20
	batchText       = 1 << 20 // rows are handed to the columns together, this much text or 256 rows of them
	batchRows       = 256
	pageMemory      = 16 << 20 // of all columns' pages that are being filled
	maxPending      = 4 << 20  // values in those pages, nulls included
	maxDictionary   = 64 << 10 // of a column; beyond, its values are written plainly
)

// Writer writes rows of one schema, compressed with zstd. It is not safe for concurrent use.
type Writer struct {
	out     *parquet.GenericWriter[any]
	columns []*parquet.ColumnWriter
	root    *slot
	o       Options

	values  [][]parquet.Value // of the batch, per column
	before  []int             // lengths of values before the row at hand
	scratch []byte            // of binary values of the batch
	visit   int
	batch   int // rows
	text    int // of the batch
	pending int // values in open pages
	group   struct {
		rows int
		text int
	}
}

// NewWriter begins a file. Errors: ErrNoColumns, and a schema beyond MaxColumns.
func NewWriter(w io.Writer, s Schema, o Options) (*Writer, error) {
	s = s.clone()
	for _, f := range s {
		f.Type.finish(true)
	}
	root := place(&Type{Kind: Struct, Required: true, Fields: s}, 0, 0, 0)
	switch {
	case root.end == 0:
		return nil, ErrNoColumns
	case root.end > MaxColumns:
		return nil, fmt.Errorf("%d columns, more than %d", root.end, MaxColumns)
	}
	if o.RowGroup <= 0 {
		o.RowGroup = defaultRowGroup
	}
	zip, err := newCodec()
	if err != nil {
		return nil, err
	}
	page := max(8<<10, min(256<<10, pageMemory/root.end))
	out := parquet.NewGenericWriter[any](w, parquet.NewSchema("row", group(s)),
		parquet.Compression(zip), parquet.PageBufferSize(page), parquet.DictionaryMaxBytes(maxDictionary),
		parquet.CreatedBy("stepwell", "", ""), parquet.ColumnPageBuffers(parquet.NewChunkBufferPool(16<<10)))
	for _, key := range slices.Sorted(maps.Keys(o.Metadata)) {
		out.SetKeyValueMetadata(key, o.Metadata[key])
	}
	return &Writer{out: out, columns: out.ColumnWriters(), root: root, o: o,
		values: make([][]parquet.Value, root.end), before: make([]int, root.end)}, nil
}

// Write adds a row, whose text must not change before Close. A RowError says that the row does not fit; it
// has been left out, and others can follow. Any other error ends the file.
func (w *Writer) Write(row *item.Value) error { return w.write(row.Bytes()) }

func (w *Writer) write(text []byte) error {
	for i := range w.values {
		w.before[i] = len(w.values[i])
	}
	p := &scan{b: text}
	if err := w.put(w.root, p, 0, 0); err != nil {
		for i := range w.values {
			w.values[i] = w.values[i][:w.before[i]]
		}
		return err
	}
	w.batch++
	w.text += len(text)
	w.group.rows++
	switch {
	case w.group.rows >= w.o.RowGroup || w.group.text+w.text >= maxGroupText:
		return w.endGroup()
	case w.batch >= batchRows || w.text >= batchText:
		return w.flush()
	}
	return nil
}

// SetMetadata adds key/value metadata, until Close.
func (w *Writer) SetMetadata(key, value string) { w.out.SetKeyValueMetadata(key, value) }

// Close writes what is left and the footer. It does not close the io.Writer.
func (w *Writer) Close() error {
	if err := w.flush(); err != nil {
		return err
	}
	return w.out.Close()
}

func (w *Writer) endGroup() error {
	if err := w.flush(); err != nil {
		return err
	}
	w.group.rows, w.group.text, w.pending = 0, 0, 0
	return w.out.Flush()
}

// flush hands the batch to the columns.
func (w *Writer) flush() error {
	for i, values := range w.values {
		if len(values) == 0 {
			continue
		}
		if _, err := w.columns[i].WriteRowValues(values); err != nil {
			return err
		}
		w.pending += len(values)
		clear(values)
		w.values[i] = values[:0]
	}
	w.group.text += w.text
	w.batch, w.text, w.scratch = 0, 0, w.scratch[:0]
	if w.pending < maxPending {
		return nil
	}
	// Columns of nulls never fill a page by themselves.
	w.pending = 0
	for _, c := range w.columns {
		if err := c.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) nulls(s *slot, rep, def int) {
	for c := s.first; c < s.end; c++ {
		w.values[c] = append(w.values[c], parquet.Value{}.Level(rep, def, c))
	}
}

// put takes a value and spreads it over the columns of a slot. around is the definition level of what is
// around.
func (w *Writer) put(s *slot, p *scan, rep, around int) error {
	if p.null() {
		if s.Required {
			return misfit("must not be null or absent")
		}
		w.nulls(s, rep, around)
		return nil
	}
	switch first := p.peek(); {
	case s.Kind == Struct && first == '{':
		return w.members(s, p, rep)
	case s.Kind == List && first == '[':
		return w.elements(s, p, rep)
	}
	val, err := w.leaf(s.Type, p.value())
	if err != nil {
		return err
	}
	w.values[s.first] = append(w.values[s.first], val.Level(rep, s.def, s.first))
	return nil
}

func (w *Writer) members(s *slot, p *scan, rep int) error {
	w.visit++
	visit, guess := w.visit, 0
	p.i++
	for n := 0; p.more(n); n++ {
		at, name, known := s.at(p, guess)
		if !known {
			if p.null() {
				continue
			}
			return misfit("not in the schema").under(string(name))
		}
		if err := w.put(s.kids[at], p, rep, s.def); err != nil {
			return within(err, s.Fields[at].Name)
		}
		s.kids[at].seen = visit
		guess = at + 1
	}
	for i, kid := range s.kids {
		if kid.seen == visit {
			continue
		}
		if kid.Required {
			return misfit("must not be null or absent").under(s.Fields[i].Name)
		}
		w.nulls(kid, rep, s.def)
	}
	return nil
}

func within(err error, name string) error {
	if row, ok := err.(*RowError); ok {
		return row.under(name)
	}
	return err
}

func (w *Writer) elements(s *slot, p *scan, rep int) error {
	p.i++
	n := 0
	for ; p.more(n); n++ {
		if n == 1 {
			rep = s.rep
		}
		if err := w.put(s.kids[0], p, rep, s.def+1); err != nil {
			if row, ok := err.(*RowError); ok {
				return row.inList()
			}
			return err
		}
	}
	if n == 0 {
		w.nulls(s, rep, s.def)
	}
	return nil
}

// leaf makes a column's value of the text of one that is not null.
func (w *Writer) leaf(t *Type, text []byte) (parquet.Value, error) {
	number := text[0] == '-' || text[0] >= '0' && text[0] <= '9'
	switch t.Kind {
	case Bool:
		if text[0] == 't' || text[0] == 'f' {
			return parquet.BooleanValue(text[0] == 't'), nil
		}
	case Int:
		if n, ok := int64Of(text); number && ok {
			return parquet.Int64Value(n), nil
		}
	case Double:
		if number {
			if f, ok := doubleOf(text); ok {
				return parquet.DoubleValue(f), nil
			}
		}
	case Timestamp:
		if text[0] == '"' {
			if us, ok := micros(plainText(text)); ok {
				return parquet.Int64Value(us), nil
			}
		}
	case Binary:
		start := len(w.scratch)
		if out, err := t.encode(w.scratch, text); err == nil {
			w.scratch = out
			return parquet.ByteArrayValue(out[start:len(out):len(out)]), nil
		}
	case JSON:
		return parquet.ByteArrayValue(text), nil
	case List, Struct:
	default:
		if text[0] == '"' {
			return parquet.ByteArrayValue(plainText(text)), nil
		}
	}
	return parquet.Value{}, reason(t, text)
}
