package upload_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/progress"
	"github.com/stepwell/stepwell/project"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/postgres"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
	"github.com/stepwell/stepwell/store/sqlite"
	"github.com/stepwell/stepwell/upload"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// rig is uploads of a database with the lesson l, and a server in front of them.
type rig struct {
	*testing.T
	store   store.Store
	lessons *project.Lessons
	uploads *upload.Store
	url     string
	bucket  *s3mem.Backend // nil: blobs are elsewhere
	now     time.Time
	busy    bool // the lesson has executions
	o       upload.Options
}

func both(t *testing.T, f func(r *rig)) {
	t.Run("sqlite", func(t *testing.T) { f(newRig(t, openSQLite(t))) })
	t.Run("postgres", func(t *testing.T) { f(newRig(t, openPostgres(t, ""))) })
	t.Run("bucket", func(t *testing.T) {
		backend := s3mem.New()
		server := httptest.NewServer(gofakes3.New(backend).Server())
		t.Cleanup(server.Close)
		for name, value := range map[string]string{"AWS_ENDPOINT_URL_S3": server.URL, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"} {
			t.Setenv(name, value)
		}
		if err := backend.CreateBucket("media"); err != nil {
			t.Fatal(err)
		}
		r := newRig(t, openPostgres(t, "&blobs=s3://media/of/lessons"))
		r.bucket = backend
		f(r)
	})
}

func openPostgres(t *testing.T, more string) store.Store {
	url, err := postgrestest.Create(postgrestest.URL(t), "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), postgres.Options{URL: url + more})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// objects are those of the bucket that are blobs.
func (r *rig) objects() (n int) {
	r.Helper()
	list, err := r.bucket.ListBucket("media", nil, gofakes3.ListBucketPage{})
	r.good(err)
	for _, o := range list.Contents {
		if !strings.HasSuffix(o.Key, "/place") {
			n++
		}
	}
	return n
}

func openSQLite(t *testing.T) store.Store {
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "s.db"), Synchronous: "normal"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newRig(t *testing.T, s store.Store) *rig {
	r := &rig{T: t, store: s, now: time.Now()}
	tracker, err := progress.New(progress.Options{Store: s})
	r.good(err)
	t.Cleanup(func() {
		r.good(tracker.Close())
		r.good(s.Close())
	})
	projects := project.New(s, tracker)
	unfinished := func(context.Context, string) (bool, error) { return r.busy, nil }
	r.lessons = project.NewLessons(project.LessonOptions{Objects: s, Projects: projects, Unfinished: unfinished,
		Deleted: func(ctx context.Context, id string) error { return r.uploads.Forget(ctx, id) }})
	r.o = upload.Options{Objects: s, Blobs: s.Blobs(), Lessons: r.lessons, MaxBytes: 64 << 20, Unfinished: unfinished, Now: func() time.Time { return r.now }}
	r.uploads = upload.New(r.o)
	_, err = projects.Create(t.Context(), &project.Draft{ID: "p"}, "me")
	r.good(err)
	_, err = r.lessons.Create(t.Context(), &project.LessonDraft{Project: "p", ID: "l"}, "me")
	r.good(err)
	r.url = r.serve(r.uploads)
	return r
}

// statusOf is the status of an error, as package api has it.
func statusOf(err error) int {
	if own, ok := errors.AsType[*upload.Error](err); ok {
		return own.HTTPStatus()
	}
	return map[stepwell.Code]int{stepwell.CodeNotFound: 404, stepwell.CodeInvalid: 400, stepwell.CodeConflict: 409, stepwell.CodeDenied: 403, stepwell.CodeFailed: 422, stepwell.CodeUnavailable: 503}[stepwell.CodeOf(err)]
}

// serve is a server of uploads, as package api has it.
func (r *rig) serve(of *upload.Store) string {
	s := upload.Handler{Store: of, Fail: func(w http.ResponseWriter, _ *http.Request, err error) { http.Error(w, err.Error(), statusOf(err)) }}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/lessons/{id}/media", func(w http.ResponseWriter, q *http.Request) {
		if upload.Resumable(q) {
			s.Post(w, q, q.PathValue("id"))
			return
		}
		s.Receive(w, q, q.PathValue("id"), func(l *project.Lesson) { w.WriteHeader(http.StatusCreated) })
	})
	mux.HandleFunc("GET /api/v1/lessons/{id}/media", func(w http.ResponseWriter, q *http.Request) { s.Serve(w, q, q.PathValue("id")) })
	mux.HandleFunc("HEAD /api/v1/uploads/{id}", func(w http.ResponseWriter, q *http.Request) { s.Head(w, q, q.PathValue("id")) })
	mux.HandleFunc("PATCH /api/v1/uploads/{id}", func(w http.ResponseWriter, q *http.Request) { s.Patch(w, q, q.PathValue("id")) })
	mux.HandleFunc("DELETE /api/v1/uploads/{id}", func(w http.ResponseWriter, q *http.Request) { s.Terminate(w, q, q.PathValue("id")) })
	server := httptest.NewServer(mux)
	r.Cleanup(server.Close)
	return server.URL
}

