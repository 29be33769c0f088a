package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/flate"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/columns"
)

// Pages is the workload of the process that follows an execution in `bench field`: Options.Store is the address of its stream, Options.N how
// many pages do.
const Pages = "pages"

// fieldPages is how many pages follow an execution in `bench field`.
const fieldPages = 1000

// statusPause is the time between two questions for the state of an execution that is followed.
const statusPause = 20 * time.Millisecond

// followed is what pages that follow an execution see.
type followed struct {
	Pages  int        `json:"pages"`
	Run    float64    `json:"run_s"`
	Frames int        `json:"messages"`      // to all pages
	Bytes  int64      `json:"bytes"`         // as they are sent
	Again  int        `json:"again"`         // messages of one page that say that all is to be fetched again
	Behind percentile `json:"behind"`        // of a page's last message, from the end of the execution
	Status percentile `json:"status"`        // of a question for the state of the execution meanwhile
	RSS    float64    `json:"peak_mb"`       // of the server, with everything before
	Before float64    `json:"peak_mb_alone"` // the same, before the pages came
}

func (f *followed) text() string {
	return fmt.Sprintf("%d pages follow an execution for %.1f s: %d messages, %.1f MB, %d times all again; the last is behind by p50 %.0f   p99 %.0f ms; its state takes p50 %.1f   p99 %.1f ms; peak memory of the server %.0f MB, %.0f before",
		f.Pages, f.Run, f.Frames, float64(f.Bytes)/(1<<20), f.Again, f.Behind.P50, f.Behind.P99, f.Status.P50, f.Status.P99, f.RSS, f.Before)
}

// follow has pages follow an execution of the document from its beginning to its end.
func (s *server) follow(ctx context.Context, document string) (*followed, error) {
	out := &followed{Pages: fieldPages, Before: peakOf(strconv.Itoa(s.PID()))}
	started, err := s.api.Execute(ctx, api.ExecuteRequest{Definition: api.Document(document)}, "")
	if err != nil {
		return nil, err
	}
	pages, err := startMember(Pages, "--store", "ws"+strings.TrimPrefix(s.base, "http")+"/api/v1/executions/"+started.ID+"/field/stream?since=1", "--n", strconv.Itoa(fieldPages))
	if err != nil {
		return nil, err
	}
	var all sync.WaitGroup
	var failed error
	var asked []time.Duration
	asking, enough := context.WithCancel(ctx)
	all.Go(func() {
		for action.Pause(asking, statusPause) == nil {
			begun := time.Now()
			_, err := s.fetch(ctx, "/executions/"+started.ID+"?steps=1")
			asked, failed = append(asked, time.Since(begun)), errors.Join(failed, err)
		}
	})
	x, err := s.api.Wait(ctx, started.ID)
	enough()
	all.Wait()
	var seen pageTimes
	err = errors.Join(err, failed, json.NewDecoder(pages.out).Decode(&seen), pages.end())
	if err != nil {
		return nil, err
	}
	var behind []time.Duration
	for _, at := range seen.Last {
		behind = append(behind, max(0, time.UnixMicro(at).Sub(x.Completed.Time)))
	}
	out.Frames, out.Bytes, out.Again = seen.Frames, seen.Bytes, seen.Again
	out.Status = percentileOf(asked)
	out.Run, out.Behind, out.RSS = x.Completed.Sub(x.Started.Time).Seconds(), percentileOf(behind), peakOf(strconv.Itoa(s.PID()))
	return out, nil
}

// pageTimes is what the process of the pages prints: of all of them together.
type pageTimes struct {
	Frames int     `json:"messages"`
	Bytes  int64   `json:"bytes"`
	Again  int     `json:"again"` // of the first page
	Last   []int64 `json:"last"`  // µs since 1970 when the last message of each came
}

