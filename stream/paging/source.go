package paging

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
)

// maxEmpty is how many empty pages in a row with a next one are followed.
const maxEmpty = 3

// source is the source of stream.pages.
type source struct {
	env    *stream.Env
	client *outbound.Client

	start    *url.URL
	method   string
	header   http.Header
	body     *item.Value // nil: none
	items    item.Path
	id       item.Path
	next     next
	maxPages int64
	maxItems int64
	maxBytes int64
	timeout  time.Duration
	retry    stepwell.Retry

	pages, given int64 // of this run
}

// check makes the source, and checks rules that tags cannot express.
func (c *config) check(given stream.Config) []error {
	if err := c.read(given); err != nil {
		return []error{err}
	}
	return nil
}

func (c *config) read(given stream.Config) (err error) {
	s := &c.source
	*s = source{method: cmp.Or(c.Method, http.MethodGet), maxPages: c.MaxPages, maxItems: c.MaxItems, maxBytes: c.MaxBytes, header: http.Header{}}
	if c.URL == "" && given.Early && given.Has("url") {
		c.URL = "https://template.invalid/"
	}
	if s.start, err = url.Parse(c.URL); err != nil || s.start.Host == "" || s.start.Scheme != "http" && s.start.Scheme != "https" {
		return stepwell.Invalid("write it like https://host/path", "url is not an http or https URL")
	}
	for name, v := range c.Headers {
		s.header.Set(name, fmt.Sprint(v))
	}
	if s.header.Get("Accept") == "" {
		s.header.Set("Accept", "application/json")
	}
	if err := c.paths(s); err != nil {
		return err
	}
	if s.next, err = c.Next.way(); err != nil {
		return err
	}
	if s.next.param != "" && s.body != nil && s.body.Kind() != item.Object {
		return stepwell.Invalid("write an object", "the body is %s, and has no place for %s", s.body.Kind().String(), s.next.param)
	}
	s.timeout = 5 * time.Minute
	s.retry = stepwell.Retry{MaxAttempts: c.Attempts, Backoff: time.Second, MaxBackoff: time.Minute}
	if c.Backoff != nil {
		s.retry.Backoff = *c.Backoff
	}
	if c.Timeout != nil {
		if s.timeout = *c.Timeout; s.timeout <= 0 {
			return stepwell.Invalid("", "timeout is not above 0")
		}
	}
	return nil
}

func (c *config) paths(s *source) (err error) {
	if c.Items != "" {
		if s.items, err = item.ParsePath(c.Items); err != nil {
			return err
		}
	}
	if c.ID != "" {
		if s.id, err = item.ParsePath(c.ID); err != nil {
			return err
		}
	}
	if c.Body == nil {
		return nil
	}
	if s.method != http.MethodPost {
		return stepwell.Invalid("", "a body needs `method: POST`")
	}
	if s.body, err = item.Of(c.Body); err != nil {
		return fmt.Errorf("body: %w", err)
	}
	return nil
}

// cursor is where reading goes on: the page that comes next. Secret parameters of the first URL are hidden
// in it.
type cursor struct {
	URL   string          `json:"url,omitempty"`   // of a link
	Value json.RawMessage `json:"value,omitempty"` // of a cursor
	Count int64           `json:"count,omitempty"` // the number of a page or an item
	Pages int64           `json:"pages"`           // before it
	Given int64           `json:"given"`           // items before it
	Empty int             `json:"empty,omitempty"` // pages just before it
	Done  bool            `json:"done,omitempty"`
}

// Read implements stream.Source.
func (s *source) Read(ctx context.Context, _ iter.Seq[*stream.Item], out stream.Out) error {
	at := s.next.first()
	if _, err := stream.State(s.env.Cursor, &at); err != nil {
		return fmt.Errorf("cursor: %w", err)
	}
	seen := map[[16]byte]bool{}
	for !at.Done {
		req, err := s.request(at)
		if err != nil {
			return err
		}
		if seen[req.key()] {
			return out.Fail(s.failure(stream.PaginationLoop, req, stepwell.Invalid("the server's paging is broken; what came before is complete", "the next page is one that has been read: %s", req.shown)))
		}
		seen[req.key()] = true
		if at.Pages >= s.maxPages {
			return out.Fail(s.failure(stream.PaginationLoop, req, &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("there is a page beyond the %d allowed", s.maxPages), Hint: "raise `max_pages`"}))
		}
		p, err := s.fetch(ctx, req)
		if err != nil {
			return err
		}
		enough, err := s.page(p, &at, out)
		if err != nil {
			return err
		}
		at.Done = at.Done || enough
		if err := out.Mark(at); err != nil {
			return err
		}
	}
	return nil
}

