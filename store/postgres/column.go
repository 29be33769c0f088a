package postgres

import (
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5/pgtype"
)

// column is one parameter of a statement that takes many rows: an array in PostgreSQL's binary form, written as its
// values come.
type column struct {
	oid  uint32
	buf  []byte
	n    uint32
	null bool
	few  int // batches since the last one that has used a quarter of buf
}

// arrayHead is the size of the head of an array of one dimension.
const arrayHead = 20

func (c *column) reset() {
	c.buf, c.n, c.null = append(c.buf[:0], make([]byte, arrayHead)...), 0, false
}

// param completes the array. It belongs to the column until reset.
func (c *column) param() []byte {
	flags := uint32(0)
	if c.null {
		flags = 1
	}
	for i, v := range [...]uint32{1, flags, c.oid, c.n, 1} {
		binary.BigEndian.PutUint32(c.buf[4*i:], v)
	}
	return c.buf
}

func (c *column) void() {
	c.n++
	c.null = true
	c.buf = binary.BigEndian.AppendUint32(c.buf, 0xffffffff)
}

// int adds a number.
func (c *column) int(v int64) {
	c.n++
	switch c.oid {
	case pgtype.Int2OID:
		c.buf = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(c.buf, 2), uint16(v))
	case pgtype.Int4OID:
		c.buf = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(c.buf, 4), uint32(v))
	default:
		c.buf = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(c.buf, 8), uint64(v))
	}
}

// intOrNull adds a number, NULL for 0.
func (c *column) intOrNull(v int64) {
	if v == 0 {
		c.void()
		return
	}
	c.int(v)
}

func (c *column) bool(v bool) {
	c.n++
	b := byte(0)
	if v {
		b = 1
	}
	c.buf = append(binary.BigEndian.AppendUint32(c.buf, 1), b)
}

// bytes adds a value of type bytea, NULL for nil.
func (c *column) bytes(v []byte) {
	if v == nil {
		c.void()
		return
	}
	c.n++
	if need := len(v) + 4; cap(c.buf)-len(c.buf) < need {
		c.buf = slices.Grow(c.buf, max(need, len(c.buf)))
	}
	c.buf = append(binary.BigEndian.AppendUint32(c.buf, uint32(len(v))), v...)
}

// json adds JSON as text, NULL for nil.
func (c *column) json(v []byte) {
	if v != nil && !plain(v) {
		v = appendEscaped(nil, v)
	}
	c.bytes(v)
}

// jsonOrNull adds JSON as text, NULL for none.
func (c *column) jsonOrNull(v []byte) {
	if len(v) == 0 {
		v = nil
	}
	c.json(v)
}

func (c *column) text(v string) {
	v = encode(v)
	c.n++
	c.buf = append(binary.BigEndian.AppendUint32(c.buf, uint32(len(v))), v...)
}

// textOrNull adds a text, NULL for "".
func (c *column) textOrNull(v string) {
	if v == "" {
		c.void()
		return
	}
	c.text(v)
}

// rows are the columns of one statement of a batch. What becomes too large for one message is sent as several.
type rows struct {
	sql     string
	columns []column
	n       int
	chunks  [][][]byte // parameters of complete statements
}

const (
	maxChunk = 64 << 20 // bytes of a column at which a statement is complete
	maxKept  = 1 << 20  // bytes of a column that are kept for the next batch
	maxLarge = 8 << 20  // bytes that are kept of one of which one of the last maxFew batches has used a quarter
	maxFew   = 32
)

// newRows is for a statement with array parameters of some types.
func newRows(sql string, types ...uint32) *rows {
	r := &rows{sql: sql, columns: make([]column, len(types))}
	for i, oid := range types {
		r.columns[i].oid = oid
		r.columns[i].reset()
	}
	return r
}

// row is the columns, for the next row: the caller adds a value to each.
func (r *rows) row() []column {
	for i := range r.columns {
		if len(r.columns[i].buf) > maxChunk {
			r.cut()
			break
		}
	}
	r.n++
	return r.columns
}

// cut completes a statement.
func (r *rows) cut() {
	r.chunks = append(r.chunks, r.params())
	r.n = 0
	for i := range r.columns {
		r.columns[i].buf = nil
		r.columns[i].reset()
	}
}

// statements adds the statements to a list.
func (r *rows) statements(to []statement) []statement {
	for _, params := range r.chunks {
		to = append(to, statement{r.sql, params})
	}
	if r.n > 0 {
		to = append(to, statement{r.sql, r.params()})
	}
	return to
}

func (r *rows) reset() {
	if r.n == 0 && r.chunks == nil {
		return
	}
	r.n, r.chunks = 0, nil
	for i := range r.columns {
		c := &r.columns[i]
		n := cap(c.buf)
		if c.few++; len(c.buf) >= n/4 {
			c.few = 0
		}
		if n > maxKept && (n > maxLarge || c.few >= maxFew) {
			c.buf = nil
		}
		c.reset()
	}
}

func (r *rows) params() [][]byte {
	out := make([][]byte, len(r.columns))
	for i := range r.columns {
		out[i] = r.columns[i].param()
	}
	return out
}

// slotOf is the slot of an execution.
func slotOf(execution int64) int64 { return max(execution, 0) >> 32 }

// suffix names a slot's table.
func suffix(slot int64) string { return "_" + strconv.FormatInt(slot, 10) }
