package spec

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stepwell/stepwell"
)

// Decoder reads nodes into structs. Its methods take the path of the value, for problems, and return zero for a wrong
// one; they never stop at the first problem.
type Decoder struct {
	*Report
	Lenient bool    // unknown keys are warnings
	Places  *Places // where values are recorded, nil for nowhere
	dates   bool    // the value at hand may be a date as a text
}

// Places has the positions of values by their path, keys separated by / (see Below).
type Places struct {
	At     map[string]Pos
	Loose  map[string]bool // texts with templates whose columns differ from the source
	Prefix string          // path of the value at hand
}

// Record notes where a value stands.
func (p *Places) Record(path string, n *Node, pos Pos) {
	if p == nil || pos.Line == 0 {
		return
	}
	p.At[path] = pos
	if n.Loose && strings.Contains(n.Text, "{{") {
		if p.Loose == nil {
			p.Loose = map[string]bool{}
		}
		p.Loose[path] = true
	}
}

// Struct reads a mapping into a struct, and reports keys that it does not have. Own reads the keys that the struct's
// fields cannot describe: it reports whether it has.
func (d *Decoder) Struct(n *Node, path string, s *Shape, into any, own func(e Entry) bool) {
	d.members(n, path, s, reflect.ValueOf(into).Elem(), own)
}

func (d *Decoder) members(n *Node, path string, s *Shape, into reflect.Value, own func(e Entry) bool) {
	if n.Kind != MapNode {
		hint := ""
		if n.Kind == ListNode {
			hint = s.list
		}
		d.Fail(n.Pos, path, fmt.Sprintf("%s must be a mapping of keys to values, not %s", s.what, n.Describe()), hint)
		return
	}
	for _, e := range n.Entries {
		i := slices.Index(s.names, e.Key)
		if i < 0 {
			d.Unknown(e, path, s)
			continue
		}
		outer := d.Places.enter(e.Key, e.Value, e.At())
		if own == nil || !own(e) {
			d.set(e, path, &s.fields[i], into.FieldByIndex(s.fields[i].index))
		}
		d.Places.leave(outer)
	}
}

// enter records a value; values inside it are recorded below its path until leave is called.
func (p *Places) enter(key string, n *Node, pos Pos) (outer string) {
	if p == nil {
		return ""
	}
	outer = p.Prefix
	p.Prefix = Below(outer, key)
	p.Record(p.Prefix, n, pos)
	return outer
}

func (p *Places) leave(outer string) {
	if p != nil {
		p.Prefix = outer
	}
}

func (p *Places) path() string {
	if p == nil {
		return ""
	}
	return p.Prefix
}

// Unknown reports a key that is not one of the shape's.
func (d *Decoder) Unknown(e Entry, path string, s *Shape) {
	path = MemberPath(path, e.Key)
	if why, idle := s.idle[e.Key]; idle {
		d.Warn(e.Pos, path, fmt.Sprintf("%q has no effect", e.Key), why)
		return
	}
	hint := s.hints[e.Key]
	if hint == "" && !d.Full() {
		if hint = DidYouMean(e.Key, s.names); hint == "" {
			hint = s.what + " may have " + strings.Join(s.names, ", ")
		}
	}
	d.Add(e.Pos, path, fmt.Sprintf("unknown key %q in %s", e.Key, s.what), hint, d.Lenient)
}

// set reads one key into a struct's field. It is a table of types.
func (d *Decoder) set(e Entry, path string, f *shapeField, v reflect.Value) {
	if e.Value.IsNull() {
		return
	}
	d.dates = f.dates
	defer func() { d.dates = false }()
	if v.Kind() == reflect.Pointer {
		p := reflect.New(v.Type().Elem())
		d.set(e, path, f, p.Elem())
		v.Set(p)
		return
	}
	if v.Type() == durationType {
		v.SetInt(int64(d.duration(e, path, f)))
		return
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if text := d.Word(e, path); text != "" {
			if err := u.UnmarshalText([]byte(text)); err != nil {
				d.Fail(e.At(), MemberPath(path, e.Key), e.Key+": "+err.Error(), cmp.Or(stepwell.HintOf(err), f.Doc))
			} else if v.CanInt() { // a size: minimum and maximum are about the number
				d.within(e, path, float64(v.Int()), f)
			}
		}
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(d.text(e, path, f))
	case reflect.Bool:
		v.SetBool(d.Boolean(e, path) != f.not)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(d.number(e, path, f))
	case reflect.Slice:
		d.list(e, path, f, v)
	case reflect.Map:
		d.mapping(e, path, f, v)
	case reflect.Struct:
		d.members(e.Value, MemberPath(path, e.Key), f.nested, v, nil)
	case reflect.Interface:
		d.inside(e.Key, e, path, MemberPath(path, e.Key), f, v)
	default:
		v.SetInt(int64(d.whole(e, path, f)))
	}
}

