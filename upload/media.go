package upload

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/project"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// manifest is the blob that lists the parts of a file; its reference is that of the file.
type manifest struct {
	Bytes  int64    `json:"bytes"`
	SHA256 string   `json:"sha256"`
	Chunks []string `json:"chunks"`
}

// Loader reads blobs; store.Blobs does.
type Loader interface {
	Load(ctx context.Context, ref string) ([]byte, error)
}

func refOf(hash []byte, size int64) string {
	return "@sha256:" + hex.EncodeToString(hash) + ":" + strconv.FormatInt(size, 10)
}

func loadManifest(ctx context.Context, blobs Loader, ref string) (*manifest, error) {
	if size, ok := store.RefSize(ref); !ok || size > maxBytes/ChunkBytes*150+1000 {
		return nil, stepwell.Invalid("", "%s is not a reference to a file", stepwell.Clip(ref, 100))
	}
	raw, err := blobs.Load(ctx, ref)
	if err != nil {
		return nil, err
	}
	m := &manifest{}
	if err := json.Unmarshal(raw, m); err != nil || int64(len(m.Chunks)) != (m.Bytes+ChunkBytes-1)/ChunkBytes {
		return nil, stepwell.Invalid("", "%s is not a reference to a file", stepwell.Clip(ref, 100))
	}
	return m, nil
}

// buffers are for one chunk each. They are used again, because garbage of their size makes a process twice as large.
var buffers = sync.Pool{New: func() any {
	return bytes.NewBuffer(make([]byte, 0, ChunkBytes+bytes.MinRead)) // which bytes.Buffer never makes larger
}}

func takeBuffer() *bytes.Buffer { return buffers.Get().(*bytes.Buffer) }

func giveBuffer(b *bytes.Buffer) {
	b.Reset()
	buffers.Put(b)
}

// loadInto reads a chunk into a buffer, without a copy where the blobs can.
func loadInto(ctx context.Context, blobs Loader, ref string, b *bytes.Buffer) error {
	b.Reset()
	direct, ok := blobs.(interface {
		LoadInto(ctx context.Context, ref string, into []byte) ([]byte, error)
	})
	var chunk []byte
	var err error
	if ok {
		chunk, err = direct.LoadInto(ctx, ref, b.AvailableBuffer())
	} else {
		chunk, err = blobs.Load(ctx, ref)
	}
	b.Write(chunk) // onto itself, or as a copy
	return err
}

// reader reads a file. It holds one chunk until Close.
type reader struct {
	ctx   context.Context
	blobs Loader
	*manifest
	at    int64
	held  int           // the number of the chunk; -1: none
	chunk *bytes.Buffer // nil: closed
}

func newReader(ctx context.Context, blobs Loader, m *manifest) *reader {
	return &reader{ctx: ctx, blobs: blobs, manifest: m, held: -1, chunk: takeBuffer()}
}

func (r *reader) Read(p []byte) (int, error) {
	if r.at >= r.Bytes {
		return 0, io.EOF
	}
	no := int(r.at / ChunkBytes)
	if no != r.held {
		r.held = -1
		if err := loadInto(r.ctx, r.blobs, r.Chunks[no], r.chunk); err != nil {
			return 0, err
		}
		if int64(r.chunk.Len()) != min(ChunkBytes, r.Bytes-int64(no)*ChunkBytes) {
			return 0, &stepwell.Error{Code: stepwell.CodeInternal, Message: "a part of the file has another size"}
		}
		r.held = no
	}
	n := copy(p, r.chunk.Bytes()[r.at-int64(no)*ChunkBytes:])
	r.at += int64(n)
	return n, nil
}

// Close lets others use the memory. It must not be called twice.
func (r *reader) Close() error {
	giveBuffer(r.chunk)
	r.chunk, r.at = nil, r.Bytes
	return nil
}

// Seek implements io.Seeker.
func (r *reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.Bytes
	}
	if offset < 0 {
		return 0, errors.New("a negative position")
	}
	r.at = offset
	return offset, nil
}

// Open is the media of a lesson: CodeNotFound when it has none. What it gives ends with ctx, and Close frees its place.
func (s *Store) Open(ctx context.Context, lesson string) (*project.Media, io.ReadSeekCloser, error) {
	one, err := s.o.Lessons.Get(ctx, lesson)
	if err != nil {
		return nil, nil, err
	}
	if one.Media == nil {
		return nil, nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: "the lesson " + lesson + " has no media", Hint: "upload a file first"}
	}
	free, err := s.reads.take(resource.Ref(actorOf(ctx)))
	if err != nil {
		return nil, nil, err
	}
	m, err := loadManifest(ctx, s.o.Blobs, one.Media.Ref)
	if err != nil {
		free()
		return nil, nil, err
	}
	return one.Media, &opened{newReader(ctx, s.o.Blobs, m), free}, nil
}

