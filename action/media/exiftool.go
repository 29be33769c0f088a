package media

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// exiftoolTags are asked for; others would only make the answer longer.
var exiftoolTags = []string{"FileType", "MIMEType", "ImageWidth", "ImageHeight", "Orientation", "DateTimeOriginal", "CreationDate", "CreateDate", "OffsetTimeOriginal",
	"OffsetTimeDigitized", "Make", "Model", "Software", "GPSLatitude", "GPSLongitude", "GPSAltitude", "Warning", "Error"}

// askExiftool lets exiftool describe the device, the date and the position, and of a picture also size and orientation.
// Its values replace those of our reader; the others stay.
func askExiftool(ctx context.Context, program, name string, m *Metadata) {
	args := []string{"-config", "", "-j", "-n", "-api", "QuickTimeUTC=1"}
	for _, tag := range exiftoolTags {
		args = append(args, "-"+tag)
	}
	answer, complaint, err := ask(ctx, program, append(args, name)...)
	var reports []map[string]any
	d := json.NewDecoder(strings.NewReader(string(answer)))
	d.UseNumber()
	if bad := d.Decode(&reports); bad != nil || len(reports) != 1 {
		if err == nil {
			err = errors.Join(bad, fmt.Errorf("%d descriptions", len(reports)))
		}
		if complaint != "" {
			err = errors.New(complaint)
		}
		m.lost("exiftool: %v", err)
		return
	}
	r := exiftoolReport(reports[0])
	for _, kind := range []string{"Error", "Warning"} {
		if s := cleanText(r.text(kind)); s != "" && !strings.HasPrefix(s, "[minor]") {
			m.warn("exiftool: %s", s)
		}
	}
	r.apply(m)
}

type exiftoolReport map[string]any

func (r exiftoolReport) text(name string) string {
	switch v := r[name].(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

func (r exiftoolReport) number(name string) (float64, bool) {
	n, ok := r[name].(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}

func (r exiftoolReport) apply(m *Metadata) {
	if m.Kind == "image" {
		r.picture(m)
	}
	r.position(m)
	if m.Kind == "image" || m.Created == nil { // of a movie ours knows which of its dates has a zone
		r.created(m)
	}
	for name, to := range map[string]**string{"Make": &m.Make, "Model": &m.Model, "Software": &m.Software} {
		if s := text(r.text(name)); s != nil && (m.Kind == "image" || *to == nil) {
			*to = s
		}
	}
}

func (r exiftoolReport) picture(m *Metadata) {
	w, ok1 := r.number("ImageWidth")
	h, ok2 := r.number("ImageHeight")
	if ok1 && ok2 && w >= 1 && h >= 1 && w < 1<<31 && h < 1<<31 {
		m.Width, m.Height = some(int(w)), some(int(h))
		m.DisplayWidth, m.DisplayHeight = nil, nil // follow from these
	}
	if o, ok := r.number("Orientation"); ok && o >= 1 && o <= 8 {
		m.Orientation, m.Rotation = some(int(o)), some(turns[int(o)])
	}
}

func (r exiftoolReport) position(m *Metadata) {
	lat, ok1 := r.number("GPSLatitude")
	lon, ok2 := r.number("GPSLongitude")
	if !ok1 || !ok2 || !validPosition(lat, lon) {
		return
	}
	g := &GPS{Lat: lat, Lon: lon, Source: "exiftool"}
	if m.GPS != nil {
		g.Source, g.Alt = m.GPS.Source, m.GPS.Alt
	}
	if alt, ok := r.number("GPSAltitude"); ok {
		g.Alt = &alt
	}
	m.GPS = g
}

func (r exiftoolReport) created(m *Metadata) {
	for _, c := range [][3]string{{"DateTimeOriginal", "OffsetTimeOriginal", "exif"}, {"CreationDate", "", "exif"}, {"CreateDate", "OffsetTimeDigitized", "exif_digitized"}} {
		t, local, ok := parseExifTime(r.text(c[0]), r.text(c[1]))
		if !ok || t.Year() <= 1970 && m.Kind != "image" {
			continue
		}
		if m.Kind != "image" {
			c[2] = "exiftool"
		}
		m.setCreated(t, local, c[2])
		return
	}
}
