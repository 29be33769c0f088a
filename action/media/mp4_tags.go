package media

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"time"
)

// tags are the texts of a movie's user data by source: QuickTime keys ("com.apple.quicktime.…") and
// four-letter codes. The first of a name wins.
type tags struct {
	values map[string]string
	loci   *GPS
}

func (g *tags) set(name, value string) {
	if g.values == nil {
		g.values = map[string]string{}
	}
	if _, taken := g.values[name]; !taken && len(g.values) < 200 {
		g.values[name] = cleanText(value)
	}
}

func (g *tags) first(names ...string) string {
	for _, n := range names {
		if v := g.values[n]; v != "" {
			return v
		}
	}
	return ""
}

func (v *movie) readUdta(udta box) error {
	return v.each(udta.body, udta.end, func(x box) error {
		name := name4(x.typ)
		switch {
		case name == "meta":
			return v.readMeta(x)
		case name == "loci":
			if p, err := v.payload(x, maxLeaf); err == nil {
				v.tags.loci = parseLoci(p)
			}
		case x.typ[0] == 0xa9:
			if p, err := v.payload(x, maxLeaf); err == nil && len(p) >= 4 { // length, language, text
				n := min(int(binary.BigEndian.Uint16(p)), len(p)-4)
				v.tags.set(name, string(p[4:4+n]))
			}
		}
		return nil
	})
}

// readMeta reads a metadata box: ISO's and iTunes' with version and flags, QuickTime's without.
func (v *movie) readMeta(meta box) error {
	at := meta.body
	var h [8]byte
	if err := v.full(h[:], at); err != nil || meta.end-meta.body < 8 {
		return nil
	}
	if string(h[4:]) != "hdlr" {
		at += 4
	}
	var keys []string
	return v.each(at, meta.end, func(x box) error {
		switch name4(x.typ) {
		case "keys":
			if p, err := v.payload(x, maxLeaf); err == nil {
				keys = parseKeys(p)
			}
		case "ilst":
			return v.each(x.body, x.end, func(item box) error { return v.readItem(item, keys) })
		}
		return nil
	})
}

// parseKeys reads the names that numbered items refer to, from 1.
func parseKeys(p []byte) []string {
	var keys []string
	if len(p) < 8 {
		return nil
	}
	for p = p[8:]; len(p) >= 8 && len(keys) < 1000; {
		n := int(binary.BigEndian.Uint32(p))
		if n < 8 || n > len(p) {
			return keys
		}
		keys = append(keys, string(p[8:n]))
		p = p[n:]
	}
	return keys
}

func (v *movie) readItem(item box, keys []string) error {
	name := name4(item.typ)
	if numbered(item.typ) {
		n := binary.BigEndian.Uint32(item.typ[:])
		if n == 0 || uint64(n) > uint64(len(keys)) {
			return nil
		}
		name = keys[n-1]
	}
	return v.each(item.body, item.end, func(x box) error {
		if name4(x.typ) != "data" || x.end-x.body > 64<<10 { // cover pictures are of no use here
			return nil
		}
		if p, err := v.payload(x, 64<<10); err == nil && len(p) > 8 && binary.BigEndian.Uint32(p) == 1 { // UTF-8
			v.tags.set(name, string(p[8:]))
		}
		return nil
	})
}

// parseLoci reads 3GPP TS 26.244 §8.2: language, place name, role, then longitude, latitude and
// altitude as 16.16 fixed point numbers.
func parseLoci(p []byte) *GPS {
	if len(p) < 7 {
		return nil
	}
	p = p[6:]
	end := bytes.IndexByte(p, 0)
	if end < 0 || len(p) < end+1+1+12 {
		return nil
	}
	p = p[end+2:]
	fixed := func(at int) float64 {
		return math.Round(float64(int32(binary.BigEndian.Uint32(p[at:])))/65536*1e5) / 1e5
	}
	g := &GPS{Lon: fixed(0), Lat: fixed(4), Alt: some(fixed(8)), Source: "loci"}
	if !validPosition(g.Lat, g.Lon) {
		return nil
	}
	return g
}

const qt = "com.apple.quicktime."

// apply writes the tags into the description. QuickTime's creation date has a zone and is kept by
// exports, so it wins over the movie header.
func (g *tags) apply(m *Metadata, header time.Time) {
	m.Make = text(g.first(qt+"make", "\xa9mak"))
	m.Model = text(g.first(qt+"model", "\xa9mod"))
	m.Software = text(g.first(qt+"software", "\xa9swr", "\xa9too", "\xa9enc"))
	if t, local, ok := parseTagTime(g.first(qt + "creationdate")); ok {
		m.setCreated(t, local, "quicktime")
	} else if !header.IsZero() {
		m.setCreated(header, false, "mvhd")
	} else if t, local, ok := parseTagTime(g.first("\xa9day")); ok {
		m.setCreated(t, local, "day")
	}
	for _, c := range []struct{ value, source string }{{g.first(qt + "location.ISO6709"), "quicktime"}, {g.first("\xa9xyz"), "xyz"}} {
		if c.value == "" || m.GPS != nil {
			continue
		}
		if p, ok := parseISO6709(c.value); ok {
			p.Source = c.source
			m.GPS = &p
		} else {
			m.warn("the location %.60q is not in the form of ISO 6709", c.value)
		}
	}
	if m.GPS == nil {
		m.GPS = g.loci
	}
}

func parseTagTime(s string) (t time.Time, local, ok bool) {
	for _, layout := range []string{"2006-01-02T15:04:05Z0700", time.RFC3339} {
		if t, err := time.Parse(layout, s); err == nil && t.Year() > 1970 {
			return t, false, true
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05"} {
		if t, err := time.Parse(layout, s); err == nil && t.Year() > 1970 {
			return t, true, true
		}
	}
	return time.Time{}, false, false
}

// setCreated writes a time with its offset, or without any when the zone is not known: inventing
// one would shift the moment by hours.
func (m *Metadata) setCreated(t time.Time, local bool, source string) {
	layout := time.RFC3339
	if local {
		layout = "2006-01-02T15:04:05"
	}
	m.Created, m.CreatedLocal, m.CreatedSource = some(strings.TrimSpace(t.Format(layout))), local, source
}
