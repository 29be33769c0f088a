package main

import (
	"bytes"
	"encoding/json"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// command runs stepwell in this process and returns its exit code and output.
func command(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(args, strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// shown is what `executions show -o json --outputs` says, as far as these tests look.
type shown struct {
	Status  string
	Outputs struct {
		Found, Copied, Existing, Duplicates, Described int
		Failures                                       []any
		Unreadable                                     []struct{ Step string }
		LeftOut                                        map[string]int `json:"left_out"`
	} `json:"result"`
	Steps []struct {
		Key     string `json:"step_id"`
		Status  string
		Attempt int
		Outputs map[string]any
		Error   *struct{ Code, Message string }
	}
}

func show(t *testing.T, id string) shown {
	t.Helper()
	code, out, errs := command(t, "executions", "show", id, "-o", "json", "--outputs")
	if code != 0 {
		t.Fatalf("show: exit code %d: %s", code, errs)
	}
	var s shown
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// newest is the id of the last execution.
func newest(t *testing.T) string {
	t.Helper()
	_, out, errs := command(t, "executions", "list", "--limit", "1", "-o", "json")
	var list []struct {
		ID string `json:"execution_id"`
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 1 {
		t.Fatalf("list: %v %s", err, errs)
	}
	return list[0].ID
}

func exampleFile(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../examples", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// card makes a small card: pictures in folders, things that are no media, and one broken film.
func card(t *testing.T, dir string) (media []string) {
	t.Helper()
	write := func(name string, content []byte) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range []string{"DCIM/100/IMG_0001.JPG", "DCIM/100/IMG_0002.JPG", "DCIM/101/IMG_0001.JPG", "DCIM/101/shot [1].png"} {
		img := image.NewGray(image.Rect(0, 0, 16+i, 8))
		img.SetGray(i, 0, color.Gray{Y: 200})
		var b bytes.Buffer
		var err error
		if strings.HasSuffix(name, "png") {
			err = png.Encode(&b, img)
		} else {
			err = jpeg.Encode(&b, img, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		write(name, b.Bytes())
		media = append(media, name)
	}
	write("DCIM/101/broken.mp4", bytes.Repeat([]byte("no film "), 100))
	cut, err := os.ReadFile(filepath.Join(dir, "DCIM/100/IMG_0001.JPG"))
	if err != nil {
		t.Fatal(err)
	}
	write("DCIM/101/cut.jpg", cut[:len(cut)/2])
	write("DCIM/101/unknown.mkv", append([]byte("\x1aE\xdf\xa3\x80\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff"), "no film"...))
	write("DCIM/100/._IMG_0001.JPG", []byte("AppleDouble"))
	write("DCIM/100/empty.jpg", nil)
	write("notes.txt", []byte("not media"))
	return append(media, "DCIM/101/broken.mp4", "DCIM/101/cut.jpg", "DCIM/101/unknown.mkv")
}

// TestMediaIngest copies a generated card: everything good is safe and described, what is broken is
// reported, and a second run copies nothing again.
func TestMediaIngest(t *testing.T) {
	file := exampleFile(t, "media-ingest.yaml")
	t.Chdir(t.TempDir())
	want := card(t, "card")
	code, out, errs := command(t, "run", file)
	if code != exitPartly {
		t.Fatalf("exit code %d, want %d\n%s%s", code, exitPartly, out, errs)
	}
	if !strings.Contains(out, "✘ extract_metadata:DCIM/101/broken.mp4: ") || !strings.Contains(out, "media-ingest: completed with failures in") {
		t.Errorf("the broken film is not reported:\n%s", out)
	}
	sameFiles(t, "card", "ingested", want)
	s := show(t, newest(t))
	if o := s.Outputs; s.Status != "completed_with_failures" || o.Found != 7 || o.Copied != 7 || o.Described != 4 || len(o.Unreadable) != 3 || len(o.Failures) != 0 {
		t.Errorf("%s %+v", s.Status, o)
	}
	if diff := cmp.Diff(map[string]int{"apple_double": 1, "empty": 1, "not_media": 1}, s.Outputs.LeftOut); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	steps := map[string]string{}
	for _, step := range s.Steps {
		steps[step.Key] = step.Status
		if step.Key == "extract_metadata:DCIM/100/IMG_0002.JPG" && step.Outputs["width"] != float64(17) {
			t.Errorf("width %v, want 17", step.Outputs["width"])
		}
	}
	wantSteps := map[string]string{"scan": "completed", "copy": "completed", "report": "completed"}
	for _, name := range want {
		wantSteps["extract_metadata:"+name] = "completed"
	}
	for _, name := range []string{"broken.mp4", "cut.jpg", "unknown.mkv"} {
		wantSteps["extract_metadata:DCIM/101/"+name] = "failed"
	}
	if diff := cmp.Diff(wantSteps, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}

	first := newest(t)
	code, out, errs = command(t, "run", file)
	if code != exitOK || !strings.Contains(out, "copied=0 duplicates=0 existing=7 failed=0") || !strings.Contains(out, "media-ingest: completed in") {
		t.Errorf("second run: exit code %d\n%s%s", code, out, errs)
	}
	rereads(t, first)
	code, out, _ = command(t, "run", file, "-p", "card=ingested", "-p", "destination=ingested/copy")
	if code != exitFailed || !strings.Contains(out, "is inside the source") {
		t.Errorf("a destination inside the source: exit code %d\n%s", code, out)
	}
}

// rereads retries an ingest after one of its unreadable files has been repaired: as the preview says, only the unreadable files
// are read again, and what needs them.
func rereads(t *testing.T, id string) {
	t.Helper()
	whole, err := os.ReadFile("ingested/DCIM/100/IMG_0001.JPG")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("ingested/DCIM/101/cut.jpg", whole, 0o644); err != nil {
		t.Fatal(err)
	}
	again := []string{"extract_metadata:DCIM/101/broken.mp4", "extract_metadata:DCIM/101/cut.jpg", "extract_metadata:DCIM/101/unknown.mkv", "report"}
	_, out, _ := command(t, "executions", "retry", id, "--dry-run", "-o", "json")
	var preview struct{ Steps, Kept []string }
	if err := json.Unmarshal([]byte(out), &preview); err != nil {
		t.Fatal(err, out)
	}
	slices.Sort(preview.Steps)
	if !slices.Equal(preview.Steps, again) || len(preview.Kept) != 6 {
		t.Errorf("preview %+v", preview)
	}
	code, out, errs := command(t, "executions", "retry", id)
	s := show(t, newest(t))
	if o := s.Outputs; code != exitPartly || o.Copied != 7 || o.Described != 5 || len(o.Unreadable) != 2 {
		t.Errorf("exit code %d, %+v\n%s%s", code, o, out, errs)
	}
	var ran []string
	for _, step := range s.Steps {
		if step.Attempt > 0 {
			ran = append(ran, step.Key)
		}
	}
	slices.Sort(ran)
	if !slices.Equal(ran, again) {
		t.Errorf("%v ran, want %v", ran, again)
	}
}

// sameFiles compares the wanted files of two folders, and finds those too many in the second.
func sameFiles(t *testing.T, from, to string, want []string) {
	t.Helper()
	for _, name := range want {
		a, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(to, name)); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s is not copied as it is: %v", name, err)
		}
	}
	count := 0
	err := filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasPrefix(d.Name(), "manifest-") {
			count++
		}
		return err
	})
	if err != nil || count != len(want) {
		t.Errorf("%d files in %s, want %d (%v)", count, to, len(want), err)
	}
}

// TestMediaIngestReal takes a folder of real media as the card: every file is copied and described
// as ffprobe, exiftool and sha256sum say, and what is broken among them is reported.
func TestMediaIngestReal(t *testing.T) {
	data := os.Getenv("STEPWELL_SHARED_DATA")
	if data == "" {
		data = "../../../shared/data"
	}
	folder, err := filepath.Abs(filepath.Join(data, "media"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(folder, "expected.json"))
	if err != nil {
		t.Skip("real media files not found: the ingest of a real card is left out")
	}
	var expected map[string]struct {
		Size     int64
		SHA256   string
		Exiftool struct{ MIMEType, Warning string }
	}
	if err := json.Unmarshal(raw, &expected); err != nil || len(expected) == 0 {
		t.Fatal("expected.json: ", err)
	}
	file := exampleFile(t, "media-ingest.yaml")
	t.Chdir(t.TempDir())
	begin := time.Now()
	code, out, errs := command(t, "run", file, "-p", "card="+folder, "-p", "destination=out", "-o", "json")
	t.Logf("%d files in %s", len(expected), time.Since(begin).Round(time.Millisecond))
	if code != exitPartly {
		t.Fatalf("exit code %d, want %d: some of the files are cut\n%s%s", code, exitPartly, out, errs)
	}
	var names []string
	for name := range expected {
		names = append(names, name)
	}
	sameFiles(t, folder, "out", names)
	s := show(t, newest(t))
	if o := s.Outputs; o.Found != len(expected) || o.Copied+o.Duplicates != len(expected) || o.Described+len(o.Unreadable) != o.Copied || len(o.Failures) != 0 {
		t.Errorf("%+v, want %d files", o, len(expected))
	}
	described := 0
	for _, step := range s.Steps {
		name, ok := strings.CutPrefix(step.Key, "extract_metadata:")
		if !ok {
			continue
		}
		described++
		want := expected[name]
		m := step.Outputs
		if step.Status == "failed" && (strings.Contains(want.Exiftool.Warning, "JPEG format error") || strings.HasSuffix(name, "sample_qt.mp4")) {
			continue // cut; copied as it is, though
		}
		if step.Status != "completed" || m["size"] != float64(want.Size) || m["sha256"] != want.SHA256 || m["mime"] != want.Exiftool.MIMEType {
			t.Errorf("%s: %s, size %v, sha256 %v, mime %v; want %+v", name, step.Status, m["size"], m["sha256"], m["mime"], want)
		}
		if strings.Contains(want.Exiftool.Warning, "JPEG format error") {
			t.Errorf("%s is broken, and nothing says so", name)
		}
	}
	if described != len(expected) {
		t.Errorf("%d metadata steps, want %d", described, len(expected))
	}
}
