package api

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

// FindFootprintItem says which item is asked for.
type FindFootprintItem struct {
	ExecutionPath
	Item       string `query:"item_id" required:"true" minLength:"1" maxLength:"1000"`
	Collection string `query:"collection_id" maxLength:"1000"`
	State      string `query:"state" enum:"completed,failed" default:"completed" doc:"completed: it is looked for in what the sinks have written; failed: where its source has read it."`
}

// FootprintDocument is an item as it stands in a file, or why it cannot be had.
type FootprintDocument struct {
	Item   json.RawMessage `json:"item,omitempty" doc:"The item, up to 1 MiB; missing: it cannot be had, and places say why."`
	Path   string          `json:"path,omitempty" doc:"The file that it is in."`
	Line   int64           `json:"line,omitempty" doc:"Where it begins; in a Parquet file its number."`
	Step   string          `json:"step_id,omitempty" doc:"The step that has written it; of a failed one, in which it failed."`
	Places []LookedAt      `json:"places" nullable:"false" doc:"Where it was looked for in vain, and where else it may be."`
}

// LookedAt is a place where an item is not, or was not looked for.
type LookedAt struct {
	Step   string `json:"step_id,omitempty"`
	Path   string `json:"path,omitempty" doc:"A file, a URL or a remote object; missing when the step has not said."`
	Reason string `json:"reason"`
}

// Bounds of one request for an item.
const (
	mostLooked   = 20 // that are looked at
	itemPatience = 5 * time.Second
)

