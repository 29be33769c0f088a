package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxProblems limits the problems of one document.
const maxProblems = 1000

// Report collects problems, at most 1,000.
type Report struct {
	File    string // the name that problems carry
	Found   Problems
	dropped int
	grave   bool // an error is among the dropped
}

// Count is the number of problems, dropped ones included.
func (r *Report) Count() int { return len(r.Found) + r.dropped }

// Add adds one problem.
func (r *Report) Add(pos Pos, path, message, hint string, warning bool) {
	if r.Full() {
		r.dropped++
		r.grave = r.grave || !warning
		return
	}
	r.Found = append(r.Found, Problem{File: r.File, Line: pos.Line, Column: pos.Column, Path: path,
		Message: message, Hint: hint, Warning: warning})
}

// Full reports whether nothing more will be kept, so that hints are not worth their cost.
func (r *Report) Full() bool { return len(r.Found) >= maxProblems }

// Fail adds an error.
func (r *Report) Fail(pos Pos, path, message, hint string) { r.Add(pos, path, message, hint, false) }

// Warn adds a warning.
func (r *Report) Warn(pos Pos, path, message, hint string) { r.Add(pos, path, message, hint, true) }

// Merge adds another report of the same document, without repetitions.
func (r *Report) Merge(other *Report) {
	for _, p := range other.Found {
		if !slices.Contains(r.Found, p) {
			r.Add(Pos{p.Line, p.Column}, p.Path, p.Message, p.Hint, p.Warning)
		}
	}
	r.dropped += other.dropped
	r.grave = r.grave || other.grave
}

// Problems are the findings in document order; those without a place come last.
func (r *Report) Problems() Problems {
	slices.SortStableFunc(r.Found, func(a, b Problem) int {
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line)
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if r.dropped > 0 {
		r.Found = append(r.Found, Problem{File: r.File, Message: fmt.Sprintf("%d more problems are left out", r.dropped), Warning: !r.grave})
		r.dropped = 0
	}
	return r.Found
}

// MemberPath is the path of a key inside path: "a.b", or a["b c"] for keys that are no words.
func MemberPath(path, key string) string {
	if !isWord(key) {
		return path + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// ElementPath is the path of a list's element.
func ElementPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

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

// PlainPath turns a path of Step.At ("params/list/0") into one of Problem ("params.list[0]").
func PlainPath(base, slashed string) string {
	if slashed == "" {
		return base
	}
	for key := range strings.SplitSeq(slashed, "/") {
		key = unslash.Replace(key)
		if AllDigits(key) {
			base += "[" + key + "]"
		} else {
			base = MemberPath(base, key)
		}
	}
	return base
}

// Keys of Step.At escape as JSON pointers do (RFC 6901).
var (
	slash   = strings.NewReplacer("~", "~0", "/", "~1")
	unslash = strings.NewReplacer("~1", "/", "~0", "~")
)

func itoa(n int) string { return strconv.Itoa(n) }

// Below is the path of Step.At one level deeper.
func Below(path, key string) string {
	if strings.ContainsAny(key, "~/") {
		key = slash.Replace(key)
	}
	if path == "" {
		return key
	}
	return path + "/" + key
}
