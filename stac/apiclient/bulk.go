package apiclient

import (
	"bytes"
	"context"
	"net/http"
)

// Bulk says how CreateAll treats items that are there already.
type Bulk struct {
	// Upsert replaces them. Defaults to false: they are a Conflict and stay as they are.
	Upsert bool
	// Batch is how many items are sent at once. Defaults to 100.
	Batch int
	// MaxBytes bounds the text of a batch. Defaults to 8 MiB.
	MaxBytes int
	// Trust leaves out asking beforehand which ids are there: it saves a request per batch where conflicts
	// are rare. Then, when a batch fails that the server may have stored in part, an item that is there with
	// the same content counts as created. Defaults to false.
	Trust bool
}

// CreateAll adds items to a collection, many at a time, and returns the outcome of each, in the order given. Servers
// store failed batches in part, and do not say which items (stac-fastapi#614): a batch that fails is halved until the
// faulty items are alone. The error is that of ctx, or of a server that fails as a whole, as with Create; then the
// results are those so far, and the others have an empty Outcome.
func (c *Client) CreateAll(ctx context.Context, collection string, items []Feature, o Bulk) ([]Result, error) {
	if o.Batch <= 0 {
		o.Batch = 100
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 8 << 20
	}
	b := &bulk{c: c, collection: collection, o: o, items: items, results: make([]Result, len(items))}
	for i := range items {
		b.results[i].ID = items[i].ID
	}
	fresh, err := b.sort(ctx)
	for start := 0; err == nil && start < len(fresh); {
		end, size := start, 0
		for end < len(fresh) && end-start < o.Batch && (end == start || size+len(items[fresh[end]].Text) <= o.MaxBytes) {
			size += len(items[fresh[end]].Text)
			end++
		}
		err = b.post(ctx, fresh[start:end], false)
		start = end
	}
	return b.results, err
}

type bulk struct {
	c          *Client
	collection string
	o          Bulk
	items      []Feature
	results    []Result
	known      bool // which ids are there
	single     bool // the server takes no ItemCollection
}

// sort deals with the items that are there already, and gives the others.
func (b *bulk) sort(ctx context.Context) (fresh []int, err error) {
	there := map[string]bool{}
	if !b.o.Trust {
		ids := make([]string, len(b.items))
		for i, f := range b.items {
			ids[i] = f.ID
		}
		if there, b.known, err = b.c.Existing(ctx, b.collection, ids); err != nil {
			return nil, err
		}
		if there == nil {
			there = map[string]bool{}
		}
	}
	for i, f := range b.items {
		switch {
		case !there[f.ID]:
			fresh = append(fresh, i)
		case b.o.Upsert:
			if err := b.putItem(ctx, i); err != nil {
				return nil, err
			}
		default:
			b.results[i] = Result{ID: f.ID, Outcome: Conflict, Err: asError(b.collection, f.ID)}
		}
	}
	return fresh, nil
}

func (b *bulk) putItem(ctx context.Context, i int) (err error) {
	b.results[i], err = b.c.Put(ctx, b.collection, b.items[i].ID, b.items[i].Text, "")
	return err
}

// post sends some of the items. doubtful says that some of them may be stored by a batch that failed.
func (b *bulk) post(ctx context.Context, which []int, doubtful bool) error {
	if len(which) == 1 || b.single {
		for _, i := range which {
			if err := b.one(ctx, i, doubtful); err != nil {
				return err
			}
		}
		return nil
	}
	at, err := b.c.items(ctx, b.collection)
	if err != nil {
		return err
	}
	x := &exchange{Request: Request{Method: http.MethodPost, URL: at, Body: b.collect(which)}, kind: "application/geo+json", repeat: true}
	res, _, err := b.c.change(ctx, x)
	switch status := StatusOf(res.Err); {
	case err != nil:
		return err
	case res.Err == nil || status == http.StatusForbidden:
		for _, i := range which {
			b.results[i].Outcome, b.results[i].Err = res.Outcome, res.Err
		}
		return nil
	case status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented || status == http.StatusUnsupportedMediaType:
		b.single = true
		return b.post(ctx, which, doubtful)
	case status != http.StatusRequestEntityTooLarge:
		doubtful = true
	}
	if err := b.post(ctx, which[:len(which)/2], doubtful); err != nil {
		return err
	}
	return b.post(ctx, which[len(which)/2:], doubtful)
}

func (b *bulk) collect(which []int) []byte {
	var out bytes.Buffer
	out.WriteString(`{"type":"FeatureCollection","features":[`)
	for n, i := range which {
		if n > 0 {
			out.WriteByte(',')
		}
		out.Write(b.items[i].Text)
	}
	out.WriteString(`]}`)
	return out.Bytes()
}

// one sends a single item. doubtful says that it may be stored by a batch that failed.
func (b *bulk) one(ctx context.Context, i int, doubtful bool) error {
	f := b.items[i]
	res, err := b.c.create(ctx, b.collection, f, doubtful)
	if err != nil {
		return err
	}
	b.results[i] = res
	if res.Outcome == Conflict && b.o.Upsert {
		return b.putItem(ctx, i)
	}
	return nil
}
