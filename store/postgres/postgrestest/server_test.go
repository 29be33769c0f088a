package postgrestest

import "testing"

func TestMain(m *testing.M) { Main(m) }

// TestRestart: a server that was killed goes on with its data, on the same port.
func TestRestart(t *testing.T) {
	s := New(t)
	if err := Exec(s.URL(), "CREATE TABLE x (a int)"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		if err := Exec(s.URL(), "SELECT a FROM x"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDatabase: databases of one server have nothing in common.
func TestDatabase(t *testing.T) {
	server := URL(t)
	var addresses [2]string
	for i := range addresses {
		var err error
		if addresses[i], err = Create(server, ""); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := Drop(addresses[i]); err != nil {
				t.Error(err)
			}
		}()
	}
	if err := Exec(addresses[0], "CREATE TABLE x (a int)"); err != nil {
		t.Fatal(err)
	}
	if Exec(addresses[1], "SELECT a FROM x") == nil {
		t.Error("a table of another database is there")
	}
}
