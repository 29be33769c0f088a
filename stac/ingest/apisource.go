package ingest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/apiclient"
	"github.com/stepwell/stepwell/stream"
)

// PartialMember is the member by which an item is marked that came without all that an item has, because
// `fields` asked for less (stac-and-media §2).
const PartialMember = "stepwell:partial"

// apiSource reads the items of an API.
type apiSource struct {
	s         *settings
	env       *stream.Env
	client    *apiclient.Client
	canSearch bool
	from      cursor
	seen      *apiclient.Seen // across searches

	given      int64 // items of all runs
	items      int64 // of this run
	duplicates int64
	pages      int64
	matched    int64
	failures
	stop error // of out, met where it could not be returned
}

// cursor is where reading goes on: within a search, or behind it.
type cursor struct {
	Job   int               `json:"job"`
	At    *apiclient.Cursor `json:"at,omitempty"`
	Items int64             `json:"items"` // so far, for max_items
}

// job is one of the searches of a config.
type job struct {
	number int
	search apiclient.Search
	at     *apiclient.Cursor
	ids    bool // the search is for ids, and none must be missing
}

// step is a result of a job: a page, an error, or its end.
type step struct {
	page    *apiclient.Page
	cursor  *apiclient.Cursor
	err     error
	end     bool
	missing []string
}

var errEnough = errors.New("as many items as were asked for")

