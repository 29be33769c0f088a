package app

import (
	"net/http"
	"net/url"
	"strings"
)

// below serves everything below the base path too, and puts it before the addresses in Location. Requests without it are served as
// well: a proxy may remove it, and probes and workers within a network need not know it.
func (s *Server) below(h http.Handler) http.Handler {
	base := s.o.BasePath
	if base == "" {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w = &based{ResponseWriter: w, base: base}
		if r.URL.Path == base {
			http.Redirect(w, r, base+"/", http.StatusPermanentRedirect)
			return
		}
		path, ok := strings.CutPrefix(r.URL.Path, base+"/")
		raw, _ := strings.CutPrefix(r.URL.RawPath, base+"/")
		if !ok {
			h.ServeHTTP(w, r)
			return
		}
		inner := new(http.Request)
		*inner = *r
		inner.URL = new(url.URL)
		*inner.URL = *r.URL
		inner.URL.Path, inner.URL.RawPath = "/"+path, ""
		if r.URL.RawPath != "" {
			inner.URL.RawPath = "/" + raw
		}
		h.ServeHTTP(w, inner)
	})
}

// based puts the base path before paths in Location.
type based struct {
	http.ResponseWriter
	base  string
	begun bool
}

// WriteHeader implements http.ResponseWriter.
func (b *based) WriteHeader(status int) {
	if !b.begun {
		b.begun = status >= 200
		to := b.Header().Get("Location")
		if strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//") && to != b.base && !strings.HasPrefix(to, b.base+"/") {
			b.Header().Set("Location", b.base+to)
		}
	}
	b.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (b *based) Write(p []byte) (int, error) {
	if !b.begun {
		b.WriteHeader(http.StatusOK)
	}
	return b.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (b *based) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// withBase is an address of the server with the base path, unless it has a path already.
func (s *Server) withBase(address string) string {
	u, err := url.Parse(address)
	if err != nil || strings.Trim(u.Path, "/") != "" {
		return address
	}
	return strings.TrimSuffix(address, "/") + s.o.BasePath
}
