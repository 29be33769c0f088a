package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// PutObjects implements store.Objects.
func (s *Store) PutObjects(ctx context.Context, objects ...store.Object) ([]store.Object, error) {
	if err := ctx.Err(); err != nil || len(objects) == 0 {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := micros(s.now())
	undo := map[objectKey]*store.Object{}
	blobs := map[objectKey][]string{}
	out := make([]store.Object, len(objects))
	for i, o := range objects {
		key := objectKey{o.Kind, o.ID}
		if _, ok := undo[key]; !ok {
			undo[key] = s.objects[key]
		}
		hashes, err := s.putObject(&o, now)
		if err != nil {
			s.restore(undo)
			return nil, err
		}
		if hashes != nil {
			blobs[key] = hashes
		}
		out[i] = o
	}
	for key, hashes := range blobs {
		s.blobsOf[key] = hashes
	}
	return out, nil
}

func (s *Store) restore(objects map[objectKey]*store.Object) {
	for key, o := range objects {
		if s.objects[key] = o; o == nil {
			delete(s.objects, key)
		}
	}
}

// putObject stores an object and sets its revision and times. hashes are those of its blobs; nil: it says nothing of them.
func (s *Store) putObject(o *store.Object, now time.Time) (hashes []string, err error) {
	if o.Kind == "" || o.ID == "" {
		return nil, stepwell.Invalid("", "an object of kind %q with the id %q", o.Kind, o.ID)
	}
	before, err := s.expect(o.Kind, o.ID, o.Revision)
	if err != nil {
		return nil, err
	}
	if o.Name != "" {
		if other := s.named(o.Kind, o.Name); other != nil && other.ID != o.ID {
			return nil, stepwell.Errorf(stepwell.CodeConflict, "use another name", "a %s named %q exists already", o.Kind, o.Name)
		}
	}
	if o.Blobs != nil {
		hashes = []string{}
		for _, ref := range o.Blobs {
			hash, _, err := store.ParseRef(ref)
			if err != nil {
				return nil, err
			}
			hashes = append(hashes, hash)
		}
	}
	o.Revision, o.Created, o.Updated, o.Blobs, o.Body = 1, now, now, nil, clone(o.Body)
	if before != nil {
		o.Revision, o.Created = before.Revision+1, before.Created
	}
	s.objects[objectKey{o.Kind, o.ID}] = copied(o)
	return hashes, nil
}

// expect finds the object that is there, nil for none, and refuses a change that is meant for another revision.
func (s *Store) expect(kind, id string, meant int64) (*store.Object, error) {
	there := s.objects[objectKey{kind, id}]
	revision := int64(0)
	if there != nil {
		revision = there.Revision
	}
	switch {
	case meant == revision || meant == store.AnyRevision:
		return there, nil
	case revision == 0:
		return nil, noObject(kind, id)
	case meant == 0:
		return nil, stepwell.Errorf(stepwell.CodeConflict, "", "the %s %q exists already", kind, id)
	}
	return nil, stepwell.Errorf(stepwell.CodeConflict, "read it again, then change what is there now",
		"the %s %q has been changed: it has revision %d, the change is meant for %d", kind, id, revision, meant)
}

func noObject(kind, id string) error {
	return stepwell.Errorf(stepwell.CodeNotFound, "", "no %s %q", kind, id)
}

func (s *Store) named(kind, name string) *store.Object {
	for key, o := range s.objects {
		if key.kind == kind && o.Name == name && name != "" {
			return o
		}
	}
	return nil
}

// DeleteObject implements store.Objects.
func (s *Store) DeleteObject(ctx context.Context, kind, id string, revision int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	there, err := s.expect(kind, id, revision)
	if err != nil {
		return err
	}
	if there == nil {
		return noObject(kind, id)
	}
	delete(s.objects, objectKey{kind, id})
	delete(s.blobsOf, objectKey{kind, id})
	return nil
}

// Object implements store.Objects.
func (s *Store) Object(_ context.Context, kind, idOrName string) (*store.Object, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	o := s.objects[objectKey{kind, idOrName}]
	if o == nil {
		o = s.named(kind, idOrName)
	}
	if o == nil {
		return nil, noObject(kind, idOrName)
	}
	o = copied(o)
	o.Body = clone(o.Body)
	return o, nil
}

// Objects implements store.Objects.
func (s *Store) Objects(_ context.Context, f store.ObjectFilter) (out []store.Object, err error) {
	if f.Kind == "" {
		return nil, stepwell.Invalid("", "a list of objects needs their kind")
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for key, o := range s.objects {
		if key.kind == f.Kind && strings.HasPrefix(key.id, f.Prefix) && key.id > f.After {
			one := *o
			one.Body = clone(one.Body)
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b store.Object) int { return cmp.Compare(a.ID, b.ID) })
	return out[:min(len(out), store.Limit(f.Limit, 100, 10_000))], nil
}
