package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"

	"github.com/gofrs/flock"
	"github.com/zeebo/xxh3"
	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/apiclient"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/durable"
)

var errNoHTTP = &stepwell.Error{Code: stepwell.CodeInvalid, Message: "format api needs an HTTP client, and this program was made without one"}

// server puts items into a STAC API by transactions: format api. Items that the server has accepted are durable.
type server struct {
	env     *stream.Env
	config  config
	client  *apiclient.Client
	guard   *flock.Flock
	sent    *os.File          // keys of the items sent since the Commit before the last
	since   []byte            // keys of the items sent since the last Commit
	maybe   map[[16]byte]bool // items sent by an interrupted run, so that a conflict may be its own
	pending []*stream.Item
	waiting map[[16]byte]bool // keys of pending
	keys    *durable.Keys     // of the items of this run
	rows    int64             // in keys
	owned   *owned            // nil: the run does not replace

	taken, written, queued, skipped, leftOut, refused int64
	conflicts                                         []string
}

// maxConflicts bounds the ids in the outputs; the failures have them all.
const maxConflicts = 1000

func (o Options) openServer(ctx context.Context, env *stream.Env, c config) (*server, error) {
	if o.HTTP == nil {
		return nil, errNoHTTP
	}
	header := http.Header{}
	for name, value := range c.Headers {
		header.Set(name, value)
	}
	if c.URL == "" {
		c.URL = c.CatalogURL
	}
	switch {
	case c.Write != "":
		c.OnConflict = "upsert"
	case c.Keep == durable.KeepFirst && c.OnConflict != "upsert":
		c.OnConflict = "skip"
	}
	auth := c.Auth.Auth
	auth.KeyHeader, auth.KeyQuery = c.Auth.Header, c.Auth.Query
	client, err := apiclient.New(apiclient.Options{HTTP: o.HTTP, URL: c.URL, Header: header, Concurrent: c.Concurrency, PerSecond: c.RateLimit,
		Auth: auth})
	if err != nil {
		return nil, err
	}
	s := &server{env: env, config: c, client: client, waiting: map[[16]byte]bool{}, maybe: map[[16]byte]bool{}}
	if s.guard, err = lockRun(env, filepath.Join(env.Data, "output.lock")); err != nil {
		return nil, err
	}
	if err := s.load(ctx); err != nil {
		s.Abandon()
		return nil, err
	}
	return s, nil
}

// load loads what earlier runs have left, and asks the API whether it takes items.
func (s *server) load(ctx context.Context) error {
	if err := errors.Join(s.loadSent(), s.loadKeys()); err != nil {
		return err
	}
	if s.config.Write == durable.Replace {
		var err error
		if s.owned, err = openOwned(s.env, len(s.env.State) > 0); err != nil {
			return err
		}
	}
	can, err := s.client.CanChange(ctx)
	if err == nil && !can {
		s.env.Log(slog.LevelWarn, "the API does not declare transactions; trying all the same")
	}
	return err
}

// serverState is the stored state of a server.
type serverState struct {
	URL  string `json:"url"`
	Rows int64  `json:"rows,omitempty"` // items of a run that is not finished, in its keys
}

func (s *server) loadKeys() (err error) {
	var state serverState
	if _, err := stream.State(s.env.State, &state); err != nil {
		return fmt.Errorf("%w: %w", stream.ErrStateGone, err)
	}
	keep := s.config.Keep
	if s.config.OnConflict == "skip" {
		keep = durable.KeepFirst
	}
	s.rows = state.Rows
	s.keys, err = durable.OpenKeys(filepath.Join(s.env.Data, "output.keys"), s.rows, keep)
	return err
}

// admit looks whether the run has another item of the same key, and reports whether this one is to be sent.
func (s *server) admit(it *stream.Item, key [16]byte) (bool, error) {
	content := xxh3.Hash(it.Bytes())
	switch s.keys.Judge(key, content) {
	case durable.Repeated:
		s.skipped++
		return false, nil
	case durable.LeftOut:
		s.leftOut++
		return false, nil
	case durable.Refused:
		s.refused++
		return false, s.env.Refuse(it, &stepwell.Error{Code: stepwell.CodeConflict, Message: "the stream has another item " + it.ID() + " of collection " + it.Collection(),
			Hint: "ids must be unique within a collection; keep: first or keep: last keeps one of each"})
	case durable.Replaced:
		s.leftOut++
		s.written--
	}
	s.rows++
	return true, s.keys.Add(key, content, s.rows-1)
}

