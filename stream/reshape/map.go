package reshape

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
)

const mapDoc = "All values are made first, of the item as it came; then `rename` moves, `remove` takes away and `set` sets, in this order. " +
	"A path names members with dots between them (`properties.title`), a member with a dot in its name in quotes (`assets.\"a.tif\".href`), an element " +
	"(`providers[0].name`), or every member or element with a `*` (`assets.*.href`). `set` makes the objects that are missing on the way; with a `*` it sets " +
	"what exists. A path that names nothing is nothing to remove or rename. A single `{{ }}` keeps its type: `\"{{ item.properties.gsd }}\"` is a number where that is one. " +
	"An item for which a template cannot be evaluated, or a path leads through a text or a number, is recorded as a failure that names the path."

func mapModule() stream.Module {
	return stream.Typed[mapConfig]{
		Spec: spec.Spec{
			Name:    "stream.map",
			Summary: "Sets, removes and renames what is in the items.",
			Doc:     mapDoc,
			Effect:  spec.NoEffect,
			Stream: &spec.Stream{Role: spec.Modifier, Parallel: true,
				Sets: []spec.Sets{{Keys: "set"}, {Values: "remove"}, {Keys: "rename"}, {Values: "rename"}}},
			Examples: []spec.Example{
				{Title: "bring items of another catalog into shape", YAML: "id: shaped\nmodule: stream.map\ndepends_on: [scenes]\nconfig:\n  rename:\n    properties.cloudCover: properties.eo:cloud_cover\n" +
					"  remove: [properties.internal, assets.*.token]\n  set:\n    collection: \"{{ params.collection }}\"\n    properties.title: \"{{ item.id|upper }}\"\n    properties.keywords: [\"{{ item.properties.platform }}\", optical]"},
			},
		},
		Open: func(_ context.Context, env *stream.Env, c *mapConfig) (any, error) {
			m, problems := newMapper(c, stream.Config{}, func(t *expr.Template) error { return unseen(t, env.Scope) })
			if err := badConfig(problems); err != nil {
				return nil, err
			}
			m.under = env.Scope
			return m, nil
		},
		Check: func(c *mapConfig, given stream.Config) []error {
			if !given.Early {
				return nil // Open says so
			}
			_, problems := newMapper(c, given, nil)
			return problems
		},
	}.Module()
}

type mapConfig struct {
	Set    map[string]any `json:"set" spec:"raw" names:"item" doc:"The values by their paths: of any type, and with templates about \x60item\x60 in them."`
	Remove []string       `json:"remove" doc:"The paths to remove."`
	Rename map[string]any `json:"rename" doc:"New paths by the old ones: both with as many * in the same order."`
}

// mapper is the operations of stream.map, in their order.
type mapper struct {
	under  expr.Scope
	rename []renaming // deeper paths first, so that a member can leave a renamed parent
	remove []item.Path
	set    []setting // deeper paths last, so that they are set inside of new parents
}

type renaming struct {
	from, to item.Path
	several  bool // there are stars
}

type setting struct {
	path item.Path
	name string // the path as it is written
	make maker
}

// newMapper reads a config. In a mere check, values rendered before Open may still hold templates, and the check of the
// definition, which knows the lines, reports syntax errors in values.
func newMapper(c *mapConfig, given stream.Config, look func(*expr.Template) error) (*mapper, []error) {
	m, r := &mapper{}, &reader{checked: given.Early}
	for name, value := range c.Set {
		made, err := compile(value, look)
		if _, wrong := errors.AsType[*expr.Error](err); err != nil && !(wrong && given.Early) {
			r.problem("set "+name, syntax(err))
		}
		m.set = append(m.set, setting{r.key("set", name), name, made})
	}
	for _, text := range c.Remove {
		m.remove = append(m.remove, r.path("remove", text))
	}
	for from, to := range c.Rename {
		text, ok := to.(string)
		if !ok {
			r.problem("rename "+from, errors.New("the new path is not a text"))
			continue
		}
		n := renaming{from: r.key("rename", from), to: r.path("rename", text)}
		n.several = stars(n.from) > 0
		m.rename = append(m.rename, n)
	}
	if len(c.Set)+len(c.Remove)+len(c.Rename) == 0 && !given.Pending() {
		r.problem("config", stepwell.Invalid("give set, remove or rename", "nothing to do"))
	}
	m.sort()
	m.conflicts(r)
	slices.SortFunc(r.problems, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return m, r.problems
}

// reader reads paths and collects their errors.
type reader struct {
	checked  bool
	problems []error
}

func (r *reader) problem(where string, err error) {
	r.problems = append(r.problems, fmt.Errorf("%s: %w", where, err))
}

// path is nil when it is wrong, or not known before its templates are rendered.
func (r *reader) path(field, text string) item.Path {
	if r.checked && strings.Contains(text, "{{") {
		return nil
	}
	p, err := item.ParsePath(text)
	if err != nil {
		r.problem(field, err)
	}
	return p
}

// key is a path that stands where templates are not rendered.
func (r *reader) key(field, text string) item.Path {
	if strings.Contains(text, "{{") {
		r.problem(field, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "path " + strconv.Quote(text) + " has a template in it", Hint: "templates are for values"})
		return nil
	}
	return r.path(field, text)
}

