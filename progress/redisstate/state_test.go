package redisstate_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell/progress"
	"github.com/stepwell/stepwell/progress/redisstate"
	"github.com/stepwell/stepwell/proxytest"
	"github.com/stepwell/stepwell/redistest"
	"github.com/stepwell/stepwell/store"
)

func TestStateUsesDB1(t *testing.T) {
	r := newRig(t, redistest.Address(t), nil)
	name := r.project("", 3)
	r.want("in database 1", r.do("EXISTS", "smap:proj:"+name), "1")
	zero, err := redistest.Do(r.address, "EXISTS", "smap:proj:"+name)
	r.must(err)
	r.want("in database 0", zero, "0")
}

// TestCacheEvictionLeavesState: keys of database 0 that a cache marks as evictable go, and the state, which other programs' LRU may
// reach because Redis evicts by server, is warned of and written again.
func TestCacheEvictionLeavesState(t *testing.T) {
	s := redistest.New(t, "--maxmemory", "4mb", "--maxmemory-policy", "allkeys-lru")
	r := newRig(t, s.Address(), nil)
	r.until("it has warned", func() bool { return r.log.count("maxmemory-policy=allkeys-lru") == 1 })
	var names []string
	for i := range 50 {
		names = append(names, r.project(strconv.Itoa(i), 10))
	}
	value := strings.Repeat("x", 10_000)
	for i := range 600 {
		_, err := redistest.Do(r.address, "SET", fmt.Sprint("cache", i), value)
		r.must(err)
	}
	for _, name := range names {
		p, err := r.Read(r.Context(), name)
		r.must(err)
		r.want(name, line(p.Status, p.Total), "PROCESSING 10")
		r.want("after", r.add(name, 1, 0).Done, int64(1))
	}
	info, err := redistest.Do(r.address, "INFO", "stats")
	r.must(err)
	if strings.Contains(info, "evicted_keys:0\r") {
		t.Error("nothing was evicted, so the test shows nothing")
	}
}

func TestNoWarningForNoeviction(t *testing.T) {
	r := newRig(t, redistest.New(t).Address(), nil)
	r.project("", 1)
	r.until("it is connected", func() bool { return r.log.count("has the progress of all projects") > 0 })
	r.want("warnings", r.log.count("maxmemory-policy"), 0)
}

func TestOwnPool(t *testing.T) {
	r := newRig(t, redistest.New(t).Address(), nil)
	r.project("", 1)
	other, err := redisstate.Open(func() redisstate.Options { o := quick(r.address, r.log); o.DB = -1; return o }())
	r.must(err)
	if _, err := other.Connected(t.Context()); err != nil {
		t.Fatal(err)
	}
	clients := func() (list []string) {
		for line := range strings.Lines(r.do("CLIENT", "LIST")) {
			if strings.Contains(line, "name=stepwell-state") {
				list = append(list, line[strings.Index(line, " db="):strings.Index(line, " sub=")])
			}
		}
		slices.Sort(list)
		return list
	}
	r.want("connections", fmt.Sprint(clients()), "[ db=0  db=1]")
	r.must(other.Close())
	r.want("after the end of one", r.add(r.Name(), 1, 0).StateErr, nil)
	r.want("connections", fmt.Sprint(clients()), "[ db=1]")
}

func TestCreateWritesHash(t *testing.T) {
	r := newRig(t, redistest.Address(t), nil)
	for range 2 {
		p, err := r.Create(t.Context(), t.Name())
		r.must(err)
		r.want("created", p.Status, store.ProjectInitializing)
	}
	fields := strings.Split(r.do("HGETALL", "smap:proj:"+t.Name()), "\n")
	pairs := []string{}
	for i := 0; i < len(fields); i += 2 {
		pairs = append(pairs, fields[i]+"="+fields[i+1])
	}
	slices.Sort(pairs)
	r.want("hash", strings.Join(pairs, " "), "done=0 errors=0 status=INITIALIZING total=0")
	ttl, _ := strconv.Atoi(r.do("TTL", "smap:proj:"+t.Name()))
	if ttl < 604_700 || ttl > 604_800 {
		t.Errorf("it lives %d s", ttl)
	}
}

