package api

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/project"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/trigger"
)

// Limits of a search.
const (
	mostHits = 20
	keptHits = 200                   // of a kind, of which the best are shown
	findTime = 40 * time.Millisecond // for what may take long; what is under way is finished
)

// SearchText is what is looked for.
type SearchText struct {
	Text string `query:"q" required:"true" minLength:"1" maxLength:"200" doc:"In the names, ids and descriptions of pipelines and schedules, in the names, ids and tags of projects, and in the ids of steps; of an execution the beginning of its id. Upper and lower case are the same."`
}

// SearchResult is what was found, the best first.
type SearchResult struct {
	Hits []Hit `json:"hits" nullable:"false" doc:"At most 20: whose name or id is the text, then begins with it, then has it in it."`
	More bool  `json:"more" doc:"There is more than was looked at or is shown."`
}

// Hit is one thing that was found.
type Hit struct {
	Kind     string `json:"kind" enum:"pipeline,execution,schedule,project,step"`
	ID       string `json:"id" doc:"Of a step its id within the pipeline."`
	Name     string `json:"name" doc:"Of a step or an execution that of its pipeline."`
	Pipeline string `json:"pipeline_id,omitempty" doc:"Of a step."`
	Status   string `json:"status,omitempty" doc:"Of an execution or a schedule."`
}

// finder is a kind of objects that a search looks through. It gives hits to found until that returns false; more: it has not looked at
// everything when soon ended.
type finder interface {
	find(ctx, soon context.Context, text string, found func(Hit) bool) (more bool, err error)
}

func (s *server) search(ctx context.Context, in *SearchText) (*answer[SearchResult], error) {
	text := strings.ToLower(strings.TrimSpace(in.Text))
	out := SearchResult{Hits: []Hit{}}
	if text == "" {
		return reply(out, nil)
	}
	soon, done := context.WithTimeout(ctx, findTime)
	defer done()
	finders := []finder{executionFinder{s}}
	for _, k := range s.o.Kinds {
		if f, ok := k.(finder); ok {
			finders = append(finders, f)
		}
	}
	for _, f := range append(finders, pipelineFinder{s}) { // what may take long comes last
		n := 0
		more, err := f.find(ctx, soon, text, func(h Hit) bool {
			h.ID, h.Name = s.text("", h.ID), s.text("", h.Name)
			out.Hits = append(out.Hits, h)
			n++
			return n < keptHits
		})
		if err != nil {
			return nil, err
		}
		out.More = out.More || more || n == keptHits
	}
	slices.SortStableFunc(out.Hits, func(a, b Hit) int {
		return cmp.Or(a.rank(text)-b.rank(text), slices.Index(hitOrder, a.Kind)-slices.Index(hitOrder, b.Kind), strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	if len(out.Hits) > mostHits {
		out.Hits, out.More = out.Hits[:mostHits], true
	}
	return reply(out, nil)
}

var hitOrder = []string{"pipeline", "execution", "schedule", "project", "step"}

// rank is 0 for the text itself, 1 for what begins with it, 2 for the rest.
func (h *Hit) rank(text string) int {
	best := 2
	names := []string{h.ID, h.Name}
	if h.Kind == "step" || h.Kind == "execution" { // the name is the pipeline's
		names = names[:1]
	}
	for _, name := range names {
		switch name = strings.ToLower(name); {
		case name == text:
			return 0
		case strings.HasPrefix(name, text):
			best = 1
		}
	}
	return best
}

// has reports whether one of the texts has the searched one in it.
func has(text string, in ...string) bool {
	return slices.ContainsFunc(in, func(t string) bool { return strings.Contains(strings.ToLower(t), text) })
}

type executionFinder struct{ *server }

func (f executionFinder) find(ctx, _ context.Context, text string, found func(Hit) bool) (bool, error) {
	if len(text) > 36 || strings.ContainsFunc(text, func(c rune) bool { return !strings.ContainsRune("0123456789abcdef-", c) }) {
		return false, nil
	}
	list, err := f.o.Store.Beginning(ctx, text, mostHits+1)
	for i := range list {
		found(Hit{Kind: "execution", ID: list[i].ID, Name: list[i].Pipeline, Status: list[i].Status.String()})
	}
	return false, err
}

type pipelineFinder struct{ *server }

func (f pipelineFinder) find(ctx, soon context.Context, text string, found func(Hit) bool) (bool, error) {
	whole, err := f.o.Pipelines.Search(ctx, soon, text, func(p pipeline.Found) bool {
		if p.Step != "" {
			return found(Hit{Kind: "step", ID: p.Step, Name: p.Name, Pipeline: p.ID})
		}
		return found(Hit{Kind: "pipeline", ID: p.ID, Name: p.Name})
	})
	return !whole, err
}

func (j *jobs) find(ctx, soon context.Context, text string, found func(Hit) bool) (bool, error) {
	return findPages(soon, func(after string) ([]trigger.Status, error) {
		return j.schedules.List(ctx, &trigger.Filter{Page: resource.Page{Limit: 1000, Cursor: after}})
	}, func(one *trigger.Status) (id string, goOn bool) {
		if !has(text, one.ID, one.Name, one.Description) {
			return one.ID, true
		}
		return one.ID, found(Hit{Kind: "schedule", ID: one.ID, Name: one.Name, Status: one.Status})
	})
}

func (k *projects) find(ctx, soon context.Context, text string, found func(Hit) bool) (bool, error) {
	return findPages(soon, func(after string) ([]project.Project, error) {
		return k.list.List(ctx, &project.Filter{Page: resource.Page{Limit: 1000, Cursor: after}})
	}, func(one *project.Project) (id string, goOn bool) {
		if !has(text, one.ID, one.Name, one.Tags) {
			return one.ID, true
		}
		return one.ID, found(Hit{Kind: "project", ID: one.ID, Name: one.Name})
	})
}

// findPages looks at pages of 1,000 until soon ends.
func findPages[T any](soon context.Context, page func(after string) ([]T, error), look func(*T) (id string, goOn bool)) (more bool, err error) {
	for after := ""; ; {
		list, err := page(after)
		if err != nil {
			return false, err
		}
		for i := range list {
			goOn := false
			if after, goOn = look(&list[i]); !goOn {
				return true, nil
			}
		}
		switch {
		case len(list) < 1000:
			return false, nil
		case soon.Err() != nil:
			return true, nil
		}
	}
}
