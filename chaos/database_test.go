package chaos

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// TestReadsOutliveTheDatabase: queries and statements of a trial have their answer although the server was killed before them or is down, and an error of their own
// ends them at once.
func TestReadsOutliveTheDatabase(t *testing.T) {
	server := postgrestest.New(t)
	db, err := pgxpool.New(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	x := &trial{db: db}
	read1 := func() {
		t.Helper()
		if n, err := read(t.Context(), db, pgx.RowTo[int], "SELECT 1"); err != nil || len(n) != 1 || n[0] != 1 {
			t.Fatalf("%v: %v", n, err)
		}
	}
	read1()
	if err := server.Restart(); err != nil { // the pool's connection is one of the dead server
		t.Fatal(err)
	}
	read1()
	for _, do := range []func() error{
		func() error { read1(); return nil },
		func() error { return x.exec(t.Context(), "CREATE TABLE IF NOT EXISTS node (no int)") },
		func() error {
			tx, err := x.lock(t.Context(), "node")
			if err == nil {
				err = tx.Rollback(t.Context())
			}
			return err
		},
	} {
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		begun := make(chan error)
		time.AfterFunc(300*time.Millisecond, func() { begun <- server.Begin() })
		err := do()
		if err := errors.Join(<-begun, err); err != nil {
			t.Fatal(err)
		}
	}
	_, err = read(t.Context(), db, pgx.RowTo[int], "SELECT 1 FROM nothing")
	if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != "42P01" {
		t.Errorf("a query of a table that does not exist: %v", err)
	}
	if err := x.exec(t.Context(), "SELECT 1/0"); err == nil {
		t.Error("a division by zero succeeds")
	}
}
