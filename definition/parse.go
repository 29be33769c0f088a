package definition

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
	// Vars come before Env (stac-manager: strategy.matrix). Defaults to none.
	Vars map[string]string
}

// Parse reads a pipeline document, YAML or JSON, and gives all problems it can find by looking at
// each part on its own, in document order; Check finds those that need the whole. The definition is
// nil when the text cannot be read at all; otherwise it holds what was good, and is usable when
// Problems.Err is nil. What other forms stand for has been written out: a for_each written as an action
// is a step with for_each, and target_step in the branches of a conditional or switch is a dependency
// and a condition of the step that it names. Documents of more than 32 MiB or about two million values, deeper than 100
// levels or with aliases that multiply are refused at once.
func Parse(src []byte, opts ParseOptions) (*Definition, Problems) {
	r := &report{file: opts.File}
	l := &loader{src: src, file: opts.File, report: r, fill: substitution{env: opts.Env, vars: opts.Vars, report: r}}
	n := l.load()
	if n == nil {
		return nil, r.problems()
	}
	d := &decoder{report: r, lenient: opts.Lenient}
	def := d.pipeline(n)
	(&router{report: r, suggestions: 100}).pipeline(def)
	return def, r.problems()
}
