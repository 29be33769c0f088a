package api

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// ExecutionStats are how executions ended, by time.
type ExecutionStats struct {
	Bucket   string        `json:"bucket" enum:"minute,hour,day,all"`
	From     Time          `json:"from" doc:"Where the first bucket begins."`
	To       Time          `json:"to" doc:"Where the last one ends."`
	Complete bool          `json:"complete" doc:"False: there are more counts than one request reads, and the last buckets are missing, of minutes the first. Ask for less time."`
	Total    EndedBucket   `json:"total" doc:"All that are counted together; from is where the first bucket begins."`
	Buckets  []EndedBucket `json:"buckets" nullable:"false" doc:"In order of time, then of pipelines. Those in which nothing ended are left out."`
}

// EndedBucket is the executions that ended in a minute, an hour or a day (UTC).
type EndedBucket struct {
	From         Time     `json:"from"`
	Pipeline     *string  `json:"pipeline_id,omitempty" doc:"With group=pipeline; empty for those of no stored pipeline."`
	Ended        int64    `json:"ended" doc:"All of them. One that is restarted in place counts at each of its ends."`
	Completed    int64    `json:"completed"`
	WithFailures int64    `json:"completed_with_failures"`
	Failed       int64    `json:"failed"`
	TimedOut     int64    `json:"timed_out"`
	Cancelled    int64    `json:"cancelled"`
	P50          *float64 `json:"p50_seconds,omitempty" doc:"Half of those that completed, with failures or not, took at most that long. From bins that are longer by a factor of 1.41 each, so up to that much too long. Missing: none completed."`
	P95          *float64 `json:"p95_seconds,omitempty"`
	P99          *float64 `json:"p99_seconds,omitempty"`
	Cost         Money    `json:"cost"`
	bins         map[int]int64
}

// AskStats says which executions are counted.
type AskStats struct {
	Bucket   string    `query:"bucket" enum:"minute,hour,day,all" default:"day" doc:"all: the whole time, in days, as one bucket: with group=pipeline what each of them usually takes. Days and hours are counted when executions end and kept for 400 days. Minutes are read from the executions that the server still has, as they are now: one that was restarted in place counts at its last end, with all that it has cost."`
	Group    string    `query:"group" enum:"none,pipeline" default:"none" doc:"pipeline: a bucket for each pipeline."`
	Pipeline string    `query:"pipeline_id" maxLength:"100" doc:"Only executions of this stored pipeline."`
	From     time.Time `query:"from" doc:"Defaults to 14 days before to, for hours to a day, for minutes to an hour before it. Of minutes a day at most."`
	To       time.Time `query:"to" doc:"Defaults to now. Days, hours and minutes are whole, in UTC."`
}

// Bounds of one request.
const (
	mostBuckets = 5_000
	longestDays = 400
)

var mostCounts = 100_000 // sums; tests set it

// mostEnds bounds the executions that are read for minutes.
const mostEnds = 50_000

// sums are the first mostCounts sums of a kind whose ids are in a range. False: there are more.
func (s *server) sums(ctx context.Context, kind, from, to string) ([]store.Used, bool, error) {
	list, err := s.o.Store.UsageIn(ctx, kind, from, to, mostCounts+1)
	if len(list) > mostCounts {
		return list[:mostCounts], false, err
	}
	return list, true, err
}

// span is the range that is asked for, in whole buckets of a size.
func (in *AskStats) span() (from, to time.Time, size time.Duration, err error) {
	size, back, longest := 24*time.Hour, 14, longestDays*24*time.Hour
	hint := "from has to be before to, by 400 days at most"
	switch in.Bucket {
	case "hour":
		size, back = time.Hour, 24
	case "minute":
		size, back, longest, hint = time.Minute, 60, 24*time.Hour+time.Minute, "from has to be before to, of minutes by a day at most"
	}
	if to = in.To; to.IsZero() {
		to = time.Now()
	}
	if from = in.From; from.IsZero() {
		from = to.Add(-time.Duration(back-1) * size)
	}
	from, to = from.UTC().Truncate(size), to.UTC().Add(size-1).Truncate(size)
	if !from.Before(to) || to.Sub(from) > longest {
		err = stepwell.Invalid("counts are kept for 400 days", "%s", hint)
	}
	return from, to, size, err
}

