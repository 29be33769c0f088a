package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
)

// settingsFile is looked for in the data directory, if one is named, else in the working directory.
const settingsFile = "stepwell.yaml"

// maxSettings is the size of the settings file in bytes.
const maxSettings = 64 << 10

// settingNames are the flags that a variable and the settings file may give too.
var settingNames = []string{"data", "db", "workers", "sync", "lenient", "queue"}

// settings are the values of the flags that several commands have.
type settings struct {
	data     string // the data directory, "" when the database is elsewhere
	db       string // the database file
	file     string // the settings file, whether it exists or not
	workers  int
	sync     choice
	lenient  bool
	queue    string // address of the Redis server with the lists of steps
	outgoing outgoing
	serving  serving // from file; `serve` and what speaks to it put the environment over it
}

func (s *settings) addDB(f *pflag.FlagSet) {
	name := "data"
	if f.Lookup(name) != nil { // of an event
		name = "data-dir"
	}
	f.StringVar(&s.data, name, "", "data `directory`: database, large outputs, streams, keys, settings (default "+app.DefaultData+")")
	f.StringVar(&s.db, "db", "", "database `file` outside of a data directory")
}

// settingFlag is the flag of a setting, nil for none.
func settingFlag(f *pflag.FlagSet, name string) *pflag.Flag {
	if f.Lookup("data-dir") != nil && name == "data" {
		name = "data-dir"
	}
	return f.Lookup(name)
}

func (s *settings) addRun(f *pflag.FlagSet) {
	s.addDB(f)
	s.sync = choice{"full", []string{"full", "normal"}}
	f.IntVar(&s.workers, "workers", max(8, 4*runtime.NumCPU()), "how many steps run at once")
	f.Var(&s.sync, "sync", "what a commit survives: full (loss of power) or normal (a crash of the process)")
}

func (s *settings) addLenient(f *pflag.FlagSet) {
	f.BoolVar(&s.lenient, "lenient", false, "unknown keys in a pipeline are warnings instead of errors")
}

// configure fills the flags that were not given from the environment and from the settings file.
func (p *program) configure(cmd *cobra.Command) error {
	if err := p.locateSettings(cmd); err != nil {
		return err
	}
	file, sections, err := readSettings(p.settings.file)
	if err != nil {
		return err
	}
	p.settings.outgoing, p.settings.serving = sections.outgoing, sections.serving
	p.warnOfVariables()
	for _, name := range settingNames {
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
	return fmt.Sprintf("%q is no value for it", value)
}

// sections are the settings with keys of their own.
type sections struct {
	outgoing
	serving
}

// settingsDocument is the settings file: the values of flags, and the sections.
type settingsDocument struct {
	Data    string `json:"data"`
	DB      string `json:"db"`
	Workers string `json:"workers"`
	Sync    string `json:"sync"`
	Lenient string `json:"lenient"`
	Queue   string `json:"queue"`
	sections
}

// The shapes are made when they are first needed: most commands read neither.
var (
	settingsShape = sync.OnceValue(func() *spec.Shape {
		return spec.NewShape(settingsDocument{}, []spec.Keys{{Of: settingsDocument{}, What: "the settings"}})
	})
	servingShape = sync.OnceValue(func() *spec.Shape { return spec.NewShape(serving{}, nil) })
)

// readSettings reads the settings file strictly; none is fine.
func readSettings(name string) (map[string]string, *sections, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &sections{serving: defaultServing()}, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("settings: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	if err != nil {
		return nil, nil, fmt.Errorf("settings: %w", err)
	}
	if len(raw) > maxSettings {
		return nil, nil, stepwell.Invalid("", "%s is larger than %d KiB", name, maxSettings>>10)
	}
	return parseSettings(name, raw)
}

// parseSettings gives the values of flags, and the sections.
func parseSettings(name string, raw []byte) (map[string]string, *sections, error) {
	n, report := definition.Nodes(name, raw)
	doc, values := settingsDocument{sections: sections{serving: defaultServing()}}, map[string]string{}
	if n != nil {
		(&spec.Decoder{Report: report}).Struct(n, "", settingsShape(), &doc, func(e spec.Entry) bool {
			if e.Value.Kind == spec.ScalarNode && slices.Contains(settingNames, e.Key) {
				values[e.Key] = e.Value.Text
				return true
			}
			return false
		})
	}
	return values, &doc.sections, settingsError("", "", report)
}

// settingsError is the first error of a report; from stands before it.
func settingsError(from, hint string, r *spec.Report) error {
	for _, p := range r.Problems() {
		if !p.Warning {
			hint, p.Hint = cmp.Or(p.Hint, hint), ""
			return stepwell.Invalid(hint, "%s", strings.TrimPrefix(from+": "+p.String(), ": "))
		}
	}
	return nil
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
