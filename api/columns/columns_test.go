package columns_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api/columns"
)

func sample() (columns.Header, []columns.Data) {
	return columns.Header{Version: 7, Rows: 3, From: 1, Total: 4, States: []string{"pending", "completed"}, Workers: []string{"", "w1"}, Outcomes: []string{"", "lost"}, Actions: []string{"", "util.log"}, Queues: []string{"", "slow"}, Began: 1_700_000_000_000},
		[]columns.Data{{Name: "status", U8: []uint8{0, 1, 1}}, {Name: "layer", U16: []uint16{0, 1, 65535}}, {Name: "start", U32: []uint32{0, 1 << 31, 5}}, {Name: "none", U16: []uint16{}}, {Name: "side", F32: []float32{0, 1.5, -180}}}
}

func TestTable(t *testing.T) {
	h, data := sample()
	raw, err := columns.Encode(h, data)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(raw, []byte("SWC1")) || len(raw)%8 != 0 || cap(raw) != len(raw) {
		t.Errorf("%d bytes in memory of %d: %q", len(raw), cap(raw), raw[:20])
	}
	got, err := columns.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	h.Columns = []columns.Column{{"status", "u8", 3}, {"layer", "u16", 3}, {"start", "u32", 3}, {"none", "u16", 0}, {"side", "f32", 3}}
	if !reflect.DeepEqual(got.Header, h) {
		t.Errorf("the header is %+v, want %+v", got.Header, h)
	}
	for name, want := range map[string][]uint32{"status": {0, 1, 1}, "layer": {0, 1, 65535}, "start": {0, 1 << 31, 5}, "none": {}, "side": {0, 0x3fc00000, 0xc3340000}, "other": nil} {
		if column := got.Column(name); !reflect.DeepEqual(column, want) {
			t.Errorf("%s is %v, want %v", name, column, want)
		}
	}
}

// TestColumnsBegin: a page makes typed arrays of the bytes as they lie, which must begin at multiples of their size.
func TestColumnsBegin(t *testing.T) {
	for pipe := range 9 {
		h, data := sample()
		h.States = []string{strings.Repeat("x", pipe)}
		raw, err := columns.Encode(h, data)
		if err != nil {
			t.Fatal(err)
		}
		at := (8 + int(binary.LittleEndian.Uint32(raw[4:])) + 7) / 8 * 8
		if raw[at] != 0 || raw[at+1] != 1 || raw[at+8] != 0 || raw[at+10] != 1 || binary.LittleEndian.Uint32(raw[at+16+4:]) != 1<<31 {
			t.Errorf("the columns are not at multiples of 8: % x", raw[at:])
		}
	}
}

func TestNarrow(t *testing.T) {
	for most, want := range map[uint32]string{0: "u8", 255: "u8", 256: "u16", 65535: "u16", 65536: "u32"} {
		raw, err := columns.Encode(columns.Header{}, []columns.Data{columns.Narrow("x", []uint32{0, most})})
		if err != nil {
			t.Fatal(err)
		}
		got, err := columns.Decode(raw)
		if err != nil || got.Columns[0].Type != want || got.Column("x")[1] != most {
			t.Errorf("%d became a %+v: %v", most, got, err)
		}
	}
}

// TestEncodeAllocatesOnce: the memory of a table is allocated in one piece, however many rows it has.
func TestEncodeAllocatesOnce(t *testing.T) {
	allocations := func(rows int) float64 {
		h := columns.Header{Rows: rows}
		data := []columns.Data{{Name: "a", U8: make([]uint8, rows)}, {Name: "b", U32: make([]uint32, rows)}}
		return testing.AllocsPerRun(10, func() {
			if _, err := columns.Encode(h, data); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := allocations(10), allocations(100_000); many > few+8 { // the race detector adds some
		t.Errorf("%v allocations for 10 rows, %v for 100,000", few, many)
	}
}

// table is a table with any header and any bytes behind it.
func table(header string, rest int) []byte {
	raw := append([]byte("SWC1"), binary.LittleEndian.AppendUint32(nil, uint32(len(header)))...)
	raw = append(raw, header...)
	for len(raw)%8 > 0 {
		raw = append(raw, 0)
	}
	return append(raw, make([]byte, rest)...)
}

func TestHostileTables(t *testing.T) {
	for name, raw := range map[string][]byte{
		"nothing":              nil,
		"another format":       []byte("PNG1\x00\x00\x00\x00"),
		"a huge header":        []byte("SWC1\xff\xff\xff\xff"),
		"a cut header":         table(`{"rows":1}`, 0)[:12],
		"a header without end": table(`{"rows":1`, 0),
		"negative rows":        table(`{"rows":-1}`, 0),
		"an unknown type":      table(`{"columns":[{"name":"a","type":"u64","length":1}]}`, 8),
		"a negative length":    table(`{"columns":[{"name":"a","type":"u8","length":-1}]}`, 8),
		"a huge length":        table(`{"columns":[{"name":"a","type":"u32","length":4611686018427387905}]}`, 8),
		"missing bytes":        table(`{"columns":[{"name":"a","type":"u32","length":3}]}`, 8),
		"too many bytes":       table(`{"columns":[]}`, 8),
		"a column twice":       table(`{"columns":[{"name":"a","type":"u8","length":1},{"name":"a","type":"u8","length":1}]}`, 16),
		"many columns":         table(fmt.Sprintf(`{"columns":[%s{"name":"z","type":"u8","length":0}]}`, strings.Repeat(`{"name":"a","type":"u8","length":0},`, 64)), 0),
	} {
		if got, err := columns.Decode(raw); stepwell.CodeOf(err) != stepwell.CodeInvalid || stepwell.HintOf(err) == "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// FuzzDecode: any bytes are refused, or are a table that is written as it was read.
func FuzzDecode(f *testing.F) {
	h, data := sample()
	raw, err := columns.Encode(h, data)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(raw[:len(raw)-8])
	f.Add(table(`{"rows":1,"columns":[{"name":"a","type":"u16","length":2}]}`, 8))
	f.Add([]byte("SWC1\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := columns.Decode(raw)
		if err != nil {
			if stepwell.CodeOf(err) != stepwell.CodeInvalid {
				t.Fatalf("the error has another code: %v", err)
			}
			return
		}
		var all []columns.Data
		for _, c := range got.Columns {
			values := got.Column(c.Name)
			if len(values) != c.Length {
				t.Fatalf("column %q has %d values, its header says %d", c.Name, len(values), c.Length)
			}
			all = append(all, columns.Data{Name: c.Name, U32: values})
		}
		again, err := columns.Encode(got.Header, all)
		if err != nil {
			return // a header that only just fits in grows when it is written
		}
		same, err := columns.Decode(again)
		if err != nil || same.Rows != got.Rows || len(same.Columns) != len(got.Columns) {
			t.Fatalf("%+v came back as %+v: %v", got.Header, same, err)
		}
		for i, c := range same.Columns {
			if !bytes.Equal(bytesOf(same.Column(c.Name)), bytesOf(all[i].U32)) {
				t.Fatalf("column %q came back with other values", c.Name)
			}
		}
	})
}

func bytesOf(values []uint32) (out []byte) {
	for _, v := range values {
		out = binary.LittleEndian.AppendUint32(out, v)
	}
	return out
}
