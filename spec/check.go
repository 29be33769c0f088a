package spec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxMismatches limits the mismatches of one set of values.
const maxMismatches = 100

// checking is one run over values.
type checking struct {
	templates bool // {{ fits anything
	keys      []string
	doc       string // of the field at hand
	found     []Mismatch
}

// usualDepth is the depth of keys for which no memory is needed.
const usualDepth = 8

// within checks a value below a key; the keys that lead to the value at hand are kept aside so that
// values that fit cost nothing.
func (c *checking) within(key string, m *member, v any, secret bool) {
	outer := c.doc
	c.keys, c.doc = append(c.keys, key), cmp.Or(m.Doc, outer)
	c.value(m, v, secret || m.Secret)
	c.keys, c.doc = c.keys[:len(c.keys)-1], outer
}

func (c *checking) add(message, hint string) {
	c.addMember("", message, hint)
}

// addMember is add for a member of the place that has no value to lead to.
func (c *checking) addMember(name, message, hint string) {
	if len(c.found) < maxMismatches {
		keys := slices.Clone(c.keys)
		if name != "" {
			keys = append(keys, name)
		}
		c.found = append(c.found, Mismatch{Path: at(keys), Keys: keys, Message: at(keys) + message, Hint: hint, Doc: c.doc})
	}
}

func (c *checking) object(o *object, values map[string]any, secret bool) {
	for i := range o.members {
		m := &o.members[i]
		v, given := values[m.Name]
		if v == nil && (m.Type != Any || !given) {
			if m.Required && m.Default == nil {
				c.addMember(m.Name, " is missing", describe(m))
			}
			continue
		}
		c.within(m.Name, m, v, secret)
	}
	if o.open || len(values) == 0 {
		return
	}
	known := 0
	for _, name := range o.names {
		if _, given := values[name]; given {
			known++
		}
	}
	if known < len(values) {
		c.unknown(o, values)
	}
}

// unknown reports the names that are not fields, sorted so that the messages are always the same.
func (c *checking) unknown(o *object, values map[string]any) {
	var names []string
	for name := range values {
		if _, ok := o.index[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		hint := DidYouMean(name, o.names)
		if hint == "" && len(o.names) > 0 {
			hint = "known are " + strings.Join(o.names, ", ")
		} else if hint == "" {
			hint = "there are no parameters"
		}
		c.addMember(name, " is unknown", hint)
	}
}

// describe is a field's documentation as a hint.
func describe(m *member) string {
	if m.Doc == "" {
		return "give it a value of type " + string(m.Type)
	}
	return string(m.Type) + ": " + m.Doc
}

// value checks one value that is given. It is long because it is a table of types.
func (c *checking) value(m *member, v any, secret bool) {
	if text, ok := v.(string); ok && (c.templates || m.Raw) && Templated(text) {
		return
	}
	switch m.Type {
	case Any:
	case String, Ref:
		if text, ok := v.(string); ok {
			c.text(m, text, secret)
			return
		}
		c.wrong(m, v, secret)
	case Integer:
		if n, ok := number(v); ok && n == math.Trunc(n) {
			c.bounds(m, n, "", secret)
			return
		}
		c.wrong(m, v, secret)
	case Number:
		if n, ok := number(v); ok {
			c.bounds(m, n, "", secret)
			return
		}
		c.wrong(m, v, secret)
	case Boolean:
		if _, ok := v.(bool); !ok {
			c.wrong(m, v, secret)
		}
	case Duration:
		length, err := ParseDuration(v)
		if err != nil {
			c.wrong(m, v, secret)
			return
		}
		c.bounds(m, length.Seconds(), " seconds", secret)
	case Time:
		text, ok := v.(string)
		if ok {
			_, err := time.Parse(time.RFC3339Nano, text)
			ok = err == nil
		}
		if !ok {
			c.wrong(m, v, secret)
		}
	case Array:
		c.array(m, v, secret)
	case Object:
		values, ok := v.(map[string]any)
		if !ok {
			c.wrong(m, v, secret)
		} else if m.fields != nil {
			c.object(m.fields, values, secret)
		}
	}
}

func (c *checking) array(m *member, v any, secret bool) {
	switch list := v.(type) {
	case []any:
		c.bounds(m, float64(len(list)), " elements", secret)
		if m.items == nil {
			return
		}
		for i, item := range list {
			c.within(strconv.Itoa(i), m.items, item, secret)
		}
	case []string:
		c.bounds(m, float64(len(list)), " elements", secret)
		for i, item := range list {
			if m.items != nil {
				c.within(strconv.Itoa(i), m.items, item, secret)
			}
		}
	default:
		c.wrong(m, v, secret)
	}
}

func (c *checking) text(m *member, text string, secret bool) {
	if m.Type == Ref && text == "" {
		c.add(" is empty", "it names something that must exist")
		return
	}
	if m.Enum != nil && !slices.Contains(m.Enum, text) {
		c.add(" must be one of "+strings.Join(m.Enum, ", ")+not(text, secret), DidYouMean(text, m.Enum))
		return
	}
	if m.Min != nil || m.Max != nil {
		c.bounds(m, float64(utf8.RuneCountInString(text)), " characters", secret)
	}
	if m.pattern != nil && !m.pattern.MatchString(text) {
		c.add(" does not have the form "+m.Pattern+not(text, secret), m.Doc)
	}
}

// not shows the value that is wrong, unless it is a secret.
func not(v any, secret bool) string {
	if secret {
		return ""
	}
	return ", not " + show(v)
}

func (c *checking) bounds(m *member, n float64, unit string, secret bool) {
	verb := " must be "
	if unit != "" && unit != " seconds" {
		verb = " must have "
	}
	switch {
	case m.Min != nil && m.Above && n == *m.Min:
		c.add(verb+"more than "+plain(*m.Min)+unit+not(n, secret), "")
	case m.Min != nil && n < *m.Min:
		c.add(verb+"at least "+plain(*m.Min)+unit+not(n, secret), "")
	case m.Max != nil && n > *m.Max:
		c.add(verb+"at most "+plain(*m.Max)+unit+not(n, secret), "")
	}
}

var typeNames = map[Type]string{String: "a text", Ref: "a text", Integer: "a whole number", Number: "a number", Boolean: "true or false",
	Array: "a list", Object: "an object", Duration: `a number of seconds or a text such as "1h30m"`, Time: "a time such as 2026-01-31T12:00:00Z"}

func (c *checking) wrong(m *member, v any, secret bool) {
	c.add(" must be "+typeNames[m.Type]+not(v, secret), advice(m.Type, v))
}

// advice for values of the wrong type that are nearly right.
func advice(t Type, v any) string {
	text, isText := v.(string)
	switch {
	case isText && t == Boolean:
		switch strings.ToLower(text) {
		case "yes", "on", "true", "1":
			return "write true, without quotes"
		case "no", "off", "false", "0":
			return "write false, without quotes"
		}
	case isText && (t == Integer || t == Number):
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			return "write it without quotes"
		}
	case isText && t == Array:
		return "write a list: [" + show(text) + "]"
	case !isText && (t == String || t == Ref):
		switch v.(type) {
		case map[string]any, []any:
		default:
			return "quote it"
		}
	}
	return ""
}

