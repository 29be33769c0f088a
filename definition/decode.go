package definition

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell/spec"
)

// decoder reads nodes into the typed definition. Its methods take the path of what they read, for
// problems, and give the zero value when it is wrong; they never stop at the first problem.
type decoder struct {
	*report
	lenient bool
}

// fields calls read for every entry that the set knows and reports the others.
func (d *decoder) fields(n *node, path string, set *keySet, read func(e entry)) {
	if n.kind != mapKind {
		d.fail(n.pos, path, fmt.Sprintf("%s must be a mapping of keys to values, not %s", set.what, n.describe()), d.notMapping(n, set))
		return
	}
	for _, e := range n.entries {
		if slices.Contains(set.known, e.key) {
			read(e)
			continue
		}
		d.unknown(e, path, set)
	}
}

func (d *decoder) notMapping(n *node, set *keySet) string {
	if set == &rootKeys && n.kind == listKind {
		return "a pipeline begins with name: and steps:"
	}
	return ""
}

func (d *decoder) unknown(e entry, path string, set *keySet) {
	path = member(path, e.key)
	if why, idle := set.idle[e.key]; idle {
		message := fmt.Sprintf("%q has no effect", e.key)
		hint := why
		if why == decoration {
			hint = ""
		}
		d.warn(e.pos, path, message, hint)
		return
	}
	hint := set.hints[e.key]
	if hint == "" && !d.full() {
		if close := spec.Closest(e.key, set.known); close != "" {
			hint = "did you mean " + close + "?"
		} else {
			hint = set.what + " may have " + strings.Join(set.known, ", ")
		}
	}
	d.add(e.pos, path, fmt.Sprintf("unknown key %q in %s", e.key, set.what), hint, d.lenient)
}

// word reads a text that is needed as such: numbers and booleans are taken as they are written.
func (d *decoder) word(e entry, path string) string {
	n := e.value
	path = member(path, e.key)
	if n.kind != scalarKind || n.isNull() {
		d.fail(e.at(), path, fmt.Sprintf("%s must be a text, not %s", e.key, n.describe()), "")
		return ""
	}
	d.readAsText(n, path, e.key)
	return n.text
}

// readAsText warns about plain texts that look like something else. A version such as 1.0 is so
// usual that it is not worth a word.
func (d *decoder) readAsText(n *node, path, key string) {
	if n.literal || key == "version" {
		return
	}
	if v, _ := n.scalar(); v != any(n.text) {
		d.warn(n.pos, path, fmt.Sprintf("%s is read as the text %q", key, n.text), "quote it")
	} else if what := surprising(n.text); what != "" {
		d.warn(n.pos, path, fmt.Sprintf("%s is read as the text %q, which is %s", key, n.text, what), "quote it")
	}
}

// text is word, limited in length (in characters), and "" for null.
func (d *decoder) text(e entry, path string, most int) string {
	if e.value.isNull() {
		return ""
	}
	s := d.word(e, path)
	if n := len([]rune(s)); n > most {
		d.fail(e.at(), member(path, e.key), fmt.Sprintf("%s has %d characters, at most %d are allowed", e.key, n, most), "")
		return ""
	}
	return s
}

// choice reads one of some words. Other cases of the letters are accepted with a warning.
func (d *decoder) choice(e entry, path string, allowed ...string) string {
	if e.value.isNull() {
		return ""
	}
	s := d.word(e, path)
	if s == "" || slices.Contains(allowed, s) {
		return s
	}
	path = member(path, e.key)
	if lower := strings.ToLower(s); slices.Contains(allowed, lower) {
		d.warn(e.at(), path, fmt.Sprintf("%s: %s is read as %s", e.key, s, lower), "write it in small letters")
		return lower
	}
	hint := ""
	if close := spec.Closest(s, allowed); close != "" {
		hint = "did you mean " + close + "?"
	} else if strings.Contains(s, "{{") {
		hint = "a template is not possible here"
	}
	d.fail(e.at(), path, fmt.Sprintf("%s must be one of %s, not %s", e.key, strings.Join(allowed, ", "), quoteShort(s)), hint)
	return ""
}

