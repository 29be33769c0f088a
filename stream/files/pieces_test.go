package files

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// rowsIn reads a text of a known format through a window of some bytes.
func rowsIn(in io.Reader, window0 int, s Shape) []string {
	var rows []string
	e := &emitter{shape: s, row: func(r Row) error {
		rows = append(rows, fmt.Sprintf("%d %s %s %v %+v", r.Line, r.Key, r.Text, r.Err, r.Next))
		return nil
	}}
	w := &window{ctx: context.Background(), in: in, buf: make([]byte, window0)}
	if err := e.text(w, s.Format); err != nil {
		rows = append(rows, "! "+err.Error())
	}
	return rows
}

// FuzzPieces reads the same text in one piece and byte by byte through a tiny window.
func FuzzPieces(f *testing.F) {
	for _, tt := range formatTests {
		f.Add(strings.TrimPrefix(tt.file[strings.LastIndexByte(tt.file, '.')+1:], "jsonl"), tt.text)
	}
	f.Fuzz(func(t *testing.T, format, text string) {
		s := Shape{Format: format, MaxItem: 60}
		switch format {
		case formatJSON, formatGeoJSON, formatCSV, formatTSV:
		default:
			s.Format = formatNDJSON
		}
		one := rowsIn(strings.NewReader(text), windowSize, s)
		if diff := cmp.Diff(one, rowsIn(iotest.OneByteReader(strings.NewReader(text)), 2, s)); diff != "" {
			t.Error(diff)
		}
		broken := rowsIn(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(text))), 2, s)
		if len(text) > 1 && (len(broken) == 0 || !strings.HasPrefix(broken[len(broken)-1], "! ")) {
			t.Errorf("a broken reader: %q", broken)
		}
	})
}

// FuzzJSONList compares the rows of a list with those of a full parser, where that accepts the text.
func FuzzJSONList(f *testing.F) {
	f.Add(`[{"a":"\\\"]"},{"b":{"c":[[]]}}, {} ]`)
	f.Fuzz(func(t *testing.T, text string) {
		var want []string
		dec := jsontext.NewDecoder(strings.NewReader(text))
		if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '[' {
			return
		}
		for dec.PeekKind() == '{' {
			v, err := dec.ReadValue()
			if err != nil {
				return
			}
			want = append(want, string(v))
		}
		if tok, err := dec.ReadToken(); err != nil || tok.Kind() != ']' {
			return
		}
		if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
			return
		}
		var got []string
		e := &emitter{shape: Shape{Format: formatJSON, MaxItem: 1 << 20}, row: func(r Row) error {
			got = append(got, string(r.Text))
			return r.Err
		}}
		if err := e.text(newWindow(context.Background(), strings.NewReader(text)), formatJSON); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// FuzzTable compares CSV with that of the standard library, where that accepts it and reads it strictly.
func FuzzTable(f *testing.F) {
	f.Add("a,b\n1,\"x\n\"\"y\"\r\n\n,\n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsRune(text, '\r') || strings.HasPrefix(text, "\ufeff") {
			return // it turns \r\n inside of quotes into \n
		}
		r := csv.NewReader(strings.NewReader(text))
		want, err := r.ReadAll()
		if err != nil || len(want) == 0 {
			return
		}
		tb := &table{window: newWindow(context.Background(), strings.NewReader(text)), emitter: &emitter{shape: Shape{MaxItem: 1 << 20}}, delimiter: ',', quote: '"', quotes: true}
		var got [][]string
		for {
			more, err := tb.record()
			if err != nil || tb.bad != "" {
				t.Fatal(err, tb.bad)
			}
			if !more {
				break
			}
			var cells []string
			for i := range tb.ends {
				cells = append(cells, string(bytes.Clone(tb.cell(i))))
			}
			got = append(got, cells)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	})
}
