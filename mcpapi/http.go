package mcpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/api/client"
)

// Path is where a server answers.
const Path = "/mcp"

// Limits of a request: its bytes, and the time in which they come.
const (
	maxBody      = 4 << 20
	bodyPatience = 30 * time.Second
)

// Handler answers over streamable HTTP, each request by itself: there are no sessions, and any server of several may answer. Its caller is
// that of the request, by an API key or a token in a header, as at the API, which is asked in this process; cookies count for
// nothing. site refuses requests that a foreign web page makes a browser send.
func (s *Service) Handler(api http.Handler, site access.Site) http.Handler {
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxBody, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true}) // the API's own rules are in force
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" { // a browser
			if err := site.Check(r); err != nil {
				refuse(w, http.StatusForbidden, err)
				return
			}
		}
		as, err := client.New(client.Options{URL: "http://localhost", HTTP: &http.Client{Transport: asCaller{client.InProcess(api), r}}})
		if err != nil {
			refuse(w, http.StatusInternalServerError, err)
			return
		}
		if _, err := as.Me(r.Context()); err != nil { // known, and not too often
			refuse(w, statusOf(w, err), err)
			return
		}
		if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyPatience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			refuse(w, http.StatusInternalServerError, err)
			return
		}
		agent, _, _ := strings.Cut(r.UserAgent(), " ")
		inner.ServeHTTP(w, r.WithContext(speaking(r.Context(), as, agent)))
	})
}

// statusOf is the HTTP status of a refusal.
func statusOf(w http.ResponseWriter, err error) int {
	switch stepwell.CodeOf(err) {
	case stepwell.CodeUnauthenticated:
		w.Header().Set("WWW-Authenticate", "Bearer")
		return http.StatusUnauthorized
	case stepwell.CodeForbidden:
		return http.StatusForbidden
	case stepwell.CodeLimit:
		w.Header().Set("Retry-After", "1")
		return http.StatusTooManyRequests
	}
	return http.StatusServiceUnavailable
}

func refuse(w http.ResponseWriter, status int, err error) {
	body, _ := json.Marshal(map[string]any{"code": stepwell.CodeOf(err), "message": stepwell.Clip(err.Error(), 500), "hint": stepwell.HintOf(err)}) // texts
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have gone
}

// asCaller sends requests to the API as the sender of another request: with its credential, from its address.
type asCaller struct {
	http.RoundTripper
	of *http.Request
}

// sameHeaders are those that say who sends a request, and from where.
var sameHeaders = []string{"Authorization", "X-Api-Key", "X-User-Id", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Forwarded", "Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode"}

// RoundTrip implements http.RoundTripper.
func (t asCaller) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for _, name := range sameHeaders {
		r.Header.Del(name)
		if values := t.of.Header.Values(name); len(values) > 0 {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	r.RemoteAddr, r.Host, r.TLS = t.of.RemoteAddr, t.of.Host, t.of.TLS
	return t.RoundTripper.RoundTrip(r)
}