type opened struct {
	*reader
	free func()
}

func (o *opened) Close() error {
	o.free()
	return o.reader.Close()
}

// sendPatience is how long a client may take for each write of a file.
const sendPatience = time.Minute

// Serve answers GET and HEAD with the media of a lesson, with ranges. It is an attachment of its own type, so that no browser
// shows or runs it as a page of this server.
func (s *Handler) Serve(w http.ResponseWriter, r *http.Request, lesson string) {
	m, file, err := s.Open(r.Context(), lesson)
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	defer file.Close() //nolint:errcheck // never fails
	h := w.Header()
	h.Set("Content-Type", servedType(m.Type))
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": m.Name}))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "private, no-cache")
	h.Set("ETag", `"`+m.SHA256+`"`)
	http.ServeContent(&patient{w, http.NewResponseController(w)}, r, "", m.At.Time, file)
}

// servedType is the type that a file is served as. Types that a browser runs are bytes.
func servedType(t string) string {
	base, _, _ := strings.Cut(t, ";")
	group, _, _ := strings.Cut(base, "/")
	switch {
	case group == "audio" || group == "video" || group == "image" && !strings.Contains(base, "svg"):
		return t
	case base == "application/pdf" || base == "text/plain" || base == "application/json" || base == "application/zip":
		return t
	}
	return "application/octet-stream"
}

// patient is an answer that gives each write some time.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (p *patient) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(sendPatience)) // a test's recorder has none
	return p.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Remove takes the media from a lesson: CodeNotFound; CodeConflict while an execution of the lesson has not ended.
func (s *Store) Remove(ctx context.Context, lesson string) error {
	one, err := s.o.Lessons.Get(ctx, lesson)
	if err != nil || one.Media == nil {
		return err
	}
	busy, err := s.o.Unfinished(ctx, lesson)
	if err == nil && busy {
		err = &stepwell.Error{Code: stepwell.CodeConflict, Message: "the lesson " + lesson + " has executions that have not ended", Hint: "cancel them, or wait for their end"}
	}
	if err == nil {
		_, err = s.o.Lessons.SetMedia(ctx, lesson, nil)
	}
	if err != nil {
		return err
	}
	return s.drop(ctx, lesson+"/"+one.Media.Upload, store.AnyRevision)
}

// Forget removes all uploads of a lesson that has been deleted.
func (s *Store) Forget(ctx context.Context, lesson string) error {
	for {
		list, err := s.o.Objects.Objects(ctx, store.ObjectFilter{Kind: kind, Prefix: lesson + "/", Limit: 100})
		if err != nil || len(list) == 0 {
			return err
		}
		for i := range list {
			if err := s.drop(ctx, list[i].ID, store.AnyRevision); err != nil {
				return err
			}
		}
	}
}

// drop deletes an upload and releases its blobs, unless another process has done so.
func (s *Store) drop(ctx context.Context, id string, revision int64) error {
	err := s.o.Objects.DeleteObject(ctx, kind, id, revision)
	if code := stepwell.CodeOf(err); code == stepwell.CodeNotFound || code == stepwell.CodeConflict && revision != store.AnyRevision {
		return nil
	}
	return err
}

// replacedAge is how long media that a lesson no longer has stay at least.
const replacedAge = 24 * time.Hour

// Sweep removes what nobody will come back for: unfinished uploads that have expired, and files that are no lesson's media any
// more, a day after their replacement and not before the executions of their lesson have ended.
func (s *Store) Sweep(ctx context.Context) (removed int, err error) {
	const page = 1000
	for after := ""; ; {
		list, err := s.o.Objects.Objects(ctx, store.ObjectFilter{Kind: kind, After: after, Limit: page})
		if err != nil {
			return removed, err
		}
		for i := range list {
			old, err := s.unwanted(ctx, &list[i])
			if err == nil && old {
				removed++
				err = s.drop(ctx, list[i].ID, list[i].Revision)
			}
			if err != nil {
				return removed, err
			}
		}
		if len(list) < page {
			return removed, nil
		}
		after = list[len(list)-1].ID
	}
}

func (s *Store) unwanted(ctx context.Context, o *store.Object) (bool, error) {
	h, err := read(o)
	if err != nil {
		return false, err
	}
	now := s.o.Now()
	if !h.Done {
		return now.After(h.Expires.Time), nil
	}
	if now.Sub(o.Updated) < replacedAge {
		return false, nil
	}
	lesson, err := s.o.Lessons.Get(ctx, h.lesson())
	switch {
	case stepwell.CodeOf(err) == stepwell.CodeNotFound:
		return true, nil
	case err != nil:
		return false, err
	case lesson.Media != nil && (lesson.Media.Upload == h.id() || now.Sub(lesson.Media.At.Time) < replacedAge):
		return false, nil
	}
	busy, err := s.o.Unfinished(ctx, h.lesson())
	return !busy, err
}
