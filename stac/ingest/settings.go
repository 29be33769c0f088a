package ingest

import (
	"encoding/json"
	"fmt"
	"math"
	"path"
	"strings"

	"github.com/stepwell/stepwell/stac/api"
	"github.com/stepwell/stepwell/stream"
)

// settings are the config of stac.ingest.
type settings struct {
	connection
	Mode         string          `json:"mode"`
	Source       string          `json:"source"`
	CatalogURL   string          `json:"catalog_url"`
	SourceFile   string          `json:"source_file"`
	SourceType   string          `json:"source_type"`
	Format       string          `json:"format"`
	Collection   string          `json:"collection_id"`
	Collections  []string        `json:"collection_ids"`
	Bbox         []float64       `json:"bbox"`
	Datetime     any             `json:"datetime"`
	Query        json.RawMessage `json:"query"`
	Filter       json.RawMessage `json:"filter"`
	FilterLang   string          `json:"filter_lang"`
	IDs          []any           `json:"ids"`
	Intersects   json.RawMessage `json:"intersects"`
	SortBy       any             `json:"sortby"`
	Fields       any             `json:"fields"`
	Limit        int             `json:"limit"`
	MaxItems     int64           `json:"max_items"`
	SplitAt      int64           `json:"split_at"`
	Verify       bool            `json:"verify_collection"`
	Filters      filters         `json:"filters"`
	AllowEmpty   bool            `json:"allow_empty"`
	MaxItemBytes int64           `json:"max_item_bytes"`

	search api.Search // what the conditions come to

	known []api.Collection // that have been looked at
}

// sameMeaning are the fields that say the same in two vocabularies.
var sameMeaning = [][]string{
	{"source", "catalog_url"}, {"source", "source_file"}, {"collection_id", "collection_ids"},
	{"bbox", "filters.bbox", "filters.spatial"}, {"datetime", "filters.datetime", "filters.temporal"},
	{"ids", "filters.ids"}, {"query", "filters.query"},
}

// checkIngest finds every problem that the Spec cannot tell.
func checkIngest(config map[string]any) []error {
	e := &either{config: config}
	for _, group := range sameMeaning {
		e.one(group...)
	}
	e.one("bbox", "intersects")
	e.one("filters.bbox", "intersects")
	e.one("filters.spatial", "intersects")
	if templated(config) {
		return e.wrong // the rest is checked when the values are known
	}
	var s settings
	if err := decode(config, &s); err != nil {
		return append(e.wrong, err)
	}
	if err := s.conditions(); err != nil {
		e.wrong = append(e.wrong, err)
	}
	if s.Mode == "api" && s.SourceFile != "" {
		e.wrong = append(e.wrong, wrongConfig("source_file is given, but the mode is api", "leave mode out, or give catalog_url"))
	}
	if s.Mode == "file" || s.SourceFile != "" {
		e.wrong = append(e.wrong, s.onlyOfAPIs()...)
	}
	return e.wrong
}

// onlyOfAPIs names the conditions that only a server can apply.
func (s *settings) onlyOfAPIs() (wrong []error) {
	for _, f := range []struct {
		name  string
		given bool
	}{{"query", len(s.search.Query) > 0}, {"filter", len(s.Filter) > 0}, {"intersects", len(s.Intersects) > 0}, {"sortby", s.SortBy != nil}, {"fields", s.Fields != nil}} {
		if f.given {
			wrong = append(wrong, wrongConfig(f.name+" is for APIs, and the source is a file or a static catalog", "use stream.filter or stream.map behind it; bbox, datetime, ids and collection_id work"))
		}
	}
	return wrong
}

// conditions puts both vocabularies together.
func (s *settings) conditions() error {
	q := api.Search{Limit: s.Limit, FilterLang: s.FilterLang}
	switch {
	case len(s.Bbox) > 0:
		q.Bbox = s.Bbox
	case len(s.Filters.Bbox) > 0:
		q.Bbox = s.Filters.Bbox
	default:
		q.Bbox = s.Filters.Spatial
	}
	if err := checkBbox(q.Bbox); err != nil {
		return err
	}
	var err error
	for _, d := range []any{s.Datetime, s.Filters.Datetime, s.Filters.Temporal.value()} {
		if d != nil && q.Datetime == "" {
			if q.Datetime, err = datetime(d); err != nil {
				return err
			}
		}
	}
	q.IDs = texts(append(s.IDs, s.Filters.IDs...))
	if given := len(s.IDs) + len(s.Filters.IDs); len(q.IDs) != given {
		return wrongConfig("an id is neither a text nor a number", "")
	}
	if q.Query = object(s.Query); q.Query == nil {
		q.Query = object(s.Filters.Query)
	}
	q.Filter, q.Intersects = s.Filter, object(s.Intersects)
	if q.SortBy, err = sortBy(s.SortBy); err != nil {
		return err
	}
	if q.Include, q.Exclude, err = fieldsOf(s.Fields); err != nil {
		return err
	}
	if q.Collections = s.Collections; s.Collection != "" {
		q.Collections = []string{s.Collection}
	}
	if s.MaxItems > 0 && int64(q.Limit) > s.MaxItems {
		q.Limit = int(s.MaxItems) // no more than is wanted
	}
	s.search = q
	return nil
}

