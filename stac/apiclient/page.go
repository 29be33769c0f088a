package apiclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// Feature is one item of a page: its text as it came, and its natural key.
type Feature struct {
	Text           []byte
	ID, Collection string
}

// Page is one page of a search, or of a list of collections.
type Page struct {
	Number     int // from 1
	Features   []Feature
	Duplicates int    // left out, because they were on a page before
	Matched    int64  // the server's total, -1 when it gives none: for progress only
	Warning    string // something to tell the user
	URL        string // where it came from, without secrets
}

// document is a page as it is read.
type document struct {
	features []Feature
	found    bool // the list was there
	links    []Link
	matched  int64
}

// lenient leaves errors of an item to the check of the items.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// readPage reads the list named key of a response, feature by feature. A page is taken as a whole or not at all, so
// that an interrupted one can be fetched again without items twice.
func readPage(in io.Reader, key string) (*document, error) {
	dec := jsontext.NewDecoder(in, lenient...)
	d := &document{matched: -1}
	if dec.PeekKind() != '{' {
		if _, err := dec.ReadToken(); err != nil {
			return nil, err
		}
		return nil, errors.New("the page is not an object")
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, early(err)
		}
		if err := d.member(dec, name.String(), key); err != nil {
			return nil, early(err)
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, early(err)
	}
	return d, nil
}

// early makes the end of the input within a document an unexpected one.
func early(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (d *document) member(dec *jsontext.Decoder, name, key string) error {
	switch name {
	case key:
		return d.list(dec)
	case "links":
		raw, err := dec.ReadValue()
		d.links = parseLinks(raw)
		return err
	case "numberMatched", "context":
		raw, err := dec.ReadValue()
		if err != nil {
			return err
		}
		d.count(raw)
		return nil
	}
	return dec.SkipValue()
}

// count reads numberMatched, or the matched of the old context extension.
func (d *document) count(raw []byte) {
	var number float64
	var old struct {
		Matched *float64 `json:"matched"`
	}
	if json.Unmarshal(raw, &number) == nil {
		d.matched = int64(number)
	} else if json.Unmarshal(raw, &old) == nil && old.Matched != nil {
		d.matched = int64(*old.Matched)
	}
}

func (d *document) list(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '[' {
		d.found = dec.PeekKind() == 'n'
		return dec.SkipValue()
	}
	d.found = true
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != ']' {
		raw, err := dec.ReadValue()
		if err != nil {
			return err
		}
		d.features = append(d.features, feature(bytes.Clone(raw)))
	}
	_, err := dec.ReadToken()
	return err
}

// feature looks for the key of an item without decoding the rest.
func feature(text []byte) Feature {
	f := Feature{Text: text}
	s := scan{text: text}
	if !s.skip('{') {
		return f
	}
	for f.ID == "" || f.Collection == "" {
		name, ok := s.quoted()
		if !ok || !s.skip(':') {
			return f
		}
		value, ok := s.value()
		if !ok {
			return f
		}
		switch string(name) {
		case `"id"`:
			f.ID = plain(value)
		case `"collection"`:
			f.Collection = plain(value)
		}
		if !s.skip(',') {
			return f
		}
	}
	return f
}

// plain is a text's content, or a number as it is written.
func plain(value []byte) string {
	switch jsontext.Value(value).Kind() {
	case '"':
		text, err := jsontext.AppendUnquote(nil, value)
		if err == nil {
			return string(text)
		}
	case '0':
		return string(value)
	}
	return ""
}

// scan goes over a text that should be JSON; where it is not, it stops.
type scan struct {
	text []byte
	at   int
}

// skip goes behind white space and c, and reports whether c was there.
func (s *scan) skip(c byte) bool {
	for s.at < len(s.text) && s.text[s.at] <= ' ' {
		s.at++
	}
	if s.at == len(s.text) || s.text[s.at] != c {
		return false
	}
	s.at++
	return true
}

// quoted takes a text, with its quotes.
func (s *scan) quoted() ([]byte, bool) {
	if !s.skip('"') {
		return nil, false
	}
	start := s.at - 1
	for s.at < len(s.text) {
		i := bytes.IndexByte(s.text[s.at:], '"')
		if i < 0 {
			break
		}
		end, slashes := s.at+i, 0
		for s.text[end-1-slashes] == '\\' {
			slashes++
		}
		if s.at = end + 1; slashes%2 == 0 {
			return s.text[start:s.at], true
		}
	}
	return nil, false
}

// value takes any value.
func (s *scan) value() ([]byte, bool) {
	for s.at < len(s.text) && s.text[s.at] <= ' ' {
		s.at++
	}
	start := s.at
	for depth := 0; s.at < len(s.text); {
		switch s.text[s.at] {
		case '"':
			if _, ok := s.quoted(); !ok {
				return nil, false
			}
			if depth == 0 {
				return s.text[start:s.at], true
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return bytes.TrimSpace(s.text[start:s.at]), s.at > start
			}
			if depth--; depth == 0 {
				s.at++
				return s.text[start:s.at], true
			}
		case ',':
			if depth == 0 {
				return bytes.TrimSpace(s.text[start:s.at]), s.at > start
			}
		}
		s.at++
	}
	return nil, false
}

// Key finds id and collection of an item in its text, "" where there is none.
func Key(text []byte) (id, collection string) {
	f := feature(text)
	return f.ID, f.Collection
}
