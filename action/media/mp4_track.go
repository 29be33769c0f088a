package media

import (
	"math"

	mp4 "github.com/abema/go-mp4"
)

// track is one trak box with the additions of the fragments.
type track struct {
	id        uint32
	header    bool // tkhd has been read
	handler   string
	timescale uint32
	ticks     float64 // of mdhd
	edited    float64 // sum of the edit list, in the movie's timescale
	empty     bool    // the edit list begins with nothing
	skipped   float64 // ticks before the first edit of the media
	matrix    [4]int32
	stream    Stream
	rate      rate
	pixelH    uint32
	pixelV    uint32

	fragFrom, fragTo float64 // ticks covered by fragments
	fragFrames       uint64
	fragRate         rate
	inFragments      bool
}

func (v *movie) readTrak(trak box, t *track) error {
	return v.each(trak.body, trak.end, func(x box) error {
		switch name4(x.typ) {
		case "tkhd":
			var h mp4.Tkhd
			if _, ok := v.decode(x, &h); ok {
				t.id, t.header = h.TrackID, true
				t.matrix = [4]int32{h.Matrix[0], h.Matrix[1], h.Matrix[3], h.Matrix[4]}
			}
		case "edts":
			return v.each(x.body, x.end, func(y box) error { v.readElst(y, t); return nil })
		case "mdia":
			return v.readMdia(x, t)
		}
		return nil
	})
}

func (v *movie) readElst(x box, t *track) {
	var h mp4.Elst
	if name4(x.typ) != "elst" {
		return
	}
	if _, ok := v.decode(x, &h); !ok {
		return
	}
	for i, e := range h.Entries {
		if from := h.GetMediaTime(i); from < 0 {
			t.empty = true
		} else if t.skipped == 0 {
			t.skipped = float64(from)
		}
		if h.GetVersion() == 0 {
			t.edited += knownTicks(uint64(e.SegmentDurationV0), 0)
		} else {
			t.edited += knownTicks(h.GetSegmentDuration(i), 1)
		}
	}
}

func (v *movie) readMdia(mdia box, t *track) error {
	return v.each(mdia.body, mdia.end, func(x box) error {
		switch name4(x.typ) {
		case "mdhd":
			var h mp4.Mdhd
			if _, ok := v.decode(x, &h); ok {
				t.timescale, t.ticks = h.Timescale, knownTicks(h.GetDuration(), h.GetVersion())
				t.stream.Language = language(h.Language)
			}
		case "hdlr":
			if p, err := v.payload(x, maxLeaf); err == nil && len(p) >= 12 && t.handler == "" {
				t.handler = string(p[8:12])
			}
		case "minf":
			return v.each(x.body, x.end, func(y box) error {
				if name4(y.typ) == "stbl" {
					return v.each(y.body, y.end, func(z box) error { return v.readTable(z, t) })
				}
				return nil
			})
		}
		return nil
	})
}

// language gives the packed ISO 639-2 code, "" for "und" and for Macintosh codes.
func language(packed [3]byte) string {
	code := make([]byte, 3)
	for i, c := range packed {
		if c < 1 || c > 26 {
			return ""
		}
		code[i] = c + 0x60
	}
	if string(code) == "und" {
		return ""
	}
	return string(code)
}

// rotation is the clockwise turn of the display matrix (ISO 14496-12 §8.3.2: x' = ax + cy,
// y' = bx + dy, y downwards). exiftool reports it the same way, ffprobe counter-clockwise.
func (t *track) rotation() (degrees int, exact, mirrored bool) {
	a, b, c, d := float64(t.matrix[0]), float64(t.matrix[1]), float64(t.matrix[2]), float64(t.matrix[3])
	if a == 0 && b == 0 {
		return 0, true, false
	}
	angle := math.Mod(math.Atan2(b, a)*180/math.Pi+360, 360)
	turn := math.Round(angle / 90)
	return int(turn) * 90 % 360, math.Abs(angle-turn*90) < 1, a*d-b*c < 0
}

