// Package shelf keeps all objects of one kind in memory, in step with the store, for those that are asked for them
// all the time: webhooks and event triggers. No other process may write the kind. Stability: experimental.
package shelf

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// Options say what is kept. All are required.
type Options[T any] struct {
	Objects store.Objects
	Kind    string
	Noun    string // for messages: webhook
	Name    func(*T) string
	Most    int // how many there may be
}

// Item is an object with what the store says about it. Its Value is read only.
type Item[T any] struct {
	ID       string
	Value    T
	Revision int64
	Created  time.Time
	Updated  time.Time
}

// Shelf is safe for concurrent use.
type Shelf[T any] struct {
	o       Options[T]
	writing sync.Mutex   // one change at a time
	mu      sync.RWMutex // of items; never held while the store works
	items   map[string]Item[T]
}

// Open loads everything.
func Open[T any](ctx context.Context, o Options[T]) (*Shelf[T], error) {
	s := &Shelf[T]{o: o, items: map[string]Item[T]{}}
	const page = 1000
	for after := ""; ; {
		list, err := o.Objects.Objects(ctx, store.ObjectFilter{Kind: o.Kind, After: after, Limit: page})
		if err != nil {
			return nil, err
		}
		for i := range list {
			item, err := s.read(&list[i])
			if err != nil {
				return nil, err
			}
			s.items[item.ID] = item
		}
		if len(list) < page {
			return s, nil
		}
		after = list[len(list)-1].ID
	}
}

func (s *Shelf[T]) read(o *store.Object) (Item[T], error) {
	item := Item[T]{ID: o.ID, Revision: o.Revision, Created: o.Created, Updated: o.Updated}
	if err := json.Unmarshal(o.Body, &item.Value); err != nil {
		return item, &stepwell.Error{Code: stepwell.CodeInternal, Message: fmt.Sprintf("the stored %s %s cannot be read", s.o.Noun, o.ID), Err: err}
	}
	return item, nil
}

// Put stores a value: for revision 0 a new one, CodeLimit when there are too many. CodeConflict when the revision is
// another.
func (s *Shelf[T]) Put(ctx context.Context, id string, revision int64, value T) (Item[T], error) {
	body, err := json.Marshal(value)
	if err != nil {
		return Item[T]{}, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the " + s.o.Noun + " cannot be stored", Err: err}
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if revision == 0 && s.count() >= s.o.Most {
		return Item[T]{}, &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("there are %d of the kind %s already", s.o.Most, s.o.Noun), Hint: "delete some"}
	}
	done, err := s.o.Objects.PutObjects(ctx, store.Object{Kind: s.o.Kind, ID: id, Revision: revision, Body: body})
	if err != nil {
		return Item[T]{}, err
	}
	item, err := s.read(&done[0])
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.items[id] = item
	}
	return item, err
}

func (s *Shelf[T]) count() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.items)
}

// Copy is a value that may be changed.
func (s *Shelf[T]) Copy(item Item[T]) (T, error) {
	var v T
	raw, err := json.Marshal(item.Value)
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	return v, err
}

// Find finds one by id, or by its name if no other has it: CodeNotFound, CodeConflict when several have it.
func (s *Shelf[T]) Find(idOrName string) (Item[T], error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if item, ok := s.items[idOrName]; ok {
		return item, nil
	}
	var found []Item[T]
	for _, item := range s.items {
		if idOrName != "" && s.o.Name(&item.Value) == idOrName {
			found = append(found, item)
		}
	}
	switch len(found) {
	case 0:
		return Item[T]{}, &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("there is no %s %q", s.o.Noun, stepwell.Clip(idOrName, 80))}
	case 1:
		return found[0], nil
	}
	return Item[T]{}, &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("there are %d of the kind %s called %q", len(found), s.o.Noun, stepwell.Clip(idOrName, 80)), Hint: "name it by its id"}
}

// ByID finds one by its id alone.
func (s *Shelf[T]) ByID(id string) (Item[T], bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	item, ok := s.items[id]
	return item, ok
}

// Page lists those that keep picks, in order of id, behind the given one; at most limit (Defaults to 50, at most 1,000).
func (s *Shelf[T]) Page(after string, limit int, keep func(*Item[T]) bool) []Item[T] {
	if limit <= 0 {
		limit = 50
	}
	limit = min(limit, 1000)
	list := s.All(func(i *Item[T]) bool { return i.ID > after && keep(i) })
	return list[:min(len(list), limit)]
}

// All lists those that keep picks, in order of id.
func (s *Shelf[T]) All(keep func(*Item[T]) bool) []Item[T] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := []Item[T]{}
	for _, item := range s.items {
		if keep(&item) {
			list = append(list, item)
		}
	}
	slices.SortFunc(list, func(a, b Item[T]) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// Delete removes one: CodeNotFound, or CodeConflict when the revision is another.
func (s *Shelf[T]) Delete(ctx context.Context, id string, revision int64) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.o.Objects.DeleteObject(ctx, s.o.Kind, id, revision); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.items, id)
	return nil
}
