package media

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

// maxWarnings bounds the warnings of one file.
const maxWarnings = 20

// Metadata is what one file says about itself, the output of media.metadata. A value that the file
// does not state is null; numbers are never made up.
type Metadata struct {
	Path      string     `json:"path"`
	Name      string     `json:"name"`
	Size      int64      `json:"size"`
	MTime     string     `json:"mtime"`
	SHA256    string     `json:"sha256"`
	XXH64     string     `json:"xxh64,omitempty"`
	Kind      string     `json:"kind"` // video, audio, image
	MIME      string     `json:"mime"`
	Container *Container `json:"container"`
	Streams   []Stream   `json:"streams"`
	Duration  *float64   `json:"duration"` // seconds

	Width         *int `json:"width"` // as coded
	Height        *int `json:"height"`
	DisplayWidth  *int `json:"display_width"` // after pixel shape and rotation
	DisplayHeight *int `json:"display_height"`
	Rotation      int  `json:"rotation"`    // clockwise: 0, 90, 180, 270
	Orientation   *int `json:"orientation"` // EXIF 1–8

	Created       *string `json:"created"`
	CreatedLocal  bool    `json:"created_local"`
	CreatedSource string  `json:"created_source,omitempty"`

	Make     *string `json:"make"`
	Model    *string `json:"model"`
	Software *string `json:"software"`
	GPS      *GPS    `json:"gps"`

	HasAudio  bool     `json:"has_audio"`
	Truncated bool     `json:"truncated"`
	Partial   bool     `json:"partial"`
	Warnings  []string `json:"warnings"`

	foreign bool // no reader here knows the format
}

// Container is the file format that holds the streams.
type Container struct {
	Format           string   `json:"format"` // mp4, mov, jpeg, png …
	Brand            string   `json:"brand,omitempty"`
	CompatibleBrands []string `json:"compatible_brands,omitempty"`
	Fragmented       bool     `json:"fragmented,omitempty"`
}

// Stream is one track.
type Stream struct {
	Index      int      `json:"index"`
	Type       string   `json:"type"`  // video, audio, subtitle, data
	Codec      string   `json:"codec"` // h264, hevc, aac …
	CodecTag   string   `json:"codec_tag,omitempty"`
	Profile    string   `json:"profile,omitempty"`
	Language   string   `json:"language,omitempty"`
	Duration   *float64 `json:"duration"`
	Width      int      `json:"width,omitempty"`
	Height     int      `json:"height,omitempty"`
	FrameRate  string   `json:"frame_rate,omitempty"` // a fraction: "30000/1001"
	Frames     uint64   `json:"frames,omitempty"`
	Channels   int      `json:"channels,omitempty"`
	SampleRate int      `json:"sample_rate,omitempty"`
	Encrypted  bool     `json:"encrypted,omitempty"`
}

// GPS is a position in WGS 84 degrees; Alt in metres.
type GPS struct {
	Lat     float64  `json:"lat"`
	Lon     float64  `json:"lon"`
	Alt     *float64 `json:"alt"`
	Default bool     `json:"default"` // 0,0: most likely written by a device that had no position
	Source  string   `json:"source"`  // quicktime, xyz, loci, exif
}

func (m *Metadata) warn(format string, args ...any) {
	if len(m.Warnings) < maxWarnings {
		m.Warnings = append(m.Warnings, fmt.Sprintf(format, args...))
	}
}

// lost notes something that the file should have told and did not.
func (m *Metadata) lost(format string, args ...any) {
	m.Partial = true
	m.warn(format, args...)
}

func (m *Metadata) cut(format string, args ...any) {
	m.Truncated = true
	m.lost(format, args...)
}

type metadataParams struct {
	Path  string `json:"path"`
	XXH64 bool   `json:"xxh64"`
}

type describer struct{ opts Options }

// Run describes one file.
func (d *describer) Run(ctx context.Context, call *action.Call) (any, error) {
	var p metadataParams
	if err := call.Bind(&p); err != nil {
		return nil, err
	}
	name, err := resolve(call, p.Path)
	if err != nil {
		return nil, err
	}
	m, err := describeFile(ctx, name, p.XXH64, d.opts.Ffprobe)
	if err != nil {
		return nil, err
	}
	m.Path = p.Path
	for _, w := range m.Warnings {
		call.Host.Log(slog.LevelWarn, w, slog.String("path", p.Path))
	}
	return m, nil
}

