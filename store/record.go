package store

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
	"unsafe"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/expr/jsonvalue"
)

// These are the parts of a commit that every database stores in the same way.

// Extra holds the columns that few step rows have, as JSON in one nullable column (rare).
type Extra struct {
	Key     string          `json:"k,omitempty"`
	Action  string          `json:"a,omitempty"`
	Input   string          `json:"i,omitempty"` // JSON as text, as it came
	Failure *engine.Failure `json:"f,omitempty"`
	Wake    int64           `json:"w,omitempty"`
	// A waiting step's signal key, and the step's cost in millionths.
	External string `json:"x,omitempty"`
	Cost     int64  `json:"c,omitempty"`
	stepwell.Usage
	// The counts of a stream step whose outputs lack them.
	Counted *engine.Items `json:"n,omitempty"`
}

// ExtraOf returns a row's rare columns without its Input, which Append takes by itself.
func ExtraOf(r *engine.StepRow) Extra {
	return Extra{Key: r.Key, Action: r.Action, Failure: r.Error, Wake: r.Wake, External: r.External, Cost: r.Cost, Usage: r.Usage, Counted: r.Counted}
}

// Encode returns nil if there is none of it.
func (x *Extra) Encode() ([]byte, error) {
	rest := *x
	rest.Input = ""
	return rest.Append(nil, []byte(x.Input))
}

// Append adds the JSON of rare columns, of which Input is not x's but the given one, or nothing if there is none of it. Most rows
// have none, or have nothing but the rendered params, which are quoted here once, without the escapes that HTML needs.
func (x *Extra) Append(to, input []byte) ([]byte, error) {
	none := *x == Extra{}
	if len(input) > 0 {
		to = jsonvalue.AppendQuoted(append(to, `{"i":`...), unsafe.String(unsafe.SliceData(input), len(input)))
		if none {
			return append(to, '}'), nil
		}
	}
	if none {
		return to, nil
	}
	whole := *x // so that x needs no memory of its own where there is none of it
	rest, err := json.Marshal(&whole)
	if len(input) > 0 && err == nil {
		rest[0] = ','
	}
	return append(to, rest...), err
}

// DecodeExtra sets a row's rare columns from what Encode returned.
func DecodeExtra(raw []byte, r *engine.StepRow) error {
	if len(raw) == 0 {
		return nil
	}
	if key, action, ok := plainExtra(raw); ok {
		r.Key, r.Action, r.Error, r.Wake = key, action, nil, 0
		r.External, r.Cost, r.Usage, r.Counted = "", 0, stepwell.Usage{}, nil
		return nil
	}
	var x Extra
	if err := json.Unmarshal(raw, &x); err != nil {
		return err
	}
	r.Key, r.Action, r.Error, r.Wake = x.Key, x.Action, x.Failure, x.Wake
	r.External, r.Cost, r.Usage, r.Counted = x.External, x.Cost, x.Usage, x.Counted
	if x.Input != "" {
		r.Input = []byte(x.Input)
	}
	return nil
}

// plainExtra reads the rare columns of nearly all rows: a key, and mostly an action, without escapes. Reading a history decodes as many of
// them as there are steps, and their JSON would cost as much as all else of it.
func plainExtra(raw []byte) (key, action string, ok bool) {
	rest, ok := bytes.CutPrefix(raw, []byte(`{"k":"`))
	if !ok || bytes.IndexByte(rest, '\\') >= 0 || !utf8.Valid(rest) {
		return "", "", false
	}
	k, rest, _ := bytes.Cut(rest, []byte(`"`))
	if a, cut := bytes.CutPrefix(rest, []byte(`,"a":"`)); cut {
		a, end, _ := bytes.Cut(a, []byte(`"`))
		return string(k), string(a), string(end) == "}"
	}
	return string(k), "", string(rest) == "}"
}

// Unnamed lists the steps whose rows a reader could not find by the log's events, as the log writes steps
// (engine.AppendRuns): all ended steps except, nearly all, completed attempts in the short form.
func (c *Commit) Unnamed() string {
	var runs [][2]int32
	log := named{log: c.Log}
	for i := range c.Steps {
		r := &c.Steps[i]
		if !r.Status.Terminal() || r.Status == stepwell.StepCompleted && log.has(r.Idx) {
			continue
		}
		if last := len(runs) - 1; last >= 0 && runs[last][0]+runs[last][1] == r.Idx {
			runs[last][1]++
		} else {
			runs = append(runs, [2]int32{r.Idx, 1})
		}
	}
	if runs == nil {
		return ""
	}
	raw, _ := json.Marshal(runs) // numbers always can be
	return string(raw)
}

