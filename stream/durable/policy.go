// Package durable writes files of rows that survive crashes: a file grows beside its place, each block durable
// when it is committed, and is published at once when it is complete. What a finished run leaves at the place
// (replace, append, upsert) and what becomes of equal keys means the same for every format and every sink that
// writes with it. Local files and, through Places, S3 objects. Stable.
package durable

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

// Mode says what a finished run leaves at its place (semantics §8, Writing).
type Mode string

// The modes.
const (
	// Replace leaves exactly what the run gave, together with the runs that it goes on from.
	Replace Mode = "replace"
	// Append adds to what is there; equal keys may repeat.
	Append Mode = "append"
	// Upsert adds to what is there; an item takes the place of the one with its key.
	Upsert Mode = "upsert"
)

// Keep says what becomes of different items with one key within a run.
type Keep string

// The ways.
const (
	KeepFail  Keep = "fail"  // the later one is a failure
	KeepFirst Keep = "first" // the later one is left out
	KeepLast  Keep = "last"  // the earlier one is left out
)

// Policy is how a sink writes.
type Policy struct {
	Mode       Mode
	Keep       Keep
	AllowEmpty bool // an empty run may replace what is there
}

// Fields are the config fields of a Policy. write says which mode is the default.
func Fields(write string) []spec.Field {
	// No Default: the hash of a config by which checkpoints are found is of the defaults, too.
	return []spec.Field{{Name: "write", Type: spec.String, Enum: []string{string(Replace), string(Append), string(Upsert)},
		Doc: "What a finished run leaves at the place: `replace`, what the run gave and nothing else; `append`, what was there and what the run gave; " +
			"`upsert`, the same, but an item takes the place of the one with its key. Defaults to " + write + "."},
		{Name: "keep", Type: spec.String, Enum: []string{string(KeepFail), string(KeepFirst), string(KeepLast)},
			Doc: "What becomes of different items with one key within a run: the later one fails (`fail`, the default), the `first` or the `last` is kept. Equal items count as one."},
		{Name: "allow_empty", Type: spec.Boolean,
			Doc: "Whether `write: replace` may leave nothing where something was, when the sources gave nothing. Else the step fails with code `not_replaced`."},
	}
}

// PolicyOf reads the fields. Templates count as not given.
func PolicyOf(config map[string]any, write Mode) (Policy, error) {
	p := Policy{Mode: write, Keep: KeepFail}
	var err error
	choose := func(name string, known []string, to func(string)) {
		text, _ := config[name].(string)
		switch {
		case text == "" || strings.Contains(text, "{{"):
		case !slices.Contains(known, text):
			err = &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("%s is %q", name, text), Hint: "write one of " + strings.Join(known, ", ")}
		default:
			to(text)
		}
	}
	choose("write", []string{string(Replace), string(Append), string(Upsert)}, func(s string) { p.Mode = Mode(s) })
	choose("keep", []string{string(KeepFail), string(KeepFirst), string(KeepLast)}, func(s string) { p.Keep = Keep(s) })
	p.AllowEmpty, _ = config["allow_empty"].(bool)
	if p.AllowEmpty && p.Mode != Replace && err == nil {
		err = &stepwell.Error{Code: stepwell.CodeInvalid, Message: "allow_empty belongs to write: replace", Hint: "an empty run takes nothing away from what is appended or upserted to"}
	}
	return p, err
}

// Given is what a run gave a sink, for MayReplace.
type Given struct {
	Read   int64 // items that came from the sources
	Failed int64 // items and parts of the sources that failed
	Rows   int64 // items that are to be published
}

// MayReplace is an error with CodeNotReplaced when a run must not replace what is at place: it has nothing to
// publish, because the sources gave nothing (unless AllowEmpty) or because what they gave has failed. holds
// reports whether the place holds something.
func (p Policy) MayReplace(place string, g Given, holds func() (bool, error)) error {
	if p.Mode != Replace || g.Rows > 0 || g.Failed == 0 && (g.Read > 0 || p.AllowEmpty) {
		return nil
	}
	there, err := holds()
	if err != nil || !there {
		return err
	}
	e := &stepwell.Error{Code: stepwell.CodeNotReplaced, Message: place + " is not replaced: the sources gave nothing", Hint: "allow_empty: true empties it"}
	if g.Failed > 0 {
		e.Message, e.Hint = place+" is not replaced: every item failed", "see the failure report; what was there is still there"
	}
	return e
}
