package postgres

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

func first(no int64) store.Commit {
	return store.Commit{Execution: no, Version: 1, Log: []byte(`{"t":1,"e":[],"q":[[0,1]]}`), Outbox: outbox(no, 1),
		Create: &store.Execution{No: no, ID: fmt.Sprintf("execution-%06d", no), Pipeline: "p", Definition: []byte("hash"), Trigger: "manual", Status: stepwell.ExecutionRunning, Created: time.UnixMicro(1)}}
}

// outbox is one entry that names its commit.
func outbox(no, version int64) []store.Outgoing {
	return []store.Outgoing{{Kind: "version", Execution: fmt.Sprintf("%d/%d", no, version)}}
}

// next is a later version with some rows, one of which replaces one of before.
func next(no, version int64, more string) store.Commit {
	row := func(idx int32, again bool) engine.StepRow {
		return engine.StepRow{Idx: idx, Seq: int32(version), Status: stepwell.StepCompleted, Attempt: 1, Key: fmt.Sprint("s:", idx), Output: []byte(`{}`), Again: again}
	}
	return store.Commit{Execution: no, Version: version, Log: fmt.Appendf(nil, `{"t":%d,"e":[],"x":"%s"}`, version, more), Outbox: outbox(no, version),
		Steps: []engine.StepRow{row(0, version > 2), row(int32(version)*2, false), row(int32(version)*2+1, false)}}
}

// ended is the version that ends an execution.
func ended(no, version int64) store.Commit {
	c := next(no, version, "end")
	c.Update = &store.Update{Status: stepwell.ExecutionCompleted, Ended: version}
	return c
}

// commit calls until the store takes it, as the conductor does.
func commit(t testing.TB, s *Store, commits ...store.Commit) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		err := s.Commit(t.Context(), commits)
		if err == nil {
			return
		}
		if !store.IsAway(err) || time.Now().After(end) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// checkBooks holds what the database has of an execution against its versions: each once, with all that belongs to it.
