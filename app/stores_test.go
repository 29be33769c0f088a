package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
	"github.com/stepwell/stepwell/store/sqlite"
)

// stub is a store of another kind: the package that a walkthrough would add.
type stub struct {
	*sqlite.Store
	url string
}

func (s stub) Path() string { return s.url }

// stubs are the databases of the kind.
type stubs struct {
	dir    string
	opened []string // what for
}

func (s *stubs) open(ctx context.Context, o store.Options) (stub, error) {
	s.opened = append(s.opened, fmt.Sprintf("%s exclusive %v read-only %v", o.Path, o.Exclusive, o.ReadOnly))
	url := o.Path
	o.Path = filepath.Join(s.dir, strings.TrimPrefix(url, "stub://"))
	opened, err := sqlite.Open(ctx, o)
	return stub{opened, url}, err
}

// TestANewStoreIsOnePackageAndOneLine: executions run in it, others read it and leave requests in it, keys and secrets are in it; no master key is made up that other processes would not have.
func TestANewStoreIsOnePackageAndOneLine(t *testing.T) {
	dir := t.TempDir()
	kind := &stubs{dir: dir}
	storeKinds["stub"] = storeKind{open: opener(kind.open)} // the line
	t.Cleanup(func() { delete(storeKinds, "stub") })
	log := slog.New(slog.DiscardHandler)
	o := Options{DB: "stub://one", Data: filepath.Join(dir, "data"), Log: log}
	a, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- a.Run(ctx) }()
	id := completeOne(t, a)
	if _, err := a.Secrets.Vault.Set(t.Context(), "token", "swordfish", 0, "me"); stepwell.CodeOf(err) != stepwell.CodeNotFound || !strings.Contains(err.Error(), filepath.Join("data", "stepwell.db.key")) {
		t.Errorf("a master key of its own: %v", err)
	}
	r, err := OpenReading(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	page, err := r.Executions(t.Context(), api.ListExecutions{})
	if err != nil || len(page.Executions) != 1 {
		t.Errorf("%+v, error %v", page, err)
	}
	w, err := OpenWriter(t.Context(), o.DB, log)
	if err != nil {
		t.Fatal(err)
	}
	err = w.PutRequest(t.Context(), store.Request{Execution: id, Kind: conductor.RequestCancel})
	stop()
	if err := errors.Join(err, w.Close(), r.Close(), <-ran, a.Close()); err != nil {
		t.Error(err)
	}
	want := []string{"stub://one exclusive true read-only false", "stub://one exclusive false read-only true", "stub://one exclusive false read-only false"}
	if fmt.Sprint(kind.opened) != fmt.Sprint(want) {
		t.Errorf("opened %q, want %q", kind.opened, want)
	}
	if _, err := DatabaseFile(o.DB); stepwell.CodeOf(err) != stepwell.CodeInvalid || !DatabaseExists(o.DB) {
		t.Errorf("its file: %v", err)
	}
}

// TestPostgres runs an execution in a PostgreSQL database, which another process reads and a third one runs executions in as well.
func TestPostgres(t *testing.T) {
	o := Options{DB: postgrestest.New(t).URL(), Data: filepath.Join(t.TempDir(), "data"), Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Now().Add(time.Hour) }} // the database has another time
	a, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- a.Run(ctx) }()
	since := a.Now()
	id := completeOne(t, a)
	if x, err := a.Store.Execution(t.Context(), id); err != nil || x.Created.Before(since) || since.After(time.Now().Add(30*time.Minute)) {
		t.Errorf("created at %s, at the app's %s: %v", x.Created, since, err)
	}
	r, err := OpenReading(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if page, err := r.Executions(t.Context(), api.ListExecutions{}); err != nil || len(page.Executions) != 1 {
		t.Errorf("%+v, error %v", page, err)
	}
	second, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	there := make(chan error, 1)
	go func() { there <- second.Run(ctx) }()
	completeOne(t, second)
	stop()
	if err := errors.Join(r.Close(), <-ran, <-there, a.Close(), second.Close()); err != nil {
		t.Error(err)
	}
	if name := DatabaseName("postgres://me:secret@host/db"); strings.Contains(name, "secret") || !strings.Contains(name, "host/db") {
		t.Errorf("the database is shown as %s", name)
	}
}

func TestFindStore(t *testing.T) {
	for db, want := range map[string]string{"a.db": "a.db", "sqlite:a.db": "a.db", "sqlite:/x/a.db": "/x/a.db", `C:\x\a.db`: `C:\x\a.db`, ":memory:": ":memory:", "": ""} {
		if _, place, err := findStore(db); place != want || err != nil {
			t.Errorf("%q is %q, error %v, want %q", db, place, err, want)
		}
	}
	_, _, err := findStore("oracle://somewhere")
	if stepwell.CodeOf(err) != stepwell.CodeInvalid || !strings.Contains(stepwell.HintOf(err), "sqlite:") {
		t.Errorf("an unknown kind: %v", err)
	}
}

// completeOne runs an execution of one step.
func completeOne(t *testing.T, a *App) (id string) {
	t.Helper()
	p, err := a.Conductor.Register(t.Context(), &definition.Definition{Name: "p", Steps: []definition.Step{{ID: "a", Action: "util.log", Params: map[string]any{"message": "here"}}}})
	if err != nil {
		t.Fatal(err)
	}
	id, err = a.Conductor.Start(t.Context(), conductor.Request{Pipeline: p})
	if err != nil {
		t.Fatal(err)
	}
	if x, err := a.Conductor.Wait(t.Context(), id); err != nil || x.Status != stepwell.ExecutionCompleted {
		t.Fatalf("%+v, error %v", x, err)
	}
	return id
}
