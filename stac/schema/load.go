package schema

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/stream/durable"
)

const (
	maxBytes = 4 << 20 // of one schema
	attempts = 3       // of a fetch
	pause    = 500 * time.Millisecond
	maxPause = 5 * time.Second
)

// loader finds the documents of one schema.
type loader struct {
	ctx   context.Context // of the one Load that it is made for: the library's interface has none
	store *Store
	loads int
	err   error // the first failure
}

// Load implements jsonschema.URLLoader.
func (l *loader) Load(uri string) (any, error) {
	doc, err := l.load(Normal(uri))
	if err != nil && l.err == nil {
		l.err = err
	}
	return doc, err
}

func (l *loader) load(uri string) (any, error) {
	s := l.store
	if l.loads++; l.loads > maxRefs {
		return nil, unavailable(uri, fmt.Sprintf("one schema refers to more than %d others", maxRefs), nil)
	}
	s.mu.Lock()
	doc, ok := s.docs[uri]
	s.mu.Unlock()
	if ok {
		return doc, nil
	}
	text, err := s.find(l.ctx, uri)
	if err != nil {
		return nil, err
	}
	doc, err = jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, unavailable(uri, "it is not JSON", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.docs) >= maxDocuments { // compiled schemas do not need them any more
		clear(s.docs)
	}
	s.docs[uri] = doc
	return doc, nil
}

// Check validates the folder and the map: a map to a missing target would disable validation. Errors are CodeInvalid.
func (s *Store) Check() error {
	for _, from := range slices.Sorted(maps.Keys(s.o.Map)) {
		if err := checkTarget(from, s.o.Map[from]); err != nil {
			return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("schema map: %q: %q", from, s.o.Map[from]), Err: err,
				Hint: `map a URI to a file or URL, and a pattern that ends in * to a folder: {"https://example.org/*": "schemas/"}`}
		}
	}
	if s.o.Dir == "" {
		return nil
	}
	info, err := os.Stat(s.o.Dir)
	if err == nil && !info.IsDir() {
		err = errors.New("is not a folder")
	}
	if err == nil {
		_, err = s.indexed("")
	}
	if err != nil {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "schema folder " + s.o.Dir, Err: err,
			Hint: "the folder holds schemas as <host>/<path>, and may have an index.json {URI: path}"}
	}
	return nil
}

// checkTarget looks whether the file or folder of a map's entry is there.
func checkTarget(from, to string) error {
	path, ok := filePath(to)
	if !ok {
		return nil
	}
	dir, many := strings.CutSuffix(path, "*")
	many = many || strings.HasSuffix(from, "*") && strings.HasSuffix(path, "/")
	if many && !strings.HasSuffix(dir, "/") {
		dir = filepath.Dir(dir) // the * continues a name
	}
	info, err := os.Stat(cmp.Or(dir, "."))
	switch {
	case err != nil:
		return err
	case many && !info.IsDir():
		return errors.New("is not a folder")
	case !many && info.IsDir():
		return errors.New("is a folder, and nothing says which of its files: end it with /")
	}
	return nil
}

// find gets the text of a schema: mapped, from the folder, the cache, the network.
func (s *Store) find(ctx context.Context, uri string) ([]byte, error) {
	target := s.mapped(uri)
	if path, ok := filePath(target); ok {
		if target == uri {
			return nil, unavailable(uri, "it is not a URL, and files are read only where a map says so", nil)
		}
		return readFile(uri, path)
	}
	u, err := url.Parse(target)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		return nil, unavailable(uri, "it is not a URL", err)
	}
	name, ok := place(u)
	if ok {
		if text, err := s.onDisk(uri, target, name); text != nil || err != nil {
			return text, err
		}
	}
	if s.o.Mode == Offline || s.o.HTTP == nil {
		return nil, unavailable(uri, "it is not in the folder or the cache, and the network is not used", nil)
	}
	text, err := s.fetch(ctx, target)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, unavailable(uri, "it cannot be fetched", err)
	}
	if ok && s.o.Cache != "" {
		if err := durable.WriteFile(filepath.Join(s.o.Cache, name), func(f *os.File) error { _, err := f.Write(text); return err }); err != nil {
			return nil, unavailable(uri, "the cache cannot be written", err)
		}
	}
	return text, nil
}