// TestDeleted: what is deleted is gone from the server, also if that was away, and begins anew with another epoch.
func TestDeleted(t *testing.T) {
	server := redistest.Address(t)
	proxy := proxytest.New(t, server)
	r := newRig(t, proxy.Address(), nil)
	r.address = server // for do
	name := r.project("", 3)
	r.add(name, 1, 0)
	r.must(r.Delete(t.Context(), name))
	r.want("hash", r.do("EXISTS", "smap:proj:"+name), "0")
	p, err := r.Read(t.Context(), name)
	r.must(err)
	r.want("deleted", p.Status, progress.NotFound)
	r.project("", 3)
	r.want("anew", r.hash(name), "PROCESSING 3 0 0")
	r.add(name, 1, 0)
	proxy.Refuse(true)
	proxy.Cut()
	r.must(r.Delete(t.Context(), name))
	r.want("while it is unavailable", r.hash(name), "PROCESSING 3 1 0")
	proxy.Refuse(false)
	r.until("it is deleted at its return", func() bool { return r.do("EXISTS", "smap:proj:"+name) == "0" })
}

// TestPublish: an event goes to a stream, or to whoever follows the channel.
func TestPublish(t *testing.T) {
	r := newRig(t, redistest.New(t).Address(), nil)
	r.must(r.state.Publish(t.Context(), true, "p", []byte(`{"event_id":"1"}`)))
	r.must(r.state.Publish(t.Context(), false, "p", []byte(`{}`)))
	r.want("stream", strings.Contains(r.do("XRANGE", redisstate.Events, "-", "+"), `{"event_id":"1"}`), true)
}

// TestFieldsChangeTogether: whoever reads sees all fields of a change or none.
func TestFieldsChangeTogether(t *testing.T) {
	r := newRig(t, redistest.Address(t), nil)
	name := r.project("", 1_000_000)
	stop := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			out, err := redistest.Do(r.address, "1/HMGET", "smap:proj:"+name, "done", "errors")
			done, errors, _ := strings.Cut(out, "\n")
			if err != nil || done != errors {
				t.Errorf("done %s, errors %s, %v", done, errors, err)
				return
			}
		}
	})
	for range 50 {
		r.add(name, 3, 3)
	}
	close(stop)
	reading.Wait()
	r.want("hash", r.hash(name), "PROCESSING 1000000 150 150")
}

func TestTTLRefreshed(t *testing.T) {
	r := newRig(t, redistest.Address(t), nil)
	name := r.project("", 10)
	ttl := func() int {
		n, _ := strconv.Atoi(r.do("TTL", "smap:proj:"+name))
		return n
	}
	short := func() { r.do("EXPIRE", "smap:proj:"+name, "1000") }
	short()
	r.add(name, 1, 0)
	r.want("after a count", ttl() > 604_000, true)
	short()
	_, err := r.SetStatus(t.Context(), name, "CRAWLING")
	r.must(err)
	r.want("after a status", ttl() > 604_000, true)
	short()
	r.do("HINCRBY", "smap:proj:"+name, "done", "1")
	r.until("another program's count has refreshed it", func() bool { return ttl() > 604_000 })
	r.until("what nobody touches is not refreshed", func() bool { // once the store has the other program's count too
		short()
		time.Sleep(50 * time.Millisecond) // some comparisons
		return ttl() <= 1000
	})
}

func TestDone(t *testing.T) { both(t, testDone) }

func testDone(t *testing.T, r *rig) {
	name := r.project("", 10)
	p := r.add(name, 1, 0)
	r.want("answer", line(p.Done, p.Errors, p.Percent, p.Source), "1 0 10 "+r.source())
	r.want("hash", r.hash(name), "PROCESSING 10 1 0")
}

func TestErrorCountsBoth(t *testing.T) { both(t, testErrorCountsBoth) }

func testErrorCountsBoth(t *testing.T, r *rig) {
	name := r.project("", 10)
	r.add(name, 1, 1)
	r.want("hash", r.hash(name), "PROCESSING 10 1 1")
	_, err := r.Add(t.Context(), store.Count{Project: name, Errors: 1}, "")
	if err == nil {
		t.Error("an error without its item is counted")
	}
}

