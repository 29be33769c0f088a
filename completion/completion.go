// Package completion completes what a shell's user types behind a command: actions, modules, templates, and the names of what
// the database or the server has: executions, steps, parameters, pipelines and the rest. What cannot be asked completes nothing.
package completion

import (
	"context"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/view"
)

// Source is where words come from.
type Source struct {
	// Actions, Modules and Templates are the names that the program knows by itself.
	Actions, Modules, Templates func() []string
	// Parameters are those that the pipeline of a file declares.
	Parameters func(file string) []definition.Parameter
	// Ask calls f with a client of the API that the flags of cmd name, within the time of a key press.
	Ask func(cmd *cobra.Command, f func(ctx context.Context, c *client.Client) error) error
}

// words is what may come next, each with a tab and a description behind it where there is one.
type words = []string

// most bounds how many names are offered.
const most = 100

// Attach gives all commands below root their completions. The words in capitals of a command's use are its arguments.
func Attach(root *cobra.Command, s *Source) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.HasParent() && !cmd.HasSubCommands() {
			cmd.ValidArgsFunction = s.arguments
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { s.attach(cmd, f) })
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// attach gives a flag its completion, if it has one.
func (s *Source) attach(cmd *cobra.Command, f *pflag.Flag) {
	var fixed words
	if strings.Contains(f.Value.Type(), "|") { // of a few words
		fixed = strings.Split(f.Value.Type(), "|")
	}
	give := func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if fixed != nil {
			return fixed, cobra.ShellCompDirectiveNoFileComp
		}
		return s.flag(cmd, f.Name, args, typed)
	}
	if fixed != nil || completed[f.Name] && f.Value.Type() != "bool" {
		_ = cmd.RegisterFlagCompletionFunc(f.Name, give) // fails for one that has a completion
	}
}

// completed are the flags whose values are names or paths that are known.
var completed = map[string]bool{"step": true, "from-step": true, "param": true, "pipeline": true, "project": true, "lesson": true, "status": true, "data": true}

