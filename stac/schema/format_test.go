package schema

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stepwell/stepwell/stac/schema/schematest"
)

// stacFormats are the formats that the schemas of STAC and of its extensions use, and their relatives.
var stacFormats = []string{"date-time", "date", "time", "iri", "iri-reference", "uri", "uri-reference", "uri-template"}

// formatOf compiles a schema of one format as every schema is compiled.
func formatOf(t testing.TB, format string) func(v any) bool {
	t.Helper()
	s := New(Options{Mode: Offline})
	c := s.compiler()
	if err := c.AddResource("https://example.org/f.json", map[string]any{"$schema": "http://json-schema.org/draft-07/schema#", "format": format}); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("https://example.org/f.json")
	if err != nil {
		t.Fatal(err)
	}
	fast := newRule(compiled)
	return func(v any) bool {
		slow := compiled.Validate(v) == nil
		if text, ok := v.(string); ok && utf8.ValidString(text) {
			laid := document(t, v)
			defer laid.Release()
			if fast.fits(laid) != slow {
				t.Errorf("%s: %q is valid for one of rule and library", format, text)
			}
		}
		return slow
	}
}

// TestFormatSuite compares every format that is checked with JSON-Schema-Test-Suite.
func TestFormatSuite(t *testing.T) {
	suite := schematest.FormatSuite(t)
	for _, name := range slices.Concat(stacFormats, []string{"email", "hostname", "ipv4", "ipv6", "json-pointer", "relative-json-pointer"}) {
		if len(suite[name]) == 0 {
			t.Errorf("the suite has no %s", name)
		}
		valid := formatOf(t, name)
		for _, c := range suite[name] {
			if valid(c.Data) != c.Valid {
				t.Errorf("%s: %s: %v passes: %v, want %v", name, c.Description, c.Data, !c.Valid, c.Valid)
			}
		}
	}
}

// disagreed are texts that ajv-formats judges otherwise, each with the reason.
var disagreed = map[string]string{
	"date-time 2020-01-01 00:00:00Z":     "RFC 3339 §5.6 wants a T; ajv lets a blank pass",
	"date-time 2020-01-01T00:00:00+01":   "RFC 3339 wants the minutes of an offset; ajv lets them be left out",
	"date-time 2020-01-01T00:00:00+0100": "RFC 3339 wants a colon in an offset; ajv does not",
	"time 00:00:00+01":                   "as for date-time",
	"uri-template {a.b}":                 "RFC 6570 §2.3 allows a dot inside a name; ajv does not",
}

// TestFormatsAsAjv compares the formats with ajv-formats on texts of the kind that STAC objects hold.
func TestFormatsAsAjv(t *testing.T) {
	texts := map[string][]string{
		"date-time": {"2020-01-01T00:00:00Z", "2020-01-01t00:00:00z", "2020-01-01T00:00:00.123456789+02:00", "2020-02-30T00:00:00Z", "2020-13-01T00:00:00Z", "2020-01-01T24:00:00Z", "2020-01-01T23:59:60Z",
			"2020-01-01T12:59:60Z", "2020-01-01T00:59:60+01:00", "2020-01-01T00:00:00", "2020-01-01", "2020-1-1T00:00:00Z", "", "yesterday", "2020-01-01T00:00Z", "2024-02-29T00:00:00Z", "2023-02-29T00:00:00Z",
			"2020-01-01T00:00:00.Z", "2020-01-01 00:00:00Z", "2020-01-01T00:00:00+01", "2020-01-01T00:00:00+0100", "+2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z "},
		"date":          {"2020-01-01", "2020-02-30", "2020-1-1", "20200101", "", "2020-01-01T00:00:00Z"},
		"time":          {"00:00:00Z", "00:00:00", "23:59:60Z", "24:00:00Z", "00:00:00+01", "00:00:00.5-03:30"},
		"uri":           {"https://example.com/a", "https://example.com/a b", "https://example.com/ü", "a/b", "/a", "", "urn:ogc:def:crs", "s3://bucket/key", "mailto:a@b", "http://[::1]/", "https://e.com/%zz", "https://{b}.com/", "https://e.com/{b}", "https://e.com/a|b"},
		"uri-reference": {"https://example.com/a", "./a.json", "../a?b=c#d", "a b", "", "#", "//host/x", "a\\b", "é", "{x}", "a^b", "%zz"},
		"uri-template": {"https://{bucket}.s3.{region}.amazonaws.com", "https://{account}.blob.core.windows.net", "{+path}/here", "{?x,y*}", "{var:3}", "{var:30000}", "{var:0}", "{", "}", "{}", "{a", "a}", "{a}{", "a b",
			"{a b}", "{%41}", "{%zz}", "%zz", "", "plain", "{a,}", "{a:}", "{a*}", "{a.b}", "é{a}", "{é}", "a'b", "{{a}}", "{=a}"},
	}
	var pairs [][2]string
	for _, format := range stacFormats {
		for _, text := range texts[format] {
			pairs = append(pairs, [2]string{format, text})
		}
	}
	differ := map[string]bool{}
	for i, answer := range schematest.Formats(t, pairs) {
		format, text := pairs[i][0], pairs[i][1]
		if answer == nil {
			t.Errorf("ajv has no %s", format)
		} else if ours := formatOf(t, format)(text); ours != *answer {
			if name := format + " " + text; disagreed[name] == "" {
				t.Errorf("%s %q passes: %v, by ajv %v", format, text, ours, *answer)
			} else {
				differ[name] = true
			}
		}
	}
	for name := range disagreed {
		if !differ[name] {
			t.Errorf("%s: ajv agrees, so that it is no exception", name)
		}
	}
}

