package upload

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/project"
	"github.com/stepwell/stepwell/store"
)

// Place says where a file is that becomes the media of a lesson: one of Path and URL.
type Place struct {
	Path string `json:"path,omitempty" maxLength:"4096" doc:"A file of the server's machine, in a folder of files.allow."`
	URL  string `json:"url,omitempty" maxLength:"4096" doc:"A file behind an http or https address outside the server's network."`
	Name string `json:"name,omitempty" maxLength:"500" doc:"The name of the file. Defaults to that of path or url."`
	Type string `json:"type,omitempty" maxLength:"200" doc:"Its media type. Defaults to what its source or its name says."`
}

// maxPlace bounds the JSON of a Place.
const maxPlace = 64 << 10

// Receive answers a request that brings or names the whole file: multipart/form-data, whose first part with a file name is it,
// or a Place in JSON. done answers when the lesson has the file.
func (s *Handler) Receive(w http.ResponseWriter, r *http.Request, lesson string, done func(*project.Lesson)) {
	one, err := s.receive(w, r, lesson)
	if err != nil {
		s.Fail(w, r, broken(err))
		return
	}
	done(one)
}

func (s *Handler) receive(w http.ResponseWriter, r *http.Request, lesson string) (*project.Lesson, error) {
	ctx, actor, from := r.Context(), actorOf(r.Context()), bodyOf(w, r)
	switch t, params := parseType(r.Header); t {
	case "multipart/form-data":
		return s.fromForm(ctx, lesson, multipart.NewReader(from, params["boundary"]), actor)
	case "application/json":
		raw, err := io.ReadAll(io.LimitReader(from, maxPlace+1))
		if err != nil {
			return nil, err
		}
		var p Place
		if err := json.Unmarshal(raw, &p); err != nil || len(raw) > maxPlace || (p.Path == "") == (p.URL == "") {
			return nil, stepwell.Invalid(`{"path": "/srv/lessons/1.mp3"} or {"url": "https://example.org/1.mp3"}`, "the body names no file")
		}
		return s.From(ctx, lesson, &p, actor)
	}
	return nil, refuse(http.StatusUnsupportedMediaType, stepwell.CodeInvalid, "multipart/form-data with a file, JSON with path or url, or tus (Tus-Resumable: "+version+")",
		"the file's way is not understood")
}

// fromForm takes the first file of a form.
func (s *Store) fromForm(ctx context.Context, lesson string, form *multipart.Reader, actor string) (*project.Lesson, error) {
	const most = 20
	for range most {
		part, err := form.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, stepwell.Invalid("", "the form cannot be read: %s", stepwell.Clip(err.Error(), 200))
		}
		if part.FileName() != "" {
			return s.whole(ctx, &Draft{Lesson: lesson, Name: part.FileName(), Type: part.Header.Get("Content-Type"), Bytes: s.o.MaxBytes}, part, actor)
		}
	}
	return nil, stepwell.Invalid("send the file as a part with a file name: curl -F file=@lesson.mp3", "the form has no file")
}

// From makes a file of this machine, or one behind a URL, the media of a lesson. CodeNotFound, CodeInvalid; CodeDenied for a path
// that must not be read and an address inside the network; CodeLimit for a file that is too large.
func (s *Store) From(ctx context.Context, lesson string, p *Place, actor string) (*project.Lesson, error) {
	if _, err := s.o.Lessons.Get(ctx, lesson); err != nil { // before anything is asked for
		return nil, err
	}
	if p.Path != "" {
		return s.fromPath(ctx, lesson, p, actor)
	}
	return s.fromURL(ctx, lesson, p, actor)
}

func (s *Store) fromPath(ctx context.Context, lesson string, p *Place, actor string) (*project.Lesson, error) {
	if err := s.o.Admit(p.Path); err != nil {
		return nil, err
	}
	missing := &stepwell.Error{Code: stepwell.CodeNotFound, Message: "there is no file " + stepwell.Clip(p.Path, 200)}
	before, err := os.Stat(p.Path)
	if err != nil || !before.Mode().IsRegular() { // a pipe would wait
		return nil, missing
	}
	file, err := os.Open(p.Path)
	if err != nil {
		return nil, missing
	}
	defer file.Close() //nolint:errcheck // only read
	info, err := file.Stat()
	if err != nil || !os.SameFile(before, info) {
		return nil, missing
	}
	if err := s.o.Admit(p.Path); err != nil { // again, in case a link has been turned round: what is open was admitted
		return nil, err
	}
	if now, err := os.Stat(p.Path); err != nil || !os.SameFile(now, info) {
		return nil, missing
	}
	return s.whole(ctx, &Draft{Lesson: lesson, Name: or(p.Name, path.Base(p.Path)), Type: p.Type, Bytes: info.Size()}, file, actor)
}

// fetchTimeouts are those of a file behind a URL.
var fetchTimeouts = outbound.Timeouts{Connect: 10 * time.Second, TLS: 10 * time.Second, FirstByte: time.Minute, Idle: time.Minute, Total: 6 * time.Hour}

func (s *Store) fromURL(ctx context.Context, lesson string, p *Place, actor string) (*project.Lesson, error) {
	if s.o.Fetch == nil {
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "files cannot be fetched here", Hint: "upload the file"}
	}
	res, err := s.o.Fetch.Do(ctx, &outbound.Request{Method: http.MethodGet, URL: p.URL, Redirects: 5, MaxBytes: s.o.MaxBytes + 1, Timeouts: fetchTimeouts})
	if err != nil {
		return nil, failure(err)
	}
	defer res.Close() //nolint:errcheck // the body was read, or is not wanted
	if res.Status != http.StatusOK {
		return nil, failure(res.StatusFailure(nil))
	}
	name := p.Name
	if _, params, err := mime.ParseMediaType(res.Header.Get("Content-Disposition")); name == "" && err == nil {
		name = params["filename"]
	}
	if u, err := url.Parse(p.URL); name == "" && err == nil {
		name = path.Base(u.Path)
	}
	one, err := s.whole(ctx, &Draft{Lesson: lesson, Name: name, Type: or(p.Type, res.Header.Get("Content-Type")), Bytes: s.o.MaxBytes}, res.Body, actor)
	return one, failure(err)
}

// failure gives a failed exchange its code: it is the answer of another server.
func failure(err error) error {
	f, ok := errors.AsType[*outbound.Failure](err)
	if !ok {
		return err
	}
	switch f.Kind {
	case outbound.KindBlocked:
		return &stepwell.Error{Code: stepwell.CodeDenied, Message: f.Err.Message, Hint: f.Err.Hint}
	case outbound.KindInvalid:
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: f.Err.Message, Hint: f.Err.Hint}
	}
	return &stepwell.Error{Code: stepwell.CodeFailed, Message: "the file cannot be fetched: " + f.Err.Message, Hint: f.Err.Hint}
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// whole stores a file whose size nobody has to know: at most d.Bytes. One that breaks off leaves nothing.
func (s *Store) whole(ctx context.Context, d *Draft, from io.Reader, actor string) (one *project.Lesson, err error) {
	u, err := s.Create(ctx, d, actor)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			defer cancel()
			if left := s.drop(within, u.Lesson+"/"+u.ID, store.AnyRevision); left != nil {
				err = errors.Join(err, left)
			}
		}
	}()
	if u.Bytes > 0 {
		if err = s.appendWhole(ctx, u, from); err != nil {
			return nil, err
		}
	}
	return s.o.Lessons.Get(ctx, d.Lesson)
}