// lookOn has pages follow an execution in this process. They share the machine with the server: all but the first one read only how long
// messages are.
func lookOn(ctx context.Context, out io.Writer, stream string, pages int) error {
	var mu sync.Mutex
	var all sync.WaitGroup
	var failed error
	var seen pageTimes
	for i := range pages {
		all.Go(func() {
			p := page{reads: i == 0}
			err := p.follow(ctx, stream)
			mu.Lock()
			defer mu.Unlock()
			seen.Frames, seen.Bytes, seen.Again, seen.Last = seen.Frames+p.frames, seen.Bytes+p.bytes, seen.Again+p.again, append(seen.Last, p.last.UnixMicro())
			failed = cmp.Or(failed, err) // all have the same
		})
	}
	all.Wait()
	return errors.Join(failed, json.NewEncoder(out).Encode(&seen))
}

// page is one that follows an execution as a browser does, over a WebSocket with permessage-deflate.
type page struct {
	reads  bool // the messages, and not only their lengths
	frames int
	bytes  int64
	again  int
	last   time.Time
}

// maxMessage bounds a message that a page reads, in bytes.
const maxMessage = 64 << 20

// Opcodes of RFC 6455 in the first byte of a frame, and the bit that says that it is compressed.
const (
	opBinary, opClose, opPing = 0x2, 0x8, 0x9
	bitDeflated               = 0x40
)

// follow reads messages until the server ends the stream normally.
func (p *page) follow(ctx context.Context, stream string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http"+strings.TrimPrefix(stream, "ws"), nil)
	if err != nil {
		return err
	}
	for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
		"Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits"} { // that of Chromium
		req.Header.Set(name, value)
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", req.URL.Host)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	if err := req.Write(c); err != nil {
		return err
	}
	r := bufio.NewReaderSize(c, 16<<10)
	res, err := http.ReadResponse(r, req)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("the stream of steps: %s", res.Status)
	}
	for {
		head, n, err := frameOf(r)
		if err != nil {
			return err
		}
		switch head & 0xf {
		case opBinary:
			p.frames, p.bytes = p.frames+1, p.bytes+int64(n)
			if err = p.take(r, n, head&bitDeflated != 0); err != nil {
				return err
			}
			p.last = time.Now()
		case opPing: // those who follow for less than the server's patience need not answer
			_, err = r.Discard(n)
		case opClose:
			code := make([]byte, 2)
			if _, err = io.ReadFull(r, code[:min(n, 2)]); err != nil || code[0] != 1000>>8 || code[1] != 1000&0xff {
				return errors.Join(err, fmt.Errorf("the stream of steps ends with %d", int(code[0])<<8|int(code[1])))
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// frameOf reads the first byte of a frame and the length of what follows.
func frameOf(r *bufio.Reader) (head byte, n int, err error) {
	var two [2]byte
	if _, err = io.ReadFull(r, two[:]); err != nil {
		return 0, 0, err
	}
	long := map[byte]int{126: 2, 127: 8}[two[1]]
	if n = int(two[1]); long > 0 {
		n = 0
	}
	for range long {
		b, err := r.ReadByte()
		if err != nil {
			return 0, 0, err
		}
		n = n<<8 | int(b)
	}
	if n < 0 || n > maxMessage {
		return 0, 0, fmt.Errorf("a message has %d bytes", n)
	}
	return two[0], n, nil
}

// take reads a message.
func (p *page) take(r *bufio.Reader, n int, compressed bool) error {
	if !p.reads {
		_, err := r.Discard(n)
		return err
	}
	raw := make([]byte, n)
	if _, err := io.ReadFull(r, raw); err != nil {
		return err
	}
	if compressed {
		inflated := flate.NewReader(io.MultiReader(bytes.NewReader(raw), strings.NewReader("\x00\x00\xff\xff\x01\x00\x00\xff\xff")))
		plain, err := io.ReadAll(io.LimitReader(inflated, maxMessage))
		if err != nil {
			return fmt.Errorf("a compressed message: %w", err)
		}
		raw = plain
	}
	t, err := columns.Decode(raw)
	if err == nil && t.Again {
		p.again++
	}
	return err
}
