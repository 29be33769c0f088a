package media

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
)

// programs finds ffprobe and exiftool. Without them the tests that compare with them are left out, under CI they fail.
func programs(t testing.TB) Options {
	t.Helper()
	o := Find()
	if o.Ffprobe != "" && o.Exiftool != "" {
		return o
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("ffprobe and exiftool are not installed")
	}
	t.Skip("ffprobe and exiftool are not installed: the comparison with them is left out")
	return o
}

// facts are what must be equal to the programs' answers.
type facts struct {
	duration, lat, lon    *float64
	codecs, size, created string
	rotation              *int
}

func factsOf(m *Metadata) facts {
	f := facts{duration: m.Duration, rotation: m.Rotation}
	for _, s := range m.Streams {
		f.codecs += s.Codec + " "
	}
	if m.Width != nil {
		f.size = fmt.Sprintf("%dx%d", *m.Width, *m.Height)
	}
	if f.created = deref(m.Created); len(f.created) > 19 {
		f.created = f.created[:19]
	}
	if m.GPS != nil {
		f.lat, f.lon = &m.GPS.Lat, &m.GPS.Lon
	}
	return f
}

type exiftoolAnswer struct {
	SourceFile                                                                string
	ImageWidth, ImageHeight, Orientation, Rotation, GPSLatitude, GPSLongitude any
	DateTimeOriginal, CreationDate, CreateDate, MIMEType                      string
}

// askedFacts asks the programs themselves about files.
func askedFacts(t testing.TB, o Options, files ...string) map[string]facts {
	t.Helper()
	cmd := exec.Command(o.Exiftool, append([]string{"-j", "-n", "-api", "QuickTimeUTC=1"}, files...)...)
	cmd.Env = append(os.Environ(), "TZ=UTC")
	out, _ := cmd.Output() // fails when there is one that it cannot read
	var answers []exiftoolAnswer
	if err := json.Unmarshal(out, &answers); err != nil {
		t.Fatal(err)
	}
	all := map[string]facts{}
	for _, e := range answers {
		f := e.facts()
		if !strings.HasPrefix(e.MIMEType, "image/") {
			var probe ffprobeReport
			out, _ := exec.Command(o.Ffprobe, "-v", "quiet", "-of", "json", "-show_format", "-show_streams", e.SourceFile).Output()
			_ = json.Unmarshal(out, &probe) // fails on what it cannot read
			if d, err := strconv.ParseFloat(probe.Format.Duration, 64); err == nil && d > 0 {
				f.duration = &d
			}
			for _, s := range probe.Streams {
				f.codecs += s.Codec + " "
			}
		}
		all[e.SourceFile] = f
	}
	return all
}

func (e exiftoolAnswer) facts() facts {
	var f facts
	if w, ok := e.ImageWidth.(float64); ok && e.ImageHeight != nil {
		f.size = fmt.Sprintf("%vx%v", w, e.ImageHeight)
	}
	if lat, ok := e.GPSLatitude.(float64); ok {
		if lon, ok := e.GPSLongitude.(float64); ok {
			f.lat, f.lon = &lat, &lon
		}
	}
	for _, s := range []string{e.DateTimeOriginal, e.CreationDate, e.CreateDate} {
		if f.created == "" && len(s) >= 19 && !strings.HasPrefix(s, "0000") && s[:4] > "1970" {
			f.created = strings.Replace(s[:10], ":", "-", 2) + "T" + s[11:19]
		}
	}
	if r, ok := e.Rotation.(float64); ok {
		f.rotation = some(int(r))
	}
	if o, ok := e.Orientation.(float64); ok && strings.HasPrefix(e.MIMEType, "image/") && o >= 1 && o <= 8 {
		f.rotation = some(turns[int(o)])
	}
	return f
}

// agrees compares one fact of ours with each of the answers that would be right.
func (f facts) agrees(t *testing.T, what string, warnings []string, right ...facts) {
	t.Helper()
	near := func(a, b *float64, within float64) bool { return a != nil && b != nil && math.Abs(*a-*b) <= within }
	check := func(name string, null bool, value any, equal func(r facts) bool) {
		if null && len(warnings) > 0 {
			return
		}
		var wanted []string
		for _, r := range right {
			if equal(r) {
				return
			}
			wanted = append(wanted, fmt.Sprintf("%s %s %s rotation %v created %q position %v,%v", fmtFloat(r.duration), r.codecs, r.size, deref(r.rotation), r.created, deref(r.lat), deref(r.lon)))
		}
		t.Errorf("%s: %s is %v, want one of %q; warnings %q", what, name, value, wanted, warnings)
	}
	check("duration", f.duration == nil, fmtFloat(f.duration), func(r facts) bool {
		return f.duration == nil && r.duration == nil || near(f.duration, r.duration, 0.05)
	})
	check("codecs", f.codecs == "", f.codecs, func(r facts) bool {
		known := strings.Fields(r.codecs)
		for _, c := range strings.Fields(f.codecs) { // of a damaged file perhaps not all, for a reason
			at := slices.Index(known, c)
			if at < 0 || at > 0 && len(warnings) == 0 {
				return false
			}
			known = known[at+1:]
		}
		return len(known) == 0 || len(warnings) > 0
	})
	check("size", f.size == "", f.size, func(r facts) bool { return f.size == r.size })
	check("rotation", f.rotation == nil, deref(f.rotation), func(r facts) bool { return deref(f.rotation) == deref(r.rotation) })
	check("created", f.created == "", f.created, func(r facts) bool { return f.created == r.created })
	check("position", f.lat == nil, []float64{deref(f.lat), deref(f.lon)}, func(r facts) bool {
		return f.lat == nil && r.lat == nil || near(f.lat, r.lat, 1e-4) && near(f.lon, r.lon, 1e-4)
	})
}

