package media

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
)

// card makes a memory card as cameras and computers leave it (M1) and returns its directory.
func card(t testing.TB) string {
	dir := filepath.Join(t.TempDir(), "card")
	s := samples()
	for name, data := range map[string][]byte{
		"DCIM/100MEDIA/CLIP0001.MP4": s["clip.mp4"], "DCIM/100MEDIA/CLIP0002.MOV": s["end.mov"],
		"DCIM/100MEDIA/IMG_0003.JPG": s["photo.jpg"], "DCIM/100MEDIA/IMG_0004.JPG": s["plain.jpg"], "DCIM/101MEDIA/CLIP0005.MP4": s["frag.mp4"],
		"DCIM/100MEDIA/._CLIP0001.MP4": []byte("resource fork"), "DCIM/100MEDIA/EMPTY.MP4": nil, "DCIM/100MEDIA/CLIP0001.XML": []byte("<x/>"),
		"MISC/LOG.MP4": s["clip.mp4"], ".Trashes/501/OLD.MP4": s["clip.mp4"], ".Spotlight-V100/Store-V2/x.jpg": s["photo.jpg"],
		"System Volume Information/x.jpg": s["photo.jpg"], "DCIM/.hidden.jpg": s["photo.jpg"],
	} {
		writeFile(t, dir, name, data)
	}
	if err := os.Symlink("CLIP0001.MP4", filepath.Join(dir, "DCIM/100MEDIA/LINK.MP4")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func runScan(t testing.TB, params map[string]any) (*ScanResult, error) {
	t.Helper()
	r := actiontest.Run(t.Context(), registered(t, "media.scan"), actiontest.Call{Dir: "/", Params: params})
	if r.Err != nil {
		return nil, r.Err
	}
	checkOutputs(t, scanSpec().Outputs, r.Outputs)
	return decoded[ScanResult](t, r.Outputs), nil
}

func paths(r *ScanResult) []string {
	var p []string
	for _, f := range r.Files {
		p = append(p, f.Path)
	}
	return p
}

func TestScan(t *testing.T) {
	dir := card(t)
	r, err := runScan(t, map[string]any{"path": dir})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"DCIM/100MEDIA/CLIP0001.MP4", "DCIM/100MEDIA/CLIP0002.MOV", "DCIM/100MEDIA/IMG_0003.JPG", "DCIM/100MEDIA/IMG_0004.JPG", "DCIM/101MEDIA/CLIP0005.MP4"}
	if diff := cmp.Diff(want, paths(r)); diff != "" {
		t.Error(diff)
	}
	skipped := map[string]int{"apple_double": 1, "empty": 1, "not_media": 1, "misc": 1, "system": 3, "hidden": 1, "symlink": 1}
	if diff := cmp.Diff(skipped, r.Skipped); diff != "" {
		t.Error(diff)
	}
	var total int64
	for _, f := range r.Files {
		total += f.Size
		if f.Root != dir || f.Name != filepath.Base(f.Path) || f.MTime == "" {
			t.Errorf("%+v", f)
		}
	}
	if r.Count != 5 || r.TotalBytes != total {
		t.Errorf("count %d, bytes %d", r.Count, r.TotalBytes)
	}
}

func TestScanParams(t *testing.T) {
	dir := card(t)
	for _, c := range []struct {
		params map[string]any
		want   string
	}{
		{map[string]any{"include": []any{"*.mp4"}}, "CLIP0001.MP4 CLIP0005.MP4"},
		{map[string]any{"include": []any{"*.xml"}}, "CLIP0001.XML"},
		{map[string]any{"exclude": []any{"dcim/100*"}}, "CLIP0005.MP4"},
		{map[string]any{"exclude": []any{"**/*.mp4", "**/IMG_0003.*"}}, "CLIP0002.MOV IMG_0004.JPG"},
		{map[string]any{"include": []any{"DCIM/**/CLIP000?.M*"}, "min_size": 700}, "CLIP0001.MP4 CLIP0002.MOV CLIP0005.MP4"},
		{map[string]any{"min_size": 1 << 20}, ""},
		{map[string]any{"follow_symlinks": true, "include": []any{"LINK*"}}, "LINK.MP4"},
	} {
		c.params["path"] = dir
		r, err := runScan(t, c.params)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range r.Files {
			got = append(got, f.Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v: %v, want %s", c.params, got, c.want)
		}
	}
}

// TestScanLinks: loops end, and nothing outside of the path is reached.
func TestScanLinks(t *testing.T) {
	dir := t.TempDir()
	outside := writeFile(t, t.TempDir(), "secret.jpg", samples()["photo.jpg"])
	writeFile(t, dir, "a/one.jpg", samples()["photo.jpg"])
	for name, target := range map[string]string{"a/up": "..", "a/self": ".", "out.jpg": outside, "outdir": filepath.Dir(outside), "gone.jpg": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	pipes := makePipe(t, filepath.Join(dir, "pipe.mp4"))
	r, err := runScan(t, map[string]any{"path": dir, "follow_symlinks": true})
	if err != nil {
		t.Fatal(err)
	}
	if got := paths(r); len(got) != 1 || got[0] != "a/one.jpg" || r.Skipped["special"] != pipes || r.Skipped["symlink"] != 5 {
		t.Errorf("%v %v", got, r.Skipped)
	}
}

func TestScanErrors(t *testing.T) {
	dir := card(t)
	if _, err := runScan(t, map[string]any{"path": filepath.Join(dir, "absent")}); action.IsFail(err) || stepwell.CodeOf(err) != stepwell.CodeUnavailable || !strings.Contains(err.Error(), "waiting for medium") {
		t.Errorf("missing card: %v", err)
	}
	if _, err := runScan(t, map[string]any{"path": filepath.Join(dir, "DCIM/100MEDIA/CLIP0001.MP4")}); !action.IsFail(err) {
		t.Errorf("a file: %v", err)
	}
	if _, err := runScan(t, map[string]any{"path": dir, "include": []any{"[", ""}}); stepwell.CodeOf(err) != stepwell.CodeInvalid || strings.Count(err.Error(), "is not a glob") != 2 {
		t.Errorf("bad globs: %v", err)
	}
	s := &scanner{opts: Options{MaxFiles: 3}.withDefaults()}
	if _, err := s.Run(t.Context(), &action.Call{Host: newHost(), Params: map[string]any{"path": dir, "exclude": []any{"["}}}); !action.IsFail(err) {
		t.Errorf("a bad glob from a template: %v", err)
	}
	if _, err := s.Run(t.Context(), &action.Call{Host: newHost(), Params: map[string]any{"path": dir}}); stepwell.CodeOf(err) != stepwell.CodeLimit {
		t.Errorf("too many files: %v", err)
	}
	many := t.TempDir()
	for i := range 60 {
		writeFile(t, many, fmt.Sprintf("%d.txt", i), []byte("x"))
	}
	if _, err := s.Run(t.Context(), &action.Call{Host: newHost(), Params: map[string]any{"path": many}}); stepwell.CodeOf(err) != stepwell.CodeLimit {
		t.Errorf("too many entries: %v", err)
	}
}

// TestScanNames: unusual names come through unchanged; names that JSON cannot carry are counted.
func TestScanNames(t *testing.T) {
	dir := t.TempDir()
	names := []string{"e\u0301t\u00e9.jpg", "日本.jpg", "new\nline.jpg", "sp ace & 'q'.jpg", strings.Repeat("n", 251) + ".jpg"}
	for _, n := range append(names, "bad\xff.jpg") {
		writeFile(t, dir, n, []byte("x"))
	}
	r, err := runScan(t, map[string]any{"path": dir})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Files) != len(names) || r.Skipped["invalid_name"] != 1 {
		t.Errorf("%q %v", paths(r), r.Skipped)
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		glob, name string
		want       bool
	}{
		{"*.mp4", "a/b/C.MP4", true}, {"a/*.mp4", "a/b/c.mp4", false}, {"**/c.mp4", "c.mp4", true}, {"a/**", "a/b/c", true},
		{"a/**/c/**/e", "a/c/x/c/y/e", true}, {"a/**/d", "a/b/c", false}, {"/a/b", "a/b", true}, {"**", "x/y", true}, {"a/**", "b/a/c", false},
		{strings.Repeat("**/a/", 20) + "b", strings.Repeat("a/", 200) + "c", false},
	} {
		if got := matchAny([]string{c.glob}, c.name); got != c.want {
			t.Errorf("%.40q on %.40q: %v", c.glob, c.name, got)
		}
	}
}
