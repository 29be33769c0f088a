package media

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/bep/imagemeta"
)

// exifTags are the tags read, by the directory they belong to; the same numbers mean other things
// elsewhere (thumbnail, interoperability).
var exifTags = map[string]map[string]bool{
	"IFD0": {"Orientation": true, "Make": true, "Model": true, "Software": true,
		"StripOffsets": true, "StripByteCounts": true, "TileOffsets": true, "TileByteCounts": true},
	"IFD0/ExifIFDP": {"Make": true, "Model": true, // where some phones put them
		"DateTimeOriginal": true, "CreateDate": true, "DateTimeDigitized": true, "OffsetTimeOriginal": true, "OffsetTimeDigitized": true, "OffsetTime": true},
	"IFD0/GPSInfoIFD": {"GPSLatitude": true, "GPSLatitudeRef": true, "GPSLongitude": true, "GPSLongitudeRef": true,
		"GPSAltitude": true, "GPSAltitudeRef": true},
}

// readEXIF reads the EXIF block, and the size where the format has no reader of its own.
func readEXIF(b *boundedReader, m *Metadata, format imagemeta.ImageFormat) {
	e := decodeEXIF(b.section(0, b.size), m, format, imagemeta.EXIF|imagemeta.CONFIG)
	if format == imagemeta.TIFF {
		e.checkBlocks(m, float64(b.size))
	}
}

// checkBlocks looks for parts of a TIFF's picture beyond the end of the file.
func (e exif) checkBlocks(m *Metadata, size float64) {
	for _, kind := range []string{"Strip", "Tile"} {
		at, counts := numbers(e.values[kind+"Offsets"]), numbers(e.values[kind+"ByteCounts"])
		for i := range min(len(at), len(counts)) {
			if at[i]+counts[i] > size {
				m.cut("part %d of %d of the picture lies beyond the end of the file", i+1, len(at))
				return
			}
		}
	}
}

// decodeEXIF reads r with the library, which recovers from its own panics; the reader below it bounds its work.
func decodeEXIF(r io.ReadSeeker, m *Metadata, format imagemeta.ImageFormat, sources imagemeta.Source) exif {
	values := map[string]any{}
	bad := map[string]bool{}
	res, err := imagemeta.Decode(imagemeta.Options{
		R: r, ImageFormat: format, Sources: sources,
		ShouldHandleTag: func(t imagemeta.TagInfo) bool { return exifTags[t.Namespace][t.Tag] },
		HandleTag: func(t imagemeta.TagInfo) error {
			if old, taken := values[t.Tag]; !taken || old == "" {
				values[t.Tag] = t.Value
			}
			return nil
		},
		Warnf: func(f string, args ...any) {
			name, _, _ := strings.Cut(fmt.Sprintf(f, args...), ":")
			bad[name] = true
		},
	})
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		m.lost("the EXIF block is cut")
	case err != nil:
		m.lost("EXIF: %v", err)
	}
	if sources.Has(imagemeta.CONFIG) {
		m.imageSize(res.ImageConfig)
	}
	e := exif{values: values, bad: bad}
	e.apply(m)
	if m.Rotation == nil && err == nil && !bad["Orientation"] {
		m.Rotation = some(0)
	}
	return e
}

func (m *Metadata) imageSize(c imagemeta.ImageConfig) {
	if c.Width > 0 && c.Height > 0 && c.Width < 1<<31 && c.Height < 1<<31 {
		m.Width, m.Height = some(c.Width), some(c.Height)
	} else {
		m.cut("the size of the picture is not in the file")
	}
}

type exif struct {
	values map[string]any
	bad    map[string]bool
}

// turns is the clockwise rotation that shows a picture of each orientation upright, mirroring
// aside (EXIF 2.32 §4.6.4, tag 0x0112).
var turns = [...]int{1: 0, 2: 0, 3: 180, 4: 180, 5: 270, 6: 90, 7: 90, 8: 270}