// show is a value as a short piece of JSON.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case float64:
		return plain(v)
	case map[string]any:
		return "an object"
	case []any, []string:
		return "a list"
	case string:
		return Quote(v)
	}
	return fmt.Sprint(v)
}

func plain(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// number is a finite number of any Go type that decoders and Go programs use.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case int32:
		return float64(v), true
	case uint64:
		return float64(v), true
	case float32:
		return number(float64(v))
	case float64:
		return v, !math.IsNaN(v) && !math.IsInf(v, 0)
	case json.Number:
		n, err := v.Float64()
		return n, err == nil
	}
	return 0, false
}

// ParseDuration reads a Duration: a number of seconds, or a text such as "90s" or "1h30m" (also
// with d for days: "2d"). Negative ones and those beyond 100 years are errors.
func ParseDuration(v any) (time.Duration, error) {
	const most = 100 * 365 * 24 * 3600
	seconds, ok := number(v)
	if text, isText := v.(string); isText {
		days, rest := 0.0, text
		if before, after, found := strings.Cut(text, "d"); found {
			n, err := strconv.ParseUint(before, 10, 32)
			if err != nil {
				return 0, fmt.Errorf("%s is not a duration", show(text))
			}
			days, rest = float64(n), after
		}
		if rest != "" {
			length, err := time.ParseDuration(rest)
			if err != nil {
				return 0, fmt.Errorf("%s is not a duration", show(text))
			}
			seconds = length.Seconds()
		}
		seconds, ok = seconds+days*24*3600, text != ""
	}
	if !ok || seconds < 0 || seconds > most {
		return 0, fmt.Errorf("%s is not a duration", show(v))
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// Templated reports whether a text contains a tag: {{, {% or {#.
func Templated(text string) bool {
	for {
		i := strings.IndexByte(text, '{')
		if i < 0 || i+1 == len(text) {
			return false
		}
		if c := text[i+1]; c == '{' || c == '%' || c == '#' {
			return true
		}
		text = text[i+1:]
	}
}

// Contains reports whether a plain value is, or has inside it at any depth, one that f holds for. Lists and objects
// themselves are not asked about.
func Contains(v any, f func(v any) bool) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			if Contains(inner, f) {
				return true
			}
		}
		return false
	case []any:
		return slices.ContainsFunc(v, func(inner any) bool { return Contains(inner, f) })
	}
	return f(v)
}