// maxMisses bounds the cost of a log in another order than the rows: after so many steps not found behind the one
// before, all are listed.
const maxMisses = 16

// named looks for completed attempts in a log, which has them in the order of the rows.
type named struct {
	log    []byte
	at     int
	misses int
	buf    [24]byte
}

func (n *named) has(idx int32) bool {
	if n.misses > maxMisses {
		return false
	}
	event := append(strconv.AppendInt(append(n.buf[:0], "[2,"...), int64(idx), 10), ',')
	if i := bytes.Index(n.log[n.at:], event); i >= 0 {
		n.at += i
		return true
	}
	n.misses++
	return bytes.Contains(n.log[:n.at], event)
}

// SpawnedStep holds the dependencies of a spawned step, which only the spawning event has.
type SpawnedStep struct {
	Idx       int32
	DependsOn string // JSON
	Created   int64  // µs
}

// batches are memory for Reports.
var batches = sync.Pool{New: func() any { return new(engine.Batch) }}

// Reports returns the rarer events of the log that later reads need: attempts seen running and spawned steps. A commit
// without them costs two searches of its log.
func (c *Commit) Reports() (seen []engine.Attempt, spawned []SpawnedStep, err error) {
	spawns, running := bytes.Contains(c.Log, []byte(`"spawn":[`)), bytes.Contains(c.Log, []byte(`{"k":6,`))
	if !spawns && !running {
		return nil, nil, nil
	}
	b := batches.Get().(*engine.Batch)
	defer func() {
		clear(b.Events) // they may refer to much
		batches.Put(b)
	}()
	if err := b.Decode(c.Version, c.Log); err != nil {
		return nil, nil, err
	}
	for i := range b.Events {
		if ev := &b.Events[i]; ev.Kind == engine.Running {
			seen = append(seen, engine.Attempt{Idx: ev.Idx, Epoch: ev.Epoch})
		}
	}
	if spawns {
		spawned, err = c.spawned(b)
	}
	return seen, spawned, err
}

func (c *Commit) spawned(b *engine.Batch) (out []SpawnedStep, err error) {
	type origin struct {
		spawn *engine.Spawn
		at    int64
	}
	from := map[string]origin{}
	for i := range b.Events {
		for j := range b.Events[i].Spawns {
			x := &b.Events[i].Spawns[j]
			from[x.Key] = origin{x, b.Events[i].At}
		}
	}
	for i := range c.Steps {
		r := &c.Steps[i]
		o, ok := from[r.Key]
		if !ok || r.Status != stepwell.StepPending {
			continue
		}
		deps, err := json.Marshal(append([]string{}, o.spawn.DependsOn...))
		if err != nil {
			return nil, err
		}
		out = append(out, SpawnedStep{Idx: r.Idx, DependsOn: string(deps), Created: o.at})
	}
	return out, nil
}

// BlobHashes returns the hashes of the blobs that a commit refers to: outputs may be references, and its log holds
// some. One too many keeps a blob for longer; none is missed.
func (c *Commit) BlobHashes() (found []string) {
	found = appendHashes(found, c.Log)
	for i := range c.Steps {
		if out := c.Steps[i].Output; engine.IsRef(out) {
			found = appendHashes(found, out)
		}
	}
	if c.Update != nil {
		found = appendHashes(found, c.Update.Outputs)
	}
	return found
}

func appendHashes(to []string, raw []byte) []string {
	for {
		i := bytes.Index(raw, []byte(refPrefix))
		if i < 0 || len(raw) < i+len(refPrefix)+hashSize {
			return to
		}
		raw = raw[i+len(refPrefix):]
		if hash := string(raw[:hashSize]); strings.Trim(hash, "0123456789abcdef") == "" {
			to = append(to, hash)
		}
	}
}

// levels of log lines in order of weight.
var levels = []string{"debug", "info", "warning", "error"}

// LevelNumber is the weight of a level of a log line; CodeInvalid for an unknown one.
func LevelNumber(name string) (int, error) {
	if i := slices.Index(levels, name); i >= 0 {
		return i, nil
	}
	return 0, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "log level " + strconv.Quote(name), Hint: "use debug, info, warning or error"}
}

// LevelName is the level with a weight.
func LevelName(n int) string { return levels[max(0, min(n, len(levels)-1))] }
