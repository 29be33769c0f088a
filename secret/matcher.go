package secret

import (
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

const (
	gram     = 4    // bytes by which patterns are found; every pattern has as many
	minPart  = 8    // bytes of a value that was cut off
	cutFrom  = 4000 // texts shorter than this have not lost their beginning
	maxWidth = 80   // characters of a line of base64
	maxCoded = 600  // forms in base64 of which lines are known on their own
	filterK  = 13   // bits of the filter's index
	filterLn = 1 << filterK / 64
)

// span is where something was found, from … to.
type span struct{ from, to int }

// matcher finds all of its patterns in one pass: a filter of a kilobyte says where to look twice. It is not safe for
// concurrent use while it grows.
type matcher struct {
	filter [filterLn]uint64
	heads  map[uint32]*bucket // by the first bytes
	values []string           // as they are
	coded  []string           // some of them in base64
	count  int                // of patterns
	size   int                // bytes of patterns
}

// bucket are the patterns with the same first bytes, sorted. up is, for each, its longest proper prefix among them, −1
// for none.
type bucket struct {
	patterns []pattern
	up       []int32
}

func newMatcher() *matcher { return &matcher{heads: map[uint32]*bucket{}} }

func (m *matcher) empty() bool { return m == nil || m.count == 0 }

func head(s string) uint32 {
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

func slot(h uint32) uint32 { return h * 0x9E3779B1 >> (32 - filterK) }

// add takes a value up in all its forms. mixed says that it is partly something else.
func (m *matcher) add(value string, mixed bool) {
	if !mixed {
		m.values = append(m.values, value)
	}
	for _, p := range formsOf(value) {
		p.mixed = mixed
		m.insert(p)
		if p.coded && !mixed && len(p.text) > minPart && len(m.coded) < maxCoded {
			m.coded = append(m.coded, p.text)
		}
	}
}

func (m *matcher) insert(p pattern) {
	h := head(p.text)
	i := slot(h)
	m.filter[i>>6] |= 1 << (i & 63)
	b := m.heads[h]
	if b == nil {
		b = &bucket{}
		m.heads[h] = b
	}
	at, found := slices.BinarySearchFunc(b.patterns, p.text, func(q pattern, text string) int { return strings.Compare(q.text, text) })
	if found {
		b.patterns[at].before = b.patterns[at].before || p.before
		b.patterns[at].after = b.patterns[at].after || p.after
		b.patterns[at].mixed = b.patterns[at].mixed && p.mixed
		return
	}
	b.patterns = slices.Insert(b.patterns, at, p)
	m.count++
	m.size += len(p.text)
	b.link()
}

func (b *bucket) link() {
	b.up = make([]int32, len(b.patterns))
	for i := range b.patterns {
		up := int32(i) - 1
		for up >= 0 && !strings.HasPrefix(b.patterns[i].text, b.patterns[up].text) {
			up = b.up[up]
		}
		b.up[i] = up
	}
}

// find appends where the text holds any of the patterns, in order of where they begin; they may overlap.
func (m *matcher) find(text string, out []span) []span {
	if m.empty() {
		return out
	}
	if len(text) >= cutFrom {
		out = m.lostHead(text, out)
	}
	if len(text) < gram {
		return out
	}
	if len(text) >= minPart && len(text) <= maxWidth {
		out = m.codedLine(text, out)
	}
	h := head(text) << 8
	for i := 0; i+gram <= len(text); i++ {
		h = h>>8 | uint32(text[i+gram-1])<<24
		if s := slot(h); m.filter[s>>6]&(1<<(s&63)) == 0 {
			continue
		}
		if b := m.heads[h]; b != nil {
			if to, from := b.match(text, i); to > 0 {
				out = append(out, span{from, to})
			}
		}
	}
	return out
}

// match is the end of the longest pattern that begins at i, 0 for none, or for one that is truncated there.
func (b *bucket) match(text string, i int) (to, from int) {
	rest := text[i:]
	at := sort.Search(len(b.patterns), func(k int) bool { return b.patterns[k].text > rest })
	if k := b.longest(rest, at-1); k >= 0 {
		p := &b.patterns[k]
		return p.reach(text, i)
	}
	best := 0
	for _, k := range []int{at - 1, at} {
		if k >= 0 && k < len(b.patterns) && !b.patterns[k].mixed {
			best = max(best, common(b.patterns[k].text, rest))
		}
	}
	if best >= minPart && cutOff(text[i+best:]) {
		return i + best, i
	}
	return 0, 0
}

// longest is the longest pattern up to k that rest begins with, −1 for none.
func (b *bucket) longest(rest string, k int) int {
	if k < 0 {
		return -1
	}
	n := common(b.patterns[k].text, rest)
	for k >= 0 && len(b.patterns[k].text) > n {
		k = int(b.up[k])
	}
	return k
}

func common(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// reach is where a pattern's bits end and begin in the text.
func (p *pattern) reach(text string, i int) (to, from int) {
	from, to = i, i+len(p.text)
	if p.before && from > 0 && base64Char(text[from-1]) {
		from--
	}
	if p.after && to < len(text) && base64Char(text[to]) {
		to++
	}
	return to, from
}

func base64Char(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("+/-_", c) >= 0
}

// cutOff reports whether a text was cut here: it ends, or goes on with dots.
func cutOff(rest string) bool {
	rest = strings.TrimLeft(rest, " \ufffd")
	return rest == "" || strings.HasPrefix(rest, "…") || strings.HasPrefix(rest, "...")
}

// lostHead finds the end of a value at the beginning of a text whose own beginning was cut off.
func (m *matcher) lostHead(text string, out []span) []span {
	best, probe := 0, text[:minPart]
	for _, v := range m.values {
		for from := 1; from+minPart <= len(v); from++ {
			at := strings.Index(v[from:], probe)
			if at < 0 {
				break
			}
			if from += at; strings.HasPrefix(text, v[from:]) {
				best = max(best, len(v)-from)
				break
			}
		}
	}
	if best > 0 {
		out = append(out, span{0, best})
	}
	return out
}

// codedLine finds a line of base64 from within a value of several lines, alone, as in logs. match finds a line in which
// a value begins.
func (m *matcher) codedLine(text string, out []span) []span {
	body := strings.TrimRight(text, "=\r\n")
	for i := range len(body) {
		if !base64Char(body[i]) {
			return out
		}
	}
	if len(body) < minPart {
		return out
	}
	best, probe := 0, body[:minPart]
	for _, p := range m.coded {
		if len(body) >= 2*minPart && strings.Contains(p, body) {
			return append(out, span{0, len(text)})
		}
		if at := strings.Index(p, probe); at > 0 && strings.HasPrefix(body, p[at:]) {
			best = max(best, len(p)-at)
		}
	}
	if best > 0 {
		out = append(out, span{0, min(best+1, len(text))}) // the next character has bits of both
	}
	return out
}

// merge joins spans that overlap or touch, and extends them to whole characters.
func merge(text string, spans []span) []span {
	if len(spans) < 2 {
		return whole(text, spans)
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
	out := spans[:1]
	for _, s := range spans[1:] {
		if last := &out[len(out)-1]; s.from <= last.to {
			last.to = max(last.to, s.to)
			continue
		}
		out = append(out, s)
	}
	return whole(text, out)
}

// whole lets spans begin and end between characters: a part of a character is no text.
func whole(text string, spans []span) []span {
	for i := range spans {
		s := &spans[i]
		for s.from > 0 && s.from < len(text) && !utf8.RuneStart(text[s.from]) && (i == 0 || spans[i-1].to < s.from) {
			s.from--
		}
		for n := 0; n < utf8.UTFMax && s.to < len(text) && !utf8.RuneStart(text[s.to]) && (i+1 == len(spans) || spans[i+1].from > s.to); n++ {
			s.to++
		}
	}
	return spans
}
