package parquet_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell/stream/parquet"
)

// schemaOf is the schema of a file of rows, as text.
func schemaOf(t *testing.T, rows ...string) parquet.Schema {
	t.Helper()
	file, refused := table(t, tableOptions{Conflict: parquet.AsJSON, Base: parquet.Schema{
		{Name: "at", Type: &parquet.Type{Kind: parquet.Timestamp}}, {Name: "raw", Type: &parquet.Type{Kind: parquet.Binary}}}}, rows...)
	if refused != nil {
		t.Fatal(refused)
	}
	f, err := parquet.Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	return f.Schema()
}

func told(s parquet.Schema) string {
	var of func(t *parquet.Type) string
	fields := func(s []parquet.Field) string {
		var parts []string
		for _, f := range s {
			parts = append(parts, f.Name+" "+of(f.Type))
		}
		return strings.Join(parts, ", ")
	}
	of = func(t *parquet.Type) string {
		switch {
		case t.Kind == parquet.Struct:
			return "{" + fields(t.Fields) + "}"
		case t.Kind == parquet.List:
			return "[" + of(t.Elem) + "]"
		case t.Wide:
			return "wide " + t.Kind.String()
		}
		return t.Kind.String()
	}
	return fields(s)
}

func TestSchemaOfFile(t *testing.T) {
	first := schemaOf(t, `{"at":"2026-01-02T03:04:05Z","b":true,"i":9007199254740992,"w":9007199254740993,"d":0.5,"t":"x","l":[],"n":null,"m":[{"x":1,"y":null}],"e":{},"raw":"/wA="}`, `{"i":-1}`)
	if diff := cmp.Diff("at timestamp, raw binary, b bool, i int, w wide int, d double, t text, l [unknown], n unknown, m [{x int, y unknown}], e json", told(first)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	second := schemaOf(t, `{"i":1.5,"w":1.5,"t":1,"l":["a"],"n":[1],"m":[{"y":true,"z":"t"}],"b":"x","new":{"q":1}}`, `{"b":{}}`)
	want := "at timestamp, raw binary, b json, i double, w double, d double, t text, l [text], n [int], m [{x int, y bool, z text}], e json, new {q int}"
	if diff := cmp.Diff(want, told(first.Join(second))); diff != "" {
		t.Errorf("joined, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff("at timestamp, raw binary, b bool, i int, w wide int", told(first)[:strings.Index(told(first), ", d ")]); diff != "" {
		t.Errorf("Join has changed what it was given, -want +got:\n%s", diff)
	}
	var many parquet.Schema
	for n := range parquet.MaxColumns {
		many = append(many, parquet.Field{Name: strconv.Itoa(n), Type: &parquet.Type{Kind: parquet.Int}})
	}
	if got := first.Join(many); len(got) != len(first) {
		t.Errorf("%d columns", len(got))
	}
}

// TestNumbersReadBackFit: every number that a file gives fits a table again, with the same digits, also behind fractions.
func TestNumbersReadBackFit(t *testing.T) {
	rows := []string{`{"n":0.5}`, `{"n":12345678901234567890.1}`, `{"n":12345678901234567000}`, `{"n":1e20}`, `{"n":-9.9999999999999999e20}`,
		`{"n":1e21}`, `{"n":1.7976931348623157e308}`, `{"n":9223372036854775808}`}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		f := math.Ldexp(random.Float64()+0.5, random.IntN(30)+50)
		rows = append(rows, `{"n":`+strconv.FormatFloat(f, 'e', -1, 64)+`}`)
	}
	file, refused := table(t, tableOptions{}, rows...)
	if refused != nil {
		t.Fatal(refused)
	}
	back := each(t, file, 0)
	for _, base := range []parquet.Schema{nil, {{Name: "n", Type: &parquet.Type{Kind: parquet.Double}}}} {
		for _, again := range [][]string{back, append(back[1:len(back):len(back)], back[0])} { // a fraction comes first, or last
			file, refused = table(t, tableOptions{Base: base}, again...)
			if refused != nil {
				t.Errorf("%d refused: %v", len(refused), refused[0])
			} else if diff := cmp.Diff(again, each(t, file, 0)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		}
	}
}
