package api

import (
	"time"

	"github.com/stepwell/stepwell/field"
	"github.com/stepwell/stepwell/resource"
)

// Moment selects a version of an execution: its log is folded up to there.
type Moment struct {
	Version int64     `query:"version" minimum:"0" doc:"As it was after the commit with this version, which /history and the streams name. Defaults to now."`
	At      time.Time `query:"at" doc:"As it was at this time."`
}

// past reports whether another moment than now is asked for.
func (m *Moment) past() bool { return m.Version > 0 || !m.At.IsZero() }

// Then is a commit of the past, whose state was asked for.
type Then struct {
	Version int64  `json:"version"`
	At      Time   `json:"at" doc:"When it was committed."`
	Status  string `json:"status" enum:"pending,running,paused,cancelling,completed,completed_with_failures,failed,cancelled,timed_out" doc:"Of the execution."`
}

// asOf describes a moment; nil is now.
func asOf(p *field.Past) *Then {
	if p == nil {
		return nil
	}
	return &Then{p.Version, resource.At(p.At), p.Status.String()}
}
