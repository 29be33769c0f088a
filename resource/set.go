// Package resource is one way to keep what people create, list, change and delete: webhooks, event triggers and whatever
// kind comes next. A Set holds all objects of a kind in memory, in step with the store, for those that are asked for them all
// the time; Counts say what became of them. The values (Time, Ref, Object) are those of JSON, in the store and in the API
// alike, so that one struct describes a kind everywhere. Stability: experimental until version 1.
package resource

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

// maxShown limits the outside text in a message.
const maxShown = 80

// Kind names a kind of objects.
type Kind struct {
	Name  string // in the store, and the first part of the ids of its operations: event_trigger
	Noun  string // in messages: event trigger
	Path  string // in the API: event-triggers
	Param string // the JSON member, and the part of a path, with the id: trigger_id
	List  string // the JSON member of a page: event_triggers
}

// Options configure a Set. All but Changed are required.
type Options[T any] struct {
	Kind
	Objects store.Objects
	Most    int // how many there may be
	// Label is the name that people give a value, by which it is found too.
	Label func(*T) string
	// Changed is called after every change. It must be quick and may read the Set. Defaults to nothing.
	Changed func()
}

// Item is an object with its store metadata. Its Value is read only.
type Item[T any] struct {
	ID    string
	Value T
	Meta
}

// Meta is the store's metadata of an object.
type Meta struct {
	Created  Time  `json:"created_at"`
	Updated  Time  `json:"updated_at"`
	Revision int64 `json:"-"` // for the ETag
}

// ETag implements Versioned.
func (m Meta) ETag() int64 { return m.Revision }

// MetaOf is the store's metadata of an object.
func MetaOf(o *store.Object) Meta {
	return Meta{Created: Time{o.Created}, Updated: Time{o.Updated}, Revision: o.Revision}
}

// Set is safe for concurrent use. Changes of the same kind by other processes are seen after Refresh, and the store
// refuses a change for an outdated revision.
type Set[T any] struct {
	o       Options[T]
	writing sync.Mutex   // one change at a time
	mu      sync.RWMutex // of items; never held while the store works
	items   map[string]Item[T]
}

// Open loads everything.
func Open[T any](ctx context.Context, o Options[T]) (*Set[T], error) {
	s := &Set[T]{o: o, items: map[string]Item[T]{}}
	return s, Each(ctx, o.Objects, o.Name, func(object *store.Object) error {
		item, err := s.read(object)
		s.items[item.ID] = item
		return err
	})
}

// Each visits all objects of a kind, in order of id.
func Each(ctx context.Context, objects store.Objects, kind string, visit func(*store.Object) error) error {
	const page = 1000
	for after := ""; ; {
		list, err := objects.Objects(ctx, store.ObjectFilter{Kind: kind, After: after, Limit: page})
		if err != nil {
			return err
		}
		for i := range list {
			if err := visit(&list[i]); err != nil {
				return err
			}
		}
		if len(list) < page {
			return nil
		}
		after = list[len(list)-1].ID
	}
}

func (s *Set[T]) read(o *store.Object) (Item[T], error) {
	item := Item[T]{ID: o.ID, Meta: MetaOf(o)}
	if err := json.Unmarshal(o.Body, &item.Value); err != nil {
		return item, &stepwell.Error{Code: stepwell.CodeInternal, Message: fmt.Sprintf("the stored %s %s cannot be read", s.o.Noun, o.ID), Err: err}
	}
	return item, nil
}

// NewID is an id for an object whose author gives none.
func NewID(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	id, err := uuid.NewV7()
	return id.String(), err
}

// Create stores a new value: CodeConflict when the id is taken, CodeLimit when there are too many.
func (s *Set[T]) Create(ctx context.Context, id string, value T) (Item[T], error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if _, taken := s.ByID(id); taken {
		return Item[T]{}, &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("the %s %s exists already", s.o.Noun, id), Hint: "update it, or use another " + s.o.Param}
	}
	if n := s.count(); n >= s.o.Most {
		return Item[T]{}, &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("there are %d of the kind %s already", n, s.o.Noun), Hint: "delete some"}
	}
	return s.put(ctx, id, 0, value)
}

// Update applies edit to a copy of a value. revision is the expected revision, or store.AnyRevision: CodeConflict for
// another. CodeNotFound.
func (s *Set[T]) Update(ctx context.Context, idOrName string, revision int64, edit func(*T) error) (Item[T], error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	item, err := s.Find(idOrName)
	if err != nil {
		return item, err
	}
	if revision != store.AnyRevision && revision != item.Revision {
		return item, Changed(s.o.Noun)
	}
	value, err := Clone(item.Value)
	if err == nil {
		err = edit(&value)
	}
	if err != nil {
		return item, err
	}
	return s.put(ctx, item.ID, item.Revision, value)
}