func (s *source) failure(kind string, req *request, err error) stream.Failure {
	return stream.Failure{Type: kind, Err: err, Context: stream.Context{URL: req.shown}}
}

// page gives the items of a page, and moves the cursor to the next one. It reports whether max_items is reached.
func (s *source) page(p *page, at *cursor, out stream.Out) (enough bool, err error) {
	list, err := s.list(p)
	if err != nil {
		return false, err
	}
	s.pages++
	for i, v := range list.Elements() {
		if s.maxItems > 0 && at.Given >= s.maxItems {
			return true, nil
		}
		it, err := s.item(v, p)
		if err != nil {
			err = out.Fail(stream.Failure{Err: fmt.Errorf("item %d of the page: %w", i+1, err), Context: stream.Context{URL: p.shown}})
		} else {
			at.Given++
			s.given++
			err = out.Item(it)
		}
		if err != nil {
			return false, err
		}
	}
	n := list.Len()
	at.Pages++
	if err := s.next.move(at, p, n); err != nil {
		return false, s.broken(p, err)
	}
	if at.Empty++; n > 0 {
		at.Empty = 0
	}
	if !at.Done && at.Empty >= maxEmpty {
		s.env.Log(slog.LevelWarn, "the server gives one empty page after another; reading ends", slog.String("url", p.shown))
		at.Done = true
	}
	if at.URL != "" {
		at.URL = s.hide(at.URL)
	}
	return false, nil
}

// broken is the error of an invalid page.
func (s *source) broken(p *page, err error) error {
	return &stream.Error{Type: stream.NetworkError, Context: stream.Context{URL: p.shown, Status: p.status}, Err: err}
}

// list is the list of items in a page.
func (s *source) list(p *page) (*item.Value, error) {
	var found *item.Value
	where := "the page is not a list, and has no `features`"
	switch {
	case s.items != nil:
		found, where = p.value.Find(s.items), s.items.String()+" is not in the page, or is not a list"
	case p.value.Kind() == item.List:
		found = p.value
	default:
		found = p.value.Get("features")
	}
	if found.Kind() != item.List && !(found != nil && found.IsNull()) {
		return nil, s.broken(p, stepwell.Invalid("`items` is the path to the list", "%s: %s", where, p.excerpt))
	}
	return found, nil
}

func (s *source) item(v *item.Value, p *page) (*stream.Item, error) {
	if v.Kind() != item.Object {
		return nil, stepwell.Invalid("", "it is %s, not an object", v.Kind().String())
	}
	it := stream.New(v.Clone(), stream.Place{URL: p.shown})
	if s.id == nil {
		return it, nil
	}
	id := it.Find(s.id)
	name, ok := id.Str()
	if id.Kind() == item.Number {
		name, ok = string(id.Bytes()), true
	}
	if !ok || name == "" {
		return nil, stepwell.Invalid("", "%s, which is to be the id, is missing or empty", s.id.String())
	}
	it.Set("id", item.OfText(name))
	return it, nil
}

// Remote implements stream.Remote.
func (s *source) Remote() bool { return true }

// Finish implements stream.Finisher.
func (s *source) Finish(error) (any, error) {
	return map[string]any{"pages": s.pages, "items": s.given}, nil
}

// hide takes the values of the first URL's secret parameters out of another URL, and leaves the rest as it is.
func (s *source) hide(text string) string {
	return eachParam(text, func(name, value string) string {
		if secret := s.secrets()[name]; secret != "" && unescaped(value) == unescaped(secret) {
			return outbound.Hidden
		}
		return value
	})
}

// unhide puts them in again.
func (s *source) unhide(text string) string {
	return eachParam(text, func(name, value string) string {
		if secret := s.secrets()[name]; secret != "" && value == outbound.Hidden {
			return secret
		}
		return value
	})
}

// secrets are the secret parameters of the first URL, as they are written there.
func (s *source) secrets() map[string]string {
	found := map[string]string{}
	eachParam("?"+s.start.RawQuery, func(name, value string) string {
		if outbound.SecretName(name) {
			found[name] = value
		}
		return value
	})
	return found
}

// eachParam replaces the values of a URL's parameters by those of f.
func eachParam(text string, f func(name, value string) string) string {
	head, query, ok := strings.Cut(text, "?")
	if !ok {
		return text
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		if name, value, ok := strings.Cut(pair, "="); ok {
			pairs[i] = name + "=" + f(unescaped(name), value)
		}
	}
	return head + "?" + strings.Join(pairs, "&")
}

func unescaped(text string) string {
	plain, err := url.QueryUnescape(text)
	if err != nil {
		return text
	}
	return plain
}
