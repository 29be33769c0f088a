package pipeline

import (
	"context"
	"strings"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/store"
)

// Found is what a search finds: a pipeline, or a step of the newest version of one.
type Found struct {
	*Pipeline
	Step string // "": the pipeline itself
}

// stepIndex has the steps of the newest versions, by pipeline.
type stepIndex struct {
	mu    sync.Mutex
	of    map[string]indexed
	steps int
}

type indexed struct {
	digest string
	ids    []string
}

// Limits of a search.
const (
	searchPage   = 1000
	indexedSteps = 500_000 // ids that are kept; beyond, all are read again
)

// Search calls yield for stored pipelines whose name, id or description, and for steps whose id, has the text in it, in either
// case, until it returns false. Steps are found in documents that were read before or can be read until soon ends: whole is false
// when there are more, which the next search goes on with.
func (l *Library) Search(ctx, soon context.Context, text string, yield func(Found) bool) (whole bool, err error) {
	text, whole = strings.ToLower(text), true
	for after := ""; ; {
		page, err := l.o.Objects.Objects(ctx, store.ObjectFilter{Kind: kindPipeline, After: after, Limit: searchPage})
		if err != nil {
			return false, err
		}
		for i := range page {
			h, err := decode[head](&page[i])
			if err != nil {
				return false, err
			}
			if h.Deleting {
				continue
			}
			p := h.pipeline(&page[i])
			if strings.Contains(strings.ToLower(p.Name+"\n"+p.ID+"\n"+p.Description), text) && !yield(Found{Pipeline: p}) {
				return whole, nil
			}
			ids, known, err := l.stepIDs(ctx, soon, &page[i], h)
			if err != nil {
				return false, err
			}
			whole = whole && known
			for _, id := range ids {
				if strings.Contains(strings.ToLower(id), text) && !yield(Found{p, id}) {
					return whole, nil
				}
			}
		}
		if len(page) < searchPage {
			return whole, nil
		}
		if after = page[len(page)-1].ID; soon.Err() != nil {
			return false, nil
		}
	}
}

// stepIDs are the ids of the steps of the newest version; not known: there is no time to read its document.
func (l *Library) stepIDs(ctx, soon context.Context, o *store.Object, h head) (ids []string, known bool, err error) {
	l.index.mu.Lock()
	was, there := l.index.of[o.ID]
	l.index.mu.Unlock()
	if there && was.digest == h.Digest {
		return was.ids, true, nil
	}
	if soon.Err() != nil {
		return nil, false, nil
	}
	v, err := l.version(ctx, o, h, h.Version)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound { // it is being deleted
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	if d, _ := definition.Parse([]byte(v.Document), definition.ParseOptions{}); d != nil {
		for _, list := range l.Outline(d, []byte(v.Document)).Lists {
			for i := range list.Steps {
				ids = append(ids, list.Steps[i].ID)
			}
		}
	}
	l.index.mu.Lock()
	defer l.index.mu.Unlock()
	if l.index.of == nil || l.index.steps > indexedSteps { // pipelines that were deleted are among them
		l.index.of, l.index.steps = map[string]indexed{}, 0
	}
	l.index.steps += len(ids) - len(l.index.of[o.ID].ids)
	l.index.of[o.ID] = indexed{h.Digest, ids}
	return ids, true, nil
}
