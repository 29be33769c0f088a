package actiontest

import (
	"regexp"
	"strings"
)

// pageWidth is the number of characters that a line of prose has at most.
const pageWidth = 120

var (
	listItem = regexp.MustCompile(`^([-*]|\d+\.) `)
	marker   = regexp.MustCompile(`^([-*+#>]+|\d+\.)$`) // begins a list, heading or quotation where it begins a line
)

// fill breaks the paragraphs and list items of a Markdown text at pageWidth. Code blocks and tables keep their lines.
func fill(text string) string {
	var out, words []string
	indent, fenced := "", false
	flush := func() {
		line := ""
		for i, w := range words {
			switch {
			case i == 0:
				line = w
			case len([]rune(line))+1+len([]rune(w)) > pageWidth && !marker.MatchString(w):
				out = append(out, line)
				line = indent + w
			default:
				line += " " + w
			}
		}
		if line != "" {
			out = append(out, line)
		}
		words, indent = nil, ""
	}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence || fenced || strings.HasPrefix(line, "|"):
			flush()
			out = append(out, line)
			fenced = fenced != fence
		case strings.TrimSpace(line) == "":
			flush()
			out = append(out, "")
		default:
			if listItem.MatchString(line) {
				flush()
				indent = "  "
			}
			words = append(words, strings.Fields(line)...)
		}
	}
	flush()
	return strings.Join(out, "\n")
}
