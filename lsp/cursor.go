package lsp

import (
	"regexp"
	"slices"
	"strings"
)

// cursor is where a place stands in the document by indentation alone, so that broken text has one too.
type cursor struct {
	path   []string // of the mapping or list around it: steps, [], params
	key    string   // whose value is being written; "": a key, or an element
	value  bool
	typed  string   // of the key or value, up to the cursor
	from   int      // where typed begins
	quote  byte     // that the value is in
	flow   []string // keys of the innermost mapping in braces, when it is one
	inFlow bool
	frames []frame // mappings around it, the innermost first
	scalar bool    // in the lines of a block text
}

// frame is a mapping in block style: the number of its path's elements, a line of it and the column of its keys.
type frame struct{ depth, line, column int }

// isStep reports whether the first n elements of the path lead to a step.
func (c *cursor) isStep(n int) bool {
	return n > 1 && c.path[n-1] == "[]" && slices.Contains([]string{"steps", "finally", "on_failure"}, c.path[n-2])
}

var keyAt = regexp.MustCompile(`^(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s#{}\[\],&*!|>'"%@` + "`" + `-][^:#]*?|-[^\s:][^:#]*?))\s*:(?:\s+|$)`)

// parts takes a line apart: the columns of its dashes, the column of what follows, and that.
func parts(line string) (dashes []int, column int, rest string) {
	i := 0
	for {
		for i < len(line) && line[i] == ' ' {
			i++
		}
		if i < len(line) && line[i] == '-' && (i+1 == len(line) || line[i+1] == ' ') {
			dashes = append(dashes, i)
			i++
			continue
		}
		return dashes, i, line[i:]
	}
}

// keyIn is the key that a text begins with, and what follows its colon.
func keyIn(text string) (key, value string, ok bool) {
	m := keyAt.FindStringSubmatch(text)
	if m == nil {
		return "", "", false
	}
	return m[1] + m[2] + m[3], text[len(m[0]):], true
}

func blank(rest string) bool { return rest == "" || rest[0] == '#' || rest == "---" }

// maxLines bounds the lines that are looked at for one cursor.
const maxLines = 200_000

// locate finds the cursor at a byte. Its time is linear in the lines before it.
func (t *text) locate(offset int) *cursor {
	at := t.position(offset)
	start := t.lines[at.Line]
	line := t.src[start:offset]
	dashes, column, rest := parts(line)
	c := &cursor{typed: rest, from: offset - len(rest)}
	inner := c.own(rest, offset)
	var outer []string // reversed
	outer = append(outer, inner...)
	c.climb(t, at.Line, dashes, column, &outer)
	c.path = make([]string, len(outer))
	for i, name := range outer {
		c.path[len(outer)-1-i] = name
	}
	for i := range c.frames {
		c.frames[i].depth = len(outer) - c.frames[i].depth
	}
	return c
}

// own reads the line of the cursor: key, value, and what is in braces. It returns the names that these add, the innermost first.
func (c *cursor) own(rest string, offset int) []string {
	key, value, ok := keyIn(rest)
	if !ok {
		if strings.HasPrefix(rest, "[") || strings.HasPrefix(rest, "{") {
			return c.braces(rest, offset)
		}
		c.unquote()
		return nil
	}
	if strings.HasPrefix(value, "{") && !strings.HasPrefix(value, "{{") || strings.HasPrefix(value, "[") {
		return append(c.braces(value, offset), key)
	}
	c.key, c.value = key, true
	c.typed, c.from = value, offset-len(value)
	c.unquote()
	return nil
}

func (c *cursor) unquote() {
	if c.typed != "" && (c.typed[0] == '"' || c.typed[0] == '\'') {
		c.quote, c.typed, c.from = c.typed[0], c.typed[1:], c.from+1
	}
}

// braces reads a value in flow style up to the cursor.
func (c *cursor) braces(value string, offset int) []string {
	type level struct {
		list bool
		key  string
		keys []string
	}
	var stack []level
	begin := 0 // of the current word
	for i := 0; i < len(value); i++ {
		switch ch := value[i]; ch {
		case '"', '\'':
			if strings.TrimSpace(value[begin:i]) != "" {
				continue // within a plain text
			}
			end := strings.IndexByte(value[i+1:], ch)
			if end < 0 {
				i = len(value)
				continue
			}
			i += 1 + end
		case '{', '[':
			if strings.HasPrefix(value[i:], "{{") {
				if end := strings.Index(value[i:], "}}"); end > 0 {
					i += end + 1
					continue
				}
				i = len(value)
				continue
			}
			stack, begin = append(stack, level{list: ch == '['}), i+1
		case '}', ']':
			stack, begin = stack[:max(0, len(stack)-1)], i+1
		case ':':
			if n := len(stack); n > 0 && !stack[n-1].list && stack[n-1].key == "" && (i+1 == len(value) || value[i+1] == ' ') {
				stack[n-1].key, begin = strings.Trim(strings.TrimSpace(value[begin:i]), `"'`), i+1
				stack[n-1].keys = append(stack[n-1].keys, stack[n-1].key)
			}
		case ',':
			if n := len(stack); n > 0 {
				stack[n-1].key, begin = "", i+1
			}
		}
	}
	c.typed = strings.TrimLeft(value[min(begin, len(value)):], " ")
	c.from = offset - len(c.typed)
	c.unquote()
	var names []string
	for i, l := range stack {
		switch last := i == len(stack)-1; {
		case l.list:
			names = append([]string{"[]"}, names...)
		case last:
			c.key, c.value, c.flow, c.inFlow = l.key, l.key != "", l.keys, true
		default:
			names = append([]string{l.key}, names...)
		}
	}
	if len(stack) == 0 { // behind the closing brace
		c.typed, c.from = "", offset
	}
	return names
}

