package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// Source is an embedded database that a PostgreSQL database takes over: a sqlite.Store that is open with Exclusive.
type Source interface {
	// ID names the database.
	ID() string
	// Dump reads a page of a table in the order of its key, from after a row's key (nil: from the first row). The last page
	// is empty.
	Dump(ctx context.Context, table string, after []any) ([][]any, error)
	// DumpKey is the key of a row.
	DumpKey(table string, row []any) []any
	// Blobs is where its large outputs are.
	Blobs() store.Blobs
}

// Imported says what Import has brought in.
type Imported struct {
	Rows    map[string]int64 // by table of the new database
	Blobs   int
	Missing []string // references to blobs that the source lacks, the first ones
}

// importing is how far an import has come. It is stored in the transaction that stores the rows.
type importing struct {
	Started int64
	Table   int // in importTables
	After   importKey
	Sums    map[string]importSum // by table of this database
}

// importKey is the key of a row of the source: integers, text and bytes. In JSON each is a string that begins with its type, because
// JSON has no integers of 64 bits and no bytes. (Package gob would keep them as they are, for 0.8 MB of every process's memory.)
type importKey []any

// MarshalJSON implements json.Marshaler.
func (k importKey) MarshalJSON() ([]byte, error) {
	parts := make([]string, len(k))
	for i, v := range k {
		switch v := v.(type) {
		case int64:
			parts[i] = "i" + strconv.FormatInt(v, 10)
		case string:
			parts[i] = "s" + hex.EncodeToString([]byte(v))
		case []byte:
			parts[i] = "b" + hex.EncodeToString(v)
		default:
			return nil, fmt.Errorf("a key has a %T", v)
		}
	}
	return json.Marshal(parts)
}

// UnmarshalJSON implements json.Unmarshaler. An empty key is nil.
func (k *importKey) UnmarshalJSON(raw []byte) error {
	var parts []string
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	*k = nil
	for _, part := range parts {
		kind, text := part[:min(1, len(part))], part[min(1, len(part)):]
		n, err := int64(0), error(nil)
		var b []byte
		if kind == "i" {
			n, err = strconv.ParseInt(text, 10, 64)
		} else {
			b, err = hex.DecodeString(text)
		}
		switch {
		case err != nil:
			return err
		case kind == "i":
			*k = append(*k, n)
		case kind == "s":
			*k = append(*k, string(b))
		case kind == "b":
			*k = append(*k, b)
		default:
			return fmt.Errorf("%q is not a part of a key", part)
		}
	}
	return nil
}

// importSum is a count of rows and a digest of them that does not depend on their order.
type importSum struct {
	Rows int64
	Sum  uint64
}

// importOwner owns the executions until the end of an import, so that nobody claims or adopts them before: a node that does
// not die.
const importOwner = 999

// Import takes a whole database over, with the executions that are under way: they have no owner afterwards, and the
// process that claims them goes on with them as after a crash. Numbers, ids and times stay. It can be called again after a
// failure and goes on where it was. At the end every table is read back and compared with what the source gave, by count
// and digest. CodeConflict: the database is not empty. The source is not changed. Progress may be nil.
func (s *Store) Import(ctx context.Context, from Source, progress func(table string, rows int64)) (*Imported, error) {
	if s.readOnly {
		return nil, errReadOnly
	}
	im := &imports{s: s, from: from, progress: progress}
	if progress == nil {
		im.progress = func(string, int64) {}
	}
	done, err := im.run(ctx)
	return done, fault("take the database over", err)
}

// imports is one call of Import.
type imports struct {
	s        *Store
	from     Source
	progress func(table string, rows int64)
	state    importing
}

func (im *imports) run(ctx context.Context) (*Imported, error) {
	ended, err := im.begin(ctx)
	if err != nil {
		return nil, err
	}
	done := &Imported{Rows: map[string]int64{}}
	if !ended {
		for im.state.Table < len(importTables) {
			if err := im.table(ctx, &importTables[im.state.Table]); err != nil {
				return nil, err
			}
		}
		if err := im.check(ctx); err != nil {
			return nil, err
		}
		if err := im.blobs(ctx, done); err != nil {
			return nil, err
		}
		if err := im.end(ctx); err != nil {
			return nil, err
		}
	}
	for table, sum := range im.state.Sums {
		done.Rows[table] = sum.Rows
	}
	return done, nil
}

