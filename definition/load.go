package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/stepwell/stepwell/spec"
)

// Limits of a document. They are checked before anything is decoded, so that a hostile document costs
// no more than reading it.
const (
	maxBytes      = 32 << 20 // of source
	maxValues     = 2 << 20  // estimated from the marks between them; a value costs some 400 bytes while it is read
	maxDepth      = 100      // of nesting, aliases followed
	maxAliasBytes = 4 << 20  // that aliases, merges and ${…} may add
	maxMerged     = 100_000  // keys that << may bring in
)

// loader turns source text into nodes.
type loader struct {
	src    []byte
	file   string
	report *spec.Report
	fill   substitution
	plain  int // bytes of all nodes, each counted once
	merged int

	mayBeEmpty bool
	trail      []string // keys and indices that lead to the value being read
	lines      []int
	seen       map[*yaml.Node]*spec.Node
}

// Nodes reads YAML or JSON with the places of all values, for spec.Decoder: settings. The limits are those of
// documents. A text without any value is an empty mapping.
func Nodes(file string, src []byte) (*spec.Node, *spec.Report) {
	l := &loader{src: src, file: file, report: &spec.Report{File: file}, mayBeEmpty: true}
	return l.load(), l.report
}

// load reads the one document in src; nil when it cannot be read, with the reason reported.
func (l *loader) load() *spec.Node {
	if len(l.src) > maxBytes {
		l.report.Fail(Pos{Line: 1, Column: 1}, "", fmt.Sprintf("the document has %d bytes, the limit is %d", len(l.src), maxBytes), "split the pipeline, or use for_each instead of written-out steps")
		return nil
	}
	l.src = bytes.TrimPrefix(l.src, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(l.src) {
		invalid := func(r rune, width int) bool { return r == utf8.RuneError && width == 1 }
		l.report.Fail(firstPos(l.src, invalid), "", "the document is not UTF-8 text", "save it as UTF-8")
		return nil
	}
	if estimate(l.src) > maxValues {
		l.report.Fail(Pos{Line: 1, Column: 1}, "", fmt.Sprintf("the document has more than %d values", maxValues), "use for_each instead of written-out steps, and files for data")
		return nil
	}
	n := l.parse()
	if n == nil {
		return nil
	}
	if n.Height > maxDepth {
		l.report.Fail(n.Pos, "", fmt.Sprintf("the document nests deeper than %d levels", maxDepth), "")
		return nil
	}
	if n.Size > l.plain+maxAliasBytes {
		l.report.Fail(n.Pos, "", fmt.Sprintf("written out, the document's aliases and variables add more than %d bytes", maxAliasBytes), "repeat less, or pass the data as a parameter")
		return nil
	}
	return n
}

// estimate is an upper bound of the number of values in a document, keys not counted twice: every
// one but the first follows one of these marks.
func estimate(src []byte) int {
	count := 0
	for _, mark := range []string{"\n", ",", ":", "[", "{", "- ", "? "} {
		count += bytes.Count(src, []byte(mark))
	}
	return count
}

// within runs read for the value under a key or index.
func (l *loader) within(key string, read func() *spec.Node) *spec.Node {
	l.trail = append(l.trail, key)
	n := read()
	l.trail = l.trail[:len(l.trail)-1]
	return n
}

// path is the path of the value being read.
func (l *loader) path() string {
	path := ""
	for _, key := range l.trail {
		if spec.AllDigits(key) {
			path += "[" + key + "]"
		} else {
			path = spec.MemberPath(path, key)
		}
	}
	return path
}

func (l *loader) parse() *spec.Node {
	trimmed := bytes.TrimLeft(l.src, " \t\r\n")
	isJSON := len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[')
	if isJSON && json.Valid(l.src) {
		return l.parseJSON()
	}
	if isJSON && strings.HasSuffix(strings.ToLower(l.file), ".json") {
		l.jsonError()
		return nil
	}
	return l.parseYAML()
}

func (l *loader) parseYAML() *spec.Node {
	const newer = "%YAML 1.2"
	if bytes.HasPrefix(l.src, []byte(newer)) { // the reader knows 1.1 by name only; scalars are read as in 1.2
		l.src = append([]byte("%YAML 1.1"), l.src[len(newer):]...)
	}
	limits := loaderlimits.New(loaderlimits.DepthValue(maxDepth), loaderlimits.AliasNone())
	dec, err := yaml.NewLoader(bytes.NewReader(l.src), yaml.WithPlugin(limits))
	if err != nil {
		l.report.Fail(Pos{}, "", err.Error(), "")
		return nil
	}
	var doc yaml.Node
	if err := dec.Load(&doc); errors.Is(err, io.EOF) {
		return l.empty()
	} else if err != nil {
		l.yamlError(err)
		return nil
	}
	var second yaml.Node
	if err := dec.Load(&second); err == nil {
		l.report.Fail(Pos{Line: second.Line, Column: max(second.Column, 1)}, "", "there is a second document", "one file holds one pipeline; remove what follows the ---")
		return nil
	} else if !errors.Is(err, io.EOF) {
		l.yamlError(err)
		return nil
	}
	if len(doc.Content) == 0 {
		return l.empty()
	}
	l.seen = map[*yaml.Node]*spec.Node{}
	return l.fromYAML(doc.Content[0])
}

func (l *loader) empty() *spec.Node {
	if l.mayBeEmpty {
		return &spec.Node{Kind: spec.MapNode}
	}
	l.report.Fail(Pos{Line: 1, Column: 1}, "", "the document is empty", "a pipeline has a name and steps")
	return nil
}

// yamlError reports the YAML reader's error, with hints for the usual causes.
func (l *loader) yamlError(err error) {
	pos, message := Pos{}, err.Error()
	if e, ok := errors.AsType[*yaml.LoadError](err); ok {
		pos, message = Pos{Line: e.Mark.Line, Column: e.Mark.Column}, e.Message
		if pos.Line == 0 {
			pos = Pos{Line: e.ContextMark.Line, Column: e.ContextMark.Column}
		}
		if e.ContextMsg != "" {
			message = e.ContextMsg + ": " + message
		}
	}
	if pos.Line == 0 { // the reader complains about a character before it counts lines
		pos = firstPos(l.src, func(r rune, _ int) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f })
	}
	l.report.Fail(pos, "", "not valid YAML: "+message, l.yamlHint(message, pos))
}

func (l *loader) yamlHint(message string, pos Pos) string {
	line := l.line(pos.Line)
	switch {
	case strings.Contains(message, "max depth"):
		return fmt.Sprintf("at most %d levels of nesting are allowed", maxDepth)
	case strings.Contains(message, "unknown anchor"):
		return "an alias (*name) must come after its anchor (&name); quote a text that begins with *"
	case strings.Contains(message, "cannot start any token") && strings.HasPrefix(strings.TrimLeft(line, " "), "\t"):
		return "indent with spaces; YAML allows no tabs there"
	case strings.Contains(message, "cannot start any token"):
		return "quote a text that begins with @, %, or `"
	case strings.Contains(line, "{{") || strings.Contains(l.line(pos.Line-1), "{{"):
		return `a template must be quoted: "{{ … }}"`
	case strings.Contains(line, "${"):
		return `inside { } or [ ] a variable must be quoted: "${NAME}"`
	case strings.Contains(message, "mapping values are not allowed"):
		return "quote a text that contains a colon and a space; otherwise check the indentation"
	case strings.Contains(message, "unknown escape"):
		return `in double quotes write \\ for a backslash, or use single quotes`
	case strings.Contains(message, "control characters"):
		return `write it as an escape in double quotes, such as "\x07"`
	case strings.Contains(message, "expected key"), strings.Contains(message, "expected '-'"), strings.Contains(message, "expected ':'"):
		return "check the indentation of this line and the one before"
	}
	return ""
}

// line is the source of a 1-based line, "" when there is none.
func (l *loader) line(number int) string {
	from, to := l.bounds(number)
	return strings.TrimSuffix(string(l.src[from:to]), "\r")
}

// bounds are where a 1-based line begins and ends.
func (l *loader) bounds(number int) (from, to int) {
	if l.lines == nil {
		l.lines = []int{0}
		for i, c := range l.src {
			if c == '\n' {
				l.lines = append(l.lines, i+1)
			}
		}
	}
	if number < 1 || number > len(l.lines) {
		return 0, 0
	}
	if number == len(l.lines) {
		return l.lines[number-1], len(l.src)
	}
	return l.lines[number-1], l.lines[number] - 1
}

// firstPos is the place of the first character that is wanted; width is its length in bytes.
func firstPos(src []byte, wanted func(r rune, width int) bool) Pos {
	pos := Pos{Line: 1, Column: 1}
	for len(src) > 0 {
		r, width := utf8.DecodeRune(src)
		if wanted(r, width) {
			break
		}
		pos.Column++
		if r == '\n' {
			pos = Pos{Line: pos.Line + 1, Column: 1}
		}
		src = src[width:]
	}
	return pos
}