func object(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" || string(raw) == "{}" {
		return nil
	}
	return raw
}

func (t *temporal) value() any {
	if t == nil || t.Start == "" && t.End == "" {
		return nil
	}
	return map[string]any{"start": t.Start, "end": t.End}
}

func checkBbox(box []float64) error {
	if len(box) == 0 {
		return nil
	}
	n := len(box) / 2
	if len(box) != 4 && len(box) != 6 {
		return wrongConfig(fmt.Sprintf("the bbox has %d numbers", len(box)), "it has four: west, south, east, north; or six")
	}
	if box[1] > box[n+1] || math.Abs(box[1]) > 90 || math.Abs(box[n+1]) > 90 || math.Abs(box[0]) > 180 || math.Abs(box[n]) > 180 {
		return wrongConfig("the bbox is not west, south, east, north in degrees", "west may be greater than east, across the antimeridian")
	}
	return nil
}

// datetime reads a text, a list of two, or {start, end}.
func datetime(v any) (string, error) {
	text := ""
	switch v := v.(type) {
	case string:
		text = v
	case json.Number: // a year
		text = v.String()
	case []any:
		if len(v) != 2 {
			return "", wrongConfig("datetime is a list, but not of two", "write [start, end]; null for an open end")
		}
		text = end(v[0]) + "/" + end(v[1])
	case map[string]any:
		for name := range v {
			if name != "start" && name != "end" {
				return "", wrongConfig("datetime."+name+" is unknown", "known are start and end")
			}
		}
		text = end(v["start"]) + "/" + end(v["end"])
	default:
		return "", wrongConfig("datetime is neither a text nor a list of two", "")
	}
	out, err := api.Interval(text)
	return out, configured(err)
}

func end(v any) string {
	if text, ok := v.(string); ok && text != "" {
		return text
	}
	return ".."
}

func sortBy(v any) ([]api.Sort, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return api.ParseSort(strings.Split(v, ",")), nil
	case []any:
		var out []api.Sort
		for _, e := range v {
			switch e := e.(type) {
			case string:
				out = append(out, api.ParseSort([]string{e})...)
				continue
			case map[string]any:
				field, _ := e["field"].(string)    // absent is found below
				down, _ := e["direction"].(string) // absent is ascending
				if field != "" && (down == "" || down == "asc" || down == "desc") {
					if down == "" {
						down = "asc"
					}
					out = append(out, api.Sort{Field: field, Direction: down})
					continue
				}
			}
			return nil, wrongConfig("sortby has an entry that is neither a text nor {field, direction}", "write -properties.datetime, or {field: properties.datetime, direction: desc}")
		}
		return out, nil
	}
	return nil, wrongConfig("sortby is neither a text nor a list", "write -properties.datetime,+id")
}

func fieldsOf(v any) (include, exclude []string, err error) {
	switch v := v.(type) {
	case nil:
		return nil, nil, nil
	case string:
		include, exclude = api.ParseFields(strings.Split(v, ","))
		return include, exclude, nil
	case []any:
		include, exclude = api.ParseFields(texts(v))
		return include, exclude, nil
	case map[string]any:
		in, _ := v["include"].([]any) // absent is none
		ex, _ := v["exclude"].([]any) // absent is none
		if len(in)+len(ex) > 0 {
			return texts(in), texts(ex), nil
		}
	}
	return nil, nil, wrongConfig("fields is neither a text, a list nor {include, exclude}", "write id,properties.datetime,-links")
}

// target settles what is read and how, as far as the config alone tells: mode "" is still to be found out.
func (s *settings) target(env *stream.Env) (source, mode string, err error) {
	source, mode = s.Source, s.Mode
	switch {
	case s.SourceFile != "":
		source, mode = s.SourceFile, "file"
	case s.CatalogURL != "":
		source = s.CatalogURL
	}
	if env.Collection != nil && source == "" {
		source = collectionMember(env, "catalog_url")
		if static, _ := env.Collection["static"].(bool); static { // absent is false
			source, mode = collectionMember(env, "href"), "file"
		}
	}
	if env.Collection != nil && len(s.search.Collections) == 0 {
		if id := collectionMember(env, "id"); id != "" {
			s.search.Collections = []string{id}
		}
	}
	switch {
	case source == "":
		return "", "", wrongConfig("there is nothing to read", "give source, catalog_url or source_file, or put the step behind a discovery")
	case mode == "api" && !isWeb(source):
		return "", "", wrongConfig(fmt.Sprintf("the mode is api, but %q is no URL", source), "leave mode out to have a file or a static catalog read; an API is https://host/stac")
	case mode == "" && (!isWeb(source) || isData(source)):
		mode = "file"
	}
	return source, mode, nil
}

// isData reports whether a URL is that of a file of items, by its name.
func isData(url string) bool {
	name, _, _ := strings.Cut(url, "?")
	switch path.Ext(strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")) {
	case ".ndjson", ".jsonl", ".geojsonl", ".geojson", ".parquet", ".geoparquet":
		return true
	}
	return false
}

func ingestModule(o Options) stream.Module {
	return stream.Module{Spec: ingestSpec(), Check: checkIngest, Open: o.openIngest, Try: o.tryIngest}
}
