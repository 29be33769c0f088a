package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/stepwell/stepwell/api"
)

// fullPipeline gives 200 KB, which is a blob of its own for each number, and reads it again.
const fullPipeline = `
name: full
parameters: [{name: n, type: integer}, {name: service, type: string}]
steps:
  - {id: fetch, action: util.http, params: {url: "{{ params.service }}/{{ params.n }}"}}
  - {id: done, action: util.set_output, depends_on: [fetch], params: {n: "{{ params.n }}", size: "{{ steps.fetch.outputs.body.text | length }}"}}
outputs: {n: "{{ steps.done.outputs.n }}", size: "{{ steps.done.outputs.size }}"}
`

const (
	fullExecutions = 200
	fullBefore     = 40 // that the service answers before the disk is full
	fullSize       = 200_000
)

// smallDisk mounts a file system of 64 MiB at a directory, which takes root. Under CI, root must be able to.
func smallDisk(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system takes root; conductor's TestBlobsComeBack has the same with blobs that refuse")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64m,mode=0700")
	if errors.Is(err, unix.EPERM) && os.Getenv("CI") != "true" {
		t.Skip("this root may not mount a file system")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// countingService answers each number with a text of its own, the first ones at once and the others once it is open.
type countingService struct {
	mu    sync.Mutex
	calls map[string]int
	open  chan struct{}
}

func (s *countingService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.calls[r.URL.Path]++
	wait := len(s.calls) > fullBefore
	s.mu.Unlock()
	if wait {
		select {
		case <-s.open:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"text":"%s"}`, (r.URL.Path + strings.Repeat("x", fullSize))[:fullSize])
}

// fill takes all room, and gives it back when it is told to.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for size := len(block); size > 0; {
		if _, err = f.Write(block[:size]); err != nil {
			size /= 2
		}
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

// readySample is one answer of the readiness, with when it was asked and answered.
type readySample struct {
	asked, answered time.Time
	status          int
	body            string
}

// sampler asks for the readiness again and again.
type sampler struct {
	mu   sync.Mutex
	list []readySample
}

func (s *sampler) run(t *testing.T, url string) {
	for t.Context().Err() == nil {
		one := readySample{asked: time.Now()}
		req, err := http.NewRequestWithContext(t.Context(), "GET", url+"/api/v1/ready", nil)
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return // the end of the test
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		one.answered, one.status, one.body = time.Now(), resp.StatusCode, string(body)
		s.mu.Lock()
		s.list = append(s.list, one)
		s.mu.Unlock()
		time.Sleep(5 * time.Millisecond)
	}
}

// between are the samples that were asked for and answered between two times.
func (s *sampler) between(from, to time.Time) (list []readySample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.list {
		if one.asked.After(from) && one.answered.Before(to) {
			list = append(list, one)
		}
	}
	return list
}

// A disk fills under 200 executions with large outputs and is freed again: the readiness says so from the first refusal
// until then, and every execution completes, each step in its first attempt and once.
func TestDiskFillsAndIsFreed(t *testing.T) {
	r := newCrashRig(t)
	disk := filepath.Join(r.dir, ".stepwell")
	smallDisk(t, disk)
	t.Cleanup(r.kill) // before the disk goes
	service := &countingService{calls: map[string]int{}, open: make(chan struct{})}
	web := httptest.NewServer(service)
	t.Cleanup(web.Close)
	r.start()
	var samples sampler
	sampling := make(chan struct{})
	go func() { defer close(sampling); samples.run(t, "http://"+r.address) }()
	t.Cleanup(func() { <-sampling })
	begun := time.Now()

	if err := r.client.Call(t.Context(), "POST", "/api/v1/pipelines", nil, object{"document": fullPipeline}, nil); err != nil {
		t.Fatal(err)
	}
	ids := make([]string, fullExecutions)
	var g errgroup.Group
	g.SetLimit(16)
	for n := range ids {
		g.Go(func() error {
			answer, err := r.client.Execute(t.Context(), api.ExecuteRequest{Workflow: "full", Params: api.Object{"n": n, "service": web.URL}}, fmt.Sprint("full-", n))
			ids[n] = answer.ID
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	r.until("the first ones", func() bool { return r.count("completed") == fullBefore })

	free := fill(t, disk)
	filled := time.Now()
	close(service.open)
	away := func() int {
		n := 0
		for _, s := range samples.between(filled, time.Now()) {
			if s.status == http.StatusServiceUnavailable {
				n++
			}
		}
		return n
	}
	r.until("the readiness", func() bool { return away() >= 50 })
	if r.count("running") == 0 {
		t.Error("executions cannot be looked at while the disk is full")
	}
	freed := time.Now()
	free()

	r.until("the ends", func() bool { return r.count("completed") == fullExecutions })
	ended := time.Now()
	r.until("the readiness", func() bool { return len(samples.between(ended, time.Now())) > 3 })

	for _, s := range append(samples.between(begun, filled), samples.between(ended, time.Now())...) {
		if s.status != http.StatusOK {
			t.Errorf("while there was room the readiness was %d %s", s.status, s.body)
		}
	}
	refused := false
	for _, s := range samples.between(filled, freed) {
		if refused = refused || s.status != http.StatusOK; refused && (s.status != http.StatusServiceUnavailable || !strings.Contains(s.body, "the disk is full")) {
			t.Errorf("while the disk was full the readiness was %d %s", s.status, s.body)
		}
	}
	service.mu.Lock()
	defer service.mu.Unlock()
	for n, id := range ids {
		if calls := service.calls[fmt.Sprint("/", n)]; calls != 1 {
			t.Errorf("the service was asked %d times for %d", calls, n)
		}
		var x struct {
			Result struct{ N, Size int }
		}
		if err := r.client.Call(t.Context(), "GET", pathTo("executions", id), nil, nil, &x); err != nil || x.Result.N != n || x.Result.Size != fullSize {
			t.Errorf("execution %d: %+v, %v", n, x, err)
		}
		for _, row := range r.attempts(id) {
			if row.Attempt != 1 {
				t.Errorf("execution %d: step %s ended in attempt %d", n, row.Key, row.Attempt)
			}
		}
	}
}

type attemptRow struct {
	Key     string `json:"step_id"`
	Attempt int    `json:"attempt"`
}

func (r *crashRig) attempts(id string) []attemptRow {
	r.t.Helper()
	var page struct {
		Steps []attemptRow `json:"steps"`
	}
	if err := r.client.Call(r.t.Context(), "GET", pathTo("executions", id, "steps"), nil, nil, &page); err != nil || len(page.Steps) != 2 {
		r.t.Errorf("steps of %s: %+v, %v", id, page, err)
	}
	return page.Steps
}
