package parquet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/item"
)

func wideSchema() Schema {
	s := Schema{{"id", &Type{Kind: Text, Required: true}}, {"n", &Type{Kind: Int}}}
	for i := range 60 {
		s = append(s, Field{fmt.Sprintf("c%d", i), &Type{Kind: List, Elem: &Type{Kind: Double}}})
	}
	return s
}

func wideRow(i int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"id":"row %d","n":%d`, i, i*i)
	for c := range 60 {
		if (i+c)%7 != 0 {
			fmt.Fprintf(&b, `,"c%d":[%d.5,%d]`, c, i, c)
		}
	}
	return b.String() + "}"
}

func newTestWriter(t *testing.T, out *bytes.Buffer) *Writer {
	t.Helper()
	w, err := NewWriter(out, wideSchema(), Options{RowGroup: 1500})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestSameFile: the file does not depend on how many processors write it, nor on whether its rows come one by one.
func TestSameFile(t *testing.T) {
	const n = 4000
	var single bytes.Buffer
	w := newTestWriter(t, &single)
	for i := range n {
		row, err := item.Parse([]byte(wideRow(i)))
		if err == nil {
			err = w.Write(row)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, procs := range []int{1, 2, 8} {
		before := runtime.GOMAXPROCS(procs)
		var out bytes.Buffer
		w := newTestWriter(t, &out)
		err := w.writeAll(t.Context(), func(_ context.Context, row func([]byte) error) error {
			for i := range n {
				if err := row([]byte(wideRow(i))); err != nil {
					return err
				}
			}
			return nil
		})
		err = errors.Join(err, w.Close())
		runtime.GOMAXPROCS(before)
		if err != nil || !bytes.Equal(out.Bytes(), single.Bytes()) {
			t.Errorf("%d processors: %v, %d bytes; one by one %d bytes", procs, err, out.Len(), single.Len())
		}
	}
}

// TestWriteAllEnds: the first row that does not fit ends the writing and is named; so does an error of the source, and
// the end of the context while nobody takes rows.
func TestWriteAllEnds(t *testing.T) {
	source := func(bad int, at error) func(context.Context, func([]byte) error) error {
		return func(_ context.Context, row func([]byte) error) error {
			for i := 1; ; i++ {
				text := wideRow(i)
				if i == bad {
					if at != nil {
						return at
					}
					text = `{"id":7}`
				}
				if err := row([]byte(text)); err != nil {
					return err
				}
			}
		}
	}
	gone := errors.New("the source is gone")
	var out bytes.Buffer
	if err := newTestWriter(t, &out).writeAll(t.Context(), source(1234, nil)); err == nil || !strings.Contains(err.Error(), "row 1234") {
		t.Errorf("a row that does not fit: %v", err)
	}
	if err := newTestWriter(t, &out).writeAll(t.Context(), source(1234, gone)); !errors.Is(err, gone) {
		t.Errorf("a source that fails: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	n := 0
	err := newTestWriter(t, &out).writeAll(ctx, func(ctx context.Context, row func([]byte) error) error {
		for {
			if n++; n == 1000 {
				cancel(stopped)
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := row([]byte(wideRow(n))); err != nil {
				return err
			}
		}
	})
	if !errors.Is(err, stopped) {
		t.Errorf("a context that ends: %v", err)
	}
}

// TestGuarded: a panic in a goroutine of the writer is an error of the file, not the end of the process.
func TestGuarded(t *testing.T) {
	w := newTestWriter(t, &bytes.Buffer{})
	err := w.eachColumn(func(i int) error {
		if i == 20 {
			panic("column 20")
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "column 20") {
		t.Error(err)
	}
}
