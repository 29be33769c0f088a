package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
)

// File is a file to be uploaded. Its content must not change meanwhile.
type File struct {
	Name     string
	Type     string // "": that of the name
	Bytes    int64
	Modified time.Time
	Content  io.ReaderAt
}

// metadata is what tells the server of the file, and the file from another one of its name.
func (f *File) metadata() string {
	list := []string{"filename " + base64.StdEncoding.EncodeToString([]byte(f.Name)), "modified " + base64.StdEncoding.EncodeToString([]byte(f.Modified.UTC().Format(time.RFC3339Nano)))}
	if f.Type != "" {
		list = append(list, "filetype "+base64.StdEncoding.EncodeToString([]byte(f.Type)))
	}
	return strings.Join(list, ",")
}

// The pauses of an upload that does not get on, and how many of them there are before it gives up.
const (
	uploadPause  = 500 * time.Millisecond
	uploadPauses = 12 // about two minutes
	longestPause = 20 * time.Second
)

// Upload makes a file the media of a lesson. It goes on where an earlier call for the same file has ended, outlives a server that
// is away for a minute or two, and compares checksums in the end. progress is told how many bytes are sent; nil: nobody.
func (c *Client) Upload(ctx context.Context, lesson string, f *File, progress func(sent int64)) (*api.Lesson, error) {
	if progress == nil {
		progress = func(int64) {}
	}
	u := &sending{c: c, f: f, progress: progress}
	if err := u.find(ctx, lesson); err != nil {
		return nil, err
	}
	pause, pauses := uploadPause, 0
	for u.offset < f.Bytes {
		before := u.offset
		err := u.send(ctx)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if u.offset > before {
			pause, pauses = uploadPause, 0
		}
		if pauses++; !passes(err) || pauses > uploadPauses {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
		if pause = min(2*pause, longestPause); u.ask(ctx) == nil {
			continue
		}
	}
	return u.compare(ctx, lesson)
}

// passes reports whether an upload may go on after an error.
func passes(err error) bool {
	switch stepwell.CodeOf(err) {
	case stepwell.CodeUnavailable, stepwell.CodeTimeout, stepwell.CodeConflict, stepwell.CodeLimit, stepwell.CodeCancelled:
		return !strings.Contains(err.Error(), "larger than")
	}
	return false
}

// sending is an upload under way.
type sending struct {
	c        *Client
	f        *File
	path     string
	offset   int64
	progress func(int64)
}

// find finds an earlier upload of the file, or begins one.
func (u *sending) find(ctx context.Context, lesson string) error {
	list, err := get[api.UploadList](ctx, u.c, at("lessons", lesson, "uploads"), nil)
	if err != nil {
		return err
	}
	for i := range list.Uploads {
		if old := &list.Uploads[i]; old.Bytes == u.f.Bytes && old.Metadata == u.f.metadata() {
			u.path = at("uploads", old.ID)
			return u.ask(ctx)
		}
	}
	h, err := u.tus(ctx, http.MethodPost, at("lessons", lesson, "media"), nil, "Upload-Length", strconv.FormatInt(u.f.Bytes, 10), "Upload-Metadata", u.f.metadata())
	u.path = h.Get("Location")
	return err
}

// tus sends a request of the protocol and gives the headers of its answer.
func (u *sending) tus(ctx context.Context, method, path string, body io.Reader, headers ...string) (http.Header, error) {
	h := http.Header{"Tus-Resumable": {"1.0.0"}}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	var content any
	if body != nil {
		content = body
	}
	res, err := u.c.open(ctx, method, path, nil, h, content)
	if err != nil {
		return nil, err
	}
	return res.Header, res.Body.Close()
}

// ask asks where the upload is.
func (u *sending) ask(ctx context.Context) error {
	h, err := u.tus(ctx, http.MethodHead, u.path, nil)
	if err == nil {
		u.offset, err = strconv.ParseInt(h.Get("Upload-Offset"), 10, 64)
		u.progress(u.offset)
	}
	return err
}

// send sends the rest of the file.
func (u *sending) send(ctx context.Context) error {
	body := io.NewSectionReader(u.f.Content, u.offset, u.f.Bytes-u.offset)
	h, err := u.tus(ctx, http.MethodPatch, u.path, &counted{Reader: body, sent: u.offset, progress: u.progress}, "Upload-Offset", strconv.FormatInt(u.offset, 10),
		"Content-Type", "application/offset+octet-stream", "Content-Length", strconv.FormatInt(body.Size(), 10))
	if err != nil {
		return err
	}
	u.offset, err = strconv.ParseInt(h.Get("Upload-Offset"), 10, 64)
	return err
}

// compare checks that the lesson has what the file has.
func (u *sending) compare(ctx context.Context, lesson string) (*api.Lesson, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(u.f.Content, 0, u.f.Bytes)); err != nil {
		return nil, err
	}
	one, err := get[api.Lesson](ctx, u.c, at("lessons", lesson), nil)
	if err != nil {
		return nil, err
	}
	if one.Media == nil || one.Media.SHA256 != hex.EncodeToString(sum.Sum(nil)) {
		return nil, &stepwell.Error{Code: stepwell.CodeFailed, Message: "what the lesson has differs from the file: it was changed while it was uploaded, or another file has come after it", Hint: "upload it again"}
	}
	return one, nil
}

// counted tells how far a body is.
type counted struct {
	io.Reader
	sent     int64
	progress func(int64)
}

func (r *counted) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.sent += int64(n)
	r.progress(r.sent)
	return n, err
}

// SetMedia has the server take a file of its own machine, or one behind a URL, as the media of a lesson.
func (c *Client) SetMedia(ctx context.Context, lesson string, from api.MediaPlace) (*api.Lesson, error) {
	return send[api.Lesson](ctx, c, http.MethodPost, at("lessons", lesson, "media"), from)
}

// Media opens the media of a lesson, which its caller closes.
func (c *Client) Media(ctx context.Context, lesson string) (io.ReadCloser, error) {
	res, err := c.open(ctx, http.MethodGet, at("lessons", lesson, "media"), nil, http.Header{"Accept": {"*/*"}}, nil)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// DeleteMedia removes the media of a lesson.
func (c *Client) DeleteMedia(ctx context.Context, lesson string) error {
	return c.Call(ctx, http.MethodDelete, at("lessons", lesson, "media"), nil, nil, nil)
}

// ProjectTags are the tags of projects.
func (c *Client) ProjectTags(ctx context.Context) (*api.ProjectTagList, error) {
	return get[api.ProjectTagList](ctx, c, at("project-tags"), nil)
}

// headless is the error of an answer that has no body.
func headless(res *http.Response) error {
	code := map[int]stepwell.Code{http.StatusNotFound: stepwell.CodeNotFound, http.StatusConflict: stepwell.CodeConflict, http.StatusLocked: stepwell.CodeConflict,
		http.StatusUnauthorized: stepwell.CodeUnauthenticated, http.StatusForbidden: stepwell.CodeForbidden}[res.StatusCode]
	return &stepwell.Error{Code: cmp.Or(code, stepwell.CodeUnavailable), Message: "the server answers " + res.Status + " for " + (&url.URL{Path: res.Request.URL.Path}).String()}
}
