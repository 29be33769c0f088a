package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// table keeps blobs in the database. Any number of processes may use it; a value appears whole or not at all.
type table struct{ s *Store }

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
	now := time.Now()
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
		if v == nil {
			v = []byte{}
		}
		_, err = t.s.change(ctx, "store a blob", `INSERT INTO blob AS b (hash, size, body, touched) VALUES ($1, $2, $3, $4)
ON CONFLICT (hash) DO UPDATE SET touched = greatest(b.touched, $4)`, sum[:], len(v), v, now.UnixMicro())
	}
	return ref, err
}

// Load reads a value: CodeInvalid for a malformed reference, CodeNotFound if it is missing, CodeInternal if it is
// damaged, CodeUnavailable if it cannot be read now.
func (t *table) Load(ctx context.Context, ref string) ([]byte, error) {
	hash, size, err := store.ParseRef(ref)
	if err != nil {
		return nil, err
	}
	var v []byte
	there, err := t.s.one(ctx, []any{&v}, `SELECT body FROM blob WHERE hash = decode($1, 'hex')`, hash)
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, notFound("the blob %s is not in the database", hash)
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
// One that is stored again at the same moment stays or is stored anew: its row is locked.
func (t *table) Sweep(ctx context.Context, part byte, before time.Time, used func(ctx context.Context, hashes []string) (map[string]bool, error)) (removed int, err error) {
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
		n, err := t.s.change(ctx, "remove blobs", `DELETE FROM blob WHERE hash = ANY ($1) AND touched < $2`, unused, before.UnixMicro())
		removed += int(n)
		if err != nil {
			return removed, err
		}
	}
}
