package media

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
)

// sharedData finds the real media files; without them the tests on generated files remain.
func sharedData(t testing.TB) string {
	dir := os.Getenv("STEPWELL_SHARED_DATA")
	if dir == "" {
		dir = "../../../shared/data" // a test runs in the folder of its package
	}
	dir = filepath.Join(dir, "media")
	if _, err := os.Stat(filepath.Join(dir, "expected.json")); err != nil {
		t.Skip("real media files not found: comparison with ffprobe and exiftool left out")
	}
	return dir
}

type expectation struct {
	Size     int64
	SHA256   string
	Exiftool struct {
		FileType, MIMEType, CreateDate, DateTimeOriginal, Make, Model, Warning string
		Duration                                                               *float64
		ImageWidth, ImageHeight, Rotation, Orientation                         *int
		GPSLatitude, GPSLongitude, GPSAltitude                                 *float64
	}
	Ffprobe *struct {
		Duration *string
		Tags     map[string]string
		Streams  []struct {
			Codec    string `json:"codec_name"`
			Tag      string `json:"codec_tag_string"`
			Type     string `json:"codec_type"`
			Duration string
			Width    int
			Height   int
			Frames   string `json:"nb_frames"`
			Profile  string
			Rate     string `json:"r_frame_rate"`
			Channels int
			Sample   string `json:"sample_rate"`
			Rotation []int
		}
	}
}

// TestExpected compares every real file with what ffprobe, exiftool and sha256sum say (M2), once by the readers
// here alone and once with the programs beside them.
func TestExpected(t *testing.T) {
	t.Run("alone", func(t *testing.T) { testExpected(t, Options{}) })
	if !testing.Short() { // they take tenths of a second for each file
		t.Run("with programs", func(t *testing.T) { testExpected(t, programs(t)) })
	}
}

func testExpected(t *testing.T, o Options) {
	dir := sharedData(t)
	raw, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]expectation
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 73 {
		t.Fatalf("%d files, want 73", len(all))
	}
	media, gps := 0, 0
	for name, want := range all {
		t.Run(name, func(t *testing.T) {
			m := runMetadata(t, dir, name, o)
			if m.Size != want.Size || m.SHA256 != want.SHA256 || m.MIME != want.Exiftool.MIMEType {
				t.Errorf("size %d, sha256 %s, mime %s; want %d, %s, %s", m.Size, m.SHA256, m.MIME, want.Size, want.SHA256, want.Exiftool.MIMEType)
			}
			if m.GPS != nil && want.Exiftool.Warning == "" { // exiftool does not read EXIF of pictures without a frame
				gps++
			}
			if want.Ffprobe != nil {
				media++
				compareFfprobe(t, m, want)
			}
			compareExiftool(t, m, want)
		})
	}
	if media != 8 || gps != 5 {
		t.Errorf("%d audio/video files, %d with GPS; want 8 and 5", media, gps)
	}
}

func runMetadata(t testing.TB, dir, name string, o Options) *Metadata {
	t.Helper()
	a := action.Action{Spec: metadataSpec(), Handler: &describer{opts: o.withDefaults()}}
	r := actiontest.Run(t.Context(), a, actiontest.Call{Dir: dir, Params: map[string]any{"path": name, "damaged": "describe"}})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	checkOutputs(t, metadataSpec().Outputs, r.Outputs)
	return decoded[Metadata](t, r.Outputs)
}

func compareFfprobe(t *testing.T, m *Metadata, want expectation) {
	t.Helper()
	f := want.Ffprobe
	switch {
	case f.Duration == nil && m.Duration != nil:
		t.Errorf("duration %v, want none", *m.Duration)
	case f.Duration != nil:
		if d, _ := strconv.ParseFloat(*f.Duration, 64); m.Duration == nil || math.Abs(d-*m.Duration) > 0.05 {
			t.Errorf("duration %v, want %v", deref(m.Duration), d)
		}
	}
	if len(m.Streams) != len(f.Streams) {
		t.Fatalf("%d streams, want %d", len(m.Streams), len(f.Streams))
	}
	for i, w := range f.Streams {
		s := m.Streams[i]
		if s.Type != w.Type || s.Codec != w.Codec || s.CodecTag != w.Tag || s.Width != w.Width || s.Height != w.Height || s.Channels != w.Channels {
			t.Errorf("stream %d is %+v, want %+v", i, s, w)
		}
		if d, _ := strconv.ParseFloat(w.Duration, 64); math.Abs(d-deref(s.Duration)) > 0.05 {
			t.Errorf("stream %d lasts %v, want %v", i, deref(s.Duration), d)
		}
		if w.Frames != "" && strconv.FormatUint(s.Frames, 10) != w.Frames {
			t.Errorf("stream %d has %d frames, want %s", i, s.Frames, w.Frames)
		}
		if w.Profile != "" && s.Profile != w.Profile { // ffprobe has none where it found no decoder settings
			t.Errorf("stream %d has profile %q, want %q", i, s.Profile, w.Profile)
		}
		if w.Sample != "" && strconv.Itoa(s.SampleRate) != w.Sample {
			t.Errorf("stream %d has %d Hz, want %s", i, s.SampleRate, w.Sample)
		}
		if w.Type == "video" && f.Duration != nil && s.FrameRate != w.Rate { // without frames ffprobe shows the timescale
			t.Errorf("stream %d has frame rate %q, want %q", i, s.FrameRate, w.Rate)
		}
		for _, ccw := range w.Rotation {
			if deref(m.Rotation) != (360-ccw)%360 {
				t.Errorf("rotation %d, ffprobe says %d counter-clockwise", deref(m.Rotation), ccw)
			}
		}
	}
	created := f.Tags["creation_time"]
	if strings.HasPrefix(created, "1970-01-01") {
		created = ""
	}
	if created = strings.Replace(created, ".000000Z", "Z", 1); created != deref(m.Created) {
		t.Errorf("created %q, want %q", deref(m.Created), created)
	}
	if software := deref(m.Software); software != f.Tags["encoder"] {
		t.Errorf("software %q, want %q", software, f.Tags["encoder"])
	}
	if m.Container.Brand != strings.TrimSpace(f.Tags["major_brand"]) {
		t.Errorf("brand %q, want %q", m.Container.Brand, f.Tags["major_brand"])
	}
}

