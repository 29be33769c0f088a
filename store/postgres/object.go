package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// objectKey names an object.
type objectKey struct{ kind, id string }

// objectRow is what a change of an object needs to know of it.
type objectRow struct {
	revision int64 // 0: it is not there
	created  time.Time
}

// errObjectRace is an object that another process has made at the same moment.
var errObjectRace = errors.New("made by another process")

// PutObjects stores all in one transaction, in their order, or none.
func (s *Store) PutObjects(ctx context.Context, objects ...store.Object) (out []store.Object, err error) {
	if err := ctx.Err(); err != nil || len(objects) == 0 {
		return nil, err
	}
	now := time.UnixMicro(s.o.Now().UnixMicro()).UTC()
	for range commitTries {
		err = s.transaction(ctx, "store objects", func(tx pgx.Tx) error {
			out = slices.Clone(objects)
			if err := putObjects(ctx, tx, out, now); err != nil {
				return err
			}
			return s.announceObjects(ctx, tx, out)
		})
		if !errors.Is(err, errObjectRace) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func putObjects(ctx context.Context, tx pgx.Tx, objects []store.Object, now time.Time) error {
	there, err := lockObjects(ctx, tx, objects)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	for i := range objects {
		o := &objects[i]
		if o.Kind == "" || o.ID == "" {
			return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("an object of kind %q with the id %q", o.Kind, o.ID)}
		}
		key := objectKey{o.Kind, o.ID}
		row := there[key]
		if err := row.expect(key, o.Revision); err != nil {
			return err
		}
		if row.revision == 0 {
			row.created = now
			b.Queue(`INSERT INTO object (kind, id, name, revision, body, created, updated) VALUES ($1, $2, $3, 1, $4, $5, $5)`,
				encode(o.Kind), encode(o.ID), orNull(o.Name), jsonOrNull(o.Body), now.UnixMicro())
		} else {
			b.Queue(`UPDATE object SET name = $3, revision = $6, body = $4, updated = $5 WHERE kind = $1 AND id = $2`,
				encode(o.Kind), encode(o.ID), orNull(o.Name), jsonOrNull(o.Body), now.UnixMicro(), row.revision+1)
		}
		row.revision++
		o.Revision, o.Created, o.Updated = row.revision, row.created, now
		there[key] = row
	}
	sent := tx.SendBatch(ctx, b)
	for i := range objects {
		if _, err = sent.Exec(); err != nil {
			err = objectFault(err, &objects[i])
			break
		}
	}
	if end := sent.Close(); err == nil {
		err = end
	}
	for i := range objects {
		if o := &objects[i]; err == nil && o.Blobs != nil {
			err = putBlobs(ctx, tx, o)
		}
	}
	if err == nil {
		err = recordChanges(ctx, tx, objects)
	}
	return err
}

// putBlobs stores which blobs an object refers to.
func putBlobs(ctx context.Context, tx pgx.Tx, o *store.Object) error {
	hashes, sizes := make([]string, len(o.Blobs)), make([]int64, len(o.Blobs))
	for i, ref := range o.Blobs {
		var err error
		if hashes[i], sizes[i], err = store.ParseRef(ref); err != nil {
			return err
		}
	}
	o.Blobs = nil
	if err := dropBlobs(ctx, tx, o.Kind, o.ID, hashes); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `INSERT INTO object_blob (kind, id, hash, size) SELECT $1, $2, decode(h, 'hex'), n FROM unnest($3::text[], $4::bigint[]) AS u (h, n) ON CONFLICT DO NOTHING`,
		encode(o.Kind), encode(o.ID), hashes, sizes)
	return err
}

// dropBlobs removes what an object refers to, but for some.
func dropBlobs(ctx context.Context, tx pgx.Tx, kind, id string, but []string) error {
	_, err := tx.Exec(ctx, `DELETE FROM object_blob WHERE kind = $1 AND id = $2 AND hash NOT IN (SELECT decode(h, 'hex') FROM unnest($3::text[]) AS h)`, encode(kind), encode(id), but)
	return err
}

// recordChanges lists objects as changed, for ChangedObjects. It is the last statement of a transaction, as it holds the
// counter's row to its end.
func recordChanges(ctx context.Context, tx pgx.Tx, objects []store.Object) error {
	var kinds, ids []string
	for i := range objects {
		if objects[i].Kind != store.KindFirings { // many, and no process keeps them in memory
			kinds, ids = append(kinds, encode(objects[i].Kind)), append(ids, encode(objects[i].ID))
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `WITH c AS (INSERT INTO counter AS c (name, next) VALUES ('object', 1) ON CONFLICT (name) DO UPDATE SET next = c.next + 1 RETURNING next)
INSERT INTO object_change (kind, id, no) SELECT DISTINCT u.kind, u.id, c.next FROM c, unnest($1::text[], $2::text[]) AS u (kind, id)
ON CONFLICT (kind, id) DO UPDATE SET no = excluded.no`, kinds, ids)
	return err
}

// ChangedObjects lists kind and id of the objects that were changed or deleted after a change, in the order of the changes, and
// the number of the last of these. after < 0 only asks for the number of the newest change.
func (s *Store) ChangedObjects(ctx context.Context, after int64, n int) (changed []store.Object, last int64, err error) {
	if after < 0 {
		_, err = s.one(ctx, []any{&last}, `SELECT next FROM counter WHERE name = 'object'`)
		return nil, last, err
	}
	last = after
	changed, err = list(ctx, s, func(row pgx.CollectableRow) (o store.Object, err error) {
		var kind, id text
		err = row.Scan(&kind, &id, &last)
		o.Kind, o.ID = string(kind), string(id)
		return o, err
	}, `SELECT kind, id, no FROM object_change WHERE no > $1 ORDER BY no FETCH FIRST $2 ROWS WITH TIES`, after, store.Limit(n, 1000, 10_000))
	return changed, last, err
}

// announceObjects announces those that ChangedObjects lists.
func (s *Store) announceObjects(ctx context.Context, tx pgx.Tx, objects []store.Object) error {
	if !slices.ContainsFunc(objects, func(o store.Object) bool { return o.Kind != store.KindFirings }) {
		return nil
	}
	return s.announceIn(ctx, tx, store.TopicObjects)
}

func objectFault(err error, o *store.Object) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok || e.Code != uniqueViolation:
		return err
	case e.ConstraintName == "object_name":
		return &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("a %s named %q exists already", o.Kind, o.Name), Hint: "use another name"}
	}
	return errObjectRace
}

