package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/partition"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// The states of a partition.
const (
	Missing = "missing" // nothing has made it
	Running = "running" // an execution for it has not ended
	Failed  = "failed"  // the last execution for it did not complete
	Stale   = "stale"   // it was made by a definition that does something else
	Done    = "done"
)

// letters are the states in Table.Grid.
var letters = map[string]byte{Missing: '.', Running: 'r', Failed: 'f', Stale: 's', Done: 'd'}

// StateOf is the state that a character of a Table's Grid stands for; "" for another one.
func StateOf(letter byte) string {
	for state, l := range letters {
		if l == letter {
			return state
		}
	}
	return ""
}

// Table is the partitions of a pipeline and their states.
type Table struct {
	ID         string         `json:"pipeline_id"`
	Name       string         `json:"name"`
	Version    int            `json:"version" doc:"The active one, with whose definition the partitions are compared; 0: with the document of the request."`
	By         []string       `json:"by" nullable:"false" doc:"The parameters that name a partition."`
	Axes       [][]string     `json:"axes" nullable:"false" doc:"The values of each of them. The partitions are their combinations, the last parameter first to change."`
	Grid       string         `json:"grid" doc:"The states of all partitions in that order, one character each: . missing, r running, f failed, s stale, d done."`
	Counts     map[string]int `json:"counts" doc:"How many partitions are in each state."`
	Partitions []Partition    `json:"partitions" nullable:"false" doc:"Those that were asked for, in that order."`
	More       bool           `json:"more" doc:"There are more of them than limit."`
}

// Partition is one of them.
type Partition struct {
	Key       string        `json:"partition"`
	Values    []string      `json:"values" nullable:"false"`
	State     string        `json:"state" enum:"missing,running,failed,stale,done"`
	Execution resource.Ref  `json:"execution_id" doc:"The one that runs, or tried last."`
	Version   int           `json:"version,omitempty" doc:"Of the pipeline, that it was made with, or tried."`
	Ended     resource.Time `json:"ended_at"`
	Why       string        `json:"why,omitempty"`
}

// Filter selects the partitions that a Table tells more of.
type Filter struct {
	States []string `query:"state" doc:"Only partitions in one of these states: missing, running, failed, stale, done. Default: all."`
	Limit  int      `query:"limit" minimum:"0" maximum:"10000" default:"100" doc:"At most so many; the grid has all in any case."`
}

// Table says in which state the partitions of a stored pipeline are. With a document, they are compared with that instead of with
// the active version; its name then says which pipeline, where idOrName is empty. CodeNotFound; CodeInvalid: the pipeline has no partitions.
func (g *Ledger) Table(ctx context.Context, idOrName string, document []byte, f Filter) (*Table, error) {
	for _, s := range f.States {
		if letters[s] == 0 {
			return nil, stepwell.Invalid("missing, running, failed, stale or done", "there is no state %q", stepwell.Clip(s, 40))
		}
	}
	d, err := g.o.Library.Snapshot(ctx, idOrName, 0, document)
	if err != nil {
		return nil, err
	}
	if idOrName == "" {
		idOrName = d.Name
	}
	p, err := g.o.Library.Pipeline(ctx, idOrName)
	if err != nil {
		return nil, err
	}
	t := &Table{ID: p.ID, Name: p.Name, Version: p.Active, Counts: map[string]int{}, Partitions: []Partition{}}
	if len(document) > 0 {
		t.Version = 0
	}
	return t, g.fill(ctx, t, d, f)
}

func settingOf(d *definition.Definition) (*partition.Setting, error) {
	if d.Settings.Partition == nil {
		return nil, stepwell.Invalid("settings: {partition: {by: […]}} says which parameters name one", "the pipeline %s has no partitions", d.Name)
	}
	return d.Settings.Partition, nil
}