// Word reads a text that is needed as such: numbers and booleans are taken as they are written.
func (d *Decoder) Word(e Entry, path string) string {
	n := e.Value
	path = MemberPath(path, e.Key)
	if n.Kind != ScalarNode || n.IsNull() {
		d.Fail(e.At(), path, fmt.Sprintf("%s must be a text, not %s", e.Key, n.Describe()), "")
		return ""
	}
	d.AsText(n, path, e.Key)
	return n.Text
}

// dateLike are years, and what begins with one: 2026, 2026-W09, 2026-03-01T05.
var dateLike = regexp.MustCompile(`^[0-9]{4}(-[0-9TW:-]+)?$`)

// AsText warns about plain texts that look like something else. A version such as 1.0 is so
// usual that it is not worth a word.
func (d *Decoder) AsText(n *Node, path, key string) {
	if n.Literal || key == "version" || d.dates && dateLike.MatchString(n.Text) {
		return
	}
	if v, _ := n.Scalar(); v != any(n.Text) {
		d.Warn(n.Pos, path, fmt.Sprintf("%s is read as the text %q", key, n.Text), "quote it")
	} else if what := surprising(n.Text); what != "" {
		d.Warn(n.Pos, path, fmt.Sprintf("%s is read as the text %q, which is %s", key, n.Text, what), "quote it")
	}
}

// text is Word within a field's enum, pattern and length in characters. An empty text counts as not given.
func (d *Decoder) text(e Entry, path string, f *shapeField) string {
	if f.Enum != nil {
		return d.Choice(e, path, f.Enum...)
	}
	s := d.Word(e, path)
	n := utf8.RuneCountInString(s)
	switch {
	case s == "":
	case f.Max != nil && float64(n) > *f.Max:
		d.Fail(e.At(), MemberPath(path, e.Key), fmt.Sprintf("%s has %d characters, at most %s are allowed", e.Key, n, plain(*f.Max)), "")
		return ""
	case f.Min != nil && float64(n) < *f.Min:
		d.Fail(e.At(), MemberPath(path, e.Key), fmt.Sprintf("%s has %d characters, at least %s are needed", e.Key, n, plain(*f.Min)), "")
		return ""
	case f.pattern != nil && !f.pattern.MatchString(s):
		d.Fail(e.At(), MemberPath(path, e.Key), fmt.Sprintf("%s does not have the form %s, it is %s", e.Key, f.Pattern, Quote(s)), f.Doc)
		return ""
	}
	return s
}

// Text is Word of at most so many characters, "" for null.
func (d *Decoder) Text(e Entry, path string, most int) string {
	if e.Value.IsNull() {
		return ""
	}
	longest := float64(most)
	return d.text(e, path, &shapeField{Field: Field{Max: &longest}})
}

// Choice reads one of some words, "" for null. Other cases of the letters are accepted with a warning.
func (d *Decoder) Choice(e Entry, path string, allowed ...string) string {
	if e.Value.IsNull() {
		return ""
	}
	s := d.Word(e, path)
	if s == "" || slices.Contains(allowed, s) {
		return s
	}
	path = MemberPath(path, e.Key)
	if lower := strings.ToLower(s); slices.Contains(allowed, lower) {
		d.Warn(e.At(), path, fmt.Sprintf("%s: %s is read as %s", e.Key, s, lower), "write it in small letters")
		return lower
	}
	hint := DidYouMean(s, allowed)
	if hint == "" && strings.Contains(s, "{{") {
		hint = "a template is not possible here"
	}
	d.Fail(e.At(), path, fmt.Sprintf("%s must be one of %s, not %s", e.Key, strings.Join(allowed, ", "), Quote(s)), hint)
	return ""
}

// belowAnything stands for a zero that was written, where the struct's zero says that nothing was given.
const belowAnything = 1e-6

// number reads a number within the field's bounds.
func (d *Decoder) number(e Entry, path string, f *shapeField) float64 {
	switch v := e.Value.number().(type) {
	case int64:
		return d.within(e, path, float64(v), f)
	case float64:
		return d.within(e, path, v, f)
	}
	d.Fail(e.At(), MemberPath(path, e.Key), fmt.Sprintf("%s must be a number, not %s", e.Key, e.Value.Describe()), numberHint(e))
	return 0
}