// filePath is the path that a target is, if it is not a URL. One letter before a colon is a drive.
func filePath(target string) (string, bool) {
	if path, ok := strings.CutPrefix(target, "file://"); ok {
		return path, true
	}
	u, err := url.Parse(target)
	return target, err == nil && len(u.Scheme) < 2
}

// onDisk looks into the folder and the cache; nil when neither has the schema.
func (s *Store) onDisk(uri, target, name string) ([]byte, error) {
	if s.o.Dir != "" {
		file, err := s.indexed(target)
		if err != nil {
			return nil, unavailable(uri, "the folder's index.json", err)
		}
		if file == "" {
			file = name
		}
		if text, err := readFile(uri, filepath.Join(s.o.Dir, file)); !errors.Is(err, fs.ErrNotExist) {
			return text, err
		}
	}
	if s.o.Cache == "" || s.o.Mode == Refresh {
		return nil, nil
	}
	text, err := readFile(uri, filepath.Join(s.o.Cache, name))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !json.Valid(text) { // the power went when it was written
		return nil, nil
	}
	return text, err
}

// mapped is where Options.Map says that the schema is, else uri.
func (s *Store) mapped(uri string) string {
	target, longest := uri, -1
	for from, to := range s.o.Map {
		tail, ok := match(Normal(from), uri)
		if !ok || len(from) < longest || len(from) == longest && to > target {
			continue
		}
		longest, target = len(from), to
		if rest, star := strings.CutSuffix(to, "*"); star {
			target = rest + tail
		} else if strings.HasSuffix(from, "*") && strings.HasSuffix(to, "/") { // a folder or a base URL
			target = to + tail
		}
	}
	return target
}

// indexed is the file that index.json names for a URI, "" when it does not.
func (s *Store) indexed(uri string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.index == nil {
		index := map[string]string{}
		text, err := readFile("index.json", filepath.Join(s.o.Dir, "index.json"))
		if err == nil {
			err = json.Unmarshal(text, &index)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		s.index = make(map[string]string, len(index))
		for uri, file := range index {
			if !filepath.IsLocal(file) {
				s.index = nil
				return "", fmt.Errorf("%q is outside of the folder", file)
			}
			s.index[Normal(uri)] = file
		}
	}
	return s.index[uri], nil
}

// place is where a URL stands below a folder, and false when it cannot.
func place(u *url.URL) (string, bool) {
	name := u.Host + u.Path
	if u.RawQuery != "" {
		name += "?" + u.RawQuery
	}
	name = filepath.FromSlash(strings.ReplaceAll(name, ":", "_"))
	return name, filepath.IsLocal(name) && filepath.Clean(name) == name && !strings.ContainsRune(name, 0)
}

func readFile(uri, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, unavailable(uri, "its file", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil && len(text) > maxBytes {
		err = errors.New("more than 4 MiB")
	}
	if err != nil {
		return nil, unavailable(uri, "its file", err)
	}
	return text, nil
}

// fetch gets a schema from the network, more than once when that may help.
func (s *Store) fetch(ctx context.Context, target string) ([]byte, error) {
	for attempt := 1; ; attempt++ {
		text, err := s.request(ctx, target)
		if err == nil || attempt == attempts || ctx.Err() != nil {
			return text, err
		}
		wait := pause << (attempt - 1)
		if f, ok := errors.AsType[*outbound.Failure](err); ok {
			if (outbound.Policy{}).Judge(f) == outbound.Permanent || f.Told && f.After > maxPause {
				return nil, err
			}
			if f.Told {
				wait = f.After
			}
		}
		if err := action.Pause(ctx, wait); err != nil {
			return nil, err
		}
	}
}

func (s *Store) request(ctx context.Context, target string) ([]byte, error) {
	res, err := s.o.HTTP.Do(ctx, &outbound.Request{URL: target, Redirects: 5, MaxBytes: maxBytes,
		Header:   http.Header{"Accept": {"application/schema+json, application/json;q=0.9, */*;q=0.1"}},
		Timeouts: outbound.Timeouts{Connect: 10 * time.Second, Total: 30 * time.Second}})
	if err != nil {
		return nil, err
	}
	defer res.Close()
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return nil, err
	case res.Status != http.StatusOK:
		return nil, res.StatusFailure(text)
	case !json.Valid(text):
		return nil, errors.New("the answer is not JSON")
	}
	return text, nil
}
