package live_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stepwell/stepwell/api/live"
	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/feed/feedtest"
)

// follow reads a stream to its end and counts the lines, which must come in order, each once.
func follow(ctx context.Context, c *websocket.Conn, buf *bytes.Buffer) (lines int, err error) {
	for {
		_, r, err := c.Reader(ctx)
		if err != nil {
			return lines, err
		}
		buf.Reset()
		if _, err := buf.ReadFrom(r); err != nil {
			return lines, err
		}
		switch raw := buf.Bytes(); {
		case bytes.HasPrefix(raw, []byte(`{"type":"log"`)):
			_, rest, _ := bytes.Cut(raw, []byte(`"message":"line `))
			number, _, _ := bytes.Cut(rest, []byte(" "))
			if string(number) != fmt.Sprint(lines) {
				return lines, fmt.Errorf("line %d comes as %s", lines, raw)
			}
			lines++
		case bytes.HasPrefix(raw, []byte(`{"type":"complete"`)):
			return lines, nil
		}
	}
}

// crowd has clients follow one execution while its lines are written; some are there before, some come later.
func crowd(t testing.TB, r *rig, x *feedtest.Execution, clients, lines int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var g sync.WaitGroup
	var whole atomic.Int64
	join := func(n int) {
		for range n {
			c := r.dial(t, x.ID, "")
			g.Go(func() {
				got, err := follow(ctx, c, &bytes.Buffer{})
				if err != nil || got != lines {
					t.Errorf("a client got %d of %d lines: %v", got, lines, err)
					return
				}
				whole.Add(1)
			})
		}
	}
	join(clients * 8 / 10)
	const batches = 20
	for i := range batches {
		x.LinesFrom(i*lines/batches, (i+1)*lines/batches)
		r.hub.Lines([]int64{x.No})
		if i == batches/2 {
			join(clients / 10)
		}
	}
	x.End()
	r.hub.Notify(x.No, true)
	join(clients - clients*8/10 - clients/10)
	g.Wait()
	if whole.Load() != int64(clients) {
		t.Errorf("%d of %d clients got everything", whole.Load(), clients)
	}
}

func TestCrowd(t *testing.T) {
	r := newRig(t, feed.Options{}, live.Options{})
	crowd(t, r, r.Begin(3), 60, 2000)
}

// BenchmarkCrowd is 1,000 clients with 10,000 lines each: go test -bench Crowd -benchtime 1x ./api/live
func BenchmarkCrowd(b *testing.B) {
	r := newRig(b, feed.Options{}, live.Options{WriteTimeout: time.Minute})
	for b.Loop() {
		began := time.Now()
		crowd(b, r, r.Begin(3), 1000, 10_000)
		b.ReportMetric(10_000_000/time.Since(began).Seconds(), "messages/s")
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapSys)/(1<<20), "heap-MiB")
	}
}

// TestStalledClients: clients that read nothing hold little, are closed in the end, and do not hold up the others.
func TestStalledClients(t *testing.T) {
	const stalled, lines = 50, 20_000
	r := newRig(t, feed.Options{CacheBytes: 1 << 20}, live.Options{WriteTimeout: 2 * time.Second})
	x := r.Begin(3)
	before := heap()
	for range stalled {
		stall(t, r, x.ID)
	}
	waitFor(t, r.hub, stalled)
	for i := range 20 {
		x.LinesFrom(i*lines/20, (i+1)*lines/20)
		r.hub.Lines([]int64{x.No})
	}
	c := r.dial(t, x.ID, "")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if got, err := follow(t.Context(), c, &bytes.Buffer{}); err != nil || got != lines {
			t.Errorf("the client that reads got %d lines: %v", got, err)
		}
	}()
	x.End()
	r.hub.Notify(x.No, true)
	<-ended
	held := r.hub.Subscriptions()
	grown := heap() - before
	const bound = 1<<20 + stalled*(256<<10) + 4<<20
	t.Logf("%d stalled clients hold %d KiB, at most %d KiB; %d are still open", stalled, grown>>10, bound>>10, held)
	if grown > bound {
		t.Errorf("the heap has grown by %d bytes, at most %d are expected", grown, bound)
	}
	waitFor(t, r.hub, 0)
}

// stall opens a stream and reads nothing of it.
func stall(t *testing.T, r *rig, id string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(conn, "GET /executions/"+id+"/logs/stream HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkStatusLatency is how long after its commit a status reaches a client, while 100 others follow the
// same execution and steps end all the time.
func BenchmarkStatusLatency(b *testing.B) {
	const steps = 3000
	r := newRig(b, feed.Options{}, live.Options{})
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var took []time.Duration
	for b.Loop() {
		x := r.Begin(steps)
		var g sync.WaitGroup
		for range 100 {
			c := r.dial(b, x.ID, "")
			g.Go(func() { _, _ = follow(ctx, c, &bytes.Buffer{}) })
		}
		c := r.dial(b, x.ID, "")
		arrived := make(chan string, 10*steps)
		g.Go(func() {
			for {
				_, raw, err := c.Read(ctx)
				if err != nil || bytes.HasPrefix(raw, []byte(`{"type":"complete"`)) {
					return
				}
				if bytes.Contains(raw, []byte(`"status":"completed"`)) && bytes.HasPrefix(raw, []byte(`{"type":"status"`)) {
					arrived <- string(raw)
				}
			}
		})
		for range 1000 {
			x.Complete(1)
			committed := time.Now()
			r.hub.Notify(x.No, false)
			<-arrived
			took = append(took, time.Since(committed))
		}
		x.End()
		r.hub.Notify(x.No, true)
		g.Wait()
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
