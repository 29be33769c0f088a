package outbound

import (
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
)

// sink is a server that reads a body to its end and says how long it was, and announced to be.
func sink(t testing.TB) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return
		}
		fmt.Fprintf(w, "%d of %d", n, r.ContentLength)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBodies(t *testing.T) {
	file, err := File(write(t, "a.bin", "content of a file"), "application/octet-stream")
	if err != nil {
		t.Fatal(err)
	}
	empty, err := Multipart(nil, "")
	if err != nil {
		t.Fatal(err)
	}
	c, url := local(t, Options{}), sink(t)
	for name, body := range map[string]Body{"text": Text("hello", "text/plain"), "form": Form(map[string][]string{"a b": {"1", "2"}}), "file": file, "empty form": empty, "empty": Text("", "")} {
		for range 2 { // it can be sent again
			_, got, err := fetch(t, c, &Request{Method: "POST", URL: url, Body: body})
			if want := fmt.Sprintf("%d of %d", body.Size, body.Size); err != nil || got != want {
				t.Errorf("%s: %q, %v, want %s", name, got, err, want)
			}
		}
	}
}

// TestMultipart has the standard library read what was written.
func TestMultipart(t *testing.T) {
	type field struct{ Name, Filename, Type, Content string }
	var got []field
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = nil
		in, err := r.MultipartReader()
		for err == nil {
			var p *multipart.Part
			if p, err = in.NextRawPart(); err == nil {
				raw, rerr := io.ReadAll(p)
				got, err = append(got, field{p.FormName(), p.FileName(), p.Header.Get("Content-Type"), string(raw)}), rerr
			}
		}
		if err != io.EOF { //nolint:errorlint // bare
			t.Error(err)
		}
	}))
	defer server.Close()
	mp3, plain := write(t, "lesson.mp3", "\x00\xffsound"), write(t, "no extension", "")
	body, err := Multipart([]Part{{Name: "model", Value: "large"}, {Name: `qu"ote` + "\r\n", Value: "line\r\nline"}, {Name: "file", File: mp3},
		{Name: "other", File: plain, Filename: "héllo \"x\".bin"}, {Name: "typed", Value: "{}", ContentType: "application/json\r\nX-Evil: 1"}}, "seed")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, _, err := fetch(t, local(t, Options{}), &Request{Method: "POST", URL: server.URL, Body: body}); err != nil {
			t.Fatal(err)
		}
		want := []field{{"model", "", "", "large"}, {"qu%22ote%0D%0A", "", "", "line\r\nline"}, {"file", "lesson.mp3", "audio/mpeg", "\x00\xffsound"},
			{"other", "héllo %22x%22.bin", "application/octet-stream", ""}, {"typed", "", "application/jsonX-Evil: 1", "{}"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	}
}

func TestBodyRefused(t *testing.T) {
	if _, err := File(filepath.Join(t.TempDir(), "none"), ""); stepwell.CodeOf(err) != stepwell.CodeNotFound {
		t.Errorf("no file: %v", err)
	}
	if _, err := File(t.TempDir(), ""); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Errorf("directory: %v", err)
	}
	if _, err := Multipart([]Part{{Value: "x"}}, ""); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Errorf("no name: %v", err)
	}
	if _, err := Multipart(make([]Part, maxParts+1), ""); stepwell.CodeOf(err) != stepwell.CodeLimit {
		t.Errorf("many parts: %v", err)
	}
	path := write(t, "a", "before")
	file, err := File(path, "")
	if err != nil {
		t.Fatal(err)
	}
	form, err := Multipart([]Part{{Name: "f", File: path}}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("other content"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]Body{"file": file, "form": form} {
		_, _, err := fetch(t, local(t, Options{}), &Request{Method: "POST", URL: sink(t), Body: body})
		if f, ok := errors.AsType[*Failure](err); !ok || f.Kind != KindInvalid || !strings.Contains(err.Error(), "changed") {
			t.Errorf("%s that changed: %v", name, err)
		}
	}
}

// TestLargeUpload sends a form with a file of 2 GB from a process of its own, which then says how much memory it
// ever had.
func TestLargeUpload(t *testing.T) {
	const size = 2 << 30
	if target := os.Getenv("OUTBOUND_UPLOAD"); target != "" {
		upload(t, target)
		return
	}
	if testing.Short() {
		t.Skip("-short: the upload of 2 GB is left out")
	}
	path := filepath.Join(t.TempDir(), "video.mp4")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLargeUpload$", "-test.v")
	cmd.Env = append(os.Environ(), "OUTBOUND_UPLOAD="+sink(t)+"?file="+url.QueryEscape(path))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, rest, ok := strings.Cut(string(out), "PEAK ")
	kib, err := strconv.Atoi(strings.Fields(rest + " ?")[0])
	if !ok || err != nil {
		t.Skipf("this system does not say how much memory a process had: %s", out)
	}
	t.Logf("2 GiB in %s with at most %d MiB", time.Since(began).Round(time.Millisecond), kib>>10)
	if limit := 100; kib>>10 > limit && !raceEnabled {
		t.Errorf("%d MiB, more than %d", kib>>10, limit)
	}
}

// upload is what the process of its own does.
func upload(t *testing.T, target string) {
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	body, err := Multipart([]Part{{Name: "title", Value: "x"}, {Name: "file", File: u.Query().Get("file")}}, "")
	if err != nil {
		t.Fatal(err)
	}
	_, got, err := fetch(t, local(t, Options{}), &Request{Method: "POST", URL: target, Body: body, Timeouts: Timeouts{Total: 5 * time.Minute, Idle: 30 * time.Second}})
	if want := fmt.Sprintf("%d of %d", body.Size, body.Size); err != nil || got != want || body.Size < 2<<30 {
		t.Fatalf("%s, %v, want %s", got, err, want)
	}
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(raw)) {
		if peak, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			fmt.Println("PEAK", strings.TrimSpace(peak))
		}
	}
}