func (s *server) loadSent() error {
	var err error
	if s.sent, err = os.OpenFile(filepath.Join(s.env.Data, "output.sent"), os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return err
	}
	for {
		var key [16]byte
		if _, err := io.ReadFull(s.sent, key[:]); err != nil {
			if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) { // the last one was cut off: it was not sent
				return nil
			}
			return err
		}
		s.maybe[key] = true
	}
}

// Write implements stream.Sink.
func (s *server) Write(ctx context.Context, batch []*stream.Item) error {
	for _, it := range batch {
		s.taken++
		it = it.Clone()
		if it.Collection() == "" && s.config.CollectionID != "" {
			it.Set("collection", item.OfText(s.config.CollectionID))
		}
		if it.ID() == "" || it.Collection() == "" {
			s.refused++
			err := s.env.Refuse(it, stepwell.Invalid("collection_id gives the collection of such items", "the item names no id or no collection"))
			if err != nil {
				return err
			}
			continue
		}
		key := keyOf(it.Collection(), it.ID(), true)
		if ok, err := s.admit(it, key); err != nil {
			return err
		} else if !ok {
			continue
		}
		if s.waiting[key] || len(s.pending) >= s.config.BatchSize*s.config.Concurrency {
			if err := s.flush(ctx); err != nil {
				return err
			}
		}
		s.waiting[key] = true
		s.pending = append(s.pending, it)
	}
	return nil
}

// group is the items of one call.
type group struct {
	collection string
	link       string // to the collection
	items      []*stream.Item
	features   []apiclient.Feature
	results    []apiclient.Result
}

