package files

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/stepwell/stepwell/action"
)

const (
	maxTries = 5 // in a row without a byte
	firstGap = 500 * time.Millisecond
	maxGap   = time.Minute
)

// opener opens a remote file at an offset. again reports whether a retry may help, and after how long (0: as usual).
type opener func(offset int64) (in io.ReadCloser, again bool, after time.Duration, err error)

// resuming reads a remote file and opens it again where a connection broke.
type resuming struct {
	ctx    context.Context
	open   opener
	in     io.ReadCloser
	offset int64
	tries  int
}

func resume(ctx context.Context, offset int64, open opener) (*resuming, error) {
	r := &resuming{ctx: ctx, open: open, offset: offset}
	return r, r.connect()
}

// connect opens at the offset, up to maxTries times without a byte in between.
func (r *resuming) connect() error {
	for {
		in, again, after, err := r.open(r.offset)
		if err == nil {
			r.in = in
			return nil
		}
		if r.tries++; !again || r.tries >= maxTries {
			return err
		}
		if after <= 0 {
			after = firstGap << (r.tries - 1)
		}
		if err := action.Pause(r.ctx, min(after, maxGap)); err != nil {
			return err
		}
	}
}

// Read implements io.Reader.
func (r *resuming) Read(p []byte) (int, error) {
	for {
		n, err := r.in.Read(p)
		r.offset += int64(n)
		if n > 0 {
			r.tries = 0
			return n, nil // the error comes again
		}
		if err == nil || err == io.EOF { //nolint:errorlint // bare
			return 0, err
		}
		if r.tries++; !broke(err) || r.tries >= maxTries {
			return 0, err
		}
		if cause := context.Cause(r.ctx); cause != nil {
			return 0, cause
		}
		r.in.Close() //nolint:errcheck // it is broken
		if err := r.connect(); err != nil {
			return 0, err
		}
	}
}

// broke reports whether a connection ended that can be made again.
func broke(err error) bool {
	if _, ok := errors.AsType[*brokenOff](err); ok {
		return true
	}
	again, _ := retryable(err)
	return again
}

// Close implements io.Closer.
func (r *resuming) Close() error { return r.in.Close() }