func TestHundredWorkers(t *testing.T) { both(t, testHundredWorkers) }

func testHundredWorkers(t *testing.T, r *rig) {
	name := r.project("", 1000)
	other := newRig(t, r.address, nil, r)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() { []*rig{r, other}[i%2].add(name, 1, 0) })
	}
	all.Wait()
	r.want("hash", r.hash(name), "PROCESSING 1000 100 0")
}

func TestFinishLine(t *testing.T) { both(t, testFinishLine) }

func testFinishLine(t *testing.T, r *rig) {
	name := r.project("", 3)
	r.want("before", r.add(name, 2, 1).Completed, false)
	p := r.add(name, 1, 0)
	r.want("at the line", line(p.Completed, p.Status, p.Percent), "true DONE 100")
	p = r.add(name, 1, 0)
	r.want("behind it", line(p.Completed, p.Status, p.Percent), "false DONE 100")
	r.want("events", r.events(), 1)
	p, err := r.SetStatus(t.Context(), name, "PROCESSING")
	r.must(err)
	r.want("out of DONE", p.Status, "DONE")
	r.want("hash", r.hash(name), "DONE 3 4 1")
}

// TestThousandProjectsOneEventEach has 100 workers of two processes count 100,000 items of 1,000 projects.
func TestThousandProjectsOneEventEach(t *testing.T) {
	r := newRig(t, redistest.New(t).Address(), nil)
	other := newRig(t, r.address, nil, r)
	const projects, workers = 1000, 100
	var making sync.WaitGroup
	for i := range workers {
		making.Go(func() {
			for j := i; j < projects; j += workers {
				r.project(strconv.Itoa(j), workers)
			}
		})
	}
	making.Wait()
	var completed atomic.Int64
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			x := []*rig{r, other}[i%2]
			var some sync.WaitGroup
			for j := range projects {
				some.Go(func() {
					if x.add(r.name(strconv.Itoa(j)), 1, 0).Completed {
						completed.Add(1)
					}
				})
			}
			some.Wait()
		})
	}
	all.Wait()
	r.want("callers that were told", completed.Load(), int64(projects))
	r.want("events", r.events(), projects)
	for j := range projects {
		r.want("hash", r.hash(r.name(strconv.Itoa(j))), "DONE 100 100 0")
	}
}

func TestTotalAfterItems(t *testing.T) { both(t, testTotalAfterItems) }

func testTotalAfterItems(t *testing.T, r *rig) {
	_, err := r.Create(t.Context(), t.Name())
	r.must(err)
	_, err = r.SetStatus(t.Context(), t.Name(), store.ProjectCrawling)
	r.must(err)
	r.add(t.Name(), 5, 0)
	p, err := r.SetTotal(t.Context(), t.Name(), 5)
	r.must(err)
	r.want("while crawling", line(p.Status, p.Completed), "CRAWLING false")
	r.want("hash", r.hash(t.Name()), "CRAWLING 5 5 0")
	p, err = r.FinishDiscovery(t.Context(), t.Name(), 5)
	r.must(err)
	r.want("discovered", line(p.Status, p.Completed), "DONE true")
	r.want("events", r.events(), 1)
}

func TestPercentNever101(t *testing.T) { both(t, testPercentNever101) }

func testPercentNever101(t *testing.T, r *rig) {
	name := r.project("", 3)
	for want, last := []float64{33.33, 66.66, 100, 100}, 0; last < 4; last++ {
		r.want("counted", r.add(name, 1, 0).Percent, want[last])
		p, err := r.Read(t.Context(), name)
		r.must(err)
		r.want("read", p.Percent, want[last])
	}
	if r.state == nil {
		return
	}
	r.do("HINCRBY", "smap:proj:"+name, "done", "900")
	p, err := r.Read(t.Context(), name)
	r.must(err)
	r.want("read", line(p.Percent, p.Source), "100 redis")
}

func TestUnknownIsNotCreated(t *testing.T) { both(t, testUnknownIsNotCreated) }

