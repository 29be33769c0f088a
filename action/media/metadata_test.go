package media

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

func writeFile(t testing.TB, dir, name string, data []byte) string {
	t.Helper()
	full := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return full
}

func describeBytes(t testing.TB, data []byte) *Metadata {
	t.Helper()
	m, err := describe(t.Context(), bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestSamples checks each format on files of our own, so that it holds without the real ones.
func TestSamples(t *testing.T) {
	type want struct {
		kind, mime, created, make, model string
		local                            bool
		duration                         float64
		w, h, dw, dh, rotation, tracks   int
		audio                            bool
		gps                              *GPS
	}
	for name, w := range map[string]want{
		"clip.mp4":  {kind: "video", mime: "video/mp4", created: "2026-08-15T00:00:13Z", duration: 10.032, w: 1920, h: 1080, dw: 1920, dh: 1080, tracks: 2, audio: true},
		"end.mov":   {kind: "video", mime: "video/quicktime", created: "2019-07-01T18:30:00+02:00", duration: 9.976, w: 1920, h: 1080, dw: 1920, dh: 1080, tracks: 1},
		"frag.mp4":  {kind: "video", mime: "video/mp4", duration: 2.1, w: 64, h: 48, dw: 64, dh: 48, tracks: 1},
		"voice.m4a": {kind: "audio", mime: "audio/mp4", duration: 10.026, tracks: 1, audio: true},
		"photo.jpg": {kind: "image", mime: "image/jpeg", created: "2026-03-14T09:26:53+01:00", make: "ACME", model: "ACME One", w: 40, h: 30, dw: 30, dh: 40, rotation: 90,
			gps: &GPS{Lat: -(33 + 51.0/60 + 24.48/3600), Lon: -(70 + 40.0/60), Alt: some(-8.5), Source: "exif"}},
		"plain.jpg":  {kind: "image", mime: "image/jpeg", w: 8, h: 8, dw: 8, dh: 8},
		"shot.png":   {kind: "image", mime: "image/png", w: 64, h: 48, dw: 64, dh: 48},
		"scan.tif":   {kind: "image", mime: "image/tiff", make: "ACME", w: 64, h: 48, dw: 64, dh: 48},
		"web.webp":   {kind: "image", mime: "image/webp", w: 64, h: 48, dw: 64, dh: 48},
		"phone.heic": {kind: "image", mime: "image/heic", w: 64, h: 48, dw: 64, dh: 48},
	} {
		m := describeBytes(t, samples()[name])
		got := want{m.Kind, m.MIME, deref(m.Created), deref(m.Make), deref(m.Model), m.CreatedLocal, deref(m.Duration), deref(m.Width), deref(m.Height),
			deref(m.DisplayWidth), deref(m.DisplayHeight), deref(m.Rotation), len(m.Streams), deref(m.HasAudio), m.GPS}
		if name == "clip.mp4" {
			w.created = time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC).Add(3869630813 * time.Second).Format(time.RFC3339)
		}
		near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-6 })
		if diff := cmp.Diff(w, got, cmp.AllowUnexported(want{}), near); diff != "" {
			t.Errorf("%s (-want +got):\n%s\n%v", name, diff, m.Warnings)
		}
		if m.Partial || m.Truncated {
			t.Errorf("%s: whole, but %v", name, m.Warnings)
		}
	}
}

func TestStreams(t *testing.T) {
	m := describeBytes(t, samples()["clip.mp4"])
	want := []Stream{
		{Index: 0, Type: "video", Codec: "h264", CodecTag: "avc1", Profile: "High", Language: "eng", Duration: some(9.993300), Width: 1920, Height: 1080, FrameRate: "30000/1001", Frames: 300},
		{Index: 1, Type: "audio", Codec: "aac", CodecTag: "mp4a", Profile: "LC", Language: "eng", Duration: some(10.026667), Frames: 470, Channels: 2, SampleRate: 48000},
	}
	if diff := cmp.Diff(want, m.Streams); diff != "" {
		t.Error(diff)
	}
	lone := describeBytes(t, sampleMovie{brand: "isom", tracks: []sampleTrack{sound()}}.bytes())
	if lone.Kind != "audio" || lone.MIME != "audio/mp4" {
		t.Errorf("sound in an MP4: %s %s", lone.Kind, lone.MIME)
	}
	m = describeBytes(t, samples()["frag.mp4"])
	if s := m.Streams[0]; s.Frames != 52 || s.Codec != "hevc" || !m.Container.Fragmented {
		t.Errorf("%+v", s)
	}
}

