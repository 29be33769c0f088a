package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stepwell/stepwell"
)

// Row is one row of a file.
type Row struct {
	Text []byte   // an object as JSON text, owned by the receiver, not yet checked inside; nil when Err is set
	Key  string   // the member's name, in an object of objects
	Line int64    // from 1: where it begins; of Parquet: its number
	Next Position // where to go on behind this row
	Err  error    // this row is no good (CodeInvalid, CodeLimit); reading goes on behind it
}

// Position is a place between two rows of a file. It is kept as JSON. Offset is set only where reading can
// begin in the middle: NDJSON that is neither compressed nor recoded.
type Position struct {
	Offset int64 `json:"offset,omitempty"` // bytes
	Row    int64 `json:"row,omitempty"`    // rows before it
	Line   int64 `json:"line,omitempty"`   // lines before it
	Size   int64 `json:"size,omitempty"`   // of the file then; 0: not known
}

// Each calls row for every row of a file behind from (nil: all), in order, and returns the error that row returns. An
// invalid row comes with Err. Any other error is of the file: it is unreadable from some point on (CodeInvalid, with
// the byte), or it has changed since from (CodeConflict).
func (p *Places) Each(ctx context.Context, path string, s Shape, from *Position, row func(Row) error) error {
	if err := s.Check(); err != nil {
		return err
	}
	asked := s.Format
	s = s.complete(path)
	e := &emitter{shape: s, row: row}
	if from != nil {
		e.from = *from
	}
	err := p.each(ctx, path, asked, e)
	if err == nil || e.stopped != nil {
		return e.stopped
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return about(path, err)
}

func (p *Places) each(ctx context.Context, path, asked string, e *emitter) error {
	if e.shape.Format == formatParquet {
		return p.eachParquet(ctx, path, e)
	}
	start := e.from.Offset
	if start > 0 {
		start-- // the end of the line before
	}
	raw, info, err := p.open(ctx, path, start)
	if err != nil {
		return err
	}
	defer raw.Close()
	if err := e.sameSize(info); err != nil {
		return err
	}
	if start > 0 {
		return e.goOn(newWindow(ctx, raw))
	}
	in, packed, err := unpack(raw, path)
	if err != nil {
		return err
	}
	defer in.Close()
	text, recoded, err := decode(in, e.shape.Encoding)
	if err != nil {
		return err
	}
	e.plain = !packed && !recoded
	w := newWindow(ctx, text)
	if bytes.HasPrefix(w.ahead(), []byte("PAR1")) && e.shape.Format == formatAuto {
		return p.eachParquet(ctx, path, e)
	}
	if bytes.HasPrefix(w.buf[w.lo:w.hi], []byte("\ufeff")) {
		w.consume(3)
	}
	return e.text(w, asked)
}

// text reads a text from its beginning.
func (e *emitter) text(w *window, asked string) error {
	err := e.rows(w, asked)
	if errors.Is(err, io.ErrUnexpectedEOF) && e.stopped == nil {
		return errCutOff(w.off)
	}
	return err
}

func (e *emitter) rows(w *window, asked string) (err error) {
	e.w = w
	if len(w.rest()) == 0 {
		if err := w.broken(); err != nil {
			return err
		}
		if e.shape.Format == formatJSON || e.shape.Format == formatGeoJSON {
			return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the file is empty"}
		}
		return e.complete()
	}
	if e.shape.Format, err = e.shape.sniff(w, asked); err != nil {
		return err
	}
	switch e.shape.Format {
	case formatNDJSON:
		return e.eachLine(w)
	case formatCSV, formatTSV:
		return e.eachCSV(w)
	}
	return e.eachJSON(w)
}

// emitter counts rows and gives those behind a position to the receiver.
type emitter struct {
	shape   Shape
	from    Position
	row     func(Row) error
	w       *window
	count   int64 // rows so far, skipped ones included
	size    int64 // of the file, 0 when unknown
	plain   bool  // offsets in the text are offsets in the file
	lines   bool  // reading can begin behind any row
	stopped error // the error that row returned
}

// wanted reports whether the next row will be given.
func (e *emitter) wanted() bool { return e.count >= e.from.Row }

// emit gives a row that ends where the window is.
func (e *emitter) emit(r Row) error {
	e.count++
	if e.count <= e.from.Row {
		return nil
	}
	r.Next = Position{Row: e.count, Size: e.size}
	if e.w != nil {
		r.Next.Line = e.w.line
		if e.plain && e.lines {
			r.Next.Offset = e.w.off
		}
	}
	e.stopped = e.row(r)
	return e.stopped
}

func (e *emitter) tooLong() error {
	return &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("row %d is longer than %d bytes", e.count+1, e.shape.MaxItem)}
}

// errChanged is a file that has changed since a position in it was stored.
func errChanged(format string, args ...any) error {
	return &stepwell.Error{Code: stepwell.CodeConflict, Message: "the file has changed since it was read to " + fmt.Sprintf(format, args...),
		Hint: "start without resuming, or put the file back as it was"}
}

func (e *emitter) sameSize(info Info) error {
	if info.Size >= 0 && info.Size < max(e.from.Size, e.from.Offset) {
		return errChanged("row %d: it had %d bytes, now it has %d", e.from.Row, max(e.from.Size, e.from.Offset), info.Size)
	}
	e.size = max(info.Size, 0)
	return nil
}

// complete is the check at the end of a file.
func (e *emitter) complete() error {
	if e.count < e.from.Row {
		return errChanged("row %d: now it has only %d rows", e.from.Row, e.count)
	}
	return nil
}

// about says which file an error is about.
func about(path string, err error) error {
	return &stepwell.Error{Code: stepwell.CodeOf(err), Message: shown(path), Err: err}
}
