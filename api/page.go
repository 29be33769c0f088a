package api

import (
	"embed"
	"io/fs"
	"net/http"
)

// The page at /docs reads /openapi.json in the browser. It is all here: it works without the network.
//
//go:embed page
var pageFiles embed.FS

// pagePolicy lets the page load nothing but its own files and the API.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// page serves the page.
func (s *server) page() error {
	for path, file := range map[string][2]string{
		"/docs":          {"index.html", "text/html; charset=utf-8"},
		"/docs/page.js":  {"page.js", "text/javascript; charset=utf-8"},
		"/docs/page.css": {"page.css", "text/css; charset=utf-8"},
	} {
		body, err := fs.ReadFile(pageFiles, "page/"+file[0])
		if err != nil {
			return err
		}
		s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", file[1])
			w.Header().Set("Content-Security-Policy", pagePolicy)
			_, _ = w.Write(body) // the client may have gone
		})
	}
	return nil
}
