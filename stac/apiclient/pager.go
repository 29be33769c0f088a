package apiclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound"
)

// Pager goes through the pages of one search, or of a list. It is not for several goroutines.
type Pager struct {
	c      *Client
	key    string // of the list in a page
	next   *Request
	number int
	items  *window
	asked  *window
	recent []xxh3.Uint128 // the last page's keys
	empty  int
	stale  int
	err    error // to be told instead of a next page
}

// Cursor says where a search goes on: at most one page is fetched again by a Pager that is made of it. It
// holds no secrets of ours.
type Cursor struct {
	Next   *Request `json:"next"`
	Page   int      `json:"page"`             // pages behind us
	Recent string   `json:"recent,omitempty"` // the keys of the last page, hashed
}

// Search begins a search.
func (c *Client) Search(ctx context.Context, s Search) (*Pager, error) {
	next, err := c.Start(ctx, s)
	if err != nil {
		return nil, err
	}
	return c.pager("features", next), nil
}

// Resume goes on with a search.
func (c *Client) Resume(at Cursor) *Pager {
	p := c.pager("features", at.Next)
	p.number = at.Page
	p.items.unpack(at.Recent)
	return p
}

func (c *Client) pager(key string, next *Request) *Pager {
	return &Pager{c: c, key: key, next: next, items: newWindow(), asked: newWindow()}
}

// Cursor is where a Pager made later goes on: behind the page that Next gave last. It reports false at
// the end.
func (p *Pager) Cursor() (Cursor, bool) {
	if p.next == nil || p.err != nil {
		return Cursor{}, false
	}
	return Cursor{Next: p.next, Page: p.number, Recent: packKeys(p.recent)}, true
}

// Next fetches the next page; nil after the last. The error is a *Error, or the cause of ctx; after an
// error there are no more pages.
func (p *Pager) Next(ctx context.Context) (*Page, error) {
	if p.err != nil {
		err := p.err
		p.err, p.next = nil, nil
		return nil, err
	}
	if p.next == nil {
		return nil, nil
	}
	r := *p.next
	p.asked.add(r.hash())
	d, from, err := p.c.fetch(ctx, &r, p.key)
	if err != nil {
		p.next = nil
		return nil, err
	}
	p.number++
	page := &Page{Number: p.number, Matched: d.matched, URL: p.c.shown(r.URL), Features: d.features}
	p.dedupe(page)
	p.turn(page, d, r, from)
	return page, nil
}

// dedupe removes the items of earlier pages.
func (p *Pager) dedupe(page *Page) {
	all := len(page.Features)
	p.recent = p.recent[:0]
	page.Features = slices.DeleteFunc(page.Features, func(f Feature) bool {
		if f.ID == "" {
			return false // its errors are found later
		}
		key := keyOf(f)
		p.recent = append(p.recent, key)
		return !p.items.add(key)
	})
	page.Duplicates = all - len(page.Features)
	p.empty, p.stale = grow(p.empty, all == 0), grow(p.stale, all > 0 && page.Duplicates == all)
}

func grow(n int, more bool) int {
	if more {
		return n + 1
	}
	return 0
}

// turn finds the next page's request, and whether there is to be one.
func (p *Pager) turn(page *Page, d *document, r Request, from string) {
	p.next = nil
	link, ok := nextOf(d.links)
	if !ok {
		return
	}
	next, err := p.c.linkRequest(from, r, link)
	if err != nil {
		p.err = p.fault("content", r.URL, "page "+fmt.Sprint(p.number)+" has a next link that is not valid", err)
		return
	}
	switch {
	case !p.asked.fresh(next.hash()):
		p.err = p.fault(KindLoop, next.URL, fmt.Sprintf("page %d leads to a page that was there before", p.number), nil)
	case p.stale >= p.c.o.EmptyPages:
		p.err = p.fault(KindLoop, next.URL, fmt.Sprintf("%d pages in a row brought nothing but items of pages before", p.stale), nil)
	case p.empty > p.c.o.EmptyPages:
		page.Warning = fmt.Sprintf("%d pages in a row are empty, though each has a next; the search ends here", p.empty)
	default:
		p.next = next
	}
}

