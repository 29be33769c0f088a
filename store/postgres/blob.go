package postgres

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// table keeps blobs in the database, or their bodies in an object store. Any number of processes may use it; a value
// appears whole or not at all.
type table struct {
	s      *Store
	bodies *bucket // nil: the bodies are in the table too

	mu     sync.Mutex
	looked [256]time.Time // when the parts of the bucket were last searched for objects without a row
}

var (
	_ store.Blobs   = (*table)(nil)
	_ store.Sweeper = (*table)(nil)
)

// maxBlob is the largest value: a message of the server's protocol bounds it, in text twice as large.
const maxBlob = 256 << 20

// touchEvery is how old the time of a blob may be when it is stored again without writing.
const touchEvery = time.Hour

// Put stores a value and returns its reference, "@sha256:<hash>:<size>". Storing it again makes it young.
func (t *table) Put(ctx context.Context, v []byte) (string, error) {
	if len(v) > maxBlob {
		return "", &stepwell.Error{Code: stepwell.CodeLimit, Message: "store a blob: the value is larger than 256 MiB", Hint: "keep large values in files of your own"}
	}
	sum := sha256.Sum256(v)
	ref := "@sha256:" + hex.EncodeToString(sum[:]) + ":" + strconv.Itoa(len(v))
	now := t.s.o.Now()
	var touched int64
	there, err := t.s.one(ctx, []any{&touched}, `SELECT touched FROM blob WHERE hash = $1 AND size = $2`, sum[:], len(v))
	if err != nil || there && touched > now.Add(-touchEvery).UnixMicro() {
		return ref, err
	}
	n := int64(0)
	if there {
		n, err = t.s.change(ctx, "store a blob", `UPDATE blob SET touched = greatest(touched, $2) WHERE hash = $1`, sum[:], now.UnixMicro())
	}
	if err == nil && n == 0 { // also if it has been removed just now
		err = t.insert(ctx, sum[:], v, now)
	}
	return ref, err
}

const insertBlob = `INSERT INTO blob AS b (hash, size, body, object, touched) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (hash) DO UPDATE SET touched = greatest(b.touched, $5) RETURNING coalesce(object, '')`

// insert stores a value that was not there. An object has a name that is never used again: whoever removes an unused one
// cannot meet one that has been stored since.
func (t *table) insert(ctx context.Context, hash, v []byte, now time.Time) error {
	var name *string
	body := v
	if body == nil { // which would be NULL
		body = []byte{}
	}
	if t.bodies != nil {
		fresh := hex.EncodeToString(hash) + "-" + strings.ToLower(rand.Text()[:8])
		if err := t.bodies.put(ctx, fresh, v); err != nil {
			return err
		}
		name, body = &fresh, nil
	}
	var stored string
	err := t.s.transaction(ctx, "store a blob", func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, insertBlob, hash, len(v), body, name, now.UnixMicro()).Scan(&stored)
	})
	if err == nil && name != nil && stored != *name { // another process was first
		err = t.bodies.remove(ctx, *name)
	}
	return err
}

// Load reads a value: CodeInvalid for a malformed reference, CodeNotFound if it is missing, CodeInternal if it is
// damaged, CodeUnavailable if it cannot be read now.
func (t *table) Load(ctx context.Context, ref string) ([]byte, error) {
	return t.LoadInto(ctx, ref, nil)
}

// LoadInto is Load, of a body in the bucket into the caller's memory, as far as its capacity goes.
func (t *table) LoadInto(ctx context.Context, ref string, into []byte) ([]byte, error) {
	hash, size, err := store.ParseRef(ref)
	if err != nil {
		return nil, err
	}
	var v []byte
	var object text
	there, err := t.s.one(ctx, []any{&v, &object}, `SELECT body, object FROM blob WHERE hash = decode($1, 'hex')`, hash)
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, notFound("the blob %s is not in the database", hash)
	}
	if object != "" {
		if t.bodies == nil {
			return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: "the blob " + hash + " is in a bucket", Hint: "name the bucket in the address: blobs=s3://bucket"}
		}
		if v, err = t.bodies.get(ctx, string(object), into); err != nil {
			return nil, err
		}
	}
	if sum := sha256.Sum256(v); int64(len(v)) != size || hex.EncodeToString(sum[:]) != hash {
		return nil, &stepwell.Error{Code: stepwell.CodeInternal, Message: "the blob " + hash + " is damaged", Hint: "restore it from a copy, or restart the step that made it"}
	}
	return v, nil
}

