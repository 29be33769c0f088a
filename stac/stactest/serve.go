package stactest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
)

// request is one request as the server sees it.
type request struct {
	*http.Request
	kind, collection, id string
	body                 []byte
	search               search
	nth                  int
	base                 string
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	body, err := io.ReadAll(io.LimitReader(hr.Body, 64<<20))
	if err != nil {
		return // the client has left
	}
	r := &request{Request: hr, body: body, base: s.URL}
	if r.base == "" {
		r.base = "http://" + hr.Host
	}
	r.route()
	s.mu.Lock()
	s.counts[r.kind]++
	r.nth = s.counts[r.kind]
	if len(s.seen) < 10_000 {
		s.seen = append(s.seen, hr)
	}
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
	}()
	if r.kind == "search" || r.kind == "items" {
		if err := r.parse(s.o); err != nil {
			reply(w, 400, map[string]any{"code": "BadRequest", "description": err.Error()})
			return
		}
	}
	s.answer(w, r)
}

// answer applies the fault that is due, if any.
func (s *Server) answer(w http.ResponseWriter, r *request) {
	f := s.due(r)
	if f == nil {
		s.serve(w, r, Fault{})
		return
	}
	if f.Status > 0 {
		if f.Store {
			s.serve(httptest.NewRecorder(), r, Fault{})
		}
		if f.After != "" {
			w.Header().Set("Retry-After", f.After)
		}
		text := f.Body
		if text == "" {
			text = fmt.Sprintf(`{"code":"Fault","description":"as the script says: %d"}`, f.Status)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(f.Status)
		io.WriteString(w, text) //nolint:errcheck // the client may have left
		return
	}
	if !f.Reset && !f.Cut {
		s.serve(w, r, *f)
		return
	}
	rec := httptest.NewRecorder()
	s.serve(rec, r, *f)
	half := rec.Body.Bytes()[:rec.Body.Len()/2]
	if f.Cut {
		w.Header().Set("Content-Type", "application/geo+json")
		w.Write(half) //nolint:errcheck // the client may have left
		return
	}
	reset(w, half, rec.Body.Len())
}

// reset sends half of an answer and resets the connection.
func reset(w http.ResponseWriter, half []byte, length int) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err) // HTTP/1 can
	}
	fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/geo+json\r\nContent-Length: %d\r\n\r\n", length)
	conn.Write(half) //nolint:errcheck // the client may have left
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0) //nolint:errcheck // then it is closed in order, which is as early
	}
	conn.Close()
}

// due is the first fault that fits.
func (s *Server) due(r *request) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.o.Faults {
		f := &s.o.Faults[i]
		times := f.Times
		if times == 0 {
			times = 1
		}
		if f.Kind != "" && f.Kind != r.kind || f.Method != "" && f.Method != r.Method || f.Nth != 0 && f.Nth != r.nth ||
			f.Page != 0 && f.Page != r.search.page() || f.Collection != "" && !r.names(f.Collection) || times > 0 && s.fired[i] >= times {
			continue
		}
		s.fired[i]++
		return f
	}
	return nil
}

func (r *request) names(collection string) bool {
	if r.collection == collection {
		return true
	}
	for _, c := range r.search.Collections {
		if c == collection {
			return true
		}
	}
	return false
}

// route determines the kind of a request.
func (r *request) route() {
	parts := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
	for i, p := range parts {
		if plain, err := url.PathUnescape(p); err == nil {
			parts[i] = plain
		}
	}
	byMethod := map[string]string{"GET": "item", "PUT": "put", "PATCH": "patch", "DELETE": "delete"}
	switch n := len(parts); {
	case parts[0] == "":
		r.kind = "landing"
	case parts[0] == "search" && n == 1:
		r.kind = "search"
	case parts[0] == "token" && n == 1:
		r.kind = "token"
	case parts[0] != "collections":
		r.kind = "unknown"
	case n == 1:
		r.kind = "collections"
	case n == 2:
		r.kind, r.collection = "collection", parts[1]
	case n == 3 && parts[2] == "items" && r.Method == "POST":
		r.kind, r.collection = "create", parts[1]
	case n == 3 && parts[2] == "items":
		r.kind, r.collection = "items", parts[1]
	case n == 4 && parts[2] == "items" && byMethod[r.Method] != "":
		r.kind, r.collection, r.id = byMethod[r.Method], parts[1], parts[3]
	default:
		r.kind = "unknown"
	}
}

