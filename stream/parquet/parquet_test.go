package parquet_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream/durable"
	"github.com/stepwell/stepwell/stream/parquet"
)

func parse(t testing.TB, text string) *item.Value {
	t.Helper()
	v, err := item.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// each gives the rows of a file from a row on.
func each(t testing.TB, file []byte, from int64) []string {
	t.Helper()
	rows := []string{}
	err := parquet.Each(context.Background(), bytes.NewReader(file), int64(len(file)), from, func(text []byte, n int64) error {
		if n != from+int64(len(rows)) {
			t.Errorf("row %d is said to be row %d", from+int64(len(rows)), n)
		}
		rows = append(rows, string(text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// table writes rows and gives the file; rows that do not fit are given back.
func table(t testing.TB, o tableOptions, rows ...string) (file []byte, refused []error) {
	t.Helper()
	tab, err := newTab(t.TempDir(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if err := tab.append(parse(t, row)); err != nil {
			refused = append(refused, err)
		}
	}
	return finish(t, tab), refused
}

func finish(t testing.TB, tab *tabFile) []byte {
	t.Helper()
	dest := filepath.Join(t.TempDir(), "rows.parquet")
	if err := tab.finish(context.Background(), dest); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(dest)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestRowsSurvive(t *testing.T) {
	rows := []string{
		`{"a":1,"b":"x","c":[1,2],"d":{"e":true},"o":{}}`,
		`{"a":2.5,"b":"ü\n\"","c":[],"d":{"f":[{"g":1},{}]},"o":{}}`,
		`{"a":null,"b":null,"c":null,"d":{},"o":null}`,
		`{"a":-9007199254740992,"b":"","c":[null,3],"d":{"e":false,"f":[null,{"g":2}]},"z":null}`,
		`{"a":1e-7,"b":"\u0000","c":[4],"d":null}`,
	}
	want := []string{
		`{"a":1,"b":"x","c":[1,2],"d":{"e":true},"o":{},"z":null}`,
		`{"a":2.5,"b":"ü\n\"","c":[],"d":{"f":[{"g":1},{}]},"o":{},"z":null}`,
		`{"a":null,"b":null,"c":null,"d":{},"o":null,"z":null}`,
		`{"a":-9007199254740992,"b":"","c":[null,3],"d":{"e":false,"f":[null,{"g":2}]},"o":null,"z":null}`,
		`{"a":1e-07,"b":"\u0000","c":[4],"d":null,"o":null,"z":null}`,
	}
	for _, group := range []int{0, 1, 2} {
		file, refused := table(t, tableOptions{Writer: parquet.Options{RowGroup: group}}, rows...)
		if len(refused) > 0 {
			t.Fatal(refused)
		}
		if diff := cmp.Diff(want, each(t, file, 0)); diff != "" {
			t.Errorf("row groups of %d, -want +got:\n%s", group, diff)
		}
		for from := range len(want) + 2 {
			if diff := cmp.Diff(want[min(from, len(want)):], each(t, file, int64(from))); diff != "" {
				t.Errorf("row groups of %d from row %d, -want +got:\n%s", group, from, diff)
			}
		}
	}
}

func TestNumbersAreExact(t *testing.T) {
	const largest, smallest, odd = "9223372036854775807", "-9223372036854775808", "9007199254740993"
	file, refused := table(t, tableOptions{}, `{"n":`+largest+`,"d":0.1}`, `{"n":`+smallest+`,"d":`+odd+`}`, `{"n":1,"d":5e-324}`,
		`{"n":0.5,"d":1}`, `{"n":18446744073709551615}`, `{"d":-0.0}`, `{"d":1e400}`, `{"d":9007199254740994}`)
	want := []string{`{"n":` + largest + `,"d":0.1}`, `{"n":1,"d":5e-324}`, `{"n":null,"d":-0}`, `{"n":null,"d":9007199254740994}`}
	if diff := cmp.Diff(want, each(t, file, 0)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var told []string
	for _, err := range refused {
		told = append(told, err.Error())
	}
	if diff := cmp.Diff([]string{
		`column "d": 9007199254740993 is not a number that fits double`,
		`column "n": 0.5 is not a number that fits int`,
		`column "n": 18446744073709551615 is not a number that fits int`,
		`column "d": 1e400 is not a number that fits double`,
	}, told); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	file, refused = table(t, tableOptions{Conflict: parquet.AsJSON}, `{"n":`+odd+`}`, `{"n":0.5}`, `{"n":18446744073709551615}`, `{"n":"x"}`)
	if diff := cmp.Diff([]string{`{"n":` + odd + `}`, `{"n":0.5}`, `{"n":18446744073709551615}`, `{"n":"x"}`}, each(t, file, 0)); diff != "" || refused != nil {
		t.Errorf("%v, -want +got:\n%s", refused, diff)
	}
}

func TestConflicts(t *testing.T) {
	first := `{"a":{"b":[{"c":1}]},"s":"x","l":[1]}`
	for row, want := range map[string]string{
		`{"a":{"b":[{"c":"x"}]}}`: `column "a.b[].c": "x" is a text, where int is expected`,
		`{"a":{"b":{"c":1}}}`:     `column "a.b": {"c":1} is an object, where list is expected`,
		`{"a":[1]}`:               `column "a": [1] is a list, where struct is expected`,
		`{"s":{}}`:                `column "s": {} is an object, where text is expected`,
		`{"l":[[1]]}`:             `column "l[]": [1] is a list, where int is expected`,
		`{"l":[1,true]}`:          `column "l[]": true is a boolean, where int is expected`,
	} {
		file, refused := table(t, tableOptions{}, first, row, `{"s":"y"}`)
		if len(refused) != 1 || refused[0].Error() != want || stepwell.CodeOf(refused[0]) != stepwell.CodeInvalid {
			t.Errorf("%s: %v, want %s", row, refused, want)
		}
		if got := each(t, file, 0); len(got) != 2 {
			t.Errorf("%s: the rows beside it are %v", row, got)
		}
		file, refused = table(t, tableOptions{Conflict: parquet.AsJSON}, first, row)
		if got := each(t, file, 0); len(refused) > 0 || len(got) != 2 || got[0] != first || !strings.HasPrefix(got[1], row[:len(row)-1]) && !strings.Contains(got[1], row[1:len(row)-1]) {
			t.Errorf("%s as JSON: %v %v", row, refused, got)
		}
	}
}

func TestKnownSchemas(t *testing.T) {
	schema := parquet.Schema{{Name: "id", Type: &parquet.Type{Kind: parquet.Text, Required: true}},
		{Name: "at", Type: &parquet.Type{Kind: parquet.Timestamp}}, {Name: "raw", Type: &parquet.Type{Kind: parquet.Binary}}}
	rows := []string{`{"id":"a","at":"2026-01-02T03:04:05.123456789+01:00","raw":"/wA="}`, `{"id":null}`, `{"at":null}`, `{"id":"b","x":1}`,
		`{"id":"c","at":"yesterday"}`, `{"id":"d","raw":"%"}`, `{"id":"e","x":null,"at":"2026-01-02 03:04:05z"}`}
	want := []string{`{"id":"a","at":"2026-01-02T02:04:05.123456Z","raw":"/wA="}`, `{"id":"e","at":"2026-01-02T03:04:05Z","raw":null}`}
	told := []string{`column "id": must not be null or absent`, `column "id": must not be null or absent`, `column "x": not in the schema`,
		`column "at": "yesterday" is not a time of RFC 3339`, `column "raw": no base64 text: illegal base64 data at input byte 0`}

	file, refused := table(t, tableOptions{Fixed: true, Base: schema}, rows...)
	var got []string
	for _, err := range refused {
		got = append(got, err.Error())
	}
	if diff := cmp.Diff(told, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(want, each(t, file, 0)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	// The Writer by itself refuses the same rows.
	var out bytes.Buffer
	w, err := parquet.NewWriter(&out, schema, parquet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.SetMetadata("k", "v")
	got = nil
	for _, row := range rows {
		if err := w.Write(parse(t, row)); err != nil {
			got = append(got, err.Error())
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(told, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(want, each(t, out.Bytes(), 0)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	f, err := parquet.Open(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := f.Metadata("k"); v != "v" || f.Rows != 2 || !cmp.Equal(f.Columns(), []string{"id", "at", "raw"}) {
		t.Errorf("%q, %d rows, %v", v, f.Rows, f.Columns())
	}
}

func TestFirstRowsDecide(t *testing.T) {
	file, refused := table(t, tableOptions{FirstN: 2}, `{"a":1}`, `{"b":"x","n":null}`, `{"c":1}`, `{"a":2,"b":"y","n":"text","c":null}`, `{"a":0.5}`)
	if len(refused) != 2 || refused[0].Error() != `column "c": not in the schema` || refused[1].Error() != `column "a": 0.5 is not a number that fits int` {
		t.Errorf("%v", refused)
	}
	if diff := cmp.Diff([]string{`{"a":1,"b":null,"n":null}`, `{"a":null,"b":"x","n":null}`, `{"a":2,"b":"y","n":"text"}`}, each(t, file, 0)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestResume: a table that is abandoned after a commit goes on as if nothing had happened; what came after the
// commit is gone.
func TestResume(t *testing.T) {
	dir := t.TempDir()
	tab, err := newTab(dir, tableOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	add := func(tab *tabFile, row string) {
		if err := tab.append(parse(t, row)); err != nil {
			t.Fatal(err)
		}
	}
	add(tab, `{"n":1}`)
	if _, err := tab.commit(); err != nil {
		t.Fatal(err)
	}
	add(tab, `{"n":0.5, "a": [
		1]}`)
	state, err := tab.commit()
	if err != nil || state.Items != 2 {
		t.Fatal(state, err)
	}
	add(tab, `{"lost":true}`)
	if err := tab.Leave(); err != nil {
		t.Fatal(err)
	}

	seen := 0
	tab, err = newTab(dir, tableOptions{Seen: func(*item.Value) { seen++ }}, &state)
	if err != nil || tab.Items != 2 || seen != 2 {
		t.Fatal(tab, err, seen)
	}
	if err := tab.append(parse(t, `{"n":"x"}`)); err == nil {
		t.Error("a text fits a column of numbers, whose rows have been forgotten")
	}
	add(tab, `{"n":3}`)
	if diff := cmp.Diff([]string{`{"n":1,"a":null}`, `{"n":0.5,"a":[1]}`, `{"n":3,"a":null}`}, each(t, finish(t, tab), 0)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	if _, err := newTab(dir, tableOptions{}, &state); !errors.Is(err, durable.ErrGone) {
		t.Errorf("resuming what is gone: %v", err)
	}
	path := filepath.Join(dir, ".rows.token.part")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), int(state.Offset)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newTab(dir, tableOptions{}, &state); err == nil {
		t.Errorf("resuming what is damaged: %v", err)
	}
}

func TestCloseIsAtomic(t *testing.T) {
	tab, err := newTab(t.TempDir(), tableOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	dest := filepath.Join(dir, "rows.parquet")
	if err := tab.finish(t.Context(), dest); !errors.Is(err, parquet.ErrNoColumns) {
		t.Errorf("no rows: %v", err)
	}
	if err := tab.append(parse(t, `{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tab.finish(ctx, dest); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	if err := tab.finish(t.Context(), dest); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%v is left", left)
	}
}

// TestManyRows: several row groups, pages and dictionaries that overflow.
func TestManyRows(t *testing.T) {
	const rows = 30_000
	tab, err := newTab(t.TempDir(), tableOptions{Writer: parquet.Options{RowGroup: 11_000}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	row := func(i int) string {
		n := strconv.Itoa(i)
		return `{"id":"an id that fills a dictionary ` + n + `","n":` + n + `,"f":` + n + `.25,"l":[{"k":"` + n + `"},{"k":"same"}],"rare":` +
			map[bool]string{true: `{"x":` + n + `}`, false: "null"}[i%5000 == 7] + `}`
	}
	for i := range rows {
		if err := tab.append(parse(t, row(i))); err != nil {
			t.Fatal(err)
		}
	}
	file := finish(t, tab)
	for i, got := range each(t, file, 0) {
		if got != row(i) {
			t.Fatalf("row %d is %s", i, got)
		}
	}
	if got := each(t, file, 29_998); len(got) != 2 || got[1] != row(29_999) {
		t.Errorf("%v", got)
	}
	stop := errors.New("enough")
	err = parquet.Each(t.Context(), bytes.NewReader(file), int64(len(file)), 5, func([]byte, int64) error { return stop })
	if err != stop {
		t.Errorf("the receiver's error comes back as %v", err)
	}
}

// TestRefusedRowAddsNothing has a row with a new member that lacks a required one: the schema stays.
func TestRefusedRowAddsNothing(t *testing.T) {
	u := parquet.NewUnion(parquet.Schema{{Name: "id", Type: &parquet.Type{Kind: parquet.Text, Required: true}}}, parquet.AsJSON)
	if err := u.Add(parse(t, `{"more":1}`)); err == nil || err.Error() != `column "id": must not be null or absent` {
		t.Error(err)
	}
	if s := u.Schema(); len(s) != 1 {
		t.Errorf("%d columns", len(s))
	}
}

func TestTooManyColumns(t *testing.T) {
	u := parquet.NewUnion(nil, parquet.AsJSON)
	row := item.NewObject()
	for i := range parquet.MaxColumns {
		row.Set("c"+strconv.Itoa(i), item.OfText("x"))
	}
	if err := u.Add(parse(t, string(row.Bytes()))); err != nil {
		t.Fatal(err)
	}
	if err := u.Add(parse(t, `{"more":1}`)); stepwell.CodeOf(err) != stepwell.CodeLimit || stepwell.HintOf(err) == "" {
		t.Errorf("one more: %v", err)
	}
	deep := strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)
	if err := parquet.NewUnion(nil, parquet.AsJSON).Add(parse(t, deep)); err == nil || !strings.Contains(err.Error(), "deeper than") {
		t.Errorf("deep: %v", err)
	}
}
