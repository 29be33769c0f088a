package media

import (
	"context"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

type ffprobeReport struct {
	Format struct {
		Duration string            `json:"duration"`
		Tags     map[string]string `json:"tags"`
	} `json:"format"`
	Streams []ffprobeStream `json:"streams"`
}

// ffprobeStream is the answer of ffprobe about a stream. Profile, size and channels are decoded into ours.
type ffprobeStream struct {
	Stream
	Type        string            `json:"codec_type"`
	Codec       string            `json:"codec_name"`
	Tag         string            `json:"codec_tag_string"`
	PixelShape  string            `json:"sample_aspect_ratio"`
	Rate        string            `json:"r_frame_rate"`
	Duration    string            `json:"duration"`
	Frames      string            `json:"nb_frames"`
	SampleRate  string            `json:"sample_rate"`
	Tags        map[string]string `json:"tags"`
	Disposition struct {
		Cover int `json:"attached_pic"`
	} `json:"disposition"`
	SideData []struct {
		Rotation *float64 `json:"rotation"` // counter-clockwise
	} `json:"side_data_list"`
}

// askFfprobe lets ffprobe describe the streams of a video or sound. Its values replace those of our reader; the others
// stay.
func askFfprobe(ctx context.Context, program, name string, m *Metadata) {
	answer, complaint, err := ask(ctx, program, "-v", "error", "-protocol_whitelist", "file", "-of", "json", "-show_format", "-show_streams", "-i", "file:"+name)
	var r ffprobeReport
	complaint = place.ReplaceAllString(strings.ReplaceAll(complaint, "file:"+name+": ", ""), "$1:")
	switch {
	case err != nil && complaint != "":
		m.lost("ffprobe: %s", complaint)
		return
	case err != nil:
		m.lost("ffprobe: %v", err)
		return
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		m.lost("the answer of ffprobe: %v", err)
		return
	}
	if complaint != "" {
		m.lost("ffprobe: %s", complaint)
	}
	r.apply(m)
}

// place is where ffmpeg keeps the part of itself that complains, which says nothing to anybody.
var place = regexp.MustCompile(`^\[(.*?) @ 0x[0-9a-f]+\]`)

func (r *ffprobeReport) apply(m *Metadata) {
	if d := parseSeconds(r.Format.Duration); d != nil {
		m.Duration = d
	}
	own := m.Streams
	if len(r.Streams) > 0 {
		m.Streams = []Stream{}
	}
	shown := false
	for i, p := range r.Streams {
		s := p.stream(i)
		if i < len(own) && own[i].Type == s.Type {
			s.fill(own[i])
		}
		m.Streams = append(m.Streams, s)
		if s.Type == "video" && s.Width > 0 && s.Height > 0 && !shown && p.Disposition.Cover == 0 {
			shown = true
			p.show(m)
		}
	}
	picture := slices.ContainsFunc(r.Streams, func(p ffprobeStream) bool { return p.Type == "video" && p.Disposition.Cover == 0 })
	if !picture && m.Kind == "video" && len(r.Streams) > 0 {
		m.Kind = "audio"
		if mime, ok := audioOnly[m.MIME]; ok {
			m.MIME = mime
		}
	}
	r.tags(m)
}

// audioOnly are the types of containers that turn out to have no picture.
var audioOnly = map[string]string{"video/mp4": "audio/mp4", "video/webm": "audio/webm", "video/x-matroska": "audio/x-matroska", "video/x-ms-asf": "audio/x-ms-wma"}

func (p *ffprobeStream) stream(index int) Stream {
	s := p.Stream
	s.Index, s.Type, s.Codec, s.CodecTag = index, p.Type, p.Codec, cleanText(p.Tag)
	s.Duration, s.Language = parseSeconds(p.Duration), p.Tags["language"]
	if s.Language == "und" {
		s.Language = ""
	}
	if s.Type == "video" && p.Rate != "0/0" {
		s.FrameRate = p.Rate
	}
	s.Frames, _ = strconv.ParseUint(p.Frames, 10, 64) // absent in most containers
	s.SampleRate, _ = strconv.Atoi(p.SampleRate)      // absent in pictures
	if strings.Trim(s.CodecTag, "[]0") == "" {        // "[0][0][0][0]": none
		s.CodecTag = ""
	}
	return s
}

// fill adds the values of our reader that ffprobe lacks.
func (s *Stream) fill(own Stream) {
	for _, f := range []struct{ to, from *string }{{&s.Codec, &own.Codec}, {&s.CodecTag, &own.CodecTag}, {&s.Profile, &own.Profile}, {&s.Language, &own.Language}} {
		if *f.to == "" {
			*f.to = *f.from
		}
	}
	if s.Duration == nil {
		s.Duration = own.Duration
	}
	if s.Frames == 0 {
		s.Frames = own.Frames
	}
	s.Encrypted = own.Encrypted
}

// show sets size, rotation and displayed size of the picture.
func (p *ffprobeStream) show(m *Metadata) {
	m.Width, m.Height = some(p.Width), some(p.Height)
	m.Rotation = some(0)
	for _, d := range p.SideData {
		if d.Rotation != nil {
			turn := int(math.Round(-*d.Rotation/90)) * 90
			m.Rotation = some((turn%360 + 360) % 360)
		}
	}
	w, h := p.Width, p.Height
	across, down, _ := strings.Cut(p.PixelShape, ":")
	if a, d := parseCount(across), parseCount(down); a > 0 && d > 0 {
		w = int(math.Round(float64(w) * a / d))
	}
	m.setDisplay(w, h)
}

// tags takes date, device and position; ours, where it could read them, say also where they come from.
func (r *ffprobeReport) tags(m *Metadata) {
	tag := func(names ...string) string {
		for _, n := range names {
			for key, value := range r.Format.Tags {
				if strings.EqualFold(key, n) && value != "" {
					return value
				}
			}
		}
		return ""
	}
	if m.Created == nil {
		if t, local, ok := parseTagTime(tag(qt+"creationdate", "creation_time")); ok {
			m.setCreated(t, local, "ffprobe")
		}
	}
	if g, ok := parseISO6709(tag(qt+"location.ISO6709", "location")); ok && m.GPS == nil {
		g.Source = "ffprobe"
		m.GPS = &g
	}
	fillText(&m.Make, tag(qt+"make", "make"))
	fillText(&m.Model, tag(qt+"model", "model"))
	fillText(&m.Software, tag(qt+"software", "encoder"))
}

// fillText sets a text that is not known yet.
func fillText(to **string, value string) {
	if *to == nil {
		*to = text(value)
	}
}

func parseSeconds(s string) *float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil
	}
	return seconds(v)
}

func parseCount(s string) float64 {
	v, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0
	}
	return float64(v)
}
