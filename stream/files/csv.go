package files

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stepwell/stepwell"
)

const maxColumns = 16384

// table reads CSV (RFC 4180), and its common variants: other delimiters and quotes, bare line feeds, a quote inside of
// a cell that does not begin with one.
type table struct {
	*window
	*emitter
	delimiter, quote byte
	quotes           bool
	columns          [][]byte // names as JSON, with the colon
	literal          []bool   // columns whose cells stay text

	state  cellState
	cells  []byte // of the record, one behind the other
	ends   []int  // of the cells
	start  int64  // line in which the record begins
	opened int64  // line of the last opening quote
	size   int64  // bytes of the record
	bad    string // the reason why it is invalid
}

type cellState uint8

const (
	cellStart cellState = iota
	inCell
	inQuotes
	behindQuote // which may be the closing one
)

func (e *emitter) eachCSV(w *window) error {
	t := &table{window: w, emitter: e, delimiter: ',', quote: '"', quotes: e.shape.Quote != quoteNone}
	if e.shape.Format == formatTSV {
		t.delimiter = '\t'
	}
	if d := e.shape.Delimiter; d != "" {
		t.delimiter = d[0]
	}
	if q := e.shape.Quote; q != "" && t.quotes {
		t.quote = q[0]
	}
	for {
		more, err := t.record()
		if err != nil {
			return err
		}
		if !more {
			return e.complete()
		}
		if t.columns == nil {
			if err := t.head(); err != nil {
				return err
			}
			if !e.shape.noHeader() {
				continue
			}
		}
		if err := e.emit(t.row()); err != nil {
			return err
		}
	}
}

// record reads the cells of the next record. Blank lines are none. It reports false at the end.
func (t *table) record() (bool, error) {
	t.reset()
	for {
		rest := t.rest()
		if len(rest) == 0 {
			return t.last()
		}
		n, done := t.scan(rest)
		t.size += int64(n)
		t.consume(n)
		switch {
		case !done:
		case len(t.ends) == 1 && len(t.cells) == 0 && t.size <= 2: // nothing, and the end of the line
			t.reset()
		default:
			return true, nil
		}
	}
}

func (t *table) reset() {
	t.cells, t.ends, t.size, t.bad = t.cells[:0], t.ends[:0], 0, ""
	t.state, t.start = cellStart, t.line+1
}

// last ends the record at the end of the file.
func (t *table) last() (bool, error) {
	if err := t.broken(); err != nil {
		return false, err
	}
	if t.state == inQuotes {
		return false, &stepwell.Error{Code: stepwell.CodeInvalid, Hint: "correct the file, or set `quote: none`",
			Message: fmt.Sprintf("the quote opened in line %d is never closed; the rows behind it are lost", t.opened)}
	}
	if t.size == 0 {
		return false, nil
	}
	t.endCell(true)
	return true, nil
}

// scan takes bytes of the record and reports its end. It is one table of states, and so longer than others.
func (t *table) scan(p []byte) (n int, done bool) {
	for i := 0; i < len(p); {
		switch c := p[i]; t.state {
		case cellStart:
			if t.state = inCell; t.quotes && c == t.quote {
				t.state, t.opened = inQuotes, t.line+1+int64(bytes.Count(p[:i], newline))
				i++
			}
		case inCell:
			end := i
			for end < len(p) && p[end] != t.delimiter && p[end] != '\n' {
				end++
			}
			t.add(p[i:end])
			if end == len(p) {
				return end, false
			}
			t.endCell(p[end] == '\n')
			if i = end + 1; p[end] == '\n' {
				return i, true
			}
		case inQuotes:
			end := bytes.IndexByte(p[i:], t.quote)
			if end < 0 {
				t.add(p[i:])
				return len(p), false
			}
			t.add(p[i : i+end])
			t.state = behindQuote
			i += end + 1
		case behindQuote:
			switch {
			case c == t.quote:
				t.add(p[i : i+1])
				t.state = inQuotes
			case c == t.delimiter, c == '\n':
				t.endCell(false)
				if c == '\n' {
					return i + 1, true
				}
			case c != '\r':
				t.bad = fmt.Sprintf("cell %d continues behind its closing quote", len(t.ends)+1)
				t.state = inCell
				continue
			}
			i++
		}
	}
	return len(p), false
}

// add appends to the cell, unless the record is too long to be kept.
func (t *table) add(p []byte) {
	if int64(len(t.cells)+len(p)) <= t.shape.MaxItem {
		t.cells = append(t.cells, p...)
	}
}

// endCell ends the cell; bare says that it may end in a carriage return that is part of the line's end.
func (t *table) endCell(bare bool) {
	if n := len(t.cells); bare && t.state == inCell && n > t.cellStart(len(t.ends)) && t.cells[n-1] == '\r' {
		t.cells = t.cells[:n-1]
	}
	if t.state = cellStart; len(t.ends) == maxColumns {
		t.bad = fmt.Sprintf("it has more than %d cells", maxColumns)
		return
	}
	t.ends = append(t.ends, len(t.cells))
}

func (t *table) cellStart(i int) int {
	if i == 0 {
		return 0
	}
	return t.ends[i-1]
}

func (t *table) cell(i int) []byte { return t.cells[t.cellStart(i):t.ends[i]] }

// head takes the names of the columns from the record, or numbers them.
func (t *table) head() error {
	fail := func(format string, args ...any) error {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("line %d: the header ", t.start) + fmt.Sprintf(format, args...),
			Hint: "if the file has none, set `header: false`"}
	}
	if err := t.fault(); err != nil && !t.shape.noHeader() {
		return fail("cannot be parsed: %s", err)
	}
	seen := map[string]bool{}
	for i := range t.ends {
		name := strings.TrimSpace(string(t.cell(i)))
		if t.shape.noHeader() || name == "" {
			name = fmt.Sprintf("c%d", i+1)
		}
		if seen[name] {
			return fail("has the column %q twice", name)
		}
		seen[name] = true
		quoted, err := jsontext.AppendQuote(nil, name)
		if err != nil {
			return fail("is not UTF-8: set `encoding`")
		}
		t.columns = append(t.columns, append(quoted, ':'))
		t.literal = append(t.literal, t.shape.AllText || slices.Contains(t.shape.Text, name))
	}
	for _, name := range t.shape.Text {
		if !seen[name] {
			return fail("has no column %q, which is to be kept as text", name)
		}
	}
	return nil
}

// fault is the error of the record.
func (t *table) fault() error {
	e := &stepwell.Error{Code: stepwell.CodeInvalid, Message: t.bad}
	switch {
	case t.size > t.shape.MaxItem:
		return t.tooLong()
	case t.bad != "":
	case !utf8.Valid(t.cells):
		e.Message, e.Hint = "the row is not UTF-8", "set `encoding`, to windows-1252 or utf-16 for instance"
	case t.columns != nil && len(t.ends) != len(t.columns):
		e.Message = fmt.Sprintf("the row has %d cells, the header %d", len(t.ends), len(t.columns))
	default:
		return nil
	}
	return e
}

// row makes an object of the record.
func (t *table) row() Row {
	r := Row{Line: t.start}
	if r.Err = t.fault(); r.Err != nil || !t.wanted() {
		return r
	}
	text := make([]byte, 0, len(t.cells)+len(t.cells)/8+len(t.columns)*16)
	for i, name := range t.columns {
		text = append(text, "{,"[min(i, 1)])
		text = append(text, name...)
		text = appendCell(text, t.cell(i), t.literal[i], t.shape.Decimal == ",")
	}
	r.Text = append(text, '}')
	return r
}
