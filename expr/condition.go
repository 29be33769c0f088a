package expr

import (
	"strconv"
	"strings"
)

// EvalBool evaluates the template as a condition. An empty template is true. A name or member that does not exist is
// an error; an absent value (Absent) is false, and so is every comparison and calculation with it (in revision 1,
// also with an undefined one). A string is read as people write conditions: "", "false", "no", "off", "none", "null",
// "[]", "{}", "()" and any zero are false, in any case and with white space around them; every other string is true.
// Other values have Python's truth.
func (t *Template) EvalBool(s Scope, l Limits) (bool, error) {
	holds, _, err := t.Decide(s, l)
	return holds, err
}

// Decide is EvalBool that also returns, for a false condition, the absent value that it reads: an *Error with
// CodeUndefined, nil when none was absent.
func (t *Template) Decide(s Scope, l Limits) (holds bool, absent, err error) {
	if strings.TrimSpace(t.src) == "" {
		return true, nil, nil
	}
	if t.static {
		return textTruth(t.src), nil, nil
	}
	st := t.state(s, l)
	holds, err = t.decide(st)
	if e, ok := err.(*Error); ok && e.Absent {
		st.miss(e.absent)
		holds, err = false, nil
	}
	if err == nil && !holds && st.absent != nil && !st.old() {
		absent = st.absent.err(st)
	}
	return holds, absent, err
}

func (t *Template) decide(st *state) (holds bool, err error) {
	defer recovered(st, &err)
	var v any
	if t.single != nil {
		v = st.soft(t.single)
	} else {
		v = t.text(st)
	}
	if text, ok := v.(string); ok {
		return textTruth(text), nil
	}
	return st.truth(v), nil
}

func textTruth(s string) bool {
	s = strings.TrimSpace(s)
	if len(s) > 64 {
		return true
	}
	switch strings.ToLower(s) {
	case "", "false", "no", "off", "none", "null", "[]", "{}", "()":
		return false
	}
	f, err := strconv.ParseFloat(s, 64)
	return err != nil || f != 0
}

// literalWord recognises the bare words that are a condition by themselves.
func literalWord(src string) string {
	word := strings.ToLower(strings.TrimSpace(src))
	switch word {
	case "true", "false", "yes", "no", "none", "null":
		return word
	}
	return ""
}

func literalNode(word string) node {
	n := &constNode{base: base{height: 1}}
	switch word {
	case "true", "false":
		n.value = word == "true"
	case "yes", "no":
		n.value = word
	}
	return n
}
