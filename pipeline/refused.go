package pipeline

import (
	"context"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// Refused is a step of something stored that would be refused.
type Refused struct {
	Kind     string // pipeline, schedule, webhook or event_trigger
	ID, Name string
	Step     string // "" for the action of a trigger
	Err      error  // the reason, with a hint
}

// RefusedSteps looks through the active versions of the stored pipelines that are in use, and gives the first step of each
// that check refuses, at most so many. Check sees the steps inside others too, and the action of a loop as a step of
// its own.
func RefusedSteps(ctx context.Context, objects store.Objects, check func(*definition.Author, *definition.Step) error, most int) ([]Refused, error) {
	l := &Library{o: Options{Objects: objects, Cache: 1}, parsed: map[string]*parsed{}}
	var list []Refused
	for after := ""; len(list) < most; {
		page, err := l.List(ctx, &Filter{Archived: "false", Page: resource.Page{Cursor: after, Limit: 100}})
		if err != nil {
			return nil, err
		}
		for i := range page {
			p, _, err := l.stored(ctx, page[i].ID, 0)
			if err != nil {
				continue // it cannot be started either
			}
			if step, err := refusedIn(p.def, check); err != nil && len(list) < most {
				list = append(list, Refused{Kind: "pipeline", ID: page[i].ID, Name: page[i].Name, Step: step, Err: err})
			}
		}
		if len(page) < 100 {
			break
		}
		after = page[len(page)-1].ID
	}
	return list, nil
}

// refusedIn gives the first step of a definition, and of the pipelines in it, that check refuses.
func refusedIn(d *definition.Definition, check func(*definition.Author, *definition.Step) error) (step string, err error) {
	eachUse(d, func(u use, s *definition.Step, _ string) {
		if err == nil {
			if err = check(&u.author, s); err != nil {
				step = s.ID
			}
		}
	})
	return step, err
}
