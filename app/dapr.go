package app

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/dapr"
	"github.com/stepwell/stepwell/pipeline"
)

// buildDapr makes what the sidecar asks.
func (s *Server) buildDapr(context.Context) (err error) {
	s.platform, err = dapr.New(dapr.Options{Settings: s.o.Dapr, Receive: s.router.Receive, MaxEvent: s.router.MaxBody(), Fire: s.fireNamed, Fired: s.firedNamed, Ready: s.Ready,
		Count: s.meter.DaprEvent, Document: s.mirrored, Now: s.now, Log: s.log})
	return err
}

// keepAwake keeps a Dapr job at the time of the next schedule.
func (s *Server) keepAwake(ctx context.Context) error {
	return s.platform.KeepAwake(ctx, func() time.Time { return s.schedules.Stats().Next })
}

// callingApp is the app behind a request that comes through the sidecar.
func (s *Server) callingApp(r *http.Request) (access.Principal, bool, error) {
	return s.platform.Caller(r)
}

// fireNamed starts the job of a name or id, else the webhook, for a caller that is believed.
func (s *Server) fireNamed(ctx context.Context, name, key string, data []byte) (string, bool, error) {
	actor := "dapr:job:" + name
	job, err := s.schedules.Job(name)
	var launched *pipeline.Launched
	switch {
	case err == nil:
		values, failed := dapr.DataOf(data)
		if failed != nil {
			return "", false, stepwell.Invalid("send JSON", "the data of the Dapr job is no JSON")
		}
		in := pipeline.Launch{Outside: &pipeline.Outside{Values: values}}
		in.Trigger, in.Actor, in.Key = "event", actor, key
		launched, err = s.schedules.Trigger(ctx, job.ID, in)
	case stepwell.CodeOf(err) == stepwell.CodeNotFound:
		if launched, err = s.hooks.Fire(ctx, name, key, data); stepwell.CodeOf(err) == stepwell.CodeNotFound {
			err = &stepwell.Error{Code: stepwell.CodeNotFound, Message: "there is no job or webhook " + stepwell.Clip(name, 80), Hint: "a Dapr job starts what has its name"}
		}
	}
	if err != nil {
		return "", false, err
	}
	return launched.Execution, launched.Fresh, nil
}

// firedNamed says when a key was used by fireNamed; zero: it was not.
func (s *Server) firedNamed(ctx context.Context, key string) (at time.Time, err error) {
	used, err := s.Conductor.StartKey(ctx, key)
	if err == nil {
		return used.Created, nil
	}
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		err = nil
	}
	return at, errors.Join(err)
}
