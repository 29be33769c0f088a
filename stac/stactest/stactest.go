// Package stactest has a STAC API server that misbehaves on request, for the tests of whatever talks to
// one, and for trying a workflow by hand.
//
// A Server holds collections and items in memory, serves them as STAC API does (landing page, collections,
// items, item-search by GET and POST with pages, transactions), follows a script of faults, and counts what
// reaches it. Server is an http.Handler; Start puts it on the loopback interface for a test. Test support:
// imported by tests alone. Stable.
package stactest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Paging is how a page leads to the next one.
type Paging string

// The ways.
const (
	ByMethod   Paging = ""           // as the request came: GET with a token in the href, POST with the whole body
	ByGET      Paging = "get"        // always by GET, with everything in the href
	ByMerge    Paging = "merge"      // by POST with merge: true and only the token in the body
	ByHeader   Paging = "header"     // the token in a header that the link names
	ByLinkHead Paging = "linkheader" // no link in the body, but a Link header (RFC 8288)
)

// Options make a Server.
type Options struct {
	// Items are served in this order; their `collection` says where they belong. Collections without a
	// document get one.
	Items []json.RawMessage
	// Collections are documents. Defaults to those that the items name.
	Collections []json.RawMessage
	Paging      Paging
	// PageSize is served when a request has no limit, MaxPage the most. Default to 10 and 10,000.
	PageSize, MaxPage int
	// CollectionPage is the page size of /collections. Defaults to all in one.
	CollectionPage int
	// Overlap makes each page begin with so many of the last items of the page before. Defaults to 0.
	Overlap int
	// NoSearch leaves out item-search, NoPost answers 405 to a search by POST though the landing page
	// offers it, NoList leaves out /collections: there are child links. NoCount leaves out numberMatched.
	NoSearch, NoPost, NoList, NoCount bool
	// Bearer is the token that every request needs; Token makes the server give it at /token for the
	// client "client" with the secret Secret. KeyQuery and Key are an API key in the query. Default to none.
	Bearer, Secret string
	KeyQuery, Key  string
	// Partial makes a batch that fails with 409 store the items before the one to blame.
	Partial bool
	// Single answers 405 to a batch. MaxBatch answers 413 to larger ones. Default to false and any.
	Single   bool
	MaxBatch int
	Faults   []Fault
}

// Fault is one thing that goes wrong. All conditions must be met.
type Fault struct {
	Kind       string `json:"kind,omitempty"`       // of the request, as Count has them: "search", "create" … Defaults to any
	Method     string `json:"method,omitempty"`     // Defaults to any
	Nth        int    `json:"nth,omitempty"`        // the request of that kind, from 1. Defaults to any
	Page       int    `json:"page,omitempty"`       // of a search, from 1. Defaults to any
	Collection string `json:"collection,omitempty"` // Defaults to any
	Times      int    `json:"times,omitempty"`      // how often. Defaults to 1; -1: always

	Status int    `json:"status,omitempty"` // answered instead
	After  string `json:"after,omitempty"`  // Retry-After
	Body   string `json:"body,omitempty"`
	// Store carries the request out before the fault: the client does not hear of it.
	Store    bool   `json:"store,omitempty"`
	Reset    bool   `json:"reset,omitempty"`     // the connection is reset in the middle of the body
	Cut      bool   `json:"cut,omitempty"`       // 200, and half of the JSON, well framed
	SameNext bool   `json:"same_next,omitempty"` // the next link leads to the same page for ever
	NextHost string `json:"next_host,omitempty"` // the next link leads to this origin ("http://host:port")
	NextPad  int    `json:"next_pad,omitempty"`  // the next link is by GET and has so many characters more
	Empty    bool   `json:"empty,omitempty"`     // an empty page before this one
}

// Server is the server. It is safe for concurrent use.
type Server struct {
	URL string // set by Start; else the Host of each request counts

	o      Options
	mu     sync.Mutex
	items  []*entry
	index  map[string]*entry
	order  []string // collections
	docs   map[string]json.RawMessage
	counts map[string]int
	fired  []int
	seen   []*http.Request
	now    int
	most   int
}

type entry struct {
	text           json.RawMessage
	id, collection string
	rev            int
}

