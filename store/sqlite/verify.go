package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"

	"github.com/stepwell/stepwell"
)

// maxBroken bounds the blobs that are named; the others are counted.
const maxBroken = 20

// Broken is a blob that is missing or differs from its reference.
type Broken struct {
	Hash      string `json:"hash"`
	Problem   string `json:"problem"`   // such as "is missing"
	Execution string `json:"execution"` // an execution that refers to it
	Step      string `json:"step_id,omitempty"`
}

// References is the result of a check of all references to blobs.
type References struct {
	Blobs   int      // that are referred to
	Lost    int      // of them missing or damaged
	Broken  []Broken // of them the first ones
	Foreign bool     // the folder has the blobs of another database
}

// Verify reads every blob that a database refers to and compares it with its reference; the database may be in use.
func Verify(ctx context.Context, path string) (found *References, err error) {
	s, err := source(path)
	if err != nil {
		return nil, fault("verify "+path, err)
	}
	db, err := openPool(s.path, true)
	if err != nil {
		return nil, fault("verify "+path, err)
	}
	defer func() { err = errors.Join(err, fault("verify "+path, db.Close())) }()
	v := &verification{ctx: ctx, db: db, s: s, seen: map[string]bool{}}
	have, _, err := version(ctx, db)
	if err != nil {
		return nil, fault("verify "+path, err)
	}
	x, err := readIdentity(ctx, db, s.sql)
	if err != nil {
		return nil, fault("verify "+path, err)
	}
	owner, err := s.blobs.Owner()
	if err != nil {
		return nil, err
	}
	v.found.Foreign = owner != "" && owner != x.id
	queries := map[string]int{"refs_steps": 1000, "refs_log": 10, "refs_outputs": 100}
	if have >= objectBlobs {
		queries["refs_objects"] = 1000
	}
	for query, page := range queries {
		if err := v.each(query, page); err != nil {
			return nil, fault("verify "+path, err)
		}
	}
	return &v.found, nil
}

// verification is one call of Verify.
type verification struct {
	ctx   context.Context
	db    *sql.DB
	s     *Store
	seen  map[string]bool // hashes
	found References
}

// each looks through the rows of a query, page by page, so that none of them keeps the log from starting over.
func (v *verification) each(query string, page int) error {
	type row struct {
		execution, at int64
		text          []byte
	}
	for last := (row{execution: -1}); ; {
		var rows []row
		err := eachRow(v.ctx, v.db, func(r *sql.Rows) error {
			var one row
			err := r.Scan(&one.execution, &one.at, &one.text)
			rows = append(rows, one)
			return err
		}, v.s.sql[query], last.execution, last.at, page)
		if err != nil {
			return err
		}
		for _, one := range rows {
			idx := one.at
			if query != "refs_steps" {
				idx = -1
			}
			if err := v.text(one.execution, idx, one.text); err != nil {
				return err
			}
		}
		if len(rows) < page {
			return nil
		}
		last = rows[len(rows)-1]
	}
}

// reference is a text that is a reference and nothing else: the whole of an output, or a value in JSON.
var reference = regexp.MustCompile(`(?:^|")(@sha256:[0-9a-f]{64}:[0-9]+)(?:"|$)`)

func (v *verification) text(execution, idx int64, text []byte) error {
	for _, found := range reference.FindAllSubmatch(text, -1) {
		ref := string(found[1])
		if v.seen[ref] {
			continue
		}
		v.seen[ref] = true
		v.found.Blobs++
		err := v.s.blobs.Check(v.ctx, ref)
		if err == nil {
			continue
		}
		if code := stepwell.CodeOf(err); v.ctx.Err() != nil || code != stepwell.CodeNotFound && code != stepwell.CodeInternal {
			return err
		}
		if v.found.Lost++; len(v.found.Broken) < maxBroken {
			if err := v.name(execution, idx, ref, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// name says where a blob is missed.
func (v *verification) name(execution, idx int64, ref string, problem error) error {
	b := Broken{Hash: ref[len("@sha256:") : len("@sha256:")+64], Problem: problem.Error()}
	if coded, ok := errors.AsType[*stepwell.Error](problem); ok {
		b.Problem = coded.Message
	}
	err := v.db.QueryRowContext(v.ctx, v.s.sql["refs_named"], execution, idx).Scan(&b.Execution, &b.Step)
	if errors.Is(err, sql.ErrNoRows) { // retention was faster
		err = nil
	}
	v.found.Broken = append(v.found.Broken, b)
	return err
}

// Err lists missing and damaged blobs: CodeInternal, nil when there are none.
func (r *References) Err(folder string) error {
	if r.Foreign {
		return &stepwell.Error{Code: stepwell.CodeConflict, Message: folder + " has the large outputs of another database",
			Hint: "put the folder back that belongs to this one"}
	}
	if r.Lost == 0 {
		return nil
	}
	text := fmt.Sprintf("%d of %d large outputs in %s are missing or damaged", r.Lost, r.Blobs, folder)
	for i, b := range r.Broken {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		text += sep + b.String()
	}
	if r.Lost > len(r.Broken) {
		text += fmt.Sprintf("; and %d more", r.Lost-len(r.Broken))
	}
	return &stepwell.Error{Code: stepwell.CodeInternal, Message: text, Hint: "put them back from a backup, or repeat the steps: stepwell executions restart EXECUTION STEP"}
}

func (b *Broken) String() string {
	where := ""
	if b.Step != "" {
		where = ", step " + b.Step
	}
	if b.Execution == "" {
		return fmt.Sprintf("%s %s (the media of a lesson)", b.Hash, b.Problem)
	}
	return fmt.Sprintf("%s %s (execution %s%s)", b.Hash, b.Problem, b.Execution, where)
}