func TestRotation(t *testing.T) {
	for _, c := range []struct {
		matrix [4]int32
		want   int
		warn   string
	}{
		{[4]int32{1, 0, 0, 1}, 0, ""}, {[4]int32{0, 1, -1, 0}, 90, ""}, {[4]int32{-1, 0, 0, -1}, 180, ""}, {[4]int32{0, -1, 1, 0}, 270, ""},
		{[4]int32{-1, 0, 0, 1}, 180, "mirrors"}, {[4]int32{1, 1, -1, 1}, 90, "no multiple"},
	} {
		v := video("avc1")
		v.matrix, v.extra = c.matrix, cat(v.extra, bx("pasp", u32(4, 3)))
		m := describeBytes(t, sampleMovie{brand: "isom", tracks: []sampleTrack{v}}.bytes())
		if deref(m.Rotation) != c.want || (c.warn != "") != strings.Contains(strings.Join(m.Warnings, ""), c.warn) && c.warn != "" {
			t.Errorf("%v: rotation %d, want %d; %v", c.matrix, deref(m.Rotation), c.want, m.Warnings)
		}
		w, h := 2560, 1080
		if c.want%180 == 90 {
			w, h = h, w
		}
		if *m.Width != 1920 || *m.DisplayWidth != w || *m.DisplayHeight != h {
			t.Errorf("%v: shown as %dx%d, want %dx%d", c.matrix, *m.DisplayWidth, *m.DisplayHeight, w, h)
		}
	}
}

// TestDurationSources takes away one statement of the length after the other.
func TestDurationSources(t *testing.T) {
	bare := sampleTrack{handler: "vide", codec: "avc1", timescale: 1000, width: 8, height: 8}
	edited := bare
	edited.deltas, edited.elst = []uint32{10, 700}, 6500
	segment := func(kind, ms uint32) []byte { return u32(kind<<31|100, ms, 0) }
	sidx := bx("sidx", u32(0, 1, 1000, 0, 0), u16(0, 3), segment(0, 1500), segment(1, 9000), segment(0, 1500))
	mehd := bx("mvex", bx("mehd", u32(0, 4000)))
	for what, c := range map[string]struct {
		movie sampleMovie
		tail  []byte
		want  float64
	}{
		"edit list":    {sampleMovie{tracks: []sampleTrack{edited}}, nil, 6.5},
		"header first": {sampleMovie{tracks: []sampleTrack{edited}, duration: 7000}, nil, 7},
		"sidx":         {sampleMovie{tracks: []sampleTrack{bare}, user: mehd, duration: 5000}, sidx, 3},
		"mehd":         {sampleMovie{tracks: []sampleTrack{bare}, user: mehd, duration: 5000}, nil, 4},
		"movie header": {sampleMovie{tracks: []sampleTrack{bare}, duration: 5000}, nil, 5},
		"nothing":      {sampleMovie{tracks: []sampleTrack{bare}}, nil, 0},
		"unknown":      {sampleMovie{tracks: []sampleTrack{bare}, duration: 1<<32 - 1}, nil, 0},
	} {
		c.movie.brand = "iso5"
		if m := describeBytes(t, cat(c.movie.bytes(), c.tail)); deref(m.Duration) != c.want || (c.want == 0) != (m.Duration == nil) {
			t.Errorf("%s: %v, want %v", what, deref(m.Duration), c.want)
		}
	}
}

// TestQuickTimeSound reads the longer sound descriptions, whose settings are wrapped in "wave".
func TestQuickTimeSound(t *testing.T) {
	for _, brand := range []string{"qt  ", "isom"} {
		s := sound()
		s.extra = cat(make([]byte, 16), bx("wave", bx("frma", []byte("mp4a")), s.extra, u32(8, 0)))
		data := sampleMovie{brand: brand, tracks: []sampleTrack{s}}.bytes()
		i := bytes.LastIndex(data, []byte("mp4a\x00\x00\x00\x00\x00\x00")) + 4 + 8
		copy(data[i:], u16(1)) // version 1
		m := describeBytes(t, data)
		if a := m.Streams[0]; m.Partial || a.Profile != "LC" || a.Channels != 2 || a.SampleRate != 48000 {
			t.Errorf("%s: %+v %v", brand, a, m.Warnings)
		}
	}
}

