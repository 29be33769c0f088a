package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/stepwell/stepwell"
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
		v.Document = ""
		h.complete(&v, o, &page[i])
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
	h.complete(&v, o, stored)
	return &v, err
}

// complete adds to a version what is not stored in it.
func (h head) complete(v *Version, o, stored *store.Object) {
	v.ID, v.Created, v.Revision = fmt.Sprintf("%s:%d", o.ID, v.Version), resource.At(stored.Created), o.Revision
	v.Active, v.Status = v.Version == h.active(), StatusActive
	if h.retired(v.Version) {
		v.Status = StatusArchived
	}
}

// Activate makes a version the one that is started where no version is named. revision is the expected revision of the
// pipeline, or store.AnyRevision. CodeNotFound; CodeConflict for another revision, for a version that is archived or has
// problems, and for one of an archived pipeline.
func (l *Library) Activate(ctx context.Context, idOrName string, version int, revision int64) (*Version, error) {
	return l.changeVersion(ctx, idOrName, version, revision, func(h *head, v *Version, name string) error {
		switch {
		case v.Status == StatusArchived:
			return versionArchived(name, version)
		case v.Draft && !v.Active:
			return conflict("store a version without them: it becomes the active one", "version %d of the pipeline %s has problems", version, name)
		}
		h.Active = version
		return nil
	})
}

// ArchiveVersion takes a version out of use, or back into it: an archived one is not started any more, and nothing is
// lost. Errors as with Activate; CodeConflict for the active version too.
func (l *Library) ArchiveVersion(ctx context.Context, idOrName string, version int, archived bool, revision int64) (*Version, error) {
	return l.changeVersion(ctx, idOrName, version, revision, func(h *head, v *Version, name string) error {
		i, found := slices.BinarySearch(h.Retired, version)
		switch {
		case archived && v.Active:
			return conflict("activate another version first, or archive the pipeline", "version %d of the pipeline %s is the active one", version, name)
		case archived && !found:
			h.Retired = slices.Insert(h.Retired, i, version)
		case !archived && found:
			h.Retired = slices.Delete(h.Retired, i, i+1)
		}
		return nil
	})
}

// changeTries is how often a change of any revision is applied to a pipeline that others change meanwhile.
const changeTries = 10

// changeVersion changes what the head of a pipeline says of a version.
func (l *Library) changeVersion(ctx context.Context, idOrName string, version int, revision int64, edit func(h *head, v *Version, name string) error) (*Version, error) {
	for tries := 1; ; tries++ {
		o, h, err := l.head(ctx, idOrName)
		if err == nil {
			err = fits(o, revision)
		}
		if err == nil && h.Archived {
			err = archived(o.Name)
		}
		if err != nil {
			return nil, err
		}
		v, err := l.version(ctx, o, h, version)
		if err == nil {
			err = edit(&h, v, o.Name)
		}
		if err != nil {
			return nil, err
		}
		changed, err := h.object(o.ID, o.Name, o.Revision)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(changed.Body, o.Body) {
			stored, err := l.o.Objects.PutObjects(ctx, changed)
			if stepwell.CodeOf(err) == stepwell.CodeConflict && revision == store.AnyRevision && tries < changeTries {
				continue
			}
			if err != nil {
				return nil, err
			}
			o = &stored[0]
		}
		return l.version(ctx, o, h, version)
	}
}

func versionArchived(name string, version int) error {
	return conflict("take it out of the archive first, or name another version", "version %d of the pipeline %s is archived", version, name)
}

func conflict(hint, format string, args ...any) error {
	return stepwell.Errorf(stepwell.CodeConflict, hint, format, args...)
}