// Touch sets when a blob was last needed. A missing blob is ignored.
func (t *table) Touch(hash string, at time.Time) error {
	_, err := t.s.change(context.Background(), "touch a blob", `UPDATE blob SET touched = $2 WHERE hash = decode($1, 'hex')`, hash, at.UnixMicro())
	return err
}

// sweepPage is how many blobs are asked about at once.
const sweepPage = 1000

// Sweep removes the blobs whose hash begins with a byte, that were last needed before a time and that used does not name.
// A blob that is stored again at the same moment stays or is stored anew, because its row is locked.
func (t *table) Sweep(ctx context.Context, part byte, before time.Time, used func(ctx context.Context, hashes []string) (map[string]bool, error)) (removed int, err error) {
	if err := t.orphans(ctx, part, before); err != nil {
		return 0, err
	}
	from, to := []byte{part}, []byte{part + 1}
	for after := from; ; {
		hashes, err := list(ctx, t.s, pgx.RowTo[string], `SELECT encode(hash, 'hex') FROM blob WHERE hash > $1 AND (hash < $2 OR $3) AND touched < $4 ORDER BY hash LIMIT $5`,
			after, to, part == 255, before.UnixMicro(), sweepPage)
		if err != nil || len(hashes) == 0 {
			return removed, err
		}
		if after, err = hex.DecodeString(hashes[len(hashes)-1]); err != nil {
			return removed, err
		}
		keep, err := used(ctx, hashes)
		if err != nil {
			return removed, err
		}
		var unused [][]byte
		for _, hash := range hashes {
			if raw, err := hex.DecodeString(hash); err == nil && !keep[hash] {
				unused = append(unused, raw)
			}
		}
		n, err := t.removeRows(ctx, unused, before)
		if removed += n; err != nil {
			return removed, err
		}
	}
}

// removeRows removes the rows of blobs that are still old, then their objects.
func (t *table) removeRows(ctx context.Context, hashes [][]byte, before time.Time) (int, error) {
	var objects []string
	err := t.s.transaction(ctx, "remove blobs", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `DELETE FROM blob WHERE hash = ANY ($1) AND touched < $2 RETURNING coalesce(object, '')`, hashes, before.UnixMicro())
		if err != nil {
			return err
		}
		objects, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, name := range objects {
		if name != "" && t.bodies != nil {
			errs = append(errs, t.bodies.remove(ctx, name))
		}
	}
	return len(objects), errors.Join(errs...)
}

// lookEvery is how often a part of the bucket is searched for objects without a row, which the death of a process leaves.
const lookEvery = 24 * time.Hour

// orphans removes a part's objects that no row names and that are old.
func (t *table) orphans(ctx context.Context, part byte, before time.Time) error {
	t.mu.Lock()
	now := t.s.o.Now()
	due := t.bodies != nil && now.Sub(t.looked[part]) >= lookEvery
	if due {
		t.looked[part] = now
	}
	t.mu.Unlock()
	if !due {
		return nil
	}
	return t.bodies.old(ctx, hex.EncodeToString([]byte{part}), before, func(names []string) error {
		rows, err := t.s.pool.Query(ctx, `SELECT n FROM unnest($1::text[]) AS n WHERE NOT EXISTS (SELECT 1 FROM blob WHERE hash = decode(left(n, 64), 'hex') AND object = n)`, names)
		if err != nil {
			return err
		}
		unused, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, name := range unused {
			err = errors.Join(err, t.bodies.remove(ctx, name))
		}
		return err
	})
}
