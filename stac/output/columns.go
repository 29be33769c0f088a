package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stac/geoparquet"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/parquet"
)

// Parts of a unit are read together, so that what a column is in one it should be in the next: a part begins with the
// columns of all before it. That way, too, the items of an earlier run fit behind those of this one.

// known are the columns that a unit's next part begins with.
func (t *table) known(u *unit) (parquet.Schema, error) {
	s, ok := t.columns[u.number]
	if !ok {
		for _, p := range u.Parts {
			more, err := t.columnsOf(u, p)
			if err != nil {
				return nil, err
			}
			s = s.Join(more)
		}
	}
	if n := len(u.Spooled); n > 0 {
		s = s.Join(u.live.(tables)[u.Spooled[n-1].Number].Schema())
	}
	t.columns[u.number] = s
	return s, nil
}

// columnsOf are the columns of a finished part.
func (t *table) columnsOf(u *unit, p part) (s parquet.Schema, err error) {
	if t.place.remote {
		text, err := os.ReadFile(t.columnsFile(u, p.Number))
		if err == nil {
			err = json.Unmarshal(text, &s)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", stream.ErrStateGone, err)
		}
		return s, nil
	}
	name := t.place.local(t.file(u, p.Number))
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	file, err := parquet.Open(f, p.Size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return file.Schema(), nil
}

// columnsFile keeps what is needed of a part that is far away.
func (t *table) columnsFile(u *unit, number int) string {
	return filepath.Join(t.env.Data, fmt.Sprintf("columns-%d-%d.json", u.number, number))
}

// keepColumns makes the columns file of a part. It is durable before the part has its name.
func (t *table) keepColumns(u *unit, number int, f *geoparquet.File) error {
	text, err := json.Marshal(f.Schema())
	if err != nil {
		return err
	}
	out, err := os.Create(t.columnsFile(u, number))
	if err != nil {
		return err
	}
	if _, err = out.Write(text); err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return syncDir(t.env.Data)
}

// explain adds what can be done about an item whose types are not those of its column.
func explain(err error) error {
	if row, ok := errors.AsType[*parquet.RowError](err); ok && row.Mixed {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Err: err,
			Hint: "the items before, also those of earlier runs, say what a column holds; mixed_types: json makes it JSON text where items disagree"}
	}
	return err
}