func fmtFloat(v *float64) string {
	if v == nil {
		return "none"
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

// makeMedia writes files with ffmpeg: edit lists, fragments and containers that only ffprobe reads.
func makeMedia(t *testing.T) (dir string, native, foreign []string) {
	t.Helper()
	ffmpeg, err := exec.LookPath("ffmpeg")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip("ffmpeg is not installed: the files that it would make are left out")
	}
	dir = t.TempDir()
	run := func(name string, args ...string) string {
		cmd := exec.Command(ffmpeg, append(append([]string{"-v", "error", "-y"}, args...), name)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("ffmpeg %s: %v\n%s", name, err, out)
		}
		return name
	}
	source := func(more ...string) []string {
		return append([]string{"-f", "lavfi", "-i", "testsrc2=s=160x96:r=25:d=3", "-f", "lavfi", "-i", "sine=f=440:d=3.4"}, more...)
	}
	plain := run("plain.mp4", source("-c:v", "mpeg4", "-g", "12", "-bf", "2", "-c:a", "aac", "-metadata", "creation_time=2024-05-06T07:08:09Z")...)
	copyOf := func(args ...string) []string { return append(args, "-c", "copy") }
	native = []string{plain,
		run("cut.mp4", copyOf("-ss", "0.7", "-i", plain)...),
		run("cut.mov", copyOf("-ss", "0.7", "-t", "1.1", "-i", plain)...),
		run("late_sound.mp4", copyOf("-i", plain, "-itsoffset", "1.5", "-i", plain, "-map", "0:v", "-map", "1:a")...),
		run("late_picture.mp4", copyOf("-itsoffset", "1.5", "-i", plain, "-i", plain, "-map", "0:v", "-map", "1:a")...),
		run("fragments.mp4", copyOf("-i", plain, "-movflags", "frag_keyframe+empty_moov")...),
		run("fragments_after_samples.mp4", copyOf("-i", plain, "-movflags", "frag_keyframe")...),
		run("fragments_cut.mp4", copyOf("-ss", "0.7", "-i", plain, "-movflags", "frag_keyframe+delay_moov")...),
		run("fragments_late.mp4", copyOf("-itsoffset", "1.5", "-i", plain, "-i", plain, "-map", "0:v", "-map", "1:a", "-movflags", "frag_keyframe+empty_moov")...),
		run("fragments_sidx.mp4", copyOf("-i", plain, "-movflags", "dash+global_sidx+frag_keyframe+delay_moov")...),
		run("voice.m4a", copyOf("-i", plain, "-map", "0:a")...),
	}
	run("list.m3u8", copyOf("-ss", "1", "-i", plain, "-an", "-f", "hls", "-hls_segment_type", "fmp4", "-hls_time", "1")...)
	init, err1 := os.ReadFile(filepath.Join(dir, "init.mp4"))
	segment, err2 := os.ReadFile(filepath.Join(dir, "list1.m4s"))
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	writeFile(t, dir, "second_segment.mp4", cat(init, segment))
	longer, _ := os.ReadFile(filepath.Join(dir, plain))
	at := bytes.Index(longer, []byte("mvhd"))
	binary.BigEndian.PutUint32(longer[at+20:], 7000) // the movie header says more than its tracks
	writeFile(t, dir, "long_header.mp4", longer)
	native = append(native, "second_segment.mp4", "long_header.mp4")
	foreign = []string{run("film.mkv", copyOf("-i", plain)...), run("cam.ts", source("-c:v", "mpeg2video", "-c:a", "mp2")...), run("old.avi", source("-c:v", "mpeg4", "-c:a", "pcm_s16le")...),
		run("web.webm", source("-c:v", "libvpx", "-deadline", "realtime", "-c:a", "libopus")...), run("a.wav", source("-map", "1")...), run("a.flac", source("-map", "1")...)}
	return dir, native, foreign
}

// TestAsPrograms compares files with edit lists, fragments and other containers with what ffprobe and exiftool
// say about them.
func TestAsPrograms(t *testing.T) {
	o := programs(t)
	dir, native, foreign := makeMedia(t)
	var files []string
	for _, name := range append(native, foreign...) {
		files = append(files, filepath.Join(dir, name))
	}
	for file, want := range askedFacts(t, o, files...) {
		name := filepath.Base(file)
		with, err := describeFile(t.Context(), file, false, o)
		if err != nil || with.Partial {
			t.Fatal(name, err, with)
		}
		factsOf(with).agrees(t, name, nil, want)
		alone, err := describeFile(t.Context(), file, false, Options{})
		if err != nil {
			t.Fatal(name, err)
		}
		if factsOf(alone).agrees(t, name+" alone", alone.Warnings, want); alone.foreign != (len(alone.Streams) == 0) {
			t.Errorf("%s: %d streams", name, len(alone.Streams))
		}
	}
	for name, mime := range map[string]string{"web.webm": "video/webm", "film.mkv": "video/x-matroska"} {
		if m, err := describeFile(t.Context(), filepath.Join(dir, name), false, Options{}); err != nil || m.MIME != mime {
			t.Errorf("%s: %v %+v, want %s", name, err, m, mime)
		}
	}
}

// TestDamaged damages whole files in 20 and more ways: each value is what the programs say about the damaged or
// the whole file, or null with a reason; with the programs (a part of them) and without (M3).
func TestDamaged(t *testing.T) {
	o, dir := programs(t), t.TempDir()
	all := damaged(t)
	var files []string
	var names []string
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if i%3 == 0 {
			names = append(names, name)
		}
	}
	for _, name := range names {
		whole := filepath.Join(dir, "whole", all[name].of)
		if !slices.Contains(files, whole) {
			files = append(files, writeFile(t, dir, "whole/"+all[name].of, all[name].whole))
		}
		files = append(files, writeFile(t, dir, "bad/"+name, all[name].bad))
	}
	if len(names) < 20 {
		t.Fatalf("%d variants", len(names))
	}
	says := askedFacts(t, o, files...)
	for i, name := range names {
		bad := filepath.Join(dir, "bad", name)
		ways := map[string]Options{"alone": {}}
		if i%3 == 0 {
			ways["with programs"] = o
		}
		for how, opts := range ways {
			m, err := describeFile(t.Context(), bad, false, opts)
			if stepwell.CodeOf(err) == stepwell.CodeInvalid {
				continue // not even the format is known
			}
			if err != nil {
				t.Fatal(name, how, err)
			}
			factsOf(m).agrees(t, name+" "+how, m.Warnings, says[bad], says[filepath.Join(dir, "whole", all[name].of)])
		}
	}
}