func (g *Ledger) fill(ctx context.Context, t *Table, d *definition.Definition, f Filter) error {
	setting, err := settingOf(d)
	if err != nil {
		return err
	}
	t.By = setting.By
	if t.Axes, err = setting.Axes(enumsOf(d), g.o.Now()); err != nil {
		return err
	}
	known, err := g.glances(ctx, t.ID)
	if err != nil {
		return err
	}
	running, err := g.running(ctx, t.ID, setting)
	if err != nil {
		return err
	}
	now, err := g.judge(d)
	if err != nil {
		return err
	}
	n := 1
	for _, values := range t.Axes {
		n *= len(values)
	}
	grid := make([]byte, n)
	for i := range grid {
		one := Partition{Values: t.ValuesAt(i)}
		one.Key = partition.KeyOf(one.Values)
		e, runs := known[one.Key], running[one.Key]
		if err := g.state(ctx, &one, &e, runs, now); err != nil {
			return err
		}
		grid[i] = letters[one.State]
		t.Counts[one.State]++
		if len(f.States) == 0 || slices.Contains(f.States, one.State) {
			if len(t.Partitions) < f.Limit {
				if err := one.tried(t.ID, &e, runs); err != nil {
					return err
				}
				t.Partitions = append(t.Partitions, one)
			} else {
				t.More = true
			}
		}
	}
	t.Grid = string(grid)
	return nil
}

func enumsOf(d *definition.Definition) func(string) []string {
	return func(name string) []string {
		for i := range d.Parameters {
			if d.Parameters[i].Name == name {
				return d.Parameters[i].Enum
			}
		}
		return nil
	}
}

// maxRunning bounds the executions that are looked at for partitions which are being made.
const maxRunning = 1_000_000

var unfinished = []stepwell.ExecutionStatus{stepwell.ExecutionPending, stepwell.ExecutionRunning, stepwell.ExecutionPaused, stepwell.ExecutionCancelling}

// running are the executions of a pipeline that have not ended, by the keys of their partitions.
func (g *Ledger) running(ctx context.Context, id string, setting *partition.Setting) (map[string]*store.Execution, error) {
	out := map[string]*store.Execution{}
	const page = 1000
	for before, n := "", 0; n < maxRunning; n += page {
		list, err := g.o.Executions.Executions(ctx, store.Filter{Workflow: id, Statuses: unfinished, Before: before, Limit: page})
		if err != nil {
			return nil, err
		}
		for i := range list {
			if key, ok := keyOf(&list[i], setting); ok {
				out[key] = &list[i]
			}
		}
		if len(list) < page {
			return out, nil
		}
		before = list[len(list)-1].ID
	}
	return out, nil
}

func keyOf(x *store.Execution, setting *partition.Setting) (string, bool) {
	v, err := expr.Decode(x.Params)
	params, ok := v.(map[string]any)
	if err != nil || !ok {
		return "", false
	}
	return setting.Key(params)
}

