package engine

import (
	"strconv"
	"strings"
)

// search finds a step that is in memory by its full key, from a scope inwards.
func search(s *scope, key string) (place, bool) {
	if i, ok := s.index(key); ok {
		return place{s, i}, true
	}
	if h := s.handlers; h != nil {
		if rest, ok := strings.CutPrefix(key, h.label); ok {
			if p, ok := search(h, rest); ok {
				return p, true
			}
		}
	}
	for at, c := range key {
		if c != '.' && c != '[' {
			continue
		}
		if i, ok := s.index(key[:at]); ok {
			if p, ok := (place{s, i}).inside(key[at:]); ok {
				return p, true
			}
		}
	}
	return place{}, false
}

// index finds a step of the scope itself.
func (s *scope) index(key string) (int32, bool) {
	if i, ok := s.keys[key]; ok {
		return i, true
	}
	return s.graph.Index(key)
}

// inside finds a step inside a group, a sub-pipeline or a for_each by the rest of its key: ".id", "[3]" or
// "[3].id".
func (p place) inside(rest string) (place, bool) {
	in := p.node().info
	if in == nil {
		return place{}, false
	}
	if id, ok := strings.CutPrefix(rest, "."); ok {
		if in.body == nil {
			return place{}, false
		}
		return search(in.body, id)
	}
	i, rest, ok := iteration(rest)
	if !ok || in.each == nil {
		return place{}, false
	}
	s := in.each.scopes[i]
	switch {
	case s == nil:
		return place{}, false
	case rest == "":
		return place{s, 0}, true
	}
	if i, ok := s.keys[strings.TrimPrefix(rest, ".")]; ok { // a step that it spawned
		return place{s, i}, true
	}
	return place{s, 0}.inside(rest)
}

// iteration reads the "[3]" that a text begins with.
func iteration(text string) (i int32, rest string, ok bool) {
	text, ok = strings.CutPrefix(text, "[")
	number, rest, closed := strings.Cut(text, "]")
	n, err := strconv.ParseInt(number, 10, 32)
	return int32(n), rest, ok && closed && err == nil
}
