package outbound

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"mime"
	"path/filepath"
	"strings"

	"github.com/stepwell/stepwell"
)

// Part is one part of a multipart form (RFC 7578).
type Part struct {
	Name        string
	Value       string // unless File is given
	File        string // path; read as it is sent
	Filename    string // Defaults to the file's name
	ContentType string // Defaults to the type of the file name's extension
}

// maxParts bounds a form.
const maxParts = 1000

// Multipart is a form with files that are read as they are sent; its length is known before. The seed
// makes the boundary: the same seed and parts give the same bytes, which a record can be found by.
func Multipart(parts []Part, seed string) (Body, error) {
	if len(parts) > maxParts {
		return Body{}, &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("a form of %d parts, more than %d", len(parts), maxParts)}
	}
	files := make([]sourceFile, len(parts))
	sum, name := sha256.New(), sha256.New()
	io.WriteString(sum, seed) //nolint:errcheck // a hash takes everything
	for i, p := range parts {
		if p.Name == "" {
			return Body{}, &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("part %d has no name", i+1)}
		}
		if p.File != "" {
			var err error
			if files[i], err = statFile(p.File); err != nil {
				return Body{}, fmt.Errorf("part %s: %w", p.Name, err)
			}
		}
		for _, h := range []io.Writer{sum, name} {
			fmt.Fprintf(h, "%q %q %q %q %q %d\n", p.Name, p.Value, files[i].name, p.Filename, p.ContentType, files[i].size)
		}
	}
	boundary := "stepwell-" + hex.EncodeToString(sum.Sum(nil)[:20])
	f := &form{parts: parts, files: files, boundary: boundary}
	return Body{Open: f.open, Size: f.size(), ContentType: "multipart/form-data; boundary=" + boundary,
		Name: "form " + hex.EncodeToString(name.Sum(nil))}, nil
}

type form struct {
	parts    []Part
	files    []sourceFile
	boundary string
}

// head is the text before a part's content.
func (f *form) head(i int) string {
	p := f.parts[i]
	var b strings.Builder
	if i > 0 {
		b.WriteString("\r\n")
	}
	fmt.Fprintf(&b, "--%s\r\nContent-Disposition: form-data; name=\"%s\"", f.boundary, quoteName(p.Name))
	kind, filename := p.ContentType, p.Filename
	if p.File != "" {
		if filename == "" {
			filename = filepath.Base(p.File)
		}
		if kind == "" {
			kind = mime.TypeByExtension(filepath.Ext(filename))
		}
		if kind == "" {
			kind = "application/octet-stream"
		}
	}
	if filename != "" {
		fmt.Fprintf(&b, "; filename=\"%s\"", quoteName(filename))
	}
	if kind != "" {
		b.WriteString("\r\nContent-Type: " + strings.NewReplacer("\r", "", "\n", "").Replace(kind))
	}
	b.WriteString("\r\n\r\n")
	return b.String()
}

// quoteName escapes a name as browsers do.
func quoteName(name string) string {
	return strings.NewReplacer(`"`, "%22", "\r", "%0D", "\n", "%0A").Replace(name)
}

func (f *form) tail() string {
	if len(f.parts) == 0 {
		return "--" + f.boundary + "--\r\n"
	}
	return "\r\n--" + f.boundary + "--\r\n"
}

func (f *form) size() int64 {
	n := int64(len(f.tail()))
	for i, p := range f.parts {
		n += int64(len(f.head(i))) + f.files[i].size
		if p.File == "" {
			n += int64(len(p.Value))
		}
	}
	return n
}

func (f *form) open() (io.ReadCloser, error) { return &formReader{form: f}, nil }

// formReader reads a form part by part, with at most one file open.
type formReader struct {
	form *form
	part int
	now  io.Reader // the reader of the current part
	file io.Closer
}

// Read implements io.Reader.
func (r *formReader) Read(p []byte) (int, error) {
	for {
		if r.now == nil {
			if r.part > len(r.form.parts) {
				return 0, io.EOF
			}
			if err := r.next(); err != nil {
				return 0, err
			}
		}
		n, err := r.now.Read(p)
		if err == io.EOF { //nolint:errorlint // bare
			if err := r.Close(); err != nil {
				return n, err
			}
			r.now, err = nil, nil
			if n == 0 {
				continue
			}
		}
		return n, err
	}
}

// next begins the next part, or the end.
func (r *formReader) next() error {
	i := r.part
	r.part++
	if i == len(r.form.parts) {
		r.now = strings.NewReader(r.form.tail())
		return nil
	}
	head := strings.NewReader(r.form.head(i))
	if r.form.parts[i].File == "" {
		r.now = io.MultiReader(head, strings.NewReader(r.form.parts[i].Value))
		return nil
	}
	in, err := r.form.files[i].open()
	if err != nil {
		return err
	}
	r.file = in
	r.now = io.MultiReader(head, in)
	return nil
}

// Close implements io.Closer.
func (r *formReader) Close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}