func (r *rig) good(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// noise is content that does not repeat.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}

// ask sends a request of tus; headers are pairs.
func (r *rig) ask(method, path string, body io.Reader, headers ...string) *http.Response {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), method, r.url+path, body)
	r.good(err)
	req.Header.Set("Tus-Resumable", "1.0.0")
	for i := 0; i < len(headers); i += 2 {
		if req.Header.Set(headers[i], headers[i+1]); headers[i+1] == "" {
			req.Header.Del(headers[i])
		}
	}
	res, err := http.DefaultClient.Do(req)
	r.good(err)
	r.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func (r *rig) want(res *http.Response, status int) *http.Response {
	r.Helper()
	if res.StatusCode != status {
		text, _ := io.ReadAll(res.Body)
		r.Fatalf("%s %s: %d, not %d: %s", res.Request.Method, res.Request.URL.Path, res.StatusCode, status, text)
	}
	return res
}

const media = "/api/v1/lessons/l/media"

// begin creates an upload and gives its path.
func (r *rig) begin(size int, name string) string {
	r.Helper()
	res := r.want(r.ask("POST", media, nil, "Upload-Length", strconv.Itoa(size), "Upload-Metadata", "filename "+base64.StdEncoding.EncodeToString([]byte(name))), 201)
	return res.Header.Get("Location")
}

func (r *rig) patch(path string, offset int, body io.Reader, headers ...string) *http.Response {
	r.Helper()
	return r.ask("PATCH", path, body, append([]string{"Content-Type", "application/offset+octet-stream", "Upload-Offset", strconv.Itoa(offset)}, headers...)...)
}

// at is the offset of an upload.
func (r *rig) at(path string) string {
	r.Helper()
	return r.want(r.ask("HEAD", path, nil), 200).Header.Get("Upload-Offset")
}

// has checks the lesson's media.
func (r *rig) has(content []byte, name, mediaType string) {
	r.Helper()
	one, err := r.lessons.Get(r.Context(), "l")
	r.good(err)
	sum := sha256.Sum256(content)
	if m := one.Media; m == nil || m.Name != name || m.Type != mediaType || m.Bytes != int64(len(content)) || m.SHA256 != hex.EncodeToString(sum[:]) {
		r.Fatalf("the media is %+v", m)
	}
	got, err := io.ReadAll(r.want(r.ask("GET", media, nil), 200).Body)
	r.good(err)
	if !bytes.Equal(got, content) {
		r.Errorf("%d other bytes come than the %d that were sent", len(got), len(content))
	}
}