// New makes a server; items without an id are an error.
func New(o Options) (*Server, error) {
	if o.PageSize <= 0 {
		o.PageSize = 10
	}
	if o.MaxPage <= 0 {
		o.MaxPage = 10_000
	}
	s := &Server{o: o, index: map[string]*entry{}, docs: map[string]json.RawMessage{}, counts: map[string]int{}, fired: make([]int, len(o.Faults))}
	for _, text := range o.Collections {
		var c struct{ ID string }
		if err := json.Unmarshal(text, &c); err != nil || c.ID == "" {
			return nil, fmt.Errorf("a collection without an id: %w", err)
		}
		s.order = append(s.order, c.ID)
		s.docs[c.ID] = text
	}
	for _, text := range o.Items {
		e, err := entryOf(text)
		if err != nil {
			return nil, err
		}
		s.keep(e)
	}
	return s, nil
}

func entryOf(text json.RawMessage) (*entry, error) {
	var doc struct{ ID, Collection string }
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if doc.ID == "" {
		return nil, fmt.Errorf("an item without an id")
	}
	return &entry{text: text, id: doc.ID, collection: doc.Collection, rev: 1}, nil
}

// keep stores an item. The caller holds the lock.
func (s *Server) keep(e *entry) {
	key := e.collection + "\x00" + e.id
	if old, ok := s.index[key]; ok {
		old.text = e.text
		old.rev++
		return
	}
	s.items = append(s.items, e)
	s.index[key] = e
	if _, ok := s.docs[e.collection]; !ok {
		s.order = append(s.order, e.collection)
		s.docs[e.collection] = emptyCollection(e.collection)
	}
}

func emptyCollection(id string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"type":"Collection","stac_version":"1.0.0","id":%q,"title":"Title of %s","description":"Items of %s","license":"other",`+
		`"extent":{"spatial":{"bbox":[[-180,-90,180,90]]},"temporal":{"interval":[["2000-01-01T00:00:00Z","2030-01-01T00:00:00Z"]]}},"links":[]}`, id, id, id))
}

// Start starts a server that ends with the test.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	s.URL = h.URL
	return s
}

// Count is how many requests of a kind have come: "landing", "collections", "collection", "items",
// "item", "search", "create", "put", "patch", "delete", "token".
func (s *Server) Count(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[kind]
}

// Most is how many requests were under way at once at most.
func (s *Server) Most() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// Requests are the requests so far, up to 10,000, without their bodies.
func (s *Server) Requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// IDs are the ids of a collection's items in their order.
func (s *Server) IDs(collection string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, e := range s.items {
		if e.collection == collection {
			ids = append(ids, e.id)
		}
	}
	return ids
}

// Item is the text of an item, nil when there is none.
func (s *Server) Item(collection, id string) json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.index[collection+"\x00"+id]; e != nil {
		return e.text
	}
	return nil
}

// Lines reads the objects of an NDJSON file.
func Lines(path string) ([]json.RawMessage, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []json.RawMessage
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			out = append(out, slices.Clone(line))
		}
		if err == io.EOF { //nolint:errorlint // bare
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// Generate makes n items "item-00001" … of a collection, a day apart from 2020 on, each a degree east of
// the one before.
func Generate(collection string, n int) []json.RawMessage {
	out := make([]json.RawMessage, n)
	for i := range n {
		lon, day := float64(i%350)-175, fmt.Sprintf("%04d-%02d-%02dT00:00:00Z", 2020+i/336, 1+i/28%12, 1+i%28)
		out[i] = json.RawMessage(fmt.Sprintf(`{"type":"Feature","stac_version":"1.0.0","id":"item-%05d","collection":%q,"geometry":{"type":"Point","coordinates":[%g,10]},`+
			`"bbox":[%g,10,%g,10],"properties":{"datetime":%q,"n":%d},"links":[],"assets":{}}`, i+1, collection, lon, lon, lon, day, i))
	}
	return out
}

// ReadFaults reads a script of faults: a JSON list.
func ReadFaults(text string) ([]Fault, error) {
	var faults []Fault
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	return faults, dec.Decode(&faults)
}
