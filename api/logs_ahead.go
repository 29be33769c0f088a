package api

import (
	"context"
	"sync"

	"github.com/stepwell/stepwell/store"
)

// Bounds of reading ahead in a search.
const (
	searchAhead = 2     // parts of a log that are read beside one another
	searchMost  = 8_000 // lines of such a part
	searchFew   = 125   // lines that are read at least, around what was found
)

// said is what a part of a log says.
type said struct {
	n           int
	first, last int64 // seqs
	found       bool  // a line has what is asked for
	err         error
}

// part is one that is being read: all lines with these seqs.
type part struct {
	from, to int64
	got      chan said
}

// ahead reads the next parts of a log while a search looks at those in front of them, as long as the lines of the execution lie close to
// one another: then a part of so many seqs has most of as many lines.
type ahead struct {
	read  func(ctx context.Context, f store.LogFilter) said
	parts []part
	end   int64 // the last seq there was when this began: what comes behind it comes in order, and is not read ahead
	wait  sync.WaitGroup
}

// next is what the lines say that a search looks at next, up to limit of them, and where it goes on. All is false when the log may go on.
func (a *ahead) next(ctx context.Context, p *logPage, limit int) (got said, all bool) {
	if len(a.parts) > 0 {
		next := a.parts[0]
		a.parts = a.parts[1:]
		select {
		case got = <-next.got:
		case <-ctx.Done():
			return said{err: ctx.Err()}, false
		}
		if got.first, got.last = next.from, next.to; got.n > limit/2 {
			a.begin(ctx, p, next.from, next.to, limit)
		}
		return got, false
	}
	f := p.f
	f.Limit = limit
	if p.backward {
		f.Tail = limit
	}
	got = a.read(ctx, f)
	if limit < searchMost || got.err != nil || got.found || got.n < limit || got.last-got.first >= int64(limit)*2 {
		return got, got.n < limit
	}
	if a.end == 0 && !p.backward {
		f.After, f.Tail = got.last, 1
		end := a.read(ctx, f)
		if end.err != nil {
			return end, false
		}
		a.end = end.last
	}
	a.begin(ctx, p, got.first, got.last, limit)
	return got, false
}

// begin begins to read the parts behind the one with such seqs, and behind those that are read already.
func (a *ahead) begin(ctx context.Context, p *logPage, from, to int64, limit int) {
	for len(a.parts) < searchAhead {
		if n := len(a.parts); n > 0 {
			from, to = a.parts[n-1].from, a.parts[n-1].to
		}
		next := part{from: to + 1, to: to + int64(limit), got: make(chan said, 1)}
		if p.backward {
			next.from, next.to = from-int64(limit), from-1
		}
		if next.from < 1 || !p.backward && next.to > a.end {
			return
		}
		f := p.f
		f.After, f.Before, f.Limit = next.from-1, next.to+1, limit
		a.parts = append(a.parts, next)
		a.wait.Go(func() { next.got <- a.read(ctx, f) })
	}
}
