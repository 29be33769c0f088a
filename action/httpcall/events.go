package httpcall

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/expr"
)

// maxEvents bounds the events or lines of one response.
const maxEvents = 100_000

// event is one server-sent event (HTML, "Server-sent events", §9.2).
type event struct{ name, id, data string }

// readEvents calls yield for the events of a stream, until it returns false or the stream ends; text after the last
// blank line is no event. It reads at most limit bytes.
func readEvents(in io.Reader, limit int64, yield func(event) bool) error {
	lines, err := newLines(in, limit)
	if err != nil {
		return err
	}
	var now event
	var data []string
	lastID := ""
	for lines.Scan() {
		line := lines.Text()
		if line == "" {
			if len(data) > 0 {
				now.data, now.id = strings.Join(data, "\n"), lastID
				if !yield(now) {
					return nil
				}
			}
			now, data = event{}, nil
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			now.name = value
		case "data":
			data = append(data, value)
		case "id":
			if !strings.Contains(value, "\x00") {
				lastID = value
			}
		}
	}
	return lines.err()
}

// lineReader reads lines that end in LF, CR or CRLF. Every byte is looked at a fixed number of times,
// however long a line is.
type lineReader struct {
	in      *bufio.Reader
	limited *io.LimitedReader
	limit   int64
	rest    string // up to the last LF read, not yet given
	more    bool   // whether rest holds a line
	line    string
	failed  error
}

func newLines(in io.Reader, limit int64) (*lineReader, error) {
	l := &lineReader{limited: &io.LimitedReader{R: in, N: limit + 1}, limit: limit}
	l.in = bufio.NewReader(l.limited)
	if mark, err := l.in.Peek(3); err == nil && bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		if _, err := l.in.Discard(3); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// Scan goes to the next line, if there is one.
func (l *lineReader) Scan() bool {
	if !l.more && !l.fill() {
		return false
	}
	l.line, l.rest, l.more = strings.Cut(l.rest, "\r")
	return true
}

// fill reads up to the next LF, or to the end.
func (l *lineReader) fill() bool {
	if l.failed != nil {
		return false
	}
	raw, err := l.in.ReadString('\n')
	l.failed = err
	if l.limited.N <= 0 || err != nil && err != io.EOF || raw == "" { //nolint:errorlint // bare
		return false
	}
	l.rest = strings.TrimSuffix(strings.TrimSuffix(raw, "\n"), "\r")
	return true
}

// Text is the line.
func (l *lineReader) Text() string { return l.line }

func (l *lineReader) err() error {
	switch {
	case l.limited.N <= 0:
		return tooLarge(l.limit, "take more with max_bytes")
	case l.failed == io.EOF: //nolint:errorlint // bare
		return nil
	}
	return l.failed
}

// collect makes a list of a stream: of events {event, id, data}, or of the values of lines.
func collect(in io.Reader, as string, limit int64) ([]any, error) {
	list := []any{}
	if as == "lines" {
		return collectLines(in, limit)
	}
	full := false
	err := readEvents(in, limit, func(e event) bool {
		if e.data == "[DONE]" {
			return false
		}
		if full = len(list) == maxEvents; full {
			return false
		}
		var data any = e.data
		if v, err := expr.Decode([]byte(e.data)); err == nil {
			data = v
		}
		list = append(list, map[string]any{"event": or(e.name, "message"), "id": e.id, "data": data})
		return true
	})
	if full {
		err = tooMany()
	}
	return list, err
}

func tooMany() error {
	return resultFailure(outbound.KindLimit, fmt.Sprintf("the response has more than %d events or lines", maxEvents))
}

func collectLines(in io.Reader, limit int64) ([]any, error) {
	list := []any{}
	lines, err := newLines(in, limit)
	if err != nil {
		return nil, err
	}
	for n := 1; lines.Scan(); n++ {
		text := bytes.TrimSpace([]byte(lines.Text()))
		if len(text) == 0 {
			continue
		}
		if len(list) == maxEvents {
			return nil, tooMany()
		}
		v, err := expr.Decode(text)
		if err != nil {
			kind := outbound.KindContent
			if !json.Valid(text) && !lines.Scan() { // the last line, cut short
				kind = outbound.KindTruncated
			}
			if err := lines.err(); err != nil {
				return nil, err
			}
			return nil, resultFailure(kind, fmt.Sprintf("line %d of the response is not JSON", n))
		}
		list = append(list, v)
	}
	return list, lines.err()
}
