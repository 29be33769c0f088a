package manual

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell/spec"
)

// mostSuggested bounds how many commands are suggested at once.
const mostSuggested = 3

// elsewhere has commands of Temporal, Airflow, Dagu and Kubernetes, and the commands that do the same here.
var elsewhere = map[string][]string{
	"workflow": {"pipelines", "executions"}, "workflows": {"pipelines", "executions"},
	"dag": {"pipelines"}, "dags": {"pipelines"}, "flow": {"pipelines"}, "flows": {"pipelines"},
	"activity": {"actions"}, "activities": {"actions"}, "operators": {"actions"}, "tasks": {"actions"},
	"job": {"schedules"}, "jobs": {"schedules"}, "cron": {"schedules"},
	"signal": {"events send", "approvals approve"},
	"query":  {"executions show"}, "describe": {"show", "executions show"}, "history": {"executions events"},
	"terminate": {"cancel", "executions cancel"}, "kill": {"cancel", "executions cancel"}, "clear": {"executions restart"},
	"task-queue": {"workers"}, "queues": {"workers"}, "server": {"serve"}, "start-dev": {"serve"}, "scheduler": {"serve"}, "webserver": {"serve"},
}

// translated returns the paths of the commands that do what a command of another system does: the one of cmd itself, else
// those of the root.
func translated(cmd *cobra.Command, word string) []string {
	var paths []string
	for _, from := range []*cobra.Command{cmd, cmd.Root()} {
		for _, names := range elsewhere[strings.ToLower(word)] {
			if c, rest, err := from.Find(strings.Fields(names)); err == nil && len(rest) == 0 && c != from {
				paths = append(paths, c.CommandPath())
			}
		}
		if len(paths) > 0 {
			break
		}
	}
	return paths
}

// Suggest returns the paths of the commands at and below cmd that a word may have meant, none when no name is near. Words
// of other systems come before names that are near, and the commands of cmd itself first where two are as near.
func Suggest(cmd *cobra.Command, word string) []string {
	if paths := translated(cmd, word); len(paths) > 0 {
		return paths
	}
	named := map[string][]string{} // paths by name
	var names []string             // from the top down
	var walk func(level []*cobra.Command)
	walk = func(level []*cobra.Command) {
		var below []*cobra.Command
		for _, c := range level {
			if !c.IsAvailableCommand() {
				continue
			}
			for _, name := range slices.Concat([]string{c.Name()}, c.Aliases, c.SuggestFor) {
				names = append(names, name)
				named[name] = append(named[name], c.CommandPath())
			}
			below = append(below, c.Commands()...)
		}
		if len(below) > 0 {
			walk(below)
		}
	}
	walk(cmd.Commands())
	paths := slices.Compact(named[spec.Closest(word, names)])
	return paths[:min(mostSuggested, len(paths))]
}