// footprintItem reads an item from the file in which it stands, also in S3: streams keep no items. Paths are those that modules have recorded.
func (f *fields) footprintItem(ctx context.Context, in *FindFootprintItem) (*answer[FootprintDocument], error) {
	x, err := f.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if err := f.places.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	defer f.places.Release(1)
	look := &lookup{fields: f, in: in, out: FootprintDocument{Places: []LookedAt{}}}
	var stop context.CancelFunc
	look.soon, stop = context.WithTimeout(ctx, itemPatience)
	defer stop()
	if in.State == "failed" {
		err = look.failed(ctx, x)
	} else {
		err = look.written(ctx, x)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	out := &look.out
	out.Path, out.Item = f.text(x.ID, out.Path), f.json(x.ID, out.Item)
	for i := range out.Places {
		p := &out.Places[i]
		p.Path, p.Reason = f.text(x.ID, p.Path), f.text(x.ID, p.Reason)
	}
	return reply(*out, nil)
}

// lookup looks for an item.
type lookup struct {
	*fields
	in     *FindFootprintItem
	soon   context.Context // how long files are read
	looked int
	out    FootprintDocument
}

// failed looks where the failure record says that the item was read.
func (l *lookup) failed(ctx context.Context, x *store.Execution) error {
	if l.o.StreamFailures == nil {
		return nil
	}
	read := 0
	for raw, err := range l.o.StreamFailures(ctx, x.Pipeline, x.ID) {
		if err != nil {
			return err
		}
		var r ItemFailure
		if err := json.Unmarshal(raw, &r); err != nil {
			return &stepwell.Error{Code: stepwell.CodeInternal, Message: "a failure record cannot be read", Err: err}
		}
		if read++; read > mostFailures || len(l.out.Places) == mostLooked {
			l.miss("", "", "there are more failures than are read")
			return nil
		}
		if r.Item != l.in.Item || l.in.Collection != "" && r.Collection != l.in.Collection {
			continue
		}
		var from struct {
			File string `json:"source_file"`
			Line int64  `json:"line_number"`
			URL  string `json:"url"`
		}
		if r.Context != nil {
			if err := json.Unmarshal(r.Context, &from); err != nil {
				return &stepwell.Error{Code: stepwell.CodeInternal, Message: "a failure record cannot be read", Err: err}
			}
		}
		switch {
		case from.File != "":
			if l.look(r.Step, from.File, from.Line) {
				return nil
			}
		case from.URL != "":
			l.miss(r.Step, from.URL, "it came from there, and items that fail are not kept")
		default:
			l.miss(r.Step, "", "its source did not say where it read it, and items that fail are not kept")
		}
	}
	if len(l.out.Places) == 0 {
		l.miss("", "", "no failure record that this server has names it")
	}
	return nil
}

// written looks into the files that the sinks say they have written.
func (l *lookup) written(ctx context.Context, x *store.Execution) error {
	about, err := l.hub.About(ctx, x)
	if err != nil {
		return err
	}
	for from := int32(0); ; {
		rows, err := l.o.Store.Steps(ctx, x.No, store.StepFilter{From: from, Limit: 500})
		if err != nil {
			return err
		}
		for i := range rows {
			row := &rows[i]
			if s, ok := l.o.Catalog.Spec(about(row.Key).Action); !ok || s.Stream == nil || s.Stream.Role != spec.Sink {
				continue
			}
			if found, err := l.sink(ctx, x, row); found || err != nil {
				return err
			}
		}
		if len(rows) < 500 {
			return nil
		}
		if from = rows[len(rows)-1].Idx + 1; from >= streamScan || len(l.out.Places) >= mostLooked {
			l.miss("", "", "there are more steps, which were not looked at")
			return nil
		}
	}
}

// sink looks into the files of a step.
func (l *lookup) sink(ctx context.Context, x *store.Execution, row *store.Step) (bool, error) {
	raw, err := l.value(ctx, x.ID, row.Output)
	if err != nil {
		return false, err
	}
	var out struct {
		Files []struct {
			Path string `json:"path"`
		} `json:"files"`
		Written []string `json:"files_written"`
	}
	if raw != nil && json.Unmarshal(raw, &out) != nil { // another form: a sink of somebody else's
		out.Files, out.Written = nil, nil
	}
	paths := out.Written
	for _, file := range out.Files {
		paths = append(paths, file.Path)
	}
	switch {
	case !row.Status.Terminal():
		l.miss(row.Key, "", "it has not ended: files come under their names when they are complete")
		return false, nil
	case len(paths) == 0:
		l.miss(row.Key, "", "its outputs name no file")
		return false, nil
	case len(paths) > mostLooked: // a file for each item, or collection
		named := slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
			base := filepath.Base(path)
			return !strings.Contains(base, l.in.Item) && (l.in.Collection == "" || !strings.Contains(base, l.in.Collection))
		})
		if len(named) == 0 {
			l.miss(row.Key, filepath.Dir(paths[0]), fmt.Sprintf("none of its %d files is named for it", len(paths)))
			return false, nil
		}
		paths = named
	}
	for _, path := range paths {
		if l.looked >= mostLooked {
			l.miss(row.Key, path, fmt.Sprintf("%d files have been looked at, which are all that one request reads", mostLooked))
			return false, nil
		}
		if l.look(row.Key, path, 0) {
			return true, nil
		}
	}
	return false, nil
}

// look looks into a file.
func (l *lookup) look(step, path string, line int64) (found bool) {
	if l.o.FindItem == nil {
		l.miss(step, path, "this server reads no files")
		return false
	}
	l.looked++
	raw, line, err := l.o.FindItem(l.soon, path, l.in.Item, l.in.Collection, line)
	switch {
	case l.soon.Err() != nil:
		l.miss(step, path, fmt.Sprintf("it is not in what could be read in %s", itemPatience))
	case err != nil:
		l.miss(step, path, stepwell.Clip(err.Error(), 1000))
	default:
		l.out.Item, l.out.Path, l.out.Line, l.out.Step = raw, path, line, step
	}
	return err == nil
}

func (l *lookup) miss(step, path, reason string) {
	l.out.Places = append(l.out.Places, LookedAt{Step: step, Path: path, Reason: reason})
}
