package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/stream/files"
)

// shareStreams opens Options.SharedStreams. Where several processes run steps, streams that write to a folder need a queue.
func (o *Options) shareStreams(r *action.Registry) (err error) {
	if o.SharedStreams == "" {
		return nil
	}
	r.Spread = o.shared() || o.desk != nil
	if o.streams, err = files.OpenShared(o.SharedStreams, o.S3); err != nil {
		return fmt.Errorf("streams.shared: %w", err)
	}
	return nil
}

// claimStreams says whose the shared streams are, and checks the place. It gives their identity, "" without streams.shared.
func (o *Options) claimStreams(ctx context.Context, db Store) (identity string, err error) {
	if o.streams == nil {
		return "", nil
	}
	named, ok := db.(interface{ ID() string })
	if !ok {
		return "", stepwell.Invalid("leave it out", "streams.shared: this kind of database has no identity")
	}
	if err := o.streams.Claim(ctx, named.ID()); err != nil {
		return "", fmt.Errorf("streams.shared: %w", err)
	}
	return named.ID(), nil
}

// ProbeStreams checks the place of Options.SharedStreams, and leaves nothing there.
func (o *Options) ProbeStreams(ctx context.Context) error {
	place, err := files.OpenShared(o.SharedStreams, o.S3)
	if err != nil {
		return err
	}
	return place.Probe(ctx)
}

// Worker is what runs steps in a process without a database.
type Worker struct {
	Actions *action.Registry
	// Streams is link.Options.Streams; nil without streams.shared.
	Streams func(ctx context.Context, identity string) error
	// Close removes the files of its streams, of which a later worker has what is durable from the shared place.
	Close func() error
}

// OpenWorker makes the actions of a worker. Of the options it uses those of actions. Files of its streams are in a folder of its own
// in Checkpoints: several workers may run in one directory.
func OpenWorker(o Options) (_ *Worker, err error) {
	w := &Worker{Close: func() error { return nil }}
	if o.SharedStreams != "" {
		if o.Checkpoints == "" {
			o.Checkpoints = o.beside() + "-streams"
		}
		if o.Checkpoints, w.Close, err = ownFolder(filepath.Join(o.Checkpoints, "workers")); err != nil {
			return nil, err
		}
	}
	if w.Actions, _, err = actions(&o); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	if o.streams != nil {
		w.Streams = o.streams.Join
	}
	return w, nil
}

// ownFolder makes a folder of this process in another one, and removes those of processes that have died.
func ownFolder(in string) (dir string, remove func() error, err error) {
	if err := os.MkdirAll(in, 0o700); err != nil {
		return "", nil, err
	}
	all := flock.New(filepath.Join(in, "lock")) // nobody takes a folder for a dead one's before its own lock is there
	if err := all.Lock(); err != nil {
		return "", nil, err
	}
	defer all.Close()
	old, _ := filepath.Glob(filepath.Join(in, "*", "lock"))
	for _, path := range old {
		if lock := flock.New(path); lock != nil {
			if free, err := lock.TryLock(); err == nil && free {
				_ = lock.Close()
				_ = os.RemoveAll(filepath.Dir(path)) // the next one tries again
			}
		}
	}
	if dir, err = os.MkdirTemp(in, ""); err != nil {
		return "", nil, err
	}
	lock := flock.New(filepath.Join(dir, "lock"))
	if err := lock.Lock(); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, func() error { return errors.Join(lock.Close(), os.RemoveAll(dir)) }, nil
}
