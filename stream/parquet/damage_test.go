package parquet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream/parquet"
)

// small is a file with a column of every kind.
func small(t testing.TB) []byte {
	rows := []string{`{"t":"2026-01-02T03:04:05Z","s":"x","n":1,"d":0.5,"b":true,"l":[1,2,null],"o":{"p":[{"q":"r"}]},"j":{}}`,
		`{"t":null,"s":"a longer text, which comes twice","n":2,"d":1e300,"b":false,"l":[],"o":{},"j":null}`,
		`{"s":"a longer text, which comes twice","l":null,"o":{"p":[]}}`}
	file, refused := table(t, tableOptions{Writer: parquet.Options{RowGroup: 2},
		Base: parquet.Schema{{Name: "t", Type: &parquet.Type{Kind: parquet.Timestamp}}}}, rows...)
	if refused != nil {
		t.Fatal(refused)
	}
	return file
}

// readable reads a file that may be damaged: it may give rows, or say that the file is damaged, but nothing else.
func readable(t testing.TB, file []byte) error {
	t.Helper()
	err := parquet.Each(context.Background(), bytes.NewReader(file), int64(len(file)), 0, func(text []byte, n int64) error {
		if _, err := item.Parse(text); err != nil {
			t.Fatalf("row %d is no JSON: %v: %s", n, err, text)
		}
		if n > 1_000 {
			return context.Canceled // a damaged file may tell of a million rows
		}
		return nil
	})
	if err != nil && err != context.Canceled && (stepwell.CodeOf(err) != stepwell.CodeInvalid || stepwell.HintOf(err) == "") {
		t.Fatalf("a damaged file gives %v", err)
	}
	return err
}

func TestDamagedFiles(t *testing.T) {
	file := small(t)
	for n := range len(file) {
		err := parquet.Each(context.Background(), bytes.NewReader(file[:n]), int64(n), 0, func([]byte, int64) error { return nil })
		if stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Fatalf("cut off at byte %d of %d: %v", n, len(file), err)
		}
	}
	impossible := 0
	for i := range file {
		for _, mask := range []byte{0x01, 0xff} {
			bad := bytes.Clone(file)
			bad[i] ^= mask
			if err := readable(t, bad); err != nil && strings.Contains(err.Error(), "a page of ") {
				impossible++
			}
		}
	}
	if impossible == 0 {
		t.Error("no page header was found to tell of a page that is not possible")
	}
}

type broken struct {
	*bytes.Reader
	left int
}

var errDisk = errors.New("the disk is gone")

func (b *broken) ReadAt(p []byte, at int64) (int, error) {
	if b.left--; b.left < 0 {
		return 0, errDisk
	}
	return b.Reader.ReadAt(p, at)
}

// TestBrokenReader: a reader that fails is not the file's fault.
func TestBrokenReader(t *testing.T) {
	file := small(t)
	failed := 0
	for n := 0; ; n++ {
		err := parquet.Each(t.Context(), &broken{bytes.NewReader(file), n}, int64(len(file)), 0, func([]byte, int64) error { return nil })
		if err == nil {
			break
		}
		if failed++; !errors.Is(err, errDisk) || stepwell.CodeOf(err) == stepwell.CodeInvalid {
			t.Fatalf("after %d reads: %v", n, err)
		}
	}
	if failed < 4 {
		t.Errorf("%d reads only", failed)
	}
}

func TestPanicsOfTheReceiver(t *testing.T) {
	defer func() {
		if p := recover(); p != "mine" {
			t.Errorf("recovered %v", p)
		}
	}()
	file := small(t)
	_ = parquet.Each(context.Background(), bytes.NewReader(file), int64(len(file)), 0, func([]byte, int64) error { panic("mine") })
	t.Error("the panic is gone")
}

func FuzzEach(f *testing.F) {
	f.Add(small(f))
	f.Add([]byte("PAR1PAR1"))
	f.Fuzz(func(t *testing.T, file []byte) { _ = readable(t, file) })
}

// value draws a JSON value.
func value(t *rapid.T, depth int) any {
	switch kind := rapid.IntRange(0, 8).Draw(t, "kind"); {
	case kind == 0:
		return nil
	case kind == 1:
		return rapid.Bool().Draw(t, "bool")
	case kind <= 3:
		return rapid.Int64().Draw(t, "int")
	case kind == 4:
		return rapid.Float64Range(-1e308, 1e308).Draw(t, "float")
	case kind <= 6 || depth == 0:
		return rapid.String().Draw(t, "text")
	case kind == 7:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			list = append(list, value(t, depth-1))
		}
		return list
	}
	return object(t, depth-1)
}

func object(t *rapid.T, depth int) map[string]any {
	out := map[string]any{}
	for range rapid.IntRange(0, 4).Draw(t, "members") {
		out[rapid.SampledFrom([]string{"a", "b", "c", "ä \"", "e:f"}).Draw(t, "name")] = value(t, depth)
	}
	return out
}

// known is a value as it is read back: without the members that are null, and with numbers as they are equal.
func known(v *item.Value) string {
	switch v.Kind() {
	case item.Object:
		members := map[string]string{}
		for name, m := range v.Members() {
			if !m.IsNull() {
				members[name] = known(m)
			}
		}
		return fmt.Sprint(members)
	case item.List:
		out := "["
		for _, e := range v.Elements() {
			out += known(e) + ","
		}
		return out + "]"
	case item.Number:
		f, _ := v.Float()
		return fmt.Sprint(f)
	case item.Text:
		s, _ := v.Str()
		return fmt.Sprintf("%q", s)
	}
	return string(v.Bytes())
}

// TestAnyRows: whatever the rows are, they come back.
func TestAnyRows(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rows := []string{`{"id":0}`}
		for range rapid.IntRange(0, 8).Draw(r, "rows") {
			row, err := item.Of(object(r, 3))
			if err != nil {
				r.Fatal(err)
			}
			rows = append(rows, string(row.Bytes()))
		}
		file, refused := table(t, tableOptions{Conflict: parquet.AsJSON, Writer: parquet.Options{RowGroup: rapid.IntRange(1, 4).Draw(r, "group")}}, rows...)
		if refused != nil {
			r.Fatal(refused)
		}
		got := each(t, file, 0)
		if len(got) != len(rows) {
			r.Fatalf("%d rows, want %d", len(got), len(rows))
		}
		for i := range rows {
			if want, got := known(parse(t, rows[i])), known(parse(t, got[i])); want != got {
				r.Fatalf("row %d\nwritten %s\nread    %s", i, want, got)
			}
		}
	})
}