func testUnknownIsNotCreated(t *testing.T, r *rig) {
	p, err := r.Read(t.Context(), t.Name())
	r.must(err)
	r.want("read", line(p.Status, p.Percent), "NOT_FOUND 0")
	for _, f := range []func() (progress.Progress, error){
		func() (progress.Progress, error) {
			return r.Add(t.Context(), store.Count{Project: t.Name(), Done: 1}, "")
		},
		func() (progress.Progress, error) { return r.SetTotal(t.Context(), t.Name(), 1) },
		func() (progress.Progress, error) { return r.Reset(t.Context(), t.Name()) },
	} {
		if p, err := f(); err == nil || p.Status != progress.NotFound {
			t.Errorf("%+v, %v", p, err)
		}
	}
	list, err := r.store.Progress(t.Context(), []string{t.Name()})
	r.must(err)
	r.want("in the database", len(list), 0)
	if r.state != nil {
		r.want("in Redis", r.do("EXISTS", "smap:proj:"+t.Name()), "0")
	}
}

// TestThousandPollers: all are answered by Redis. The time is logged only: a busy machine is no fault.
func TestThousandPollers(t *testing.T) {
	r := newRig(t, redistest.Address(t), func(o *redisstate.Options, _ *progress.Options) { o.Timeout = time.Minute })
	name := r.project("", 100)
	r.add(name, 42, 1)
	const pollers, polls = 1000, 3
	took := make([]time.Duration, pollers*polls)
	var all sync.WaitGroup
	for i := range pollers {
		all.Go(func() {
			for j := range polls {
				begun := time.Now()
				p, err := r.Read(t.Context(), name)
				took[i*polls+j] = time.Since(begun)
				if err != nil || p.Source != "redis" || p.Percent != 42 {
					t.Errorf("%+v, %v", p, err)
				}
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	t.Logf("p50 %v, p99 %v of %d reads at once", took[len(took)/2], took[len(took)*99/100], pollers)
}

// TestForeignCountsAddUp: counts of other programs and ours add up, however often they are compared, and finish.
func TestForeignCountsAddUp(t *testing.T) {
	r := newRig(t, redistest.Address(t), nil)
	name := r.project("", 300)
	other := newRig(t, r.address, nil, r)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() { r.add(name, 1, 0) })
		all.Go(func() { other.add(name, 1, 1) })
		all.Go(func() { r.do("HINCRBY", "smap:proj:"+name, "done", "1") })
	}
	all.Wait()
	r.until("it has finished", func() bool { return r.events() == 1 })
	r.until("the store has all", func() bool {
		list, err := r.store.Progress(t.Context(), []string{name})
		return err == nil && line(list[0].Done, list[0].Errors, list[0].OtherDone, list[0].Status) == "300 100 100 DONE"
	})
	r.until("Redis has all", func() bool { return r.hash(name) == "DONE 300 300 100" })
	r.want("events", r.events(), 1)
}

func TestResetBeginsAnew(t *testing.T) {
	r := newRig(t, redistest.Address(t), nil)
	name := r.project("", 2)
	r.do("HINCRBY", "smap:proj:"+name, "done", "1")
	r.add(name, 1, 0)
	r.until("it has finished", func() bool { return r.events() == 1 }) // by the count, or by a comparison at the same moment
	_, err := r.Reset(t.Context(), name)
	r.must(err)
	r.want("hash", r.hash(name), "INITIALIZING 0 0 0")
	_, err = r.FinishDiscovery(t.Context(), name, 1)
	r.must(err)
	r.want("finished again", r.add(name, 1, 0).Completed, true)
	r.want("events", r.events(), 2)
}

// TestCommitsReachRedis: counts of commits are in Redis soon after the tracker has heard of them.
func TestCommitsReachRedis(t *testing.T) {
	r := newRig(t, redistest.Address(t), nil)
	name := r.project("", 10)
	_, err := r.store.ChangeProgress(t.Context(), []store.ProgressChange{{Count: store.Count{Project: name, Done: 4}}})
	r.must(err)
	r.Counted([]store.Count{{Project: name, Done: 4}})
	r.until("Redis has it", func() bool { return r.hash(name) == "PROCESSING 10 4 0" })
}
