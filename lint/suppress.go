package lint

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/definition"
)

// suppression is a comment on the line of a problem, or alone on the line above it.
type suppression struct {
	line, column int
	codes        []string
	reason       string
	alone        bool
	used         bool
}

var comment = regexp.MustCompile(`#\s*stepwell:\s*ignore\b[ \t]*(.*)$`)

// maxSuppressions bounds the comments of one file.
const maxSuppressions = 10_000

// suppressions finds the comments of a document.
func suppressions(src []byte) (list []suppression) {
	if !bytes.Contains(src, []byte("stepwell:")) {
		return nil
	}
	n := 0
	for line := range bytes.Lines(src) {
		n++
		text := strings.TrimRight(string(line), "\r\n")
		at := comment.FindStringSubmatchIndex(text)
		if at == nil || len(list) == maxSuppressions {
			continue
		}
		c := suppression{line: n, column: 1 + len([]rune(text[:at[0]])), alone: strings.TrimSpace(text[:at[0]]) == ""}
		words := strings.Fields(text[at[2]:at[3]])
		for len(words) > 0 && strings.HasPrefix(words[0], "SW") {
			c.codes = append(c.codes, strings.FieldsFunc(words[0], func(r rune) bool { return r == ',' })...)
			words = words[1:]
		}
		c.reason = strings.Join(words, " ")
		list = append(list, c)
	}
	return list
}

// suppress leaves out the problems that comments of the file name, and reports comments that name none. Errors of a
// definition that is invalid stay.
func suppress(problems definition.Problems, file string, src []byte) definition.Problems {
	comments := suppressions(src)
	if len(comments) == 0 {
		return problems
	}
	byLine := map[int]*suppression{}
	for i := range comments {
		c := &comments[i]
		if c.reason == "" || len(c.codes) == 0 {
			continue
		}
		byLine[c.line] = c
	}
	kept := slices.DeleteFunc(problems, func(p definition.Problem) bool {
		if p.File != file || p.Code == CodeInvalid && !p.Warning {
			return false
		}
		c := byLine[p.Line]
		if c == nil || !slices.Contains(c.codes, p.Code) {
			if c = byLine[p.Line-1]; c == nil || !c.alone || !slices.Contains(c.codes, p.Code) {
				return false
			}
		}
		c.used = true
		return true
	})
	for i := range comments {
		if message := comments[i].useless(); message != "" {
			kept = append(kept, definition.Problem{File: file, Line: comments[i].line, Column: comments[i].column, Message: message,
				Hint: "write # stepwell: ignore CODE reason", Warning: true, Code: codeSuppression})
		}
	}
	return kept
}

// useless says why the comment has no effect, "" if it has one.
func (c *suppression) useless() string {
	for _, code := range c.codes {
		if _, known := RuleOf(code); !known {
			return fmt.Sprintf("there is no rule %s", code)
		}
	}
	switch {
	case len(c.codes) == 0:
		return "the comment names no rule"
	case c.reason == "":
		return "the comment gives no reason, so it suppresses nothing"
	case !c.used:
		return fmt.Sprintf("nothing here breaks %s", strings.Join(c.codes, " or "))
	}
	return ""
}
