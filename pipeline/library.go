package pipeline

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

// Runner starts executions; a conductor.Conductor is one.
type Runner interface {
	Register(ctx context.Context, d *definition.Definition) (*conductor.Pipeline, error)
	StartOnce(ctx context.Context, req conductor.Request) (id string, fresh bool, err error)
}

// Executions finds executions; a store is one.
type Executions interface {
	Execution(ctx context.Context, id string) (*store.Execution, error)
}

// Options configure a Library. Objects, Runner, Executions and Catalog are required.
type Options struct {
	Objects    store.Objects
	Runner     Runner
	Executions Executions
	Catalog    definition.Catalog
	// Allow is CodeDenied when the policy forbids the author an action or module. It is called when a pipeline is
	// stored and when it is started. Defaults to allowing all.
	Allow func(author *definition.Author, action string) error
	// Triggered is called for every execution that a schedule, webhook or event trigger has started. Optional.
	Triggered func(ctx context.Context, in Launch, out *Launched)
	// Defaults hold for pipelines that say nothing themselves. Defaults to none.
	Defaults Defaults
	// Dir is the directory for relative paths of the steps, unless a Launch gives its own. Defaults to the working directory.
	Dir string
	// MaxDocument is the size of the largest document that is stored or run, in bytes. Defaults to 4 MiB.
	MaxDocument int
	// MaxVersions is how many versions a pipeline may have. Defaults to 10,000.
	MaxVersions int
	// Cache is how many checked pipelines are kept in memory. Defaults to 256.
	Cache int
	// Log takes warnings. Defaults to slog.Default.
	Log *slog.Logger
}

// Defaults are the server's defaults for pipelines and steps (budpipeline §11, WORKFLOW_*). Zero fields set no default.
type Defaults struct {
	Timeout          time.Duration // of an execution
	MaxParallelSteps int
	RetryAttempts    int // tries of a step in all, if neither it, its pipeline nor its action has a retry policy
	RetryBackoff     time.Duration
}

func (o *Options) validate() error {
	if o.Objects == nil || o.Runner == nil || o.Executions == nil || o.Catalog == nil {
		return &stepwell.Error{Code: stepwell.CodeInternal, Message: "pipeline: Objects, Runner, Executions and Catalog are required"}
	}
	o.MaxDocument = cmp.Or(max(o.MaxDocument, 0), 4<<20)
	o.MaxVersions = cmp.Or(max(o.MaxVersions, 0), 10_000)
	o.Cache = cmp.Or(max(o.Cache, 0), 256)
	o.Log = cmp.Or(o.Log, slog.Default())
	return nil
}

// Library keeps stored pipelines and launches executions. Its methods may be called from many goroutines.
type Library struct {
	o Options

	mu     sync.Mutex
	parsed map[string]*parsed // by id@version
	ready  map[string]*ready  // by the versions that it consists of
	index  stepIndex
}

// New makes a Library.
func New(o Options) (*Library, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Library{o: o, parsed: map[string]*parsed{}, ready: map[string]*ready{}}, nil
}

// MaxDocument is the size of the largest document, in bytes.
func (l *Library) MaxDocument() int { return l.o.MaxDocument }

// Kind names the kind.
func (l *Library) Kind() resource.Kind {
	return resource.Kind{Name: kindPipeline, Noun: "pipeline", Path: "pipelines", Param: "pipeline_id", List: "pipelines"}
}

// Create stores a new pipeline under the name in its document, with version 1. CodeInvalid, with a definition.Problems
// in the chain, when the document has errors; CodeConflict when the name is taken. The answer has Problems.
func (l *Library) Create(ctx context.Context, d *Draft, by string) (*Pipeline, error) {
	id, err := resource.NewID("")
	if err != nil {
		return nil, err
	}
	d.Author = by
	return l.put(ctx, &store.Object{Kind: kindPipeline, ID: id}, head{CreatedBy: by}, d)
}

