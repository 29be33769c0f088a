package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stac/apiclient"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/durable"
)

// idsAtOnce is how many ids one search asks for: as a URL they still fit.
const idsAtOnce = 100

// searches are the searches of the config: chunks of ids, parts by time, or one search. They must be the same on
// resume, so values that depend on the server's counts are stored.
func (a *apiSource) searches(ctx context.Context) ([]apiclient.Search, error) {
	s := a.s.search
	if len(s.IDs) > 0 {
		return chunks(s, s.IDs), nil
	}
	each := []apiclient.Search{s}
	if !a.canSearch && len(s.Collections) > 1 {
		each = nil
		for _, id := range s.Collections {
			one := s
			one.Collections = []string{id}
			each = append(each, one)
		}
	}
	if a.s.SplitAt <= 0 {
		return each, nil
	}
	return a.split(ctx, each)
}

func chunks(s apiclient.Search, ids []string) (out []apiclient.Search) {
	for start := 0; start < len(ids); start += idsAtOnce {
		part := s
		part.IDs = ids[start:min(start+idsAtOnce, len(ids))]
		part.Limit = idsAtOnce
		out = append(out, part)
	}
	return out
}

// split divides the searches by time, as it was done before if this run goes on with that.
func (a *apiSource) split(ctx context.Context, each []apiclient.Search) ([]apiclient.Search, error) {
	path := filepath.Join(a.env.Data, "parts-"+filepath.Base(filepath.Clean("/"+a.env.Step))+".json")
	var times []string
	raw, err := os.ReadFile(path)
	switch {
	case err == nil && len(a.env.Cursor) > 0:
		if err := json.Unmarshal(raw, &times); err != nil {
			return nil, &stepwell.Error{Code: stepwell.CodeInternal, Message: "the parts of the search", Err: err}
		}
		return apply(each, times), nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil && len(a.env.Cursor) > 0:
		a.from = cursor{} // then from the beginning; done items are skipped behind
		a.given = 0
	}
	var out []apiclient.Search
	for _, s := range each {
		parts, err := a.client.Split(ctx, s, a.s.SplitAt)
		if err != nil {
			return nil, networkError(err)
		}
		for _, p := range parts {
			times = append(times, p.Datetime)
		}
		if len(each) > 1 {
			times = append(times, nextSearch)
		}
		out = append(out, parts...)
	}
	return out, save(path, times)
}

// nextSearch stands in the list of times between the parts of two searches.
const nextSearch = "|"

func apply(each []apiclient.Search, times []string) (out []apiclient.Search) {
	i := 0
	for _, t := range times {
		if t == nextSearch {
			i++
			continue
		}
		if i < len(each) {
			part := each[i]
			part.Datetime = t
			out = append(out, part)
		}
	}
	return out
}

// save writes a small file so that it is whole whenever it is there.
func save(path string, v any) error {
	return durable.WriteFile(path, func(f *os.File) error { return json.NewEncoder(f).Encode(v) })
}

// handOff makes searches for the ids of another step's items.
func (a *apiSource) handOff(in iter.Seq[*stream.Item], out stream.Out) iter.Seq[job] {
	return func(yield func(job) bool) {
		number, collection := 0, ""
		var ids []string
		flush := func() bool {
			if len(ids) == 0 {
				return true
			}
			s := a.s.search
			s.IDs, s.Limit, ids = ids, idsAtOnce, nil
			if collection != "" {
				s.Collections = []string{collection}
			}
			number++
			return yield(job{number: number, search: s, ids: true})
		}
		for it := range in {
			id, of := it.ID(), it.Collection()
			if len(a.s.search.Collections) > 0 {
				of = "" // the config's
			}
			if id == "" {
				a.stop = out.Fail(stream.Failure{Err: stepwell.Invalid("", "the item has no id, by which it could be fetched"), Context: stream.Context{File: it.Place.File, Line: it.Place.Line}})
				if a.stop != nil {
					return
				}
				continue
			}
			if of != collection && !flush() {
				return
			}
			collection = of
			if ids = append(ids, id); len(ids) >= idsAtOnce && !flush() {
				return
			}
		}
		flush()
	}
}
