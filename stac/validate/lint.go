package validate

import (
	"fmt"
	"hash/maphash"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stac/schema"
	"github.com/stepwell/stepwell/stream"
)

// lintChecks are the checks beyond the schemas (stac-and-media §3), but for duplicate_ids, which needs memory.
var lintChecks = map[string]func(kind schema.Kind, obj map[string]any) []schema.Problem{
	"geometry":         checkGeometry,
	"bbox":             checkBox,
	"datetime":         checkTimes,
	"collection_link":  checkCollectionLink,
	"self_link":        checkSelfLink,
	"undeclared":       checkUndeclared,
	"unused_extension": checkUnused,
}

const duplicates = "duplicate_ids"

func checkNames() []string {
	return append(slices.Sorted(maps.Keys(lintChecks)), duplicates)
}

const (
	maxLogged = 20        // findings of one check
	maxIDs    = 2_000_000 // remembered for duplicate_ids, 16 bytes each
)

// linter runs the checks that were asked for.
type linter struct {
	levels map[string]policy
	names  []string // sorted, so that problems come in the same order
	env    *stream.Env

	mu     sync.Mutex
	found  map[string]int64
	seed   maphash.Seed
	seen   map[uint64]struct{}
	seenUp bool // maxIDs reached
}

func newLinter(levels map[string]policy, env *stream.Env) *linter {
	return &linter{levels: levels, names: slices.Sorted(maps.Keys(levels)), env: env, found: map[string]int64{}, seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}}
}

// findings are the results for one object: problems make it invalid, warnings do not.
type findings struct {
	problems []schema.Problem
	warnings int64
}

func (l *linter) lintObject(it *stream.Item, kind schema.Kind, obj map[string]any) (f findings) {
	for _, name := range l.names {
		var found []schema.Problem
		if name == duplicates {
			found = l.duplicate(kind, it)
		} else {
			found = lintChecks[name](kind, obj)
		}
		if len(found) == 0 {
			continue
		}
		found = found[:min(len(found), maxShown)]
		shown := l.count(name, int64(len(found)))
		for _, p := range found {
			p.Schema, p.Keyword = "lint", name
			if l.levels[name] == fail {
				f.problems = append(f.problems, p)
				continue
			}
			f.warnings++
			if shown {
				l.env.Log(slog.LevelWarn, "lint: "+p.String(), slog.String("check", name), slog.String("item", it.ID()), slog.String("collection", it.Collection()))
			}
		}
	}
	return f
}

// count notes findings and reports whether they are still to be logged.
func (l *linter) count(name string, n int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.found[name] += n
	return l.found[name] <= maxLogged
}

func (l *linter) counts() map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]any{}
	for name, n := range l.found {
		out[name] = n
	}
	return out
}

// duplicate remembers ids by their hash, within their collection.
func (l *linter) duplicate(kind schema.Kind, it *stream.Item) []schema.Problem {
	var h maphash.Hash
	h.SetSeed(l.seed)
	for _, text := range []string{string(kind), it.Collection(), it.ID()} {
		maphash.WriteComparable(&h, text)
	}
	sum := h.Sum64()
	l.mu.Lock()
	_, twice := l.seen[sum]
	full := len(l.seen) >= maxIDs
	if !full {
		l.seen[sum] = struct{}{}
	}
	first := full && !l.seenUp
	l.seenUp = l.seenUp || full
	l.mu.Unlock()
	if first {
		l.env.Log(slog.LevelWarn, fmt.Sprintf("lint: %s: only the first %d ids are remembered", duplicates, maxIDs))
	}
	if !twice {
		return nil
	}
	return []schema.Problem{{Pointer: "/id", Message: fmt.Sprintf("the id %q is there twice in its collection", stepwell.Clip(it.ID(), 60))}}
}

func problem(pointer, format string, a ...any) []schema.Problem {
	return []schema.Problem{{Pointer: pointer, Message: fmt.Sprintf(format, a...)}}
}

// checkTimes: an interval begins before it ends, and datetime is inside.
func checkTimes(kind schema.Kind, obj map[string]any) []schema.Problem {
	if kind == schema.Collection {
		return checkIntervals(obj)
	}
	props, _ := obj["properties"].(map[string]any)
	begin, hasBegin := timeOf(props["start_datetime"])
	end, hasEnd := timeOf(props["end_datetime"])
	at, hasAt := timeOf(props["datetime"])
	var found []schema.Problem
	if hasBegin && hasEnd && end.Before(begin) {
		found = append(found, problem("/properties/end_datetime", "is before start_datetime")...)
	}
	if hasAt && (hasBegin && at.Before(begin) || hasEnd && at.After(end)) {
		found = append(found, problem("/properties/datetime", "is not between start_datetime and end_datetime")...)
	}
	return found
}

func checkIntervals(obj map[string]any) (found []schema.Problem) {
	extent, _ := obj["extent"].(map[string]any)
	temporal, _ := extent["temporal"].(map[string]any)
	list, _ := temporal["interval"].([]any)
	for i, e := range list {
		pair, _ := e.([]any)
		if len(pair) != 2 {
			continue
		}
		begin, ok1 := timeOf(pair[0])
		end, ok2 := timeOf(pair[1])
		if ok1 && ok2 && end.Before(begin) {
			found = append(found, problem(fmt.Sprintf("/extent/temporal/interval/%d", i), "ends before it begins")...)
		}
	}
	return found
}

func timeOf(v any) (time.Time, bool) {
	text, _ := v.(string)
	t, err := time.Parse(time.RFC3339, text)
	return t, err == nil
}

// links goes over the links of a relation.
func links(obj map[string]any, rel string) (hrefs []string) {
	list, _ := obj["links"].([]any)
	for _, e := range list {
		link, _ := e.(map[string]any)
		if link["rel"] == rel {
			href, _ := link["href"].(string)
			hrefs = append(hrefs, href)
		}
	}
	return hrefs
}

func checkCollectionLink(kind schema.Kind, obj map[string]any) []schema.Problem {
	if kind != schema.Item {
		return nil
	}
	n := len(links(obj, "collection"))
	_, named := obj["collection"].(string)
	switch {
	case n > 1:
		return problem("/links", "has %d links of the relation collection", n)
	case named && n == 0:
		return problem("/links", "lacks a link of the relation collection")
	case !named && n == 1:
		return problem("", "missing 'collection', to which a link leads")
	case !named:
		return problem("", "belongs to no collection")
	}
	return nil
}

func checkSelfLink(_ schema.Kind, obj map[string]any) []schema.Problem {
	hrefs := links(obj, "self")
	if len(hrefs) != 1 {
		return problem("/links", "has %d links of the relation self", len(hrefs))
	}
	if u, err := url.Parse(hrefs[0]); err != nil || !u.IsAbs() {
		return problem("/links", "the self link is not absolute: %s", stepwell.Clip(hrefs[0], 60))
	}
	return nil
}
