package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
	"github.com/stepwell/stepwell/store/storetest"
)

// embedded is a database with something of everything: executions that have ended, that run and that wait, rows of all
// kinds, large outputs of which one is lost.
func embedded(t *testing.T) *sqlite.Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err = s.Numbers(t.Context(), 500)
	must(err)
	must(s.PutDefinition(t.Context(), []byte("hash"), []byte(`{"steps":[{"id":"a"},{"id":"b","action":"do.b"},{"id":"c","name":"See","depends_on":["a"]},{"id":"d"}]}`)))
	ref, err := s.Blobs().Put(t.Context(), []byte(`{"large":1}`))
	must(err)
	for no := int64(1); no <= 30; no++ {
		random, running := rand.New(rand.NewPCG(3, uint64(no))), map[int32]uint32{}
		one := first(no)
		one.Create.Project, one.Create.Lesson, one.Create.WorkflowVersion = "half", fmt.Sprint("lesson-", no%5), int(no)
		one.Usage = one.Create.Used(stepwell.Spending{Cost: no, Usage: stepwell.Usage{InputTokens: 10, OutputTokens: no, AudioMillis: 1500}})
		one.Create.Key, one.Create.KeyHash, one.Create.Owner, one.Create.Priority = fmt.Sprint("key-", no), []byte{0, 1}, 7, int(no%3)
		must(s.Commit(t.Context(), []store.Commit{one}))
		for v := int64(2); v < 12; v++ {
			must(s.Commit(t.Context(), []store.Commit{storetest.RandomCommit(t, random, running, no, v)}))
		}
		c := store.Commit{Execution: no, Version: 12, Log: []byte(`{"t":12,"e":[]}`), Steps: []engine.StepRow{
			{Idx: 20, Status: stepwell.StepWaiting, Attempt: 1, Key: "s:20", External: fmt.Sprint("signal-", no), Input: []byte(`{"i":1}`)},
			{Idx: 21, Seq: 1, Status: stepwell.StepCompleted, Attempt: 1, Key: "s:21", Output: []byte(ref), Counted: &engine.Items{In: 3}},
			{Idx: 22, Seq: 2, Status: stepwell.StepFailed, Attempt: 1, Key: "old", Error: &engine.Failure{Message: "nul \x00"}}},
			Superseded: []engine.Superseded{{Key: "old", Self: true, Below: 30}}, Forget: []engine.Forgotten{{Idx: 1, Epoch: 5}},
			Outside: []store.OutsideWork{{Execution: no, Step: 2, Epoch: 1, Attempt: 1, StepKey: "c", Action: "x", State: []byte(`{}`), Since: time.UnixMicro(5).UTC(), Next: time.UnixMicro(6).UTC()}}}
		if no == 30 {
			c.Steps[1].Output = []byte("@sha256:" + strings.Repeat("ab", 32) + ":5")
		}
		must(s.Commit(t.Context(), []store.Commit{c}))
		if no%2 == 0 {
			end := store.Commit{Execution: no, Version: 13, Log: []byte(`{"t":13,"e":[]}`), Update: &store.Update{Status: stepwell.ExecutionFailed, Ended: no, Outputs: []byte(`{"o":1}`), Failure: &engine.Failure{Message: "no"}}}
			must(s.Commit(t.Context(), []store.Commit{end}))
		}
		must(s.PutMemo(t.Context(), store.Memo{Execution: no, Step: 1, Epoch: 9, Key: "m", Value: []byte("1")}))
		must(s.AppendLogs(t.Context(), []store.LogLine{{Execution: no, Step: 1, StepKey: "b", At: time.UnixMicro(no).UTC(), Level: "warning", Message: "odd \x00 \xff", Attrs: []byte(`{"a":1}`)}, {Execution: no, StepKey: "a", At: time.UnixMicro(no).UTC(), Level: "info", Message: "two"}}))
		_, err := s.PutSignal(t.Context(), store.Signal{Key: fmt.Sprint("signal-", no), ID: "1", Body: []byte(`{}`), At: time.UnixMicro(3).UTC()})
		must(err)
	}
	_, err = s.PutObjects(t.Context(), store.Object{Kind: "schedule", ID: "s1", Name: "nightly", Body: []byte(`{"x":1}`)}, store.Object{Kind: "schedule", ID: "s2", Body: []byte(`2`)})
	must(err)
	chunk, err := s.Blobs().Put(t.Context(), []byte("a chunk of a lesson's file"))
	must(err)
	_, err = s.PutObjects(t.Context(), store.Object{Kind: "upload", ID: "u1", Body: []byte(`{}`), Blobs: []string{chunk}})
	must(err)
	must(s.AppendAudit(t.Context(), []store.AuditEntry{{At: time.UnixMicro(1).UTC(), Actor: "kim", Action: "x", Result: "ok"}}))
	must(s.PutRequest(t.Context(), store.Request{Execution: "execution-000001", Kind: "cancel", Owner: 7}))
	total := int64(2)
	for _, project := range []string{"half", "whole", "deleted"} {
		_, err := s.CreateProgress(t.Context(), project)
		must(err)
		_, err = s.ChangeProgress(t.Context(), []store.ProgressChange{{Count: store.Count{Project: project, Done: 1}, Key: "k", Total: &total, OtherErrors: 1}})
		must(err)
	}
	_, err = s.ChangeProgress(t.Context(), []store.ProgressChange{{Count: store.Count{Project: "whole", Done: 1, Errors: 1}}})
	must(err)
	must(s.DeleteProgress(t.Context(), "deleted"))
	return s
}

