package conductor

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/plan"
)

// maxPipelines bounds the compiled definitions kept in memory.
const maxPipelines = 256

// Pipeline is a compiled definition whose snapshot is stored.
type Pipeline struct {
	Name       string
	Hash       [32]byte
	Parameters []definition.Parameter
	params     *definition.Params // Parameters, made ready
	plan       *plan.Plan
	report     string // the step under finally that was added for streams, "": none
}

// Plan is the compiled graph.
func (p *Pipeline) Plan() *plan.Plan { return p.plan }

// pipelines keeps compiled definitions by the hash of their snapshot: a definition is compiled once,
// however often it runs.
type pipelines struct {
	mu     sync.Mutex
	byHash map[[32]byte]*Pipeline
}

func (ps *pipelines) lookup(hash [32]byte) *Pipeline {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.byHash[hash]
}

func (ps *pipelines) keep(p *Pipeline) *Pipeline {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if old := ps.byHash[p.Hash]; old != nil {
		return old
	}
	if len(ps.byHash) >= maxPipelines {
		for hash := range ps.byHash { // any one: it is compiled again when it is needed
			delete(ps.byHash, hash)
			break
		}
	}
	if ps.byHash == nil {
		ps.byHash = map[[32]byte]*Pipeline{}
	}
	ps.byHash[p.Hash] = p
	return p
}

// Compiled keeps compiled definitions for several conductors that have one Catalog, so that what all of them run is compiled once. Its
// zero value is ready; it may be used by many at once. Definitions that are registered with one do not change afterwards.
type Compiled struct {
	pipelines
	snapshots sync.Map // *definition.Definition → *snapshot
	n         atomic.Int64
}

// snapshot is a definition as it is stored.
type snapshot struct {
	expanded *definition.Definition
	body     []byte
	hash     [32]byte
}

// snapshot makes the snapshot of a definition, or finds it.
func (c *Compiled) snapshot(d *definition.Definition, catalog plan.Catalog) (*snapshot, error) {
	if c != nil {
		if s, ok := c.snapshots.Load(d); ok {
			return s.(*snapshot), nil
		}
	}
	s := &snapshot{expanded: definition.Expand(d, catalog)}
	var err error
	if s.body, err = definition.Encode(s.expanded); err != nil {
		return nil, fmt.Errorf("snapshot of %s: %w", d.Name, err)
	}
	if len(s.body) > maxDefinition {
		return nil, &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("%s is %d bytes, written out in full; the limit is %d MiB", d.Name, len(s.body), maxDefinition>>20)}
	}
	s.hash = sha256.Sum256(s.body)
	if c != nil {
		if c.n.Add(1) > maxPipelines {
			c.snapshots.Clear()
			c.n.Store(0)
		}
		c.snapshots.Store(d, s)
	}
	return s, nil
}

// find is the compiled form of a snapshot that has the hash.
func (c *Compiled) find(hash [32]byte) *Pipeline {
	if c == nil {
		return nil
	}
	return c.lookup(hash)
}

func (c *Compiled) add(p *Pipeline) {
	if c != nil {
		c.keep(p)
	}
}

// Register compiles a checked definition and stores its snapshot, both at most once.
func (c *Conductor) Register(ctx context.Context, d *definition.Definition) (*Pipeline, error) {
	made, err := c.o.Compiled.snapshot(d, c.o.Catalog)
	if err != nil {
		return nil, err
	}
	hash := made.hash
	if p := c.pipelines.lookup(hash); p != nil {
		return p, nil
	}
	p := c.o.Compiled.find(hash)
	if p == nil {
		if p, err = c.compile(made.expanded, hash); err != nil {
			return nil, err
		}
	}
	if err := c.o.Store.PutDefinition(ctx, hash[:], made.body); err != nil {
		return nil, err
	}
	return c.pipelines.keep(p), nil
}

// Plan is the compiled definition whose snapshot has a hash, if it is kept in memory: the last that executions were started or recovered
// with are. Else nil.
func (c *Conductor) Plan(hash [sha256.Size]byte) *plan.Plan {
	if p := c.pipelines.lookup(hash); p != nil {
		return p.plan
	}
	return nil
}

// compile makes the pipeline of a definition whose snapshot has the hash.
func (c *Conductor) compile(d *definition.Definition, hash [32]byte) (*Pipeline, error) {
	compiled, err := plan.Compile(d, c.o.Catalog)
	if err != nil {
		return nil, err
	}
	p := &Pipeline{Name: d.Name, Hash: hash, Parameters: d.Parameters, plan: compiled,
		params: definition.NewParams(&definition.Definition{Name: d.Name, Parameters: d.Parameters}), report: definition.AddedReport(d)}
	c.o.Compiled.add(p)
	return p, nil
}

// snapshot finds the compiled definition of an execution that exists.
func (c *Conductor) snapshot(ctx context.Context, hash []byte) (*Pipeline, error) {
	if len(hash) != sha256.Size {
		return nil, &stepwell.Error{Code: stepwell.CodeInternal, Message: "the execution's row names no definition", Hint: "restore the database from a copy"}
	}
	key := [32]byte(hash)
	if p := c.pipelines.lookup(key); p != nil {
		return p, nil
	}
	body, err := c.o.Store.Definition(ctx, hash)
	if err != nil {
		return nil, err
	}
	if p := c.o.Compiled.find(key); p != nil && sha256.Sum256(body) == key {
		return c.pipelines.keep(p), nil
	}
	d, err := definition.Decode(body)
	if err != nil {
		return nil, err
	}
	p, err := c.compile(d, key)
	if err != nil {
		return nil, err
	}
	return c.pipelines.keep(p), nil
}