// Update applies a change: a document is stored as the pipeline's next version, which becomes the active one unless the
// change says otherwise or it has problems; one that equals the newest makes no version. revision is the expected revision, or store.AnyRevision. Errors as with Create; also CodeConflict for another
// revision, and for a document of an archived pipeline.
func (l *Library) Update(ctx context.Context, idOrName string, revision int64, edit func(*Draft) error) (p *Pipeline, err error) {
	var c Draft
	if err := edit(&c); err != nil {
		return nil, err
	}
	if c.Document == nil && c.Archived == nil {
		return nil, stepwell.Invalid("give document, archived or both", "there is nothing to change")
	}
	if c.Archived != nil && !*c.Archived {
		if p, err = l.Archive(ctx, idOrName, false, revision); err != nil {
			return nil, err
		}
		revision = p.Revision
	}
	problems := []resource.Detail{}
	if c.Document != nil {
		if p, err = l.next(ctx, idOrName, &c, revision); err != nil {
			return nil, err
		}
		idOrName, revision, problems = p.ID, p.Revision, p.Problems
	}
	if c.Archived != nil && *c.Archived {
		if p, err = l.Archive(ctx, idOrName, true, revision); err != nil {
			return nil, err
		}
	}
	p.Problems = problems
	return p, nil
}

// next stores a document as the next version.
func (l *Library) next(ctx context.Context, idOrName string, d *Draft, revision int64) (*Pipeline, error) {
	o, h, err := l.head(ctx, idOrName)
	if err != nil {
		return nil, err
	}
	if err := fits(o, revision); err != nil {
		return nil, err
	}
	if h.Archived {
		return nil, archived(o.Name)
	}
	return l.put(ctx, o, h, d)
}

func archived(name string) error {
	return &stepwell.Error{Code: stepwell.CodeConflict, Message: "the pipeline " + name + " is archived", Hint: "take it out of the archive first"}
}

// Details are the problems of a document, as answers show them.
func Details(problems definition.Problems) []resource.Detail {
	details := make([]resource.Detail, len(problems))
	for i, p := range problems {
		details[i] = resource.Detail(p)
	}
	return details
}

// put stores a document as the object's next version.
func (l *Library) put(ctx context.Context, o *store.Object, h head, d *Draft) (*Pipeline, error) {
	def, problems, err := l.admit(ctx, d)
	if err == nil {
		own := *def // the pipelines that it runs were stored by others
		own.Pipelines, own.Author = inner(def), &definition.Author{Role: cmp.Or(d.Role, unknownRole), Pipeline: o.ID, Name: def.Name}
		err = l.allowed(uses(&own))
	}
	if err != nil && problems.Err() != nil {
		return nil, fmt.Errorf("%w: %w", err, problems)
	}
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(d.Document)
	digest := hex.EncodeToString(sum[:])
	draft := problems.Err() != nil
	if draft && d.Activate != nil && *d.Activate {
		return nil, fmt.Errorf("%w: %w", stepwell.Invalid("leave out activate, or repair the document", "a version with problems cannot be activated"), problems)
	}
	if h.Version > 0 && h.Digest == digest && h.Role == d.Role && h.Draft == draft {
		return l.again(ctx, o, h, d, problems)
	}
	if h.Version >= l.o.MaxVersions {
		return nil, &stepwell.Error{Code: stepwell.CodeLimit, Message: "the pipeline has too many versions", Hint: "store it under another name"}
	}
	h.next(d, draft)
	h.Description, h.Digest, h.Steps = def.Description, digest, countSteps(def.Steps)
	version, err := Version{Pipeline: o.ID, Version: h.Version, Name: def.Name, Digest: digest, Steps: h.Steps, Draft: h.Draft, Note: d.Note,
		Author: resource.Ref(d.Author), Role: d.Role, Document: string(d.Document)}.object()
	if err != nil {
		return nil, err
	}
	object, err := h.object(o.ID, def.Name, o.Revision)
	if err != nil {
		return nil, err
	}
	stored, err := l.o.Objects.PutObjects(ctx, object, version)
	if err != nil {
		return nil, taken(err, def.Name, h.Version == 1)
	}
	return h.stored(&stored[0], problems), nil
}

