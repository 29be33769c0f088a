package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

func object(id, name string, revision int64, body string) store.Object {
	return store.Object{Kind: "schedule", ID: id, Name: name, Revision: revision, Body: []byte(body)}
}

func (f *fixture) put(list ...store.Object) []store.Object {
	f.Helper()
	out, err := f.PutObjects(f.Context(), list...)
	f.must(err)
	return out
}

// refused checks that a change of objects is refused.
func (f *fixture) refused(code stepwell.Code, list ...store.Object) {
	f.Helper()
	_, err := f.PutObjects(f.Context(), list...)
	f.wantCode(err, code)
}

func (f *fixture) object(idOrName string) *store.Object {
	f.Helper()
	o, err := f.Object(f.Context(), "schedule", idOrName)
	f.must(err)
	return o
}

var objects = []promise{
	{"an object reads back by id and by name, with its revision and times", func(f *fixture) {
		before := time.Now().Add(-time.Second)
		made := f.put(object("s1", "nightly π", 0, `{"cron":"0 3 * * *"}`))[0]
		equal(f, "object", *f.object("s1"), made)
		equal(f, "by name", *f.object("nightly π"), made)
		equal(f, "content", []any{made.Kind, made.ID, made.Name, made.Revision, string(made.Body)}, []any{"schedule", "s1", "nightly π", 1, `{"cron":"0 3 * * *"}`})
		if made.Created.Before(before) || !made.Created.Equal(made.Updated) {
			f.Errorf("created %s, updated %s", made.Created, made.Updated)
		}
		for _, none := range []string{"s", "S1", "", "nightly", "%"} {
			_, err := f.Object(f.Context(), "schedule", none)
			f.wantCode(err, stepwell.CodeNotFound)
		}
		_, err := f.Object(f.Context(), "webhook", "s1")
		f.wantCode(err, stepwell.CodeNotFound)
	}},
	{"a change counts the revision, keeps the creation and may change the name", func(f *fixture) {
		made := f.put(object("s1", "one", 0, `1`))[0]
		changed := f.put(object("s1", "two", 1, `2`))[0]
		equal(f, "revision", changed.Revision, int64(2))
		equal(f, "creation", changed.Created, made.Created)
		equal(f, "object", *f.object("two"), changed)
		_, err := f.Object(f.Context(), "schedule", "one")
		f.wantCode(err, stepwell.CodeNotFound)
		f.put(object("s2", "one", 0, `3`)) // the name is free again
	}},
	{"a change that is meant for another revision is a conflict, or not found", func(f *fixture) {
		f.put(object("s1", "", 0, `1`))
		f.put(object("s1", "", 1, `2`))
		f.refused(stepwell.CodeConflict, object("s1", "", 1, `3`))
		f.refused(stepwell.CodeConflict, object("s1", "", 3, `3`))
		f.refused(stepwell.CodeConflict, object("s1", "", 0, `3`))
		f.refused(stepwell.CodeNotFound, object("s2", "", 1, `3`))
		f.refused(stepwell.CodeInvalid, object("", "", 0, `3`))
		equal(f, "object", string(f.object("s1").Body), "2")
	}},
	{"any revision is whatever is there, or nothing", func(f *fixture) {
		equal(f, "revision", f.put(object("s1", "", store.AnyRevision, `1`))[0].Revision, int64(1))
		equal(f, "revision", f.put(object("s1", "", store.AnyRevision, `2`))[0].Revision, int64(2))
	}},
	{"names are unique within a kind", func(f *fixture) {
		f.put(object("s1", "one", 0, `1`), object("s2", "two", 0, `2`), object("s3", "", 0, `3`), object("s4", "", 0, `4`))
		f.refused(stepwell.CodeConflict, object("s5", "one", 0, `5`))
		f.refused(stepwell.CodeConflict, object("s2", "one", 1, `5`))
		other := object("s1", "one", 0, `6`)
		other.Kind = "webhook"
		f.put(other)
		f.put(object("s1", "one", 1, `7`)) // its own name is no conflict
	}},
	{"all objects of a call are stored, or none", func(f *fixture) {
		f.put(object("s1", "", 0, `1`))
		f.refused(stepwell.CodeConflict, object("s2", "", 0, `2`), object("s1", "", 7, `2`))
		_, err := f.Object(f.Context(), "schedule", "s2")
		f.wantCode(err, stepwell.CodeNotFound)
		out := f.put(object("s1", "", 1, `2`), object("s2", "", 0, `2`), object("s2", "", 1, `3`))
		equal(f, "revisions", []int64{out[0].Revision, out[1].Revision, out[2].Revision}, []int64{2, 1, 2})
	}},
	{"an object is deleted at its revision", func(f *fixture) {
		f.put(object("s1", "one", 0, `1`), object("s2", "", 0, `1`))
		f.wantCode(f.DeleteObject(f.Context(), "schedule", "s1", 2), stepwell.CodeConflict)
		f.must(f.DeleteObject(f.Context(), "schedule", "s1", 1))
		f.must(f.DeleteObject(f.Context(), "schedule", "s2", store.AnyRevision))
		f.wantCode(f.DeleteObject(f.Context(), "schedule", "s1", 1), stepwell.CodeNotFound)
		f.wantCode(f.DeleteObject(f.Context(), "schedule", "s1", store.AnyRevision), stepwell.CodeNotFound)
		equal(f, "made anew", f.put(object("s1", "one", 0, `1`))[0].Revision, int64(1))
	}},
	{"objects are listed by id, by its beginning and in pages", func(f *fixture) {
		for i := range 25 {
			f.put(object(fmt.Sprintf("a/%03d", i), "", 0, `{}`))
		}
		f.put(object("a", "", 0, `{}`), object("a0", "", 0, `{}`), object("b/000", "", 0, `{}`))
		var got []string
		for after := ""; ; {
			page, err := f.Objects(f.Context(), store.ObjectFilter{Kind: "schedule", Prefix: "a/", After: after, Limit: 7})
			f.must(err)
			if len(page) == 0 {
				break
			}
			for _, o := range page {
				got = append(got, o.ID)
				after = o.ID
			}
		}
		equal(f, "number", len(got), 25)
		equal(f, "first and last", []string{got[0], got[24]}, []string{"a/000", "a/024"})
		all, err := f.Objects(f.Context(), store.ObjectFilter{Kind: "schedule"})
		f.must(err)
		equal(f, "all", len(all), 28)
		_, err = f.Objects(f.Context(), store.ObjectFilter{})
		f.wantCode(err, stepwell.CodeInvalid)
	}},
	{"of racing changes of one revision exactly one wins", func(f *fixture) {
		f.put(object("s1", "", 0, `0`))
		other := f.again()
		var all sync.WaitGroup
		won := make(chan int64, 100)
		for i := range 4 {
			s := []Store{f.Store, other}[i%2]
			all.Go(func() {
				for range 20 {
					now, err := s.Object(f.Context(), "schedule", "s1")
					if err != nil {
						f.Error(err)
						return
					}
					if out, err := s.PutObjects(f.Context(), object("s1", "", now.Revision, `1`)); err == nil {
						won <- out[0].Revision
					} else if stepwell.CodeOf(err) != stepwell.CodeConflict {
						f.Error(err)
					}
				}
			})
		}
		all.Wait()
		close(won)
		seen := map[int64]bool{}
		for revision := range won {
			if seen[revision] {
				f.Errorf("revision %d was won twice", revision)
			}
			seen[revision] = true
		}
		equal(f, "revision", f.object("s1").Revision, int64(len(seen)+1))
	}},
}