// number reads a number in [low, high]; a low below zero is written as "more than 0": see bounds.
func (d *decoder) number(e entry, path string, b bounds) float64 {
	n := e.value
	if n.isNull() {
		return 0
	}
	if n.kind == scalarKind {
		switch v, _ := n.numeric(); v := v.(type) {
		case int64:
			return d.within(e, path, float64(v), b)
		case float64:
			return d.within(e, path, v, b)
		}
	}
	d.fail(e.at(), member(path, e.key), fmt.Sprintf("%s must be a number, not %s", e.key, n.describe()), numberHint(e))
	return 0
}

// integer reads a whole number in the bounds.
func (d *decoder) integer(e entry, path string, b bounds) int {
	n := e.value
	if n.isNull() {
		return 0
	}
	if n.kind == scalarKind {
		switch v, _ := n.numeric(); v := v.(type) {
		case int64:
			return int(d.within(e, path, float64(v), b))
		case float64:
			if v == math.Trunc(v) {
				return int(d.within(e, path, v, b))
			}
		}
	}
	d.fail(e.at(), member(path, e.key), fmt.Sprintf("%s must be a whole number, not %s", e.key, n.describe()), numberHint(e))
	return 0
}

// numeric is scalar, but takes a variable's value as a number even where the placeholder was quoted.
func (n *node) numeric() (any, string) {
	if n.filled {
		return plainScalar(n.text)
	}
	return n.scalar()
}

// bounds of a number. Above excludes low itself.
type bounds struct {
	low, high float64
	above     bool
	unit      string
}

func (d *decoder) within(e entry, path string, v float64, b bounds) float64 {
	if v < b.low || v > b.high || b.above && v == b.low {
		from := "at least " + formatNumber(b.low)
		if b.above {
			from = "more than " + formatNumber(b.low)
		}
		hint := ""
		if v == 0 && strings.HasSuffix(e.key, "timeout_seconds") {
			hint = "leave it out for the default"
		}
		d.fail(e.at(), member(path, e.key), fmt.Sprintf("%s must be %s and at most %s%s, not %s", e.key, from, formatNumber(b.high), b.unit, formatNumber(v)), hint)
		return 0
	}
	return v
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// numberHint says what to do about a value that should have been a number.
func numberHint(e entry) string {
	n := e.value
	if n.kind != scalarKind {
		return ""
	}
	if strings.Contains(n.text, "{{") {
		return "a template is not possible here: the value is fixed before the run starts; write a number or ${NAME:-3}"
	}
	if length, err := time.ParseDuration(n.text); err == nil && strings.HasSuffix(e.key, "_seconds") {
		return "write " + formatNumber(length.Seconds())
	}
	if v, _ := plainScalar(n.text); n.literal && v != any(n.text) && v != nil {
		return "write it without quotes"
	}
	return ""
}

// boolean reads true or false.
func (d *decoder) boolean(e entry, path string) bool {
	n := e.value
	if n.isNull() {
		return false
	}
	if n.kind == scalarKind {
		if v, _ := n.numeric(); v == true || v == false {
			return v == true
		}
	}
	d.fail(e.at(), member(path, e.key), fmt.Sprintf("%s must be true or false, not %s", e.key, n.describe()), booleanHint(n))
	return false
}

func booleanHint(n *node) string {
	switch strings.ToLower(n.text) {
	case "yes", "on", "y", "1", "true":
		return "write true"
	case "no", "off", "n", "0", "false":
		return "write false"
	}
	if strings.Contains(n.text, "{{") {
		return "a template is not possible here: the value is fixed before the run starts"
	}
	return ""
}

// words reads a list of texts; a single text counts as a list of one.
func (d *decoder) words(e entry, path string, at map[string]Pos) []string {
	n := e.value
	if n.isNull() || n.kind == listKind && len(n.items) == 0 {
		return nil
	}
	if n.kind == scalarKind {
		n = &node{kind: listKind, pos: n.pos, items: []*node{n}}
	}
	if n.kind != listKind {
		d.fail(e.at(), member(path, e.key), fmt.Sprintf("%s must be a list, not %s", e.key, n.describe()), "")
		return nil
	}
	path = member(path, e.key)
	list := make([]string, 0, len(n.items))
	for i, item := range n.items {
		if item.kind != scalarKind || item.isNull() {
			d.fail(item.pos, element(path, i), fmt.Sprintf("%s must be a list of texts, but element %d is %s", e.key, i+1, item.describe()), "")
			continue
		}
		if at != nil {
			at[below(e.key, itoa(len(list)))] = item.pos
		}
		d.readAsText(item, element(path, i), e.key)
		list = append(list, item.text)
	}
	return list
}
