package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
)

// Search is the conditions of a search (STAC API, item-search), as the body of a POST has them. Empty fields are not sent.
type Search struct {
	Collections []string        `json:"collections,omitempty"`
	IDs         []string        `json:"ids,omitempty"`
	Bbox        []float64       `json:"bbox,omitempty"`
	Intersects  json.RawMessage `json:"intersects,omitempty"`  // a GeoJSON geometry
	Datetime    string          `json:"datetime,omitempty"`    // an instant or an interval, as the API has them
	Limit       int             `json:"limit,omitempty"`       // of one page, a hint to the server
	Query       json.RawMessage `json:"query,omitempty"`       // query extension
	FilterLang  string          `json:"filter-lang,omitempty"` // Defaults to cql2-text for a text, cql2-json for an object
	Filter      json.RawMessage `json:"filter,omitempty"`      // CQL2, a JSON text or object
	SortBy      []Sort          `json:"sortby,omitempty"`
	Fields      *Fields         `json:"fields,omitempty"` // nil: all
}

// Sort is one field to sort by.
type Sort struct {
	Field     string `json:"field"`
	Direction string `json:"direction"` // asc or desc
}

// Fields are the members of items that are wanted and not wanted (fields extension).
type Fields struct {
	Include []string `json:"include,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
}

// Body is the search as the body of a POST.
func (s Search) Body() (json.RawMessage, error) {
	switch {
	case len(s.Filter) == 0 || s.FilterLang != "":
	case s.Filter[0] == '"':
		s.FilterLang = "cql2-text"
	default:
		s.FilterLang = "cql2-json"
	}
	return json.Marshal(s)
}

// check finds searches that no server could answer.
func (s Search) check() error {
	if len(s.Bbox) > 0 && len(s.Intersects) > 0 {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "bbox and intersects are both given", Hint: "a search has one of them"}
	}
	return nil
}

// members reads an object's members in their order.
func members(raw json.RawMessage) (names []string, values []json.RawMessage, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return nil, nil, err
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, nil, err
		}
		text, _ := name.(string) // a name is one
		names, values = append(names, text), append(values, value)
	}
	return names, values, nil
}

// byGET is a search by POST as a GET: its body becomes the query.
func byGET(r Request) (Request, error) {
	names, values, err := members(r.Body)
	if err != nil {
		return r, err
	}
	u, err := url.Parse(r.URL)
	if err != nil {
		return r, err
	}
	for i, name := range names {
		text, err := queryText(name, values[i])
		if err != nil {
			return r, err
		}
		if u.RawQuery != "" {
			u.RawQuery += "&"
		}
		u.RawQuery += url.QueryEscape(name) + "=" + url.QueryEscape(text)
	}
	return Request{Method: "GET", URL: u.String(), Header: r.Header}, nil
}

// queryText is a member of a search's body as the query has it.
func queryText(name string, value json.RawMessage) (string, error) {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text, nil
	}
	switch name {
	case "sortby":
		var sorts []Sort
		if err := json.Unmarshal(value, &sorts); err != nil {
			return "", err
		}
		for i, s := range sorts {
			if i > 0 {
				text += ","
			}
			if s.Direction == "desc" {
				text += "-"
			}
			text += s.Field
		}
		return text, nil
	case "fields":
		var f Fields
		if err := json.Unmarshal(value, &f); err != nil {
			return "", err
		}
		for _, e := range f.Exclude {
			f.Include = append(f.Include, "-"+e)
		}
		return strings.Join(f.Include, ","), nil
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		return string(value), nil // a number, or an object as JSON
	}
	parts := make([]string, len(list))
	for i, e := range list {
		if json.Unmarshal(e, &parts[i]) != nil {
			parts[i] = string(e)
		}
	}
	return strings.Join(parts, ","), nil
}

// byPOST is a search by GET as a POST, for one whose URL is too long.
func byPOST(r Request) (Request, error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return r, err
	}
	body := map[string]any{}
	for name, values := range u.Query() {
		body[name] = bodyValue(name, values[0])
	}
	u.RawQuery = ""
	raw, err := json.Marshal(body)
	return Request{Method: "POST", URL: u.String(), Header: r.Header, Body: raw}, err
}

// bodyValue is a parameter of a query as the body has it.
func bodyValue(name, text string) any {
	switch name {
	case "collections", "ids":
		return strings.Split(text, ",")
	case "bbox":
		var numbers []json.Number
		for part := range strings.SplitSeq(text, ",") {
			numbers = append(numbers, json.Number(strings.TrimSpace(part)))
		}
		return numbers
	case "limit":
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
	case "intersects", "query", "filter":
		if trimmed := strings.TrimSpace(text); strings.HasPrefix(trimmed, "{") && json.Valid([]byte(trimmed)) {
			return json.RawMessage(trimmed)
		}
	case "sortby":
		return ParseSort(strings.Split(text, ","))
	case "fields":
		return ParseFields(strings.Split(text, ","))
	}
	return text
}

// ParseSort reads fields with a sign in front: "-properties.datetime", "+id".
func ParseSort(texts []string) []Sort {
	sorts := make([]Sort, 0, len(texts))
	for _, t := range texts {
		t = strings.TrimSpace(t)
		switch field, down := strings.CutPrefix(t, "-"); {
		case t == "":
		case down:
			sorts = append(sorts, Sort{field, "desc"})
		default:
			sorts = append(sorts, Sort{strings.TrimPrefix(t, "+"), "asc"})
		}
	}
	return sorts
}

// ParseFields reads names, of which those with a minus are to be left out; nil when there are none.
func ParseFields(texts []string) *Fields {
	var f Fields
	for _, t := range texts {
		t = strings.TrimSpace(t)
		switch name, out := strings.CutPrefix(t, "-"); {
		case t == "":
		case out:
			f.Exclude = append(f.Exclude, name)
		default:
			f.Include = append(f.Include, strings.TrimPrefix(t, "+"))
		}
	}
	if len(f.Include)+len(f.Exclude) == 0 {
		return nil
	}
	return &f
}

// Start is the first request of a search. Without item-search it lists the items of the one collection.
func (c *Client) Start(ctx context.Context, s Search) (*Request, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	body, err := s.Body()
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the search cannot be written as JSON", Err: err}
	}
	l, err := c.Landing(ctx)
	if err != nil {
		return nil, err
	}
	post, get := c.search(l, "POST"), c.search(l, "GET")
	if post == "" && get == "" && c.Conforms(l, "item-search") {
		post = c.below("search")
	}
	r := Request{Method: "POST", URL: post, Body: body}
	switch {
	case post == "" && get == "":
		return c.list(l, s)
	case post != "" && (!c.noPost.Load() || get == ""):
	case get != "" && strings.EqualFold(c.o.Method, "POST"):
		r.URL = get
	default:
		r.URL = get
		r, err = byGET(r)
	}
	return &r, err
}

// CanSearch reports whether the API has an item search.
func (c *Client) CanSearch(ctx context.Context) (bool, error) {
	l, err := c.Landing(ctx)
	if err != nil {
		return false, err
	}
	return c.search(l, "") != "" || c.Conforms(l, "item-search"), nil
}

// list is the fallback without item-search (OGC API Features).
func (c *Client) list(l *Landing, s Search) (*Request, error) {
	invalid := func(message, hint string) error {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: c.shown(c.root.String()) + " " + message, Hint: hint}
	}
	switch {
	case !c.IsAPI(l):
		return nil, invalid("is no STAC API: it has neither conformsTo nor links to search or data", "a static catalog is read with mode: file")
	case len(s.Collections) != 1:
		return nil, invalid("has no item search, and the search is not for one collection", "give collection_id")
	case len(s.Query)+len(s.Intersects)+len(s.SortBy)+len(s.IDs) > 0 || s.Fields != nil:
		return nil, invalid("has no item search, so that ids, query, intersects, sortby and fields cannot be asked for",
			"leave them out, or add item-search to conformance.add if the server can do it after all")
	}
	collection := s.Collections[0]
	s.Collections, s.IDs = nil, nil
	body, err := s.Body()
	if err != nil {
		return nil, err
	}
	r, err := byGET(Request{URL: extend(c.collections(l), collection, "items"), Body: body})
	return &r, err
}
