package stactest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// search is the conditions of a search, by GET or POST. Token is the number of the item to begin with, and the number
// of the page: "200.3".
type search struct {
	Collections []string  `json:"collections"`
	IDs         []string  `json:"ids"`
	Bbox        []float64 `json:"bbox"`
	Datetime    string    `json:"datetime"`
	Limit       int       `json:"limit"`
	Token       string    `json:"token"`
	Fields      *struct {
		Include, Exclude []string
	} `json:"fields"`
	from, to time.Time
}

func (s *search) start() (item, page int) {
	if _, err := fmt.Sscanf(s.Token, "%d.%d", &item, &page); err != nil {
		return 0, 1
	}
	return item, page
}

func (s *search) page() int {
	_, page := s.start()
	return page
}

// parse reads the search of a request.
func (r *request) parse(o Options) error {
	s := &r.search
	if r.Method == http.MethodPost {
		if err := json.Unmarshal(r.body, s); err != nil {
			return err
		}
	} else if err := s.query(r.URL.Query()); err != nil {
		return err
	}
	if token := r.Header.Get("Search-After"); token != "" {
		s.Token = token
	}
	if r.kind == "items" {
		s.Collections = []string{r.collection}
	}
	if s.Limit <= 0 {
		s.Limit = o.PageSize
	}
	s.Limit = min(s.Limit, o.MaxPage)
	if len(s.Bbox) != 0 && len(s.Bbox) != 4 && len(s.Bbox) != 6 {
		return fmt.Errorf("bbox has %d numbers", len(s.Bbox))
	}
	return s.times()
}

func (s *search) query(q url.Values) error {
	list := func(name string) []string {
		if text := q.Get(name); text != "" {
			return strings.Split(text, ",")
		}
		return nil
	}
	s.Collections, s.IDs, s.Datetime, s.Token = list("collections"), list("ids"), q.Get("datetime"), q.Get("token")
	for _, text := range list("bbox") {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return err
		}
		s.Bbox = append(s.Bbox, n)
	}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		s.Limit = n
	}
	return nil
}

func (s *search) times() error {
	if s.Datetime == "" {
		return nil
	}
	a, b, both := strings.Cut(s.Datetime, "/")
	if !both {
		b = a
	}
	for _, end := range []struct {
		text string
		to   *time.Time
	}{{a, &s.from}, {b, &s.to}} {
		if end.text == "" || end.text == ".." {
			continue
		}
		t, err := time.Parse(time.RFC3339Nano, end.text)
		if err != nil {
			return fmt.Errorf("datetime %q is not RFC 3339", s.Datetime)
		}
		*end.to = t
	}
	return nil
}

func (s *search) matches(e *entry) bool {
	if len(s.Collections) > 0 && !slices.Contains(s.Collections, e.collection) || len(s.IDs) > 0 && !slices.Contains(s.IDs, e.id) {
		return false
	}
	if len(s.Bbox) == 0 && s.Datetime == "" {
		return true
	}
	var doc struct {
		Bbox       []float64
		Properties struct{ Datetime string }
	}
	if json.Unmarshal(e.text, &doc) != nil {
		return false
	}
	if n := len(s.Bbox) / 2; n > 0 {
		m := len(doc.Bbox) / 2
		if m == 0 || doc.Bbox[0] > s.Bbox[n] || doc.Bbox[m] < s.Bbox[0] || doc.Bbox[1] > s.Bbox[n+1] || doc.Bbox[m+1] < s.Bbox[1] {
			return false
		}
	}
	at, err := time.Parse(time.RFC3339Nano, doc.Properties.Datetime)
	return s.Datetime == "" || err == nil && !at.Before(s.from) && (s.to.IsZero() || !at.After(s.to))
}

