package pipelinerun

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/project"
	"github.com/stepwell/stepwell/store"
)

// Limits of a bulk start.
const (
	maxLessons    = 100_000
	startsAtOnce  = 512  // so that many starts share a commit
	reusesAtOnce  = 32   // each reads an earlier run, with its results
	maxRefused    = 1000 // listed
	defaultWindow = 100
)

// kindBulk are the objects that remember how a bulk start has counted: "<project>/<digest of the key>".
const kindBulk = "pipeline_bulk"

// bulkAge is after how long a bulk start cannot be repeated any more.
const bulkAge = 30 * 24 * time.Hour

// Bulk says what a start for a whole project has done.
type Bulk struct {
	ID      string    `json:"bulk_id" doc:"The Idempotency-Key with which the request can be sent again: it continues where it was interrupted."`
	Project string    `json:"project_id"`
	Version string    `json:"pipeline_version_id"`
	Window  int       `json:"window" doc:"How many of the runs continue at once; 0: as the pipeline's settings.concurrency says."`
	Lessons int       `json:"lessons" doc:"Lessons of the project."`
	Started int       `json:"started" doc:"Runs that this request has started."`
	Before  int       `json:"started_before" doc:"Runs that an earlier request with the key has started."`
	Refused int       `json:"refused" doc:"Lessons without a run."`
	Reasons []Refused `json:"refusals" nullable:"false" doc:"The first 1,000 of them."`
}

// Refused is a lesson for which no run was started.
type Refused struct {
	Lesson string `json:"lesson_id"`
	Why    string `json:"reason"`
}

// bulkRecord is how a bulk start has changed the project's total.
type bulkRecord struct {
	Total   int64 `json:"total"`   // of the project
	Runs    int   `json:"runs"`    // that the total counts
	Reset   bool  `json:"reset"`   // the project begins anew
	Counted bool  `json:"counted"` // the project has the total
}

// StartAll starts a run for each lesson of a project that the pipeline can run for. The project's total is set first, and each run counts
// once in its progress. The same key goes on where an earlier call was interrupted: no lesson gets a second run. Errors as with Start.
func (r *Runs) StartAll(ctx context.Context, in *StartRequest, by store.Origin) (*Bulk, error) {
	l, err := r.resolve(ctx, in, by)
	if err != nil {
		return nil, err
	}
	b := &Bulk{Project: in.Project, Version: versionID(l.Request.Workflow, l.WorkflowVersion), Reasons: []Refused{}}
	if l.Pipeline.Plan().Concurrency == nil {
		b.Window = cmp.Or(in.Window, defaultWindow)
	} else if in.Window != 0 {
		return nil, unprocessable("leave window out", "window: the pipeline %s has settings.concurrency of its own", l.Pipeline.Name)
	}
	defer r.bulks.take(in.Project)()
	lessons, err := r.startable(ctx, &l, b)
	if err != nil || len(lessons) == 0 {
		return b, err
	}
	sum := sha256.Sum256([]byte(by.Key))
	digest := hex.EncodeToString(sum[:16])
	if err := r.countBulk(ctx, in.Project, digest, len(lessons)); err != nil {
		return nil, err
	}
	l.Window, l.Concurrency = b.Window, "bulk:"+digest
	return b, r.startEach(ctx, l, lessons, in.Reuse, b)
}

// project finds the project that a request names.
func (r *Runs) project(ctx context.Context, id string) (*project.Project, error) {
	of, err := r.o.Projects.Get(ctx, id)
	if missing(err) {
		return nil, unprocessable("GET /api/v1/projects lists them", "project_id: there is no project %s", stepwell.Clip(id, 80))
	}
	return of, err
}

// startable are the lessons of a project that the pipeline can run for; the bulk gets the others.
func (r *Runs) startable(ctx context.Context, l *pipeline.Launch, b *Bulk) (list []subject, err error) {
	of, err := r.project(ctx, b.Project)
	if err != nil {
		return nil, err
	}
	return list, r.o.Lessons.Each(ctx, b.Project, func(one *project.Lesson) error {
		about, err := project.AboutOf(of, one)
		if err != nil {
			return err
		}
		s := subject{one.ID, one.Project, about}
		b.Lessons++
		why := refuses(l.Pipeline.Plan(), &s)
		switch {
		case why == "" && len(list) >= maxLessons:
			return &stepwell.Error{Code: stepwell.CodeLimit, Message: "the project has more lessons than can be started together", Hint: "at most 100,000; start the runs lesson by lesson"}
		case why == "":
			list = append(list, s)
		default:
			if b.Refused++; len(b.Reasons) < maxRefused {
				b.Reasons = append(b.Reasons, Refused{one.ID, why})
			}
		}
		return nil
	})
}

