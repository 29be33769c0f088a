package secret

import (
	"sort"
	"strings"
)

// The lengths from which letters and digits are taken for a line of base64, and for hexadecimal.
const (
	minRun = 16
	minHex = 8
)

// reading is a text as it reads when an encoding is undone that has too many forms to list them.
type reading struct {
	text string
	runs []runAt
}

// runAt maps a position of a reading to a position of the text, where a run begins.
type runAt struct{ at, from int }

// origin is the place in the text of one in the reading.
func (v *reading) origin(at int) int {
	i := sort.Search(len(v.runs), func(i int) bool { return v.runs[i].at > at }) - 1
	if i < 0 {
		return at
	}
	return v.runs[i].from + at - v.runs[i].at
}

// readings are the decoded forms of a text besides itself: mostly none.
func readings(text string) (out []reading) {
	for _, read := range []func(string) (reading, bool){unpercented, lowered, unwrapped} {
		if v, other := read(text); other {
			out = append(out, v)
		}
	}
	return out
}

// unpercented undoes percent-encoding of any characters.
func unpercented(text string) (v reading, other bool) {
	at := strings.IndexByte(text, '%')
	if at < 0 {
		return v, false
	}
	var b strings.Builder
	kept := 0
	for ; at >= 0 && at+2 < len(text); at = next(text, at+1, '%') {
		hi, lo := digit(text[at+1]), digit(text[at+2])
		if hi < 0 || lo < 0 {
			continue
		}
		b.WriteString(text[kept:at])
		v.runs = append(v.runs, runAt{b.Len(), at}, runAt{b.Len() + 1, at + 3})
		b.WriteByte(byte(hi<<4 | lo))
		kept = at + 3
		at += 2
	}
	if kept == 0 {
		return v, false
	}
	b.WriteString(text[kept:])
	v.text = b.String()
	return v, true
}

func next(text string, from int, c byte) int {
	if at := strings.IndexByte(text[from:], c); at >= 0 {
		return from + at
	}
	return -1
}

func digit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// lowered writes hexadecimal of small and capital letters in small ones.
func lowered(text string) (v reading, other bool) {
	var out []byte
	for at := minHex - 1; at < len(text); at += minRun / 2 { // no run is missed that is long enough
		if digit(text[at]) < 0 {
			continue
		}
		from, to, cases := at, at, 0
		for from > 0 && digit(text[from-1]) >= 0 {
			from--
		}
		for to < len(text) && digit(text[to]) >= 0 {
			to++
		}
		for i := from; i < to; i++ {
			switch c := text[i]; {
			case c >= 'a':
				cases |= 1
			case c >= 'A':
				cases |= 2
			}
		}
		if to-from >= minHex && cases == 3 {
			if out == nil {
				out = []byte(text)
			}
			copy(out[from:to], strings.ToLower(text[from:to]))
		}
		at = max(at, to-minHex)
	}
	return reading{text: string(out)}, out != nil
}

// unwrapped joins text broken into lines: base64, mostly.
func unwrapped(text string) (v reading, other bool) {
	var b strings.Builder
	kept := 0
	for at := next(text, 0, '\n'); at >= 0; at = next(text, at+1, '\n') {
		from := at
		if from > 0 && text[from-1] == '\r' {
			from--
		}
		run := from
		for run > kept && from-run < minRun && base64Char(text[run-1]) {
			run--
		}
		to := at + 1
		for to < len(text) && (text[to] == ' ' || text[to] == '\t') {
			to++
		}
		if from-run < minRun || to == len(text) || !base64Char(text[to]) {
			continue
		}
		b.WriteString(text[kept:from])
		v.runs = append(v.runs, runAt{b.Len(), to})
		kept = to
		at = to - 1
	}
	if kept == 0 {
		return v, false
	}
	b.WriteString(text[kept:])
	v.text = b.String()
	return v, true
}
