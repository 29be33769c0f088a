package engine

import (
	"bytes"
	"encoding/json"
	"math"
)

// scanner reads a batch as AppendBatch writes it, byte by byte. Whatever it does not expect ends it: DecodeBatch then reads the batch
// in the long way, which says what is wrong with it. What it reads it reads alike.
type scanner struct {
	body []byte
	at   int
	bad  bool
}

// decodeWritten reads a batch in the form in which AppendBatch writes it. false: it is in another form, or is damaged.
func (b *Batch) decodeWritten(version int64, body []byte) bool {
	s := scanner{body: body}
	*b = Batch{Version: version, Events: b.Events[:0], Queued: b.Queued[:0]}
	s.take(`{"t":`)
	b.At = s.number()
	s.take(`,"e":[`)
	if b.Events == nil {
		b.Events = make([]Event, 0, 1) // nearly all have one, which is large
	}
	if !s.next(']') {
		for more := true; more && !s.bad; more = s.next(',') {
			b.Events = append(b.Events, Event{})
			s.event(b.At, &b.Events[len(b.Events)-1])
		}
		s.take(`]`)
	}
	if s.next(',') {
		s.take(`"q":`)
		from := s.at
		s.skip()
		if s.bad {
			return false
		}
		var err error
		if b.Queued, err = s.runs(b.Queued, body[from:s.at]); err != nil {
			return false
		}
	}
	s.take(`}`)
	return !s.bad && s.at == len(body)
}

// runs adds the list of queued steps to others.
func (s *scanner) runs(to []int32, list []byte) ([]int32, error) {
	in := scanner{body: list}
	in.take(`[[`)
	first := in.number()
	in.take(`,`)
	count := in.number()
	if in.take(`]]`); in.bad || in.at != len(list) || count != 1 || first < math.MinInt32 || first > math.MaxInt32 {
		return AppendRuns(to, list)
	}
	return append(to, int32(first)), nil
}

// take passes a text.
func (s *scanner) take(text string) {
	if s.bad = s.bad || len(s.body)-s.at < len(text) || string(s.body[s.at:s.at+len(text)]) != text; !s.bad {
		s.at += len(text)
	}
}

// next passes a byte if it is there.
func (s *scanner) next(c byte) bool {
	if s.bad || s.at >= len(s.body) || s.body[s.at] != c {
		return false
	}
	s.at++
	return true
}

// number reads a whole number of at most 18 digits.
func (s *scanner) number() (n int64) {
	minus := s.next('-')
	from := s.at
	for s.at < len(s.body) && s.body[s.at] >= '0' && s.body[s.at] <= '9' && s.at-from < 19 {
		n = n*10 + int64(s.body[s.at]-'0')
		s.at++
	}
	if digits := s.at - from; digits == 0 || digits > 18 || s.body[from] == '0' && (digits > 1 || minus) {
		s.bad = true
	}
	if minus {
		return -n
	}
	return n
}

// word reads a text of plain ASCII.
func (s *scanner) word() string {
	s.take(`"`)
	from := s.at
	for s.at < len(s.body) && s.body[s.at] >= ' ' && s.body[s.at] < 0x7f && s.body[s.at] != '"' && s.body[s.at] != '\\' {
		s.at++
	}
	end := s.at
	if s.take(`"`); s.bad {
		return ""
	}
	return string(s.body[from:end])
}

// skip passes a value. It looks only at brackets and quotes.
func (s *scanner) skip() {
	for depth := 0; !s.bad; {
		if s.at >= len(s.body) {
			s.bad = true
			return
		}
		switch c := s.body[s.at]; c {
		case '[', '{':
			depth++
			s.at++
		case ']', '}':
			depth--
			s.at++
		case '"':
			for s.at++; s.at < len(s.body) && s.body[s.at] != '"'; s.at++ {
				if s.body[s.at] == '\\' {
					s.at++
				}
			}
			if s.at++; s.at > len(s.body) {
				s.bad = true
				return
			}
		default:
			s.at++
			if depth == 0 { // no value that is skipped is a bare word
				s.bad = true
			}
		}
		if depth <= 0 {
			s.bad = s.bad || depth < 0
			return
		}
	}
}

// event reads an event: the frequent ones here.
func (s *scanner) event(base int64, ev *Event) {
	from := s.at
	if from < len(s.body) && (s.body[from] == '[' && s.done(base, ev) || s.body[from] == '{' && s.running(base, ev)) {
		return
	}
	s.at, s.bad, *ev = from, false, Event{}
	if s.skip(); !s.bad && decodeEvent(json.RawMessage(s.body[from:s.at]), base, ev) != nil {
		s.bad = true
	}
}

// done reads an attempt that has completed, without its costs.
func (s *scanner) done(base int64, ev *Event) bool {
	s.take(`[2,`)
	idx := s.number()
	s.take(`,`)
	epoch := s.number()
	s.take(`,`)
	at := s.number()
	s.take(`,`)
	started := s.number()
	var out []byte
	if s.next(',') {
		from := s.at
		if from >= len(s.body) || s.body[from] != '{' {
			return false
		}
		if s.skip(); s.bad || !json.Valid(s.body[from:s.at]) {
			return false
		}
		out = bytes.Clone(s.body[from:s.at])
	}
	if s.take(`]`); s.bad || idx < math.MinInt32 || idx > math.MaxInt32 || epoch < 0 || epoch > math.MaxUint32 {
		return false
	}
	*ev = Event{Kind: Done, Idx: int32(idx), Epoch: uint32(epoch), At: base + at, Output: out}
	ev.Started = ev.At + started
	return true
}

// running reads an attempt that is recorded as running.
func (s *scanner) running(base int64, ev *Event) bool {
	s.take(`{"k":6,`)
	idx := int64(0)
	if s.next('"') {
		if s.next('i') {
			s.take(`":`)
			idx = s.number()
			s.take(`,"`)
		}
		s.take(`p":`)
	}
	epoch := s.number()
	s.take(`,"d":`)
	at := s.number()
	s.take(`,"w":`)
	worker := s.word()
	s.take(`,"s":`)
	started := s.number()
	if s.take(`}`); s.bad || idx < math.MinInt32 || idx > math.MaxInt32 || epoch < 0 || epoch > math.MaxUint32 {
		return false
	}
	*ev = Event{Kind: Running, Idx: int32(idx), Epoch: uint32(epoch), At: base + at, Worker: worker}
	ev.Started = ev.At + started
	return true
}
