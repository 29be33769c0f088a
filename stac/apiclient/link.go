package apiclient

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// Link is a link of a STAC document (STAC 1.1 and STAC API, Link object).
type Link struct {
	Rel    string          `json:"rel"`
	Href   string          `json:"href"`
	Type   string          `json:"type"`
	Title  string          `json:"title"`
	Method string          `json:"method"`
	Header map[string]any  `json:"headers"`
	Body   json.RawMessage `json:"body"`
	Merge  bool            `json:"merge"`
}

// isJSON reports whether a link leads to JSON. Landing pages offer the same in XML and HTML.
func (l Link) isJSON() bool {
	kind, _, _ := strings.Cut(strings.ToLower(l.Type), ";")
	return kind == "" || strings.HasSuffix(kind, "json") && !strings.HasSuffix(kind, "ld+json")
}

// parseLinks reads `links`; invalid links are skipped, since one bad link must not cost the page.
func parseLinks(raw []byte) []Link {
	var each []json.RawMessage
	if json.Unmarshal(raw, &each) != nil {
		return nil
	}
	links := make([]Link, 0, len(each))
	for _, text := range each {
		var l Link
		if json.Unmarshal(text, &l) == nil && l.Href != "" {
			links = append(links, l)
		}
	}
	return links
}

// upgrade makes an http link of a host that we reach by https an https one: servers behind a proxy do not
// know better (pystac-client#850).
func (c *Client) upgrade(u *url.URL) {
	if c.root.Scheme == "https" && u.Scheme == "http" && strings.EqualFold(u.Hostname(), c.root.Hostname()) && (u.Port() == "" || u.Port() == "80") {
		u.Scheme, u.Host = "https", c.root.Host
	}
}

// resolve makes a link's URL whole. The text of an absolute one stays as it is, but for our own API key.
func (c *Client) resolve(from, href string) (string, error) {
	at, err := url.Parse(from)
	if err != nil {
		at = c.root
	}
	u, err := at.Parse(href)
	if err != nil {
		return "", err
	}
	before := *u
	c.upgrade(u)
	c.strip(u)
	if *u == before && strings.Contains(href, "://") {
		return href, nil
	}
	return u.String(), nil
}

// linkRequest makes the request of a `next` link: body and headers replace those of the request before, or are
// laid over them when the link says merge (STAC API, item-search, pagination).
func (c *Client) linkRequest(from string, before Request, l Link) (*Request, error) {
	href, err := c.resolve(from, l.Href)
	if err != nil {
		return nil, err
	}
	next := &Request{Method: strings.ToUpper(l.Method), URL: href}
	if next.Method == "" {
		next.Method = "GET"
	}
	if l.Merge && len(before.Header) > 0 {
		next.Header = map[string]string{}
		for name, value := range before.Header {
			next.Header[name] = value
		}
	}
	for name, value := range l.Header {
		if next.Header == nil {
			next.Header = map[string]string{}
		}
		next.Header[name] = headerText(value)
	}
	if next.Method == "GET" {
		return next, nil
	}
	next.Body = l.Body
	if l.Merge {
		next.Body, err = overlay(before.Body, l.Body)
	}
	if next.Body == nil { // a search by POST needs one
		next.Body = json.RawMessage("{}")
	}
	return next, err
}

func headerText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = headerText(e)
		}
		return strings.Join(parts, ", ")
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(raw)
}

// overlay puts the members of one object over those of another, one level deep, in a stable order.
func overlay(under, over json.RawMessage) (json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	for _, raw := range []json.RawMessage{under, over} {
		if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
			continue
		}
		if err := json.Unmarshal(raw, &out); err != nil {
			return nil, err
		}
	}
	return json.Marshal(out)
}

// Leads reports whether `links` of a document hold one to a child or an item.
func Leads(raw []byte) bool {
	return slices.ContainsFunc(parseLinks(raw), func(l Link) bool { return l.Rel == "child" || l.Rel == "item" })
}
