package feed

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
)

// Cursor is a place in the stream of an execution: everything up to here has been sent. To a client it is
// text: "7-120" is version 7 of the step log and log line 120, "7.3-120" stands within version 7 behind its
// third event, and "7-120-end" is behind the complete message of version 7. The zero Cursor is the beginning.
type Cursor struct {
	Version int64 // of the step log, sent in full if Within is 0
	Within  int   // events of Version that have been sent, 0 for all
	Log     int64 // Seq of the last log line
	Ended   bool  // the end at Version has been sent
}

func (c Cursor) String() string {
	b := strconv.AppendInt(make([]byte, 0, 32), c.Version, 10)
	if c.Within > 0 {
		b = append(b, '.')
		b = strconv.AppendInt(b, int64(c.Within), 10)
	}
	b = append(b, '-')
	b = strconv.AppendInt(b, c.Log, 10)
	if c.Ended {
		b = append(b, "-end"...)
	}
	return string(b)
}

// after is the version behind which the store is asked for events.
func (c Cursor) after() int64 {
	if c.Within > 0 {
		return c.Version - 1
	}
	return c.Version
}

// reaches reports whether everything up to another place has been sent, and perhaps more. Other is not within a version.
func (c Cursor) reaches(other Cursor) bool { return c.after() >= other.Version && c.Log >= other.Log }

// ParseCursor reads String's form; CodeInvalid for anything else.
func ParseCursor(text string) (Cursor, error) {
	rest, ended := strings.CutSuffix(text, "-end")
	version, log, ok := strings.Cut(rest, "-")
	version, within, part := strings.Cut(version, ".")
	c := Cursor{Ended: ended}
	var err [3]error
	c.Version, err[0] = number(version)
	c.Log, err[1] = number(log)
	if part {
		var n int64
		n, err[2] = number(within)
		c.Within = int(n)
		ok = ok && n > 0 && n <= 1<<31 && c.Version > 0 && !ended
	}
	if !ok || err != [3]error{} {
		return Cursor{}, &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("no place in a stream: %.60q", text),
			Hint: `give the seq of the last message that you have, such as "7-120", or nothing for the beginning`}
	}
	return c, nil
}

// number reads digits, and nothing else that numbers may be written with.
func number(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err == nil && len(text) > 1 && text[0] == '0' {
		err = strconv.ErrSyntax
	}
	return int64(n), err
}
