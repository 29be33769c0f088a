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

// Metadata is the description of a file by its own data, the output of media.metadata. A missing value is null; numbers
// are never made up.
type Metadata struct {
	Path      string     `json:"path" doc:"The file as given."`
	Name      string     `json:"name" doc:"Last element of the path."`
	Size      int64      `json:"size" doc:"Bytes."`
	MTime     string     `json:"mtime" spec:"time" doc:"Modification time, UTC."`
	SHA256    string     `json:"sha256" doc:"SHA-256 of the content, hexadecimal."`
	XXH64     string     `json:"xxh64,omitempty" doc:"XXH64 (seed 0), when asked for."`
	Kind      string     `json:"kind" doc:"video, audio or image."`
	MIME      string     `json:"mime" doc:"Media type by content."`
	Container *Container `json:"container" doc:"The file format."`
	Streams   []Stream   `json:"streams" doc:"The tracks, in the order of the file."`
	Duration  *float64   `json:"duration" doc:"Seconds, or null."`

	Width         *int `json:"width" doc:"Coded width of the picture, or null."`
	Height        *int `json:"height" doc:"Coded height, or null."`
	DisplayWidth  *int `json:"display_width" doc:"Width as shown, after pixel shape and rotation, or null."`
	DisplayHeight *int `json:"display_height" doc:"Height as shown, or null."`
	Rotation      *int `json:"rotation" doc:"Clockwise turn that shows the picture upright: 0, 90, 180 or 270; null where there is no picture or it cannot be read."`
	Orientation   *int `json:"orientation" doc:"EXIF orientation 1 to 8 (2, 4, 5, 7 are mirrored), or null."`

	Created       *string `json:"created" doc:"When it was taken: RFC 3339 with an offset; without one when created_local; null when unknown."`
	CreatedLocal  bool    `json:"created_local" doc:"The time is that of the camera's clock in an unknown zone."`
	CreatedSource string  `json:"created_source,omitempty" doc:"quicktime, mvhd, day, exif, exif_digitized, ffprobe or exiftool."`

	Make     *string `json:"make" doc:"Maker of the device, or null."`
	Model    *string `json:"model" doc:"Model of the device, or null."`
	Software *string `json:"software" doc:"Program or firmware that wrote the file, or null."`
	GPS      *GPS    `json:"gps" doc:"Position, or null."`

	HasAudio  *bool    `json:"has_audio" doc:"Whether there is a sound track; null where the streams cannot be read."`
	Truncated bool     `json:"truncated" doc:"The file is truncated."`
	Partial   bool     `json:"partial" doc:"Something could not be read; see warnings."`
	Warnings  []string `json:"warnings" doc:"What is wrong with the file, at most 20 lines."`

	foreign bool // no reader here knows the format's streams
}

// Container is the file format that holds the streams.
type Container struct {
	Format           string   `json:"format" doc:"mp4, mov, m4a, jpeg, png …"`
	Brand            string   `json:"brand,omitempty" doc:"Major brand of an MP4."`
	CompatibleBrands []string `json:"compatible_brands,omitempty" doc:"Its other brands."`
	Fragmented       bool     `json:"fragmented,omitempty" doc:"Whether it has movie fragments."`
}

// Stream is one track.
type Stream struct {
	Index      int      `json:"index" doc:"From 0."`
	Type       string   `json:"type" doc:"video, audio, subtitle or data."`
	Codec      string   `json:"codec" doc:"h264, hevc, aac …; of an encrypted track what is underneath."`
	CodecTag   string   `json:"codec_tag,omitempty" doc:"Four-letter code."`
	Profile    string   `json:"profile,omitempty" doc:"Profile, for example High or LC."`
	Language   string   `json:"language,omitempty" doc:"ISO 639-2 code, when set."`
	Duration   *float64 `json:"duration" doc:"Seconds, or null."`
	Width      int      `json:"width,omitempty" doc:"Coded width."`
	Height     int      `json:"height,omitempty" doc:"Coded height."`
	FrameRate  string   `json:"frame_rate,omitempty" doc:"Fraction, for example 30000/1001."`
	Frames     uint64   `json:"frames,omitempty" doc:"Number of samples."`
	Channels   int      `json:"channels,omitempty" doc:"Sound channels."`
	SampleRate int      `json:"sample_rate,omitempty" doc:"Hz."`
	Encrypted  bool     `json:"encrypted,omitempty" doc:"Whether the track is encrypted."`
}

// GPS is a position in WGS 84 degrees; Alt in metres.
type GPS struct {
	Lat     float64  `json:"lat" doc:"Degrees north."`
	Lon     float64  `json:"lon" doc:"Degrees east."`
	Alt     *float64 `json:"alt" doc:"Metres, or null."`
	Default bool     `json:"default" doc:"The position is 0,0: most likely none."`
	Source  string   `json:"source" doc:"quicktime, xyz, loci, exif, ffprobe or exiftool."`
}

func (m *Metadata) warn(format string, args ...any) {
	if len(m.Warnings) < maxWarnings {
		m.Warnings = append(m.Warnings, fmt.Sprintf(format, args...))
	}
}

// lost marks the description as partial, with a warning.
func (m *Metadata) lost(format string, args ...any) {
	m.Partial = true
	m.warn(format, args...)
}

func (m *Metadata) cut(format string, args ...any) {
	m.Truncated = true
	m.lost(format, args...)
}

type metadataParams struct {
	Path     string `json:"path" required:"true" doc:"The file; relative to the pipeline's directory."`
	XXH64    bool   `json:"xxh64" default:"false" doc:"Also compute XXH64, for media hash lists."`
	Programs bool   `json:"programs" default:"true" doc:"Ask ffprobe and exiftool where they are installed. The built-in readers alone take milliseconds for a file, the programs tenths of a second."`
	Damaged  string `json:"damaged" default:"fail" enum:"fail,describe" doc:"What happens with a file that is cut or unreadable: the step fails, or gives what could be read and says why in ´warnings´."`
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

// unusable returns why a file is unusable: it is truncated, or nothing that matters could be read.
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

// describeFile opens, describes and hashes a file. Unreadable parts of a known format are warnings; an error means that
// there is no description.
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

// finish computes derived values.
func (m *Metadata) finish() {
	if len(m.Streams) > 0 || m.Kind == "image" {
		m.HasAudio = some(slices.ContainsFunc(m.Streams, func(s Stream) bool { return s.Type == "audio" }))
	}
	if m.DisplayWidth == nil && m.Width != nil && m.Height != nil && m.Rotation != nil {
		m.setDisplay(*m.Width, *m.Height)
	}
	if m.GPS != nil {
		m.GPS.Default = m.GPS.Lat == 0 && m.GPS.Lon == 0
	}
}

// setDisplay sets the size as shown of a picture of w by h square pixels, which is turned.
func (m *Metadata) setDisplay(w, h int) {
	if *m.Rotation%180 == 90 {
		w, h = h, w
	}
	m.DisplayWidth, m.DisplayHeight = &w, &h
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