func checkBooks(t testing.TB, s *Store, no, versions int64, isEnded bool) {
	t.Helper()
	count := func(query string) (n int64) {
		t.Helper()
		if err := s.pool.QueryRow(t.Context(), query, no).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	live, past := int64(1), int64(0)
	if isEnded {
		live, past = 0, 1
	}
	rows := int64(0)
	if versions > 1 {
		rows = 2*(versions-1) + 1
	}
	for query, want := range map[string]int64{
		"SELECT count(*) FROM step_log WHERE execution = $1":                                        versions,
		"SELECT coalesce(max(version), 0) FROM step_log WHERE execution = $1":                       versions,
		"SELECT count(*) FROM step WHERE execution = $1":                                            rows,
		"SELECT coalesce(max(seq), 0) FROM step WHERE execution = $1 AND idx = 0":                   max(versions*min(versions-1, 1), 0),
		"SELECT count(*) FROM execution_live WHERE no = $1":                                         live,
		"SELECT count(*) FROM execution_past WHERE no = $1":                                         past,
		"SELECT count(*) FROM outgoing WHERE execution LIKE $1::bigint || '/%'":                     versions,
		"SELECT count(DISTINCT execution) FROM outgoing WHERE execution LIKE $1::bigint || '/%'":    versions,
		"SELECT count(*) FROM start_key WHERE execution = $1":                                       0,
		"SELECT count(*) FROM step_log WHERE execution = $1 AND version = 1 AND queued = '[[0,1]]'": min(versions, 1),
	} {
		if got := count(query); got != want {
			t.Errorf("execution %d with %d versions: %s is %d, want %d", no, versions, query, got, want)
		}
	}
}

// throughProxy opens a database behind a proxy that cuts the connection of commits.
func throughProxy(t *testing.T, only string) (*Store, *postgrestest.Proxy) {
	t.Helper()
	address := fresh(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	p := postgrestest.NewProxy(t, u.Host, only)
	return open(t, Options{URL: p.URL(t, address)}), p
}

// TestCutConnection: whatever the moment at which the connection of a commit ends, the commit is made once.
func TestCutConnection(t *testing.T) {
	s, p := throughProxy(t, "enable_seqscan")
	commit(t, s, first(1), first(2))
	version, faults := int64(1), 0
	for _, f := range []postgrestest.Fault{postgrestest.CutRequest, postgrestest.CutBetween, postgrestest.CutAnswer} {
		for n := 1; n <= 4; n++ { // statements are prepared by requests of their own
			version++
			p.Next(f, n)
			commit(t, s, next(1, version, ""), next(2, version, ""))
			for p.Happened() == faults { // not within the requests of this commit
				version++
				commit(t, s, next(1, version, ""), next(2, version, ""))
			}
			faults++
		}
	}
	p.Next(postgrestest.CutAnswer, 1)
	commit(t, s, ended(1, version+1), next(2, version+1, ""), first(3))
	checkBooks(t, s, 1, version+1, true)
	checkBooks(t, s, 2, version+1, false)
	checkBooks(t, s, 3, 1, false)
	if p.Happened() != faults+1 {
		t.Errorf("%d faults, want %d", p.Happened(), faults+1)
	}
}

// TestSilentServer: a server that says nothing is taken for lost, and the commit is found on a new connection.
func TestSilentServer(t *testing.T) {
	s, p := throughProxy(t, "enable_seqscan")
	commit(t, s, first(1))
	commit(t, s, next(1, 2, ""))
	s.commits.link.deadline = 2 * time.Second
	p.Next(postgrestest.MuteAnswer, 1)
	if err := s.Commit(t.Context(), []store.Commit{next(1, 3, "")}); err != nil {
		t.Fatal(err)
	}
	checkBooks(t, s, 1, 3, false)
	if p.Happened() != 1 {
		t.Error("it has said everything")
	}
}

// TestUnknownOutcome: a commit whose answer is lost while the server cannot be reached is CodeUnavailable; the same call
// tells later that it was made, also when the execution has gone on nowhere else.
func TestUnknownOutcome(t *testing.T) {
	for _, f := range []postgrestest.Fault{postgrestest.CutRequest, postgrestest.CutAnswer} {
		s, p := throughProxy(t, "enable_seqscan")
		commit(t, s, first(1))
		commit(t, s, next(1, 2, ""))
		p.Next(f, 1)
		p.Refuse(true)
		if err := s.Commit(t.Context(), []store.Commit{next(1, 3, "")}); !store.IsAway(err) {
			t.Fatalf("error %v, want one that may pass", err)
		}
		p.Refuse(false)
		if err := s.Commit(t.Context(), []store.Commit{next(1, 3, "")}); err != nil {
			t.Fatal(err)
		}
		checkBooks(t, s, 1, 3, false)
	}
}

// TestUnknownOutcomeLost: what another process has written instead is no success.
func TestUnknownOutcomeLost(t *testing.T) {
	s, p := throughProxy(t, "enable_seqscan")
	commit(t, s, first(1))
	p.Next(postgrestest.CutRequest, 1)
	p.Refuse(true)
	if err := s.Commit(t.Context(), []store.Commit{next(1, 2, "mine")}); !store.IsAway(err) {
		t.Fatalf("error %v, want one that may pass", err)
	}
	p.Refuse(false)
	other := open(t, Options{URL: s.o.URL})
	commit(t, other, next(1, 2, "theirs"))
	err := s.Commit(t.Context(), []store.Commit{next(1, 2, "mine")})
	if r, ok := errors.AsType[*store.RefusedError](err); !ok || r.Refusals[0].Why != store.VersionTaken {
		t.Fatalf("error %v, want a refusal", err)
	}
	checkBooks(t, s, 1, 2, false)
}

// TestLinesOverCuts: log lines are there once, in order, whatever the moment at which their connection ends.
func TestLinesOverCuts(t *testing.T) {
	s, p := throughProxy(t, "synchronous_commit")
	var want []string
	for i := range 12 {
		p.Next(postgrestest.Fault(1+i%3), 1+i%2)
		message := fmt.Sprint("line ", i)
		want = append(want, message)
		line := store.LogLine{Execution: 1, StepKey: "a", At: time.UnixMicro(int64(i + 1)), Level: "info", Message: message}
		err := s.AppendLogs(t.Context(), []store.LogLine{line})
		for ; store.IsAway(err); err = s.AppendLogs(t.Context(), []store.LogLine{line}) {
			time.Sleep(10 * time.Millisecond)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	lines, err := s.Logs(t.Context(), 1, store.LogFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, l := range lines {
		got = append(got, l.Message)
		if l.Seq != int64(i+1) {
			t.Errorf("line %d has the number %d", i, l.Seq)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || p.Happened() < 6 {
		t.Errorf("after %d faults:\n got %q\nwant %q", p.Happened(), got, want)
	}
}

// TestServerKilled: a server that is killed while several processes commit loses nothing that was said to be committed,
// and makes nothing twice.
func TestServerKilled(t *testing.T) {
	server := postgrestest.New(t)
	address := server.URL()
	const writers, rounds = 3, 3
	var versions [writers]int64
	stores := [writers]*Store{}
	for i := range stores {
		stores[i] = open(t, Options{URL: address})
		commit(t, stores[i], first(int64(i+1)))
	}
	stop, all := make(chan struct{}), sync.WaitGroup{}
	written := make(chan struct{}, 10_000)
	for i, s := range stores {
		all.Go(func() {
			for versions[i] = 1; ; versions[i]++ {
				select {
				case <-stop:
					return
				default:
				}
				commit(t, s, next(int64(i+1), versions[i]+1, ""))
				select {
				case written <- struct{}{}:
				default:
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range rounds {
		for range 20 + random.IntN(40) { // in the middle of writing
			<-written
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		for len(written) > 0 {
			<-written
		}
	}
	for range 10 {
		<-written
	}
	close(stop)
	all.Wait()
	for i, s := range stores {
		checkBooks(t, s, int64(i+1), versions[i], false)
	}
}

// TestStandbyLacksCommits: a process whose last commits a standby does not have, or has of somebody else, lets go of the
// execution.
func TestStandbyLacksCommits(t *testing.T) {
	server := postgrestest.New(t)
	s := open(t, Options{URL: server.URL()})
	commit(t, s, first(1), first(2), first(3))
	commit(t, s, next(1, 2, ""), next(2, 2, ""), next(3, 2, ""))
	copied, err := server.Copy()
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, next(1, 3, "lost"), next(2, 3, "lost"))
	if err := server.Replace(copied); err != nil {
		t.Fatal(err)
	}
	commit(t, open(t, Options{URL: server.URL()}), next(2, 3, "theirs"))
	refused := func(c store.Commit, why store.Why) {
		t.Helper()
		var err error
		for err = s.Commit(t.Context(), []store.Commit{c}); store.IsAway(err); err = s.Commit(t.Context(), []store.Commit{c}) {
			time.Sleep(10 * time.Millisecond)
		}
		if r, ok := errors.AsType[*store.RefusedError](err); !ok || r.Refusals[0].Why != why {
			t.Errorf("execution %d: %v, want a refusal for %d", c.Execution, err, why)
		}
	}
	refused(next(1, 4, ""), store.VersionGap)
	refused(next(2, 4, ""), store.VersionTaken)
	commit(t, s, next(3, 3, ""))
	checkBooks(t, s, 1, 2, false)
	checkBooks(t, s, 2, 3, false)
	checkBooks(t, s, 3, 3, false)
}

// TestUnreachable: a server that is not there is an error that may pass, soon.
func TestUnreachable(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := Open(ctx, Options{URL: "postgres://nobody@127.0.0.1:1/x?sslmode=disable&connect_timeout=2"})
	if stepwell.CodeOf(err) != stepwell.CodeUnavailable || stepwell.HintOf(err) == "" {
		t.Errorf("error %v with the hint %q", err, stepwell.HintOf(err))
	}
}

// TestStatementTimeout: a statement that the server cancels is an error that may pass, and the same call succeeds later.
func TestStatementTimeout(t *testing.T) {
	address := fresh(t)
	s := open(t, Options{URL: address + "&statement_timeout=100"})
	commit(t, s, first(1))
	other, err := open(t, Options{URL: address}).pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(t.Context(), `INSERT INTO step_log (execution, version, at, body) VALUES (1, 2, 1, '{}')`); err != nil {
		t.Fatal(err)
	}
	err = s.Commit(t.Context(), []store.Commit{next(1, 2, "")}) // it waits for the other's key
	if !store.IsAway(err) || stepwell.HintOf(err) == "" {
		t.Errorf("error %v with the hint %q", err, stepwell.HintOf(err))
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), []store.Commit{next(1, 2, "")}); err != nil {
		t.Fatal(err)
	}
	checkBooks(t, s, 1, 2, false)
}

// TestReadOnlyServer: a primary that has become a standby takes no writes for now.
func TestReadOnlyServer(t *testing.T) {
	address := fresh(t)
	s := open(t, Options{URL: address})
	commit(t, s, first(1))
	name := databaseOf(address)
	if err := postgrestest.Exec(address, "ALTER DATABASE "+name+" SET default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	s.commits.link.close() // the setting is for new connections
	if err := s.Commit(t.Context(), []store.Commit{next(1, 2, "")}); !store.IsAway(err) {
		t.Errorf("error %v, want one that may pass", err)
	}
	if err := postgrestest.Exec(postgrestest.URL(t), "ALTER DATABASE "+name+" RESET default_transaction_read_only"); err != nil {
		t.Fatal(err)
	}
	s.commits.link.close()
	commit(t, s, next(1, 2, ""))
	checkBooks(t, s, 1, 2, false)
}

// TestReadOnly: a store that was opened for reading writes nothing.
func TestReadOnly(t *testing.T) {
	address := fresh(t)
	commit(t, open(t, Options{URL: address}), first(1))
	s := open(t, Options{URL: address, ReadOnly: true})
	if x, err := s.Execution(t.Context(), "execution-000001"); err != nil || x.No != 1 {
		t.Errorf("%v, %v", x, err)
	}
	for name, err := range map[string]error{"commit": s.Commit(t.Context(), []store.Commit{next(1, 2, "")}), "request": s.PutRequest(t.Context(), store.Request{}),
		"lines": s.AppendLogs(t.Context(), []store.LogLine{{Level: "info"}}), "memo": s.PutMemo(t.Context(), store.Memo{})} {
		if stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(t.Context(), Options{URL: postgrestest.With(address, "nobody"), ReadOnly: true}); stepwell.CodeOf(err) != stepwell.CodeUnavailable {
		t.Errorf("a database that is not there: %v", err)
	}
}

// TestLargeCommit: what does not fit into one message is one transaction all the same.
func TestLargeCommit(t *testing.T) {
	if testing.Short() {
		t.Skip("80 MB")
	}
	s := open(t, Options{})
	commit(t, s, first(1))
	c := next(1, 2, "")
	output := append(append([]byte(`{"x":"`), bytes.Repeat([]byte("0123456789abcdef"), 1<<16)...), `"}`...)
	for i := range int32(80) {
		c.Steps = append(c.Steps, engine.StepRow{Idx: 100 + i, Seq: 100 + i, Status: stepwell.StepCompleted, Attempt: 1, Output: output})
	}
	sent := s.commits.link.statements
	commit(t, s, c)
	if n := s.commits.link.statements - sent; n < 4 { // the log, the outbox, and the steps in two
		t.Errorf("%d statements", n)
	}
	n := 0
	for r, err := range s.Outputs(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Idx >= 100 && bytes.Equal(r.Output, output) {
			n++
		}
	}
	if n != 80 {
		t.Errorf("%d outputs came back", n)
	}
	err := s.Commit(t.Context(), []store.Commit{c}) // and none of it is made twice
	if r, ok := errors.AsType[*store.RefusedError](err); !ok || r.Refusals[0].Why != store.VersionTaken {
		t.Errorf("the same once more: %v", err)
	}
}

// victim is the environment variable that makes the test binary the process to be killed.
const victim = "STEPWELL_TEST_COMMIT_TO"

// TestKill kills a process in the middle of its commits: every version that it has said to be committed is there, whole.
func TestKill(t *testing.T) {
	if address := os.Getenv(victim); address != "" {
		commitUntilKilled(t, address)
		return
	}
	address := fresh(t)
	s := open(t, Options{URL: address})
	commit(t, s, first(1))
	for round := range 3 {
		said := runVictim(t, address+"&application_name=victim", 10+round*37)
		for left := 1; left > 0; { // the server's processes for it end when they see that it has
			if err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'victim'`).Scan(&left); err != nil {
				t.Fatal(err)
			}
		}
		x, err := s.Execution(t.Context(), "execution-000001")
		if err != nil || x.Version < said {
			t.Errorf("version %d was committed, the last one there is %d, %v", said, x.Version, err)
		}
		checkBooks(t, s, 1, x.Version, false)
	}
}

// runVictim runs the process until it has said n versions, and returns the last that it said.
func runVictim(t *testing.T, address string, n int) (last int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
	cmd.Env, cmd.Stderr = append(os.Environ(), victim+"="+address), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if last, err = strconv.ParseInt(lines.Text(), 10, 64); err != nil {
			t.Errorf("it said %q", lines.Text())
		}
		if n--; n == 0 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || n > 0 {
		t.Fatalf("it ended by itself (%v) after %d", err, last)
	}
	return last
}

// commitUntilKilled goes on where the last victim was killed, and says each version once it is committed.
func commitUntilKilled(t *testing.T, address string) {
	s := open(t, Options{URL: address})
	x, err := s.Execution(t.Context(), "execution-000001")
	if err != nil {
		t.Fatal(err)
	}
	for version := x.Version + 1; version < 3000; version++ { // bounded, should nobody kill it
		err := s.Commit(t.Context(), []store.Commit{next(1, version, "")})
		if _, ok := errors.AsType[*store.RefusedError](err); ok { // the last victim's server process was committing it
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(version)
	}
}
