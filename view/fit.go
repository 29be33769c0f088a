package view

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// Widths of the cells of a table on a narrow terminal.
const (
	leastCell = 16 // no text is cut to less
	shortID   = 18 // of an execution: its first two groups, which name it unless two began in the same millisecond
)

// whole matches cells that are of no use when they are cut.
var whole = regexp.MustCompile(`^(\d{4}-\d\d-\d\d .*|[0-9a-f]{8}-[0-9a-f-]*)?$`)

// writeRows writes rows below titles, in columns. On a terminal that is too narrow for them, texts are cut and then the last
// columns left out, which a line below says; the first column is never cut.
func writeRows(w io.Writer, titles []string, rows [][]string) error {
	left := fit(titles, rows, Width(w, 0))
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, row := range append([][]string{titles}, rows...) {
		fmt.Fprintln(t, strings.Join(row[:len(titles)-len(left)], "\t"))
	}
	if err := t.Flush(); err != nil || len(left) == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "not shown here: %s (-o json has everything)\n", strings.ToLower(strings.Join(left, ", ")))
	return err
}

// fit cuts cells until the columns fit into a width, 0 for any, and returns the titles of those that do not.
func fit(titles []string, rows [][]string, width int) (left []string) {
	widths := make([]int, len(titles))
	fixed := make([]bool, len(titles))
	for i, title := range titles {
		widths[i], fixed[i] = len([]rune(title)), i == 0 || len(rows) > 0
		for _, row := range rows {
			widths[i] = max(widths[i], len([]rune(row[i])))
			fixed[i] = fixed[i] && (i == 0 || whole.MatchString(row[i]))
		}
	}
	n := len(titles)
	for width > 0 {
		over := 2*(n-1) - width
		for _, w := range widths[:n] {
			over += w
		}
		if over <= 0 {
			break
		}
		widest := 0
		for i := range n {
			if !fixed[i] && widths[i] > leastCell && (widest == 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		switch {
		case widest > 0:
			widths[widest] = max(leastCell, widths[widest]-over)
			for _, row := range rows {
				row[widest] = OneLine(row[widest], widths[widest])
			}
		case n > 2:
			n--
		default:
			return slices.Clone(titles[n:])
		}
	}
	return slices.Clone(titles[n:])
}