// find answers a search.
func (s *Server) find(w http.ResponseWriter, r *request, f Fault) {
	if r.kind == "search" && (s.o.NoSearch || s.o.NoPost && r.Method == http.MethodPost) {
		status := http.StatusMethodNotAllowed
		if s.o.NoSearch {
			status = http.StatusNotFound
		}
		reply(w, status, map[string]any{"code": "Refused", "description": r.Method + " is not for this"})
		return
	}
	if _, ok := s.docs[r.collection]; r.kind == "items" && !ok {
		notFound(w, "collection "+r.collection)
		return
	}
	start, page := r.search.start()
	var found []*entry
	for _, e := range s.items {
		if r.search.matches(e) {
			found = append(found, e)
		}
	}
	end := min(start+r.search.Limit, len(found))
	first := min(start, len(found))
	if page > 1 {
		first = max(0, first-s.o.Overlap)
	}
	if f.Empty {
		end, first = start, start
	}
	features := make([]any, 0, end-first)
	for _, e := range found[first:end] {
		features = append(features, r.search.project(e))
	}
	out := map[string]any{"type": "FeatureCollection", "features": features, "numberReturned": len(features)}
	if !s.o.NoCount {
		out["numberMatched"] = len(found)
	}
	links := []link{{"rel": "self", "href": r.base + r.URL.String()}}
	token := fmt.Sprintf("%d.%d", end, page+1)
	if f.SameNext {
		token = r.search.Token
		if page == 1 {
			token = fmt.Sprintf("%d.%d", end, 2)
		}
	}
	if end < len(found) || f.SameNext {
		next := s.next(r, token, f)
		if s.o.Paging == ByLinkHead {
			w.Header().Set("Link", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="next"; type="application/geo+json"`, r.base, next["href"]))
		} else {
			links = append(links, next)
		}
	}
	out["links"] = links
	reply(w, 200, out)
}

// project applies `fields`, roughly: members and properties by name.
func (s *search) project(e *entry) any {
	if s.Fields == nil || len(s.Fields.Include) == 0 {
		return e.text
	}
	var doc map[string]json.RawMessage
	if json.Unmarshal(e.text, &doc) != nil {
		return e.text
	}
	out := map[string]any{"id": doc["id"], "collection": doc["collection"]}
	for _, name := range s.Fields.Include {
		if v, ok := doc[name]; ok {
			out[name] = v
		}
	}
	return out
}

// next makes the link to the next page.
func (s *Server) next(r *request, token string, f Fault) link {
	base := r.base
	if f.NextHost != "" {
		base = f.NextHost
	}
	byGet := r.Method == http.MethodGet || s.o.Paging == ByGET || s.o.Paging == ByLinkHead || f.NextPad > 0
	switch {
	case s.o.Paging == ByHeader:
		l := link{"rel": "next", "href": base + r.URL.String(), "method": r.Method, "headers": map[string]string{"Search-After": token}}
		if r.Method == http.MethodPost {
			l["body"] = json.RawMessage(r.body)
		}
		return l
	case s.o.Paging == ByMerge && !byGet:
		return link{"rel": "next", "href": base + "/search", "method": "POST", "merge": true, "body": map[string]any{"token": token}}
	case !byGet:
		var body map[string]any
		if json.Unmarshal(r.body, &body) != nil {
			body = map[string]any{}
		}
		body["token"] = token
		return link{"rel": "next", "href": base + "/search", "method": "POST", "body": body}
	}
	q := r.search.values()
	q.Set("token", token)
	if f.NextPad > 0 {
		q.Set("pad", strings.Repeat("x", f.NextPad))
	}
	if s.o.KeyQuery != "" {
		q.Set(s.o.KeyQuery, s.o.Key) // as careless servers do
	}
	return link{"rel": "next", "href": base + r.URL.Path + "?" + q.Encode()}
}

func (s *search) values() url.Values {
	q := url.Values{"limit": {strconv.Itoa(s.Limit)}}
	set := func(name string, list []string) {
		if len(list) > 0 {
			q.Set(name, strings.Join(list, ","))
		}
	}
	set("collections", s.Collections)
	set("ids", s.IDs)
	var box []string
	for _, n := range s.Bbox {
		box = append(box, strconv.FormatFloat(n, 'g', -1, 64))
	}
	set("bbox", box)
	if s.Datetime != "" {
		q.Set("datetime", s.Datetime)
	}
	return q
}