type damage struct {
	of         string
	whole, bad []byte
}

// damaged makes the variants of our own samples, and of the real files when they are there.
func damaged(t *testing.T) map[string]damage {
	files := map[string][]byte{"clip.mp4": samples()["clip.mp4"], "end.mov": samples()["end.mov"], "photo.jpg": samples()["photo.jpg"]}
	real := map[string][]byte{}
	addReal(real)
	for _, name := range []string{"clip_rotated_gps.mp4", "clip_moov_at_end.mov", "sample_fragmented.mp4", "voice.m4a", "sample1.jpg"} {
		if data, ok := real[name]; ok {
			files[name] = data
		}
	}
	all := map[string]damage{}
	for name, whole := range files {
		add := func(how string, bad []byte) {
			all[strings.ReplaceAll(how, " ", "_")+"_"+name] = damage{name, whole, bad}
		}
		for _, percent := range []int{10, 50, 90, 99} {
			add(fmt.Sprintf("cut at %d", percent), whole[:len(whole)*percent/100])
		}
		insert := func(at int, stray string) []byte { return cat(whole[:at], []byte(stray), whole[at:]) }
		if strings.HasSuffix(name, ".jpg") {
			n := 4 + int(binary.BigEndian.Uint16(whole[4:])) - 2 + 2 // behind the first segment
			for _, stray := range []string{"strayed", "\x00\x00\x00", strings.Repeat("x", 500)} {
				add(fmt.Sprintf("%d stray bytes", len(stray)), insert(n, stray))
			}
			for _, delta := range []int{-40, -1, 1, 300} {
				bad := bytes.Clone(whole)
				binary.BigEndian.PutUint16(bad[4:], uint16(int(binary.BigEndian.Uint16(bad[4:]))+delta))
				add(fmt.Sprintf("length %+d", delta), bad)
			}
			continue
		}
		for _, typ := range []string{"moov", "mvhd", "trak", "tkhd", "mdia", "stsd", "stts", "moof", "trun"} {
			at := bytes.Index(whole, []byte(typ)) - 4
			if at < 0 {
				continue
			}
			add("stray bytes before "+typ, insert(at, "strayed"))
			for _, delta := range []int{-3, 5000} {
				bad := bytes.Clone(whole)
				binary.BigEndian.PutUint32(bad[at:], uint32(int(binary.BigEndian.Uint32(bad[at:]))+delta))
				add(fmt.Sprintf("length %+d of %s", delta, typ), bad)
			}
		}
	}
	return all
}
