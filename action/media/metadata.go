package media

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/cespare/xxhash/v2"

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
	Rotation      *int `json:"rotation"`    // clockwise: 0, 90, 180, 270
	Orientation   *int `json:"orientation"` // EXIF 1–8

	Created       *string `json:"created"`
	CreatedLocal  bool    `json:"created_local"`
	CreatedSource string  `json:"created_source,omitempty"`

	Make     *string `json:"make"`
	Model    *string `json:"model"`
	Software *string `json:"software"`
	GPS      *GPS    `json:"gps"`

	HasAudio  *bool    `json:"has_audio"`
	Truncated bool     `json:"truncated"`
	Partial   bool     `json:"partial"`
	Warnings  []string `json:"warnings"`

	foreign bool // no reader here knows the format's streams
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
	Path     string `json:"path"`
	XXH64    bool   `json:"xxh64"`
	Programs bool   `json:"programs"`
	Damaged  string `json:"damaged"`
}

type describer struct{ opts Options }

// Run describes one file.
func (d *describer) Run(ctx context.Context, call *action.Call) (any, error) {
	p := metadataParams{Programs: true}
	if err := call.Bind(&p); err != nil {
		return nil, err
	}
	name, err := resolve(call, p.Path)
	if err != nil {
		return nil, err
	}
	o := d.opts
	if !p.Programs {
		o.Ffprobe, o.Exiftool = "", ""
	}
	m, err := describeFile(ctx, name, p.XXH64, o)
	if err != nil {
		return nil, err
	}
	if bad := m.unusable(); bad != nil && p.Damaged != "describe" {
		return nil, action.Fail(bad)
	}
	m.Path = p.Path
	for _, w := range m.Warnings {
		call.Host.Log(slog.LevelWarn, w, slog.String("path", p.Path))
	}
	return m, nil
}

// unusable says why a file is no good: it is cut, or nothing of what matters could be read.
func (m *Metadata) unusable() *stepwell.Error {
	reason := "it states neither streams nor size"
	if len(m.Warnings) > 0 {
		reason = m.Warnings[0]
	}
	switch {
	case m.Truncated:
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: m.Name + " is cut: " + reason,
			Hint: "copy it again from its source; with `damaged: describe` the step gives what could be read"}
	case m.Kind == "image" && m.Width == nil, m.Kind != "image" && len(m.Streams) == 0:
		hint := "it is damaged; with `damaged: describe` the step gives what could be read"
		if m.foreign {
			hint = "install ffprobe; " + hint
		}
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: m.Name + " cannot be read: " + reason, Hint: hint}
	}
	return nil
}

// askPrograms lets the installed programs describe the file, too.
func (m *Metadata) askPrograms(ctx context.Context, name string, o Options) {
	switch {
	case m.Kind == "image":
	case o.Ffprobe != "":
		askFfprobe(ctx, o.Ffprobe, name, m)
	case m.foreign:
		m.lost("the streams of %s are read by ffprobe, which is not installed", m.Container.Format)
	}
	switch {
	case o.Exiftool != "":
		askExiftool(ctx, o.Exiftool, name, m)
	case m.foreign && m.Kind == "image" && m.Width == nil:
		m.lost("the format %s is read by exiftool, which is not installed", m.Container.Format)
	}
	m.finish()
}

// describeFile opens, describes and hashes a file. What it cannot read of a known format is a
// warning; an error means that there is nothing to say.
func describeFile(ctx context.Context, name string, xxh bool, o Options) (*Metadata, error) {
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
	m.askPrograms(ctx, name, o)
	if err := ctx.Err(); err != nil {
		return nil, err
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
		return nil, nil, action.Fail(stepwell.Invalid("name one file", "%s is not a regular file", name))
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
		return nil, action.Fail(stepwell.Invalid(fmt.Sprintf("the file has %d bytes and begins with %x", size, head[:min(len(head), 8)]), "not a picture, video or sound of a known format"))
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
			readEXIF(b, m, s.image)
		}
		checkEnd(b, m)
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
	if len(m.Streams) > 0 || m.Kind == "image" {
		m.HasAudio = some(slices.ContainsFunc(m.Streams, func(s Stream) bool { return s.Type == "audio" }))
	}
	if m.DisplayWidth == nil && m.Width != nil && m.Height != nil && m.Rotation != nil {
		w, h := *m.Width, *m.Height
		if *m.Rotation%180 == 90 {
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
	x := xxhash.New()
	if xxh {
		hashes = append(hashes, x)
	}
	if _, err := copyBlocks(ctx, io.MultiWriter(hashes...), io.NewSectionReader(r, 0, size), nil); err != nil {
		return fmt.Errorf("hash: %w", err)
	}
	m.SHA256 = hex.EncodeToString(sum.Sum(nil))
	if xxh {
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
