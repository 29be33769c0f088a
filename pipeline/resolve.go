package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
)

// maxParts is how many stored pipelines one execution may consist of.
const maxParts = 100

// parsed is one version's document, read.
type parsed struct {
	id       string
	version  int
	def      *definition.Definition
	problems definition.Problems
}

func (p *parsed) key() string { return fmt.Sprintf("%s@%d", p.id, p.version) }

// whole is a pipeline with all pipelines that it runs.
type whole struct {
	root     *definition.Definition // shares no maps with cached values
	problems definition.Problems
	key      string // names the versions it consists of; "" when one of them is not stored
}

// Validate reads a document and gives everything that is wrong with it, in document order. Pipelines that its steps
// run are looked up among the stored ones. The definition is nil when the text cannot be read at all. An error is about
// the store, not about the document.
func (l *Library) Validate(ctx context.Context, document []byte) (*definition.Definition, definition.Problems, error) {
	def, problems := definition.Parse(document, definition.ParseOptions{Sent: true})
	if def == nil {
		return nil, problems, nil
	}
	w, err := l.assemble(ctx, &parsed{def: def, problems: problems})
	if err != nil {
		return nil, nil, err
	}
	return w.root, w.problems, nil
}

// Outline is what an editor draws of a definition that Validate has made of document.
func (l *Library) Outline(d *definition.Definition, document []byte) *definition.Outline {
	return definition.OutlineOf(d, l.o.Catalog, document)
}

// assemble adds the stored pipelines that steps run, at any depth, and checks the whole.
func (l *Library) assemble(ctx context.Context, root *parsed) (*whole, error) {
	copied := *root.def
	w := &whole{root: &copied, problems: slices.Clone(root.problems)}
	copied.Pipelines = maps.Clone(root.def.Pipelines)
	keys := []string{root.key()}
	for todo := []*definition.Definition{root.def}; len(todo) > 0; todo = todo[1:] {
		for _, name := range todo[0].Calls() {
			if copied.Pipelines[name] != nil {
				continue
			}
			sub, err := root, error(nil) // its own name means itself, which Check refuses as a circle
			if name != root.def.Name {
				sub, err = l.active(ctx, name)
			}
			if stepwell.CodeOf(err) == stepwell.CodeNotFound {
				continue // Check says that it is unknown, and where
			}
			if err != nil {
				return nil, err
			}
			if len(keys) > maxParts {
				return nil, &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("%s consists of more than %d pipelines", copied.Name, maxParts)}
			}
			if sub.problems.Err() != nil {
				w.problems = append(w.problems, definition.Problem{Message: fmt.Sprintf("the stored pipeline %q, which a step runs, has errors", name)})
			}
			if copied.Pipelines == nil {
				copied.Pipelines = map[string]*definition.Definition{}
			}
			part := *sub.def
			part.Pipelines = nil
			copied.Pipelines[name] = &part
			keys = append(keys, name+"="+sub.key())
			todo = append(todo, sub.def)
		}
	}
	w.problems = append(w.problems, definition.Check(&copied, l.o.Catalog, "")...)
	slices.SortStableFunc(w.problems, inDocument)
	if root.id != "" {
		w.key = strings.Join(keys, " ")
	}
	return w, nil
}

// inDocument orders problems by place, those without one last.
func inDocument(a, b definition.Problem) int {
	if (a.Line == 0) != (b.Line == 0) {
		return cmp.Compare(b.Line, a.Line)
	}
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}

// active reads the active version of a stored pipeline.
func (l *Library) active(ctx context.Context, idOrName string) (*parsed, error) {
	p, _, err := l.stored(ctx, idOrName, 0)
	return p, err
}

// stored reads a version of a stored pipeline, the active one for 0.
func (l *Library) stored(ctx context.Context, idOrName string, version int) (*parsed, head, error) {
	o, h, err := l.head(ctx, idOrName)
	if err != nil {
		return nil, h, err
	}
	if version == 0 {
		version = h.active()
	}
	p := &parsed{id: o.ID, version: version}
	l.mu.Lock()
	known := l.parsed[p.key()]
	l.mu.Unlock()
	if known != nil {
		return known, h, nil
	}
	v, err := l.version(ctx, o, h, version)
	if err != nil {
		return nil, h, err
	}
	p.def, p.problems = definition.Parse([]byte(v.Document), definition.ParseOptions{Stored: true})
	if p.def == nil {
		return nil, h, &stepwell.Error{Code: stepwell.CodeInternal, Message: "the stored document of " + o.Name + " cannot be read", Err: p.problems.Err()}
	}
	p.def.Author = &definition.Author{Role: cmp.Or(v.Role, unknownRole), Pipeline: o.ID, Name: p.def.Name}
	l.mu.Lock()
	defer l.mu.Unlock()
	remember(l.parsed, p.key(), p, l.o.Cache)
	return p, h, nil
}

// ready is the conductor's form of a pipeline, and the actions that its steps use.
type ready struct {
	pipeline *conductor.Pipeline
	uses     []use
}

// prepared finds or makes the conductor's form. CodeDenied when its steps use something that the policy now forbids.
func (l *Library) prepared(ctx context.Context, root *parsed) (*conductor.Pipeline, error) {
	r, err := l.made(ctx, root)
	if err != nil {
		return nil, err
	}
	return r.pipeline, l.allowed(r.uses)
}

func (l *Library) made(ctx context.Context, root *parsed) (*ready, error) {
	if plain := len(root.def.Calls()) == 0; plain {
		l.mu.Lock()
		known := l.ready[root.key()]
		l.mu.Unlock()
		if known != nil && root.id != "" {
			return known, nil
		}
	}
	w, err := l.assemble(ctx, root)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	known := l.ready[w.key]
	l.mu.Unlock()
	if known != nil && w.key != "" {
		return known, nil
	}
	if err := w.problems.Err(); err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the pipeline " + w.root.Name + " has errors", Err: err}
	}
	out := &ready{uses: uses(w.root)}
	if err := l.allowed(out.uses); err != nil {
		return nil, err
	}
	if out.pipeline, err = l.o.Runner.Register(ctx, l.o.Defaults.apply(w.root, l.o.Catalog)); err != nil || w.key == "" {
		return out, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	remember(l.ready, w.key, out, l.o.Cache)
	return out, nil
}

// remember keeps a value in a bounded cache; any other one makes room for it.
func remember[T any](cache map[string]T, key string, value T, most int) {
	if len(cache) >= most {
		for other := range cache {
			delete(cache, other)
			break
		}
	}
	cache[key] = value
}

// Snapshot is the definition that an execution of a document would run now, written out in full, as its snapshot is; with an empty document
// that of a stored pipeline's version, the active one for 0. CodeInvalid: it has errors.
func (l *Library) Snapshot(ctx context.Context, idOrName string, version int, document []byte) (*definition.Definition, error) {
	root := &parsed{}
	if len(document) > 0 {
		if root.def, root.problems = definition.Parse(document, definition.ParseOptions{Sent: true}); root.def == nil {
			return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the document cannot be read", Err: root.problems.Err()}
		}
	} else {
		var err error
		if root, _, err = l.stored(ctx, idOrName, version); err != nil {
			return nil, err
		}
	}
	w, err := l.assemble(ctx, root)
	if err != nil {
		return nil, err
	}
	if err := w.problems.Err(); err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the pipeline " + w.root.Name + " has errors", Err: err}
	}
	return definition.Expand(l.o.Defaults.apply(w.root, l.o.Catalog), l.o.Catalog), nil
}
