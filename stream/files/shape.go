package files

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

// Shape says how the rows of a file are written down. The zero value finds out by itself: by the file's
// name, then by its content.
type Shape struct {
	Format    string   // auto, json, geojson, ndjson, csv, tsv, parquet. Defaults to auto
	At        string   // path to the list in a JSON document. Defaults to the whole document
	Delimiter string   // of CSV, one ASCII character. Defaults to a comma, of TSV to a tab
	Quote     string   // of CSV, one ASCII character, or none. Defaults to "
	Decimal   string   // the decimal separator of numbers in CSV, . or a comma. Defaults to .
	Encoding  string   // of a text: utf-8, utf-16, utf-16le, utf-16be, latin-1, windows-1252. Defaults to utf-8, or what a byte order mark says
	NoHeader  bool     // CSV without a header: columns are c1, c2, … Defaults to false
	Text      []string // CSV columns whose cells stay text. Defaults to none
	AllText   bool     // all cells stay text. Defaults to false
	MaxItem   int64    // bytes of one row. Defaults to 64 MiB
}

// The formats.
const (
	formatAuto    = "auto"
	formatJSON    = "json"
	formatGeoJSON = "geojson"
	formatNDJSON  = "ndjson"
	formatCSV     = "csv"
	formatTSV     = "tsv"
	formatParquet = "parquet"
)

var formats = []string{formatAuto, formatJSON, formatGeoJSON, formatNDJSON, formatCSV, formatTSV, formatParquet}

var suffixes = map[string]string{
	".json": formatJSON, ".geojson": formatGeoJSON,
	".ndjson": formatNDJSON, ".jsonl": formatNDJSON, ".jsonlines": formatNDJSON, ".geojsonl": formatNDJSON, ".ndgeojson": formatNDJSON,
	".csv": formatCSV, ".tsv": formatTSV, ".tab": formatTSV,
	".parquet": formatParquet, ".geoparquet": formatParquet, ".pq": formatParquet,
}

// formatOf tells a format by a file's name, formatAuto when the name does not say.
func formatOf(name string) string {
	name = strings.ToLower(withoutQuery(name))
	if c := compressionOf(name); c != "" {
		name = name[:strings.LastIndexByte(name, '.')]
	}
	if f, ok := suffixes[path.Ext(name)]; ok {
		return f
	}
	return formatAuto
}

// Check returns what is wrong with the shape.
func (s Shape) Check() error {
	bad := func(format string, args ...any) error {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf(format, args...)}
	}
	oneByte := func(c string) bool { return c == "" || len(c) == 1 && c[0] < 0x80 && c != "\n" && c != "\r" }
	switch {
	case s.Format != "" && !slices.Contains(formats, s.Format):
		return bad("format %q is not known: one of %s", s.Format, strings.Join(formats, ", "))
	case !oneByte(s.Delimiter):
		return bad("the delimiter %q is not one ASCII character", s.Delimiter)
	case s.Quote != quoteNone && !oneByte(s.Quote):
		return bad("the quote %q is neither one ASCII character nor %s", s.Quote, quoteNone)
	case s.Delimiter != "" && s.Delimiter == s.Quote:
		return bad("delimiter and quote are the same character")
	case s.Decimal != "" && s.Decimal != "." && s.Decimal != ",":
		return bad("the decimal separator %q is neither . nor a comma", s.Decimal)
	case s.MaxItem < 0:
		return bad("the largest row is less than 0 bytes")
	}
	if s.At != "" {
		if _, err := item.ParsePath(s.At); err != nil {
			return err
		}
	}
	_, err := decoding(s.Encoding)
	return err
}

// complete fills in the defaults.
func (s Shape) complete(name string) Shape {
	if s.Format == "" || s.Format == formatAuto {
		s.Format = formatOf(name)
	}
	if s.MaxItem == 0 {
		s.MaxItem = 64 << 20
	}
	return s
}

// sniff settles the format by the beginning of the text, where the name did not, or only half: what is
// called .json is one document or one object per line.
func (s Shape) sniff(w *window, asked string) (string, error) {
	if s.Format != formatAuto && (s.Format != formatJSON || asked == formatJSON || s.At != "") {
		return s.Format, nil
	}
	head := w.ahead()
	start := bytes.TrimLeft(head, " \t\r\n")
	switch {
	case len(start) > 0 && start[0] == '{' && s.At == "" && isLines(start):
		return formatNDJSON, nil
	case s.Format == formatJSON, len(start) > 0 && (start[0] == '{' || start[0] == '['):
		return formatJSON, nil
	}
	line, _, _ := bytes.Cut(start, newline)
	switch {
	case bytes.IndexByte(head, 0) >= 0:
	case s.Delimiter != "" || bytes.IndexByte(line, ',') >= 0:
		return formatCSV, nil
	case bytes.IndexByte(line, '\t') >= 0:
		return formatTSV, nil
	}
	return "", &stepwell.Error{Code: stepwell.CodeInvalid, Message: "neither name nor content tell the format", Hint: "write `format:`, one of " + strings.Join(formats[1:], ", ")}
}

// isLines reports whether a text that begins with { is one object per line, of which there are two.
func isLines(text []byte) bool {
	line, rest, ok := bytes.Cut(text, newline)
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return ok && len(rest) > 0 && rest[0] == '{' && jsontext.Value(bytes.TrimSpace(line)).IsValid()
}
