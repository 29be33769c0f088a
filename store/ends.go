package store

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// UsageOfEnds is the kind of sums of executions that have ended: InputTokens is how many, Cost what they cost. The id is that of an
// EndGroup, which begins with the hour. An execution that is restarted in place counts at each of its
// ends, with what it has cost since the one before.
const UsageOfEnds = "ended"

// Kinds that are counted and pruned like UsageOfEnds; their ids begin with the day or time of the end.
const (
	// UsageOfCosts are costs of executions that have ended, by CostGroup: Cost, attempts as InputTokens, what repeated attempts among
	// them cost as OutputTokens, and how many those are as AudioMillis.
	UsageOfCosts = "cost"
	// UsageOfPromises are executions with an SLA that have ended, by PromiseGroup: how many as InputTokens, those that broke it as
	// OutputTokens, those beyond its maximum as AudioMillis, and how long all of them took, in µs, as Cost.
	UsageOfPromises = "promise"
	// UsageOfBreaches are the executions that broke their SLA, each one (Breach).
	UsageOfBreaches = "breach"
)

// EndKinds are all kinds of sums of executions that have ended. Retention.Ends is for all of them.
func EndKinds() []string {
	return []string{UsageOfEnds, UsageOfCosts, UsageOfPromises, UsageOfBreaches}
}

// EndGroup is executions that are counted together.
type EndGroup struct {
	Hour     time.Time // in which they ended, UTC
	Workflow string    // id of the stored pipeline; "" for all that are of none
	Status   stepwell.ExecutionStatus
	Bin      int // of their durations from the start (DurationBin)
}

// Ended is the end of one execution.
type Ended struct {
	At       time.Time
	Took     time.Duration // from its start
	Workflow string        // id of the stored pipeline, "" for none
	Status   stepwell.ExecutionStatus
	Cost     int64 // all that it has cost
}

// endHour is how the hour is written; it sorts as the hours do.
const endHour = "2006-01-02T15"

// lanes is how many rows one group has at most: processes that commit at once do not wait for each other's row.
const lanes = 16

// Ends counts the end of an execution that the process with the number owner commits, with what it has cost since its last end.
func (x *Execution) Ends(cost, owner int64) Used {
	began := x.Started
	if began.IsZero() {
		began = x.Ended
	}
	id := append(append(x.Ended.UTC().AppendFormat(make([]byte, 0, 96), endHour), '|'), x.Workflow...)
	id = strconv.AppendInt(append(id, '|'), int64(x.Status), 10)
	id = strconv.AppendInt(append(id, '|'), int64(DurationBin(x.Ended.Sub(began))), 10)
	id = strconv.AppendUint(append(id, '|'), uint64(owner)%lanes, 10)
	return Used{UsageOfEnds, string(id), stepwell.Spending{Cost: cost, Usage: stepwell.Usage{InputTokens: 1}}}
}

// EndsFrom is the first id of groups of an hour, or of later ones.
func EndsFrom(hour time.Time) string { return hour.UTC().Format(endHour) }

// ReadEnds reads the id of a sum of UsageOfEnds.
func ReadEnds(id string) (g EndGroup, err error) {
	bad := func(err error) (EndGroup, error) {
		return g, &stepwell.Error{Code: stepwell.CodeInternal, Message: fmt.Sprintf("the sum %q is of no group of executions", id), Err: err}
	}
	parts := strings.Split(id, "|")
	if len(parts) < 5 {
		return bad(nil)
	}
	if g.Hour, err = time.Parse(endHour, parts[0]); err != nil {
		return bad(err)
	}
	end := len(parts) - 3
	g.Workflow = strings.Join(parts[1:end], "|")
	status, err := strconv.Atoi(parts[end])
	if err != nil {
		return bad(err)
	}
	g.Status = stepwell.ExecutionStatus(status)
	if g.Bin, err = strconv.Atoi(parts[end+1]); err != nil {
		return bad(err)
	}
	return g, nil
}

// DurationBin is the number of the bin of a duration: 0 up to a millisecond, and each of the others is longer by a factor of √2.
func DurationBin(d time.Duration) int {
	if d <= time.Millisecond {
		return 0
	}
	return min(int(math.Ceil(2*math.Log2(float64(d)/float64(time.Millisecond)))), maxBin)
}

// maxBin is that of all durations above 47 years.
const maxBin = 81

// BinEnd is the longest duration of a bin.
func BinEnd(bin int) time.Duration {
	return time.Duration(float64(time.Millisecond) * math.Pow(2, float64(bin)/2))
}
