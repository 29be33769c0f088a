package conductor

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"

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
// zero value is ready; it may be used by many at once.
type Compiled struct{ pipelines }

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
	d = definition.Expand(d, c.o.Catalog)
	body, err := definition.Encode(d)
	if err != nil {
		return nil, fmt.Errorf("snapshot of %s: %w", d.Name, err)
	}
	if len(body) > maxDefinition {
		return nil, &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("%s is %d bytes, written out in full; the limit is %d MiB", d.Name, len(body), maxDefinition>>20)}
	}
	hash := sha256.Sum256(body)
	if p := c.pipelines.lookup(hash); p != nil {
		return p, nil
	}
	p := c.o.Compiled.find(hash)
	if p == nil {
		if p, err = c.compile(d, hash); err != nil {
			return nil, err
		}
	}
	if err := c.o.Store.PutDefinition(ctx, hash[:], body); err != nil {
		return nil, err
	}
	return c.pipelines.keep(p), nil
}

// compile makes the pipeline of a definition whose snapshot has the hash.
func (c *Conductor) compile(d *definition.Definition, hash [32]byte) (*Pipeline, error) {
	compiled, err := plan.Compile(d, c.o.Catalog)
	if err != nil {
		return nil, err
	}
	p := &Pipeline{Name: d.Name, Hash: hash, Parameters: d.Parameters, plan: compiled, report: definition.AddedReport(d)}
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