// ends calls count for the sums of executions that ended in a range. False: there are more than are read.
func (s *server) ends(ctx context.Context, bucket string, from, to time.Time, count func(*store.EndGroup, *store.Used)) (bool, error) {
	if bucket == "minute" {
		ends, err := s.o.Store.EndedIn(ctx, from, to, mostEnds+1)
		all := len(ends) <= mostEnds
		for _, e := range ends[max(0, len(ends)-mostEnds):] {
			count(&store.EndGroup{Hour: e.At, Workflow: e.Workflow, Status: e.Status, Bin: store.DurationBin(e.Took)}, &store.Used{Spending: stepwell.Spending{Cost: e.Cost, Usage: stepwell.Usage{InputTokens: 1}}})
		}
		return all, err
	}
	sums, all, err := s.sums(ctx, store.UsageOfEnds, store.EndsFrom(from), store.EndsFrom(to))
	for i := range sums {
		g, bad := store.ReadEnds(sums[i].ID)
		if bad != nil {
			return all, bad
		}
		count(&g, &sums[i])
	}
	return all, err
}

func (s *server) stats(ctx context.Context, in *AskStats) (*answer[ExecutionStats], error) {
	from, to, size, err := in.span()
	if err != nil {
		return nil, err
	}
	out := ExecutionStats{Bucket: in.Bucket, From: resource.At(from), To: resource.At(to), Buckets: []EndedBucket{}}
	out.Total = EndedBucket{From: out.From, bins: map[int]int64{}}
	at, full := map[string]int{}, false
	all, err := s.ends(ctx, in.Bucket, from, to, func(g *store.EndGroup, u *store.Used) {
		if in.Pipeline != "" && g.Workflow != in.Pipeline {
			return
		}
		b := EndedBucket{From: resource.At(g.Hour.Truncate(size)), bins: map[int]int64{}}
		if in.Bucket == "all" {
			b.From = out.From
		}
		key := b.From.String()
		if in.Group == "pipeline" {
			b.Pipeline = &g.Workflow
			key += "|" + g.Workflow
		}
		out.Total.count(g, u)
		n, there := at[key]
		if !there {
			if full = full || len(out.Buckets) == mostBuckets; full {
				return
			}
			n = len(out.Buckets)
			at[key] = n
			out.Buckets = append(out.Buckets, b)
		}
		out.Buckets[n].count(g, u)
	})
	if err != nil {
		return nil, err
	}
	out.Complete = all && !full
	slices.SortStableFunc(out.Buckets, func(a, b EndedBucket) int { return a.From.Compare(b.From.Time) })
	for i := range out.Buckets {
		out.Buckets[i].percentiles()
	}
	out.Total.percentiles()
	return reply(out, nil)
}

func (b *EndedBucket) percentiles() {
	b.P50, b.P95, b.P99 = b.within(0.5), b.within(0.95), b.within(0.99)
}

// count adds a sum.
func (b *EndedBucket) count(g *store.EndGroup, u *store.Used) {
	n := u.InputTokens
	b.Ended += n
	b.Cost += Money(u.Cost)
	switch g.Status {
	case stepwell.ExecutionCompleted:
		b.Completed += n
		b.bins[g.Bin] += n
	case stepwell.ExecutionCompletedWithFailures:
		b.WithFailures += n
		b.bins[g.Bin] += n
	case stepwell.ExecutionFailed:
		b.Failed += n
	case stepwell.ExecutionTimedOut:
		b.TimedOut += n
	case stepwell.ExecutionCancelled:
		b.Cancelled += n
	}
}

// within is the time in which a share of those that completed did: the end of the bin, nil when none did.
func (b *EndedBucket) within(share float64) *float64 {
	total := b.Completed + b.WithFailures
	if total == 0 {
		return nil
	}
	rank := int64(math.Ceil(share * float64(total)))
	bins := make([]int, 0, len(b.bins))
	for bin := range b.bins {
		bins = append(bins, bin)
	}
	slices.Sort(bins)
	for _, bin := range bins {
		if rank -= b.bins[bin]; rank <= 0 {
			seconds := store.BinEnd(bin).Seconds()
			return &seconds
		}
	}
	return nil
}
