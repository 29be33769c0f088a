package schedule

import (
	"fmt"
	"iter"
	"time"

	"github.com/stepwell/stepwell"
)

// mostPreview is the most firings that Preview and Backfill give.
const mostPreview = 100_000

// Between gives the firings from one moment up to another, without the second: ranges that meet
// share nothing. Each is found when it is asked for.
func (s *Schedule) Between(from, to time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		at, ok := s.Next(from.Add(-1))
		for ok && at.Before(to) && yield(at) {
			at, ok = s.Next(at)
		}
	}
}

// Preview gives the next n firings after a moment, fewer when there are no more or when MaxRuns
// is reached, for a schedule that has fired runs times already. At most 100,000.
func (s *Schedule) Preview(after time.Time, runs, n int) []time.Time {
	if s.spec.MaxRuns > 0 {
		n = min(n, s.spec.MaxRuns-runs)
	}
	return s.collect(after, time.Unix(latestSecond, 0), min(n, mostPreview))
}

// Backfill gives all firings of a range, see Between, or a CodeLimit error when there are more than
// limit of them: a backfill is whole or refused. Limit defaults to 100,000, its maximum.
func (s *Schedule) Backfill(from, to time.Time, limit int) ([]time.Time, error) {
	if to.Before(from) {
		return nil, stepwell.Invalid("swap the two ends", "the range ends at %s, before it begins", to.Format(time.RFC3339))
	}
	if limit <= 0 || limit > mostPreview {
		limit = mostPreview
	}
	var found []time.Time
	for at := range s.Between(from, to) {
		if len(found) == limit {
			return nil, &stepwell.Error{Code: stepwell.CodeLimit,
				Message: fmt.Sprintf("the range has more than %d firings", limit),
				Hint:    fmt.Sprintf("end it at %s, the first that is too many, and continue from there", at.Format(time.RFC3339))}
		}
		found = append(found, at)
	}
	return found, nil
}

// Prev is the latest firing that is not after a moment, false when there is none within 41 years.
func (s *Schedule) Prev(until time.Time) (time.Time, bool) {
	high := min(until.Unix(), s.latest)
	fires := func(after int64) bool { // whether it does, up to until
		at, ok := s.Next(time.Unix(after, 0))
		return ok && at.Unix() <= high
	}
	low, step := high-1, int64(60)
	for !fires(low) {
		if high-low > horizon || low < s.first {
			return time.Time{}, false
		}
		low, step = low-step, 8*step
	}
	for end := high; end-low > 1; { // fires(low) holds, fires(end) does not
		if middle := low + (end-low)/2; fires(middle) {
			low = middle
		} else {
			end = middle
		}
	}
	return s.Next(time.Unix(low, 0))
}
