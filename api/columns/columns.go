// Package columns is the format of tables for pages that draw many rows: application/vnd.stepwell.columns.
//
// It is the four bytes SWC1, the length of a JSON header as a 32-bit number, the header, and the columns in its order; zeros
// fill up before each column, so that it begins at a multiple of 8. All numbers are little-endian, and unsigned or of floating point. A reader skips
// columns that it does not know, and finds the meaning of enumerated values in the header, so that new ones do not break it.
package columns

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/stepwell/stepwell"
)

// MediaType is that of a table.
const MediaType = "application/vnd.stepwell.columns"

const magic = "SWC1"

// Limits of a table.
const (
	MaxHeader  = 1 << 20 // bytes
	MaxColumns = 64
	MaxLength  = 1 << 26 // values of a column
)

// Header describes a table.
type Header struct {
	Version int64 `json:"version" doc:"Of the execution that the rows show: the number of its last commit."`
	Rows    int   `json:"rows" doc:"How many rows the columns have."`
	From    int   `json:"from" doc:"Index of the step, or number of the change, of the first row."`
	// Total is how many rows there are without From and a limit.
	Total int `json:"total" doc:"How many rows the whole table has."`
	// Again is set by a stream of changes.
	Again   bool     `json:"again,omitempty" doc:"So much has changed that the whole table is to be fetched again; there are no rows."`
	Columns []Column `json:"columns" nullable:"false"`
	States  []string `json:"states,omitempty" doc:"The names of the values of the column status."`
	Workers []string `json:"workers,omitempty" doc:"The names of the values of the column worker."`
	// Outcomes are those of attempts.
	Outcomes []string `json:"outcomes,omitempty" doc:"The names of the values of the column outcome; the empty one: it has not ended."`
	Actions  []string `json:"actions,omitempty" doc:"The names of the values of the column action."`
	Queues   []string `json:"queues,omitempty" doc:"The names of the values of the column queue; the empty one is the default queue."`
	Began    int64    `json:"began,omitempty" doc:"Milliseconds since 1970 from which the columns of times count."`
	At       int64    `json:"at,omitempty" doc:"Milliseconds since 1970. Of a version that was asked for: when it was committed; of changes: from which dt counts."`
}

// Column describes a column.
type Column struct {
	Name   string `json:"name"`
	Type   string `json:"type" enum:"u8,u16,u32,f32" doc:"The size of a value; f32 is floating point."`
	Length int    `json:"length" doc:"How many values there are."`
}

// Data is a column with its values, in the one of the lists that is not nil.
type Data struct {
	Name string
	U8   []uint8
	U16  []uint16
	U32  []uint32
	F32  []float32
}

// describe is the column's place in a header.
func (d *Data) describe() Column {
	switch {
	case d.U16 != nil:
		return Column{d.Name, "u16", len(d.U16)}
	case d.U32 != nil:
		return Column{d.Name, "u32", len(d.U32)}
	case d.F32 != nil:
		return Column{d.Name, "f32", len(d.F32)}
	}
	return Column{d.Name, "u8", len(d.U8)}
}

// Narrow makes a column of the smallest type that has room for all values.
func Narrow(name string, values []uint32) Data {
	most := uint32(0)
	for _, v := range values {
		most |= v
	}
	switch {
	case most <= 0xff:
		return Data{Name: name, U8: convert[uint8](values)}
	case most <= 0xffff:
		return Data{Name: name, U16: convert[uint16](values)}
	}
	return Data{Name: name, U32: values}
}

// Size is the number of bytes that the values take.
func (d *Data) Size() int { return len(d.U8) + 2*len(d.U16) + 4*(len(d.U32)+len(d.F32)) }

func aligned(n int) int { return (n + 7) &^ 7 }

