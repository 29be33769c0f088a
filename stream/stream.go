// Package stream runs item streams: the segments of a plan, in which items flow from sources through
// modifiers into sinks, all in one process (specification: stac-manager; docs/semantics §6).
//
// Items flow in batches through bounded buffers, so that the slowest step sets the pace and memory does not
// depend on their number. An item that fails is recorded and left behind; the stream goes on. What a sink has
// made durable is noted in a checkpoint, together with how far the sources have come, so that a stream that
// was cut off goes on where it was: no item lost, none twice.
//
// The contract for modules is in this file and in module.go. It is stable.
package stream

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream/durable"
)

// Item is one item on its way: a JSON object, and where it came from.
type Item struct {
	*item.Value
	// Place is where the source found it, for failure records.
	Place Place

	raw    []byte // not yet parsed; Value is nil
	origin origin
}

// Place says where an item or a failure comes from. Empty fields are not known.
type Place struct {
	File string // as the user wrote it
	Line int64  // from 1
	URL  string // without secrets
}

// ID is the item's id as a text, "" when it has none.
func (it *Item) ID() string { return text(it.Get("id")) }

// Collection is the id of the item's collection, "" when it has none. Ids are unique within a collection
// only.
func (it *Item) Collection() string { return text(it.Get("collection")) }

func text(v *item.Value) string {
	if s, ok := v.Str(); ok {
		return s
	}
	if v.Kind() == item.Number {
		return string(v.Bytes())
	}
	return ""
}

// Source makes items (stac-manager: Fetcher).
type Source interface {
	// Read gives all items to out, in an order that is the same when nothing has changed, and returns after the last.
	// It returns at once with the error that a method of out returns. Any other error ends the source and the steps that
	// need it; errors of one item or one page go to out.Fail. in is another step's stream (Spec.Stream.TakesItems), or nil; its items may
	// be kept and sent on. The outcome of an item of in is unknown: after a crash in begins anew, while Env.Cursor is
	// as marked.
	Read(ctx context.Context, in iter.Seq[*Item], out Out) error
}

// Remote is implemented by sources that read pages from a server. Items given before a Mark are stored until they are
// durable at the ends, so that a resumed run requests no page twice: Env.Cursor is that of the last Mark, and the items
// before it come again without Read.
type Remote interface {
	Source
	// Remote reports whether this component does so.
	Remote() bool
}

// Out receives the items of a source. Its methods block while the steps behind are busy, and return an error when the
// stream is over. They are for one goroutine at a time.
type Out interface {
	// Item passes an item on, which it takes over. The text of an item made by Lazy is checked later.
	Item(it *Item) error
	// Mark says that Read can go on from here: with Env.Cursor set to cursor, it makes the items that come
	// after this call. cursor is kept as JSON, up to 64 KiB. A source that never marks begins anew after
	// a crash, and the items already done are skipped behind it.
	Mark(cursor any) error
	// Fail records the failure of an item that could not be made, or of a part of the source. The error is
	// not nil when too many have failed.
	Fail(f Failure) error
	// Expect says how many items will come, for progress only; it may be called again.
	Expect(total int64)
}

// Modifier changes items one by one.
type Modifier interface {
	// Modify returns the item to pass on, usually it itself; nil drops it. An error is a failure of this
	// item, which is recorded and not passed on; an error made by Abort ends the step. Of modules with
	// Spec.Stream.Parallel it is called by several goroutines at once.
	Modify(ctx context.Context, it *Item) (*Item, error)
}

// Sink takes items and makes them durable (stac-manager: Bundler). Its methods are called by one
// goroutine at a time.
type Sink interface {
	// Write takes a batch in order; the items may be kept until the Commit that covers them, the slice may
	// not. An item that alone cannot be written is given to Env.Refuse, at once or before that Commit; an
	// error ends the step.
	Write(ctx context.Context, batch []*Item) error
	// Commit makes durable as many items as it can at a bearable price (fsync included), and returns how many of the
	// items written since the component was opened are durable now, counted in order, refused ones included; and the
	// state (Env.State) from which a sink opened later resumes exactly there. It is called about once a second. The
	// state is kept as JSON, up to 1 MiB.
	Commit(ctx context.Context) (durable int64, state any, err error)
	// Close ends the output: everything is durable and in its final place. It returns the state for going
	// on in a later run, and the step's outputs: a manifest. Called once, after the last Write, unless this step, one
	// before it or the whole segment has failed. A crash right behind it opens the sink again with the state of the last
	// Commit.
	Close(ctx context.Context) (state, outputs any, err error)
	// Abandon ends without finishing: committed items stay, so that the next run can resume. Called once, instead of
	// Close or after its failure.
	Abandon()
}

// Finisher is implemented by sources and modifiers that have outputs, or hold something open.
type Finisher interface {
	// Finish is called once after the last item, also when the step or the segment fails (then with an error, and the
	// outputs do not count).
	Finish(failed error) (outputs any, err error)
}

// Lazy makes an item of the text of a JSON object, which is checked by the steps behind, in parallel. The
// text must not be changed afterwards.
func Lazy(text []byte, at Place) *Item {
	return &Item{Place: at, raw: text}
}

// New makes an item of a value.
func New(v *item.Value, at Place) *Item { return &Item{Value: v, Place: at} }

// State decodes the state of a source or sink, Env.Cursor or Env.State, into v. It returns false when there is none.
func State(raw json.RawMessage, v any) (bool, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return false, nil
	}
	return true, json.Unmarshal(raw, v)
}

// Parse makes sure that the item's text has been checked. The segment does it before a modifier or sink
// sees the item. Errors are CodeInvalid.
func (it *Item) Parse() error {
	if it.Value != nil {
		return nil
	}
	v, err := item.Parse(it.raw)
	if err != nil {
		return err
	}
	if v.Kind() != item.Object {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the item is " + v.Kind().String() + ", not an object"}
	}
	it.Value, it.raw = v, nil
	return nil
}

// Clone makes an item that can be changed on its own, on the way of the same original.
func (it *Item) Clone() *Item {
	out := *it
	out.Value = it.Value.Clone() // the unparsed text is shared: it never changes
	return &out
}

// ErrStateGone is returned by a sink's Open when its output does not match Env.State: it was moved or changed.
var ErrStateGone = durable.ErrGone
