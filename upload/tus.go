package upload

import (
	"context"
	"crypto/sha1" //nolint:gosec // the protocol asks for it; what is stored is checked by SHA-256
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
)

// The protocol: https://tus.io/protocols/resumable-upload, version 1.0.0, with these extensions.
const (
	version    = "1.0.0"
	extensions = "creation,creation-with-upload,termination,checksum,expiration"
	checksums  = "sha1,sha256"
	octets     = "application/offset+octet-stream"
	maxMeta    = 8 << 10
)

// StatusChecksum answers a body that does not fit its checksum.
const StatusChecksum = 460

// Path is where an upload is written to, before its id.
const Path = "/api/v1/uploads/"

// bodyPatience and bodyRate are how long the bytes of a body may take: a chunk comes at the rate, after some patience.
const (
	bodyPatience = 30 * time.Second
	bodyRate     = 1 << 10 // bytes a second
)

// Handler answers the requests of clients. Fail answers one with an error.
type Handler struct {
	*Store
	Fail func(w http.ResponseWriter, r *http.Request, err error)
}

// actorOf names who asks.
func actorOf(ctx context.Context) string { return access.Of(ctx).Actor() }

// Resumable reports whether a request speaks tus.
func Resumable(r *http.Request) bool { return r.Header.Get("Tus-Resumable") != "" }

// Options answers OPTIONS: what the server can do.
func (s *Handler) Options(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Tus-Resumable", version)
	h.Set("Tus-Version", version)
	h.Set("Tus-Extension", extensions)
	h.Set("Tus-Checksum-Algorithm", checksums)
	h.Set("Tus-Max-Size", strconv.FormatInt(s.o.MaxBytes, 10))
	w.WriteHeader(http.StatusNoContent)
}

// speaks answers a client of another version of the protocol.
func (s *Handler) speaks(w http.ResponseWriter, r *http.Request) bool {
	w.Header().Set("Tus-Resumable", version)
	if r.Header.Get("Tus-Resumable") == version {
		return true
	}
	w.Header().Set("Tus-Version", version)
	s.Fail(w, r, refuse(http.StatusPreconditionFailed, stepwell.CodeInvalid, "send Tus-Resumable: "+version, "this server speaks version "+version+" of tus"))
	return false
}

// Post answers the creation of an upload for a lesson, with its first bytes if it has a body.
func (s *Handler) Post(w http.ResponseWriter, r *http.Request, lesson string) {
	if !s.speaks(w, r) {
		return
	}
	d, err := draftOf(r.Header)
	var u *Upload
	if err == nil {
		d.Lesson = lesson
		u, err = s.Create(r.Context(), d, actorOf(r.Context()))
	}
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Location", Path+u.ID)
	if r.Header.Get("Content-Type") == octets && u.Bytes > 0 {
		if u, err = s.take(w, r, u.ID, 0, u); err != nil && u == nil {
			s.Fail(w, r, err)
			return
		} // what has come is stored, and the client goes on there
		h.Set("Upload-Offset", strconv.FormatInt(u.Offset, 10))
	}
	s.tell(h, u)
	w.WriteHeader(http.StatusCreated)
}

// take stores the body of a request; created is what there was before.
func (s *Handler) take(w http.ResponseWriter, r *http.Request, id string, offset int64, created *Upload) (*Upload, error) {
	sum, err := checksumOf(r.Header)
	if err != nil {
		return nil, err
	}
	body := bodyOf(w, r)
	u, err := s.Append(r.Context(), id, offset, body, sum, body.interrupt)
	if err != nil && u == nil {
		return created, err
	}
	return u, broken(err)
}

// Head answers where an upload is.
func (s *Handler) Head(w http.ResponseWriter, r *http.Request, id string) {
	if !s.speaks(w, r) {
		return
	}
	u, err := s.settled(r.Context(), id)
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Upload-Offset", strconv.FormatInt(u.Offset, 10))
	h.Set("Upload-Length", strconv.FormatInt(u.Bytes, 10))
	if u.Metadata != "" {
		h.Set("Upload-Metadata", u.Metadata)
	}
	s.tell(h, u)
	w.WriteHeader(http.StatusOK)
}

// settled is an upload that no request of this process writes to: its client has come again.
func (s *Handler) settled(ctx context.Context, id string) (*Upload, error) {
	leave, err := s.enter(ctx, id, nil)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.Get(ctx, id)
}

// Patch stores more bytes of an upload.
func (s *Handler) Patch(w http.ResponseWriter, r *http.Request, id string) {
	if !s.speaks(w, r) {
		return
	}
	if r.Header.Get("Content-Type") != octets {
		s.Fail(w, r, refuse(http.StatusUnsupportedMediaType, stepwell.CodeInvalid, "send Content-Type: "+octets, "the body is not a part of a file"))
		return
	}
	offset, err := number(r.Header, "Upload-Offset")
	var u *Upload
	if err == nil {
		u, err = s.fits(r, id)
	}
	if err == nil {
		u, err = s.take(w, r, id, offset, nil)
	}
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Upload-Offset", strconv.FormatInt(u.Offset, 10))
	s.tell(h, u)
	w.WriteHeader(http.StatusNoContent)
}

