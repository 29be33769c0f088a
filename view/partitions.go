package view

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/partition/ledger"
)

// How much of a table of partitions is shown.
const (
	maxPartitionColumns = 8 // the last ones
	maxPartitionRows    = 50
	maxFootnotes        = 9
)

// partitionStates are the states in the order in which they are counted.
var partitionStates = []string{ledger.Done, ledger.Stale, ledger.Failed, ledger.Running, ledger.Missing}

// WritePartitions writes the states of partitions: a column for each of the last values of the last parameter, a row for each combination of
// the others. What is stale or failed says why where the table tells of it.
func WritePartitions(w io.Writer, t *api.Partitions) error {
	last := t.Axes[len(t.Axes)-1]
	if len(t.Grid) == 0 {
		_, err := fmt.Fprintln(w, "no partitions: none is over yet, or a parameter has no values")
		return err
	}
	notes := footnotes{why: map[string]string{}}
	for i := range t.Partitions {
		notes.why[t.Partitions[i].Key] = t.Partitions[i].Why
	}
	from := max(0, len(last)-maxPartitionColumns)
	header := append(slices.Repeat([]string{""}, len(t.Axes)-1), last[from:]...)
	var rows [][]string
	total := len(t.Grid) / len(last)
	for r := range min(total, maxPartitionRows) {
		row := labelsOf(t, r)
		for c := from; c < len(last); c++ {
			at := r*len(last) + c
			row = append(row, notes.cell(t, at))
		}
		rows = append(rows, row)
	}
	if err := writeRows(w, header, rows); err != nil {
		return err
	}
	for i, text := range notes.texts {
		fmt.Fprintf(w, "  %s %s\n", superscript(i+1), Printable(text)) // an error comes again
	}
	if from > 0 || total > maxPartitionRows {
		fmt.Fprintf(w, "  shown: the last %d of %d columns, %d of %d rows; -o json has all\n", len(last)-from, len(last), len(rows), total)
	}
	var counts []string
	for _, state := range partitionStates {
		if n := t.Counts[state]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, state))
		}
	}
	_, err := fmt.Fprintf(w, "%d partitions: %s\n", len(t.Grid), strings.Join(counts, ", "))
	return err
}

// WritePartition writes the state of one partition, why, and which execution tried last.
func WritePartition(w io.Writer, p *api.Partition) error {
	row := []string{strings.Join(p.Values, " "), p.State}
	if p.Execution != "" {
		row = append(row, fmt.Sprintf("version %d", p.Version), string(p.Execution))
	}
	if p.Why != "" {
		row = append(row, p.Why)
	}
	_, err := fmt.Fprintln(w, Printable(strings.Join(row, "  ")))
	return err
}

// labelsOf are the values of all parameters but the last in a row.
func labelsOf(t *api.Partitions, row int) []string {
	labels := make([]string, len(t.Axes)-1)
	for k := len(labels) - 1; k >= 0; k-- {
		labels[k], row = t.Axes[k][row%len(t.Axes[k])], row/len(t.Axes[k])
	}
	return labels
}

// footnotes are the reasons of what a table shows, each once.
type footnotes struct {
	why   map[string]string // by partition
	texts []string
}

func (f *footnotes) cell(t *api.Partitions, at int) string {
	state := ledger.StateOf(t.Grid[at])
	text := f.why[t.KeyAt(at)]
	if text == "" || state != ledger.Stale {
		return state
	}
	i := slices.Index(f.texts, text)
	if i < 0 {
		if len(f.texts) == maxFootnotes {
			return state
		}
		f.texts = append(f.texts, text)
		i = len(f.texts) - 1
	}
	return state + " " + superscript(i+1)
}

func superscript(n int) string { return string([]rune("⁰¹²³⁴⁵⁶⁷⁸⁹")[n : n+1]) }
