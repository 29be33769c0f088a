package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
)

// An update that another one has overtaken between its reading and its writing is refused, and says that the command may
// be repeated: nobody who uses a command knows what an ETag is.
func TestUpdateIsOvertaken(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			w.Header().Set("ETag", `"1"`)
			_, _ = w.Write([]byte(`{"name": "nightly"}`))
			return
		}
		if got := r.Header.Get("If-Match"); got != `"1"` {
			t.Errorf("If-Match: %s", got)
		}
		w.WriteHeader(http.StatusPreconditionFailed)
		_, _ = w.Write([]byte(`{"code": "precondition", "message": "it has changed meanwhile: its ETag is \"2\"", "hint": "get it again, and apply your change to that"}`))
	}))
	defer server.Close()
	client, err := client.New(client.Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	err = (&program{err: io.Discard}).sendUpdate(t.Context(), client, "/api/v1/schedules/nightly", object{"name": "daily"}, nil, &object{})
	if stepwell.CodeOf(err) != api.CodePrecondition || stepwell.HintOf(err) != "repeat the command: it works on the new state" {
		t.Errorf("%v", err)
	}
}
