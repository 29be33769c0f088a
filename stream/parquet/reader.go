package parquet

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/stepwell/stepwell"
)

// MaxRow bounds the text of one row.
const MaxRow = 64 << 20

const maxFooter = 256 << 20

// Each gives the rows of a file as compact JSON objects, from row number `from` (the first is 0) on, until
// row returns an error, which Each returns. The text belongs to row; n is the row's number.
//
// Every column is there, null when it is null; members of structs that are null are left out, elements of
// lists stay. Numbers are exact, and null where JSON has none (NaN, infinite). Timestamps are RFC 3339 in
// UTC, dates YYYY-MM-DD, decimals numbers with all their digits, maps objects, columns of the logical type
// JSON what they hold; byte arrays that are not said to be texts are base64, unless they are UTF-8 without control
// characters.
//
// One page of every column is in memory at a time. A file that is not as it should be is an error of
// CodeInvalid, after the rows before the damage; errors of r are as they are.
func Each(ctx context.Context, r io.ReaderAt, size int64, from int64, row func(text []byte, n int64) error) error {
	f, err := Open(r, size)
	if err != nil {
		return err
	}
	return f.Each(ctx, from, row)
}

// File is an open file. It is not safe for concurrent use.
type File struct {
	// Rows is the number of rows, as the file says.
	Rows int64
	// DropNulls leaves columns that are null out of a row.
	DropNulls bool
	file      *parquet.File
	root      *column
	in        *source
	size      int64
}

// source keeps the error of a reader apart from those of the file: a disk or a network that fails says nothing
// about the file.
type source struct {
	io.ReaderAt
	failed error
}

func (s *source) ReadAt(p []byte, at int64) (int, error) {
	n, err := s.ReaderAt.ReadAt(p, at)
	if err != nil && err != io.EOF && s.failed == nil {
		s.failed = err
	}
	return n, err
}

// damaged says that the file is not as it should be, unless it could not be read at all.
func (s *source) damaged(err error) error {
	if s.failed != nil {
		return fmt.Errorf("reading a Parquet file: %w", s.failed)
	}
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "not a readable Parquet file", Err: err,
		Hint: "write the file again; it may be cut off or encrypted"}
}

// Open reads the footer. A file that is no Parquet file is an error of CodeInvalid; errors of r are as they are.
func Open(r io.ReaderAt, size int64) (f *File, err error) {
	in := &source{ReaderAt: r}
	defer func() {
		if p := recover(); p != nil { // the library panics on some damaged footers
			f, err = nil, in.damaged(fmt.Errorf("%v", p))
		}
	}()
	if err := checkFooter(in, size); err != nil {
		return nil, in.damaged(err)
	}
	file, err := parquet.OpenFile(in, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(16<<10))
	if err != nil {
		return nil, in.damaged(err)
	}
	f = &File{file: file, in: in, size: size}
	for i, g := range file.Metadata().RowGroups {
		for _, c := range g.Columns {
			if at, n := c.MetaData.DataPageOffset, c.MetaData.TotalCompressedSize; at < 0 || n < 0 || at > size || n > size {
				return nil, in.damaged(fmt.Errorf("row group %d has a column of %d bytes at byte %d of %d", i, n, at, size))
			}
		}
	}
	for i, g := range file.RowGroups() {
		n := g.NumRows()
		if n < 0 || f.Rows+n < f.Rows {
			return nil, in.damaged(fmt.Errorf("row group %d has %d rows", i, n))
		}
		f.Rows += n
	}
	if f.root, err = layOut(file.Root()); err != nil {
		return nil, in.damaged(err)
	}
	return f, nil
}

// checkFooter checks the end of the file before the library allocates the stated size of the footer.
func checkFooter(r io.ReaderAt, size int64) error {
	const around = 12 // the magic at both ends, and the footer's length
	if size < around {
		return fmt.Errorf("%d bytes are too few", size)
	}
	var end [8]byte
	if _, err := r.ReadAt(end[:], size-8); err != nil && err != io.EOF {
		return err
	}
	if n := int64(binary.LittleEndian.Uint32(end[:4])); n > size-around || n > maxFooter {
		return fmt.Errorf("a footer of %d bytes in a file of %d", n, size)
	}
	return nil
}