// TestMovieTags checks which of several statements wins, and what counts as unknown.
func TestMovieTags(t *testing.T) {
	xyz := func(s string) []byte { return bx("\xa9xyz", u16(uint16(len(s)), 0x15c7), []byte(s)) }
	loci := func(lon, lat, alt int32) []byte {
		return bx("loci", u32(0), u16(0x15c7), []byte("home\x00"), []byte{0}, u32(uint32(lon*65536), uint32(lat*65536), uint32(alt*65536)), []byte("earth\x00\x00"))
	}
	build := func(created uint32, user ...[]byte) *Metadata {
		return describeBytes(t, sampleMovie{brand: "isom", created: created, tracks: []sampleTrack{video("avc1")}, user: cat(user...)}.bytes())
	}
	if m := build(3800000000, keyed(true, qt+"creationdate", "2019-07-01T18:30:00-0330")); *m.Created != "2019-07-01T18:30:00-03:30" || m.CreatedSource != "quicktime" {
		t.Errorf("creationdate: %q from %s", *m.Created, m.CreatedSource)
	}
	for _, unknown := range []uint32{0, 2082844800, 1700000000} {
		if m := build(unknown); m.Created != nil {
			t.Errorf("%d: created %s, want unknown", unknown, *m.Created)
		}
	}
	m := build(0, bx("udta", xyz("+27.5916+086.5640+8850/"), loci(1, 2, 3)), keyed(true, qt+"location.ISO6709", "-33.8568+151.2153/"))
	if m.GPS.Source != "quicktime" || m.GPS.Lat != -33.8568 || m.GPS.Lon != 151.2153 || m.GPS.Alt != nil {
		t.Errorf("%+v", m.GPS)
	}
	if m := build(0, bx("udta", xyz("+27.5916+086.5640+8850/"), loci(1, 2, 3))); m.GPS.Source != "xyz" || *m.GPS.Alt != 8850 {
		t.Errorf("%+v", m.GPS)
	}
	if m := build(0, bx("udta", loci(-1, 2, 3))); m.GPS.Source != "loci" || m.GPS.Lon != -1 || m.GPS.Lat != 2 || *m.GPS.Alt != 3 {
		t.Errorf("%+v", m.GPS)
	}
	if m := build(0, bx("udta", xyz("+00.0000+000.0000/"))); !m.GPS.Default {
		t.Errorf("%+v", m.GPS)
	}
	if m := build(0, bx("udta", xyz("somewhere"))); m.GPS != nil || len(m.Warnings) != 1 {
		t.Errorf("%+v %v", m.GPS, m.Warnings)
	}
}

func TestExifTime(t *testing.T) {
	m := describeBytes(t, jpegWith(4, 4, tiffBlock(nil, []exifTag{ascii(0x9003, "2003:11:23 18:07:37")}, nil)))
	if *m.Created != "2003-11-23T18:07:37" || !m.CreatedLocal {
		t.Errorf("without offset: %s, local %v", *m.Created, m.CreatedLocal)
	}
	m = describeBytes(t, jpegWith(4, 4, tiffBlock(nil, []exifTag{ascii(0x9003, "0000:00:00 00:00:00"), ascii(0x9004, "2004:01:02 03:04:05")}, nil)))
	if *m.Created != "2004-01-02T03:04:05" || m.CreatedSource != "exif_digitized" {
		t.Errorf("zero original: %s", *m.Created)
	}
	m = describeBytes(t, jpegWith(4, 4, tiffBlock([]exifTag{short(0x112, 9)}, []exifTag{ascii(0x9003, "yesterday")}, []exifTag{ascii(1, "N"), rationals(2, 33, 1, 0, 1, 0, 1)})))
	if m.Created != nil || m.Orientation != nil || m.GPS != nil || len(m.Warnings) != 3 {
		t.Errorf("%+v", m.Warnings)
	}
}

