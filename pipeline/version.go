package pipeline

import (
	"context"
	"slices"

	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// Versions lists versions without their documents, newest first: those before the given number (0: all), at most
// limit (Defaults to 50, at most 1,000).
func (l *Library) Versions(ctx context.Context, idOrName string, before, limit int) ([]Version, error) {
	o, h, err := l.head(ctx, idOrName)
	if err != nil {
		return nil, err
	}
	limit = bounded(limit, 50, 1000)
	last := h.Version
	if before > 0 {
		last = min(last, before-1)
	}
	first := max(1, last-limit+1)
	if last < first {
		return []Version{}, nil
	}
	page, err := l.o.Objects.Objects(ctx, store.ObjectFilter{Kind: kindVersion, Prefix: o.ID + "/", After: versionID(o.ID, first-1), Limit: last - first + 1})
	if err != nil {
		return nil, err
	}
	list := make([]Version, 0, len(page))
	for i := range page {
		v, err := decode[Version](&page[i])
		if err != nil {
			return nil, err
		}
		v.Document, v.Created = "", resource.At(page[i].Created)
		list = append(list, v)
	}
	slices.Reverse(list)
	return list, nil
}

// Version finds one version with its document; 0 stands for the newest.
func (l *Library) Version(ctx context.Context, idOrName string, version int) (*Version, error) {
	o, h, err := l.head(ctx, idOrName)
	if err != nil {
		return nil, err
	}
	if version == 0 {
		version = h.Version
	}
	return l.version(ctx, o, h, version)
}

func (l *Library) version(ctx context.Context, o *store.Object, h head, version int) (*Version, error) {
	if version < 1 || version > h.Version {
		return nil, notFound("the pipeline %s has no version %d; the newest is %d", o.Name, version, h.Version)
	}
	stored, err := l.o.Objects.Object(ctx, kindVersion, versionID(o.ID, version))
	if err != nil {
		return nil, err
	}
	v, err := decode[Version](stored)
	v.Created = resource.At(stored.Created)
	return &v, err
}
