package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound"
)

// Outcome is the outcome of one item of a transaction.
type Outcome string

// The outcomes.
const (
	Created  Outcome = "created"
	Queued   Outcome = "queued" // 202: the server will do it
	Replaced Outcome = "replaced"
	Conflict Outcome = "conflict" // an item of that id was there, and was left alone
	Failed   Outcome = "failed"
)

// Result is the outcome for one item.
type Result struct {
	ID       string
	Outcome  Outcome
	Location string // where the item is, if the server said so
	ETag     string
	Err      error // of Failed and Conflict
}

// change sends one request of a transaction. The error of an item is in the Result; err is that of ctx, or of a server
// that fails as a whole. doubtful is that of send.
func (c *Client) change(ctx context.Context, x *exchange) (res Result, doubtful bool, err error) {
	x.limit = 16 << 20
	doubtful, err = c.send(ctx, x, func(r *reply) error {
		if _, err := io.Copy(io.Discard, r.body); err != nil {
			return err
		}
		res = Result{Outcome: Created, Location: r.Header.Get("Location"), ETag: r.Header.Get("ETag")}
		if r.Status == http.StatusAccepted {
			res.Outcome = Queued
		}
		return nil
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return Result{}, doubtful, context.Cause(ctx)
	case outage(err):
		return Result{}, doubtful, err
	case err != nil:
		res.Outcome, res.Err = Failed, err
	}
	return res, doubtful, nil
}

// items is where the items of a collection are.
func (c *Client) items(ctx context.Context, collection string, more ...string) (string, error) {
	l, err := c.Landing(ctx)
	if err != nil {
		return "", err
	}
	return extend(c.collections(l), append([]string{collection, "items"}, more...)...), nil
}

// CollectionLink is the URL of a collection for links that others read: without user, password and query.
func (c *Client) CollectionLink(ctx context.Context, collection string) (string, error) {
	l, err := c.Landing(ctx)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(extend(c.collections(l), collection))
	if err != nil {
		return "", err
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String(), nil
}

// Create adds an item. An existing one is Conflict; but when the answer to an earlier attempt was lost, and the server
// now has the same item, it is Created. The error is that of ctx, or of a server that fails as a whole (no connection,
// 401, and 429 or 503 for too long); errors of the item are in the Result.
func (c *Client) Create(ctx context.Context, collection string, text []byte) (Result, error) {
	return c.create(ctx, collection, feature(text), false)
}

// create is Create; doubtful says that the item may have been sent before.
func (c *Client) create(ctx context.Context, collection string, f Feature, doubtful bool) (Result, error) {
	at, err := c.items(ctx, collection)
	if err != nil {
		return Result{}, err
	}
	x := &exchange{Request: Request{Method: http.MethodPost, URL: at, Body: f.Text}, kind: "application/geo+json", repeat: true}
	res, again, err := c.change(ctx, x)
	if err != nil {
		return Result{}, err
	}
	if res.ID = f.ID; StatusOf(res.Err) != http.StatusConflict {
		return res, nil
	}
	res.Outcome = Conflict
	if doubtful || again {
		if there, etag, err := c.Item(ctx, collection, f.ID); err == nil && sameItem(there, f.Text) {
			res.Outcome, res.ETag, res.Err = Created, etag, nil
		}
	}
	return res, nil
}

// sameItem compares the members that servers do not change: geometry, properties except the record's times, assets.
func sameItem(a, b []byte) bool {
	var two [2]map[string]any
	for i, text := range [2][]byte{a, b} {
		dec := json.NewDecoder(bytes.NewReader(text))
		if dec.Decode(&two[i]) != nil {
			return false
		}
		if p, ok := two[i]["properties"].(map[string]any); ok {
			delete(p, "created")
			delete(p, "updated")
		}
	}
	for _, name := range []string{"geometry", "properties", "assets"} {
		x, errX := json.Marshal(two[0][name])
		y, errY := json.Marshal(two[1][name])
		if errX != nil || errY != nil || !bytes.Equal(x, y) {
			return false
		}
	}
	return true
}

// Put replaces an item. With an etag, only that version: another is a Conflict. The errors are as with
// Create.
func (c *Client) Put(ctx context.Context, collection, id string, text []byte, etag string) (Result, error) {
	return c.alter(ctx, http.MethodPut, collection, id, text, "application/geo+json", etag)
}

// Patch changes an item by a merge patch (RFC 7386), otherwise like Put.
func (c *Client) Patch(ctx context.Context, collection, id string, patch []byte, etag string) (Result, error) {
	return c.alter(ctx, http.MethodPatch, collection, id, patch, "application/merge-patch+json", etag)
}

// Delete deletes an item, otherwise like Put. A missing one counts as deleted.
func (c *Client) Delete(ctx context.Context, collection, id, etag string) (Result, error) {
	res, err := c.alter(ctx, http.MethodDelete, collection, id, nil, "", etag)
	if StatusOf(res.Err) == http.StatusNotFound {
		res.Outcome, res.Err = Replaced, nil
	}
	return res, err
}

func (c *Client) alter(ctx context.Context, method, collection, id string, text []byte, kind, etag string) (Result, error) {
	at, err := c.items(ctx, collection, id)
	if err != nil {
		return Result{}, err
	}
	x := &exchange{Request: Request{Method: method, URL: at, Body: text}, kind: kind, repeat: true}
	if etag != "" {
		x.header = http.Header{"If-Match": {etag}}
		x.repeat = false // the second time, the etag would be our own change's
	}
	res, _, err := c.change(ctx, x)
	if err != nil {
		return Result{}, err
	}
	res.ID = id
	switch status := StatusOf(res.Err); {
	case status == http.StatusPreconditionFailed || status == http.StatusConflict:
		res.Outcome = Conflict
	case res.Outcome == Created:
		res.Outcome = Replaced
	}
	return res, nil
}

// CanChange reports whether the API says that it takes transactions.
func (c *Client) CanChange(ctx context.Context) (bool, error) {
	l, err := c.Landing(ctx)
	if err != nil {
		return false, err
	}
	return c.Conforms(l, "extensions/transaction") || c.Conforms(l, "transaction"), nil
}

// Existing finds out which of some ids a collection has, in one search per 100. It reports false when the
// API cannot tell without asking for each.
func (c *Client) Existing(ctx context.Context, collection string, ids []string) (map[string]bool, bool, error) {
	can, err := c.CanSearch(ctx)
	if err != nil || !can {
		return nil, false, err
	}
	there := map[string]bool{}
	for start := 0; start < len(ids); start += 100 {
		part := ids[start:min(start+100, len(ids))]
		p, err := c.Search(ctx, Search{Collections: []string{collection}, IDs: part, Limit: len(part)})
		if err != nil {
			return nil, false, err
		}
		for {
			page, err := p.Next(ctx)
			if StatusOf(err) == http.StatusNotFound { // the collection is not there yet
				break
			}
			if err != nil {
				return nil, false, err
			}
			if page == nil {
				break
			}
			for _, f := range page.Features {
				there[f.ID] = true
			}
		}
	}
	return there, true, nil
}

// asError is the error of an item that is there already.
func asError(collection, id string) error {
	return &stepwell.Error{Code: stepwell.CodeConflict, Message: "item " + id + " is in collection " + collection + " already",
		Hint: "on_conflict: upsert replaces it"}
}

// outage reports whether an error is of the server as a whole, so that the next item would fare no better.
func outage(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err != nil
	}
	switch e.Status {
	case 0:
		return e.Kind != string(outbound.KindReset) && e.Kind != string(outbound.KindTruncated) && e.Kind != string(outbound.KindTimeout)
	case http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	}
	return false
}