// whole reads a whole number within the field's bounds.
func (d *Decoder) whole(e Entry, path string, f *shapeField) int {
	switch v := e.Value.number().(type) {
	case int64:
		return int(d.within(e, path, float64(v), f))
	case float64:
		if v == float64(int64(v)) {
			return int(d.within(e, path, v, f))
		}
	}
	d.Fail(e.At(), MemberPath(path, e.Key), fmt.Sprintf("%s must be a whole number, not %s", e.Key, e.Value.Describe()), numberHint(e))
	return 0
}

func (d *Decoder) duration(e Entry, path string, f *shapeField) time.Duration {
	v, _ := e.Value.Scalar()
	length, err := ParseDuration(v)
	if err != nil || e.Value.Kind != ScalarNode {
		d.Fail(e.At(), MemberPath(path, e.Key), fmt.Sprintf("%s must be %s, not %s", e.Key, typeNames[Duration], e.Value.Describe()), "")
		return 0
	}
	return time.Duration(d.within(e, path, length.Seconds(), f) * float64(time.Second))
}

// number is a scalar's value, nil for lists and mappings. A variable's value is a number even where the placeholder
// was quoted; digits may have _ between them.
func (n *Node) number() any {
	if n.Kind != ScalarNode || n.Literal && !n.Filled {
		return nil
	}
	text := n.Text
	if text != "" && text[0] >= '0' && text[0] <= '9' {
		text = strings.ReplaceAll(text, "_", "")
	}
	v, _ := ParseScalar(text)
	return v
}

// within gives a number that is within the field's bounds, 0 for any other.
func (d *Decoder) within(e Entry, path string, v float64, f *shapeField) float64 {
	if f.Min != nil && (v < *f.Min || f.Above && v == *f.Min) || f.Max != nil && v > *f.Max {
		var limits []string
		if f.Min != nil && f.Above {
			limits = append(limits, "more than "+plain(*f.Min))
		} else if f.Min != nil {
			limits = append(limits, "at least "+plain(*f.Min))
		}
		if f.Max != nil {
			limits = append(limits, "at most "+plain(*f.Max)+f.Unit)
		}
		hint := ""
		if v == 0 && strings.HasSuffix(e.Key, "timeout_seconds") {
			hint = "leave it out for the default"
		}
		d.Fail(e.At(), MemberPath(path, e.Key), fmt.Sprintf("%s must be %s, not %s", e.Key, strings.Join(limits, " and "), plain(v)), hint)
		return 0
	}
	if v == 0 && f.zero {
		return belowAnything
	}
	return v
}

// numberHint is the hint for a value that should be a number.
func numberHint(e Entry) string {
	n := e.Value
	if n.Kind != ScalarNode {
		return ""
	}
	if strings.Contains(n.Text, "{{") {
		return "a template is not possible here: the value is fixed before the run starts; write a number or ${NAME:-3}"
	}
	if length, err := time.ParseDuration(n.Text); err == nil && strings.HasSuffix(e.Key, "_seconds") {
		return "write " + plain(length.Seconds())
	}
	if v, _ := ParseScalar(n.Text); n.Literal && v != any(n.Text) && v != nil {
		return "write it without quotes"
	}
	return ""
}

// Boolean reads true or false; null is false.
func (d *Decoder) Boolean(e Entry, path string) bool {
	n := e.Value
	if n.IsNull() {
		return false
	}
	if v, ok := n.number().(bool); ok {
		return v
	}
	d.Fail(e.At(), MemberPath(path, e.Key), fmt.Sprintf("%s must be true or false, not %s", e.Key, n.Describe()), booleanHint(n))
	return false
}

func booleanHint(n *Node) string {
	switch strings.ToLower(n.Text) {
	case "yes", "on", "y", "1", "true":
		return "write true"
	case "no", "off", "n", "0", "false":
		return "write false"
	}
	if strings.Contains(n.Text, "{{") {
		return "a template is not possible here: the value is fixed before the run starts"
	}
	return ""
}

// Words reads a list of texts; a single text counts as a list of one.
func (d *Decoder) Words(e Entry, path string) []string {
	n := e.Value
	if n.Kind == ScalarNode && !n.IsNull() {
		n = &Node{Kind: ListNode, Pos: n.Pos, Items: []*Node{n}}
	}
	if !d.isList(e, n, path) {
		return nil
	}
	path = MemberPath(path, e.Key)
	list := make([]string, 0, len(n.Items))
	for i, item := range n.Items {
		if item.Kind != ScalarNode || item.IsNull() {
			d.Fail(item.Pos, ElementPath(path, i), fmt.Sprintf("%s must be a list of texts, but element %d is %s", e.Key, i+1, item.Describe()), "")
			continue
		}
		d.Places.leave(d.Places.enter(itoa(len(list)), item, item.Pos))
		d.AsText(item, ElementPath(path, i), e.Key)
		list = append(list, item.Text)
	}
	return list
}