// runningFor is the execution under way for one partition, nil when there is none.
func (g *Ledger) runningFor(ctx context.Context, id, key string, setting *partition.Setting) (*store.Execution, error) {
	list, err := g.o.Executions.Executions(ctx, store.Filter{Workflow: id, Partition: key, Statuses: unfinished})
	if err != nil {
		return nil, err
	}
	if len(list) > 0 {
		return &list[len(list)-1], nil
	}
	g.mu.Lock()
	old, read := g.unnamed[id]
	g.mu.Unlock()
	if read && !slices.Contains(old, key) {
		return nil, nil
	}
	all, err := g.running(ctx, id, setting)
	if err != nil {
		return nil, err
	}
	old = nil
	for key, x := range all {
		if x.Partition == "" {
			old = append(old, key)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.unnamed) >= maxKept {
		clear(g.unnamed)
	}
	g.unnamed[id] = old
	return all[key], nil
}

// tried fills in the execution for a partition that runs, or tried last.
func (p *Partition) tried(pipeline string, e *glance, running *store.Execution) error {
	if running != nil {
		p.Execution, p.Version = resource.Ref(running.ID), running.WorkflowVersion
		return nil
	}
	if e.Execution == "" {
		return nil
	}
	whole, err := read(&store.Object{ID: entryID(pipeline, p.Key), Body: e.body})
	if err == nil {
		p.Execution, p.Version, p.Ended = resource.Ref(whole.Execution), whole.Version, resource.At(whole.At)
	}
	return err
}

// state says in which state a partition is, and why.
func (g *Ledger) state(ctx context.Context, out *Partition, e *glance, running *store.Execution, now *judge) error {
	switch {
	case running != nil:
		out.State = Running
	case e.Execution == "":
		out.State = Missing
	case e.Status != stepwell.ExecutionCompleted:
		out.State, out.Why = Failed, "the last execution is "+e.Status.String()
	case e.Made == nil: // not since the ledger exists
		out.State = Missing
	default:
		changed, err := g.changed(ctx, now, e.Made.Snapshot)
		if err != nil {
			return err
		}
		if out.State = Done; len(changed) > 0 {
			out.State, out.Why = Stale, fmt.Sprintf("changed since version %d: %s", e.Made.Version, strings.Join(changed, ", "))
		}
	}
	return nil
}

// judge is a definition with which others are compared.
type judge struct {
	def     *definition.Definition
	hash    string
	plan    *plan.Plan
	prints  map[string]string // of its steps
	watch   []string
	changed map[string][]string // by snapshot
}

func (g *Ledger) judge(d *definition.Definition) (*judge, error) {
	raw, err := definition.Encode(d)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	j := &judge{def: d, hash: hex.EncodeToString(sum[:]), watch: d.Settings.Partition.Watch, changed: map[string][]string{}}
	if j.plan, err = plan.Compile(d, g.o.Catalog); err != nil {
		return nil, err
	}
	j.prints = j.plan.Fingerprints()
	if len(j.watch) == 0 {
		for i := range j.plan.Graph.Steps {
			j.watch = append(j.watch, j.plan.Graph.Steps[i].ID)
		}
	}
	return j, nil
}

// maxNamed bounds the steps that are named.
const maxNamed = 5

// changed are the steps that do something else now than in a snapshot; what cannot be compared counts as changed.
func (g *Ledger) changed(ctx context.Context, now *judge, snapshot string) ([]string, error) {
	if snapshot == now.hash {
		return nil, nil
	}
	if found, known := now.changed[snapshot]; known {
		return found, nil
	}
	o, err := g.o.Objects.Object(ctx, kindSnapshot, snapshot)
	var found []string
	switch {
	case stepwell.CodeOf(err) == stepwell.CodeNotFound:
		found = []string{"its definition is no longer known"}
	case err != nil:
		return nil, err
	default:
		if found, err = now.differs(o.Body, g.o.Catalog); err != nil {
			return nil, err
		}
	}
	if len(found) > maxNamed {
		found = append(found[:maxNamed:maxNamed], fmt.Sprintf("%d more", len(found)-maxNamed))
	}
	now.changed[snapshot] = found
	return found, nil
}

// differs compares the watched steps with those of a snapshot. Actions have the policies of now in both: an upgrade of the program changes
// nothing that was made.
func (j *judge) differs(snapshot []byte, cat plan.Catalog) ([]string, error) {
	then, err := definition.Decode(snapshot)
	if err != nil {
		return nil, err
	}
	for name := range then.Policies {
		if p, ok := j.def.Policies[name]; ok {
			then.Policies[name] = p
		}
	}
	before, err := plan.Compile(then, cat)
	if err != nil {
		return []string{"its definition cannot be read by this version of the program"}, nil //nolint:nilerr // it is the answer
	}
	affected, prints := j.plan.Affected(j.params(then)), before.Fingerprints()
	alike := sync.OnceValue(func() bool { return j.alike(then) })
	steps := j.watch
	if len(j.def.Settings.Partition.Watch) == 0 { // steps that are gone
		for i := range before.Graph.Steps {
			if id := before.Graph.Steps[i].ID; !slices.Contains(steps, id) {
				steps = append(slices.Clip(steps), id)
			}
		}
	}
	var found []string
	for _, id := range steps {
		made, known := prints[id]
		is, there := j.prints[id]
		same := known && there && made == is && (made != "" || alike())
		if !same || affected[id] {
			found = append(found, id)
		}
	}
	return found, nil
}

// alike reports whether all that a step without a fingerprint could read is as it was.
func (j *judge) alike(then *definition.Definition) bool {
	now, was := *j.def, *then
	now.Settings, was.Settings = definition.Settings{}, definition.Settings{}
	now.Name, was.Name, now.Description, was.Description, now.Version, was.Version = "", "", "", "", "", ""
	now.Author, was.Author = nil, nil
	a, err := definition.Encode(&now)
	b, err2 := definition.Encode(&was)
	return err == nil && err2 == nil && string(a) == string(b)
}

// params are the parameters, partitions' names left out, that are declared otherwise than in another definition.
func (j *judge) params(then *definition.Definition) (names []string) {
	was := map[string]definition.Parameter{}
	for _, p := range then.Parameters {
		was[p.Name] = p
	}
	for _, p := range j.def.Parameters {
		old, known := was[p.Name]
		delete(was, p.Name)
		if !slices.Contains(j.def.Settings.Partition.By, p.Name) && (!known || !sameDefault(&p, &old)) {
			names = append(names, p.Name)
		}
	}
	for name := range was {
		names = append(names, name)
	}
	return names
}

func sameDefault(a, b *definition.Parameter) bool {
	x, err := expr.Marshal([]any{a.HasDefault, a.Default})
	y, err2 := expr.Marshal([]any{b.HasDefault, b.Default})
	return err == nil && err2 == nil && string(x) == string(y)
}

// Start starts an execution for a partition, at most once for each that tried before: repeated, also by others, it finds the same one
// until that has ended. It finds one too that was started otherwise and has not ended, and the last one where the partition is in none of
// some states by now. In has the params beside those of the partition; its Workflow and Key are filled in.
func (g *Ledger) Start(ctx context.Context, idOrName string, values, states []string, in pipeline.Launch) (*pipeline.Launched, error) {
	d, err := g.o.Library.Snapshot(ctx, idOrName, 0, nil)
	if err != nil {
		return nil, err
	}
	setting, err := settingOf(d)
	if err != nil {
		return nil, err
	}
	if len(values) != len(setting.By) {
		return nil, stepwell.Invalid("in the order of "+strings.Join(setting.By, ", "), "values: a partition of %s has %d values", d.Name, len(setting.By))
	}
	params := make(map[string]any, len(in.Params)+len(values))
	for name, v := range in.Params {
		if slices.Contains(setting.By, name) {
			return nil, stepwell.Invalid("it is one of values", "params.%s names the partition", name)
		}
		params[name] = v
	}
	for i, name := range setting.By {
		params[name] = values[i]
	}
	key, ok := setting.Key(params)
	if !ok {
		return nil, stepwell.Invalid("", "values: there is an empty one")
	}
	p, err := g.o.Library.Pipeline(ctx, idOrName)
	if err != nil {
		return nil, err
	}
	if running, err := g.runningFor(ctx, p.ID, key, setting); err != nil || running != nil {
		return g.found(ctx, running, err)
	}
	o, err := g.entry(ctx, entryID(p.ID, key))
	if err != nil {
		return nil, err
	}
	e, err := read(o)
	if err != nil {
		return nil, err
	}
	if made, err := g.settled(ctx, d, e, states); err != nil || made != nil {
		return made, err
	}
	in.Workflow, in.Params = p.ID, params
	for before := e.Execution; ; {
		in.Key = "partition:" + entryID(p.ID, key) + "/" + before
		x, err := g.o.Library.Launch(ctx, in)
		if err != nil || x.Fresh || !x.Status.Terminal() || x.Execution == before || before != e.Execution {
			return x, err
		}
		before = x.Execution // it has ended, and the ledger has not heard of it yet
	}
}

// settled is the last execution for a partition that is in none of some states; nil: it is in one, or none are asked for.
func (g *Ledger) settled(ctx context.Context, d *definition.Definition, e entry, states []string) (*pipeline.Launched, error) {
	if len(states) == 0 || e.Execution == "" {
		return nil, nil
	}
	now, err := g.judge(d)
	if err != nil {
		return nil, err
	}
	is, known := Partition{}, glance{Execution: e.Execution, Status: e.Status}
	if e.Made != nil {
		known.Made = &glanceMade{e.Made.Version, e.Made.Snapshot}
	}
	if err := g.state(ctx, &is, &known, nil, now); err != nil || slices.Contains(states, is.State) {
		return nil, err
	}
	return &pipeline.Launched{Execution: e.Execution, Status: e.Status, Created: e.At, Started: e.At}, nil
}

// found is the answer for an execution that runs already.
func (g *Ledger) found(ctx context.Context, x *store.Execution, err error) (*pipeline.Launched, error) {
	if err == nil && g.o.Found != nil {
		err = g.o.Found(ctx, x.ID)
	}
	if err != nil {
		return nil, err
	}
	return &pipeline.Launched{Execution: x.ID, Status: x.Status, Created: x.Created, Started: x.Started}, nil
}

// ValuesAt are the values of the partition at a place of the grid.
func (t *Table) ValuesAt(at int) []string {
	values := make([]string, len(t.Axes))
	for k := len(values) - 1; k >= 0; k-- {
		values[k], at = t.Axes[k][at%len(t.Axes[k])], at/len(t.Axes[k])
	}
	return values
}

// KeyAt is the name of the partition at a place of the grid.
func (t *Table) KeyAt(at int) string { return partition.KeyOf(t.ValuesAt(at)) }
