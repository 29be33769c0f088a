package redisstate_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/progress"
	"github.com/stepwell/stepwell/progress/redisstate"
	"github.com/stepwell/stepwell/proxytest"
	"github.com/stepwell/stepwell/redistest"
	"github.com/stepwell/stepwell/store"
)

// TestRetries124: four tries, 1, 2 and 4 seconds apart, then an error with the operation and the project. The clock is the bubble's.
func TestRetries124(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &lines{}
		o := quick("127.0.0.1:1", log) // nothing listens there
		o.Pauses = nil
		s, err := redisstate.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		_, err = s.Merge(t.Context(), "count items", []store.ProjectProgress{{ProjectState: store.ProjectState{Project: "p-7", Status: "PROCESSING"}}}, true)
		if took := time.Since(begun); took < 7*time.Second || took > 8*time.Second {
			t.Errorf("it took %v", took)
		}
		if stepwell.CodeOf(err) != stepwell.CodeUnavailable || !strings.Contains(err.Error(), "count items") || !strings.Contains(err.Error(), "p-7") || !strings.Contains(err.Error(), "4 tries") {
			t.Errorf("error %v", err)
		}
		if log.count("operation=\"count items\" project=p-7") != 1 {
			t.Errorf("log %s", log.buf.String())
		}
		begun = time.Now()
		if _, err := s.Merge(t.Context(), "set total", []store.ProjectProgress{{ProjectState: store.ProjectState{Project: "p-7"}}}, true); err == nil || time.Since(begun) > 0 {
			t.Errorf("a server that rests is asked: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestSQLAnswersAndRebuild: without Redis the database answers and counts, with one critical line; an empty Redis has everything
// again soon after it is back, and every project finishes once.
func TestSQLAnswersAndRebuild(t *testing.T) {
	s := redistest.New(t)
	r := newRig(t, s.Address(), nil)
	var names []string
	for i := range 30 {
		names = append(names, r.project(fmt.Sprint(i), 5))
		r.add(names[i], 2, 1)
	}
	r.must(s.Kill())
	p, err := r.Create(t.Context(), "made-meanwhile")
	r.must(err)
	if p.StateErr == nil || p.Source != "sql" {
		t.Errorf("%+v", p)
	}
	for _, name := range names {
		p, err := r.Read(t.Context(), name)
		r.must(err)
		r.want("read", line(p.Done, p.Errors, p.Percent, p.Source), "2 1 40 sql")
	}
	p = r.add(names[0], 3, 0)
	r.want("finished without Redis", line(p.Completed, p.Source, p.StateErr != nil), "true sql true")
	r.add(names[1], 1, 0)
	r.until("the outage is logged", func() bool { return r.log.count("level=ERROR+4") > 0 })
	r.must(s.Begin())
	r.until("Redis has all again", func() bool {
		return r.hash(names[1]) == "PROCESSING 5 3 1" && r.hash(names[29]) == "PROCESSING 5 2 1" && r.hash("made-meanwhile") == "INITIALIZING 0 0 0"
	})
	r.until("Redis answers", func() bool { p, err := r.Read(t.Context(), names[2]); return err == nil && p.Source == "redis" })
	for _, name := range names[1:] {
		r.add(name, 3, 0)
	}
	r.want("events", r.events(), 30)
	r.want("critical lines", r.log.count("level=ERROR+4"), 1)
}

// TestStartWithoutRedis: a process begins without a server and uses it once it is there.
func TestStartWithoutRedis(t *testing.T) {
	s := redistest.New(t)
	r0 := newRig(t, s.Address(), nil)
	name := r0.project("", 5)
	r0.must(s.Kill())
	r := newRig(t, s.Address(), nil, r0)
	p, err := r.Read(t.Context(), name)
	r.must(err)
	r.want("read", p.Source, "sql")
	r.must(s.Begin())
	r.until("Redis has it", func() bool { return r.hash(name) == "PROCESSING 5 0 0" })
}

// TestFlush: what is flushed between two counts is there again, and no event comes twice.
func TestFlush(t *testing.T) {
	// No comparison with the store, begun before the flush, may bring back what it read then: the reads and counts do it alone.
	r := newRig(t, redistest.New(t).Address(), func(_ *redisstate.Options, p *progress.Options) { p.Interval = time.Hour })
	name := r.project("", 3)
	r.add(name, 1, 0)
	r.do("FLUSHALL")
	p, err := r.Read(t.Context(), name)
	r.must(err)
	r.want("read", p.Done, int64(1))
	r.until("Redis has it again", func() bool { return r.hash(name) == "PROCESSING 3 1 0" })
	r.do("SCRIPT", "FLUSH")
	r.add(name, 2, 0)
	r.do("FLUSHALL")
	r.want("after the line", r.add(name, 1, 0).Completed, false)
	r.want("events", r.events(), 1)
	r.until("Redis has it again", func() bool { return r.hash(name) == "DONE 3 4 0" })
}

// TestHungRedis: a server that does not answer holds up no read for longer than its limit.
func TestHungRedis(t *testing.T) {
	proxy := proxytest.New(t, redistest.Address(t))
	r := newRig(t, proxy.Address(), func(o *redisstate.Options, p *progress.Options) {
		o.Timeout, p.ReadTimeout = 50*time.Millisecond, 20*time.Millisecond
	})
	name := r.name("")
	_, err := r.Create(t.Context(), name)
	r.must(err)
	proxy.Stall()
	for range 10 {
		p, err := r.Read(t.Context(), name)
		r.must(err)
		r.want("source", p.Source, "sql")
	}
	p := r.add(name, 1, 0)
	r.want("counted", line(p.Done, p.StateErr != nil), "1 true")
	proxy.Resume()
	proxy.Cut()
	r.until("Redis answers again", func() bool {
		p, err := r.Read(t.Context(), name)
		return err == nil && p.Source == "redis" && p.Done == 1
	})
}

// TestShutdownWithin5s: operations under way end, new ones are refused, and a server that hangs does not hold up the end.
func TestShutdownWithin5s(t *testing.T) {
	proxy := proxytest.New(t, redistest.Address(t))
	r := newRig(t, proxy.Address(), func(o *redisstate.Options, _ *progress.Options) {
		o.Timeout, o.Shutdown = time.Hour, 100*time.Millisecond
	})
	name := r.project("", 2)
	proxy.Stall()
	counted := make(chan error, 1)
	go func() {
		p, err := r.Add(t.Context(), store.Count{Project: name, Done: 2}, "")
		if err == nil && (!p.Completed || p.StateErr == nil) {
			err = fmt.Errorf("%+v", p)
		}
		counted <- err
	}()
	r.until("it is stored", func() bool { return r.events() == 1 })
	r.must(r.Close())
	r.must(<-counted)
	if _, err := r.Add(t.Context(), store.Count{Project: name, Done: 1}, ""); stepwell.CodeOf(err) != stepwell.CodeUnavailable {
		t.Errorf("after the end: %v", err)
	}
	if _, _, err := r.state.Load(t.Context(), name); stepwell.CodeOf(err) != stepwell.CodeUnavailable {
		t.Errorf("after the end: %v", err)
	}
}

// TestForeignType: a key of another type is told of with its project; the others go on.
func TestForeignType(t *testing.T) {
	r := newRig(t, redistest.Address(t), nil)
	r.do("SET", "smap:proj:"+r.name("bad"), "x")
	p, err := r.Create(t.Context(), r.name("bad"))
	r.must(err)
	if stepwell.CodeOf(p.StateErr) != stepwell.CodeInternal || !strings.Contains(p.StateErr.Error(), r.name("bad")) {
		t.Errorf("error %v", p.StateErr)
	}
	r.want("the other", r.add(r.project("good", 2), 1, 0).StateErr, nil)
	p, err = r.Read(t.Context(), r.name("bad"))
	r.must(err)
	r.want("read", p.Source, "sql")
}

func TestBadAddress(t *testing.T) {
	if _, err := redisstate.Open(redisstate.Options{URL: "http://x:secret@y"}); stepwell.CodeOf(err) != stepwell.CodeInvalid || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}