// begin reads how far an earlier call has come, or makes sure that there is nothing here yet.
func (im *imports) begin(ctx context.Context) (ended bool, err error) {
	var raw []byte
	there, err := im.s.one(ctx, []any{&raw, &ended}, `SELECT state, ended FROM import WHERE source = $1`, im.from.ID())
	if err != nil {
		return false, err
	}
	if there {
		return ended, json.Unmarshal(raw, &im.state)
	}
	var used bool
	if _, err := im.s.one(ctx, []any{&used}, `SELECT EXISTS (SELECT 1 FROM execution) OR EXISTS (SELECT 1 FROM object) OR EXISTS (SELECT 1 FROM import)`); err != nil {
		return false, err
	}
	if used {
		return false, &stepwell.Error{Code: stepwell.CodeConflict, Message: "the database is in use already", Hint: "take a database over into an empty one: createdb NAME"}
	}
	im.state = importing{Started: im.s.o.Now().UnixMicro(), Sums: map[string]importSum{}}
	return false, im.s.transaction(ctx, "begin an import", func(tx pgx.Tx) error {
		if err := im.save(ctx, tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO node (no, address, until, since) OVERRIDING SYSTEM VALUE VALUES ($1, 'import', 'infinity', clock_timestamp())`, importOwner)
		return err
	})
}

func (im *imports) save(ctx context.Context, tx pgx.Tx) error {
	raw, err := json.Marshal(&im.state)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO import (source, state, ended) VALUES ($1, $2, false) ON CONFLICT (source) DO UPDATE SET state = $2`, im.from.ID(), raw)
	return err
}

// importTable is a table of the source.
type importTable struct {
	name string
	// row makes a row of this database of one of the source; to "": of none.
	row func(im *imports, in []any) (to string, out []any, err error)
}

// importColumns are the columns that rows are made of, by table of this database.
var importColumns = map[string]string{
	"definition":     "hash, body, used",
	"execution_live": executionColumns,
	"execution_past": executionColumns,
	"step":           "execution, idx, version, seq, attempt, status, superseded, queued, started, ended, worker, key, external, output, rare",
	"step_log":       "execution, version, at, queued, unnamed, body",
	"log_line":       "execution, seq, step, attempt, at, level, step_key, message, attrs",
	"spawned":        "execution, idx, depends_on, created",
	"seen":           "execution, idx, epoch, version",
	"waiting":        "execution, idx, external",
	"memo":           "execution, step, key, value, epoch",
	"memo_fence":     "execution, step, epoch",
	"start_key":      "key, hash, execution, created",
	"signal":         "key, id, body, at, taken",
	"outgoing":       "no, kind, execution, body, at",
	"object":         "kind, id, name, revision, body, created, updated",
	"audit":          "no, at, actor, role, remote, action, object, result, detail",
	"request":        "no, owner, execution, kind, body",
	"outside_work":   "execution, idx, epoch, attempt, key, action, state, since, held, tries, next, error",
	"blob_use":       "execution, hash",
	"object_blob":    "kind, id, hash, size",
	"gone":           "no, at",
	"progress":       "project, status, total, done, errors, other_done, other_errors, rev, epoch, event, touched, completed",
	"progress_item":  "project, key, at",
	"usage":          "kind, id, input, output, audio, cost",
}

// same is a table whose rows stay as they are.
func same(name string) importTable {
	return importTable{name, func(_ *imports, in []any) (string, []any, error) { return name, in, nil }}
}

var importTables = []importTable{
	{"definition", func(im *imports, in []any) (string, []any, error) {
		return "definition", append(in, im.state.Started), nil
	}},
	{"execution", importExecution},
	{"step", importStep},
	{"step_log", func(_ *imports, in []any) (string, []any, error) {
		c := store.Commit{Version: in[1].(int64), Log: []byte(in[2].(string))}
		at, queued, err := headOf(&c)
		if err != nil {
			return "", nil, fmt.Errorf("version %d of execution %d: %w", in[1], in[0], err)
		}
		return "step_log", []any{in[0], in[1], at, nullable(string(queued)), nullable(in[3]), in[2]}, nil
	}},
	{"log_line", func(_ *imports, in []any) (string, []any, error) {
		return "log_line", []any{in[1], in[0], in[2], in[4], in[5], in[6], in[3], in[7], in[8]}, nil
	}},
	same("spawned"), same("seen"), same("waiting"),
	{"memo", func(_ *imports, in []any) (string, []any, error) {
		if _, fence := in[2].([]byte); fence {
			return "memo_fence", []any{in[0], in[1], in[4]}, nil
		}
		return "memo", in, nil
	}},
	same("start_key"), same("signal"), same("outgoing"), same("object"), same("audit"),
	{"request", func(_ *imports, in []any) (string, []any, error) {
		return "request", []any{in[0], int64(0), in[1], in[2], in[3]}, nil // its owner has died
	}},
	{"outside_work", func(_ *imports, in []any) (string, []any, error) {
		in[8] = in[8] != int64(0)
		return "outside_work", in, nil
	}},
	{"blob_use", func(_ *imports, in []any) (string, []any, error) {
		raw, err := hex.DecodeString(in[1].(string))
		return "blob_use", []any{in[0], raw}, err
	}},
	{"object_blob", func(_ *imports, in []any) (string, []any, error) {
		raw, err := hex.DecodeString(in[2].(string))
		return "object_blob", []any{in[0], in[1], raw, in[3]}, err
	}},
	{"gone", func(im *imports, in []any) (string, []any, error) { return "gone", append(in, im.state.Started), nil }},
	same("progress"), same("progress_item"), same("usage"),
}

// nullable is NULL for "".
func nullable(v any) any {
	if v == "" {
		return nil
	}
	return v
}

// importExecution puts an execution into the table of its status.
func importExecution(_ *imports, in []any) (string, []any, error) {
	to, owner := "execution_past", any(nil)
	if status := in[3].(int64); !stepwell.ExecutionStatus(status).Terminal() {
		to, owner = "execution_live", int64(importOwner)
	}
	priority := in[20]
	if priority == nil {
		priority = int64(0)
	}
	out := slices.Concat(in[:2], []any{owner}, in[2:20], []any{priority}, in[21:])
	return to, out, nil
}

// importStep takes the columns out of the rare ones that have their own here.
func importStep(_ *imports, in []any) (string, []any, error) {
	var rare struct {
		store.Extra
		Superseded int `json:"o"`
	}
	if text, ok := in[11].(string); ok {
		if err := json.Unmarshal([]byte(text), &rare); err != nil {
			return "", nil, fmt.Errorf("step %d of execution %d: %w", in[1], in[0], err)
		}
	}
	key, external, superseded := nullable(rare.Key), nullable(rare.External), any(nil)
	if rare.Superseded != 0 {
		superseded = true
	}
	rare.Key, rare.External = "", ""
	rest, err := rare.Encode()
	extra := any(nil)
	if rest != nil {
		extra = string(rest)
	}
	return "step", []any{in[0], in[1], in[2], in[5], in[4], in[3], superseded, in[6], in[7], in[8], in[9], key, external, in[10], extra}, err
}

// table brings in a table, page by page: each is one transaction with the note of how far it goes.
func (im *imports) table(ctx context.Context, t *importTable) error {
	for {
		page, err := im.from.Dump(ctx, t.name, im.state.After)
		if err != nil {
			return err
		}
		by := map[string][][]any{}
		for _, in := range page {
			to, out, err := t.row(im, slices.Clone(in))
			if err != nil {
				return err
			}
			for i, v := range out {
				if text, ok := v.(string); ok {
					out[i] = encode(text)
				}
			}
			by[to] = append(by[to], out)
		}
		before := im.state
		im.state.Sums = maps.Clone(before.Sums)
		for to, rows := range by {
			im.state.Sums[to] = im.state.Sums[to].add(rows)
		}
		if len(page) == 0 {
			im.state.Table, im.state.After = im.state.Table+1, nil
		} else {
			im.state.After = im.from.DumpKey(t.name, page[len(page)-1])
		}
		if err := im.s.transaction(ctx, "bring in "+t.name, func(tx pgx.Tx) error { return im.store(ctx, tx, by) }); err != nil {
			im.state = before
			return err
		}
		im.progress(t.name, int64(len(page)))
		if len(page) == 0 {
			return nil
		}
	}
}

func (im *imports) store(ctx context.Context, tx pgx.Tx, by map[string][][]any) error {
	for to, rows := range by {
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{to}, columnNames(to), pgx.CopyFromRows(rows)); err != nil {
			return fmt.Errorf("%s: %w", to, err)
		}
	}
	return im.save(ctx, tx)
}

func columnNames(table string) []string {
	list := strings.Split(importColumns[table], ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

// add adds rows to a sum.
func (x importSum) add(rows [][]any) importSum {
	var b []byte
	for _, row := range rows {
		b = b[:0]
		for _, v := range row {
			b = appendValue(b, v)
		}
		x.Rows, x.Sum = x.Rows+1, x.Sum+xxhash.Sum64(b)
	}
	return x
}

// appendValue writes a value so that equal ones are equal, whichever driver has read them.
func appendValue(b []byte, v any) []byte {
	number := func(n int64) []byte { return binary.BigEndian.AppendUint64(append(b, 'n'), uint64(n)) }
	bytes := func(s string) []byte {
		return append(binary.BigEndian.AppendUint64(append(b, 's'), uint64(len(s))), s...)
	}
	switch v := v.(type) {
	case nil:
		return append(b, '0')
	case int64:
		return number(v)
	case int32:
		return number(int64(v))
	case int16:
		return number(int64(v))
	case bool:
		if v {
			return append(b, 't')
		}
		return append(b, 'f')
	case string:
		return bytes(v)
	case []byte:
		return bytes(string(v))
	}
	return append(b, fmt.Sprintf("%T", v)...)
}

// check reads every table back.
func (im *imports) check(ctx context.Context) error {
	for table, columns := range importColumns {
		want := im.state.Sums[table]
		rows, err := im.s.pool.Query(ctx, "SELECT "+columns+" FROM "+table)
		if err != nil {
			return err
		}
		var got importSum
		for rows.Next() {
			row, err := rows.Values()
			if err != nil {
				rows.Close()
				return err
			}
			got = got.add([][]any{row})
		}
		if err := rows.Err(); err != nil {
			return err
		}
		if got != want {
			return &stepwell.Error{Code: stepwell.CodeInternal, Message: fmt.Sprintf("the table %s has %d rows where %d were brought in, or others", table, got.Rows, want.Rows),
				Hint: "let nothing else use the database meanwhile; begin again with an empty one"}
		}
	}
	return nil
}

// maxMissing bounds the blobs that are named.
const maxMissing = 20

// blobs copies the large outputs. Those that are here already cost a look.
func (im *imports) blobs(ctx context.Context, done *Imported) error {
	files, ok := im.from.Blobs().(interface {
		File(ref string) (string, error)
	})
	for after := []byte{}; ; {
		hashes, err := list(ctx, im.s, pgx.RowTo[[]byte], `SELECT hash FROM blob_use WHERE hash > $1 UNION SELECT hash FROM object_blob WHERE hash > $1 ORDER BY hash LIMIT 100`, after)
		if err != nil || len(hashes) == 0 {
			return err
		}
		if !ok {
			return errors.New("the source's large outputs are in no folder")
		}
		after = hashes[len(hashes)-1]
		for _, hash := range hashes {
			path, err := files.File(fmt.Sprintf("@sha256:%x:0", hash))
			if err != nil {
				return err
			}
			info, err := os.Stat(path)
			var value []byte
			if err == nil {
				value, err = im.from.Blobs().Load(ctx, fmt.Sprintf("@sha256:%x:%d", hash, info.Size()))
			}
			if errors.Is(err, os.ErrNotExist) || stepwell.CodeOf(err) == stepwell.CodeNotFound || stepwell.CodeOf(err) == stepwell.CodeInternal {
				if len(done.Missing) < maxMissing {
					done.Missing = append(done.Missing, fmt.Sprintf("%x", hash))
				}
				continue
			}
			if err == nil {
				_, err = im.s.blobs.Put(ctx, value)
			}
			if err != nil {
				return err
			}
			done.Blobs++
		}
	}
}

// end hands out numbers above the source's, and the executions to whoever claims them.
func (im *imports) end(ctx context.Context) error {
	next := int64(1)
	for after := []any(nil); ; {
		page, err := im.from.Dump(ctx, "counter", after)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for _, row := range page {
			if n, ok := row[1].(int64); ok && row[0] == "execution" {
				next = cmp.Or(n, next)
			}
			after = im.from.DumpKey("counter", row)
		}
	}
	return im.s.transaction(ctx, "end an import", func(tx pgx.Tx) error {
		for _, table := range []string{"request", "outgoing", "audit"} {
			if _, err := tx.Exec(ctx, `SELECT setval(pg_get_serial_sequence($1, 'no'), coalesce((SELECT max(no) FROM `+table+`), 0) + 1, false)`, table); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, `UPDATE counter SET next = greatest(next, $1, coalesce((SELECT max(no) FROM gone), 0) + 1) WHERE name = 'execution'`, next); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE execution_live SET owner = NULL WHERE owner = $1`, importOwner); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM node WHERE no = $1`, importOwner); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE import SET ended = true WHERE source = $1`, im.from.ID())
		return err
	})
}