// next counts a version. One with problems becomes active only where what is active is such a one, the newest, itself.
func (h *head) next(d *Draft, draft bool) {
	stays := d.Activate != nil && !*d.Activate || draft && !(h.Draft && h.active() == h.Version)
	if h.Active = h.active(); !stays || h.Version == 0 {
		h.Active = h.Version + 1
	}
	h.Version++
	h.Role, h.Draft = d.Role, draft
}

// again is the answer to a document that equals that of the newest version.
func (l *Library) again(ctx context.Context, o *store.Object, h head, d *Draft, problems definition.Problems) (*Pipeline, error) {
	if d.Activate == nil || !*d.Activate || h.active() == h.Version {
		return h.stored(o, problems), nil
	}
	if _, err := l.Activate(ctx, o.ID, h.Version, o.Revision); err != nil {
		return nil, err
	}
	p, err := l.Pipeline(ctx, o.ID)
	if err == nil {
		p.Problems = Details(problems)
	}
	return p, err
}

// admit reads a document that is to be stored.
func (l *Library) admit(ctx context.Context, d *Draft) (*definition.Definition, definition.Problems, error) {
	if len(d.Document) > l.o.MaxDocument {
		return nil, nil, &stepwell.Error{Code: stepwell.CodeLimit, Message: "the document is too large to be stored", Hint: "split it into pipelines that call each other"}
	}
	if len(d.Note) > 1000 {
		return nil, nil, stepwell.Invalid("at most 1,000 bytes", "the note is too long")
	}
	def, problems, err := l.Validate(ctx, d.Document)
	switch {
	case err != nil:
		return nil, nil, err
	case problems.Err() != nil && (!d.Draft || def == nil || def.Name == ""):
		return nil, problems, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the document has errors"}
	case len(def.Name) > 255:
		return nil, problems, stepwell.Invalid("at most 255 bytes", "the name of the pipeline is too long")
	}
	return def, problems, nil
}

// Pipeline finds one by id or name.
func (l *Library) Pipeline(ctx context.Context, idOrName string) (*Pipeline, error) {
	o, h, err := l.head(ctx, idOrName)
	if err != nil {
		return nil, err
	}
	return h.pipeline(o), nil
}

// Get is Pipeline with the newest document.
func (l *Library) Get(ctx context.Context, idOrName string) (*Pipeline, error) {
	o, h, err := l.head(ctx, idOrName)
	if err != nil {
		return nil, err
	}
	v, err := l.version(ctx, o, h, h.Version)
	if err != nil {
		return nil, err
	}
	p := h.pipeline(o)
	p.Document = v.Document
	return p, nil
}

// List lists pipelines.
func (l *Library) List(ctx context.Context, f *Filter) ([]Pipeline, error) {
	limit := bounded(f.Limit, 50, 1000)
	list := make([]Pipeline, 0, min(limit, 64))
	for after := f.Cursor; ; {
		page, err := l.o.Objects.Objects(ctx, store.ObjectFilter{Kind: kindPipeline, After: after, Limit: limit})
		if err != nil {
			return nil, err
		}
		for i := range page {
			h, err := decode[head](&page[i])
			if err != nil {
				return nil, err
			}
			if !h.Deleting && (f.Archived == "" || f.Archived == "any" || f.Archived == strconv.FormatBool(h.Archived)) {
				list = append(list, *h.pipeline(&page[i]))
			}
			if len(list) == limit {
				return list, nil
			}
		}
		if len(page) < limit {
			return list, nil
		}
		after = page[len(page)-1].ID
	}
}

// Archive takes a pipeline out of use, or back into it. Nothing is lost.
func (l *Library) Archive(ctx context.Context, idOrName string, archived bool, revision int64) (*Pipeline, error) {
	o, h, err := l.head(ctx, idOrName)
	if err != nil {
		return nil, err
	}
	if err := fits(o, revision); err != nil || h.Archived == archived {
		return h.pipeline(o), err
	}
	h.Archived = archived
	object, err := h.object(o.ID, o.Name, o.Revision)
	if err != nil {
		return nil, err
	}
	stored, err := l.o.Objects.PutObjects(ctx, object)
	if err != nil {
		return nil, err
	}
	return h.pipeline(&stored[0]), nil
}