// Changed is the CodeConflict of a change that was meant for another revision.
func Changed(noun string) error {
	return &stepwell.Error{Code: stepwell.CodeConflict, Message: "the " + noun + " has been changed meanwhile", Hint: "read it again and repeat the change"}
}

// Clone copies a value by its JSON, so that an edit can be given up.
func Clone[T any](value T) (copied T, err error) {
	raw, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(raw, &copied)
	}
	return copied, err
}

func (s *Set[T]) put(ctx context.Context, id string, revision int64, value T) (Item[T], error) {
	body, err := json.Marshal(value)
	if err != nil {
		return Item[T]{}, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the " + s.o.Noun + " cannot be stored", Err: err}
	}
	stored, err := s.o.Objects.PutObjects(ctx, store.Object{Kind: s.o.Name, ID: id, Revision: revision, Body: body})
	if err != nil {
		return Item[T]{}, err
	}
	item := Item[T]{ID: id, Value: value, Meta: MetaOf(&stored[0])}
	s.set(id, &item)
	return item, nil
}

// set applies the store's version; nil: deleted.
func (s *Set[T]) set(id string, item *Item[T]) {
	s.mu.Lock()
	if item == nil {
		delete(s.items, id)
	} else {
		s.items[id] = *item
	}
	s.mu.Unlock()
	if s.o.Changed != nil {
		s.o.Changed()
	}
}

// Delete removes one: CodeNotFound, or CodeConflict when the revision is another.
func (s *Set[T]) Delete(ctx context.Context, idOrName string, revision int64) (id string, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	item, err := s.Find(idOrName)
	if err != nil {
		return "", err
	}
	if err := s.o.Objects.DeleteObject(ctx, s.o.Name, item.ID, revision); err != nil {
		return "", err
	}
	s.set(item.ID, nil)
	return item.ID, nil
}

// Refresh rereads the objects of this kind among those that another process has changed or deleted. Of each, only Kind
// and ID are used.
func (s *Set[T]) Refresh(ctx context.Context, changed []store.Object) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	for i := range changed {
		if changed[i].Kind != s.o.Name {
			continue
		}
		item, err := s.reload(ctx, changed[i].ID)
		if err != nil {
			return err
		}
		s.set(changed[i].ID, item)
	}
	return nil
}

func (s *Set[T]) reload(ctx context.Context, id string) (*Item[T], error) {
	o, err := s.o.Objects.Object(ctx, s.o.Name, id)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	item, err := s.read(o)
	return &item, err
}

func (s *Set[T]) count() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.items)
}

// near is the hint that names what is called nearly so.
func (s *Set[T]) near(name string) string {
	var names []string
	for _, item := range s.All(func(*Item[T]) bool { return true }) {
		names = append(names, s.o.Label(&item.Value))
	}
	return spec.DidYouMean(name, names)
}

// Find finds one by id, or by its name if no other has it: CodeNotFound, CodeConflict when several have it.
func (s *Set[T]) Find(idOrName string) (Item[T], error) {
	if item, ok := s.ByID(idOrName); ok {
		return item, nil
	}
	found := s.All(func(i *Item[T]) bool { return idOrName != "" && s.o.Label(&i.Value) == idOrName })
	switch len(found) {
	case 0:
		return Item[T]{}, &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("there is no %s %q", s.o.Noun, stepwell.Clip(idOrName, maxShown)), Hint: s.near(idOrName)}
	case 1:
		return found[0], nil
	}
	return Item[T]{}, &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("there are %d of the kind %s called %q", len(found), s.o.Noun, stepwell.Clip(idOrName, maxShown)), Hint: "name it by its id"}
}

// ByID finds one by its id alone.
func (s *Set[T]) ByID(id string) (Item[T], bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	item, ok := s.items[id]
	return item, ok
}

// List lists the objects that pick selects, by id, behind the given one; at most limit (default 50, at most 1,000).
func (s *Set[T]) List(after string, limit int, pick func(*Item[T]) bool) []Item[T] {
	limit = cmp.Or(max(limit, 0), 50)
	list := s.All(func(i *Item[T]) bool { return i.ID > after && pick(i) })
	return list[:min(len(list), limit, 1000)]
}

// All lists the objects that pick selects, in order of id.
func (s *Set[T]) All(pick func(*Item[T]) bool) []Item[T] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := []Item[T]{}
	for _, item := range s.items {
		if pick(&item) {
			list = append(list, item)
		}
	}
	slices.SortFunc(list, func(a, b Item[T]) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// Page is the part of a list that is asked for. A Set takes the id of the last object of the page before as Cursor.
type Page struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
	Cursor string `query:"cursor" maxLength:"600"`
}

// Paging returns the page, for cursors.
func (p *Page) Paging() *Page { return p }