// flush sends the pending items, several batches at a time, and handles the answers in order.
func (s *server) flush(ctx context.Context) error {
	if len(s.pending) == 0 {
		return nil
	}
	if err := s.noteSent(); err != nil {
		return err
	}
	groups, err := s.groups(ctx)
	if err != nil {
		return err
	}
	eg, gctx := errgroup.WithContext(ctx)
	eg.SetLimit(s.config.Concurrency)
	for _, g := range groups {
		eg.Go(func() (err error) {
			bulk := apiclient.Bulk{Upsert: s.config.OnConflict == "upsert" && !s.config.IfMatch, Batch: s.config.BatchSize}
			g.results, err = s.client.CreateAll(gctx, g.collection, g.features, bulk)
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return err
	}
	for _, g := range groups {
		if err := s.answers(ctx, g); err != nil {
			return err
		}
	}
	s.pending = s.pending[:0]
	clear(s.waiting)
	return nil
}

// noteSent records items before they are sent: if the answer is lost with this run, the next one recognises its own
// conflicts.
func (s *server) noteSent() error {
	if s.config.OnConflict == "upsert" {
		return nil
	}
	var keys []byte
	for _, it := range s.pending {
		key := keyOf(it.Collection(), it.ID(), true)
		keys = append(keys, key[:]...)
	}
	s.since = append(s.since, keys...)
	if _, err := s.sent.Write(keys); err != nil {
		return err
	}
	return s.sent.Sync()
}

// forget drops the keys of items sent before the last Commit. Later ones are needed until its state has been stored.
func (s *server) forget() error {
	if len(s.since) == 0 {
		return nil
	}
	name := s.sent.Name()
	err := durable.WriteFile(name, func(f *os.File) error {
		_, err := f.Write(s.since)
		return err
	})
	if err != nil {
		return err
	}
	s.since = nil
	s.sent.Close()
	s.sent, err = os.OpenFile(name, os.O_RDWR|os.O_APPEND, 0o644)
	return err
}

// groups arranges the pending items by collection, in batches.
func (s *server) groups(ctx context.Context) ([]*group, error) {
	var groups []*group
	open := map[string]*group{}
	for _, it := range s.pending {
		collection := it.Collection()
		g := open[collection]
		if g == nil || len(g.items) >= s.config.BatchSize {
			at, err := s.client.CollectionLink(ctx, collection)
			if err != nil {
				return nil, err
			}
			g = &group{collection: collection, link: at}
			open[collection] = g
			groups = append(groups, g)
		}
		from := originOf(s.env, it)
		rebase := func(href string) string { return from.rebase(href, "") }
		if hasRelative(it.Bytes()) {
			rebaseAssets(it.Value, rebase)
		}
		// An item that names a collection links to it (item-spec); servers put their own links in its place.
		relink(it.Value, []link{{rel: "collection", href: g.link, media: mediaJSON}}, true, rebase)
		g.items = append(g.items, it)
		g.features = append(g.features, apiclient.Feature{Text: it.AppendTo(nil), ID: it.ID(), Collection: collection})
	}
	return groups, nil
}

func (s *server) answers(ctx context.Context, g *group) error {
	for i, res := range g.results {
		it := g.items[i]
		if res.Outcome == apiclient.Conflict {
			var err error
			if res, err = s.conflict(ctx, g, i, res); err != nil {
				return err
			}
		}
		switch res.Outcome {
		case apiclient.Created, apiclient.Replaced, apiclient.Queued:
			if s.written++; res.Outcome == apiclient.Queued {
				s.queued++
			}
			if s.owned != nil {
				if err := s.owned.add(g.collection, it.ID()); err != nil {
					return err
				}
			}
		case apiclient.Conflict:
			if len(s.conflicts) < maxConflicts {
				s.conflicts = append(s.conflicts, it.ID())
			}
			if s.config.OnConflict == "skip" {
				s.skipped++
				continue
			}
			if err := s.refuse(it, res.Err); err != nil {
				return err
			}
		default:
			if err := s.refuse(it, res.Err); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *server) refuse(it *stream.Item, cause error) error {
	s.refused++
	if cause == nil {
		cause = errors.New("the server did not say what became of it")
	}
	return s.env.Refuse(it, &stream.Error{Type: stream.NetworkError, Context: stream.Context{URL: s.client.URL(), Status: apiclient.StatusOf(cause)}, Err: cause})
}

// conflict rechecks an item that exists already: it may be our own, sent by an interrupted run; and with if_match it is
// replaced now, unless it changes concurrently.
func (s *server) conflict(ctx context.Context, g *group, i int, res apiclient.Result) (apiclient.Result, error) {
	it := g.items[i]
	replace := s.config.OnConflict == "upsert" && s.config.IfMatch
	ours := s.maybe[keyOf(g.collection, it.ID(), true)]
	if !replace && !ours {
		return res, nil
	}
	there, etag, err := s.client.Item(ctx, g.collection, it.ID())
	if ctx.Err() != nil {
		return res, context.Cause(ctx)
	}
	switch {
	case err != nil:
		res.Outcome, res.Err = apiclient.Failed, err
	case replace && etag == "":
		res.Outcome, res.Err = apiclient.Failed, stepwell.Invalid("leave if_match out", "the server gives no ETag, so that if_match cannot work")
	case replace:
		return s.client.Put(ctx, g.collection, it.ID(), g.features[i].Text, etag)
	case same(there, g.features[i].Text):
		res.Outcome, res.Err = apiclient.Created, nil
	}
	return res, nil
}

// same compares the members of an item that a server does not change.
func same(a, b []byte) bool {
	var two [2]map[string]any
	for i, text := range [2][]byte{a, b} {
		v, err := expr.Decode(text)
		if err != nil {
			return false
		}
		two[i], _ = v.(map[string]any)
		if p, ok := two[i]["properties"].(map[string]any); ok {
			delete(p, "created")
			delete(p, "updated")
		}
	}
	for _, name := range []string{"geometry", "properties", "assets"} {
		if !reflect.DeepEqual(two[0][name], two[1][name]) {
			return false
		}
	}
	return true
}

// Commit implements stream.Sink: the server has answered for everything.
func (s *server) Commit(ctx context.Context) (int64, any, error) {
	if err := s.flush(ctx); err != nil {
		return 0, nil, err
	}
	if err := s.forget(); err != nil {
		return 0, nil, err
	}
	if s.owned != nil {
		if err := s.owned.sync(); err != nil {
			return 0, nil, err
		}
	}
	if err := s.keys.Sync(); err != nil {
		return 0, nil, err
	}
	return s.taken, serverState{URL: s.client.URL(), Rows: s.rows}, nil
}

// Close implements stream.Sink.
func (s *server) Close(ctx context.Context) (state, outputs any, err error) {
	if err := s.flush(ctx); err != nil {
		return nil, nil, err
	}
	out := map[string]any{"items_written": s.written, "items_refused": s.refused, "items_repeated": s.skipped,
		"items_left_out": s.leftOut, "items_queued": s.queued, "conflicts": append([]string{}, s.conflicts...)}
	if s.owned != nil {
		deleted, err := s.deleteStrangers(ctx)
		if err != nil {
			return nil, nil, err
		}
		out["items_deleted"] = deleted
	}
	err = s.keys.Close(true)
	s.keys = nil
	s.Abandon()
	if err = errors.Join(err, os.Remove(filepath.Join(s.env.Data, "output.sent"))); err != nil {
		return nil, nil, err
	}
	return serverState{URL: s.client.URL()}, out, nil
}

// Abandon implements stream.Sink.
func (s *server) Abandon() {
	if s.sent != nil {
		s.sent.Close()
	}
	if s.owned != nil {
		s.owned.file.Close()
	}
	if s.keys != nil {
		s.keys.Close(false)
	}
	s.guard.Unlock()
}
