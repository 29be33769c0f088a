package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// wantError checks the code and parts of the message and hint.
func wantError(t *testing.T, err error, code stepwell.Code, parts ...string) {
	t.Helper()
	if got := stepwell.CodeOf(err); got != code || stepwell.HintOf(err) == "" {
		t.Errorf("error %v: code %q, want %q; hint %q", err, got, code, stepwell.HintOf(err))
		return
	}
	for _, part := range parts {
		if text := err.Error() + "\n" + stepwell.HintOf(err); !strings.Contains(text, part) {
			t.Errorf("error %q lacks %q", text, part)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	text := in("text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is not a database. ", 300)), 0o644); err != nil {
		t.Fatal(err)
	}
	alter := func(name string, statements ...string) string {
		path := in(name)
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, s := range statements {
			if _, err := db.Exec(s); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	foreign := alter("foreign.db", "CREATE TABLE customer (id INTEGER)")
	for _, name := range []string{"newer.db", "older.db"} {
		s, err := Open(t.Context(), Options{Path: in(name)})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	newer := alter("newer.db", "PRAGMA user_version = 99")
	older := alter("older.db", "PRAGMA user_version = 1")
	for name, c := range map[string]struct {
		o     Options
		code  stepwell.Code
		parts []string
	}{
		"text":              {Options{Path: text}, stepwell.CodeInvalid, []string{"not a database", text, "--db"}},
		"text, read-only":   {Options{Path: text, ReadOnly: true}, stepwell.CodeInvalid, []string{"not a database"}},
		"another program's": {Options{Path: foreign}, stepwell.CodeInvalid, []string{"another program"}},
		"newer":             {Options{Path: newer}, stepwell.CodeInvalid, []string{"newer stepwell", "version 99"}},
		"newer, read-only":  {Options{Path: newer, ReadOnly: true}, stepwell.CodeInvalid, []string{"newer stepwell"}},
		"older, read-only":  {Options{Path: older, ReadOnly: true}, stepwell.CodeConflict, []string{"version 1", "migrates"}},
		"a directory":       {Options{Path: dir}, stepwell.CodeInvalid, []string{"is a directory"}},
		"no directory":      {Options{Path: in("no/such.db")}, stepwell.CodeNotFound, []string{in("no"), "does not exist"}},
		"nothing to read":   {Options{Path: in("none.db"), ReadOnly: true}, stepwell.CodeNotFound, []string{"no database"}},
		"read-only place":   {Options{Path: "/proc/stepwell.db"}, stepwell.CodeUnavailable, []string{"/proc/stepwell.db", "permissions"}},
		"synchronous":       {Options{Synchronous: "sometimes"}, stepwell.CodeInvalid, []string{"sometimes", "full"}},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "read-only place" {
				if _, err := os.Stat("/proc/self"); err != nil {
					t.Skip("no /proc here: a place where nothing can be created is left out")
				}
			}
			s, err := Open(t.Context(), c.o)
			if err == nil {
				s.Close()
				t.Fatal("it opened")
			}
			wantError(t, err, c.code, c.parts...)
		})
	}
	if _, err := os.Stat(in("none.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("reading made a database: %v", err)
	}
}

func TestOpenOddPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b%20?c#d&é=.db")
	begin(t, open(t, Options{Path: path}), 1, `{"steps":[]}`)
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	if x, err := open(t, Options{Path: path, ReadOnly: true}).Execution(t.Context(), "exec"); err != nil || x.No != 1 {
		t.Error(x, err)
	}
}

// TestReadOnly: everything can be read, nothing written, and the concurrent writer goes on.
func TestReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	w := open(t, Options{Path: path, Exclusive: true})
	begin(t, w, 1, `{"steps":[]}`)
	r := open(t, Options{Path: path, ReadOnly: true})
	err := r.Commit(t.Context(), []store.Commit{{Execution: 1, Version: 2}})
	if stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Errorf("commit: %v", err)
	}
	if _, err := r.read.Exec("DELETE FROM step_log"); err == nil {
		t.Error("the pool that reads can write")
	}
	if _, err := w.read.Exec("DELETE FROM step_log"); err == nil {
		t.Error("the pool that reads can write")
	}
	begin(t, w, 2, `{"steps":[]}`)
	if list, err := r.Executions(t.Context(), store.Filter{}); err != nil || len(list) != 2 {
		t.Error(list, err)
	}
}

func TestPrivate(t *testing.T) {
	var dirs []string
	for _, path := range []string{"", ":memory:"} {
		s, err := Open(t.Context(), Options{Path: path, Exclusive: true})
		if err != nil {
			t.Fatal(err)
		}
		begin(t, s, 1, `{"steps":[]}`)
		if _, err := s.Blobs().Put(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, filepath.Dir(s.Path()))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s was left behind: %v", dir, err)
		}
	}
}

