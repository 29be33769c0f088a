package parquet_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	lib "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
)

// TestOtherWriters reads what others write and we do not.
func TestOtherWriters(t *testing.T) {
	schema := lib.NewSchema("s", lib.Group{
		"a_bool":    lib.Leaf(lib.BooleanType),
		"b_date":    lib.Date(),
		"c_decimal": lib.Decimal(3, 9, lib.Int32Type),
		"d_big":     lib.Decimal(2, 20, lib.FixedLenByteArrayType(9)),
		"e_whole":   lib.Decimal(0, 18, lib.Int64Type),
		"f_float":   lib.Leaf(lib.FloatType),
		"g_int96":   lib.Leaf(lib.Int96Type),
		"h_json":    lib.JSON(),
		"i_list":    lib.Repeated(lib.Int(32)),
		"j_map":     lib.Map(lib.String(), lib.Optional(lib.Int(64))),
		"k_milli":   lib.Timestamp(lib.Millisecond),
		"l_nano":    lib.TimestampAdjusted(lib.Nanosecond, false),
		"m_raw":     lib.Leaf(lib.ByteArrayType),
		"n_time":    lib.Time(lib.Microsecond),
		"o_uint":    lib.Uint(64),
		"p_uint32":  lib.Uint(32),
		"q_uuid":    lib.UUID(),
		"r_lists":   lib.Optional(lib.List(lib.Optional(lib.List(lib.Optional(lib.String()))))),
	})
	var out bytes.Buffer
	w := lib.NewGenericWriter[any](&out, schema)
	v := func(column, rep, def int, v lib.Value) lib.Value { return v.Level(rep, def, column) }
	rows := []lib.Row{{
		v(0, 0, 0, lib.BooleanValue(true)), v(1, 0, 0, lib.Int32Value(-1)), v(2, 0, 0, lib.Int32Value(-5)),
		v(3, 0, 0, lib.FixedLenByteArrayValue([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0x0c})), v(4, 0, 0, lib.Int64Value(42)),
		v(5, 0, 0, lib.FloatValue(0.1)), v(6, 0, 0, lib.Int96Value(deprecated.Int96{1_000_000_000, 0, 2440589})),
		v(7, 0, 0, lib.ByteArrayValue([]byte(`{ "a" : [1.50] }`))), v(8, 0, 1, lib.Int32Value(1)), v(8, 1, 1, lib.Int32Value(2)),
		v(9, 0, 1, lib.ByteArrayValue([]byte("x"))), v(9, 1, 1, lib.ByteArrayValue([]byte("x"))), v(9, 1, 1, lib.ByteArrayValue([]byte("y"))),
		v(10, 0, 2, lib.Int64Value(1)), v(10, 1, 2, lib.Int64Value(2)), v(10, 1, 1, lib.Value{}),
		v(11, 0, 0, lib.Int64Value(-1)), v(12, 0, 0, lib.Int64Value(1)), v(13, 0, 0, lib.ByteArrayValue([]byte{0xff, 0})), v(14, 0, 0, lib.Int64Value(3_661_000_001)),
		v(15, 0, 0, lib.Int64Value(-1)), v(16, 0, 0, lib.Int32Value(-1)),
		v(17, 0, 0, lib.FixedLenByteArrayValue([]byte("0123456789abcdef"))),
		v(18, 0, 5, lib.ByteArrayValue([]byte("a"))), v(18, 2, 4, lib.Value{}), v(18, 1, 3, lib.Value{}), v(18, 1, 2, lib.Value{}),
	}, {
		v(0, 0, 0, lib.BooleanValue(false)), v(1, 0, 0, lib.Int32Value(20_000)), v(2, 0, 0, lib.Int32Value(123456)),
		v(3, 0, 0, lib.FixedLenByteArrayValue(make([]byte, 9))), v(4, 0, 0, lib.Int64Value(0)),
		v(5, 0, 0, lib.FloatValue(float32(math.NaN()))), v(6, 0, 0, lib.Int96Value(deprecated.Int96{0, 0, 2440588})),
		v(7, 0, 0, lib.ByteArrayValue([]byte(`{no`))), v(8, 0, 0, lib.Value{}), v(9, 0, 0, lib.Value{}), v(10, 0, 0, lib.Value{}),
		v(11, 0, 0, lib.Int64Value(0)), v(12, 0, 0, lib.Int64Value(0)), v(13, 0, 0, lib.ByteArrayValue([]byte("text\n"))), v(14, 0, 0, lib.Int64Value(0)),
		v(15, 0, 0, lib.Int64Value(7)), v(16, 0, 0, lib.Int32Value(7)), v(17, 0, 0, lib.FixedLenByteArrayValue(make([]byte, 16))), v(18, 0, 0, lib.Value{}),
	}}
	if _, err := w.WriteRows(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"a_bool":true,"b_date":"1969-12-31","c_decimal":-0.005,"d_big":-5.00,"e_whole":42,"f_float":0.1,"g_int96":"1970-01-02T00:00:01Z",` +
			`"h_json":{"a":[1.50]},"i_list":[1,2],"j_map":{"x":1,"y":null},"k_milli":"1969-12-31T23:59:59.999Z","l_nano":"1970-01-01T00:00:00.000000001Z",` +
			`"m_raw":"/wA=","n_time":"01:01:01.000001","o_uint":18446744073709551615,"p_uint32":4294967295,"q_uuid":"30313233-3435-3637-3839-616263646566",` +
			`"r_lists":[["a",null],[],null]}`,
		`{"a_bool":false,"b_date":"2024-10-04","c_decimal":123.456,"d_big":0.00,"e_whole":0,"f_float":null,"g_int96":"1970-01-01T00:00:00Z",` +
			`"h_json":"{no","i_list":[],"j_map":{},"k_milli":"1970-01-01T00:00:00Z","l_nano":"1970-01-01T00:00:00Z",` +
			`"m_raw":"text\n","n_time":"00:00:00","o_uint":7,"p_uint32":7,"q_uuid":"00000000-0000-0000-0000-000000000000","r_lists":null}`,
	}
	if diff := cmp.Diff(want, each(t, out.Bytes(), 0)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
