package api

import (
	"context"
	"time"

	"github.com/stepwell/stepwell/trigger"
)

// The shapes of the times of all jobs.
type (
	Fires         = trigger.Fires
	TimingPreview = trigger.Preview
)

// ListFires selects the times of all jobs.
type ListFires struct {
	From time.Time `query:"from" doc:"Defaults to now."`
	To   time.Time `query:"to" doc:"At most 366 days later. Defaults to a week later."`
}

func (j *jobs) fires(_ context.Context, in *ListFires) (*answer[Fires], error) {
	if in.From.IsZero() {
		in.From = time.Now()
	}
	if in.To.IsZero() {
		in.To = in.From.AddDate(0, 0, 7)
	}
	f, err := j.schedules.FiresBetween(in.From, in.To)
	if err != nil {
		return nil, err
	}
	return reply(*f, nil)
}

// PreviewTiming is a timing that is being written.
type PreviewTiming struct {
	Schedule  Timing `json:"schedule"`
	ExpiresAt *Time  `json:"expires_at,omitempty"`
	MaxRuns   int    `json:"max_runs,omitempty" minimum:"0"`
}

func (j *jobs) preview(_ context.Context, in *bodyInput[PreviewTiming]) (*answer[TimingPreview], error) {
	return reply(*j.schedules.PreviewOf(trigger.Job{Schedule: in.Body.Schedule, ExpiresAt: in.Body.ExpiresAt, MaxRuns: in.Body.MaxRuns}), nil)
}