func (p *Pager) fault(kind, href, message string, cause error) error {
	return &Error{Kind: kind, URL: p.c.shown(href), Attempts: 1, Err: &stepwell.Error{Code: stepwell.CodeFailed,
		Message: p.c.redact.Text(p.c.shown(href) + ": " + message), Hint: "the server's paging is broken; ask for smaller parts by datetime, or read it with another limit", Err: cause}}
}

// fresh reports whether the window does not have the key.
func (w *window) fresh(key xxh3.Uint128) bool {
	_, known := w.has[key]
	return !known
}

func nextOf(links []Link) (Link, bool) {
	for _, l := range links {
		if l.Rel == "next" {
			return l, true
		}
	}
	return Link{}, false
}

// fetch gets one page. A request refused by POST is repeated by GET, also in the middle of a search
// (pystac-client#846), and one too long for a URL by POST (#680). r is then the request sent.
func (c *Client) fetch(ctx context.Context, r *Request, key string) (d *document, from string, err error) {
	if r.Method == http.MethodPost && c.noPost.Load() {
		if *r, err = byGET(*r); err != nil {
			return nil, "", &Error{Kind: "content", URL: c.shown(r.URL), Attempts: 1, Err: err}
		}
	}
	if r.Method != http.MethodPost && len(r.URL) > c.o.MaxHref {
		return c.lengthy(ctx, r, key, len(r.URL))
	}
	d, from, err = c.page(ctx, *r, key)
	switch status := StatusOf(err); {
	case r.Method == http.MethodPost && (status == http.StatusMethodNotAllowed || status == http.StatusNotFound || status == http.StatusNotImplemented) && c.o.Method == "":
		get, gerr := byGET(*r)
		if gerr != nil {
			return nil, "", err
		}
		if len(get.URL) > c.o.MaxHref {
			return nil, "", &Error{Kind: "limit", URL: c.shown(r.URL), Status: status, Attempts: 1, Err: &stepwell.Error{Code: stepwell.CodeLimit,
				Message: fmt.Sprintf("%v; by GET, the search would be a URL of %d characters", err, len(get.URL)), Hint: "ask for less at once: a simpler geometry, fewer ids"}}
		}
		d, from, err = c.page(ctx, get, key)
		if err == nil {
			c.noPost.Store(true)
			*r = get
		}
	case r.Method != http.MethodPost && status == http.StatusRequestURITooLong:
		return c.lengthy(ctx, r, key, len(r.URL))
	}
	return d, from, err
}

// lengthy asks by POST for a page whose URL is too long.
func (c *Client) lengthy(ctx context.Context, r *Request, key string, n int) (*document, string, error) {
	tooLong := &Error{Kind: "limit", URL: c.shown(r.URL)[:min(200, len(c.shown(r.URL)))], Status: http.StatusRequestURITooLong, Attempts: 1,
		Err: &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("a page's URL has %d characters, and the server takes no search by POST instead", n),
			Hint: "ask for less at once: a simpler geometry, fewer ids"}}
	if c.noPost.Load() || key != "features" {
		return nil, "", tooLong
	}
	post, err := byPOST(*r)
	if err != nil {
		return nil, "", tooLong
	}
	d, from, err := c.page(ctx, post, key)
	if status := StatusOf(err); status == http.StatusMethodNotAllowed || status == http.StatusNotFound || status == http.StatusNotImplemented {
		return nil, "", tooLong
	}
	if err == nil {
		*r = post
	}
	return d, from, err
}

// page gets one page as it is asked for.
func (c *Client) page(ctx context.Context, r Request, key string) (d *document, from string, err error) {
	x := &exchange{Request: r, repeat: true}
	_, err = c.send(ctx, x, func(rep *reply) error {
		got, err := readPage(rep.body, key)
		if f, ok := errors.AsType[*outbound.Failure](err); ok && f.Kind == outbound.KindLimit {
			f.Err.Hint = "ask for smaller pages with limit"
			return f
		}
		if err != nil {
			return rep.broken(err)
		}
		if !got.found {
			return rep.content("answered without " + key + ": " + rep.Excerpt(rep.head.kept))
		}
		if _, ok := nextOf(got.links); !ok {
			if href, err := outbound.NextLink(rep.Header); err == nil && href != "" {
				got.links = append(got.links, Link{Rel: "next", Href: href})
			}
		}
		d, from = got, rep.URL.String()
		return nil
	})
	return d, from, err
}