// TestClose leaves one file with everything in it.
func TestClose(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Path: filepath.Join(dir, "store.db")})
	begin(t, s, 1, `{"steps":[]}`)
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 || entries[0].Name() != "store.db" || entries[1].Name() != "store.db.lock" {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// TestExclusive: one holder; a second one gets its process id; requests pass meanwhile; when it closes, the next one
// may hold it.
func TestExclusive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	holder := open(t, Options{Path: path, Exclusive: true})
	_, err := Open(t.Context(), Options{Path: path, Exclusive: true})
	wantError(t, err, stepwell.CodeConflict, path, fmt.Sprintf("pid %d", os.Getpid()), "--server URL (or STEPWELL_SERVER); to work beside it: --data DIR")
	guest := open(t, Options{Path: path})
	if err := guest.PutRequest(t.Context(), store.Request{Execution: "x", Kind: "cancel"}); err != nil {
		t.Error(err)
	}
	if list, err := holder.TakeRequests(t.Context(), 1, 10); err != nil || len(list) != 1 {
		t.Error(list, err)
	}
	if err := holder.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, Options{Path: path, Exclusive: true})
}

// TestOpenTogether: many open a new database at the same time, and one of them migrates it.
func TestOpenTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	results := make(chan error)
	const n = 6
	for i := range n {
		go func() {
			s, err := Open(context.Background(), Options{Path: path, Exclusive: i == 0})
			if err == nil {
				err = s.PutRequest(context.Background(), store.Request{Execution: "x", Kind: "cancel"})
				err = errors.Join(err, s.Close())
			}
			results <- err
		}()
	}
	for range n {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

// TestFull: a disk that fills up refuses the commit as a whole, says so, and once there is space the
// same commit succeeds.
func TestFull(t *testing.T) {
	s := open(t, Options{Exclusive: true})
	begin(t, s, 1, `{"steps":[]}`)
	limit := func(pages int) {
		if _, err := s.write.conn.ExecContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
			t.Fatal(err)
		}
	}
	limit(1)
	big := []engine.StepRow{{Idx: 1, Output: make([]byte, 1<<20)}, {Idx: 2}}
	commit := []store.Commit{{Execution: 1, Version: 2, Log: []byte(`{"t":1,"e":[]}`), Steps: big}}
	for range 3 {
		wantError(t, s.Commit(t.Context(), commit), stepwell.CodeUnavailable, s.path, "disk is full", "free some space")
	}
	if x, err := s.Execution(t.Context(), "execution"); err != nil || x.Version != 1 {
		t.Errorf("version %+v, %v", x, err)
	}
	limit(1 << 30)
	if err := s.Commit(t.Context(), commit); err != nil {
		t.Error(err)
	}
}

func TestDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	for no := range int64(50) {
		begin(t, s, no+1, `{"steps":[]}`)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096 * 2; i < len(raw); i++ {
		raw[i] ^= 0x5a
	}
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	s, err = Open(t.Context(), Options{Path: path})
	if err == nil {
		defer s.Close()
		_, err = s.Executions(t.Context(), store.Filter{})
	}
	wantError(t, err, stepwell.CodeInternal, path, "damaged", ".recover")
}

// TestExclusiveAfterDeath: a dead process's id in the lock file is no claim.
func TestExclusiveAfterDeath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	if err := os.WriteFile(path+".lock", []byte("4242\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	open(t, Options{Path: path})
	open(t, Options{Path: path, Exclusive: true})
	_, err := Open(t.Context(), Options{Path: path, Exclusive: true})
	wantError(t, err, stepwell.CodeConflict, fmt.Sprintf("pid %d", os.Getpid()))
}

// A migration of a large database may take longer than we wait for another process.
func TestMigrationTakesItsTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := openWriterDB(path, "normal")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := (&Store{path: path}).migrate(t.Context(), db, slog.New(slog.DiscardHandler), time.Nanosecond); err != nil {
		t.Fatal(err)
	}
	if have, want, err := version(t.Context(), db); err != nil || have != want {
		t.Errorf("version %d of %d: %v", have, want, err)
	}
}

// TestMigrationNumbers: each migration has a number of its own, without gaps, and sets it. That of the views (views.go) is
// no file.
func TestMigrationNumbers(t *testing.T) {
	files, err := migrationFiles.ReadDir("migrations")
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		raw, err := migrationFiles.ReadFile("migrations/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if i+1 >= viewsMigration {
			i++
		}
		if want := fmt.Sprintf("%05d_", i+1); !strings.HasPrefix(f.Name(), want) {
			t.Errorf("%s: the number is not %s", f.Name(), want)
		}
		if want := fmt.Sprintf("PRAGMA user_version = %d;", i+1); !strings.Contains(string(raw), want) {
			t.Errorf("%s does not say %s", f.Name(), want)
		}
	}
}
