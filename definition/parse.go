package definition

import (
	"bytes"
	"maps"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

// ParseOptions steer Parse. The zero value reads a document strictly and leaves ${…} alone.
type ParseOptions struct {
	// File is the name that problems carry. A name that ends in .json makes broken documents be
	// reported as JSON. Defaults to none.
	File string
	// Lenient turns unknown keys into warnings. Defaults to false: they are errors.
	Lenient bool
	// Env looks up the variables of ${NAME} and ${NAME:-default}. Defaults to nil: unless Vars are
	// given, ${ stays in the document as it is.
	Env func(name string) (string, bool)
	// Sent marks a document from another machine's environment: ${NAME} is a problem, $${ stands for ${.
	Sent bool
	// Stored says that it was taken by an earlier version, which left ${ as it was: it stays, and $${ stands for ${.
	Stored bool
	// Dotenv reads the file that input_secrets.dotenv_path names: variables that come behind Env. Defaults to
	// nil: the key has no effect.
	Dotenv func(path string) (map[string]string, error)
	// Vars come before Env (stac-manager: strategy.matrix). Defaults to none.
	Vars map[string]string
}

// Parse reads a pipeline document, YAML or JSON, and reports all problems of its single parts, in document order;
// Check finds those that need the whole. The definition is nil when the text is unreadable; otherwise it holds the
// valid parts, and is usable when Problems.Err is nil. Other forms are normalised: a for_each written as an action
// becomes a step with for_each, and target_step in the branches of a conditional or switch becomes a dependency and a
// condition of the target. Documents of more than 32 MiB or about two million values, deeper than 100 levels or with
// aliases that multiply are refused at once.
func Parse(src []byte, opts ParseOptions) (*Definition, Problems) {
	r := &spec.Report{File: opts.File}
	if !bytes.Contains(src, []byte("matrix")) && !bytes.Contains(src, []byte("dotenv_path")) {
		return parse(src, opts, opts.Vars, r)
	}
	peek := &spec.Report{File: opts.File}
	l := &loader{src: src, file: opts.File, report: peek}
	n := l.load()
	if n == nil {
		return nil, peek.Problems()
	}
	d := newDecoder(r, opts.Lenient)
	dotenv, m := d.first(n)
	if err := d.dotenv(dotenv, &opts); err != nil {
		return nil, r.Problems()
	}
	if m == nil {
		return parse(src, opts, opts.Vars, r)
	}
	all := make([]*Definition, len(m.ids))
	for i, id := range m.ids {
		mine := &spec.Report{File: opts.File}
		values := vars(m.entries[i])
		maps.Copy(values, opts.Vars)
		all[i], _ = parse(src, opts, values, mine)
		r.Merge(mine)
		if all[i] == nil {
			return nil, r.Problems()
		}
		all[i].Entry, all[i].Offer = id, offer(src, m.entries[i])
	}
	return combine(m, all), r.Problems()
}

// dotenv puts the variables of the file behind those of the environment.
func (d *decoder) dotenv(e spec.Entry, opts *ParseOptions) error {
	if e.Value == nil || opts.Dotenv == nil {
		return nil
	}
	values, err := opts.Dotenv(e.Value.Text)
	if err != nil {
		d.Fail(e.At(), "input_secrets.dotenv_path", err.Error(), stepwell.HintOf(err))
		return err
	}
	env := opts.Env
	opts.Env = func(name string) (string, bool) {
		if env != nil {
			if v, ok := env(name); ok && v != "" {
				return v, true
			}
		}
		v, ok := values[name]
		return v, ok
	}
	return nil
}

// parse reads the document once, with the variables put in.
func parse(src []byte, opts ParseOptions, vars map[string]string, r *spec.Report) (*Definition, Problems) {
	l := &loader{src: src, file: opts.File, report: r, fill: substitution{env: opts.Env, vars: vars, sent: opts.Sent, stored: opts.Stored, report: r}}
	n := l.load()
	if n == nil {
		return nil, r.Problems()
	}
	d := newDecoder(r, opts.Lenient)
	def := d.pipeline(n)
	(&router{Report: r, suggestions: 100}).pipeline(def)
	return def, r.Problems()
}
