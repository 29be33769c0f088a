package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/completion"
	"github.com/stepwell/stepwell/manual"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/view"
)

// program is what all commands share.
type program struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) (string, bool)
	environ  func() []string
	settings commonFlags
}

// run is the whole command: arguments in, exit code out.
func run(args []string, in io.Reader, out, errs io.Writer) int {
	p := &program{in: in, out: out, err: errs, env: os.LookupEnv, environ: os.Environ}
	root := p.root()
	if completing(args) {
		completion.Attach(root, p.completions())
	}
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	return p.exit(root.Execute())
}

func (p *program) root() *cobra.Command {
	var showVersion bool // before arguments and settings are looked at
	root := &cobra.Command{
		Use:   "stepwell",
		Short: "Run pipelines: graphs of steps that survive crashes and restarts",
		Long: "Stepwell runs pipelines (graphs of steps) that survive crashes and restarts. It keeps all data in the directory ./.stepwell; --data chooses another one.\n\n" +
			"A flag overrides its variable (--data: STEPWELL_DATA), which overrides the same key in the\n" +
			"settings file: stepwell.yaml in the working directory, or in the directory named by --data or\n" +
			"STEPWELL_DATA.",
		Args: func(cmd *cobra.Command, args []string) error {
			if showVersion {
				return nil
			}
			return p.unknownCommand(cmd, args)
		},
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if showVersion {
				return nil
			}
			return p.configure(cmd)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if showVersion {
				return p.writeVersion()
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVarP(&showVersion, "version", "v", false, "show the version")
	root.SetFlagErrorFunc(p.flagError)
	root.CompletionOptions.HiddenDefaultCmd = false
	root.AddCommand(
		p.newInitCommand(),
		p.newRunCommand(),
		p.newValidateCommand(),
		p.newLintCommand(),
		p.newPlanCommand(),
		p.newTestCommand(),
		p.newLabCommand(),
		p.newLSPCommand(),
		p.newMCPCommand(),
		p.newActionsCommand(),
		p.newModulesCommand(),
		p.newSchemaCommand(),
		p.newExecutionsCommand(),
		p.newBackfillCommand(),
		p.newPipelinesCommand(),
		p.newSchedulesCommand(),
		p.newWebhooksCommand(),
		p.newServerEventsCommand(),
		p.newApprovalsCommand(),
		p.newProjectsCommand(),
		p.newLessonsCommand(),
		p.newPipelineRunsCommand(),
		p.newSecretsCommand(),
		p.newKeysCommand(),
		p.newPolicyCommand(),
		p.newAuditCommand(),
		p.newServeCommand(),
		p.newWorkerCommand(),
		p.newPluginsCommand(),
		p.newClustersCommand(),
		p.newWorkersCommand(),
		p.newQueueCommand(),
		p.newBackupCommand(),
		p.newRestoreCommand(),
		p.newMigrateCommand(),
		p.newReadyCommand(),
		p.newDoctorCommand(),
		p.newStacCommand(),
		p.newManCommand(),
		p.newVersionCommand(),
		p.newBenchCommand(),
		p.newChaosCommand(),
		p.newDevCommand(),
	)
	manual.Layout(root, groups, p.helpWidth)
	return root
}

// groups are the commands by task, as the help lists them.
var groups = []manual.Group{
	{Title: "Write pipelines:", Commands: []string{"init", "validate", "lint", "plan", "test", "lab", "lsp", "mcp", "actions", "modules", "schema"}},
	{Title: "Run pipelines:", Commands: []string{"run", "executions", "approvals", "backfill"}},
	{Title: "Run a server:", Commands: []string{"serve", "pipelines", "schedules", "webhooks", "events"}},
	{Title: "Process projects:", Commands: []string{"projects", "lessons", "runs"}},
	{Title: "Add workers:", Commands: []string{"worker", "workers", "queue", "plugins", "clusters"}},
	{Title: "Control access:", Commands: []string{"secrets", "keys", "policy", "audit"}},
	{Title: "Maintain:", Commands: []string{"doctor", "ready", "backup", "restore", "migrate"}},
	{Title: "Work with STAC:", Commands: []string{"stac"}},
	{Title: "Try and measure:", Commands: []string{"dev", "bench", "chaos"}},
	{Title: "About the command:", Commands: []string{"help", "completion", "man", "version"}},
}

// widestHelp is how wide help gets on a wide terminal: longer lines are hard to read.
const widestHelp = 100

// helpWidth is how wide help may be: as the terminal, up to a width that reads well.
func (p *program) helpWidth() int {
	return min(view.Width(p.out, 80), widestHelp)
}

func (p *program) unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := fmt.Sprintf("`%s --help` lists the commands", cmd.CommandPath())
	near := manual.Suggest(cmd, args...)
	if cmd.HasParent() && len(near) == 0 {
		near = manual.Suggest(cmd.Root(), args...)
	}
	if len(near) > 0 {
		hint = "did you mean `" + strings.Join(near, "` or `") + "`?"
	} else if app.IsFile(args[0]) {
		hint = fmt.Sprintf("did you mean `%s run %s`?", cmd.Root().CommandPath(), args[0])
	}
	return stepwell.Invalid(hint, "unknown command %q", args[0])
}

// flagsElsewhere has flags of Airflow, Temporal and Dagu, and those that do the same here.
var flagsElsewhere = map[string]string{
	"port": "listen", "host": "listen", "bind": "listen", "ip": "listen",
	"conf": "param", "input": "param", "args": "param", "input-file": "params-file",
	"dag-id": "pipeline", "workflow-id": "pipeline", "type": "pipeline", "address": "server", "format": "output",
	"schedule": "cron", "expression": "cron", "tz": "timezone",
}

// flagError says in Stepwell's words what the flag parser did not like.
func (p *program) flagError(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return p.unknownCommand(cmd, args) // the flag is one of a command that does not exist
	}
	hint := fmt.Sprintf("`%s --help` lists the flags", cmd.CommandPath())
	if name, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		near := spec.Closest(name, names)
		if same := flagsElsewhere[name]; cmd.Flags().Lookup(same) != nil {
			near = same
		}
		switch {
		case near != "":
			hint = "did you mean --" + near + "?"
		case cmd.Flags().Lookup("param") != nil:
			hint = fmt.Sprintf("a parameter is given as -p %s=VALUE; %s", name, hint)
		}
	}
	return stepwell.Invalid(hint, "%s", err.Error())
}

// arguments checks how many there are; what is what they are called, in capitals.
func arguments(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		hint := "usage: " + cmd.UseLine()
		switch {
		case len(args) < least:
			return stepwell.Invalid(hint, "%s is missing", what)
		case most >= 0 && len(args) > most:
			if strings.Contains(args[most], "=") && cmd.Flags().Lookup("param") != nil {
				hint = fmt.Sprintf("a parameter is given as -p %s", args[most])
			}
			return stepwell.Invalid(hint, "%q is one argument too many", args[most])
		}
		return nil
	}
}

// log takes Stepwell's own messages, which are warnings and worse: the rest is in the output.
func (p *program) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(p.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func notFound(hint, format string, args ...any) error {
	return &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf(format, args...), Hint: hint}
}
