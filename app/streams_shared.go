package app

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/stream/durable"
	"github.com/stepwell/stepwell/stream/files"
)

// sharedStreams is the part of Options.SharedStreams that belongs to the database, which is opened after the actions are made.
type sharedStreams struct {
	durable.Shared
	database string // with a slash at its end
}

// shareStreams opens Options.SharedStreams. Where several processes run executions, streams that write to a folder need a queue.
func (o *Options) shareStreams(r *action.Registry) error {
	if o.SharedStreams == "" {
		return nil
	}
	o.streams = &sharedStreams{}
	r.Spread = o.shared()
	if strings.HasPrefix(o.SharedStreams, "s3://") {
		bucket, err := files.NewBucket(o.SharedStreams, o.S3)
		o.streams.Shared = bucket
		return err
	}
	if strings.Contains(o.SharedStreams, "://") {
		return stepwell.Invalid("name a folder, or s3://bucket/prefix", "streams.shared: %q is no place for streams", o.SharedStreams)
	}
	dir, err := filepath.Abs(o.SharedStreams)
	o.streams.Shared = durable.NewSharedFolder(dir)
	return err
}

// open says whose the streams are, and checks the place.
func (s *sharedStreams) open(ctx context.Context, db Store) error {
	if s == nil {
		return nil
	}
	named, ok := db.(interface{ ID() string })
	if !ok {
		return stepwell.Invalid("leave it out", "streams.shared: this kind of database has no identity")
	}
	s.database = named.ID() + "/"
	if err := durable.Probe(ctx, s); err != nil {
		return fmt.Errorf("streams.shared: %w", err)
	}
	return nil
}

// Put implements durable.Shared.
func (s *sharedStreams) Put(ctx context.Context, name string, body []byte) error {
	return s.Shared.Put(ctx, s.database+name, body)
}

// Create implements durable.Shared.
func (s *sharedStreams) Create(ctx context.Context, name string, body []byte) error {
	return s.Shared.Create(ctx, s.database+name, body)
}

// Get implements durable.Shared.
func (s *sharedStreams) Get(ctx context.Context, name string) ([]byte, error) {
	return s.Shared.Get(ctx, s.database+name)
}

// List implements durable.Shared.
func (s *sharedStreams) List(ctx context.Context, prefix string) ([]durable.Stored, error) {
	found, err := s.Shared.List(ctx, s.database+prefix)
	for i := range found {
		found[i].Name = strings.TrimPrefix(found[i].Name, s.database)
	}
	return found, err
}

// Remove implements durable.Shared.
func (s *sharedStreams) Remove(ctx context.Context, name string) error {
	return s.Shared.Remove(ctx, s.database+name)
}
