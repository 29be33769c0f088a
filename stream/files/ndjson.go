package files

import (
	"errors"
	"io"
)

// eachLine reads one object per line. Blank lines are skipped; lines are validated by their parser.
func (e *emitter) eachLine(w *window) error {
	e.w, e.lines = w, true
	for {
		line := w.line + 1
		text, err := w.readLine(e.shape.MaxItem)
		switch {
		case err == io.EOF: //nolint:errorlint // bare
			return e.complete()
		case errors.Is(err, errTooLong):
			err = e.emit(Row{Line: line, Err: e.tooLong()})
		case err == nil && len(text) > 0:
			err = e.emit(Row{Text: text, Line: line})
		}
		if err != nil {
			return err
		}
	}
}

// goOn reads lines from a position in the middle of the file; the window begins one byte before it.
func (e *emitter) goOn(w *window) error {
	rest := w.rest()
	if len(rest) == 0 {
		if err := w.broken(); err != nil {
			return err
		}
		return errChanged("byte %d: it is not that long any more", e.from.Offset)
	}
	last := rest[0]
	w.consume(1)
	if last != '\n' && len(w.rest()) > 0 {
		return errChanged("byte %d, where no line ends any more", e.from.Offset)
	}
	w.off, w.line, e.count, e.plain = e.from.Offset, e.from.Line, e.from.Row, true
	return e.eachLine(w)
}
