package queue_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/queue/queuetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	queuetest.Run(t, func(t *testing.T) queue.Queue { return &queue.Memory{} })
}

func TestMemoryClose(t *testing.T) {
	q := &queue.Memory{}
	ended := make(chan error)
	go func() {
		_, err := q.Pull(t.Context(), 1)
		ended <- err
	}()
	q.Close()
	if err := <-ended; !errors.Is(err, queue.ErrClosed) {
		t.Errorf("who waited got %v", err)
	}
	if err := q.Push(t.Context(), []queue.Message{{}}); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("Push gave %v", err)
	}
	if _, err := q.Pull(t.Context(), 1); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("Pull gave %v", err)
	}
	if n := q.Len(); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

func BenchmarkMemory(b *testing.B) {
	q := &queue.Memory{}
	batch := make([]queue.Message, 1000)
	var leases []queue.Lease
	b.ReportAllocs()
	for range b.N {
		if err := q.Push(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		for range batch {
			var err error
			if leases, err = q.PullInto(b.Context(), leases[:0], 1); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func TestMemoryLimits(t *testing.T) {
	queuetest.RunLimits(t, func(t *testing.T) queuetest.Limited {
		q := &queue.Memory{}
		t.Cleanup(q.Close)
		return q
	})
}

// Closing ends the alarm of a rate.
func TestMemoryCloseWithRate(t *testing.T) {
	q := &queue.Memory{}
	q.Limit("api", queue.Limits{Rate: 0.001})
	if err := q.Push(t.Context(), []queue.Message{{Queue: "api"}, {Queue: "api"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Pull(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := q.Pull(t.Context(), 1)
		ended <- err
	}()
	q.Close()
	if err := <-ended; !errors.Is(err, queue.ErrClosed) {
		t.Errorf("who waited got %v", err)
	}
}