// Delete removes a pipeline with all its versions. Executions keep their snapshots; schedules and webhooks that
// name it fail from then on. Interrupted, it goes on when it is called again.
func (l *Library) Delete(ctx context.Context, idOrName string, revision int64) error {
	o, err := l.o.Objects.Object(ctx, kindPipeline, idOrName)
	if err != nil {
		return unknown(err, idOrName)
	}
	h, err := decode[head](o)
	if err != nil {
		return err
	}
	if err := fits(o, revision); err != nil && !h.Deleting {
		return err
	}
	if !h.Deleting { // from here on it cannot be found, and its name is free
		h.Deleting = true
		object, err := h.object(o.ID, "", o.Revision)
		if err != nil {
			return err
		}
		if _, err := l.o.Objects.PutObjects(ctx, object); err != nil {
			return err
		}
	}
	for version := 1; version <= h.Version; version++ {
		err := l.o.Objects.DeleteObject(ctx, kindVersion, versionID(o.ID, version), store.AnyRevision)
		if err != nil && stepwell.CodeOf(err) != stepwell.CodeNotFound {
			return err
		}
	}
	if err := l.deletePartitions(ctx, o.ID); err != nil {
		return err
	}
	return l.o.Objects.DeleteObject(ctx, kindPipeline, o.ID, store.AnyRevision)
}

// deletePartitions removes what is known of the partitions of a pipeline.
func (l *Library) deletePartitions(ctx context.Context, id string) error {
	const page = 1000
	for {
		list, err := l.o.Objects.Objects(ctx, store.ObjectFilter{Kind: KindPartition, Prefix: id + "/", Limit: page})
		if err != nil || len(list) == 0 {
			return err
		}
		for i := range list {
			if err := l.o.Objects.DeleteObject(ctx, KindPartition, list[i].ID, store.AnyRevision); err != nil && stepwell.CodeOf(err) != stepwell.CodeNotFound {
				return err
			}
		}
	}
}

// head finds a pipeline that is not being deleted.
func (l *Library) head(ctx context.Context, idOrName string) (*store.Object, head, error) {
	o, err := l.o.Objects.Object(ctx, kindPipeline, idOrName)
	if err = unknown(err, idOrName); err != nil {
		return nil, head{}, l.suggest(ctx, idOrName, err)
	}
	h, err := decode[head](o)
	if err == nil && h.Deleting {
		err = notFound("there is no pipeline %q", idOrName)
	}
	return o, h, err
}

// suggest adds to a pipeline's absence the name of one that is called nearly so.
func (l *Library) suggest(ctx context.Context, name string, missing error) error {
	e, ok := errors.AsType[*stepwell.Error](missing)
	if !ok || e.Code != stepwell.CodeNotFound {
		return missing
	}
	if strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") {
		e.Hint = "store it first: stepwell pipelines create " + stepwell.Clip(name, 200)
		return missing
	}
	var f Filter
	f.Limit = 1000
	list, err := l.List(ctx, &f)
	if err != nil {
		return missing // it is what was asked about
	}
	var names []string
	for i := range list {
		names = append(names, list[i].Name)
	}
	e.Hint = cmp.Or(spec.DidYouMean(name, names), "store its file first: stepwell pipelines create FILE")
	return missing
}

func unknown(err error, idOrName string) error {
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return notFound("there is no pipeline %q", idOrName)
	}
	return err
}

// fits checks that an object has the expected revision.
func fits(o *store.Object, revision int64) error {
	if revision != store.AnyRevision && revision != o.Revision {
		return resource.Changed("pipeline")
	}
	return nil
}

// taken gives the hint for a name that is taken, or a concurrent change.
func taken(err error, name string, isNew bool) error {
	switch {
	case stepwell.CodeOf(err) != stepwell.CodeConflict:
		return err
	case isNew:
		return &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("a pipeline named %q exists already", name), Hint: "`stepwell pipelines update " + name + " FILE` stores a new version of it; or use another name"}
	}
	return &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("the pipeline %q cannot be stored", name), Err: err}
}

// bounded is a page size.
func bounded(n, otherwise, most int) int {
	if n <= 0 {
		return otherwise
	}
	return min(n, most)
}
