package app

import (
	"context"
	"encoding/json"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/stac"
	"github.com/stepwell/stepwell/stac/schema"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
	"github.com/stepwell/stepwell/stream/paging"
	"github.com/stepwell/stepwell/stream/reshape"
)

// streams registers the stream modules and their runner.
func streams(r *action.Registry, client *outbound.Client, o Options) error {
	places := o.places(client)
	schemas := o.Schemas
	if schemas.HTTP == nil {
		schemas.HTTP = client
	}
	if schemas.Cache == "" && schemas.Mode != schema.Offline {
		if dir, err := os.UserCacheDir(); err == nil { // without one, schemas are fetched once per process
			schemas.Cache = filepath.Join(dir, "stepwell", "schemas")
		}
	}
	so := o.streamFiles()
	if o.secrets != nil {
		so.Secrets = o.secrets
	}
	modules := slices.Concat(
		files.Modules(files.ModuleOptions{Places: places}), paging.Modules(paging.Options{HTTP: client}), reshape.Modules(),
		stac.Modules(stac.Options{HTTP: client, Places: places, Schemas: schema.New(schemas)}), o.Modules)
	if o.Replace != nil {
		modules = o.Replace(modules)
	}
	return stream.Register(r, so, modules...)
}

// places opens the files of streams.
func (o *Options) places(client *outbound.Client) *files.Places {
	return files.New(files.Options{HTTP: client, S3: o.S3, Admit: o.touch})
}

// streamFiles says where streams keep their files.
func (o *Options) streamFiles() stream.Options {
	so := stream.Options{Dir: o.Checkpoints}
	if so.Dir == "" {
		so.Dir = o.beside() + "-streams"
	}
	if o.streams != nil {
		so.Shared = o.streams
	}
	return so
}

// StreamFailures gives the failure records of the streams of an execution (stream.Failures).
func (a *App) StreamFailures(ctx context.Context, pipeline, execution string) iter.Seq2[json.RawMessage, error] {
	return stream.Failures(ctx, a.streams, pipeline, execution)
}

// Footprints gives where the items of the streams of an execution are (stream.Footprints).
func (a *App) Footprints(ctx context.Context, pipeline, execution string, q api.FootprintQuery) (*api.FootprintPage, error) {
	found, err := stream.Footprints(ctx, a.streams, pipeline, execution, stream.FootprintQuery{In: (*stream.Box)(q.In), Names: q.Names, From: q.From, Most: q.Most})
	if err != nil {
		return nil, err
	}
	n := len(found.Rows)
	page := &api.FootprintPage{Failed: make([]uint8, n), Total: found.Total, Complete: found.Complete}
	for side := range page.Sides {
		page.Sides[side] = make([]float32, n)
		for i := range found.Rows {
			page.Sides[side][i] = found.Rows[i].Box[side]
		}
	}
	for i := range found.Rows {
		if found.Rows[i].Failed {
			page.Failed[i] = 1
		}
		if it := found.Rows[i].Item; it != nil {
			page.Items = append(page.Items, api.FootprintItem{ID: it.ID, Collection: it.Collection, Failure: it.Failure})
		}
	}
	return page, nil
}

// maxShownItem bounds an item that is shown.
const maxShownItem = 1 << 20

// FindItem reads a local file that this server may read, or an object in S3 with its credentials, for an item (files.Places.Find).
func (a *App) FindItem(ctx context.Context, path, id, collection string, line int64) (json.RawMessage, int64, error) {
	return a.places.Find(ctx, path, files.Sought{ID: id, Collection: collection, Line: line, MaxBytes: maxShownItem})
}
