// Package settings reads what a user configures: the settings file, the environment over it, and .env files; it checks
// them, and fills the options that package app takes.
package settings

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
)

// File is the name of the settings file. It is in the data directory, if one is named, else in the working directory.
const File = "stepwell.yaml"

// maxFile is the size of the settings file in bytes.
const maxFile = 64 << 10

// Flags are the flags that a variable and the settings file may give too.
var Flags = []string{"data", "db", "workers", "sync", "lenient", "queue"}

// Settings are the sections of the settings file.
type Settings struct {
	Outgoing
	Serving
}

// document is the settings file: the values of flags, and the sections.
type document struct {
	Data    string `json:"data"`
	DB      string `json:"db"`
	Workers string `json:"workers"`
	Sync    string `json:"sync"`
	Lenient string `json:"lenient"`
	Queue   string `json:"queue"`
	Settings
}

// The shapes are made when they are first needed: most commands read neither.
var (
	settingsShape = sync.OnceValue(func() *spec.Shape {
		return spec.NewShape(document{}, []spec.Keys{{Of: document{}, What: "the settings"}})
	})
	servingShape = sync.OnceValue(func() *spec.Shape { return spec.NewShape(Serving{}, nil) })
)

// Read reads the settings file strictly: the values of flags, and the sections. A file that does not exist leaves the
// defaults.
func Read(name string) (map[string]string, *Settings, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Settings{Serving: Default()}, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("settings: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, nil, fmt.Errorf("settings: %w", err)
	}
	if len(raw) > maxFile {
		return nil, nil, stepwell.Invalid("", "%s is larger than %d KiB", name, maxFile>>10)
	}
	return Parse(name, raw)
}

// Parse reads the text of a settings file; errors name it.
func Parse(name string, raw []byte) (map[string]string, *Settings, error) {
	n, report := definition.Nodes(name, raw)
	doc, values := document{Settings: Settings{Serving: Default()}}, map[string]string{}
	if n != nil {
		(&spec.Decoder{Report: report}).Struct(n, "", settingsShape(), &doc, func(e spec.Entry) bool {
			if e.Value.Kind == spec.ScalarNode && slices.Contains(Flags, e.Key) {
				values[e.Key] = e.Value.Text
				return true
			}
			return false
		})
	}
	return values, &doc.Settings, firstError("", "", report)
}

// firstError is the first error of a report; from stands before it.
func firstError(from, hint string, r *spec.Report) error {
	for _, p := range r.Problems() {
		if !p.Warning {
			hint, p.Hint = cmp.Or(p.Hint, hint), ""
			return stepwell.Invalid(hint, "%s", strings.TrimPrefix(from+": "+p.String(), ": "))
		}
	}
	return nil
}