// everything is what the contract's methods say of a database.
func everything(t *testing.T, s store.Store) (out []string) {
	t.Helper()
	add := func(v any, err error) {
		t.Helper()
		if err != nil && stepwell.CodeOf(err) != stepwell.CodeNotFound {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%+v", v))
	}
	executions, err := s.Executions(t.Context(), store.Filter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for i := range executions {
		x, err := s.Execution(t.Context(), executions[i].ID)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%+v", x.Failure))
		x.Failure = nil
		add(*x, nil)
		out = append(out, told(t, s, x.No)...)
		for e, err := range s.StepLog(t.Context(), x.No, 0) {
			add(string(e.Body), err)
		}
		lines, err := s.Logs(t.Context(), x.No, store.LogFilter{})
		add(lines, err)
		memo, ok, err := s.Memo(t.Context(), x.No, 1, "m")
		add(fmt.Sprint(string(memo), ok), err)
		key, err := s.StartKey(t.Context(), fmt.Sprint("key-", x.No))
		add(*key, err)
		list, err := s.SignalsFor(t.Context(), []string{fmt.Sprint("signal-", x.No)})
		add(list, err)
		if err := s.PutMemo(t.Context(), store.Memo{Execution: x.No, Step: 1, Epoch: 4, Key: "late", Value: []byte("1")}); stepwell.CodeOf(err) != stepwell.CodeConflict {
			t.Errorf("a late memo of execution %d: %v", x.No, err)
		}
	}
	waiting, err := s.WaitingSteps(t.Context(), "", nil, 1000)
	add(waiting, err)
	work, err := s.OutsideWork(t.Context(), 0, store.OutsideWork{}, 0)
	add(work, err)
	outbox, err := s.Outbox(t.Context(), 0, 1000)
	add(outbox, err)
	audit, err := s.AuditEntries(t.Context(), store.AuditFilter{})
	add(audit, err)
	objects, err := s.Objects(t.Context(), store.ObjectFilter{Kind: "schedule"})
	add(objects, err)
	uploads, err := s.Objects(t.Context(), store.ObjectFilter{Kind: "upload"})
	add(uploads, err)
	for _, kind := range []string{store.UsageOfProject, store.UsageOfLesson, store.UsageOfVersion} {
		for _, id := range []string{"half", "lesson-3", ":3"} {
			sum, err := s.UsageOf(t.Context(), kind, id)
			add(sum, err)
		}
	}
	of, err := s.Executions(t.Context(), store.Filter{Lesson: "lesson-3"})
	add(len(of), err)
	projects, err := s.Progress(t.Context(), []string{"half", "whole", "deleted"})
	add(projects, err)
	again, err := s.ChangeProgress(t.Context(), []store.ProgressChange{{Count: store.Count{Project: "half", Done: 1}, Key: "k"}})
	add(again[0].Repeated, err)
	totals, err := s.Totals(t.Context(), time.Time{})
	add(*totals, err)
	kept, err := s.Kept(t.Context())
	add(kept, err)
	body, err := s.Definition(t.Context(), []byte("hash"))
	add(string(body), err)
	return out
}

// brittle is a source that fails at the n-th page.
type brittle struct {
	Source
	left int
}

func (b *brittle) Dump(ctx context.Context, table string, after []any) ([][]any, error) {
	if b.left--; b.left == 0 {
		return nil, errors.New("the disk has gone")
	}
	return b.Source.Dump(ctx, table, after)
}

// TestImport: a database that was taken over, in many attempts, says the same as before, and goes on.
func TestImport(t *testing.T) {
	from := embedded(t)
	s := open(t, Options{})
	attempts := 0
	var done *Imported
	node, _, err := s.Join(t.Context(), "https://node", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for err := errors.New("not yet"); err != nil; attempts++ {
		if done, err = s.Import(t.Context(), &brittle{from, 5 + 2*attempts}, nil); err != nil && !strings.Contains(err.Error(), "the disk has gone") {
			t.Fatal(err)
		}
		if err != nil {
			if list, err := s.Claim(t.Context(), 1, 10); err != nil || len(list) > 0 {
				t.Fatalf("%d executions can be claimed before the end, error %v", len(list), err)
			}
			if list, err := s.Adopt(t.Context(), node, time.Nanosecond, 10); err != nil || len(list) > 0 {
				t.Fatalf("%d executions can be adopted before the end, error %v", len(list), err)
			}
		}
	}
	if attempts < 4 || done.Rows["execution_live"] != 15 || done.Rows["execution_past"] != 15 || done.Blobs != 2 || done.Rows["object_blob"] != 1 || done.Rows["usage"] == 0 || len(done.Missing) != 1 {
		t.Errorf("after %d attempts: %+v", attempts, done)
	}
	if got, want := everything(t, s), everything(t, from); !slices.Equal(got, want) {
		for i := range want {
			if i >= len(got) || got[i] != want[i] {
				t.Fatalf("%s\nSQLite:\n%s", got[min(i, len(got)-1)], want[i])
			}
		}
		t.Fatalf("%d facts, want %d", len(got), len(want))
	}
	if again, err := s.Import(t.Context(), from, nil); err != nil || again.Rows["step"] != done.Rows["step"] {
		t.Errorf("once more: %+v, %v", again, err)
	}
	if no := reserve(t, s); no < 501 {
		t.Errorf("the next number is %d", no)
	}
	list, err := s.Claim(t.Context(), 1, 100)
	if err != nil || len(list) != 15 {
		t.Fatalf("%d executions are claimed, error %v", len(list), err)
	}
	requests, err := s.TakeRequests(t.Context(), 1, 10)
	if err != nil || len(requests) != 1 {
		t.Errorf("%d requests, error %v", len(requests), err)
	}
	commit(t, s, ended(list[0].No, list[0].Version+1))
	commit(t, s, store.Commit{Execution: 2, Version: 14, Log: []byte(`{"t":14,"e":[]}`), Update: &store.Update{Status: stepwell.ExecutionRunning}, Outbox: outbox(2, 14)})
	if err := s.AppendLogs(t.Context(), []store.LogLine{{Execution: 1, At: time.UnixMicro(1), Level: "info", Message: "continues"}}); err != nil {
		t.Fatal(err)
	}
}

// TestImportRefuses a database that is in use, and finds what is not as it was brought in.
func TestImportRefuses(t *testing.T) {
	from := embedded(t)
	used := open(t, Options{})
	commit(t, used, first(1))
	if _, err := used.Import(t.Context(), from, nil); stepwell.CodeOf(err) != stepwell.CodeConflict {
		t.Errorf("into one that is in use: %v", err)
	}
	s := open(t, Options{})
	meddle := func(table string, _ int64) {
		if table == "step_log" {
			if _, err := s.pool.Exec(t.Context(), `UPDATE step SET attempt = attempt + 1 WHERE execution = 3 AND idx = 21`); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := s.Import(t.Context(), from, meddle); stepwell.CodeOf(err) != stepwell.CodeInternal || !strings.Contains(fmt.Sprint(err), "the table step ") {
		t.Errorf("with a row that was changed: %v", err)
	}
}