// fits refuses a body that says itself that it is too long.
func (s *Handler) fits(r *http.Request, id string) (*Upload, error) {
	u, err := s.Get(r.Context(), id)
	if err == nil && r.ContentLength > u.Bytes {
		err = refuse(http.StatusRequestEntityTooLarge, stepwell.CodeLimit, "begin another upload", "more bytes are to come than the "+strconv.FormatInt(u.Bytes, 10)+" that were announced")
	}
	return u, err
}

// Terminate answers DELETE.
func (s *Handler) Terminate(w http.ResponseWriter, r *http.Request, id string) {
	if Resumable(r) && !s.speaks(w, r) {
		return
	}
	if err := s.Delete(r.Context(), id); err != nil {
		s.Fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// tell says until when the upload waits.
func (s *Handler) tell(h http.Header, u *Upload) {
	if !u.Done {
		h.Set("Upload-Expires", u.Expires.UTC().Format(http.TimeFormat))
	}
}

// draftOf reads the headers of a creation.
func draftOf(h http.Header) (*Draft, error) {
	if h.Get("Upload-Defer-Length") != "" || h.Get("Upload-Concat") != "" {
		return nil, stepwell.Invalid("say Upload-Length, and send the file in one upload", "uploads of unknown length and in parallel parts are not supported")
	}
	size, err := number(h, "Upload-Length")
	if err != nil {
		return nil, err
	}
	d := &Draft{Bytes: size, Metadata: strings.Join(h.Values("Upload-Metadata"), ",")}
	if len(d.Metadata) > maxMeta {
		return nil, stepwell.Invalid("", "Upload-Metadata is longer than %d bytes", maxMeta)
	}
	for pair := range strings.SplitSeq(d.Metadata, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(pair), " ")
		text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value))
		if err != nil {
			return nil, stepwell.Invalid("write it like: filename bGVzc29uLm1wMw==,filetype YXVkaW8vbXBlZw==", "Upload-Metadata: the value of %q is not in base64", stepwell.Clip(key, 40))
		}
		switch key {
		case "filename", "name":
			d.Name = string(text)
		case "filetype", "type":
			d.Type = string(text)
		}
	}
	return d, nil
}

// number reads a header that is a whole number from 0.
func number(h http.Header, name string) (int64, error) {
	n, err := strconv.ParseInt(h.Get(name), 10, 64)
	if err != nil || n < 0 || len(h.Values(name)) != 1 {
		return 0, stepwell.Invalid("a whole number from 0", "%s: %q is not a number of bytes", name, stepwell.Clip(h.Get(name), 40))
	}
	return n, nil
}

// checksumOf reads Upload-Checksum.
func checksumOf(h http.Header) (*Checksum, error) {
	text := h.Get("Upload-Checksum")
	if text == "" {
		return nil, nil
	}
	algorithm, encoded, _ := strings.Cut(text, " ")
	makes := map[string]func() hash.Hash{"sha1": sha1.New, "sha256": sha256.New}[algorithm]
	want, err := base64.StdEncoding.DecodeString(encoded)
	if makes == nil || err != nil {
		return nil, stepwell.Invalid("one of "+checksums+", and the sum in base64", "Upload-Checksum: %q is not understood", stepwell.Clip(text, 100))
	}
	return &Checksum{makes(), want}, nil
}

// body is a request's body whose bytes have to come in time.
type body struct {
	io.Reader
	control *http.ResponseController
	begun   time.Time
	read    int64
	stopped chan struct{}
}

func bodyOf(w http.ResponseWriter, r *http.Request) *body {
	return &body{Reader: r.Body, control: http.NewResponseController(w), begun: time.Now(), stopped: make(chan struct{}, 1)}
}

func (b *body) Read(p []byte) (int, error) {
	late := time.Now().Add(bodyPatience)
	if bound := b.begun.Add(bodyPatience + time.Duration(b.read)*time.Second/bodyRate); bound.Before(late) {
		late = bound
	}
	_ = b.control.SetReadDeadline(late) // a test's recorder has none
	select {
	case <-b.stopped: // after the deadline was set, which would undo it
		b.stopped <- struct{}{}
		return 0, os.ErrDeadlineExceeded
	default:
	}
	n, err := b.Reader.Read(p)
	b.read += int64(n)
	return n, err
}

// interrupt ends the wait for bytes: the client has come again, or another one.
func (b *body) interrupt() {
	select {
	case b.stopped <- struct{}{}:
	default:
	}
	_ = b.control.SetReadDeadline(time.Unix(1, 0))
}

// broken says what became of a body that did not come whole.
func broken(err error) error {
	switch {
	case err == nil || stepwell.CodeOf(err) != stepwell.CodeInternal:
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse(http.StatusRequestTimeout, stepwell.CodeTimeout, "ask for the offset (HEAD) and continue there", "the bytes did not come in time")
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe):
		return stepwell.Invalid("ask for the offset (HEAD) and continue there", "the body was cut off")
	}
	return err
}

// parseType is the media type of a header without its parameters.
func parseType(h http.Header) (t string, params map[string]string) {
	t, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return "", nil
	}
	return t, params
}