// sort makes the order independent of that of a config's keys, which has none.
func (m *mapper) sort() {
	slices.SortFunc(m.set, func(a, b setting) int { return cmp.Or(len(a.path)-len(b.path), cmp.Compare(a.name, b.name)) })
	slices.SortFunc(m.rename, func(a, b renaming) int {
		return cmp.Or(len(b.from)-len(a.from), cmp.Compare(a.from.String(), b.from.String()))
	})
}

// conflicts finds new paths that two have, or that cannot be told from the old ones.
func (m *mapper) conflicts(r *reader) {
	targets := map[string]string{}
	for _, n := range m.rename {
		if n.from == nil || n.to == nil { // wrong already, or a template
			continue
		}
		from, to := n.from.String(), n.to.String()
		if other, taken := targets[to]; taken {
			r.problem("rename", fmt.Errorf("both %s and %s become %s", other, from, to))
		}
		targets[to] = from
		if stars(n.from) != stars(n.to) {
			r.problem("rename", fmt.Errorf("%s has %d *, %s has %d", from, stars(n.from), to, stars(n.to)))
		}
	}
}

func stars(p item.Path) (n int) {
	for _, s := range p {
		if s.Any {
			n++
		}
	}
	return n
}

// Modify implements stream.Modifier.
func (m *mapper) Modify(_ context.Context, it *stream.Item) (*stream.Item, error) {
	var few [8]*item.Value
	values := few[:0]
	s := &scope{it.Value, m.under}
	for i := range m.set {
		val, err := m.set[i].make.make(s)
		if err != nil {
			return nil, failed("set", m.set[i].name, err)
		}
		values = append(values, val)
	}
	if err := m.move(it.Value); err != nil {
		return nil, err
	}
	for _, p := range m.remove {
		it.Drop(p)
	}
	next := &supply{}
	put := next.take // one closure for all
	for i := range m.set {
		*next = supply{val: values[i]}
		if err := it.Put(m.set[i].path, true, put); err != nil {
			return nil, failed("set", m.set[i].name, err)
		}
	}
	return it, nil
}

// supply gives a value to all places of a path: the first gets it, the others clones.
type supply struct {
	val  *item.Value
	used bool
}

func (s *supply) take([]string, *item.Value) (*item.Value, error) {
	if s.used {
		return s.val.Clone(), nil
	}
	s.used = true
	return s.val, nil
}

// moved are the values that a renaming removed: one, or several by the names matched by the stars.
type moved struct {
	r      *renaming
	one    *item.Value
	places map[string]*item.Value
}

// move takes all that is renamed away before it puts it, so that names can be swapped.
func (m *mapper) move(v *item.Value) error {
	if len(m.rename) == 0 {
		return nil
	}
	var few [4]moved
	all := few[:0]
	for i := range m.rename {
		taken := moved{r: &m.rename[i]}
		if taken.from(v) {
			v.Drop(taken.r.from)
			all = append(all, taken)
		}
	}
	for i := range all {
		if err := all[i].to(v); err != nil {
			return failed("rename", all[i].r.from.String(), err)
		}
	}
	return nil
}

// from reports whether there is something to move.
func (m *moved) from(v *item.Value) bool {
	if !m.r.several {
		m.one = v.Find(m.r.from).Clone()
		return m.one != nil
	}
	m.places = map[string]*item.Value{}
	v.Walk(m.r.from, func(stars []string, at *item.Value) bool {
		m.places[starred(stars)] = at.Clone()
		return true
	})
	return len(m.places) > 0
}

func (m *moved) to(v *item.Value) error {
	err := v.Put(m.r.to, true, func(stars []string, _ *item.Value) (*item.Value, error) {
		if !m.r.several {
			return m.one, nil
		}
		key := starred(stars)
		val := m.places[key]
		delete(m.places, key)
		return val, nil
	})
	if err == nil && len(m.places) > 0 {
		err = fmt.Errorf("%s is not there for each * of %s", m.r.to, m.r.from)
	}
	return err
}

// starred makes a key of the names matched by the stars. They are quoted, so that keys are unique.
func starred(stars []string) string { return fmt.Sprintf("%q", stars) }

// failed is the failure of one item, which names the field.
func failed(what, path string, err error) error {
	return &stream.Error{Type: stream.DataProcessing, Context: stream.Context{Field: path}, Err: fmt.Errorf("%s %s: %w", what, path, err)}
}