// Encode writes a table. It fills in the header's Columns, and allocates the result in one piece.
func Encode(h Header, data []Data) ([]byte, error) {
	h.Columns = make([]Column, len(data))
	for i := range data {
		h.Columns[i] = data[i].describe()
	}
	head, err := json.Marshal(&h)
	if err != nil {
		return nil, err
	}
	if len(head) > MaxHeader || len(data) > MaxColumns {
		return nil, fmt.Errorf("columns: a header of %d bytes and %d columns", len(head), len(data))
	}
	size := aligned(len(magic) + 4 + len(head))
	for i := range data {
		size += aligned(data[i].Size())
	}
	out := append(make([]byte, 0, size), magic...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(head)))
	out = pad(append(out, head...))
	for i := range data {
		out = append(out, data[i].U8...)
		for _, v := range data[i].U16 {
			out = binary.LittleEndian.AppendUint16(out, v)
		}
		for _, v := range data[i].U32 {
			out = binary.LittleEndian.AppendUint32(out, v)
		}
		for _, v := range data[i].F32 {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		}
		out = pad(out)
	}
	return out, nil
}

func pad(out []byte) []byte {
	return append(out, "\x00\x00\x00\x00\x00\x00\x00"[:aligned(len(out))-len(out)]...)
}

// Table is a table that has been read.
type Table struct {
	Header
	raw [][]byte // of each column
}

// sizes of the types' values.
var sizes = map[string]int{"u8": 1, "u16": 2, "u32": 4, "f32": 4}

// Decode reads a table, which keeps raw. Its memory beside raw is bounded by the header's limit. CodeInvalid for what is not
// one.
func Decode(raw []byte) (*Table, error) {
	head, rest, err := split(raw)
	if err != nil {
		return nil, err
	}
	t := &Table{}
	if err := json.Unmarshal(head, &t.Header); err != nil {
		return nil, bad("its header is not understood: %v", err)
	}
	if t.Rows < 0 || t.From < 0 || t.Total < 0 || len(t.Columns) > MaxColumns {
		return nil, bad("its header gives %d rows from %d on of %d, and %d columns", t.Rows, t.From, t.Total, len(t.Columns))
	}
	for i, c := range t.Columns {
		size, known := sizes[c.Type]
		if !known || c.Length < 0 || c.Length > MaxLength {
			return nil, bad("columns[%d] has the type %.20q and %d values", i, c.Type, c.Length)
		}
		if slices.ContainsFunc(t.Columns[:i], func(other Column) bool { return other.Name == c.Name }) {
			return nil, bad("columns[%d]: there are two columns %.40q", i, c.Name)
		}
		size *= c.Length
		if size > len(rest) || aligned(size) > len(rest) {
			return nil, bad("columns[%d] needs %d bytes, %d are left", i, size, len(rest))
		}
		t.raw = append(t.raw, rest[:size:size])
		rest = rest[aligned(size):]
	}
	if len(rest) > 0 {
		return nil, bad("%d bytes come after its last column", len(rest))
	}
	return t, nil
}

// split finds the header and what comes behind it.
func split(raw []byte) (head, rest []byte, err error) {
	const before = len(magic) + 4
	if len(raw) < before || !bytes.HasPrefix(raw, []byte(magic)) {
		return nil, nil, bad("it does not begin with %s", magic)
	}
	n := int64(binary.LittleEndian.Uint32(raw[len(magic):]))
	if n > MaxHeader || n > int64(len(raw)-before) || aligned(before+int(n)) > len(raw) {
		return nil, nil, bad("its header is said to have %d bytes, %d are there", n, len(raw)-before)
	}
	return raw[before : before+int(n)], raw[aligned(before+int(n)):], nil
}

func bad(format string, args ...any) error {
	return stepwell.Errorf(stepwell.CodeInvalid, "ask again; is it a Stepwell server of this version?", "this is not a table of columns: "+format, args...)
}

// Column gives the values of a column, whatever their type (those of f32 as their bits); nil if there is no such column.
func (t *Table) Column(name string) []uint32 {
	i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	out, raw := make([]uint32, t.Columns[i].Length), t.raw[i]
	for at := range out {
		switch t.Columns[i].Type {
		case "u8":
			out[at] = uint32(raw[at])
		case "u16":
			out[at] = uint32(binary.LittleEndian.Uint16(raw[2*at:]))
		default:
			out[at] = binary.LittleEndian.Uint32(raw[4*at:])
		}
	}
	return out
}

func convert[T uint8 | uint16](values []uint32) []T {
	out := make([]T, len(values))
	for i, v := range values {
		out[i] = T(v)
	}
	return out
}