// isList reports whether there is a list with anything in it.
func (d *Decoder) isList(e Entry, n *Node, path string) bool {
	if n.Kind != ListNode {
		d.Fail(e.At(), MemberPath(path, e.Key), fmt.Sprintf("%s must be a list, not %s", e.Key, n.Describe()), "")
	}
	return len(n.Items) > 0
}

func (d *Decoder) list(e Entry, path string, f *shapeField, v reflect.Value) {
	if list, ok := v.Addr().Interface().(*[]string); ok {
		*list = d.Words(e, path)
	} else if d.isList(e, e.Value, path) {
		v.Set(reflect.MakeSlice(v.Type(), len(e.Value.Items), len(e.Value.Items)))
		path = MemberPath(path, e.Key)
		for i, item := range e.Value.Items {
			d.inside(itoa(i), Entry{e.Key, item.Pos, item}, path, ElementPath(path, i), f, v.Index(i))
		}
	}
	d.withinLength(e, path, f, v)
}

// inside sets an element of a list or a value of a mapping; at is its path.
func (d *Decoder) inside(key string, e Entry, path, at string, f *shapeField, to reflect.Value) {
	outer := d.Places.enter(key, e.Value, e.At())
	switch {
	case f.nested != nil:
		d.members(e.Value, at, f.nested, to, nil)
	case to.Kind() == reflect.Interface:
		if value := d.Value(e.Value, at, d.Places.path()); value != nil {
			to.Set(reflect.ValueOf(value))
		}
	default:
		d.set(e, path, &shapeField{Field: Field{Doc: f.Doc}}, to)
	}
	d.Places.leave(outer)
}

func (d *Decoder) withinLength(e Entry, path string, f *shapeField, v reflect.Value) {
	n := float64(v.Len())
	switch {
	case n == 0: // counts as not given
	case f.Min != nil && n < *f.Min:
		d.Fail(e.At(), MemberPath(path, e.Key), fmt.Sprintf("%s must have at least %s elements, not %s", e.Key, plain(*f.Min), plain(n)), "")
	case f.Max != nil && n > *f.Max:
		d.Fail(e.At(), MemberPath(path, e.Key), fmt.Sprintf("%s must have at most %s elements, not %s", e.Key, plain(*f.Max), plain(n)), "")
	}
}

// mapping reads a mapping of names to values of one type.
func (d *Decoder) mapping(e Entry, path string, f *shapeField, v reflect.Value) {
	if e.Value.Kind != MapNode {
		d.Fail(e.At(), MemberPath(path, e.Key), e.Key+" must be a mapping of names to values, not "+e.Value.Describe(), "")
		return
	}
	if len(e.Value.Entries) == 0 {
		return
	}
	path = MemberPath(path, e.Key)
	if m, ok := v.Addr().Interface().(*map[string]any); ok {
		*m, _ = d.Value(e.Value, path, d.Places.path()).(map[string]any)
		return
	}
	m := reflect.MakeMapWithSize(v.Type(), len(e.Value.Entries))
	for _, inner := range e.Value.Entries {
		to := reflect.New(v.Type().Elem()).Elem()
		d.inside(inner.Key, inner, path, MemberPath(path, inner.Key), f, to)
		m.SetMapIndex(reflect.ValueOf(inner.Key), to)
	}
	v.Set(m)
}

// Value turns a node into plain data: nil, bool, int64, float64, string, []any, map[string]any. Places
// are recorded under at.
func (d *Decoder) Value(n *Node, path, at string) any {
	switch n.Kind {
	case ListNode:
		list := make([]any, len(n.Items))
		for i, item := range n.Items {
			below := Below(at, itoa(i))
			d.Places.Record(below, item, item.Pos)
			list[i] = d.Value(item, ElementPath(path, i), below)
		}
		return list
	case MapNode:
		m := make(map[string]any, len(n.Entries))
		for _, e := range n.Entries {
			below := Below(at, e.Key)
			d.Places.Record(below, e.Value, e.At())
			m[e.Key] = d.Value(e.Value, MemberPath(path, e.Key), below)
		}
		return m
	}
	v, reason := n.Scalar()
	if reason != "" {
		d.Fail(n.Pos, path, n.Text+": "+reason, "quote it to pass it as text")
	}
	return v
}