// TestBroken cuts every file at many places and flips its bytes: each gives a description or an
// error, in time and without memory (M3).
func TestBroken(t *testing.T) {
	files := samples()
	addReal(files)
	for name, data := range files {
		for _, percent := range []int{0, 1, 10, 50, 90, 99} {
			m, err := within(t, fmt.Sprintf("%s cut at %d %%", name, percent), data[:len(data)*percent/100])
			if err == nil && percent < 99 && percent > 0 && !m.Partial && m.Container.Format != "tiff" {
				t.Errorf("%s cut at %d %% passes as whole", name, percent)
			}
		}
		for i := 0; i < len(data) && i < 4000; i += 1 + len(data)/200 {
			damaged := bytes.Clone(data)
			for j := i; j < min(i+4, len(data)); j++ {
				damaged[j] = 0xff
			}
			_, _ = within(t, fmt.Sprintf("%s damaged at %d", name, i), damaged)
		}
	}
}

// addReal adds the real files that are bad already and the movies.
func addReal(files map[string][]byte) {
	dir := os.Getenv("STEPWELL_SHARED_DATA")
	if dir == "" {
		dir = "../../../shared/data"
	}
	for _, pattern := range []string{"abema-go-mp4/*", "generated/*", "rwcarlsen-goexif/corrupt/*", "rwcarlsen-goexif/*.jpg"} {
		names, _ := filepath.Glob(filepath.Join(dir, "media", pattern))
		for _, n := range names {
			if data, err := os.ReadFile(n); err == nil {
				files[filepath.Base(n)] = data
			}
		}
	}
}

// within describes data and fails the test when that takes too long or too much memory.
func within(t *testing.T, what string, data []byte) (*Metadata, error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	m, err := describe(t.Context(), bytes.NewReader(data), int64(len(data)))
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if took > 20*time.Second { // milliseconds on a quiet machine
		t.Errorf("%s took %s", what, took)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 50<<20 {
		t.Errorf("%s took %d MB", what, used>>20)
	}
	if err == nil && (m == nil || m.Partial && len(m.Warnings) == 0 || m.Truncated && !m.Partial) {
		t.Errorf("%s: partial without a reason: %+v", what, m)
	}
	if err != nil && stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Errorf("%s: %v", what, err)
	}
	return m, err
}

// TestHostile are small files that ask for a lot of work.
func TestHostile(t *testing.T) {
	deep := []byte{}
	for range 10_000 {
		deep = bx("moov", deep)
	}
	head := bx("ftyp", []byte("isom"), u32(0))
	many := append(bytes.Clone(head), bytes.Repeat(bx("free"), 1_000_000)...)
	rows := sampleMovie{brand: "isom", tracks: []sampleTrack{video("avc1")}}.bytes()
	i := bytes.Index(rows, []byte("stts"))
	copy(rows[i+8:], u32(1<<31))
	huge := cat(head, u32(1), []byte("mdat"), u32(0x7fffffff, 0xffffffff))
	entries := cat(head, bx("moov", bytes.Repeat(bx("trak"), 1000)))
	for name, data := range map[string][]byte{"deep": cat(head, deep), "many boxes": many, "table": rows, "huge": huge, "tracks": entries} {
		m, err := within(t, name, data)
		if err != nil || !m.Partial {
			t.Errorf("%s: %v, %+v", name, err, m)
		}
	}
	picture := append([]byte{0xff, 0xd8}, bytes.Repeat([]byte{0xff, 0xe0, 0, 2}, 5000)...)
	if m, err := within(t, "segments", picture); err != nil || !m.Partial {
		t.Errorf("segments: %v", err)
	}
}

// TestPanicIsWarning makes a reader panic.
func TestPanicIsWarning(t *testing.T) {
	m := &Metadata{}
	guard(m, func() { panic("index out of range") })
	if !m.Partial || len(m.Warnings) != 1 || !strings.Contains(m.Warnings[0], "index out of range") {
		t.Errorf("%+v", m)
	}
}

