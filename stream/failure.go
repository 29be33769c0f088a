package stream

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

// maxMessage bounds every text of a failure record, in bytes.
const maxMessage = 1000

// at is the position in a root's stream of what failed. A stream that goes on from before it repeats that, and reports it
// once.
type at struct {
	root int
	seq  int64
	marks
}

// recordTime is how the time of a failure is written.
const recordTime = "2006-01-02T15:04:05.000Z07:00"

// failureRecord is a failure as it is written (stac-manager §4; source-systems A.6).
type failureRecord struct {
	At         []int64  `json:"at,omitempty"`     // root and number; in the spool only
	Origin     []uint64 `json:"origin,omitempty"` // root and marks of the item; in the spool only. A record that a retry looks for also has the ends that it did not reach
	Box        *Box     `json:"bbox,omitempty"`   // of the item; in the spool only
	Step       string   `json:"step_id"`
	Item       string   `json:"item_id"`
	Collection string   `json:"collection_id,omitempty"`
	Type       string   `json:"error_type"`
	Message    string   `json:"message"`
	Time       string   `json:"timestamp"`
	Context    *Context `json:"context,omitempty"`
}

func recordOf(f *Failure, where at, now time.Time, hide func(string) string) *failureRecord {
	r := &failureRecord{Box: f.box, Step: f.Step, Item: cmp.Or(f.Item, "unknown"), Collection: f.Collection, Type: f.Type, Time: now.UTC().Format(recordTime)}
	if where.seq > 0 {
		r.At = []int64{int64(where.root), where.seq}
		if where.marks != (marks{}) {
			r.Origin = []uint64{uint64(where.root), where.id, where.place}
		}
	}
	context := f.Context
	if f.Err != nil {
		r.Message = cut(hide(f.Err.Error()))
		if e, ok := errors.AsType[*Error](f.Err); ok {
			context = context.over(e.Context)
			r.Type = cmp.Or(r.Type, e.Type)
		}
	}
	r.Type = cmp.Or(r.Type, DataProcessing)
	for _, text := range []*string{&r.Item, &r.Collection, &r.Type, &context.File, &context.Field, &context.URL, &context.Schema, &context.Pointer, &context.Keyword} {
		*text = cut(hide(*text))
	}
	if context != (Context{}) {
		r.Context = &context
	}
	return r
}

// cut bounds a message, at the border of a character.
func cut(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxMessage {
		return s
	}
	return stepwell.Head(s, maxMessage) + "…"
}

// over fills empty fields from other.
func (c Context) over(other Context) Context {
	to, from := reflect.ValueOf(&c).Elem(), reflect.ValueOf(other)
	for i := range to.NumField() {
		if to.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return c
}

// limit is how many failures end a segment.
type limit struct {
	strict bool
	count  int64   // more than these; -1: no limit
	share  float64 // of the items read, more than this; 0: no limit
	text   string
}

// shareFrom is how many items must have been read before a share of them says anything.
const shareFrom = 100

func parseLimit(text string, strict bool) (limit, error) {
	l := limit{strict: strict, count: -1, text: strings.TrimSpace(text)}
	if l.text == "" {
		return l, nil
	}
	if percent, ok := strings.CutSuffix(l.text, "%"); ok {
		p, err := strconv.ParseFloat(strings.TrimSpace(percent), 64)
		if err != nil || !(p > 0 && p <= 100) {
			return l, stepwell.Invalid(`give a number of items such as 10, or a share such as "5%" (above 0%, up to 100%)`, "max_failures %q is not a share", text)
		}
		l.share = p / 100
		return l, nil
	}
	n, err := strconv.ParseInt(l.text, 10, 64)
	if err != nil || n < 0 {
		return l, stepwell.Invalid(`give a number of items such as 10, or a share such as "5%"`, "max_failures %q is not a number", text)
	}
	l.count = n
	return l, nil
}

// check says whether so many failures are too many; at the end every share counts.
func (l *limit) check(failures, read int64, end bool) error {
	switch {
	case failures == 0:
		return nil
	case l.strict:
		return tooMany("an item failed, and strict is set", "see the failure report; without strict, failed items are left behind and the stream continues")
	case l.count >= 0 && failures > l.count:
		return tooMany(fmt.Sprintf("%d items failed; max_failures is %s", failures, l.text), "see the failure report, or raise max_failures")
	case l.share > 0 && (end || read >= shareFrom) && float64(failures) > l.share*float64(read):
		return tooMany(fmt.Sprintf("%d of %d items failed; max_failures is %s", failures, read, l.text), "see the failure report, or raise max_failures")
	}
	return nil
}

func tooMany(message, hint string) error {
	return action.Fail(&stepwell.Error{Code: stepwell.CodeFailed, Message: message, Hint: hint})
}

// failItem records that an item has failed at a step. The error is not nil when too many have.
func (s *segment) failItem(n *node, it *Item, cause error) error {
	f := Failure{Err: cause, Context: Context{File: it.Place.File, Line: it.Place.Line, URL: it.Place.URL}}
	if it.Value != nil {
		f.Item, f.Collection = it.ID(), it.Collection()
		if box, ok := boxOf(it.Value); ok {
			f.box = &box
		}
	}
	if e, ok := errors.AsType[*Error](cause); ok {
		f.Context = e.Context.over(f.Context)
	}
	where := at{}
	if it.origin.root != nil {
		where = at{it.origin.root.index, it.origin.seq, it.origin.marks}
	}
	return s.record(n, f, where)
}

// record writes a failure down. The error is not nil when too many have failed, or it cannot be written;
// then it has ended the segment already.
func (s *segment) record(n *node, f Failure, where at) error {
	if f.Step == "" {
		f.Step = n.step.ID
	}
	f.Collection = cmp.Or(f.Collection, s.collection)
	r := recordOf(&f, where, time.Now(), s.hide)
	raw, err := json.Marshal(r)
	if err != nil {
		return s.fail(n, fmt.Errorf("failure record: %w", err))
	}
	again, total, err := s.spool.add(r, raw)
	if err != nil {
		return s.fail(n, fmt.Errorf("failure record: %w", err))
	}
	if again { // it was reported before the stream was cut off
		return nil
	}
	n.counts.failed.Add(1)
	if err := s.limit.check(total, max(s.read.Load(), total), false); err != nil {
		if s.limit.strict && f.Err != nil {
			err = tooMany(fmt.Sprintf("item %s failed, and strict is set: %s", r.Item, r.Message),
				cmp.Or(stepwell.HintOf(f.Err), "without strict, failed items are left behind and the stream continues"))
		}
		return s.fail(n, err)
	}
	return nil
}

// aborts reports whether an error ends its step instead of failing an item.
func aborts(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.abort
}
