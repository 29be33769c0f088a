package app

import (
	"context"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/memory"
)

// memoryStore is a database that ends with the process (Options.Memory).
type memoryStore struct{ *memory.Store }

// Path implements Store: nothing opens it again.
func (memoryStore) Path() string { return "" }

// Watch implements Store: no other process can change it.
func (memoryStore) Watch(ctx context.Context, _ time.Duration, _ func()) error {
	<-ctx.Done()
	return nil
}

// BackupInto is refused.
func (s memoryStore) BackupInto(context.Context, string, int, func(done, total int)) (*store.Copied, error) {
	return nil, stepwell.Invalid("run it with a database", "this process keeps no database that could be copied")
}

// openDatabase opens the database that the options name.
func (o *Options) openDatabase(ctx context.Context, check func(context.Context, store.Objects) error) (Store, error) {
	if o.Memory {
		return memoryStore{memory.New(o.Now)}, nil
	}
	return openStore(ctx, store.Options{Check: check, Path: o.DB, Exclusive: !o.readOnly && !o.shared(), ReadOnly: o.readOnly, Synchronous: o.Synchronous, Now: o.Now, Log: o.Log})
}
