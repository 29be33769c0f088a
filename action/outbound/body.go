package outbound

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// Body is the body of a request. It can be opened again for a redirect or another attempt, and its
// length is known before. The zero value is no body.
type Body struct {
	Open        func() (io.ReadCloser, error)
	Size        int64
	ContentType string // for a request that names none
	// Name stands for the content where it is too large to look at (record and replay). Defaults to
	// the content.
	Name string
}

// Text is a body in memory.
func Text(content, contentType string) Body {
	return Body{Size: int64(len(content)), ContentType: contentType,
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }}
}

// Form is an HTML form without files.
func Form(values url.Values) Body { return Text(values.Encode(), "application/x-www-form-urlencoded") }

// File is the content of a file, which is read as it is sent. It must not change meanwhile: an exchange
// whose file did fails with KindInvalid.
func File(path, contentType string) (Body, error) {
	f, err := statFile(path)
	if err != nil {
		return Body{}, err
	}
	return Body{Size: f.size, ContentType: contentType, Open: f.open, Name: fmt.Sprintf("file %s %d", f.name, f.size)}, nil
}

// errChanged is a file that has changed since the request was made.
var errChanged = errors.New("the file changed while it was sent")

// sourceFile is a file as it was when the request was made.
type sourceFile struct {
	path, name string
	size       int64
	changed    time.Time
}

func statFile(path string) (sourceFile, error) {
	info, err := os.Stat(path)
	if err != nil {
		code := stepwell.CodeInvalid
		if errors.Is(err, fs.ErrNotExist) {
			code = stepwell.CodeNotFound
		}
		return sourceFile{}, &stepwell.Error{Code: code, Message: "the file to send", Err: err}
	}
	if !info.Mode().IsRegular() {
		return sourceFile{}, &stepwell.Error{Code: stepwell.CodeInvalid, Message: path + " is not a regular file"}
	}
	return sourceFile{path, info.Name(), info.Size(), info.ModTime()}, nil
}

func (s sourceFile) open() (io.ReadCloser, error) {
	f, err := os.Open(s.path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	if info.Size() != s.size || !info.ModTime().Equal(s.changed) {
		f.Close()
		return nil, errChanged
	}
	return &exactly{f, s.size}, nil
}

// exactly reads as many bytes as were announced and no more.
type exactly struct {
	*os.File
	left int64
}

// Read implements io.Reader.
func (e *exactly) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.File.Read(p[:min(int64(len(p)), e.left)])
	e.left -= int64(n)
	if err == io.EOF && e.left > 0 { //nolint:errorlint // bare
		return n, errChanged
	}
	return n, err
}

// WriteTo hides that of os.File, which would not count.
func (e *exactly) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{e})
}
