package manual

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell/spec"
)

// mostSuggested bounds how many commands are suggested at once.
const mostSuggested = 3

// elsewhere has commands of Temporal, Airflow, Dagu and Kubernetes, and the commands that do the same here. A name without
// its parent counts below that parent only: `pipelines trigger` is `pipelines start`.
var elsewhere = map[string][]string{
	"workflow": {"pipelines", "executions"}, "workflows": {"pipelines", "executions"},
	"dag": {"pipelines", "schedules", "executions"}, "dags": {"pipelines", "schedules", "executions"}, "flow": {"pipelines"}, "flows": {"pipelines"},
	"activity": {"actions"}, "activities": {"actions"}, "operators": {"actions"}, "tasks": {"actions"},
	"job": {"schedules"}, "jobs": {"schedules"}, "cron": {"schedules"}, "backfill": {"schedules backfill"},
	"connections": {"secrets"}, "variables": {"secrets"}, "users": {"keys"}, "login": {"keys"},
	"start": {"run", "pipelines start"}, "execute": {"run", "pipelines start"}, "exec": {"run", "pipelines start"},
	"trigger": {"start", "pipelines start", "schedules trigger"}, "enqueue": {"start", "pipelines start"},
	"apply": {"pipelines create", "pipelines update"}, "deploy": {"pipelines create", "pipelines update"},
	"add": {"create", "set"}, "test": {"validate", "plan"}, "dry": {"validate", "plan"},
	"signal": {"events send", "approvals approve"},
	"ps":     {"executions list"}, "ls": {"list", "executions list"}, "list": {"executions list", "pipelines list"},
	"status": {"show", "executions show", "executions list"}, "state": {"show", "executions show"},
	"show": {"executions show", "pipelines show"}, "create": {"pipelines create", "schedules create"},
	"query": {"executions show"}, "describe": {"show", "executions show"}, "history": {"executions events"},
	"terminate": {"cancel", "executions cancel"}, "kill": {"cancel", "executions cancel"}, "stop": {"cancel", "executions cancel"},
	"clear": {"executions restart"}, "reset": {"executions restart"}, "rerun": {"executions retry"},
	"run": {"start", "trigger", "run"}, "tail": {"logs", "executions logs"}, "disable": {"pause", "schedules pause"}, "enable": {"resume", "schedules resume"},
	"pause": {"schedules pause", "executions pause"}, "unpause": {"resume", "schedules resume", "executions resume"},
	"task-queue": {"workers"}, "queues": {"workers"}, "celery": {"worker"}, "db": {"migrate", "doctor"},
	"server": {"serve"}, "start-dev": {"serve"}, "scheduler": {"serve"}, "webserver": {"serve"}, "api-server": {"serve"},
	"standalone": {"serve"}, "start-all": {"serve"}, "coordinator": {"serve"}, "ui": {"serve"}, "up": {"serve"},
}

// find returns the paths of commands below a command, by the names that elsewhere has for them.
func find(from *cobra.Command, names []string) []string {
	var paths []string
	for _, name := range names {
		if c, rest, err := from.Find(strings.Fields(name)); err == nil && len(rest) == 0 && c != from {
			paths = append(paths, c.CommandPath())
		}
	}
	return paths
}

// translated returns the paths of the commands that do what a command of another system does: those below cmd, else those
// of the root. A second word chooses among their commands: `dags list` is `pipelines list`.
func translated(cmd *cobra.Command, words []string) []string {
	names := elsewhere[strings.ToLower(words[0])]
	if len(words) > 1 && len(names) > 0 {
		second := strings.ToLower(words[1])
		var paths []string
		grouped := false
		for _, name := range names {
			if c, rest, err := cmd.Root().Find(strings.Fields(name)); err == nil && len(rest) == 0 && c.HasSubCommands() {
				grouped = true
				paths = append(paths, find(c, append([]string{second}, elsewhere[second]...))...)
			}
		}
		if len(paths) == 0 && grouped {
			paths = find(cmd.Root(), elsewhere[second])
		}
		if len(paths) > 0 {
			return paths
		}
	}
	if paths := find(cmd, names); len(paths) > 0 {
		return paths
	}
	return find(cmd.Root(), names)
}

// Suggest returns the paths of the commands at and below cmd that words may have meant, the first of which is no command; none
// when no name is near. Words of other systems come before names that are near, and the commands of cmd itself first where two
// are as near.
func Suggest(cmd *cobra.Command, words ...string) []string {
	if paths := translated(cmd, words); len(paths) > 0 {
		return paths[:min(mostSuggested, len(paths))]
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
	paths := slices.Compact(named[spec.Closest(words[0], names)])
	return paths[:min(mostSuggested, len(paths))]
}
