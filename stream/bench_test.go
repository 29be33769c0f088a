package stream_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// many is a source of the same text again and again.
type many struct {
	n     int
	text  []byte
	value *item.Value // instead of the text: nothing is to be checked
}

func (m many) Read(_ context.Context, _ iter.Seq[*stream.Item], out stream.Out) error {
	for i := range m.n {
		var it *stream.Item
		if at := (stream.Place{File: "many", Line: int64(i)}); m.value != nil {
			it = stream.New(m.value, at)
		} else {
			it = stream.Lazy(m.text, at)
		}
		if err := out.Item(it); err != nil {
			return err
		}
		if i&1023 == 0 {
			if err := out.Mark(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// nowhere is a sink that forgets items.
type nowhere struct{ n int64 }

func (s *nowhere) Write(_ context.Context, b []*stream.Item) error {
	s.n += int64(len(b))
	return nil
}
func (s *nowhere) Commit(context.Context) (int64, any, error)          { return s.n, nil, nil }
func (s *nowhere) Close(context.Context) (state, outputs any, _ error) { return nil, nil, nil }
func (s *nowhere) Abandon()                                            {}

func module(name string, about spec.Stream, component any) stream.Module {
	return stream.Module{Spec: spec.Spec{Name: name, Summary: "For a measurement.", Stream: &about},
		Open: func(context.Context, *stream.Env, map[string]any) (any, error) { return component, nil }}
}

// benchmark runs b.N items of about 1 KB through two modifiers.
func benchmark(b *testing.B, checkpoint bool, value *item.Value, f streamtest.Func) {
	text := []byte(fmt.Sprintf(`{"type":"Feature","id":"scene-000001","collection":"c","properties":{"datetime":"2020-01-01T00:00:00Z","note":%q},"assets":{}}`, strings.Repeat("x", 880)))
	s := streamtest.Segment{
		Modules: []stream.Module{
			module("many", spec.Stream{Role: spec.Source}, many{b.N, text, value}),
			module("a", spec.Stream{Role: spec.Modifier, Parallel: true}, f),
			module("b", spec.Stream{Role: spec.Modifier, Parallel: true}, f),
			module("nowhere", spec.Stream{Role: spec.Sink}, &nowhere{}),
		},
		Steps:    streamtest.Chain("many", nil, "a", nil, "b", nil, "nowhere", nil),
		Settings: map[string]any{"checkpoint": checkpoint},
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	b.ResetTimer()
	if got := streamtest.Run(context.Background(), b, s); got.Err != nil {
		b.Fatal(got.Err)
	}
}

func pass(_ context.Context, it *stream.Item) (*stream.Item, error) { return it, nil }

// BenchmarkExecutor is the executor alone.
func BenchmarkExecutor(b *testing.B) { benchmark(b, false, item.NewObject(), pass) }

// BenchmarkFlow is the same with the check of every text.
func BenchmarkFlow(b *testing.B) { benchmark(b, false, nil, pass) }

// BenchmarkCheckpoint is the same with keys and a checkpoint.
func BenchmarkCheckpoint(b *testing.B) { benchmark(b, true, nil, pass) }

// BenchmarkChange is the same with modifiers that change something, and the text written anew.
func BenchmarkChange(b *testing.B) {
	yes, err := item.Parse([]byte("true"))
	if err != nil {
		b.Fatal(err)
	}
	benchmark(b, true, nil, func(_ context.Context, it *stream.Item) (*stream.Item, error) {
		it.Get("properties").Set("seen", yes.Clone())
		it.Bytes()
		return it, nil
	})
}