// serve answers as a sound server would, except for the links that f breaks.
func (s *Server) serve(w http.ResponseWriter, r *request, f Fault) {
	if r.kind == "token" {
		s.token(w, r)
		return
	}
	if s.o.Bearer != "" && r.Header.Get("Authorization") != "Bearer "+s.o.Bearer || s.o.Key != "" && r.URL.Query().Get(s.o.KeyQuery) != s.o.Key {
		reply(w, 401, map[string]any{"code": "Unauthorized", "description": "who are you? " + r.Header.Get("Authorization") + r.URL.RawQuery})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.kind {
	case "landing":
		s.landing(w, r)
	case "collections":
		s.collections(w, r)
	case "collection":
		if doc, ok := s.docs[r.collection]; ok {
			reply(w, 200, doc)
			return
		}
		notFound(w, "collection "+r.collection)
	case "items", "search":
		s.find(w, r, f)
	case "item":
		s.item(w, r)
	case "create", "put", "patch", "delete":
		s.change(w, r)
	default:
		notFound(w, r.URL.Path)
	}
}

func (s *Server) token(w http.ResponseWriter, r *request) {
	form, err := url.ParseQuery(string(r.body))
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("client:"+s.o.Secret))
	if err != nil || s.o.Secret == "" || form.Get("grant_type") != "client_credentials" || r.Header.Get("Authorization") != want {
		reply(w, 401, map[string]any{"error": "invalid_client", "sent": string(r.body)})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	reply(w, 200, map[string]any{"access_token": s.o.Bearer, "token_type": "Bearer", "expires_in": 3600})
}

// Rotate replaces the valid token.
func (s *Server) Rotate(bearer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.Bearer = bearer
}

func (s *Server) landing(w http.ResponseWriter, r *request) {
	classes := []string{"https://api.stacspec.org/v1.0.0/core"}
	links := []link{{"rel": "self", "href": r.base + "/", "type": "application/json"}}
	if s.o.NoList {
		for _, id := range s.order {
			links = append(links, link{"rel": "child", "href": r.base + "/collections/" + url.PathEscape(id)})
		}
	} else {
		classes = append(classes, "https://api.stacspec.org/v1.0.0/collections", "https://api.stacspec.org/v1.0.0/ogcapi-features",
			"https://api.stacspec.org/v1.0.0/ogcapi-features/extensions/transaction")
		links = append(links, link{"rel": "data", "href": r.base + "/collections", "type": "application/json"})
	}
	if !s.o.NoSearch {
		classes = append(classes, "https://api.stacspec.org/v1.0.0-rc.2/item-search")
		for _, method := range []string{"GET", "POST"} {
			links = append(links, link{"rel": "search", "href": r.base + "/search", "type": "application/geo+json", "method": method})
		}
	}
	reply(w, 200, map[string]any{"type": "Catalog", "stac_version": "1.0.0", "id": "chaos", "title": "Chaos", "description": "Breaks on request",
		"conformsTo": classes, "links": links})
}

type link map[string]any

func (s *Server) collections(w http.ResponseWriter, r *request) {
	if s.o.NoList {
		notFound(w, "/collections")
		return
	}
	start, err := strconv.Atoi(r.URL.Query().Get("start"))
	if err != nil {
		start = 0
	}
	size := len(s.order)
	if s.o.CollectionPage > 0 {
		size = s.o.CollectionPage
	}
	start = min(max(start, 0), len(s.order))
	end := min(start+size, len(s.order))
	docs := make([]json.RawMessage, 0, end-start)
	for _, id := range s.order[start:end] {
		docs = append(docs, s.docs[id])
	}
	links := []link{{"rel": "self", "href": r.base + "/collections"}}
	if end < len(s.order) {
		links = append(links, link{"rel": "next", "href": fmt.Sprintf("%s/collections?start=%d", r.base, end)})
	}
	reply(w, 200, map[string]any{"collections": docs, "links": links, "numberMatched": len(s.order), "numberReturned": len(docs)})
}

func (s *Server) item(w http.ResponseWriter, r *request) {
	e := s.index[r.collection+"\x00"+r.id]
	if e == nil {
		notFound(w, "item "+r.id)
		return
	}
	w.Header().Set("ETag", e.etag())
	reply(w, 200, e.text)
}

func (e *entry) etag() string { return fmt.Sprintf(`"rev-%d"`, e.rev) }

func notFound(w http.ResponseWriter, what string) {
	reply(w, 404, map[string]any{"code": "NotFound", "description": what + " does not exist"})
}

func reply(w http.ResponseWriter, status int, v any) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // all of it came from JSON
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(out.Bytes()) //nolint:errcheck // the client may have left
}