// lockObjects reads the objects that are there and keeps others from changing them until the end of the transaction.
func lockObjects(ctx context.Context, tx pgx.Tx, objects []store.Object) (map[objectKey]objectRow, error) {
	list := slices.Clone(objects)
	// In one order by all, so that none waits for another in a circle.
	slices.SortFunc(list, func(a, b store.Object) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID)) })
	kinds, ids := make([]string, len(list)), make([]string, len(list))
	for i := range list {
		kinds[i], ids[i] = encode(list[i].Kind), encode(list[i].ID)
	}
	rows, err := tx.Query(ctx, `SELECT kind, id, revision, created FROM object WHERE (kind, id) IN (SELECT * FROM unnest($1::text[], $2::text[])) ORDER BY kind, id FOR UPDATE`, kinds, ids)
	if err != nil {
		return nil, err
	}
	there := map[objectKey]objectRow{}
	var kind, id text
	var revision int64
	var created instant
	_, err = pgx.ForEachRow(rows, []any{&kind, &id, &revision, &created}, func() error {
		there[objectKey{string(kind), string(id)}] = objectRow{revision, created.time()}
		return nil
	})
	return there, err
}

// expect refuses a change that is meant for another revision.
func (r objectRow) expect(key objectKey, meant int64) error {
	switch {
	case meant == r.revision || meant == store.AnyRevision:
		return nil
	case r.revision == 0:
		return notFound("no %s %q", key.kind, key.id)
	case meant == 0:
		return &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("the %s %q exists already", key.kind, key.id)}
	}
	return &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("the %s %q has been changed: it has revision %d, the change is meant for %d", key.kind, key.id, r.revision, meant),
		Hint: "read it again, then repeat the change"}
}

// DeleteObject removes one of the given revision.
func (s *Store) DeleteObject(ctx context.Context, kind, id string, revision int64) error {
	key := objectKey{kind, id}
	return s.transaction(ctx, "remove an object", func(tx pgx.Tx) error {
		there, err := lockObjects(ctx, tx, []store.Object{{Kind: kind, ID: id}})
		if err != nil {
			return err
		}
		if err := there[key].expect(key, revision); err != nil {
			return err
		}
		if there[key].revision == 0 {
			return notFound("no %s %q", kind, id)
		}
		if _, err = tx.Exec(ctx, `DELETE FROM object WHERE kind = $1 AND id = $2`, encode(kind), encode(id)); err != nil {
			return err
		}
		if err := dropBlobs(ctx, tx, kind, id, []string{}); err != nil {
			return err
		}
		if err := recordChanges(ctx, tx, []store.Object{{Kind: kind, ID: id}}); err != nil {
			return err
		}
		return s.announceObjects(ctx, tx, []store.Object{{Kind: kind, ID: id}})
	})
}

const objectColumns = `SELECT kind, id, name, revision, body, created, updated FROM object WHERE kind = $1 AND `

func scanObject(row pgx.CollectableRow) (o store.Object, err error) {
	var kind, id, name text
	var body value
	var created, updated instant
	err = row.Scan(&kind, &id, &name, &o.Revision, &body, &created, &updated)
	o.Kind, o.ID, o.Name, o.Body, o.Created, o.Updated = string(kind), string(id), string(name), json.RawMessage(body), created.time(), updated.time()
	return o, err
}

// Object finds one by id, else by name; CodeNotFound.
func (s *Store) Object(ctx context.Context, kind, idOrName string) (*store.Object, error) {
	for _, condition := range []string{`id = $2`, `name = $2 AND $2 <> ''`} {
		found, err := list(ctx, s, scanObject, objectColumns+condition, encode(kind), encode(idOrName))
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			return &found[0], nil
		}
	}
	return nil, notFound("no %s %q", kind, idOrName)
}

// Objects lists in order of id.
func (s *Store) Objects(ctx context.Context, f store.ObjectFilter) ([]store.Object, error) {
	if f.Kind == "" {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "a list of objects needs their kind"}
	}
	return list(ctx, s, scanObject, objectColumns+`id >= $2 AND id < $2 || chr(1114111) AND id > $3 ORDER BY id LIMIT $4`, encode(f.Kind), encode(f.Prefix), encode(f.After), store.Limit(f.Limit, 100, 10_000))
}