// seconds is the track's length in the presentation: that of the edit list if it has one, plus the fragments; 0 is
// unknown.
func (t *track) seconds(movieScale uint32) float64 {
	s := 0.0
	switch {
	case t.edited > 0 && movieScale > 0:
		s = t.edited / float64(movieScale)
	case t.timescale > 0:
		s = t.ticks / float64(t.timescale)
	}
	if t.inFragments && t.timescale > 0 {
		s += (t.fragTo - t.fragFrom) / float64(t.timescale)
		if t.empty { // fills the time up to the first picture of reordered ones
			s -= math.Min(t.edited/math.Max(float64(movieScale), 1), t.skipped/float64(t.timescale))
		}
	}
	return s
}

// finish puts the tracks together into the description.
func (v *movie) finish() {
	longest := 0.0
	for i, t := range v.tracks {
		s := t.describe(i, v.timescale)
		if s.Duration != nil {
			longest = math.Max(longest, *s.Duration)
		}
		v.m.Streams = append(v.m.Streams, s)
	}
	if v.moov && len(v.tracks) == 0 {
		v.m.lost("the movie header names no track")
	}
	v.m.Duration = v.total(longest)
	v.picture()
	v.tags.apply(v.m, v.created)
	if v.m.Kind == "video" && v.moov && len(v.tracks) > 0 && v.m.Width == nil {
		for _, s := range v.m.Streams {
			if s.Type == "audio" {
				v.m.Kind, v.m.MIME = "audio", "audio/mp4"
			}
		}
	}
}

// total is the length of the whole as ffprobe shows it: of a fragmented file that of its longest track, else that of
// the movie header, which is the same in a consistent file. Without either: sidx, mehd. Of a damaged file only the
// movie header counts; the longest track may be one that could not be read.
func (v *movie) total(longest float64) *float64 {
	header := 0.0
	if v.timescale > 0 {
		header = v.duration / float64(v.timescale)
	}
	switch {
	case !v.m.Container.Fragmented && !v.mayFragment && header > 0:
		return seconds(header)
	case v.damaged:
		return nil
	}
	for _, s := range v.sidx {
		if longest == 0 || !v.m.Container.Fragmented {
			longest = math.Max(longest, s)
		}
	}
	if longest == 0 && v.timescale > 0 {
		longest = v.fragTotal / float64(v.timescale)
	}
	if longest == 0 {
		longest = header
	}
	return seconds(longest)
}

// seconds rounds to microseconds; nil for zero and impossible values.
func seconds(s float64) *float64 {
	s = math.Round(s*1e6) / 1e6
	if !(s > 0) || s > 1e12 {
		return nil
	}
	return &s
}

func (t *track) describe(index int, movieScale uint32) Stream {
	s := t.stream
	s.Index = index
	switch t.handler {
	case "vide":
		s.Type = "video"
	case "soun":
		s.Type = "audio"
	case "subt", "text", "sbtl", "clcp":
		s.Type = "subtitle"
	default:
		s.Type = "data"
	}
	s.Duration = seconds(t.seconds(movieScale))
	if s.Frames += t.fragFrames; s.Type == "video" {
		r := t.rate
		if r.samples == 0 {
			r = t.fragRate
		}
		s.FrameRate = r.fraction(t.timescale)
	}
	return s
}

// picture takes size and rotation from the first video track that has a size.
func (v *movie) picture() {
	for i, s := range v.m.Streams {
		if s.Type != "video" || s.Width == 0 || s.Height == 0 {
			continue
		}
		t := v.tracks[i]
		v.m.Width, v.m.Height = some(s.Width), some(s.Height)
		turn, exact, mirrored := t.rotation()
		switch v.m.Rotation = some(turn); {
		case !t.header:
			v.m.Rotation = nil
			v.m.lost("the rotation is not known: the track has no readable header")
		case !exact:
			v.m.warn("the display matrix turns by no multiple of 90 degrees")
		}
		if mirrored {
			v.m.warn("the display matrix mirrors the picture")
		}
		w, h := s.Width, s.Height
		if t.pixelH > 0 && t.pixelV > 0 && t.pixelH != t.pixelV && t.pixelH < 1<<16 && t.pixelV < 1<<16 {
			w = int(math.Round(float64(w) * float64(t.pixelH) / float64(t.pixelV)))
		}
		if v.m.Rotation != nil {
			v.m.setDisplay(w, h)
		}
		return
	}
}
