package api

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api/columns"
	"github.com/stepwell/stepwell/field"
)

// FootprintQuery selects footprints: those that meet a box, or all.
type FootprintQuery struct {
	In         *[4]float32 // west, south, east, north
	Names      bool        // also Items of the page
	From, Most int
}

// FootprintPage is some of the footprints that are selected.
type FootprintPage struct {
	Sides    [4][]float32 // west, south, east, north of each
	Failed   []uint8      // 1: failed
	Items    []FootprintItem
	Total    int
	Complete bool
}

// FootprintItem is an item and where it is.
type FootprintItem struct {
	ID         string          `json:"id,omitempty" doc:"Missing: it has none, or one of more than 1,000 bytes."`
	Collection string          `json:"collection_id,omitempty"`
	State      string          `json:"state" enum:"completed,failed"`
	Box        [4]float32      `json:"bbox" doc:"West, south, east, north in degrees; west is more than east where it crosses the antimeridian. Rounded to 24 bits."`
	Failure    json.RawMessage `json:"failure,omitempty" doc:"Of a failed one: its record, as in failures.json."`
}

// FootprintItems is a page of items.
type FootprintItems struct {
	Items    []FootprintItem `json:"items" nullable:"false" doc:"In the order of the table of /footprints."`
	Total    int             `json:"total" doc:"How many there are in the box."`
	Complete bool            `json:"complete" doc:"False: there are more than 1,048,576, which are all that are kept of a stream and read."`
	Next     string          `json:"next_cursor,omitempty"`
}

// GetFootprints selects rows of the table.
type GetFootprints struct {
	ExecutionPath
	BBox  string `query:"bbox" maxLength:"100" doc:"Only those that meet this box: west,south,east,north in degrees; west may be more than east, across the antimeridian."`
	From  int    `query:"from" minimum:"0" maximum:"1048576" doc:"The first row."`
	Limit int    `query:"limit" minimum:"1" maximum:"1048576" default:"1048576" doc:"Rows at most; total in the header says how many there are."`
}

// ListFootprintItems selects items.
type ListFootprintItems struct {
	ExecutionPath
	BBox   string `query:"bbox" maxLength:"100" doc:"Only those that meet this box: west,south,east,north in degrees."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"50"`
	Cursor string `query:"cursor" maxLength:"600"`
}

var footprintStates = []string{"completed", "failed"}

// footprintPage looks for footprints of an execution; full is its id.
func (f *fields) footprintPage(ctx context.Context, id, bbox string, q FootprintQuery) (page *FootprintPage, full string, err error) {
	if q.In, err = parseBox(bbox); err != nil {
		return nil, "", err
	}
	x, err := f.find(ctx, id)
	if err != nil {
		return nil, "", err
	}
	if f.o.Footprints == nil {
		return &FootprintPage{Complete: true}, x.ID, nil
	}
	if err := f.places.Acquire(ctx, 1); err != nil {
		return nil, "", context.Cause(ctx)
	}
	defer f.places.Release(1)
	page, err = f.o.Footprints(ctx, x.Pipeline, x.ID, q)
	return page, x.ID, err
}

func parseBox(text string) (*[4]float32, error) {
	if text == "" {
		return nil, nil
	}
	var box [4]float32
	parts := strings.Split(text, ",")
	good := len(parts) == len(box)
	for i := 0; good && i < len(box); i++ {
		limit := 180.0
		if i%2 == 1 {
			limit = 90
		}
		side, err := strconv.ParseFloat(strings.TrimSpace(parts[i]), 64)
		good = err == nil && math.Abs(side) <= limit
		box[i] = float32(side)
	}
	if !good || box[1] > box[3] {
		return nil, stepwell.Invalid("give west,south,east,north in degrees: 5.5,45,10.5,48", "bbox %.100q is not a box on the globe", text)
	}
	return &box, nil
}

func (f *fields) footprints(ctx context.Context, in *GetFootprints) (*streamed, error) {
	page, _, err := f.footprintPage(ctx, in.ID, in.BBox, FootprintQuery{From: in.From, Most: in.Limit})
	if err != nil {
		return nil, err
	}
	data := []columns.Data{{Name: "state", U8: page.Failed}}
	for i, name := range []string{"west", "south", "east", "north"} {
		data = append(data, columns.Data{Name: name, F32: page.Sides[i]})
	}
	raw, err := columns.Encode(columns.Header{Rows: len(page.Failed), From: in.From, Total: page.Total, States: footprintStates}, data)
	if err != nil {
		return nil, err
	}
	zipped := zips(ctx)
	if zipped {
		raw = field.Pack(raw)
	}
	return asColumns(raw, zipped, 0), nil
}

// describeFootprints says in the OpenAPI document what the table is.
func (s *server) describeFootprints(op *huma.Operation) {
	op.Description = "Binary, in the format of /field, whose header is FieldHeader. A row is an item that has a bbox: the columns west, south, east and north are its sides in degrees (32-bit floating point; west is more than east where it crosses the antimeridian), " +
		"state is a position in states. An item that reached several ends of a stream is one row, and has failed if it failed on the way to any. Items of streams that run are there once they are durable. /footprints/items says which items they are."
	op.Responses["200"] = &huma.Response{Description: "The columns", Content: map[string]*huma.MediaType{columns.MediaType: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}}
}

func (f *fields) footprintItems(ctx context.Context, in *ListFootprintItems) (*answer[FootprintItems], error) {
	from, err := numberCursor("footprints", in.Cursor)
	if err != nil {
		return nil, err
	}
	start := int(min(from, math.MaxInt32))
	page, id, err := f.footprintPage(ctx, in.ID, in.BBox, FootprintQuery{Names: true, From: start, Most: in.Limit})
	if err != nil {
		return nil, err
	}
	out := FootprintItems{Items: []FootprintItem{}, Total: page.Total, Complete: page.Complete}
	for i := range page.Items {
		it := page.Items[i]
		it.State = footprintStates[page.Failed[i]]
		for side := range it.Box {
			it.Box[side] = page.Sides[side][i]
		}
		it.ID, it.Collection, it.Failure = f.text(id, it.ID), f.text(id, it.Collection), f.json(id, it.Failure)
		out.Items = append(out.Items, it)
	}
	if end := start + len(page.Items); end < page.Total && len(page.Items) > 0 {
		out.Next = cursorTo("footprints", strconv.Itoa(end))
	}
	return reply(out, nil)
}
