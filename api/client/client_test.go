package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api/client"
)

// want fails the test unless the error has the code.
func want(t *testing.T, err error, code stepwell.Code) {
	t.Helper()
	if stepwell.CodeOf(err) != code {
		t.Fatalf("error %v (%s), want code %q", err, stepwell.CodeOf(err), code)
	}
}

func good(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestClientErrors(t *testing.T) {
	if _, err := client.New(client.Options{URL: "ftp://x"}); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Errorf("error %v", err)
	}
	away := httptest.NewServer(http.NotFoundHandler())
	c, err := client.New(client.Options{URL: away.URL})
	good(t, err)
	_, err = c.Health(t.Context())
	want(t, err, stepwell.CodeUnavailable) // an answer that is not ours
	away.Close()
	_, err = c.Health(t.Context())
	want(t, err, stepwell.CodeUnavailable)

	odd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>welcome</html>")) }))
	defer odd.Close()
	c, err = client.New(client.Options{URL: odd.URL})
	good(t, err)
	_, err = c.Health(t.Context())
	want(t, err, stepwell.CodeUnavailable)
	streams := 0
	for _, err := range c.Stream(t.Context(), "01234567", client.StreamOptions{}) {
		streams++
		want(t, err, stepwell.CodeInvalid) // coming back to it would not help
	}
	if streams != 1 {
		t.Errorf("a page that is no stream has %d messages", streams)
	}
}

// TestClientGivesUp: a call that is given up ends with the reason, whether the answer has begun or not.
func TestClientGivesUp(t *testing.T) {
	begun := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			_, _ = w.Write([]byte("{"))
			_ = http.NewResponseController(w).Flush()
		}
		begun <- struct{}{}
		<-r.Context().Done()
	}))
	defer slow.Close()
	c, err := client.New(client.Options{URL: slow.URL})
	good(t, err)
	for _, path := range []string{"/none", "/half"} {
		ctx, giveUp := context.WithCancelCause(t.Context())
		reason := errors.New("had enough")
		go func() { <-begun; giveUp(reason) }()
		if err := c.Call(ctx, http.MethodGet, path, nil, nil, &struct{}{}); !errors.Is(err, reason) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
