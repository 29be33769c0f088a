package scaffold

import (
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/transform/convert"
	"github.com/stepwell/stepwell/stream"
)

// times sets datetime, start_datetime and end_datetime in the properties. Items of stac.transform have times at the
// top.
func (d *draft) times() error {
	found := map[string]*item.Value{}
	properties := d.out.Get("properties")
	for _, key := range []string{"datetime", "start_datetime", "end_datetime"} {
		raw := d.out.Get(key)
		if raw.IsNull() {
			raw = properties.Get(key)
		}
		if text, ok := raw.Str(); raw.IsNull() || ok && text == "" {
			continue
		}
		clock := d.clock
		if done(raw) {
			clock.Format = "" // it is from elsewhere than the table
		}
		v, err := clock.DateTime(raw)
		if err != nil {
			return stream.At(key, err)
		}
		found[key] = v
	}
	if err := d.defaultTimes(found); err != nil {
		return err
	}
	for _, key := range []string{"datetime", "start_datetime", "end_datetime"} {
		d.out.Delete(key)
		properties = d.out.Get("properties")
		if v := found[key]; v != nil {
			properties.Set(key, v)
		} else if key != "datetime" {
			properties.Delete(key)
		} else {
			properties.Set(key, &item.Value{})
		}
	}
	return nil
}

// done reports a date-time of RFC 3339.
func done(v *item.Value) bool {
	text, _ := v.Str()
	_, err := time.Parse(time.RFC3339Nano, text)
	return err == nil
}

func (d *draft) defaultTimes(found map[string]*item.Value) error {
	start, end := found["start_datetime"], found["end_datetime"]
	switch {
	case start != nil && end != nil:
		from, _ := start.Str()
		to, _ := end.Str()
		a, errA := time.Parse(time.RFC3339Nano, from)
		b, errB := time.Parse(time.RFC3339Nano, to)
		if errA == nil && errB == nil && a.After(b) {
			return stream.At("end_datetime", stepwell.Invalid("", "%s is before start_datetime %s", to, from))
		}
	case found["datetime"] != nil && start == nil && end == nil:
	case d.defaults.datetime != "" && found["datetime"] == nil && start == nil && end == nil:
		found["datetime"] = item.OfText(d.defaults.datetime)
	case d.defaults.start != "" && found["datetime"] == nil && start == nil && end == nil:
		found["start_datetime"], found["end_datetime"] = item.OfText(d.defaults.start), item.OfText(d.defaults.end)
	case found["datetime"] == nil && start == nil && end == nil:
		return stream.At("datetime", stepwell.Invalid("map a column to datetime, or write defaults.datetime", "there is no datetime"))
	default:
		return stream.At("datetime", stepwell.Invalid("", "start_datetime and end_datetime go together"))
	}
	return nil
}

// place sets geometry and bbox: each is made of the other where one is missing.
func (d *draft) place() error {
	geometry, box := d.out.Get("geometry"), d.out.Get("bbox")
	var err error
	switch {
	case !geometry.IsNull() && string(geometry.Bytes()) != `""`:
		if geometry, err = convert.Geometry(geometry); err != nil {
			return stream.At("geometry", err)
		}
	case !box.IsNull() && box.Len() > 0 || box.Kind() == item.Text:
		if geometry, err = convert.FromBBox(box); err != nil {
			return stream.At("bbox", err)
		}
	case d.defaults.geometry != "":
		if geometry, err = item.Parse([]byte(d.defaults.geometry)); err != nil {
			return stream.At("geometry", err)
		}
		box = nil
	case d.defaults.nowhere:
		d.out.Set("geometry", &item.Value{})
		d.out.Delete("bbox")
		return nil
	default:
		return stream.At("geometry", stepwell.Invalid("map a column to geometry or bbox, or write defaults.geometry", "there is neither geometry nor bbox"))
	}
	if box.IsNull() || box.Kind() == item.List && box.Len() == 0 {
		box, err = convert.BBoxOf(geometry)
	} else {
		box, err = convert.BBox(box)
	}
	if err != nil {
		return stream.At("bbox", err)
	}
	d.out.Set("geometry", geometry)
	d.out.Set("bbox", box)
	return nil
}
