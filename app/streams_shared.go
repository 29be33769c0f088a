package app

import (
	"context"
	"fmt"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/stream/files"
)

// shareStreams opens Options.SharedStreams. Where several processes run executions, streams that write to a folder need a queue.
func (o *Options) shareStreams(r *action.Registry) (err error) {
	if o.SharedStreams == "" {
		return nil
	}
	r.Spread = o.shared()
	if o.streams, err = files.OpenShared(o.SharedStreams, o.S3); err != nil {
		return fmt.Errorf("streams.shared: %w", err)
	}
	return nil
}

// claimStreams says whose the shared streams are, and checks the place.
func (o *Options) claimStreams(ctx context.Context, db Store) error {
	if o.streams == nil {
		return nil
	}
	named, ok := db.(interface{ ID() string })
	if !ok {
		return stepwell.Invalid("leave it out", "streams.shared: this kind of database has no identity")
	}
	if err := o.streams.Claim(ctx, named.ID()); err != nil {
		return fmt.Errorf("streams.shared: %w", err)
	}
	return nil
}
