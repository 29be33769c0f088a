package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound"
)

// openWeb opens a URL. An interrupted body is resumed by a range request (RFC 9110 §14), if it has a strong validator,
// which proves that it is unchanged.
func (p *Places) openWeb(ctx context.Context, url string, offset int64) (io.ReadCloser, Info, error) {
	if p.http == nil {
		return nil, Info{}, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "URLs cannot be read here"}
	}
	w := &web{ctx: ctx, client: p.http, url: url, size: -1}
	r, err := resume(ctx, offset, w.open)
	if err != nil {
		return nil, Info{}, err
	}
	return r, Info{Size: w.size, ModTime: w.changed}, nil
}

// web is a file behind a URL.
type web struct {
	ctx     context.Context
	client  *outbound.Client
	url     string
	size    int64
	changed time.Time
	etag    string // of the first response; weak ones do not count
	opened  bool
}

// open is an opener.
func (w *web) open(offset int64) (io.ReadCloser, bool, time.Duration, error) {
	if w.opened && w.etag == "" {
		return nil, false, 0, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: fmt.Sprintf("the connection broke behind byte %d, and the server has no ETag to continue by", offset),
			Hint: "download the file first"}
	}
	h := http.Header{"Accept-Encoding": {"identity"}}
	if offset > 0 {
		h.Set("Range", fmt.Sprintf("bytes=%d-", offset))
		if w.etag != "" {
			h.Set("If-Range", w.etag)
		}
	}
	resp, err := w.client.Do(w.ctx, &outbound.Request{URL: w.url, Header: h, Redirects: 10, MaxBytes: math.MaxInt64 - 1,
		Timeouts: outbound.Timeouts{Connect: 30 * time.Second, FirstByte: 2 * time.Minute, Idle: 2 * time.Minute, Total: 7 * 24 * time.Hour}})
	if err != nil {
		again, after := retryable(err)
		return nil, again, after, err
	}
	switch {
	case resp.Status == http.StatusOK && offset > 0 && w.opened:
		err = errChanged("byte %d", offset)
	case resp.Status == http.StatusOK:
		return w.wholeBody(resp, offset)
	case resp.Status == http.StatusPartialContent && offset > 0:
		size, rangeErr := sizeOf(resp.Header.Get("Content-Range"), offset)
		if err = rangeErr; err == nil {
			w.recordVersion(resp, size)
			return reading(resp), false, 0, nil
		}
	case resp.Status == http.StatusRequestedRangeNotSatisfiable:
		err = errChanged("byte %d: it is not that long any more", offset)
	default:
		head, readErr := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		f := resp.StatusFailure(head)
		again, after := retryable(f)
		return nil, again, after, errors.Join(f, readErr, resp.Close())
	}
	return nil, false, 0, errors.Join(err, resp.Close())
}

// sizeOf is the size of the file of which a range came, which must begin at the offset.
func sizeOf(contentRange string, offset int64) (int64, error) {
	var from, to, size int64
	if n, err := fmt.Sscanf(contentRange, "bytes %d-%d/%d", &from, &to, &size); err != nil || n != 3 || from != offset {
		return 0, &stepwell.Error{Code: stepwell.CodeFailed, Message: "the server sent another range than was asked for: " + contentRange}
	}
	return size, nil
}

// wholeBody takes a whole body; the part before the offset is read and dropped.
func (w *web) wholeBody(resp *outbound.Response, offset int64) (io.ReadCloser, bool, time.Duration, error) {
	size := int64(-1)
	if n, err := fmt.Sscan(resp.Header.Get("Content-Length"), &size); n != 1 || err != nil || resp.Header.Get("Content-Encoding") != "" {
		size = -1
	}
	w.recordVersion(resp, size)
	n, err := io.CopyN(io.Discard, resp.Body, offset)
	if err == io.EOF { //nolint:errorlint // bare
		err = errChanged("byte %d: now it has only %d", offset, n)
	}
	if err != nil {
		return nil, false, 0, errors.Join(err, resp.Close())
	}
	return reading(resp), false, 0, nil
}

func (w *web) recordVersion(resp *outbound.Response, size int64) {
	w.opened, w.size = true, size
	if tag := resp.Header.Get("ETag"); len(tag) > 2 && tag[0] == '"' {
		w.etag = tag
	}
	if at, err := http.ParseTime(resp.Header.Get("Last-Modified")); err == nil {
		w.changed = at
	}
}

func retryable(err error) (again bool, after time.Duration) {
	f, ok := errors.AsType[*outbound.Failure](err)
	if !ok {
		return false, 0
	}
	return outbound.Policy{}.Judge(f) != outbound.Permanent, f.After
}

// reading is the body of a response that is closed with it.
func reading(resp *outbound.Response) io.ReadCloser { return &closing{resp.Body, resp.Close} }