// Read implements stream.Source.
func (a *apiSource) Read(ctx context.Context, in iter.Seq[*stream.Item], out stream.Out) error {
	a.given = a.from.Items
	if a.s.MaxItems > 0 && a.given >= a.s.MaxItems {
		return nil
	}
	if err := a.sendCollections(ctx); err != nil {
		return err
	}
	jobs, marks, err := a.jobs(ctx, in, out)
	if err != nil {
		return err
	}
	err = ordered(ctx, max(1, a.s.Concurrency), false, jobs, a.run, func(j job, s step) error {
		if s.err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return a.passStep(j, s, out, marks)
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err == nil {
		err = a.stop
	}
	if err == nil && a.pages == 0 && a.first != nil && a.from.Job == 0 && a.from.At == nil {
		return &stream.Error{Type: stream.ModuleException, Context: failureOf(a.first, "").Context,
			Err: fmt.Errorf("nothing could be read from %s: %w", a.client.URL(), a.first)}
	}
	if a.duplicates > 0 {
		a.env.Log(slog.LevelWarn, "items that were on two pages were left out", slog.Int64("duplicates", a.duplicates))
	}
	return err
}

// jobs are the searches, and whether their progress can be stored: another step's items cannot be requested again from
// the middle.
func (a *apiSource) jobs(ctx context.Context, in iter.Seq[*stream.Item], out stream.Out) (iter.Seq[job], bool, error) {
	if in != nil {
		return a.handOff(in, out), false, nil
	}
	searches, err := a.searches(ctx)
	if err != nil {
		return nil, false, err
	}
	return func(yield func(job) bool) {
		for i := a.from.Job; i < len(searches); i++ {
			j := job{number: i, search: searches[i], ids: len(searches[i].IDs) > 0}
			if i == a.from.Job {
				j.at = a.from.At
			}
			if !yield(j) {
				return
			}
		}
	}, true, nil
}

// run makes a job's pages.
func (a *apiSource) run(ctx context.Context, j job, give func(step) bool) {
	missing := map[string]bool{}
	if j.ids && j.at == nil && a.exact() {
		for _, id := range j.search.IDs {
			missing[id] = true
		}
	}
	fine := true
	for s := range a.steps(ctx, j) {
		if s.page != nil {
			for _, f := range s.page.Features {
				delete(missing, f.ID)
			}
		}
		fine = fine && s.err == nil
		if !give(s) {
			return
		}
	}
	last := step{end: true}
	for _, id := range j.search.IDs {
		if fine && missing[id] {
			delete(missing, id)
			last.missing = append(last.missing, id)
		}
	}
	give(last)
}

// exact reports whether the ids alone decide the matches.
func (a *apiSource) exact() bool {
	s := &a.s.search
	return len(s.Bbox)+len(s.Datetime)+len(s.Query)+len(s.Filter)+len(s.Intersects) == 0
}

// steps goes through the pages of a search, or through single items on a server without one.
func (a *apiSource) steps(ctx context.Context, j job) iter.Seq[step] {
	return func(yield func(step) bool) {
		if j.ids && !a.canSearch {
			a.singles(ctx, j, yield)
			return
		}
		var p *apiclient.Pager
		if j.at != nil {
			p = a.client.Resume(*j.at)
		} else {
			var err error
			if p, err = a.client.Search(ctx, j.search); err != nil {
				yield(step{err: err})
				return
			}
		}
		for {
			page, err := p.Next(ctx)
			if err != nil {
				yield(step{err: err})
				return
			}
			if page == nil {
				return
			}
			s := step{page: page}
			if at, ok := p.Cursor(); ok {
				s.cursor = &at
			}
			if !yield(s) {
				return
			}
		}
	}
}

// singles fetches items one by one.
func (a *apiSource) singles(ctx context.Context, j job, yield func(step) bool) {
	for _, id := range j.search.IDs {
		var s step
		if len(j.search.Collections) != 1 {
			s.err = wrongConfig(a.client.URL()+" has no item search, and the collection of item "+id+" is not known", "give collection_id")
		} else if text, _, err := a.client.Item(ctx, j.search.Collections[0], id); apiclient.StatusOf(err) == http.StatusNotFound {
			continue
		} else if err != nil {
			s.err = err
		} else {
			got, collection := apiclient.Key(text)
			s.page = &apiclient.Page{Number: 1, Matched: -1, Features: []apiclient.Feature{{Text: text, ID: got, Collection: collection}}}
		}
		if !yield(s) {
			return
		}
	}
}

// passStep passes on the items of a page, an error, or the end of a job.
func (a *apiSource) passStep(j job, s step, out stream.Out, marks bool) error {
	collection := ""
	if len(j.search.Collections) == 1 {
		collection = j.search.Collections[0]
	}
	switch {
	case s.err != nil:
		return a.fail(failureOf(s.err, collection), out)
	case s.end:
		for _, id := range s.missing {
			err := &stepwell.Error{Code: stepwell.CodeNotFound, Message: "item " + id + " does not exist at " + a.client.URL()}
			if err := out.Fail(stream.Failure{Item: id, Collection: collection, Err: err, Context: stream.Context{Status: http.StatusNotFound}}); err != nil {
				return err
			}
		}
		if !marks {
			return nil
		}
		return out.Mark(cursor{Job: j.number + 1, Items: a.given})
	}
	err := a.page(j, s.page, out)
	if errors.Is(err, errEnough) && marks {
		if err := out.Mark(cursor{Job: j.number + 1, Items: a.given}); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if marks && s.cursor != nil && fits(s.cursor) {
		return out.Mark(cursor{Job: j.number, At: s.cursor, Items: a.given})
	}
	return nil
}

// fits reports whether a cursor can be stored: it must be small, and hold no secret of a link. A search that repeats
// its long geometry in every link resumes from the last stored cursor.
func fits(c *apiclient.Cursor) bool {
	size := len(c.Recent) + 1000
	if c.Next != nil {
		size += len(c.Next.URL) + len(c.Next.Body)
		for name, value := range c.Next.Header {
			if outbound.SecretName(name) {
				return false
			}
			size += len(name) + len(value) + 10
		}
	}
	return size < 60<<10
}

func (a *apiSource) page(j job, page *apiclient.Page, out stream.Out) error {
	a.pages++
	a.duplicates += int64(page.Duplicates)
	if page.Number == 1 && page.Matched >= 0 && j.at == nil {
		a.matched += page.Matched
		total := a.matched
		if a.s.MaxItems > 0 {
			total = min(total, a.s.MaxItems)
		}
		out.Expect(total)
	}
	if page.Warning != "" {
		a.env.Log(slog.LevelWarn, page.Warning, slog.String("url", page.URL))
	}
	for _, f := range page.Features {
		if !a.seen.New(f) {
			a.duplicates++
			continue
		}
		if err := out.Item(a.item(f, page)); err != nil {
			return err
		}
		a.items++
		if a.given++; a.s.MaxItems > 0 && a.given >= a.s.MaxItems {
			return errEnough
		}
	}
	return nil
}

// Remote implements stream.Remote.
func (a *apiSource) Remote() bool { return true }

// item makes the item, marked if it is not whole.
func (a *apiSource) item(f apiclient.Feature, page *apiclient.Page) *stream.Item {
	place := stream.Place{URL: page.URL}
	if a.s.search.Fields == nil {
		return stream.Lazy(f.Text, place)
	}
	v, err := item.Parse(f.Text)
	if err != nil || v.Kind() != item.Object {
		return stream.Lazy(f.Text, place) // later steps report its errors
	}
	if !complete(v.Keys()) {
		if mark, err := item.Of(true); err == nil {
			v.Set(PartialMember, mark)
		}
	}
	return stream.New(v, place)
}

// Finish implements stream.Finisher.
func (a *apiSource) Finish(failed error) (any, error) {
	return map[string]any{"items": a.items, "duplicates": a.duplicates, "pages": a.pages, "failed": a.failed, "retries": a.client.Retries()}, nil
}
