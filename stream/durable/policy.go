// Package durable writes files of rows that survive crashes: a file grows beside its place, each block durable
// when it is committed, and is published at once when it is complete. What a finished run leaves at the place
// (replace, append, upsert) and what becomes of equal keys means the same for every format and every sink that
// writes with it. Local files and, through Places, S3 objects. Stable.
package durable

import (
	"cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

// Mode is the content of a place after a finished run (semantics §8, Writing).
type Mode string

// The modes.
const (
	// Replace leaves exactly the items of the run and of the runs that it resumes.
	Replace Mode = "replace"
	// Append adds to existing items; equal keys may repeat.
	Append Mode = "append"
	// Upsert adds to existing items; an item replaces the one with its key.
	Upsert Mode = "upsert"
)

// Keep selects among different items with one key within a run.
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
	AllowEmpty bool // an empty run may replace existing items
}

// Writing is the part of a config that is a Policy, for modules to embed.
type Writing struct {
	// No default tags: the hash of a config by which checkpoints are found is of the defaults, too.
	Write      Mode `json:"write"`
	Keep       Keep `json:"keep" enum:"fail,first,last" doc:"What happens to different items with one key within a run: the later one fails (\x60fail\x60, the default), the \x60first\x60 or the \x60last\x60 is kept. Equal items count as one."`
	AllowEmpty bool `json:"allow_empty" doc:"Whether \x60write: replace\x60 may leave nothing where something was, when the sources gave nothing. Else the step fails with code \x60not_replaced\x60."`
}

// WriteField is the field `write`; otherwise says which mode is the default.
func WriteField(otherwise string) spec.Field {
	return spec.Field{Name: "write", Type: spec.String, Enum: []string{string(Replace), string(Append), string(Upsert)},
		Doc: "What a finished run leaves at the destination: `replace`, what the run gave and nothing else; `append`, what was there and what the run gave; " +
			"`upsert`, the same, but an item takes the place of the one with its key. Defaults to " + otherwise + "."}
}

// Policy is the policy of the fields.
func (w Writing) Policy(otherwise Mode) (Policy, error) {
	p := Policy{Mode: cmp.Or(w.Write, otherwise), Keep: cmp.Or(w.Keep, KeepFail), AllowEmpty: w.AllowEmpty}
	if p.AllowEmpty && p.Mode != Replace {
		return p, stepwell.Invalid("an empty run takes nothing away from what is appended or upserted to", "allow_empty belongs to write: replace")
	}
	return p, nil
}

// Given counts the items that a run gave a sink, for MayReplace.
type Given struct {
	Read   int64 // items that came from the sources
	Failed int64 // items and parts of the sources that failed
	Rows   int64 // items that are to be published
}

// MayReplace is an error with CodeNotReplaced when a run must not replace the contents of place: it has nothing to
// publish, because the sources gave nothing (unless AllowEmpty) or because all their items failed. holds reports
// whether the place has contents.
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