// Metadata is a value of the key/value metadata, and whether there is one.
func (f *File) Metadata(key string) (string, bool) { return f.file.Lookup(key) }

// Columns are the names of the top-level columns, in order.
func (f *File) Columns() []string {
	names := make([]string, len(f.root.kids))
	for i, kid := range f.root.kids {
		names[i] = kid.name
	}
	return names
}

// Convert writes the values of a top-level column of byte arrays as the JSON that convert appends. It reports
// whether there is such a column.
func (f *File) Convert(name string, convert func(dst, b []byte) ([]byte, error)) bool {
	for _, kid := range f.root.kids {
		if kid.name != name || kid.shape != scalar {
			continue
		}
		kid.leaf = func(dst []byte, v *parquet.Value) ([]byte, error) {
			if k := v.Kind(); k != parquet.ByteArray && k != parquet.FixedLenByteArray {
				return nil, fmt.Errorf("a value of %s, not bytes", k)
			}
			return convert(dst, v.ByteArray())
		}
		return true
	}
	return false
}

// Each is as the function Each.
func (f *File) Each(ctx context.Context, from int64, row func(text []byte, n int64) error) (err error) {
	inside := false
	defer func() {
		if p := recover(); p != nil {
			if inside {
				panic(p)
			}
			err = f.in.damaged(fmt.Errorf("%v", p))
		}
	}()
	n := int64(0)
	for i, group := range f.file.RowGroups() {
		if from >= n+group.NumRows() {
			n += group.NumRows()
			continue
		}
		skip := max(0, from-n)
		n += skip
		err := f.eachOf(ctx, i, skip, func(text []byte) error {
			inside = true
			err := row(text, n)
			inside = false
			n++
			return err
		})
		if bad, ok := err.(*badFile); ok {
			return f.in.damaged(fmt.Errorf("row group %d, row %d: %w", i, n, bad.error))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// badFile marks an error as the file's, not the receiver's.
type badFile struct{ error }

// eachOf gives the rows of one row group, behind the first few.
func (f *File) eachOf(ctx context.Context, number int, skip int64, row func([]byte) error) error {
	group := f.file.RowGroups()[number]
	a := &assembly{cursors: make([]cursor, f.root.end), dropNulls: f.DropNulls}
	defer a.close()
	chunks := group.ColumnChunks()
	if len(chunks) != len(a.cursors) {
		return &badFile{fmt.Errorf("%d columns, not %d", len(chunks), len(a.cursors))}
	}
	for i, chunk := range chunks {
		c := &a.cursors[i]
		if err := checkPages(f.in, f.size, &f.file.Metadata().RowGroups[number].Columns[i].MetaData); err != nil {
			return &badFile{err}
		}
		c.pages = chunk.Pages()
		if err := c.pages.SeekToRow(skip); err != nil {
			return &badFile{err}
		}
	}
	size := 512
	for left := group.NumRows() - skip; left > 0; left-- {
		if err := ctx.Err(); err != nil {
			return err
		}
		text, err := a.row(make([]byte, 0, size), f.root)
		if err != nil {
			return &badFile{err}
		}
		size = max(512, len(text)+len(text)/8)
		if err := row(text); err != nil {
			return err
		}
	}
	return nil
}

// cursor goes over the values of one column of a row group.
type cursor struct {
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader
	buf    [32]parquet.Value
	at, n  int
}

// peek is the next value, which is valid until the next call of peek after a step.
func (c *cursor) peek() (*parquet.Value, error) {
	for c.at == c.n {
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
	return &c.buf[c.at], nil
}

func (c *cursor) fill() error {
	if c.values != nil {
		n, err := c.values.ReadValues(c.buf[:])
		c.at, c.n = 0, n
		switch {
		case n > 0:
			return nil
		case err != nil && err != io.EOF:
			return err
		case err == nil:
			return io.ErrNoProgress
		}
		c.values = nil
	}
	if c.page != nil {
		parquet.Release(c.page)
		c.page = nil
	}
	page, err := c.pages.ReadPage()
	if err != nil {
		return err
	}
	c.page, c.values = page, page.Values()
	return nil
}

func (a *assembly) close() {
	for i := range a.cursors {
		c := &a.cursors[i]
		if c.page != nil {
			parquet.Release(c.page)
		}
		if c.pages != nil {
			c.pages.Close()
		}
	}
}
