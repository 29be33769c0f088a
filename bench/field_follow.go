package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api"
)

// fieldPages is how many pages follow an execution in `bench field`.
const fieldPages = 1000

// statusPause is the time between two questions for the state of an execution that is followed.
const statusPause = 20 * time.Millisecond

// followed is what pages that follow an execution see.
type followed struct {
	Pages  int        `json:"pages"`
	Run    float64    `json:"run_s"`
	Frames int        `json:"messages"` // to all pages
	Bytes  int64      `json:"bytes"`
	Behind percentile `json:"behind"`        // of a page's last message, from the end of the execution
	Status percentile `json:"status"`        // of a question for the state of the execution meanwhile
	RSS    float64    `json:"peak_mb"`       // of the server, with everything before
	Before float64    `json:"peak_mb_alone"` // the same, before the pages came
}

func (f *followed) text() string {
	return fmt.Sprintf("%d pages follow an execution for %.1f s: %d messages, %.1f MB; the last is behind by p50 %.0f   p99 %.0f ms; its state takes p50 %.1f   p99 %.1f ms; peak memory of the server %.0f MB, %.0f before",
		f.Pages, f.Run, f.Frames, float64(f.Bytes)/(1<<20), f.Behind.P50, f.Behind.P99, f.Status.P50, f.Status.P99, f.RSS, f.Before)
}

// follow has pages follow an execution of the document from its beginning to its end.
func (s *server) follow(ctx context.Context, document string) (*followed, error) {
	out := &followed{Pages: fieldPages, Before: peakOf(strconv.Itoa(s.PID()))}
	started, err := s.api.Execute(ctx, api.ExecuteRequest{Definition: api.Document(document)}, "")
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	var last []time.Time
	var failed error
	for range fieldPages {
		all.Go(func() {
			n, bytes, at, err := s.followOnce(ctx, started.ID)
			mu.Lock()
			defer mu.Unlock()
			out.Frames, out.Bytes, last = out.Frames+n, out.Bytes+bytes, append(last, at)
			failed = errors.Join(failed, err)
		})
	}
	var asked []time.Duration
	asking, enough := context.WithCancel(ctx)
	all.Go(func() {
		for action.Pause(asking, statusPause) == nil {
			begun := time.Now()
			_, err := s.fetch(ctx, "/executions/"+started.ID+"?steps=1")
			mu.Lock()
			asked, failed = append(asked, time.Since(begun)), errors.Join(failed, err)
			mu.Unlock()
		}
	})
	x, err := s.api.Wait(ctx, started.ID)
	enough()
	all.Wait()
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	var behind []time.Duration
	for _, at := range last {
		behind = append(behind, max(0, at.Sub(x.Completed.Time)))
	}
	out.Status = percentileOf(asked)
	out.Run, out.Behind, out.RSS = x.Completed.Sub(x.Started.Time).Seconds(), percentileOf(behind), peakOf(strconv.Itoa(s.PID()))
	return out, nil
}

// followOnce is one page: how many messages it gets, of how many bytes, and when the last of them came.
func (s *server) followOnce(ctx context.Context, id string) (n int, bytes int64, at time.Time, err error) {
	c, resp, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(s.base, "http")+"/api/v1/executions/"+id+"/field/stream?since=1", &websocket.DialOptions{HTTPClient: http.DefaultClient})
	if err != nil {
		return 0, 0, at, err
	}
	if resp.Body != nil {
		resp.Body.Close()
	}
	defer c.CloseNow()
	c.SetReadLimit(16 << 20)
	for {
		_, raw, err := c.Read(ctx)
		switch {
		case websocket.CloseStatus(err) == websocket.StatusNormalClosure:
			return n, bytes, at, nil
		case err != nil:
			return n, bytes, at, err
		}
		n, bytes, at = n+1, bytes+int64(len(raw)), time.Now()
	}
}
