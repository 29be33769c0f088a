package postgres

import (
	"context"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stepwell/stepwell/store"
)

// hear gives the topics that a store hears.
func hear(t *testing.T, s *Store) <-chan string {
	t.Helper()
	heard, ended := make(chan string, 100), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		s.Listen(ctx, func(topic string) { heard <- topic })
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return heard
}

// A process announces its changes to the others. After a lost connection these hear that anything may have changed.
func TestListen(t *testing.T) {
	a := open(t, Options{})
	b := open(t, Options{URL: a.o.URL})
	heard := hear(t, b)
	next := func(want ...string) {
		t.Helper()
		var got []string
		for range want {
			got = append(got, <-heard)
		}
		if !slices.Equal(got, want) {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
	next("")
	no, _, err := a.Join(t.Context(), "a", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	put := func(r store.Request) {
		t.Helper()
		if err := a.PutRequest(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	put(store.Request{Owner: no, Kind: "cancel"})
	put(store.Request{Kind: "cancel"})
	put(store.Request{Owner: no + 1, Kind: "cancel"}) // nobody is there for it
	if _, err := a.PutObjects(t.Context(), store.Object{Kind: "k", ID: "x", Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.PutObjects(t.Context(), store.Object{Kind: store.KindFirings, ID: "x", Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if err := a.DeleteObject(t.Context(), "k", "x", store.AnyRevision); err != nil {
		t.Fatal(err)
	}
	if err := a.Leave(t.Context(), no); err != nil {
		t.Fatal(err)
	}
	next("nodes", "requests", "requests", "objects", "objects", "nodes")
	if _, err := a.pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()`); err != nil {
		t.Fatal(err)
	}
	next("")
	put(store.Request{Kind: "cancel"})
	next("requests")
}

// Through a pooler nothing is heard unless an address that leads past it is named; "none" turns it off.
func TestListenURL(t *testing.T) {
	a := open(t, Options{})
	for _, c := range []struct {
		more  string
		hears bool
	}{{"&default_query_exec_mode=exec", false}, {"&listen_url=none", false}, {"&default_query_exec_mode=exec&listen_url=" + url.QueryEscape(a.o.URL), true}} {
		s := open(t, Options{URL: a.o.URL + c.more})
		if hears := s.listening != nil; hears != c.hears {
			t.Errorf("%s: listens %v", c.more, hears)
		}
		if !c.hears {
			s.Listen(t.Context(), func(string) { t.Error("something was heard") }) // returns
			continue
		}
		if topic := <-hear(t, s); topic != "" {
			t.Errorf("heard %q", topic)
		}
	}
}
