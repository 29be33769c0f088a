package ingest

import (
	"encoding/json"
	"fmt"
	"math"
	"path"
	"strings"

	"github.com/stepwell/stepwell/stac/apiclient"
	"github.com/stepwell/stepwell/stream"
)

// settings are the config of stac.ingest.
type settings struct {
	Mode         string         `json:"mode" enum:"file,api" doc:"Whether source is a file, directory or static catalog, or an API; found out when absent."`
	Source       string         `json:"source" doc:"What to read: the URL of an API or catalog, or a path."`
	CatalogURL   string         `json:"catalog_url" doc:"The same as source, for an API or a static catalog; defaults to that of a discovery."`
	SourceFile   string         `json:"source_file" doc:"File, directory, glob, s3:// or https:// path; it wins over catalog_url."`
	SourceType   string         `json:"source_type" enum:"auto,file,items_directory,collection,catalog" default:"auto" doc:"What a path must be; anything else is refused."`
	Format       string         `json:"format" enum:"auto,json,geojson,ndjson,parquet" default:"auto" doc:"Format of files, found by name and content when auto."`
	Collection   string         `json:"collection_id" doc:"Collection to read; defaults to that of a discovery. In file mode, items that name none get it."`
	Collections  []string       `json:"collection_ids" doc:"Several collections instead of one."`
	Bbox         []float64      `json:"bbox" doc:"Box that items must intersect: west, south, east, north in degrees, or six numbers."`
	Datetime     any            `json:"datetime" doc:"Time: an instant, a year, month or day, an interval a/b with .. for an open end, [a, b], or {start, end}."`
	IDs          []any          `json:"ids" doc:"Ids of the items to read; one that does not exist is a failure."`
	Query        map[string]any `json:"query" doc:"Query extension, like {\"eo:cloud_cover\": {\"lt\": 10}}; APIs only."`
	Filter       any            `json:"filter" doc:"CQL2 filter, a text or an object; APIs only."`
	FilterLang   string         `json:"filter_lang" doc:"Language of filter; cql2-text for a text, cql2-json for an object when absent."`
	Intersects   map[string]any `json:"intersects" doc:"GeoJSON geometry that items must intersect, instead of bbox; APIs only."`
	SortBy       any            `json:"sortby" doc:"Order: -properties.datetime,+id, a list of such, or of {field, direction}; APIs only."`
	Fields       any            `json:"fields" doc:"Members to send, those with a minus left out; what comes incomplete is marked with stepwell:partial; APIs only."`
	Filters      filters        `json:"filters" doc:"The conditions in one place; each may be given here or beside it."`
	Limit        int            `json:"limit" minimum:"1" maximum:"10000" default:"100" doc:"Items per page, a hint to the server; it bounds nothing: see max_items."`
	MaxItems     int64          `json:"max_items" minimum:"1" doc:"Items after which to stop."`
	SplitAt      int64          `json:"split_at" minimum:"1" doc:"Divide the search by time until the server counts fewer matches per part, e.g. 10000; not divided when absent."`
	Verify       bool           `json:"verify_collection" default:"true" doc:"Whether to make sure beforehand that the collection exists."`
	AllowEmpty   bool           `json:"allow_empty" doc:"Whether a file or catalog without any item is accepted."`
	MaxItemBytes int64          `json:"max_item_bytes" minimum:"1024" doc:"Size above which an item of a file is a failure, 64 MiB when absent."`
	connection

	search apiclient.Search // the search of the conditions

	known []apiclient.Collection // that have been looked at
}

// sameMeaning are the fields that say the same in two vocabularies.
var sameMeaning = [][]string{
	{"source", "catalog_url"}, {"source", "source_file"}, {"collection_id", "collection_ids"},
	{"bbox", "filters.bbox", "filters.spatial"}, {"datetime", "filters.datetime", "filters.temporal"},
	{"ids", "filters.ids"}, {"query", "filters.query"},
}