func (e exif) apply(m *Metadata) {
	m.Make, m.Model, m.Software = text(e.str("Make")), text(e.str("Model")), text(e.str("Software"))
	if o, ok := e.num("Orientation"); ok && o >= 1 && o <= 8 {
		m.Orientation, m.Rotation = some(int(o)), some(turns[int(o)])
	} else if ok && o != 0 {
		m.warn("the orientation %v is not one of 1 to 8", o)
	}
	m.GPS = e.position(m)
	for _, c := range [][3]string{{"DateTimeOriginal", "OffsetTimeOriginal", "exif"},
		{"CreateDate", "OffsetTimeDigitized", "exif_digitized"}, {"DateTimeDigitized", "OffsetTimeDigitized", "exif_digitized"}} {
		if e.created(m, c[0], c[1], c[2]) {
			return
		}
	}
}

// created reads one of the dates.
func (e exif) created(m *Metadata, name, offset, source string) bool {
	s := strings.TrimSpace(e.str(name))
	t, local, ok := parseExifTime(s, e.str(offset))
	if ok {
		m.setCreated(t, local, source)
	} else if !noTime(s) {
		m.warn("the time %.40q in %s is not in the form of EXIF", cleanText(s), name)
	}
	return ok
}

// noTime recognises the placeholder of devices without a clock.
func noTime(s string) bool { return strings.HasPrefix(s, "0000") || strings.Trim(s, " :") == "" }

// parseExifTime reads "2006:01:02 15:04:05", perhaps with an offset behind it or in a tag of its own; without
// one the zone is unknown and the time local.
func parseExifTime(s, offset string) (t time.Time, local, ok bool) {
	if s = strings.TrimSpace(s); noTime(s) {
		return time.Time{}, false, false
	}
	for _, zoned := range []string{s, s + strings.TrimSpace(offset)} {
		if t, err := time.Parse("2006:01:02 15:04:05Z07:00", zoned); err == nil {
			return t, false, true
		}
	}
	t, err := time.Parse("2006:01:02 15:04:05", s)
	return t, true, err == nil
}

// position reads the GPS directory. Latitude and longitude count only when both could be read: a
// zero denominator or a missing reference makes no position.
func (e exif) position(m *Metadata) *GPS {
	lat, ok1 := e.num("GPSLatitude")
	lon, ok2 := e.num("GPSLongitude")
	if !ok1 && !ok2 {
		return nil
	}
	if ref := e.ref("GPSLatitudeRef"); ref == "S" {
		lat = -lat
	} else if ref != "N" {
		ok1 = false
	}
	if ref := e.ref("GPSLongitudeRef"); ref == "W" {
		lon = -lon
	} else if ref != "E" {
		ok2 = false
	}
	if !ok1 || !ok2 || !validPosition(lat, lon) {
		m.warn("the GPS position is incomplete or not a place on Earth")
		return nil
	}
	g := &GPS{Lat: lat, Lon: lon, Source: "exif"}
	if alt, ok := e.num("GPSAltitude"); ok {
		if below, ok := e.num("GPSAltitudeRef"); ok && below == 1 {
			alt = -alt
		}
		g.Alt = &alt
	}
	return g
}

func (e exif) ref(name string) string { return strings.ToUpper(strings.TrimSpace(e.str(name))) }

func (e exif) str(name string) string {
	s, _ := e.values[name].(string)
	return s
}

// numbers reads a list, which is a single number when it has one element.
func numbers(v any) (all []float64) {
	if list := reflect.ValueOf(v); list.Kind() == reflect.Slice {
		for i := range list.Len() {
			all = append(all, numbers(list.Index(i).Interface())...)
		}
	} else if n, ok := toFloat(v); ok {
		all = append(all, n)
	}
	return all
}

// num reads a number. A value that the library could not read is not one.
func (e exif) num(name string) (float64, bool) {
	if e.bad[name] {
		return 0, false
	}
	return toFloat(e.values[name])
}

// toFloat converts a number of any of the types that the library gives; "undef" and text are none.
func toFloat(v any) (f float64, ok bool) {
	switch n := reflect.ValueOf(v); {
	case n.CanUint():
		f = float64(n.Uint())
	case n.CanInt():
		f = float64(n.Int())
	case n.CanFloat():
		f = n.Float()
	default:
		rational, is := v.(interface{ Float64() float64 })
		if !is {
			return 0, false
		}
		f = rational.Float64()
	}
	return f, f == f
}
