package files

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream/durable"
)

// Shared is a durable.Shared of one database, in a place that others may use too.
type Shared struct {
	durable.Shared
	owner string // with a slash at its end
}

// OpenShared opens a folder, or s3://bucket/prefix. Nothing is asked of it before Claim, which is called before anything else.
func OpenShared(address string, o S3Options) (*Shared, error) {
	if isS3(address) {
		b, err := NewBucket(address, o)
		return &Shared{Shared: b}, err
	}
	if strings.Contains(address, "://") {
		return nil, stepwell.Invalid("name a folder, or s3://bucket/prefix", "%q is not a place for streams", address)
	}
	dir, err := filepath.Abs(address)
	return &Shared{Shared: durable.NewSharedFolder(dir)}, err
}

// Claim says whose the names are, probes the place, and leaves a mark there for Join.
func (s *Shared) Claim(ctx context.Context, owner string) error {
	s.owner = owner + "/"
	if err := durable.Probe(ctx, s); err != nil {
		return err
	}
	err := s.Create(ctx, mark, []byte(owner))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// mark is what Claim leaves.
const mark = "place"

// Join is Claim for a process without the database: CodeInvalid when its owner has not claimed the place, CodeConflict when the
// place was joined as another owner's.
func (s *Shared) Join(ctx context.Context, owner string) error {
	if s.owner != "" && s.owner != owner+"/" {
		return stepwell.Errorf(stepwell.CodeConflict, "start a worker for each installation", "streams of another installation run in this process")
	}
	body, err := s.Shared.Get(ctx, owner+"/"+mark)
	if errors.Is(err, fs.ErrNotExist) || err == nil && string(body) != owner {
		return stepwell.Invalid("name the same folder or bucket as the servers do", "streams.shared is not the place of the servers")
	}
	if err != nil {
		return err
	}
	s.owner = owner + "/"
	return durable.Probe(ctx, s)
}

// Probe checks the place before it is claimed.
func (s *Shared) Probe(ctx context.Context) error { return durable.Probe(ctx, s) }

// Put implements durable.Shared.
func (s *Shared) Put(ctx context.Context, name string, body []byte) error {
	return s.Shared.Put(ctx, s.owner+name, body)
}

// Create implements durable.Shared.
func (s *Shared) Create(ctx context.Context, name string, body []byte) error {
	return s.Shared.Create(ctx, s.owner+name, body)
}

// Get implements durable.Shared.
func (s *Shared) Get(ctx context.Context, name string) ([]byte, error) {
	return s.Shared.Get(ctx, s.owner+name)
}

// List implements durable.Shared.
func (s *Shared) List(ctx context.Context, prefix string) ([]durable.Stored, error) {
	found, err := s.Shared.List(ctx, s.owner+prefix)
	for i := range found {
		found[i].Name = strings.TrimPrefix(found[i].Name, s.owner)
	}
	return found, err
}

// Remove implements durable.Shared.
func (s *Shared) Remove(ctx context.Context, name string) error {
	return s.Shared.Remove(ctx, s.owner+name)
}
