package upload_test

import (
	"bytes"
	"context"
	"io"
	"mime/multipart"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/sandbox"
	"github.com/stepwell/stepwell/upload"
)

// TestSources: a form and a file of an allowed folder become media; files outside it, by a link too, and addresses inside the
// network do not, and what is too large leaves nothing.
func TestSources(t *testing.T) {
	r := newRig(t, openSQLite(t))
	allowed, outside := t.TempDir(), t.TempDir()
	fence, err := sandbox.NewFence([]string{allowed}, nil)
	r.good(err)
	r.o.Admit, r.o.MaxBytes = fence.Admits, upload.ChunkBytes+10
	r.o.Fetch, err = outbound.New(outbound.Options{})
	r.good(err)
	r.uploads = upload.New(r.o)
	r.url = r.serve(r.uploads)

	content := noise(upload.ChunkBytes + 10)
	form := func(content []byte) (io.Reader, string) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		r.good(w.WriteField("note", "not a file"))
		part, err := w.CreateFormFile("file", "../form.mp3")
		r.good(err)
		_, err = part.Write(content)
		r.good(err)
		r.good(w.Close())
		return &b, w.FormDataContentType()
	}
	body, kind := form(content)
	r.want(r.ask("POST", media, body, "Tus-Resumable", "", "Content-Type", kind), 201)
	r.has(content, "form.mp3", "application/octet-stream")
	body, kind = form(append(content, 1))
	r.want(r.ask("POST", media, body, "Tus-Resumable", "", "Content-Type", kind), 413)

	write := func(path string, content []byte) string {
		r.good(os.WriteFile(path, content, 0o600))
		return path
	}
	secret := write(filepath.Join(outside, "secret"), []byte("secret"))
	link := filepath.Join(allowed, "link.mp3")
	r.good(os.Symlink(secret, link))
	for place, code := range map[upload.Place]stepwell.Code{
		{Path: secret}: stepwell.CodeDenied, {Path: link}: stepwell.CodeDenied, {Path: allowed + "/../" + filepath.Base(outside) + "/secret"}: stepwell.CodeDenied,
		{Path: filepath.Join(allowed, "none")}: stepwell.CodeNotFound, {Path: allowed}: stepwell.CodeNotFound,
		{URL: "http://127.0.0.1:1/x"}: stepwell.CodeDenied, {URL: "http://169.254.169.254/latest"}: stepwell.CodeDenied, {URL: "file:///etc/passwd"}: stepwell.CodeInvalid,
	} {
		if _, err := r.uploads.From(t.Context(), "l", &place, "me"); stepwell.CodeOf(err) != code {
			t.Errorf("%+v: %v is not %s", place, err, code)
		}
	}
	list, err := r.uploads.List(t.Context(), "l")
	r.good(err)
	if len(list) != 0 {
		t.Errorf("uploads are left: %+v", list)
	}
	_, err = r.uploads.From(t.Context(), "l", &upload.Place{Path: write(filepath.Join(allowed, "a.mp3"), []byte("sound"))}, "me")
	r.good(err)
	r.has([]byte("sound"), "a.mp3", "audio/mpeg")
	for _, body := range []string{`{}`, `{"path": "a", "url": "b"}`, `[`, `"` + strings.Repeat("x", 70<<10)} {
		r.want(r.ask("POST", media, strings.NewReader(body), "Tus-Resumable", "", "Content-Type", "application/json"), 400)
	}
	r.want(r.ask("POST", media, strings.NewReader("x"), "Tus-Resumable", ""), 415)
}

// TestCache: media are files while somebody uses them, make room for others after that, and go with the process.
func TestCache(t *testing.T) {
	r := newRig(t, openSQLite(t))
	dir := t.TempDir()
	ref := func(content []byte) string {
		r.want(r.patch(r.begin(len(content), "a.mp3"), 0, bytes.NewReader(content)), 204)
		one, err := r.lessons.Get(t.Context(), "l")
		r.good(err)
		return one.Media.Ref
	}
	first, second := noise(upload.ChunkBytes+1), noise(100)
	one, two := ref(first), ref(second)
	c := upload.NewCache(upload.CacheOptions{Blobs: r.store.Blobs(), Dir: dir, MaxBytes: int64(len(first)) + 50})
	using, done := context.WithCancel(t.Context())
	path, err := c.Local(using, one, "../a.mp3")
	r.good(err)
	got, err := os.ReadFile(path)
	r.good(err)
	if !bytes.Equal(got, first) || filepath.Base(path) != "a.mp3" || !strings.HasPrefix(path, dir) {
		t.Errorf("%s has %d bytes", path, len(got))
	}
	if _, err := c.Local(t.Context(), two, "b.mp3"); stepwell.CodeOf(err) != stepwell.CodeUnavailable {
		t.Errorf("a file in use made room: %v", err)
	}
	done()
	for again := 0; ; again++ { // the end of a context is heard of a moment later
		if _, err = c.Local(t.Context(), two, "b.mp3"); err == nil || again == 1000 {
			break
		}
	}
	r.good(err)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
	if _, err := c.Local(t.Context(), "@sha256:../../etc/passwd:1", "x"); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Errorf("%v", err)
	}
	r.good(c.Close())
	left, err := os.ReadDir(dir)
	r.good(err)
	if len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