// flag completes the value of a flag.
func (s *Source) flag(cmd *cobra.Command, name string, args []string, typed string) (words, cobra.ShellCompDirective) {
	switch name {
	case "data":
		return nil, cobra.ShellCompDirectiveFilterDirs
	case "param":
		return s.parameters(cmd, args, typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	case "step", "from-step":
		return s.steps(cmd, args), cobra.ShellCompDirectiveNoFileComp
	case "status":
		if group(cmd) == "executions" {
			return statuses(cmd.Name() == "list"), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return s.list(cmd, name+"s"), cobra.ShellCompDirectiveNoFileComp
}

// group is the name of the command that cmd stands below.
func group(cmd *cobra.Command) string {
	if !cmd.HasParent() || !cmd.Parent().HasParent() {
		return ""
	}
	return cmd.Parent().Name()
}

// arguments completes the next argument of a command.
func (s *Source) arguments(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	word := argument(cmd.Use, len(args))
	of := group(cmd)
	switch {
	case word == "FILE":
		if of == "" || of == "pipelines" || of == "stac" {
			return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
		}
		return nil, cobra.ShellCompDirectiveDefault
	case word == "NAME" && cmd.Name() == "actions":
		return s.Actions(), cobra.ShellCompDirectiveNoFileComp
	case word == "NAME" && cmd.Name() == "modules":
		return s.Modules(), cobra.ShellCompDirectiveNoFileComp
	case word == "TEMPLATE":
		return s.Templates(), cobra.ShellCompDirectiveNoFileComp
	case word == "PIPELINE":
		return s.list(cmd, "pipelines"), cobra.ShellCompDirectiveNoFileComp
	case word == "STEP" && of == "executions":
		return s.steps(cmd, args), cobra.ShellCompDirectiveNoFileComp
	case (word == "ID" || word == "RUN" || word == "NAME") && cmd.Name() != "create":
		return s.list(cmd, of), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// argument is the word of a use for the argument at an index, without brackets; one with "…" stands for all that follow.
func argument(use string, at int) string {
	for _, word := range strings.Fields(use)[1:] {
		word = strings.Trim(word, "[]")
		if strings.ToUpper(word) != word || strings.HasPrefix(word, "-") {
			return ""
		}
		if at == 0 || strings.HasSuffix(word, "…") {
			return strings.TrimSuffix(word, "…")
		}
		at--
	}
	return ""
}

// kept is a list of the API: where it is, what names an entry, and what tells about it.
type kept struct{ path, items, name, about string }

var lists = map[string]kept{
	"executions": {"executions", "executions", "execution_id", "pipeline status"},
	"approvals":  {"approvals", "approvals", "approval_id", "message"},
	"pipelines":  {"pipelines", "pipelines", "name", "description"},
	"schedules":  {"scheduler/jobs", "jobs", "name", "job_id"},
	"webhooks":   {"webhooks", "webhooks", "name", "webhook_id"},
	"projects":   {"projects", "projects", "id", "name"},
	"lessons":    {"lessons", "lessons", "id", "title"},
	"runs":       {"pipeline-runs", "data", "id", "status"},
	"secrets":    {"secrets", "secrets", "name", ""},
	"keys":       {"keys", "keys", "key_id", "name"},
	"workers":    {"workers", "workers", "name", ""},
}

// list is the names of what is kept of a kind.
func (s *Source) list(cmd *cobra.Command, kind string) (names words) {
	k, ok := lists[kind]
	if !ok {
		return nil
	}
	if kind == "executions" || kind == "runs" {
		names = append(names, "last\tthe newest")
	}
	_ = s.Ask(cmd, func(ctx context.Context, c *client.Client) error { // what cannot be asked completes nothing
		var answer map[string]any
		err := c.Call(ctx, "GET", "/api/v1/"+k.path, url.Values{"limit": {"100"}}, nil, &answer)
		rows, _ := answer[k.items].([]any)
		for _, row := range rows[:min(most, len(rows))] {
			o, _ := row.(map[string]any)
			name, _ := o[k.name].(string)
			var about []string
			for _, field := range strings.Fields(k.about) {
				if text, ok := o[field].(string); ok && text != "" {
					about = append(about, view.OneLine(text, 60))
				}
			}
			if name != "" {
				names = append(names, described(name, strings.Join(about, ", ")))
			}
		}
		return err
	})
	return names
}

func described(name, about string) string {
	if about == "" {
		return name
	}
	return name + "\t" + about
}

// steps are those of the execution that is the first argument.
func (s *Source) steps(cmd *cobra.Command, args []string) (names words) {
	if len(args) == 0 {
		return nil
	}
	_ = s.Ask(cmd, func(ctx context.Context, c *client.Client) error {
		id := args[0]
		if id == "last" {
			newest, err := c.Executions(ctx, api.ListExecutions{Limit: 1})
			if err != nil || len(newest.Executions) == 0 {
				return err
			}
			id = newest.Executions[0].ID
		}
		list, err := c.Steps(ctx, api.ListSteps{ExecutionPath: api.ExecutionPath{ID: id}, Limit: 1000})
		if err != nil {
			return err
		}
		for i := range list.Steps {
			if step := &list.Steps[i]; len(names) < most && !view.Unnamed(step.ID) {
				names = append(names, described(step.ID, step.Status))
			}
		}
		return nil
	})
	return names
}

// parameters are those of the file or the stored pipeline that is the first argument, with the sign behind them.
func (s *Source) parameters(cmd *cobra.Command, args []string, typed string) (names words) {
	if len(args) == 0 || strings.Contains(typed, "=") {
		return nil
	}
	var declared []definition.Parameter
	if argument(cmd.Use, 0) == "FILE" {
		declared = s.Parameters(args[0])
	} else {
		_ = s.Ask(cmd, func(ctx context.Context, c *client.Client) error {
			p, _, err := c.Pipelines().Get(ctx, args[0])
			if err == nil {
				if d, _ := definition.Parse([]byte(p.Document), definition.ParseOptions{Lenient: true, Sent: true}); d != nil {
					declared = d.Parameters
				}
			}
			return err
		})
	}
	for i := range declared {
		names = append(names, described(declared[i].Name+"=", view.OneLine(declared[i].Description, 60)))
	}
	return names
}

// statuses are those of executions, or of steps.
func statuses(ofExecutions bool) (names words) {
	text := func(n uint8) string {
		if ofExecutions {
			return stepwell.ExecutionStatus(n).String()
		}
		return stepwell.StepStatus(n).String()
	}
	for n := uint8(0); n < most; n++ {
		name := text(n)
		if strings.HasPrefix(name, "status(") {
			break
		}
		names = append(names, name)
	}
	return names
}
