// Package postgrestest gives tests a PostgreSQL server of their own: the one that STEPWELL_TEST_POSTGRES names (a URL
// whose user may create databases), else one that it starts from the programs on PATH or in /usr/lib/postgresql.
//
// Stability: for this module's tests.
package postgrestest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// shared is the server of this test process, started by the first test that needs it.
var shared struct {
	once sync.Once
	url  string
	err  error
	own  *Server

	mu   sync.Mutex
	made []string // databases that are there
}

// Main runs a package's tests and stops the server that they have used, or drops their databases from one that is not
// theirs; it is for TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if shared.own != nil {
		shared.own.Stop()
	} else {
		for _, address := range slices.Clone(shared.made) {
			if err := Drop(address); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
	os.Exit(code)
}

// URL is the address of the process's server, without a database. A machine without one skips the test, or fails it
// where CI=true.
func URL(t testing.TB) string {
	t.Helper()
	shared.once.Do(func() {
		if shared.url = os.Getenv("STEPWELL_TEST_POSTGRES"); shared.url != "" {
			return
		}
		if shared.own, shared.err = Start(); shared.err == nil {
			shared.url = shared.own.URL()
		}
	})
	if shared.err != nil {
		missing(t, shared.err)
	}
	return shared.url
}

func missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// New starts a server for one test, which may kill it, with more settings.
func New(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := Start(settings...)
	if err != nil {
		missing(t, err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Create makes a database, a copy of the one named template ("": an empty one), and returns its address.
func Create(server, template string) (string, error) {
	name := prefix + strings.ToLower(rand.Text()[:16])
	query := "CREATE DATABASE " + name
	if template != "" {
		query += " TEMPLATE " + template
	}
	address := With(server, name)
	if err := Exec(server, query); err != nil {
		return "", err
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.made = append(shared.made, address)
	return address, nil
}

// prefix begins the names of the databases that tests make.
const prefix = "stepwell_test_"

// Drop removes a database that Create has made.
func Drop(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(u.Path, "/")
	if !strings.HasPrefix(name, prefix) {
		return fmt.Errorf("%s is not a database of a test", name)
	}
	shared.mu.Lock()
	shared.made = slices.DeleteFunc(shared.made, func(x string) bool { return x == address })
	shared.mu.Unlock()
	return Exec(With(address, "postgres"), "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
}

// With is the address of a database of a server.
func With(server, database string) string {
	u, err := url.Parse(server)
	if err != nil {
		panic(err) // it is this package's own, or has been used already
	}
	u.Path = "/" + database
	return u.String()
}

// Exec runs a statement on a connection of its own.
func Exec(address, query string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, query)
	if end := conn.Close(ctx); err == nil {
		err = end
	}
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	return nil
}
