package bench

import (
	"fmt"
	"io"
	"slices"
)

// writeTable prints the medians of all runs as a table in Markdown, the kinds of commits side by side.
func writeTable(out io.Writer, all []*result) error {
	var kinds []string
	for _, r := range all {
		if !slices.Contains(kinds, r.Sync) {
			kinds = append(kinds, r.Sync)
		}
	}
	head, line := "| workload |", "|---|"
	for _, kind := range kinds {
		head += " `--sync " + kind + "` |"
		line += "---|"
	}
	if _, err := fmt.Fprintf(out, "%s\n%s\n", head, line); err != nil {
		return err
	}
	for _, w := range workloads {
		workload := w.name
		of := func(kind string) (list []*result) {
			for _, r := range all {
				if r.Workload == workload && r.Sync == kind {
					list = append(list, r)
				}
			}
			return list
		}
		first := of(kinds[0])
		if len(first) == 0 {
			continue
		}
		row := fmt.Sprintf("| `%s`, %d |", workload, first[0].N)
		for _, kind := range kinds {
			row += " " + tableCell(workload, of(kind)) + " |"
		}
		if _, err := fmt.Fprintln(out, row); err != nil {
			return err
		}
	}
	return nil
}

// tableCell formats a workload's main figure, as the median of its runs with the least and the most.
func tableCell(workload string, runs []*result) string {
	of := func(format string, value func(*result) float64) string {
		values := make([]float64, len(runs))
		for i, r := range runs {
			values[i] = value(r)
		}
		slices.Sort(values)
		text := fmt.Sprintf(format, values[len(values)/2])
		if len(values) == 1 {
			return text
		}
		return text + fmt.Sprintf(" ["+format+".."+format+"]", values[0], values[len(values)-1])
	}
	switch workload {
	case "start":
		return "p50 " + of("%.2f", func(r *result) float64 { return r.P50 }) + " ms, p99 " + of("%.2f", func(r *result) float64 { return r.P99 }) + " ms"
	case "chain":
		return of("%.3f", func(r *result) float64 { return r.MSPerStep }) + " ms per step"
	}
	return of("%.0f", func(r *result) float64 { return r.MS }) + " ms, " + of("%.0f", func(r *result) float64 { return r.StepsPerS }) + " steps/s"
}
