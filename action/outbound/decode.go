package outbound

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/stepwell/stepwell"
)

// decoding is a transport that counts received bytes and undoes gzip, the one encoding it accepts.
type decoding struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (d decoding) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := d.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	x, _ := req.Context().Value(exchangeKey{}).(*exchange)
	raw := &arriving{ReadCloser: resp.Body, x: x}
	resp.Body = raw
	switch encoding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); encoding {
	case "", "identity":
	case "gzip", "x-gzip":
		resp.Body = &unzipping{raw: raw}
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
	default:
		resp.Body = &refused{raw, &Failure{Kind: KindContent, Err: &stepwell.Error{Code: stepwell.CodeFailed,
			Message: fmt.Sprintf("the response is encoded as %s, which was not asked for", printable(encoding))}}}
	}
	return resp, nil
}

// arriving counts the bytes on the wire.
type arriving struct {
	io.ReadCloser
	x     *exchange
	count int64
}

// Read implements io.Reader.
func (a *arriving) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	a.count += int64(n)
	a.x.received.Add(int64(n))
	a.x.watch.touch() // one unpacked read may take many of these
	return n, err
}

// refused is a body that cannot be read.
type refused struct {
	io.ReadCloser
	err error
}

// Read implements io.Reader.
func (r *refused) Read([]byte) (int, error) { return 0, r.err }

// A body that unpacks to more than bombRatio times its size is a bomb, unless it is small.
const (
	bombRatio = 200
	bombFloor = 16 << 20
)

// unzipping undoes gzip as it is read. A response without a body, to HEAD for example, stays empty.
type unzipping struct {
	raw   *arriving
	zip   *gzip.Reader
	count int64
}

// Read implements io.Reader.
func (u *unzipping) Read(p []byte) (int, error) {
	if u.zip == nil {
		zip, err := gzip.NewReader(u.raw)
		if err == io.EOF && u.raw.count == 0 { //nolint:errorlint // bare
			return 0, io.EOF
		}
		if err != nil {
			return 0, u.explain(err)
		}
		u.zip = zip
	}
	n, err := u.zip.Read(p)
	u.count += int64(n)
	if u.count > bombFloor && u.count/bombRatio > u.raw.count {
		return n, &Failure{Kind: KindLimit, Phase: "gzip", Err: &stepwell.Error{Code: stepwell.CodeLimit,
			Message: fmt.Sprintf("the response unpacks to more than %d times its size", bombRatio)}}
	}
	if err != nil && err != io.EOF { //nolint:errorlint // bare
		err = u.explain(err)
	}
	return n, err
}

// explain distinguishes broken data from a broken connection.
func (u *unzipping) explain(err error) error {
	if err == gzip.ErrHeader || err == gzip.ErrChecksum { //nolint:errorlint // bare
		return &Failure{Kind: KindContent, Err: &stepwell.Error{Code: stepwell.CodeFailed, Message: "the response says that it is gzip and is not"}}
	}
	return err
}

// Close implements io.Closer.
func (u *unzipping) Close() error { return u.raw.Close() }
