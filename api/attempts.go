package api

import (
	"context"
	"strconv"
	"time"

	"github.com/stepwell/stepwell/resource"
)

// Attempt is one attempt of a step, or the part of one up to where it gave its worker back.
type Attempt struct {
	Step    string `json:"step_id"`
	Index   int    `json:"index" doc:"Of the step, as in /steps."`
	Number  int    `json:"attempt" doc:"The number of the attempt, from 1 on. An attempt that waits and goes on is in the list several times."`
	Queued  Time   `json:"queued_at"`
	Started Time   `json:"started_at"`
	Ended   Time   `json:"ended_at"`
	Worker  string `json:"worker_id,omitempty"`
	Queue   string `json:"queue,omitempty" doc:"That the step was queued in; left out for the default one."`
	Outcome string `json:"outcome,omitempty" enum:"completed,failed,skipped,cancelled,timed_out,waiting,lost" doc:"Left out until it has ended. lost: its worker or the server was gone."`
	Detail  string `json:"detail,omitempty" doc:"The error, or why it was skipped."`
	Until   Time   `json:"until" doc:"When the step goes on: the next attempt after a failure, or the end of what it waits for; null once it has."`
}

// AttemptList is a page of attempts.
type AttemptList struct {
	Version  int64     `json:"version" doc:"Of the execution: the number of its last commit."`
	Attempts []Attempt `json:"attempts" nullable:"false"`
	Next     string    `json:"next_cursor,omitempty"`
}

// ListAttempts selects attempts.
type ListAttempts struct {
	ExecutionPath
	Step   string `query:"step" maxLength:"300" doc:"Only those of the step with this key."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Cursor string `query:"cursor" maxLength:"600"`
}

func (f *fields) attempts(ctx context.Context, in *ListAttempts) (*answer[AttemptList], error) {
	x, err := f.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	from, err := numberCursor("attempts", in.Cursor)
	if err != nil {
		return nil, err
	}
	a, err := f.hub.Attempts(ctx, x)
	if err != nil {
		return nil, err
	}
	out := AttemptList{Version: a.Version, Attempts: []Attempt{}}
	for at := int(min(from, int64(len(a.List)))); at < len(a.List); at++ {
		t := &a.List[at]
		if in.Step != "" && t.Key != in.Step {
			continue
		}
		if len(out.Attempts) == in.Limit {
			out.Next = cursorTo("attempts", strconv.Itoa(at))
			break
		}
		out.Attempts = append(out.Attempts, Attempt{Step: t.Key, Index: int(t.Step), Number: t.Number, Queued: moment(t.Queued), Started: moment(t.Started), Ended: moment(t.Ended),
			Worker: t.Worker, Queue: t.Queue, Outcome: t.Outcome, Detail: f.text(x.ID, t.Detail), Until: moment(t.Until)})
	}
	return reply(out, nil)
}

// GetAttemptColumns selects rows of the columns of attempts.
type GetAttemptColumns struct {
	ExecutionPath
	From        int    `query:"from" minimum:"0" maximum:"1048576" doc:"Number of the first attempt, from 0 on, in the order in which they were queued."`
	Limit       int    `query:"limit" minimum:"1" maximum:"100000" default:"100000" doc:"Rows at most; total in the header says how many there are."`
	IfNoneMatch string `header:"If-None-Match" maxLength:"2000"`
}

func (f *fields) attemptColumns(ctx context.Context, in *GetAttemptColumns) (*streamed, error) {
	x, err := f.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if unchanged(in.IfNoneMatch, x.Version) {
		return nil, notModified(x.Version)
	}
	a, err := f.hub.Attempts(ctx, x)
	if err != nil {
		return nil, err
	}
	encode, packed := a.Encode, zips(ctx)
	if packed {
		encode = a.Packed
	}
	raw, err := encode(in.From, in.Limit)
	if err != nil {
		return nil, err
	}
	return asColumns(raw, packed, a.Version), nil
}

// moment is a time in µs; 0 is none.
func moment(us int64) Time {
	if us == 0 {
		return Time{}
	}
	return resource.At(time.UnixMicro(us).UTC())
}
