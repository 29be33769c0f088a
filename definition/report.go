package definition

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxProblems bounds what one document can make us say.
const maxProblems = 1000

// report collects problems.
type report struct {
	file    string
	found   Problems
	dropped int
	grave   bool // an error is among the dropped
}

func (r *report) add(pos Pos, path, message, hint string, warning bool) {
	if r.full() {
		r.dropped++
		r.grave = r.grave || !warning
		return
	}
	r.found = append(r.found, Problem{File: r.file, Line: pos.Line, Column: pos.Column, Path: path,
		Message: message, Hint: hint, Warning: warning})
}

// full reports whether nothing more will be kept, so that hints are not worth their cost.
func (r *report) full() bool { return len(r.found) >= maxProblems }

func (r *report) fail(pos Pos, path, message, hint string) { r.add(pos, path, message, hint, false) }
func (r *report) warn(pos Pos, path, message, hint string) { r.add(pos, path, message, hint, true) }

// merge takes over what another report of the same document has found, without repeating itself.
func (r *report) merge(other *report) {
	for _, p := range other.found {
		if !slices.Contains(r.found, p) {
			r.add(Pos{p.Line, p.Column}, p.Path, p.Message, p.Hint, p.Warning)
		}
	}
	r.dropped += other.dropped
	r.grave = r.grave || other.grave
}

// problems are the findings in document order; those without a place come last.
func (r *report) problems() Problems {
	slices.SortStableFunc(r.found, func(a, b Problem) int {
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line)
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if r.dropped > 0 {
		r.found = append(r.found, Problem{File: r.file, Message: fmt.Sprintf("%d more problems are left out", r.dropped), Warning: !r.grave})
		r.dropped = 0
	}
	return r.found
}

// member is the path of a key inside path: "a.b", or a["b c"] for keys that are no words.
func member(path, key string) string {
	if !isWord(key) {
		return path + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// element is the path of a list's element.
func element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// isWord: a letter or underscore, then letters, digits, underscores and dashes.
func isWord(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || !(r == '-' || r >= '0' && r <= '9')) {
			return false
		}
	}
	return s != ""
}

// plainPath turns a path of Step.At ("params/list/0") into one of Problem ("params.list[0]").
func plainPath(base, slashed string) string {
	if slashed == "" {
		return base
	}
	for key := range strings.SplitSeq(slashed, "/") {
		key = unslash.Replace(key)
		if allDigits(key) {
			base += "[" + key + "]"
		} else {
			base = member(base, key)
		}
	}
	return base
}

// Keys of Step.At escape as JSON pointers do (RFC 6901).
var (
	slash   = strings.NewReplacer("~", "~0", "/", "~1")
	unslash = strings.NewReplacer("~1", "/", "~0", "~")
)

// below is the path of Step.At one level deeper.
func below(path, key string) string {
	if strings.ContainsAny(key, "~/") {
		key = slash.Replace(key)
	}
	if path == "" {
		return key
	}
	return path + "/" + key
}
