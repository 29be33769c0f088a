package geoparquet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/transform/convert"
	"github.com/stepwell/stepwell/stream/parquet"
)

// Is reports whether a Parquet file holds STAC items: it carries the stac-geoparquet metadata, or has the columns id,
// geometry, assets and links (files often lack the metadata). Errors: it is no Parquet file.
func Is(r io.ReaderAt, size int64) (bool, error) {
	f, err := parquet.Open(r, size)
	if err != nil {
		return false, err
	}
	return isSTAC(f), nil
}

func isSTAC(f *parquet.File) bool {
	columns := f.Columns()
	if _, ok := f.Metadata(stacKey); ok {
		return slices.Contains(columns, "id")
	}
	for _, name := range []string{"id", "geometry", "assets", "links"} {
		if !slices.Contains(columns, name) {
			return false
		}
	}
	return true
}

// Each gives the items of a file as the text of JSON objects, from item number `from` (the first is 0) on, until
// row returns an error, which Each returns. Members that are null are left out, but for datetime and geometry.
// The text belongs to row; n is the item's number.
//
// A GeoParquet file that does not hold STAC items gives GeoJSON Features: the primary column is the geometry,
// other columns are properties. Errors: as of parquet.Each, and CodeInvalid for a file that is neither.
func Each(ctx context.Context, r io.ReaderAt, size int64, from int64, row func(text []byte, n int64) error) error {
	f, err := parquet.Open(r, size)
	if err != nil {
		return err
	}
	rd := &reader{geometry: "geometry", stac: isSTAC(f)}
	if err := rd.prepare(f); err != nil {
		return err
	}
	return f.Each(ctx, from, func(text []byte, n int64) error {
		out, err := rd.item(text)
		if err != nil {
			return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("row %d", n), Err: err}
		}
		return row(out, n)
	})
}

type reader struct {
	stac     bool
	geometry string // the column
	datetime bool   // there is such a column
}

// prepare has the file's geometries read as GeoJSON.
func (rd *reader) prepare(f *parquet.File) error {
	rd.datetime = slices.Contains(f.Columns(), "datetime")
	f.DropNulls = true
	geometries := map[string]geoColumn{"geometry": {Encoding: "WKB"}, projGeometry: {Encoding: "WKB"}}
	text, ok := f.Metadata(geoKey)
	if ok {
		var geo geoMetadata
		if err := json.Unmarshal([]byte(text), &geo); err != nil {
			return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the file's geo metadata", Err: err}
		}
		for name, column := range geo.Columns {
			geometries[name] = column
		}
		if !rd.stac {
			rd.geometry = geo.Primary
		}
	} else if !rd.stac {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "a Parquet file without a column id and without geo metadata holds no items",
			Hint: "read it as format parquet"}
	}
	for name, column := range geometries {
		if column.Encoding != "WKB" {
			return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("column %q has the encoding %q, not WKB", name, column.Encoding),
				Hint: "write the file with geometries as WKB"}
		}
		f.Convert(name, func(dst, wkb []byte) ([]byte, error) {
			out, _, err := convert.AppendGeoJSON(dst, wkb)
			return out, err
		})
	}
	return nil
}

// item makes the item of a row.
func (rd *reader) item(text []byte) ([]byte, error) {
	row, err := item.Parse(text)
	if err != nil {
		return nil, err
	}
	it := item.NewObject()
	it.Set("type", item.OfText("Feature"))
	if rd.stac {
		copyMembers(it, row, "stac_version")
		set(it, "stac_extensions", row, item.NewList())
	}
	copyMembers(it, row, "id")
	set(it, "geometry", row, row.Get(rd.geometry))
	if bbox := row.Get("bbox"); bbox != nil {
		if it.Set("bbox", listOf(bbox)); it.Get("bbox").Len() == 0 {
			it.Delete("bbox")
		}
	}
	props := item.NewObject()
	if rd.datetime {
		set(props, "datetime", row, nil)
	}
	for name, v := range row.Members() {
		switch {
		case name == "datetime" || name == rd.geometry || top[name] && (rd.stac || name == "id" || name == "bbox" || name == "geometry"):
		case strings.HasPrefix(name, foreign):
			setShared(it, name[len(foreign):], v)
		default:
			setShared(props, name, v)
		}
	}
	it.Set("properties", props)
	if rd.stac {
		set(it, "links", row, item.NewList())
		set(it, "assets", row, item.NewObject())
		copyMembers(it, row, "collection")
	}
	return it.AppendTo(make([]byte, 0, len(text)+128)), nil
}

// set copies a member of the row, or sets absent (nil: null) where the row has none.
func set(it *item.Value, name string, row, absent *item.Value) {
	switch v := row.Get(name); {
	case v != nil:
		setShared(it, name, v)
	case absent != nil:
		setShared(it, name, absent)
	default:
		it.Set(name, &item.Value{})
	}
}

// listOf makes the list of a bbox struct; a bbox that is a list already, as in old files, stays.
func listOf(box *item.Value) *item.Value {
	if box.Kind() != item.Object {
		return box.Clone()
	}
	names := sides4
	if box.Get("zmin") != nil && box.Get("zmax") != nil {
		names = sides6
	}
	list := item.NewList()
	for _, name := range names {
		v := box.Get(name)
		if v == nil {
			return item.NewList()
		}
		list.Append(v.Clone())
	}
	return list
}
