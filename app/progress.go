package app

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/progress"
	"github.com/stepwell/stepwell/progress/redisstate"
	"github.com/stepwell/stepwell/project"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
)

// State is a Redis server that has the progress of projects beside the database: for quick reads, and for other programs.
type State struct {
	// URL is the address: redis://user:password@host:port. Defaults to none: the database answers.
	URL string
	// DB is the database of the server; a negative one is 0. Defaults to 1.
	DB int
	// TTL is how long a project lives there after its last change. Defaults to 604,800 s.
	TTL time.Duration
	// Publish is where the events of finished projects go: PublishChannel or PublishStream, both named redisstate.Events.
	// Defaults to nowhere.
	Publish string
}

// The values of State.Publish.
const (
	PublishChannel = "channel"
	PublishStream  = "stream"
)

// openState makes the client of the state server, which connects when it is needed. CodeInvalid: a malformed address.
func (s *Server) openState() (err error) {
	o := &s.o.State
	if o.URL == "" {
		return nil
	}
	s.mirror, err = redisstate.Open(redisstate.Options{URL: o.URL, DB: o.DB, TTL: o.TTL, Log: s.log})
	return err
}

// sinks take what has happened from the outbox.
func (s *Server) sinks() []trigger.Sink {
	list := []trigger.Sink{s.schedules, s.router, s.partitions}
	if s.mirror != nil && s.o.State.Publish != "" {
		list = append(list, publisher{s.mirror, s.o.State.Publish == PublishStream})
	}
	for _, r := range s.reports {
		list = append(list, r)
	}
	return list
}

// buildProgress makes the tracker, which ends with closeProgress.
func (s *Server) buildProgress() error {
	o := progress.Options{Store: finishes{s.Store, s.relay.Wake}, Source: storeName(s.Store.Path()), Now: s.o.Now, Log: s.log}
	if s.mirror != nil {
		o.State = s.mirror
	}
	tracker, err := progress.New(o)
	if err == nil {
		s.projects = project.New(s.Store, tracker)
		s.buildLessons()
	}
	return err
}

// closeProgress stores what is being counted, and ends the operations on the state server within 5 seconds.
func (s *Server) closeProgress() error {
	if s.projects == nil {
		return nil
	}
	return s.projects.Close()
}

// counted hears of the items that a commit has counted: after it, and without waiting.
func (s *Server) counted(u *conductor.Update) {
	if u.Counted == nil || s.projects == nil {
		return
	}
	s.projects.Counted(u.Counted)
	s.relay.Wake() // it may have finished the project
}

// stateAway reports whether the state server does not answer.
func (m measured) stateAway() bool { return m.s.mirror != nil && m.s.mirror.Away() }

// finishes wakes the relay when a change has finished a project.
type finishes struct {
	store.Projects
	wake func()
}

// ChangeProgress implements store.Projects.
func (f finishes) ChangeProgress(ctx context.Context, changes []store.ProgressChange) ([]store.ProgressResult, error) {
	out, err := f.Projects.ChangeProgress(ctx, changes)
	for i := range out {
		if out[i].Finished {
			f.wake()
			break
		}
	}
	return out, err
}

// publisher sends the events of finished projects to Redis.
type publisher struct {
	to     *redisstate.State
	stream bool
}

// Take implements trigger.Sink.
func (p publisher) Take(ctx context.Context, list []trigger.Happened) error {
	var later trigger.LaterError
	for i := range list {
		h := &list[i]
		if h.Kind != store.JobCompleted {
			continue
		}
		var e store.ProjectEvent
		if json.Unmarshal(h.Body, &e) != nil {
			continue // the event router has logged it
		}
		if err := p.to.Publish(ctx, p.stream, e.Payload.Project, h.Body); err != nil {
			if ctx.Err() != nil {
				return err
			}
			later.Put(h.No, err)
		}
	}
	return later.OrNil()
}

// EvictionPolicy asks a state server for its maxmemory-policy.
func EvictionPolicy(ctx context.Context, o State) (string, error) {
	s, err := redisstate.Open(redisstate.Options{URL: o.URL, DB: o.DB})
	if err != nil {
		return "", err
	}
	defer s.Close() //nolint:errcheck // never fails
	return s.EvictionPolicy(ctx)
}