func compareExiftool(t *testing.T, m *Metadata, want expectation) {
	t.Helper()
	e := want.Exiftool
	if e.ImageWidth != nil && (deref(m.Width) != *e.ImageWidth || deref(m.Height) != *e.ImageHeight) {
		t.Errorf("%dx%d, want %dx%d", deref(m.Width), deref(m.Height), *e.ImageWidth, *e.ImageHeight)
	}
	if e.Rotation != nil && deref(m.Rotation) != *e.Rotation {
		t.Errorf("rotation %d, want %d", deref(m.Rotation), *e.Rotation)
	}
	if e.Orientation != nil && deref(m.Orientation) != *e.Orientation {
		t.Errorf("orientation %d, want %d", deref(m.Orientation), *e.Orientation)
	}
	if e.Make != "" && deref(m.Make) != e.Make || e.Model != "" && deref(m.Model) != e.Model { // one file has an empty make and a full one
		t.Errorf("make %q model %q, want %q %q", deref(m.Make), deref(m.Model), e.Make, e.Model)
	}
	if e.GPSLatitude != nil {
		if m.GPS == nil || math.Abs(m.GPS.Lat-*e.GPSLatitude) > 1e-4 || math.Abs(m.GPS.Lon-*e.GPSLongitude) > 1e-4 {
			t.Errorf("position %+v, want %v %v", m.GPS, *e.GPSLatitude, *e.GPSLongitude)
		} else if e.GPSAltitude != nil && (m.GPS.Alt == nil || math.Abs(*m.GPS.Alt-*e.GPSAltitude) > 0.01) {
			t.Errorf("altitude %v, want %v", deref(m.GPS.Alt), *e.GPSAltitude)
		}
	} else if m.GPS != nil && e.Warning == "" {
		t.Errorf("position %+v, want none", m.GPS)
	}
	created := e.DateTimeOriginal
	if created == "" {
		created = e.CreateDate
	}
	if strings.HasPrefix(created, "0000") {
		created = ""
	}
	got := strings.NewReplacer("-", ":", "T", " ", "Z", "").Replace(deref(m.Created))
	if e.Warning == "" && got != created {
		t.Errorf("created %q, want %q", deref(m.Created), created)
	}
	if strings.Contains(e.Warning, "JPEG format error") && (!m.Partial || len(m.Warnings) == 0) {
		t.Errorf("a broken picture is not partial")
	}
	if e.Warning == "" && m.Partial && m.Name != "sample_qt.mp4" {
		t.Errorf("a whole file is partial: %v", m.Warnings)
	}
}

func deref[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}

// TestRotatedClip spells out the one clip with everything (M2).
func TestRotatedClip(t *testing.T) {
	m := runMetadata(t, sharedData(t), "generated/clip_rotated_gps.mp4", Options{})
	if math.Abs(deref(m.Duration)-3) > 0.05 || deref(m.Width) != 640 || deref(m.Height) != 360 || deref(m.DisplayWidth) != 360 || deref(m.DisplayHeight) != 640 ||
		deref(m.Rotation) != 270 || deref(m.Created) != "2026-03-14T09:26:53Z" || m.CreatedLocal || !deref(m.HasAudio) || m.Truncated || m.Partial {
		t.Errorf("%+v", m)
	}
	if math.Abs(m.GPS.Lat-48.8584) > 1e-4 || math.Abs(m.GPS.Lon-2.2945) > 1e-4 || m.GPS.Default {
		t.Errorf("%+v", m.GPS)
	}
	def := runMetadata(t, sharedData(t), "abema-go-mp4/sample.mp4", Options{})
	if def.GPS == nil || !def.GPS.Default || def.Created != nil {
		t.Errorf("0,0 is not marked as a default: %+v", def.GPS)
	}
	frag := runMetadata(t, sharedData(t), "abema-go-mp4/sample_fragmented.mp4", Options{})
	if math.Abs(deref(frag.Duration)-1.2096) > 1e-4 || !frag.Container.Fragmented {
		t.Errorf("fragmented: %v", deref(frag.Duration))
	}
	if qt := runMetadata(t, sharedData(t), "abema-go-mp4/sample_qt.mp4", Options{}); !qt.Truncated || deref(qt.Duration) != 596.458 || qt.Created != nil {
		t.Errorf("sample_qt.mp4: %+v", qt)
	}
	if enc := runMetadata(t, sharedData(t), "abema-go-mp4/sample_init.encv.mp4", Options{}); !enc.Streams[0].Encrypted || enc.Duration != nil {
		t.Errorf("encrypted: %+v", enc.Streams)
	}
}
