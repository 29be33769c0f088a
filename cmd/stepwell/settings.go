package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/settings"
)

// commonFlags are the values of the flags that several commands have.
type commonFlags struct {
	taping   *taping // nil: nothing is recorded, and nothing answered from recordings
	memory   bool    // there is no database: executions end with the process
	data     string  // the data directory, "" when the database is elsewhere
	db       string  // the database file
	file     string  // the settings file, whether it exists or not
	workers  int
	sync     choice
	lenient  bool
	online   bool   // clusters are asked about steps that are validated
	queue    string // address of the Redis server with the lists of steps
	outgoing settings.Outgoing
	serving  settings.Serving // from file; `serve` and what speaks to it put the environment over it
}

func (s *commonFlags) addDB(f *pflag.FlagSet) {
	name := "data"
	if f.Lookup(name) != nil { // of an event
		name = "data-dir"
	}
	f.StringVar(&s.data, name, "", "data `directory`: database, large outputs, streams, keys, settings (default "+app.DefaultData+")")
	f.StringVar(&s.db, "db", "", "database `file` outside of a data directory, or a postgres:// URL")
}

// settingFlag is the flag of a setting, nil for none.
func settingFlag(f *pflag.FlagSet, name string) *pflag.Flag {
	if f.Lookup("data-dir") != nil && name == "data" {
		name = "data-dir"
	}
	return f.Lookup(name)
}

func (s *commonFlags) addRun(f *pflag.FlagSet) {
	s.addDB(f)
	s.sync = choice{"full", []string{"full", "normal"}}
	f.IntVar(&s.workers, "workers", usualWorkers(), "how many steps run at once")
	f.Var(&s.sync, "sync", "what a commit survives: full (loss of power) or normal (a crash of the process)")
}

// usualWorkers is how many steps run at once where no setting says it.
func usualWorkers() int { return max(8, 4*runtime.NumCPU()) }

func (s *commonFlags) addLenient(f *pflag.FlagSet) {
	f.BoolVar(&s.lenient, "lenient", false, "unknown keys in a pipeline are warnings instead of errors")
}

// configure fills the flags that were not given from the environment and from the settings file.
func (p *program) configure(cmd *cobra.Command) error {
	if err := p.locateSettings(cmd); err != nil {
		return err
	}
	file, sections, err := settings.Read(p.settings.file)
	if err != nil {
		return err
	}
	p.settings.outgoing, p.settings.serving = sections.Outgoing, sections.Serving
	settings.WarnOfVariables(p.err, p.environ())
	for _, name := range settings.Flags {
		flag := settingFlag(cmd.Flags(), name)
		if flag == nil || flag.Changed {
			continue
		}
		variable := "STEPWELL_" + strings.ToUpper(name)
		value, ok := p.env(variable)
		from := variable
		if !ok || value == "" {
			if value, ok = file[name]; !ok {
				continue
			}
			from = p.settings.file + ": " + name
		}
		if err := flag.Value.Set(value); err != nil {
			return stepwell.Invalid("", "%s: %s", from, flagValueError(value, err))
		}
	}
	least := 1
	if cmd.Name() == "serve" {
		least = 0
	}
	if f := cmd.Flags().Lookup("workers"); f != nil && (p.settings.workers < least || p.settings.workers > 10_000) {
		return stepwell.Invalid(fmt.Sprintf("give a number from %d to 10000", least), "workers: %d is out of range", p.settings.workers)
	}
	return p.locateData(cmd)
}

func flagValueError(value string, err error) string {
	if _, ok := errors.AsType[*stepwell.Error](err); ok {
		return err.Error()
	}
	return fmt.Sprintf("%q is not a value for it", value)
}

// choice is a flag that takes one of a few words.
type choice struct {
	value   string
	allowed []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.allowed, "|") }

// Set implements pflag.Value.
func (c *choice) Set(value string) error {
	if !slices.Contains(c.allowed, value) {
		return stepwell.Invalid("", "%q is not one of %s", value, strings.Join(c.allowed, ", "))
	}
	c.value = value
	return nil
}

// format adds -o with the forms that a command can write.
func format(f *pflag.FlagSet, allowed ...string) *choice {
	c := &choice{allowed[0], allowed}
	f.VarP(c, "output", "o", "form of the output")
	return c
}

// clock is the machine's. A test shifts it.
var clock = time.Now

// options are those of an App that go with the settings.
func (p *program) options() (app.Options, error) {
	o := app.Options{Data: p.settings.data, Synchronous: p.settings.sync.value, Workers: p.settings.workers, Memory: p.settings.memory, Now: clock}
	if o.Data == "" || !p.settings.inFile() {
		o.DB = p.settings.db
	}
	p.settings.serving.AddTo(&o, p.env)
	err := p.settings.outgoing.AddTo(&o, p.env)
	o.Kubernetes.Online = p.settings.online
	if t := p.settings.taping; t != nil {
		o.Tape, o.Replay = t.tape, t.replays
	}
	return o, err
}

// registry has the actions that go with the settings.
func (p *program) registry() (*action.Registry, error) {
	o, err := p.options()
	if err != nil {
		return nil, err
	}
	return app.Actions(o)
}