func TestReadErrors(t *testing.T) {
	data := samples()["clip.mp4"]
	bad := failingReader{bytes.NewReader(data), 200}
	m, err := describe(t.Context(), bad, int64(len(data)))
	if err == nil && !m.Partial || err != nil && !errors.Is(err, errDevice) {
		t.Errorf("%v %+v", err, m)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := describe(ctx, bytes.NewReader(data), int64(len(data))); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

var errDevice = errors.New("device error")

type failingReader struct {
	r    io.ReaderAt
	from int64
}

func (f failingReader) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.from {
		return 0, errDevice
	}
	return f.r.ReadAt(p, off)
}

// TestMetadataAction checks the action around the readers: errors, paths, hashes, the shape of the outputs.
func TestMetadataAction(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "a/clip.mp4", samples()["clip.mp4"])
	writeFile(t, dir, "notes.txt", []byte("nothing to see"))
	writeFile(t, dir, "empty.mp4", nil)
	writeFile(t, dir, "film.mkv", []byte("\x1aE\xdf\xa3 and so on"))
	run := func(params map[string]any) (any, error) {
		return (&describer{}).Run(t.Context(), &action.Call{Dir: dir, Host: newHost(), Params: params})
	}
	for path, code := range map[string]stepwell.Code{"notes.txt": stepwell.CodeInvalid, "empty.mp4": stepwell.CodeInvalid, "absent.mp4": stepwell.CodeNotFound,
		"a": stepwell.CodeInvalid, "": stepwell.CodeInvalid, "a\x00b": stepwell.CodeInvalid} {
		if _, err := run(map[string]any{"path": path}); stepwell.CodeOf(err) != code || !action.IsFail(err) {
			t.Errorf("%q: %v (%s), want a final %s", path, err, stepwell.CodeOf(err), code)
		}
	}
	if _, err := run(map[string]any{"path": "film.mkv"}); stepwell.CodeOf(err) != stepwell.CodeInvalid || !strings.Contains(err.Error(), "film.mkv is cut: ") {
		t.Errorf("a cut file: %v", err)
	}
	if out, err := run(map[string]any{"path": "film.mkv", "damaged": "describe"}); err != nil || !out.(*Metadata).Partial || out.(*Metadata).MIME != "video/x-matroska" {
		t.Errorf("matroska: %+v %v", out, err)
	}
	out, err := run(map[string]any{"path": "a/clip.mp4", "xxh64": true})
	if err != nil {
		t.Fatal(err)
	}
	if m := out.(*Metadata); m.Path != "a/clip.mp4" || len(m.XXH64) != 16 || len(m.SHA256) != 64 {
		t.Errorf("%+v", m)
	}
	checkOutputs(t, metadataSpec().Outputs, out)
}

func TestISO6709(t *testing.T) {
	for s, want := range map[string]string{
		"+48.8584+002.2945/":               "48.8584 2.2945",
		"+27.5916+086.5640+8850CRSWGS_84/": "27.5916 86.5640 8850",
		"-90+000+2800/":                    "-90.0000 0.0000 2800",
		"+4051.5-07358.2/":                 "40.8583 -73.9700",
		"+405130-0735812-12/":              "40.8583 -73.9700 -12",
		"+48.8584+002.2945":                "48.8584 2.2945",
		"+91+000/":                         "", "+48.8584": "", "48.8+2.2/": "", "": "", "+48+181/": "", "+4875+00200/": "", "+1e1+001/": "", "+48.8.8+002/": "",
		"+48+002+1+1/": "", "++": "",
	} {
		g, ok := parseISO6709(s)
		got := ""
		if ok {
			if got = fmt.Sprintf("%.4f %.4f", g.Lat, g.Lon); g.Alt != nil {
				got += fmt.Sprintf(" %g", *g.Alt)
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}

// FuzzMetadata: no input makes the reader crash, stall or contradict itself.
func FuzzMetadata(f *testing.F) {
	for _, data := range samples() {
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := describe(t.Context(), bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		if strings.Contains(strings.Join(m.Warnings, "\n"), "the reader failed") {
			t.Errorf("a reader panicked: %v", m.Warnings)
		}
		if _, err := json.Marshal(m); err != nil {
			t.Errorf("outputs: %v", err)
		}
		if deref(m.Rotation)%90 != 0 || m.GPS != nil && !validPosition(m.GPS.Lat, m.GPS.Lon) || m.Duration != nil && !(*m.Duration > 0) {
			t.Errorf("%+v", m)
		}
	})
}

func FuzzISO6709(f *testing.F) {
	for _, s := range []string{"+48.8584+002.2945/", "+405130-0735812-12CRSWGS_84/", "+", "-90+000+/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if g, ok := parseISO6709(s); ok && !validPosition(g.Lat, g.Lon) {
			t.Errorf("%q: %+v", s, g)
		}
	})
}
