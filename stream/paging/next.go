package paging

import (
	"encoding/json"
	"net/url"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/item"
)

// next is the way in which the next page is found. One of its ways is set.
type next struct {
	header bool      // the Link header
	link   item.Path // to a URL, or to links, in the body
	value  item.Path // to a cursor in the body
	param  string    // that takes a cursor or a number
	count  bool      // pages or items are numbered
	items  bool      // items, not pages
	start  int64
	sizeOf string // parameter of the size
	size   int64
}

// way is the way that the config names.
func (c nextConfig) way() (n next, err error) {
	ways := 0
	for _, given := range []bool{c.Link != "", c.Cursor != nil, c.Page != nil, c.Offset != nil} {
		if given {
			ways++
		}
	}
	bad := func(what string) error {
		return stepwell.Invalid("write one of link, cursor, page and offset", "next: %s", what)
	}
	switch {
	case ways > 1:
		return n, bad("more than one way is given")
	case ways == 0, c.Link == "header":
		return next{header: true}, nil
	case c.Link != "":
		n.link, err = item.ParsePath(c.Link)
		return n, err
	case c.Cursor != nil:
		n.param = c.Cursor.Param
		n.value, err = item.ParsePath(c.Cursor.Path)
		return n, err
	}
	counter, start := c.Page, int64(1)
	if counter == nil {
		counter, start = (*pageCounter)(c.Offset), 0
	}
	if counter.Start != nil {
		start = *counter.Start
	}
	if (counter.SizeOf == "") != (counter.Size == 0) {
		return n, bad("size_param and size belong together")
	}
	return next{count: true, items: c.Offset != nil, param: counter.Param, start: start, sizeOf: counter.SizeOf, size: counter.Size}, nil
}

// first is the cursor of the first page.
func (n next) first() cursor { return cursor{Count: n.start} }

// move moves the cursor behind a page with so many items.
func (n next) move(at *cursor, p *page, items int) (err error) {
	switch {
	case n.count && items == 0:
		at.Done = true
	case n.count && n.items:
		at.Count += int64(items)
	case n.count:
		at.Count++
	case n.value != nil:
		v := p.value.Find(n.value)
		s, isText := v.Str()
		if at.Done = v.IsNull() || isText && s == "" || string(v.Bytes()) == "false"; !at.Done {
			at.Value = json.RawMessage(v.Bytes())
		}
		if v.Kind() > item.Text {
			return stepwell.Invalid("", "the cursor of the next page is %s", v.Kind().String())
		}
	default:
		href := ""
		if n.header {
			href, err = outbound.NextLink(p.header)
		} else {
			href, err = linkIn(p.value.Find(n.link))
		}
		if at.Done = href == ""; err != nil || at.Done {
			return err
		}
		at.URL, err = n.absolute(p.url, href)
	}
	return err
}

const maxHref = 16 << 10

// absolute is a link of a page as a URL. It is not changed otherwise.
func (n next) absolute(from *url.URL, href string) (string, error) {
	if len(href) > maxHref {
		return "", &stepwell.Error{Code: stepwell.CodeLimit, Message: "the link to the next page is longer than 16 KiB", Hint: "the server's paging may grow without end"}
	}
	u, err := url.Parse(href)
	if err != nil {
		return "", stepwell.Invalid("", "the link to the next page is not a URL")
	}
	if !u.IsAbs() {
		u = from.ResolveReference(u)
		href = u.String()
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", stepwell.Invalid("", "the link to the next page is not an http or https URL")
	case u.Scheme == "http" && from.Scheme == "https":
		return "", stepwell.Invalid("correct the server's address of itself, or page by a parameter", "the link to the next page leads from https to http")
	}
	return href, nil
}

// linkIn finds the URL in the value of a path: a text, an object with href, or a list of links.
func linkIn(v *item.Value) (string, error) {
	if v.Kind() == item.List {
		links := v
		v = nil
		for _, l := range links.Elements() {
			if rel, _ := l.Get("rel").Str(); rel == "next" {
				v = l
				break
			}
		}
	}
	if v.Kind() == item.Object {
		v = v.Get("href")
	}
	if v.IsNull() {
		return "", nil
	}
	if s, ok := v.Str(); ok {
		return s, nil
	}
	if string(v.Bytes()) == "false" {
		return "", nil
	}
	return "", stepwell.Invalid("", "the link to the next page is %s", v.Kind().String())
}
