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
	"github.com/stepwell/stepwell/spec"
)

// Shape says how the rows of a file are written down. The zero value finds out by itself: by the file's
// name, then by its content. Configs of modules that read files embed it.
type Shape struct {
	Format    string   `json:"format" enum:"auto,json,geojson,ndjson,csv,tsv,parquet" default:"auto" doc:"Format of the files; \x60auto\x60 goes by name, then by content."`
	At        string   `json:"at" doc:"Path to the list of rows in a JSON document, like \x60data.items\x60."`
	Delimiter string   `json:"delimiter" doc:"Delimiter of CSV, a comma when absent."`
	Quote     string   `json:"quote" doc:"Quote of CSV, or \x60none\x60; \x60\"\x60 when absent."`
	Decimal   string   `json:"decimal"` // DecimalField
	Encoding  string   `json:"encoding" doc:"Encoding: utf-8, utf-16, utf-16le, utf-16be, latin-1 or windows-1252; utf-8, or what a byte order mark says, when absent."`
	Header    *bool    `json:"header" default:"true" doc:"Whether the first row of CSV names the columns; without, they are c1, c2 and so on."`
	Text      []string `json:"text_columns" doc:"Columns of CSV that stay text whatever they look like."`
	AllText   bool     `json:"all_text" doc:"Whether all columns of CSV stay text."`
	MaxItem   int64    `json:"max_item_bytes" minimum:"2" maximum:"1073741824" doc:"Size above which a row is a failure, 64 MiB when absent."`
}

// DecimalField is the field `decimal` of a Shape, whose values no tag can list.
var DecimalField = spec.Field{Name: "decimal", Type: spec.String, Enum: []string{".", ","}, Doc: "Decimal separator of numbers in CSV, `.` when absent."}

func (s Shape) noHeader() bool { return s.Header != nil && !*s.Header }

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

// formatOf returns a format by a file's name, formatAuto when the name is not enough.
func formatOf(name string) string {
	name = strings.ToLower(withoutQuery(name))
	if c := CompressionOf(name); c != "" {
		name = name[:strings.LastIndexByte(name, '.')]
	}
	if f, ok := suffixes[path.Ext(name)]; ok {
		return f
	}
	return formatAuto
}

// Check returns the errors of the shape.
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

// sniff determines the format from the beginning of the text, where the name leaves it open: .json is one document or
// one object per line.
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