// broken is a body that ends with an error.
func broken(b []byte) io.Reader {
	return io.MultiReader(bytes.NewReader(b), readFunc(func([]byte) (int, error) { return 0, errors.New("the line is dead") }))
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// TestPieces: a file that comes in pieces of any size, some of which break off, is whole in the end; what has come is kept.
func TestPieces(t *testing.T) {
	both(t, func(r *rig) {
		content := noise(3*upload.ChunkBytes + 12345)
		path := r.begin(len(content), "Übung 1.mp3")
		at := 0
		for _, n := range []int{1, 100, upload.ChunkBytes - 101, 5 << 20, 3} {
			res := r.want(r.patch(path, at, bytes.NewReader(content[at:at+n])), 204)
			if at += n; res.Header.Get("Upload-Offset") != strconv.Itoa(at) {
				r.Fatalf("the offset is %s, not %d", res.Header.Get("Upload-Offset"), at)
			}
			if res.Header.Get("Upload-Expires") == "" {
				r.Error("it does not say when it expires")
			}
		}
		direct, err := r.uploads.Append(r.Context(), strings.TrimPrefix(path, upload.Path), int64(at), broken(content[at:at+1000]), nil, nil)
		if err == nil || direct.Offset != int64(at+1000) {
			r.Fatalf("%+v %v", direct, err)
		}
		at += 1000
		if got := r.at(path); got != strconv.Itoa(at) {
			r.Fatalf("the offset is %s, not %d", got, at)
		}
		r.uploads = upload.New(r.o) // another process
		r.url = r.serve(r.uploads)
		r.want(r.patch(path, at, bytes.NewReader(content[at:])), 204)
		r.has(content, "Übung 1.mp3", "audio/mpeg")
		r.want(r.patch(path, len(content), strings.NewReader("")), 204) // a client that has not heard the answer
		if got := r.at(path); got != strconv.Itoa(len(content)) {
			r.Errorf("the offset is %s at the end", got)
		}
	})
}

// TestRefused: what a client must not send changes nothing.
func TestRefused(t *testing.T) {
	both(t, func(r *rig) {
		for status, headers := range map[int][][]string{
			400: {{}, {"Upload-Length", "-1"}, {"Upload-Length", "1x"}, {"Upload-Length", "99999999999999999999"}, {"Upload-Defer-Length", "1"}, {"Upload-Length", "1", "Upload-Metadata", "filename ###"}},
			412: {{"Upload-Length", "1", "Tus-Resumable", "0.2.2"}},
			413: {{"Upload-Length", strconv.Itoa(64<<20 + 1)}},
		} {
			for _, h := range headers {
				r.want(r.ask("POST", media, nil, h...), status)
			}
		}
		r.want(r.ask("POST", "/api/v1/lessons/none/media", nil, "Upload-Length", "1"), 404)
		path := r.begin(10, "a")
		r.want(r.patch(path, 5, strings.NewReader("x")), 409)
		r.want(r.ask("PATCH", path, strings.NewReader("x"), "Content-Type", "application/offset+octet-stream", "Upload-Offset", "-1"), 400)
		r.want(r.ask("PATCH", path, strings.NewReader("x"), "Content-Type", "application/offset+octet-stream"), 400)
		r.want(r.ask("PATCH", path, strings.NewReader("x"), "Content-Type", "text/plain", "Upload-Offset", "0"), 415)
		r.want(r.patch(path, 0, strings.NewReader("12345678901")), 413)
		r.want(r.patch(path, 0, struct{ io.Reader }{strings.NewReader("12345678901")}), 413) // without a length
		r.want(r.patch(path, 0, strings.NewReader("x"), "Upload-Checksum", "crc32 AAAA"), 400)
		r.want(r.patch(path, 0, strings.NewReader("x"), "Upload-Checksum", "sha1 "+sha1Of("y")), upload.StatusChecksum)
		r.want(r.patch("/api/v1/uploads/none", 0, strings.NewReader("x")), 404)
		r.want(r.patch("/api/v1/uploads/l%2f"+strings.TrimPrefix(path, upload.Path), 0, strings.NewReader("x")), 404)
		if got := r.at(path); got != "0" {
			r.Errorf("the offset is %s", got)
		}
		r.want(r.patch(path, 0, strings.NewReader("1234567890"), "Upload-Checksum", "sha1 "+sha1Of("1234567890")), 204)
		r.has([]byte("1234567890"), "a", "application/octet-stream")
		r.want(r.ask("DELETE", path, nil), 409)
	})
}

func sha1Of(text string) string {
	sum := sha1.Sum([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// TestChecksum: bytes with a checksum are stored when it fits, also those of several chunks, or not at all.
func TestChecksum(t *testing.T) {
	both(t, func(r *rig) {
		content := noise(2*upload.ChunkBytes + 100)
		path := r.begin(len(content), "a.bin")
		right, wrong := sha256.Sum256(content[:len(content)-50]), sha256.Sum256([]byte("other"))
		sum := func(b [32]byte) string { return "sha256 " + base64.StdEncoding.EncodeToString(b[:]) }
		r.want(r.patch(path, 0, bytes.NewReader(content[:len(content)-50]), "Upload-Checksum", sum(wrong)), upload.StatusChecksum)
		if got := r.at(path); got != "0" {
			r.Fatalf("the offset is %s", got)
		}
		r.want(r.patch(path, 0, bytes.NewReader(content[:len(content)-50]), "Upload-Checksum", sum(right)), 204)
		r.want(r.patch(path, len(content)-50, bytes.NewReader(content[len(content)-50:]), "Upload-Checksum", sum(wrong)), upload.StatusChecksum)
		r.want(r.patch(path, len(content)-50, bytes.NewReader(content[len(content)-50:])), 204)
		r.has(content, "a.bin", "application/octet-stream")
	})
}

// TestWriters: of two processes that write to an upload one is told to look where it is; a client that comes again ends the wait
// of its earlier request.
func TestWriters(t *testing.T) {
	both(t, func(r *rig) {
		content := noise(upload.ChunkBytes * 2)
		path := r.begin(len(content), "a.bin")
		other := r.serve(upload.New(r.o))
		here := r.url
		var wait sync.WaitGroup
		codes := make([]int, 2)
		for i, url := range []string{here, other} {
			wait.Go(func() {
				req, _ := http.NewRequestWithContext(r.Context(), "PATCH", url+path, bytes.NewReader(content))
				req.Header = http.Header{"Tus-Resumable": {"1.0.0"}, "Content-Type": {"application/offset+octet-stream"}, "Upload-Offset": {"0"}}
				if res, err := http.DefaultClient.Do(req); err == nil {
					codes[i] = res.StatusCode
					_ = res.Body.Close()
				}
			})
		}
		wait.Wait()
		if codes[0]+codes[1] != 204+409 && codes[0]+codes[1] != 204+204 { // one after the other
			r.Errorf("answers %v", codes)
		}
		r.has(content, "a.bin", "application/octet-stream")

		path = r.begin(10, "b.bin")
		for try := 1; r.at(path) != "4"; try++ { // a request may be ended before its bytes have come
			if try == 12 {
				r.Fatal("the earlier request keeps what has come to itself")
			}
			reader, writer := io.Pipe()
			ended := make(chan error, 1)
			go func() {
				req, _ := http.NewRequestWithContext(r.Context(), "PATCH", here+path, reader)
				req.Header = http.Header{"Tus-Resumable": {"1.0.0"}, "Content-Type": {"application/offset+octet-stream"}, "Upload-Offset": {"0"}}
				res, err := http.DefaultClient.Do(req)
				if err == nil {
					_ = res.Body.Close()
				}
				ended <- err
			}()
			_, err := writer.Write([]byte("1234"))
			r.good(err)
			time.Sleep(time.Millisecond << try)
			r.at(path) // the client has come again
			_ = writer.Close()
			<-ended
		}
		r.want(r.patch(path, 4, strings.NewReader("567890")), 204)
		r.has([]byte("1234567890"), "b.bin", "application/octet-stream")
	})
}

// TestServed: media come with ranges, a tag and a name, and never as a page.
func TestServed(t *testing.T) {
	both(t, func(r *rig) {
		content := noise(2*upload.ChunkBytes + 7)
		r.want(r.patch(r.begin(len(content), `../../etc/<b>.html`), 0, bytes.NewReader(content)), 204)
		res := r.want(r.ask("GET", media, nil, "Range", fmt.Sprintf("bytes=%d-%d", upload.ChunkBytes-3, upload.ChunkBytes+3)), 206)
		got, err := io.ReadAll(res.Body)
		r.good(err)
		if !bytes.Equal(got, content[upload.ChunkBytes-3:upload.ChunkBytes+4]) {
			r.Error("the range has other bytes")
		}
		for name, want := range map[string]string{"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment; filename=_b_.html",
			"Content-Security-Policy": "sandbox; default-src 'none'", "Accept-Ranges": "bytes"} {
			if got := res.Header.Get(name); got != want {
				r.Errorf("%s: %q, not %q", name, got, want)
			}
		}
		r.want(r.ask("GET", media, nil, "If-None-Match", res.Header.Get("ETag")), 304)
		r.want(r.ask("GET", media, nil, "Range", "bytes=99999999-"), 416)
		if head := r.want(r.ask("HEAD", media, nil), 200); head.ContentLength != int64(len(content)) {
			r.Errorf("HEAD says %d bytes", head.ContentLength)
		}
	})
}

// kept reports how many blobs stay when all are old.
func (r *rig) kept(refs []string) (n int) {
	r.Helper()
	for _, ref := range refs {
		hash, _, err := store.ParseRef(ref)
		r.good(err)
		r.good(r.store.Blobs().(store.Sweeper).Touch(hash, time.Now().Add(-48*time.Hour)))
	}
	for more := true; more; {
		var err error
		_, more, err = r.store.Prune(r.Context(), store.Retention{Blobs: true})
		r.good(err)
	}
	for _, ref := range refs {
		if _, err := r.store.Blobs().Load(r.Context(), ref); err == nil {
			n++
		} else if stepwell.CodeOf(err) != stepwell.CodeNotFound {
			r.Fatal(err)
		}
	}
	return n
}

// chunks are the references of the parts of a content.
func chunks(content []byte) (refs []string) {
	for len(content) > 0 {
		n := min(len(content), upload.ChunkBytes)
		refs = append(refs, fmt.Sprintf("@sha256:%x:%d", sha256.Sum256(content[:n]), n))
		content = content[n:]
	}
	return refs
}

// TestKept: what media and unfinished uploads refer to outlives the sweep of old blobs; what is replaced, expired or deleted does
// not, and replaced media wait for the executions of their lesson.
func TestKept(t *testing.T) {
	both(t, func(r *rig) {
		old, next := noise(upload.ChunkBytes+1), noise(upload.ChunkBytes+2)
		r.want(r.patch(r.begin(len(old), "old"), 0, bytes.NewReader(old)), 204)
		if n := r.kept(chunks(old)); n != 2 {
			r.Fatalf("%d chunks of the media are left", n)
		}
		if r.bucket != nil && r.objects() < 2 {
			r.Errorf("the bucket has %d objects", r.objects())
		}
		path := r.begin(len(next), "next")
		r.want(r.patch(path, 0, bytes.NewReader(next[:len(next)-1])), 204)
		if n := r.kept(chunks(next[:len(next)-1])); n != 2 {
			r.Fatalf("%d chunks of the unfinished upload are left", n)
		}
		sweep := func() int {
			n, err := r.uploads.Sweep(r.Context())
			r.good(err)
			return n
		}
		r.want(r.patch(path, len(next)-1, bytes.NewReader(next[len(next)-1:])), 204)
		if n := sweep(); n != 0 {
			r.Errorf("%d uploads were removed at once", n)
		}
		r.now = r.now.Add(25 * time.Hour)
		r.busy = true
		if n := sweep(); n != 0 {
			r.Errorf("%d uploads were removed below a running execution", n)
		}
		r.busy = false
		if n := sweep(); n != 1 {
			r.Errorf("%d uploads were removed, not the replaced one", n)
		}
		if n := r.kept(chunks(old)); n != 0 {
			r.Errorf("%d chunks of the replaced media are left", n)
		}
		r.has(next, "next", "application/octet-stream")

		path = r.begin(10, "late")
		r.now = r.now.Add(25 * time.Hour)
		r.want(r.ask("HEAD", path, nil), 404)
		if n := sweep(); n != 1 {
			r.Errorf("%d uploads have expired", n)
		}
		r.busy = true
		if err := r.lessons.Delete(r.Context(), "l", store.AnyRevision); stepwell.CodeOf(err) != stepwell.CodeConflict {
			r.Errorf("a lesson was deleted below its execution: %v", err)
		}
		r.busy = false
		r.good(r.lessons.Delete(r.Context(), "l", store.AnyRevision))
		if n := r.kept(chunks(next)); n != 0 {
			r.Errorf("%d chunks of a deleted lesson are left", n)
		}
		if r.bucket != nil && r.objects() != 2 { // both manifests, which are young
			r.Errorf("the bucket has %d objects", r.objects())
		}
		r.want(r.ask("GET", media, nil), 404)
	})
}
