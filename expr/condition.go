package expr

import (
	"strconv"
	"strings"
)

// EvalBool evaluates the template as a condition. An empty template is true. Undefined is
// false, also inside a comparison or a calculation. A string is read as people write
// conditions: "", "false", "no", "off", "none", "null", "[]", "{}", "()" and any zero are false, in
// any case and with white space around them; every other string is true. Other values
// have Python's truth.
func (t *Template) EvalBool(s Scope, l Limits) (bool, error) {
	if strings.TrimSpace(t.src) == "" {
		return true, nil
	}
	if t.static {
		return textTruth(t.src), nil
	}
	var v any
	var err error
	if t.single != nil {
		v, err = t.state(s, l).eval(t.single)
	} else {
		v, err = t.Eval(s, l)
	}
	if isCode(err, CodeUndefined) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if text, ok := v.(string); ok {
		return textTruth(text), nil
	}
	return truth(v), nil
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
