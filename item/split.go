package item

// inner is the split content of a list or an object.
type inner struct {
	kids  []kid
	index map[string]int // of a large object, once somebody looked for a member
}

// kid is a member of an object, or an element of a list (without a key).
type kid struct {
	key string
	val Value
}

// cutter collects where kids stand.
type cutter struct {
	few  [24]cut
	more []cut
	n    int
}

// cut is where a kid stands in a text.
type cut struct {
	key        name  // of a member
	size       int32 // of the key's content
	start, end int32
}

func (c *cutter) add(k cut) {
	if c.n < len(c.few) {
		c.few[c.n] = k
	} else {
		c.more = append(c.more, k)
	}
	c.n++
}

func (c *cutter) at(i int) *cut {
	if i < len(c.few) {
		return &c.few[i]
	}
	return &c.more[i-len(c.few)]
}

// done makes the kids, with room for two more. All keys share one string.
func (c *cutter) done(text []byte) *inner {
	in := &inner{kids: make([]kid, c.n, c.n+2)}
	var few [256]byte
	keys := few[:0]
	for i := range in.kids {
		k := c.at(i)
		before := len(keys)
		keys = append(keys, k.key.bytes(text)...)
		k.size = int32(len(keys) - before)
		in.kids[i].val = Value{text: text[k.start:k.end:k.end], kind: KindOf(text[k.start])}
	}
	all := string(keys)
	for i := range in.kids {
		size := c.at(i).size
		in.kids[i].key, all = all[:size], all[size:]
	}
	return in
}

// split cuts a list or an object into its kids, one level deep. The text is known to be valid JSON, so
// that finding the ends of values is all there is to do.
func (v *Value) split() {
	if v.inner != nil || v.kind < List {
		return
	}
	var c cutter
	s := splitter{text: v.text, at: 1}
	closing := v.text[len(v.text)-1]
	for s.space(); s.text[s.at] != closing; s.space() {
		if s.text[s.at] == ',' {
			s.at++
			s.space()
		}
		var k cut
		if v.kind == Object {
			k.key.start = int32(s.at + 1)
			k.key.escaped = s.quoted()
			k.key.end = int32(s.at - 1)
			s.space()
			s.at++ // the colon
			s.space()
		}
		k.start = int32(s.at)
		s.value()
		k.end = int32(s.at)
		c.add(k)
	}
	v.inner = c.done(v.text)
}

// SkipNested returns where the list or object that begins at text[at] ends. The text is known to be valid JSON.
func SkipNested(text []byte, at int) int {
	s := splitter{text, at}
	s.nested()
	return s.at
}

// splitter goes over a text that is known to be valid.
type splitter struct {
	text []byte
	at   int
}

func (s *splitter) space() {
	for s.text[s.at] <= ' ' {
		s.at++
	}
}

// value goes behind the value that begins here.
func (s *splitter) value() {
	switch s.text[s.at] {
	case '"':
		s.quoted()
	case '{', '[':
		s.nested()
	default: // a number or a word, inside a list or an object
		for c := s.text[s.at]; c > ' ' && c != ',' && c != '}' && c != ']'; c = s.text[s.at] {
			s.at++
		}
	}
}

// quoted goes behind the text that begins here.
func (s *splitter) quoted() (escaped bool) {
	for s.at++; ; {
		s.at += plain(s.text[s.at:])
		switch s.text[s.at] {
		case '"':
			s.at++
			return escaped
		case '\\':
			escaped = true
			s.at += 2
		default:
			s.at++
		}
	}
}

// nested goes behind the list or object that begins here.
func (s *splitter) nested() {
	for depth := 0; ; {
		switch s.text[s.at] {
		case '"':
			s.quoted()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.at++
				return
			}
		}
		s.at++
	}
}
