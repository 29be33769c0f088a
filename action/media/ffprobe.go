package media

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

const (
	ffprobeTimeout = 30 * time.Second
	ffprobeOutput  = 1 << 20
)

type ffprobeReport struct {
	Format struct {
		Duration string            `json:"duration"`
		Tags     map[string]string `json:"tags"`
	} `json:"format"`
	Streams []struct {
		Index      int               `json:"index"`
		Type       string            `json:"codec_type"`
		Codec      string            `json:"codec_name"`
		Tag        string            `json:"codec_tag_string"`
		Profile    string            `json:"profile"`
		Width      int               `json:"width"`
		Height     int               `json:"height"`
		Rate       string            `json:"r_frame_rate"`
		Duration   string            `json:"duration"`
		Frames     string            `json:"nb_frames"`
		Channels   int               `json:"channels"`
		SampleRate string            `json:"sample_rate"`
		Tags       map[string]string `json:"tags"`
		SideData   []struct {
			Rotation *float64 `json:"rotation"`
		} `json:"side_data_list"`
	} `json:"streams"`
}

// describeForeign asks ffprobe about a container that has no reader here. Without the program, or
// when it fails, the result is partial and says so.
func describeForeign(ctx context.Context, program, name string, m *Metadata) {
	if program == "" {
		m.lost("the format %s has no reader here, and no ffprobe is configured", m.Container.Format)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, ffprobeTimeout)
	defer cancel()
	out := &capped{left: ffprobeOutput}
	cmd := exec.CommandContext(ctx, program, "-v", "error", "-of", "json", "-show_format", "-show_streams", "-i", "file:"+name)
	cmd.Stdout, cmd.WaitDelay = out, time.Second
	if err := cmd.Run(); err != nil {
		m.lost("ffprobe: %v", err)
		return
	}
	var r ffprobeReport
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		m.lost("ffprobe's answer: %v", err)
		return
	}
	r.apply(m)
}

func (r *ffprobeReport) apply(m *Metadata) {
	m.Duration = parseSeconds(r.Format.Duration)
	for _, p := range r.Streams {
		s := Stream{Index: p.Index, Type: p.Type, Codec: p.Codec, CodecTag: cleanText(p.Tag), Profile: p.Profile,
			Width: p.Width, Height: p.Height, Duration: parseSeconds(p.Duration), Channels: p.Channels, Language: p.Tags["language"]}
		if s.Type == "video" && p.Rate != "0/0" {
			s.FrameRate = p.Rate
		}
		s.Frames, _ = strconv.ParseUint(p.Frames, 10, 64) // absent for most containers
		s.SampleRate, _ = strconv.Atoi(p.SampleRate)      // absent for pictures
		if strings.Trim(s.CodecTag, "[]0") == "" {        // "[0][0][0][0]": none
			s.CodecTag = ""
		}
		m.Streams = append(m.Streams, s)
		if s.Type == "video" && s.Width > 0 && s.Height > 0 && m.Width == nil {
			m.Width, m.Height = some(s.Width), some(s.Height)
			for _, d := range p.SideData {
				if d.Rotation != nil { // counter-clockwise
					m.Rotation = ((-int(*d.Rotation))%360 + 360) % 360 / 90 * 90
				}
			}
		}
	}
	if m.Kind == "video" && m.Width == nil && len(m.Streams) > 0 {
		m.Kind = "audio"
	}
	if t, local, ok := parseTagTime(r.Format.Tags["creation_time"]); ok {
		m.setCreated(t, local, "ffprobe")
	}
	m.Software = text(r.Format.Tags["encoder"])
	m.finish()
}

func parseSeconds(s string) *float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil
	}
	return seconds(v)
}

// capped keeps a bounded amount of output.
type capped struct {
	bytes.Buffer
	left int
}

func (c *capped) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		return 0, fmt.Errorf("more than %d bytes: %w", ffprobeOutput, io.ErrShortWrite)
	}
	return c.Buffer.Write(p)
}