// climb goes up from the line of the cursor and collects the names around it.
func (c *cursor) climb(t *text, line int, dashes []int, column int, outer *[]string) {
	list := -1 // the column of the dashes of the list that is being left; −1: a mapping is
	leave := func(dashes []int) {
		for i := len(dashes) - 1; i >= 0; i-- {
			*outer = append(*outer, "[]")
			list = dashes[i]
		}
	}
	c.frames = append(c.frames, frame{len(*outer), line, column})
	leave(dashes)
	for n, seen := line-1, 0; n >= 0 && seen < maxLines; n, seen = n-1, seen+1 {
		up, at, rest := parts(t.line(n))
		if blank(rest) && len(up) == 0 {
			continue
		}
		if at > max(column, list) || list < 0 && at == column && len(up) == 0 {
			continue // inside of something before the place, or beside it
		}
		key, value, ok := keyIn(rest)
		switch {
		case list < 0 && at == column && len(up) > 0:
			leave(up)
		case list < 0 && at < column && ok, list >= 0 && at <= list && ok && (len(up) == 0 || up[0] < list):
			*outer = append(*outer, key)
			c.scalar = c.scalar || strings.HasPrefix(value, "|") || strings.HasPrefix(value, ">")
			list, column = -1, at
			c.frames = append(c.frames, frame{len(*outer), n, at})
			leave(up)
		}
	}
}

// entry is a key of a mapping with what stands behind it.
type entry struct {
	value string
	line  int
}

// entries are the keys of a mapping in block style.
func (t *text) entries(f frame) map[string]entry {
	out := map[string]entry{}
	add := func(n int, rest string) {
		if key, value, ok := keyIn(rest); ok {
			out[key] = entry{strings.TrimSpace(value), n}
		}
	}
	for n := f.line; n >= 0 && f.line-n < maxLines; n-- {
		dashes, at, rest := parts(t.line(n))
		if blank(rest) && len(dashes) == 0 {
			continue
		}
		if at < f.column || n < f.line && len(dashes) > 0 && dashes[0] < f.column && at > f.column {
			if at < f.column && n == f.line {
				continue
			}
			break
		}
		if at == f.column {
			add(n, rest)
			if len(dashes) > 0 {
				break
			}
		}
	}
	for n := f.line + 1; n < len(t.lines) && n-f.line < maxLines; n++ {
		dashes, at, rest := parts(t.line(n))
		if blank(rest) && len(dashes) == 0 {
			continue
		}
		if at < f.column || len(dashes) > 0 && dashes[0] < f.column {
			break
		}
		if at == f.column && len(dashes) == 0 {
			add(n, rest)
		}
	}
	return out
}

// plain is a value without quotes and comment.
func plain(value string) string {
	if len(value) > 1 && (value[0] == '"' || value[0] == '\'') {
		if end := strings.IndexByte(value[1:], value[0]); end >= 0 {
			return value[1 : 1+end]
		}
	}
	value, _, _ = strings.Cut(value, " #")
	return strings.TrimSpace(value)
}

// words are the texts of a list: in brackets, below the key, or a single one.
func (t *text) words(e entry) (out []string) {
	if value, ok := strings.CutPrefix(e.value, "["); ok {
		value, _, _ = strings.Cut(value, "]")
		for word := range strings.SplitSeq(value, ",") {
			out = append(out, plain(strings.TrimSpace(word)))
		}
		return out
	}
	if value := plain(e.value); value != "" && value[0] != '#' {
		return []string{value}
	}
	for n := e.line + 1; n < len(t.lines); n++ {
		dashes, _, rest := parts(t.line(n))
		if len(dashes) == 0 && !blank(rest) {
			break
		}
		if len(dashes) > 0 {
			if _, _, ok := keyIn(rest); ok {
				break
			}
			out = append(out, plain(rest))
		}
	}
	return out
}