// TestReferences are the texts that ajv has no format for: those of links and assets.
func TestReferences(t *testing.T) {
	valid := formatOf(t, "iri-reference")
	for text, want := range map[string]bool{"./a b.tif": true, "https://{s}.example.com/{z}/{x}/{y}.png": true, "https://example.com/ü": true, "": true, "s3://bucket_a/k": true,
		"C:\\data\\a.tif": false, "http://a:b:c/": false, "http://ex ample.com/": false, "a%zz": false} {
		if valid(text) != want {
			t.Errorf("%q passes: %v, want %v", text, !want, want)
		}
		item := `{"type":"Feature","stac_version":"1.0.0","id":"a","geometry":null,"properties":{"datetime":"2020-01-01T00:00:00Z"},"assets":{},"links":[{"rel":"related","href":` + jsonText(text) + `}]}`
		obj, err := Decode([]byte(item))
		if err != nil {
			t.Fatal(err)
		}
		if text == "" {
			continue // a link has minLength 1
		}
		problems := Core("1.0.0").Validate(obj)
		if got := !strings.Contains(fmt.Sprint(problems), "URL"); got != want {
			t.Errorf("the core lets the link %q pass: %v, want %v: %v", text, got, want, problems)
		}
	}
}

// TestPlainURL: what is recognised without parsing passes the parser, too.
func TestPlainURL(t *testing.T) {
	for text, plain := range map[string]bool{"https://data.example.com/a/B_1~2.TIF?x=1&y=a+b,c:d": true, "s3://bucket-1/key": true, "https://e.com": true, "https:///a": false, "https://": false, "": false, "./a.tif": false,
		"https://e.com:80/": false, "https://u@e.com/": false, "https://e.com/%zz": false, "https://e.com/a b": false, "1s://e/": false, "https://e_x/": false, "https://e.com/[": false, "a/b://c": false} {
		if plainURL(text) != plain {
			t.Errorf("%q is plain: %v", text, !plain)
		}
	}
}

func FuzzPlainURL(f *testing.F) {
	for _, text := range []string{"https://data.example.com/a?b=c", "s3://x/y", "a1://.-/:?"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !plainURL(text) {
			return
		}
		if u, err := url.Parse(text); err != nil || !u.IsAbs() || !hostAllowed(u) {
			t.Errorf("%q: %v", text, err)
		}
	})
}

func jsonText(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}

// TestStorageExample validates what the README of the storage extension shows (A5).
func TestStorageExample(t *testing.T) {
	store := New(Options{Dir: data(t, "schemas"), Mode: Offline})
	item := `{"type":"Feature","stac_version":"1.0.0","id":"a","geometry":null,"links":[],"assets":{},"stac_extensions":["https://stac-extensions.github.io/storage/v2.0.0/schema.json"],
		"properties":{"datetime":"2020-01-01T00:00:00Z","storage:schemes":{"aws":{"type":"aws-s3","platform":"https://{bucket}.s3.{region}.amazonaws.com","bucket":"mybucket","region":"us-west-2","requester_pays":true},
		"azure":{"type":"ms-azure","platform":"https://{account}.blob.core.windows.net","account":"accountname"}}}}`
	obj, err := Parse([]byte(item))
	if err != nil {
		t.Fatal(err)
	}
	schema, err := store.Load(t.Context(), "https://stac-extensions.github.io/storage/v2.0.0/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if problems := schema.Check(obj); len(problems) > 0 {
		t.Errorf("%v", problems)
	}
	bad, _ := Parse([]byte(strings.Replace(item, "{region}", "{region", 1)))
	if problems := schema.Check(bad); len(problems) == 0 {
		t.Error("a template with an open brace passes")
	}
}