// countBulk sets the total of a project for a bulk start, once: runs of another one that are under way stay counted.
func (r *Runs) countBulk(ctx context.Context, project, digest string, runs int) error {
	id := project + "/" + digest
	var rec bulkRecord
	o, err := r.o.Store.Object(ctx, kindBulk, id)
	switch {
	case err == nil:
		err = json.Unmarshal(o.Body, &rec)
	case missing(err):
		o = &store.Object{Kind: kindBulk, ID: id}
		err = r.forgetBulks(ctx, project)
	}
	if err != nil {
		return err
	}
	now, err := r.o.Projects.Read(ctx, project)
	if err != nil || rec.Counted && rec.Runs == runs {
		return err
	}
	if !rec.Counted && rec.Runs == 0 {
		rec.Reset = now.Status == store.ProjectDone
		if rec.Total = int64(runs); !rec.Reset {
			rec.Total += max(now.Total, now.Done)
		}
	} else if rec.Runs != runs { // lessons have come or gone since
		rec.Total = max(now.Total, rec.Total) + int64(runs-rec.Runs)
		rec.Reset = rec.Reset && !rec.Counted
	}
	rec.Runs, rec.Counted = runs, false
	if o, err = r.putBulk(ctx, o, rec); err != nil {
		return err
	}
	switch {
	case rec.Reset:
		_, err = r.o.Projects.Begin(ctx, project, rec.Total)
	case now.Status == store.ProjectInitializing:
		_, err = r.o.Projects.FinishDiscovery(ctx, project, rec.Total)
	default:
		_, err = r.o.Projects.SetTotal(ctx, project, rec.Total)
	}
	if err == nil {
		rec.Counted = true
		_, err = r.putBulk(ctx, o, rec)
	}
	return err
}

func (r *Runs) putBulk(ctx context.Context, o *store.Object, rec bulkRecord) (*store.Object, error) {
	body, err := json.Marshal(rec)
	if err != nil {
		return nil, err
	}
	stored, err := r.o.Store.PutObjects(ctx, store.Object{Kind: o.Kind, ID: o.ID, Revision: o.Revision, Body: body})
	if err != nil {
		return nil, err
	}
	return &stored[0], nil
}

// forgetBulks removes what is remembered of old bulk starts of a project.
func (r *Runs) forgetBulks(ctx context.Context, project string) error {
	old, err := r.o.Store.Objects(ctx, store.ObjectFilter{Kind: kindBulk, Prefix: project + "/", Limit: 1000})
	for i := range old {
		if err == nil && time.Since(old[i].Updated) > bulkAge {
			if err = r.o.Store.DeleteObject(ctx, kindBulk, old[i].ID, store.AnyRevision); missing(err) {
				err = nil
			}
		}
	}
	return err
}

// startEach starts the runs: many at once, so that they share commits.
func (r *Runs) startEach(ctx context.Context, l pipeline.Launch, lessons []subject, reuse bool, b *Bulk) error {
	var started, before atomic.Int64
	g, gctx := errgroup.WithContext(ctx)
	if g.SetLimit(startsAtOnce); reuse {
		g.SetLimit(reusesAtOnce)
	}
	key := l.Key
	for i := range lessons {
		if gctx.Err() != nil {
			break
		}
		g.Go(func() error {
			one := l
			one.Key = key + ":" + lessons[i].id
			_, fresh, err := r.launch(gctx, one, &lessons[i], reuse)
			switch {
			case err != nil:
				return err
			case fresh:
				started.Add(1)
			default:
				before.Add(1)
			}
			return nil
		})
	}
	err := g.Wait()
	b.Started, b.Before = int(started.Load()), int(before.Load())
	return err
}