func checkIngest(s *settings, config stream.Config) []error {
	e := &either{config: config.Values}
	for _, group := range sameMeaning {
		e.one(group...)
	}
	e.one("bbox", "intersects")
	e.one("filters.bbox", "intersects")
	e.one("filters.spatial", "intersects")
	if config.Pending() {
		return e.wrong // the rest is checked when the values are known
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
	}{{"query", len(s.search.Query) > 0}, {"filter", s.Filter != nil}, {"intersects", len(s.Intersects) > 0}, {"sortby", s.SortBy != nil}, {"fields", s.Fields != nil}} {
		if f.given {
			wrong = append(wrong, wrongConfig(f.name+" is for APIs, and the source is a file or a static catalog", "use stream.filter or stream.map behind it; bbox, datetime, ids and collection_id work"))
		}
	}
	return wrong
}

// conditions puts both vocabularies together.
func (s *settings) conditions() error {
	q := apiclient.Search{Limit: s.Limit, FilterLang: s.FilterLang}
	for _, box := range [][]float64{s.Bbox, s.Filters.Bbox, s.Filters.Spatial} {
		if len(q.Bbox) == 0 {
			q.Bbox = box
		}
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
	if q.Query, err = rawOf(s.Query); err == nil && q.Query == nil {
		q.Query, err = rawOf(s.Filters.Query)
	}
	if err == nil {
		q.Intersects, err = rawOf(s.Intersects)
	}
	if err == nil && s.Filter != nil {
		q.Filter, err = json.Marshal(s.Filter)
	}
	if err != nil {
		return configured(err)
	}
	if q.SortBy, err = sortBy(s.SortBy); err != nil {
		return err
	}
	if q.Fields, err = fieldsOf(s.Fields); err != nil {
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

// rawOf is an object as JSON text, nil when it is empty.
func rawOf(object map[string]any) (json.RawMessage, error) {
	if len(object) == 0 {
		return nil, nil
	}
	return json.Marshal(object)
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
	case int64, float64: // a year
		text = texts([]any{v})[0]
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
	out, err := apiclient.Interval(text)
	return out, configured(err)
}

func end(v any) string {
	if text, ok := v.(string); ok && text != "" {
		return text
	}
	return ".."
}

func sortBy(v any) ([]apiclient.Sort, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return apiclient.ParseSort(strings.Split(v, ",")), nil
	case []any:
		var out []apiclient.Sort
		for _, e := range v {
			switch e := e.(type) {
			case string:
				out = append(out, apiclient.ParseSort([]string{e})...)
				continue
			case map[string]any:
				field, _ := e["field"].(string)    // absent is found below
				down, _ := e["direction"].(string) // absent is ascending
				if field != "" && (down == "" || down == "asc" || down == "desc") {
					if down == "" {
						down = "asc"
					}
					out = append(out, apiclient.Sort{Field: field, Direction: down})
					continue
				}
			}
			return nil, wrongConfig("sortby has an entry that is neither a text nor {field, direction}", "write -properties.datetime, or {field: properties.datetime, direction: desc}")
		}
		return out, nil
	}
	return nil, wrongConfig("sortby is neither a text nor a list", "write -properties.datetime,+id")
}

func fieldsOf(v any) (*apiclient.Fields, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return apiclient.ParseFields(strings.Split(v, ",")), nil
	case []any:
		return apiclient.ParseFields(texts(v)), nil
	case map[string]any:
		in, _ := v["include"].([]any) // absent is none
		ex, _ := v["exclude"].([]any) // absent is none
		if len(in)+len(ex) > 0 {
			return &apiclient.Fields{Include: texts(in), Exclude: texts(ex)}, nil
		}
	}
	return nil, wrongConfig("fields is neither a text, a list nor {include, exclude}", "write id,properties.datetime,-links")
}

// target determines the source and the mode, as far as the config alone allows: mode "" is to be detected.
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
		return "", "", wrongConfig(fmt.Sprintf("the mode is api, but %q is not a URL", source), "leave mode out to have a file or a static catalog read; an API is https://host/stac")
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
