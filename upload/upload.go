// Package upload brings the media of lessons into the blobs of a store and out again: files of any size, in memory of a few
// megabytes. An upload is stored in chunks, each durable before the upload's offset moves, so that it goes on where it was after
// the death of either side (tus 1.0, tus.go); a whole body, a file of this machine and a file behind a URL come the same way. The
// last chunk, the end of the upload and the lesson's new media are one transaction. What an upload has stored belongs to its
// object in the store, which keeps the blobs from being removed. Stability: experimental until version 1.
package upload

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/project"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// kind is that of the objects in which uploads are stored: their id is LESSON/UPLOAD, and their name is UPLOAD.
const kind = "upload"

// ChunkBytes is the size of all chunks but the last.
const ChunkBytes = 4 << 20

// Options configure a Store. Objects, Blobs and Lessons are required.
type Options struct {
	Objects store.Objects
	Blobs   store.Blobs
	Lessons *project.Lessons
	// MaxBytes bounds a file. Defaults to 10 GiB, at most 64 GiB.
	MaxBytes int64
	// Expire is how long an unfinished upload waits for its next bytes before it is removed. Defaults to 24 hours.
	Expire time.Duration
	// MaxAtOnce bounds the requests that bring files at the same time, and those that read them: each holds a chunk in
	// memory. One that comes on top is CodeUnavailable; one caller gets half of them. Defaults to 16.
	MaxAtOnce int
	// Fetch brings files that are named by a URL. Defaults to none: such are CodeUnavailable.
	Fetch *outbound.Client
	// Admit is CodeDenied for a file of this machine that must not be read. Defaults to all being admitted.
	Admit func(path string) error
	// Unfinished reports whether a lesson has executions that have not ended. Defaults to none.
	Unfinished func(ctx context.Context, lesson string) (bool, error)
	// Now defaults to time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// maxUnfinished bounds the unfinished uploads of a lesson.
const maxUnfinished = 100

// maxBytes bounds the list of chunks that an upload's object holds.
const maxBytes = 64 << 30

// Store has the uploads of a store. It may be used by many goroutines, and by many processes.
type Store struct {
	o             Options
	writes, reads *slots

	mu      sync.Mutex
	writing map[string]*turn // by upload
}

// New makes a Store.
func New(o Options) *Store {
	o.MaxBytes = min(cmp.Or(max(o.MaxBytes, 0), 10<<30), maxBytes)
	o.Expire = cmp.Or(max(o.Expire, 0), 24*time.Hour)
	o.MaxAtOnce = cmp.Or(max(o.MaxAtOnce, 0), 16)
	o.Log = cmp.Or(o.Log, slog.Default())
	if o.Admit == nil {
		o.Admit = func(string) error { return nil }
	}
	if o.Unfinished == nil {
		o.Unfinished = func(context.Context, string) (bool, error) { return false, nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Store{o: o, writes: newSlots(o.MaxAtOnce), reads: newSlots(o.MaxAtOnce), writing: map[string]*turn{}}
}

// Error is an error with an HTTP status of its own, which clients of tus go by.
type Error struct {
	Err    *stepwell.Error
	Status int
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the error with code and hint.
func (e *Error) Unwrap() error { return e.Err }

// HTTPStatus is the status of the answer.
func (e *Error) HTTPStatus() int { return e.Status }

func refuse(status int, code stepwell.Code, hint, message string) error {
	return &Error{&stepwell.Error{Code: code, Message: message, Hint: hint}, status}
}

// Draft is an upload to be begun.
type Draft struct {
	Lesson string
	Name   string // of the file
	Type   string // its media type
	Bytes  int64
	// Metadata is what the client says of the file, as it wrote it (tus).
	Metadata string
}

// Upload is an upload as it is shown.
type Upload struct {
	ID     string `json:"upload_id"`
	Lesson string `json:"lesson_id"`
	State
	resource.Meta
	Done bool `json:"-"`
}

// State is what is known of a file that comes.
type State struct {
	Name     string        `json:"name" doc:"The name of the file."`
	Type     string        `json:"type" doc:"Its media type."`
	Bytes    int64         `json:"bytes" doc:"How large the file is."`
	Offset   int64         `json:"offset" doc:"How many of its bytes are stored."`
	Metadata string        `json:"metadata" doc:"What the client said of the file (Upload-Metadata)."`
	Expires  resource.Time `json:"expires_at" doc:"When it is removed unless more comes."`
	By       resource.Ref  `json:"created_by"`
}

// record is a stored upload.
type record struct {
	State
	// Hash is the state of the SHA-256 of the stored bytes (encoding.BinaryMarshaler).
	Hash []byte `json:"hash,omitempty"`
	// Chunks are the hashes of the stored chunks, in base64. All but the last have ChunkBytes.
	Chunks []string `json:"chunks,omitempty"`
	Done   bool     `json:"done,omitempty"` // its bytes were all stored; whether they are a lesson's media the lesson says
}

// refs are the references of the chunks.
func (r *record) refs() ([]string, error) {
	out := make([]string, len(r.Chunks))
	for i, chunk := range r.Chunks {
		raw, err := base64.RawStdEncoding.DecodeString(chunk)
		if err != nil {
			return nil, &stepwell.Error{Code: stepwell.CodeInternal, Message: "a stored upload cannot be read", Err: err}
		}
		out[i] = refOf(raw, min(ChunkBytes, r.Offset-int64(i)*ChunkBytes))
	}
	return out, nil
}

// held is an upload with its object.
type held struct {
	record
	object store.Object
}

func (h *held) id() string     { return h.object.Name }
func (h *held) lesson() string { return strings.TrimSuffix(h.object.ID, "/"+h.object.Name) }

func (h *held) shown() *Upload {
	return &Upload{ID: h.id(), Lesson: h.lesson(), State: h.State, Meta: resource.MetaOf(&h.object), Done: h.Done}
}

func read(o *store.Object) (*held, error) {
	h := &held{object: *o}
	if err := json.Unmarshal(o.Body, &h.record); err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInternal, Message: "the stored upload " + o.ID + " cannot be read", Err: err}
	}
	return h, nil
}

// Create begins an upload. CodeInvalid; CodeNotFound when there is no such lesson; CodeLimit for a file that is too large.
func (s *Store) Create(ctx context.Context, d *Draft, actor string) (*Upload, error) {
	if d.Bytes < 0 {
		return nil, stepwell.Invalid("say how many bytes the file has", "a file has no %d bytes", d.Bytes)
	}
	if d.Bytes > s.o.MaxBytes {
		return nil, s.tooLarge()
	}
	if others, err := s.List(ctx, d.Lesson); err != nil || len(others) >= maxUnfinished {
		return nil, cmp.Or(err, error(&stepwell.Error{Code: stepwell.CodeLimit, Message: "the lesson has " + strconv.Itoa(len(others)) + " unfinished uploads", Hint: "continue with one of them, or delete some"}))
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	h := &held{object: store.Object{Kind: kind, ID: d.Lesson + "/" + id.String(), Name: id.String()}}
	name := FileName(d.Name)
	h.State = State{Name: name, Type: typeOf(d.Type, name), Bytes: d.Bytes, Metadata: d.Metadata, By: resource.Ref(actor), Expires: resource.At(s.o.Now().Add(s.o.Expire))}
	if err := s.put(ctx, h); err != nil {
		return nil, err
	}
	if h.Bytes == 0 { // nothing will come
		if err := s.append(ctx, h, strings.NewReader(""), nil); err != nil {
			return nil, err
		}
	}
	return h.shown(), nil
}

func (s *Store) tooLarge() error {
	return refuse(http.StatusRequestEntityTooLarge, stepwell.CodeLimit, "a larger limit is the setting uploads.max_bytes", "the file is larger than "+strconv.FormatInt(s.o.MaxBytes, 10)+" bytes")
}

// put stores an upload.
func (s *Store) put(ctx context.Context, h *held) error {
	body, err := json.Marshal(h.record)
	if err != nil {
		return err
	}
	o := h.object
	if o.Body, o.Blobs = body, nil; len(h.Chunks) > 0 {
		if o.Blobs, err = h.refs(); err != nil {
			return err
		}
	}
	stored, err := s.o.Objects.PutObjects(ctx, o)
	if err == nil {
		h.object = stored[0]
	}
	return err
}

// Get finds an upload: CodeNotFound, also for one that has expired.
func (s *Store) Get(ctx context.Context, id string) (*Upload, error) {
	h, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	return h.shown(), nil
}

func (s *Store) find(ctx context.Context, id string) (*held, error) {
	missing := &stepwell.Error{Code: stepwell.CodeNotFound, Message: "there is no upload " + stepwell.Clip(id, 80), Hint: "it may have expired: begin another one"}
	if strings.Contains(id, "/") {
		return nil, missing
	}
	o, err := s.o.Objects.Object(ctx, kind, id)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return nil, missing
	}
	if err != nil {
		return nil, err
	}
	h, err := read(o)
	if err == nil && !h.Done && s.o.Now().After(h.Expires.Time) {
		return nil, missing
	}
	return h, err
}

// List lists the unfinished uploads of a lesson: at most 1,000, the oldest first.
func (s *Store) List(ctx context.Context, lesson string) ([]Upload, error) {
	if _, err := s.o.Lessons.Get(ctx, lesson); err != nil {
		return nil, err
	}
	list, err := s.o.Objects.Objects(ctx, store.ObjectFilter{Kind: kind, Prefix: lesson + "/", Limit: 1000})
	out := []Upload{}
	for i := range list {
		h, err := read(&list[i])
		if err != nil {
			return nil, err
		}
		if !h.Done && s.o.Now().Before(h.Expires.Time) {
			out = append(out, *h.shown())
		}
	}
	return out, err
}

// Delete ends an upload that has not finished and releases its chunks: CodeNotFound; CodeConflict when it has finished.
func (s *Store) Delete(ctx context.Context, id string) error {
	leave, err := s.enter(ctx, id, nil)
	if err != nil {
		return err
	}
	defer leave()
	h, err := s.find(ctx, id)
	if err != nil {
		return err
	}
	if h.Done {
		return &stepwell.Error{Code: stepwell.CodeConflict, Message: "the upload " + id + " has finished", Hint: "delete the media of the lesson instead"}
	}
	return s.o.Objects.DeleteObject(ctx, kind, h.object.ID, h.object.Revision)
}

// turn is a request that writes to an upload.
type turn struct {
	interrupt func() // ends its wait for bytes; nil: it has none
	over      chan struct{}
}

// patience is how long a request waits for the one before it to leave an upload.
const patience = 5 * time.Second

// enter waits for the upload's turn in this process: a request that still waits for bytes is interrupted, since its client has
// come again. Other processes are kept apart by the revision of the object. CodeConflict (423) when the turn does not come.
func (s *Store) enter(ctx context.Context, id string, interrupt func()) (leave func(), err error) {
	mine := &turn{interrupt, make(chan struct{})}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		s.mu.Lock()
		other := s.writing[id]
		if other == nil {
			s.writing[id] = mine
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				delete(s.writing, id)
				s.mu.Unlock()
				close(mine.over)
			}, nil
		}
		s.mu.Unlock()
		if other.interrupt != nil {
			other.interrupt()
		}
		select {
		case <-other.over:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-limit.C:
			return nil, refuse(http.StatusLocked, stepwell.CodeConflict, "try again in a moment", "another request writes to the upload")
		}
	}
}

// FileName is the name of a file without folders and without what a file system or a header may misunderstand.
func FileName(name string) string {
	name = strings.ToValidUTF8(name, "")
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || strings.ContainsRune(`/:*?"<>|`, r) || unicode.Is(unicode.Bidi_Control, r) {
			return '_'
		}
		return r
	}, name)
	name = strings.TrimSpace(strings.Trim(name, ".~ "))
	if len(name) > 200 { // the end tells the type
		name = strings.ToValidUTF8(name[len(name)-200:], "")
	}
	return cmp.Or(name, "media")
}

// typeOf is a media type that is well formed: the given one, else that of the name.
func typeOf(given, name string) string {
	for _, text := range []string{given, mime.TypeByExtension(path.Ext(name))} {
		if t, params, err := mime.ParseMediaType(text); err == nil && strings.Contains(t, "/") && len(text) < 200 {
			return mime.FormatMediaType(t, params)
		}
	}
	return "application/octet-stream"
}
