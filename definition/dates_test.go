package definition_test

import (
	"strings"
	"testing"

	"github.com/stepwell/stepwell/definition"
)

// TestPartitionDates: dates and years of partitions need no quotes; what looks like something else is still told.
func TestPartitionDates(t *testing.T) {
	for values, warns := range map[string]bool{
		"every: day, from: 2026-01-01, until: 2026-02-01":     false,
		`every: day, from: "2026-01-01", until: "2026-02-01"`: false,
		"every: year, from: 2024, until: 2026":                false,
		"list: [2026-01-01, 2026-W03, 2026]":                  false,
		"list: [yes, 2026]":                                   true,
	} {
		src := "name: d\nparameters: [{name: day, type: string}]\nsettings: {partition: {by: [day], values: {day: {" + values + "}}}}\nsteps: [{id: a, action: util.log, params: {message: x}}]\n"
		d, problems := definition.Parse([]byte(src), definition.ParseOptions{File: "d.yaml"})
		if err := problems.Err(); err != nil || d.Settings.Partition == nil {
			t.Fatal(err)
		}
		text := ""
		for _, p := range problems {
			text += p.String() + "\n"
		}
		if strings.Contains(text, "quote it") != warns {
			t.Errorf("%s: %q", values, text)
		}
	}
}
