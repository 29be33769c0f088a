package web

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	patience   = 60 * time.Millisecond // for answers that a page is given: its code takes longer to come
	mostAnswer = 256 << 10             // bytes of one answer
)

// answers writes what the API says to the questions of a page, in the name of who asks for the page, as data in it: each is an element
// with the question. Only successes are, that come in time and are not too long: the page asks for all else itself.
func answers(w io.Writer, api http.Handler, r *http.Request, asks []string) {
	ctx, stop := context.WithTimeout(r.Context(), patience)
	defer stop()
	type said struct{ ask, text string }
	came := make(chan said, len(asks)) // those that are late are not waited for
	for _, ask := range asks {
		go func() {
			got := &kept{header: http.Header{}}
			if in, err := question(ctx, r, ask); err == nil {
				api.ServeHTTP(got, in)
			}
			came <- said{ask, got.success()}
		}()
	}
	for range asks {
		select {
		case <-ctx.Done():
			return
		case s := <-came:
			if s.text != "" {
				fmt.Fprintf(w, "<script type=\"application/json\" data-ask=\"%s\">%s</script>\n", html.EscapeString(s.ask), s.text)
			}
		}
	}
}

// question is a request of the API as the browser that has sent r would send it.
func question(ctx context.Context, r *http.Request, ask string) (*http.Request, error) {
	address, err := url.Parse("/api/v1/" + ask)
	if err != nil {
		return nil, err
	}
	in := r.Clone(ctx)
	in.URL, in.RequestURI, in.Body, in.ContentLength = address, address.RequestURI(), http.NoBody, 0
	for _, name := range []string{"Accept-Encoding", "If-None-Match", "If-Modified-Since", "Range", "X-Request-Id"} {
		in.Header.Del(name)
	}
	in.Header.Set("Accept", "application/json")
	return in, nil
}

// kept is an answer, unless it is too long.
type kept struct {
	header http.Header
	status int
	body   bytes.Buffer
	cut    bool
}

func (k *kept) Header() http.Header { return k.header }

func (k *kept) WriteHeader(status int) {
	if k.status == 0 {
		k.status = status
	}
}

func (k *kept) Write(b []byte) (int, error) {
	k.WriteHeader(http.StatusOK)
	if k.cut = k.cut || k.body.Len()+len(b) > mostAnswer; !k.cut {
		k.body.Write(b)
	}
	return len(b), nil
}

// success is the answer as it can stand in a page, "" if it is none. In JSON, a < is only in strings.
func (k *kept) success() string {
	if k.status != http.StatusOK || k.cut || k.header.Get("Content-Encoding") != "" {
		return ""
	}
	return string(bytes.ReplaceAll(bytes.TrimSpace(k.body.Bytes()), []byte("<"), []byte(`\u003c`)))
}