// describeFile opens, describes and hashes a file. What it cannot read of a known format is a
// warning; an error means that there is nothing to say.
func describeFile(ctx context.Context, name string, xxh bool, ffprobe string) (*Metadata, error) {
	f, info, err := openRegular(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := describe(ctx, f, info.Size())
	if err != nil {
		return nil, err
	}
	m.Name, m.MTime = filepath.Base(name), stamp(info.ModTime())
	if m.foreign {
		describeForeign(ctx, ffprobe, name, m)
	}
	if err := m.hash(ctx, f, info.Size(), xxh); err != nil {
		return nil, err
	}
	if now, err := f.Stat(); err != nil || now.Size() != info.Size() || !now.ModTime().Equal(info.ModTime()) {
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: name + " changed while it was read",
			Hint: "describe it when it has been written completely", Err: err}
	}
	return m, nil
}

func openRegular(name string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(name) // before opening: a pipe would block
	if err == nil && !info.Mode().IsRegular() {
		return nil, nil, action.Fail(invalid(name+" is not a regular file", "name one file"))
	}
	var f *os.File
	if err == nil {
		f, err = os.Open(name)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, action.Fail(&stepwell.Error{Code: stepwell.CodeNotFound, Message: "media file", Err: err})
	case err != nil:
		return nil, nil, fmt.Errorf("media file: %w", err)
	}
	if info, err = f.Stat(); err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("media file: %w", err)
	}
	return f, info, nil
}

// describe reads the metadata of size bytes of media. Only content that is no known medium, a
// failing device and the end of ctx are errors.
func describe(ctx context.Context, r io.ReaderAt, size int64) (m *Metadata, err error) {
	b := newBoundedReader(ctx, r, size)
	head := make([]byte, min(size, 512))
	if _, err := b.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the start of the file: %w", err)
	}
	s := sniff(head)
	if s.format == "" {
		return nil, action.Fail(invalid("not a picture, video or sound of a known format", fmt.Sprintf("the file has %d bytes and begins with %x", size, head[:min(len(head), 8)])))
	}
	m = &Metadata{Size: size, Kind: s.kind, MIME: s.mime, Container: &Container{Format: s.format, Brand: s.brand}, Streams: []Stream{},
		Warnings: []string{}, foreign: s.reader == readNothing}
	guard(m, func() {
		switch s.reader {
		case readMovie:
			readMP4(b, m)
		case readJPEG:
			readJPEGFile(b, m)
		case readImage:
			readEXIF(b, m, s.image, true)
		}
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.finish()
	return m, nil
}

// guard turns a panic of a reader, ours or a library's, into a warning.
func guard(m *Metadata, f func()) {
	defer func() {
		if r := recover(); r != nil {
			m.lost("the reader failed on this file: %v", r)
		}
	}()
	f()
}

// finish derives what follows from the rest.
func (m *Metadata) finish() {
	for _, s := range m.Streams {
		m.HasAudio = m.HasAudio || s.Type == "audio"
	}
	if m.DisplayWidth == nil && m.Width != nil && m.Height != nil {
		w, h := *m.Width, *m.Height
		if m.Rotation == 90 || m.Rotation == 270 {
			w, h = h, w
		}
		m.DisplayWidth, m.DisplayHeight = &w, &h
	}
	if m.GPS != nil {
		m.GPS.Default = m.GPS.Lat == 0 && m.GPS.Lon == 0
	}
}

func (m *Metadata) hash(ctx context.Context, r io.ReaderAt, size int64, xxh bool) error {
	sum := sha256.New()
	hashes := []io.Writer{sum}
	var x hash.Hash64
	if xxh {
		x = newXXH64()
		hashes = append(hashes, x)
	}
	if _, err := copyBlocks(ctx, io.MultiWriter(hashes...), io.NewSectionReader(r, 0, size), nil); err != nil {
		return fmt.Errorf("hash: %w", err)
	}
	m.SHA256 = hex.EncodeToString(sum.Sum(nil))
	if x != nil {
		m.XXH64 = fmt.Sprintf("%016x", x.Sum64())
	}
	return nil
}

func some[T any](v T) *T { return &v }

func text(s string) *string {
	if s = cleanText(s); s == "" {
		return nil
	}
	return &s
}
