// Package web serves Stepwell's pages (specification budpipeline, the user interface): one page application, embedded, that works
// without the network. It asks the API for everything that it shows and may do nothing that its reader's credential may not.
package web

import (
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:generate ./build
//go:embed dist
var dist embed.FS

// policy lets a page load nothing but its own files and the API; styles that libraries add have the nonce of the answer.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-%s'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; media-src 'self'; worker-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"

// kinds are the types of files: those that a system registers may be others.
var kinds = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".json": "application/json", ".woff2": "font/woff2"}

// file is one of the page's, compressed.
type file struct {
	packed []byte
	etag   string
	kind   string
}

// Handler makes what serves the pages; every path that names no file is the application, which reads the rest of the address itself.
// Base begins and ends with a slash: it is in front of every address as browsers see it, while requests come without it. Version is
// the program's. A page is given with what api answers, to who asks for the page, to what it would ask first.
func Handler(base, version string) (func(api http.Handler) http.Handler, error) {
	files := map[string]file{}
	err := fs.WalkDir(dist, "dist", func(name string, d fs.DirEntry, err error) error {
		plain, packed := strings.CutSuffix(strings.TrimPrefix(name, "dist/"), ".gz")
		if err != nil || d.IsDir() || !packed {
			return err
		}
		raw, err := dist.ReadFile(name)
		sum := sha256.Sum256(raw)
		files[plain] = file{raw, `"` + hex.EncodeToString(sum[:12]) + `"`, kinds[path.Ext(plain)]}
		return err
	})
	if err != nil {
		return nil, err
	}
	page, err := unpack(files["index.html"].packed)
	if err != nil {
		return nil, fmt.Errorf("web: index.html: %w", err)
	}
	var screens []screen
	if routes, ok := files["routes.json"]; ok { // pages that were built without it load their parts one after the other
		if screens, err = screensOf(routes.packed); err != nil {
			return nil, fmt.Errorf("web: routes.json: %w", err)
		}
	}
	page, rest, _ := strings.Cut(page, "</body>")
	serve := func(w http.ResponseWriter, r *http.Request, api http.Handler) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if f, ok := files[name]; ok && name != "index.html" {
			f.serve(w, r)
			return
		}
		if strings.HasPrefix(name, "assets/") {
			http.NotFound(w, r)
			return
		}
		nonce := rand.Text()
		h := w.Header()
		h.Set("Content-Security-Policy", fmt.Sprintf(policy, nonce))
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		// Not html/template: calling methods by name, it would have the linker keep every method of the program.
		links, asks := linksFor(screens, name, r.URL.RawQuery != "")
		told := strings.NewReplacer("{{.Base}}", html.EscapeString(base), "{{.Nonce}}", nonce, "{{.Version}}", html.EscapeString(version), "</head>", links+"</head>")
		_, _ = told.WriteString(w, page) // the client may have gone
		if len(asks) > 0 && r.Method == http.MethodGet {
			_ = http.NewResponseController(w).Flush() // the browser begins to get the files meanwhile; where it cannot, all comes at once
			answers(w, api, r, asks)
		}
		_, _ = io.WriteString(w, "</body>"+rest)
	}
	return func(api http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, api) })
	}, nil
}

// serve answers a file as it lies; clients that take no gzip get it unpacked.
func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("ETag", f.etag)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache") // names have no hashes: asked again, and 304 mostly
	if r.Header.Get("If-None-Match") == f.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", fmt.Sprint(len(f.packed)))
		_, _ = w.Write(f.packed) // the client may have gone
		return
	}
	text, err := unpack(f.packed)
	if err != nil { // a test reads every file
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, text)
}

func unpack(packed []byte) (string, error) {
	r, err := gzip.NewReader(strings.NewReader(string(packed)))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(r, 16<<20))
	return string(text), err
}
