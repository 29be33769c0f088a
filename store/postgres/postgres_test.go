package postgres

import (
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stepwell/stepwell/store/postgres/postgrestest"
	"github.com/stepwell/stepwell/store/storetest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// template is a database of this process's server that has been migrated once, for the others to be copied from.
var template struct {
	once sync.Once
	name string
	err  error
}

// fresh is the address of a migrated, empty database, which is dropped at the end of the test.
func fresh(t testing.TB) string {
	t.Helper()
	url := newDatabase(t)
	t.Cleanup(func() {
		if err := postgrestest.Drop(url); err != nil {
			t.Log(err)
		}
	})
	return url
}

// newDatabase is the address of a migrated, empty database.
func newDatabase(t testing.TB) string {
	t.Helper()
	server := postgrestest.URL(t)
	template.once.Do(func() {
		var address string
		if address, template.err = postgrestest.Create(server, ""); template.err != nil {
			return
		}
		var s *Store
		if s, template.err = Open(t.Context(), Options{URL: address}); template.err == nil {
			template.err = s.Close()
		}
		template.name = databaseOf(address)
	})
	if template.err != nil {
		t.Fatal(template.err)
	}
	url, err := postgrestest.Create(server, template.name)
	if err != nil {
		t.Fatal(err)
	}
	return url
}

func databaseOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(u.Path, "/")
}

func open(t testing.TB, o Options) *Store {
	t.Helper()
	if o.URL == "" {
		o.URL = fresh(t)
	}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// used are databases of tests that have ended, emptied: making one takes much longer than emptying it.
var used struct {
	sync.Mutex
	urls []string
}

// place is the address of an empty database for a test.
func place(t *testing.T) string {
	t.Helper()
	used.Lock()
	defer used.Unlock()
	url := ""
	if n := len(used.urls); n > 0 {
		url, used.urls = used.urls[n-1], used.urls[:n-1]
	} else {
		url = newDatabase(t)
	}
	t.Cleanup(func() {
		if err := postgrestest.Exec(url, empty); err != nil {
			t.Error(err)
			return
		}
		used.Lock()
		defer used.Unlock()
		used.urls = append(used.urls, url)
	})
	return url
}

// empty removes all rows but those of a new database.
const empty = `DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname NOT IN ('goose_db_version', 'goose_lock', 'identity', 'slot')
    LOOP
        EXECUTE 'DELETE FROM ' || name;
    END LOOP;
    FOR name IN SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind = 'S' AND c.relname NOT LIKE 'goose%'
    LOOP
        EXECUTE 'ALTER SEQUENCE ' || name || ' RESTART';
    END LOOP;
    INSERT INTO counter (name, next) VALUES ('execution', 1);
END $$`

// opener opens one database for each place.
func opener(parameters string) storetest.Open {
	var mu sync.Mutex
	urls := map[string]string{}
	return func(t *testing.T, at string) storetest.Store {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if urls[at] == "" {
			urls[at] = place(t)
		}
		s, err := Open(t.Context(), Options{URL: urls[at] + parameters})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func TestStore(t *testing.T) {
	postgrestest.URL(t)
	storetest.Run(t, opener(""))
}

// TestStoreBehindPooler has no prepared statements and no parameters of the session, as behind a pooler in transaction mode.
func TestStoreBehindPooler(t *testing.T) {
	if testing.Short() {
		t.Skip("short: TestStore has the same goroutines")
	}
	postgrestest.URL(t)
	storetest.Run(t, opener("&default_query_exec_mode=exec"))
}
