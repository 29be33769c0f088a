package endpoint_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/stepwell/stepwell/api/endpoint"
)

// order is an input with every kind of parameter.
type order struct {
	ID     string    `path:"id" maxLength:"3"`
	Count  int       `query:"count" minimum:"1" default:"7"`
	Small  int8      `query:"small"`
	Fast   bool      `query:"fast"`
	Names  []string  `query:"names" maxItems:"2"`
	Since  time.Time `query:"since"`
	Wanted string    `query:"wanted" required:"true"`
	Tag    string    `header:"X-Tag"`
	Body   struct {
		Size int `json:"size" maximum:"9"`
	}
}

type receipt struct {
	Status int
	ETag   string `header:"ETag"`
	Body   map[string]any
}

// serve registers an operation whose answer is its input.
func serve(t *testing.T) http.Handler {
	t.Helper()
	mux := http.NewServeMux()
	api := humago.New(mux, huma.DefaultConfig("Orders", "1"))
	endpoint.Register(api, huma.Operation{OperationID: "order", Method: http.MethodPost, Path: "/orders/{id}", Responses: map[string]*huma.Response{}}, endpoint.Endpoint{
		In: reflect.TypeFor[order](), Out: reflect.TypeFor[receipt](), Call: func(_ context.Context, in any) (any, error) {
			o := in.(*order)
			return &receipt{Status: http.StatusAccepted, ETag: o.Tag, Body: map[string]any{"id": o.ID, "count": o.Count, "fast": o.Fast, "names": o.Names, "since": o.Since, "size": o.Body.Size}}, nil
		}})
	return mux
}

// TestRequests: parameters and the body are read as the description says, and everything else is refused with its place.
func TestRequests(t *testing.T) {
	mux := serve(t)
	for _, tc := range []struct {
		about, path, body string
		status            int
		says              string
	}{
		{"everything", "/orders/a?count=2&fast=true&names=x,y&since=2026-01-31T09:00:00Z&wanted=1", `{"size":3}`, 202, `{"count":2,"fast":true,"id":"a","names":["x","y"],"since":"2026-01-31T09:00:00Z","size":3}`},
		{"the default", "/orders/a?wanted=1", `{"size":3}`, 202, `"count":7`},
		{"a missing parameter", "/orders/a", `{"size":3}`, 422, `required query parameter is missing`},
		{"an unknown parameter", "/orders/a?wanted=1&wnated=1", `{"size":3}`, 422, `query.wnated`},
		{"no integer", "/orders/a?wanted=1&count=x", `{"size":3}`, 422, `invalid integer`},
		{"an integer that the field cannot hold", "/orders/a?wanted=1&small=300", `{"size":3}`, 422, `invalid integer`},
		{"a limit of a parameter", "/orders/a?wanted=1&count=0", `{"size":3}`, 422, `query.count`},
		{"no time", "/orders/a?wanted=1&since=noon", `{"size":3}`, 422, `invalid date/time`},
		{"too many in a list", "/orders/a?wanted=1&names=a,b,c", `{"size":3}`, 422, `query.names`},
		{"a long path", "/orders/abcd?wanted=1", `{"size":3}`, 422, `path.id`},
		{"no body", "/orders/a?wanted=1", ``, 400, `request body is required`},
		{"no JSON", "/orders/a?wanted=1", `{`, 400, `"location":"body"`},
		{"a limit in the body", "/orders/a?wanted=1", `{"size":10}`, 422, `body.size`},
		{"an unknown member", "/orders/a?wanted=1", `{"size":1,"sise":1}`, 422, `body.sise`},
		{"a parameter and the body", "/orders/a?wanted=1&count=0", `{"size":10}`, 422, `query.count`},
	} {
		r := httptest.NewRequest(http.MethodPost, tc.path, strings.NewReader(tc.body))
		r.Header.Set("X-Tag", `"7"`)
		w := httptest.NewRecorder()
		if mux.ServeHTTP(w, r); w.Code != tc.status || !strings.Contains(w.Body.String(), tc.says) {
			t.Errorf("%s: %d %s, want %d with %s", tc.about, w.Code, w.Body, tc.status, tc.says)
		}
		if w.Code == http.StatusAccepted && w.Header().Get("ETag") != `"7"` {
			t.Errorf("%s: headers are %v", tc.about, w.Header())
		}
	}
}

// TestForms: a body in another form than JSON is refused.
func TestForms(t *testing.T) {
	mux := serve(t)
	r := httptest.NewRequest(http.MethodPost, "/orders/a?wanted=1", strings.NewReader(`{"size":3}`))
	r.Header.Set("Content-Type", "text/csv")
	w := httptest.NewRecorder()
	if mux.ServeHTTP(w, r); w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestUnservable: a parameter of a type that nothing reads is found when the operation is registered.
func TestUnservable(t *testing.T) {
	for about, e := range map[string]endpoint.Endpoint{
		"a parameter": {In: reflect.TypeFor[struct {
			Share float64 `query:"share"`
		}](), Out: reflect.TypeFor[struct{}]()},
		"a header": {In: reflect.TypeFor[struct{}](), Out: reflect.TypeFor[struct {
			Age int `header:"Age"`
		}]()},
	} {
		t.Run(about, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it was registered")
				}
			}()
			endpoint.Register(humago.New(http.NewServeMux(), huma.DefaultConfig("", "")), huma.Operation{OperationID: "x", Method: http.MethodGet, Path: "/x", Responses: map[string]*huma.Response{}}, e)
		})
	}
}
