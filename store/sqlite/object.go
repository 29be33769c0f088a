package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// PutObjects stores all in one transaction, in their order, or none.
func (s *Store) PutObjects(ctx context.Context, objects ...store.Object) ([]store.Object, error) {
	if err := ctx.Err(); err != nil || len(objects) == 0 {
		return nil, err
	}
	out := make([]store.Object, len(objects))
	now := time.UnixMicro(s.now().UnixMicro()).UTC()
	err := s.transaction("store objects in "+s.path, func(w *writer) error {
		for i, o := range objects {
			if err := w.object(&o, now); err != nil {
				return err
			}
			out[i] = o
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// object stores an object and sets its revision and times.
func (w *writer) object(o *store.Object, now time.Time) error {
	if o.Kind == "" || o.ID == "" {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("an object of kind %q with the id %q", o.Kind, o.ID)}
	}
	revision, created, err := w.expect(o.Kind, o.ID, o.Revision)
	if err != nil {
		return err
	}
	o.Revision, o.Created, o.Updated = revision+1, created, now
	if revision == 0 {
		o.Created = now
	}
	err = w.run("object_put", o.Kind, o.ID, text(o.Name), o.Revision, blob(o.Body), o.Created.UnixMicro(), now.UnixMicro())
	if rescode(err) == sqlite3.SQLITE_CONSTRAINT_UNIQUE {
		return &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("a %s named %q exists already", o.Kind, o.Name), Hint: "use another name"}
	}
	if err != nil || o.Blobs == nil {
		return err
	}
	list, err := blobList(o.Blobs)
	if err == nil {
		err = w.run("object_blobs_drop", o.Kind, o.ID, list)
	}
	if err == nil {
		err = w.run("object_blobs_put", o.Kind, o.ID, list)
	}
	o.Blobs = nil
	return err
}

// blobList is references as JSON: [[hash, size], ...].
func blobList(refs []string) (string, error) {
	list := make([][2]any, len(refs))
	for i, ref := range refs {
		hash, size, err := store.ParseRef(ref)
		if err != nil {
			return "", err
		}
		list[i] = [2]any{hash, size}
	}
	raw, err := json.Marshal(list)
	return string(raw), err
}

// expect finds the revision that is there, 0 for none, and refuses a change that is meant for another.
func (w *writer) expect(kind, id string, meant int64) (revision int64, created time.Time, err error) {
	var at sql.NullInt64
	err = w.conn.QueryRowContext(context.Background(), w.queries["object_find"], kind, id).Scan(&revision, &at)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, created, err
	}
	switch {
	case meant == revision || meant == store.AnyRevision:
		return revision, instant(at), nil
	case revision == 0:
		return 0, created, noObject(kind, id)
	case meant == 0:
		return 0, created, &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("the %s %q exists already", kind, id)}
	}
	return 0, created, &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("the %s %q has been changed: it has revision %d, the change is meant for %d", kind, id, revision, meant),
		Hint: "read it again, then repeat the change"}
}

func noObject(kind, id string) error {
	return &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("no %s %q", kind, id)}
}

// DeleteObject removes one of the given revision.
func (s *Store) DeleteObject(ctx context.Context, kind, id string, revision int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.transaction("remove an object from "+s.path, func(w *writer) error {
		there, _, err := w.expect(kind, id, revision)
		if err != nil {
			return err
		}
		if there == 0 {
			return noObject(kind, id)
		}
		if err := w.run("object_blobs_drop", kind, id, "[]"); err != nil {
			return err
		}
		return w.run("object_delete", kind, id)
	})
}

// Object finds one by id, else by name; CodeNotFound.
func (s *Store) Object(ctx context.Context, kind, idOrName string) (*store.Object, error) {
	found, err := s.objects(ctx, s.sql["object"], kind, idOrName)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, noObject(kind, idOrName)
	}
	return &found[0], nil
}

// Objects lists in order of id.
func (s *Store) Objects(ctx context.Context, f store.ObjectFilter) ([]store.Object, error) {
	if f.Kind == "" {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "a list of objects needs their kind"}
	}
	query := s.sql["objects"]
	if f.After > f.Prefix {
		query = s.sql["objects_after"]
	}
	return s.objects(ctx, query, f.Kind, f.Prefix, f.After, store.Limit(f.Limit, 100, 10_000))
}

func (s *Store) objects(ctx context.Context, query string, args ...any) (out []store.Object, err error) {
	return list(ctx, s, func(rows *sql.Rows, o *store.Object) error {
		var created, updated sql.NullInt64
		var body []byte
		err := rows.Scan(&o.Kind, &o.ID, &o.Name, &o.Revision, &body, &created, &updated)
		o.Body, o.Created, o.Updated = body, instant(created), instant(updated)
		return err
	}, query, args...)
}
