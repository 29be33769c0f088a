package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/store"
)

// maxLine is the length of one log line in bytes.
const maxLine = 16 << 10

// host serves a running step's requests to the system (action.Host).
type host struct {
	a     *attempt
	idx   int32 // of the step that it speaks for: the task's, or that of a member of its segment
	key   string
	level slog.Level

	mu      sync.Mutex
	lines   int              // that have gone out
	tail    *tail            // those after the first ones; nil: there are none
	members map[string]*host // of the other steps of a segment
}

var _ action.Host = (*host)(nil)

func minLevel(name string) slog.Level {
	switch strings.ToLower(name) {
	case "debug":
		return slog.LevelDebug
	case "warning", "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	}
	return slog.LevelInfo
}

func levelName(l slog.Level) string {
	switch {
	case l < slog.LevelInfo:
		return "debug"
	case l < slog.LevelWarn:
		return "info"
	case l < slog.LevelError:
		return "warning"
	}
	return "error"
}

func (h *host) Log(level slog.Level, message string, attrs ...slog.Attr) {
	if level < h.level {
		return
	}
	line := h.line(level, h.a.text(message, maxLine), attrs)
	h.mu.Lock()
	switch h.lines++; {
	case h.lines <= h.a.r.o.HeadLines:
		h.mu.Unlock()
		h.a.r.o.Lines(line)
	default:
		if h.tail == nil {
			h.tail = &tail{}
		}
		first := h.tail.add(line, h.a.r.o.TailLines)
		h.mu.Unlock()
		if first {
			h.a.r.o.Lines(h.line(slog.LevelWarn, fmt.Sprintf("the log continues after %d lines: its last %d come when the attempt ends", h.a.r.o.HeadLines, h.a.r.o.TailLines), nil))
		}
	}
}

func (h *host) line(level slog.Level, message string, attrs []slog.Attr) store.LogLine {
	t := h.a.Task
	line := store.LogLine{Execution: t.Run, Step: h.idx, StepKey: h.key, Attempt: t.Attempt, At: h.a.r.o.Now(), Level: levelName(level), Message: message}
	if len(attrs) > 0 {
		m := make(map[string]any, len(attrs))
		for _, a := range attrs {
			m[a.Key] = a.Value.Resolve().Any()
		}
		if size(m, maxLine) > maxLine {
			m = map[string]any{"omitted": "more than " + sizeText(maxLine)}
		}
		line.Attrs = h.a.r.o.Secrets.JSON(t.Execution, attributes(m))
	}
	return line
}

// attributes always returns JSON: an error text for values that cannot be encoded or are too long.
func attributes(m map[string]any) json.RawMessage {
	raw, err := json.Marshal(m)
	switch {
	case err != nil:
		raw, _ = json.Marshal(map[string]string{"unwritable": shorten(err.Error(), 1000)}) // a map of strings always can be
	case len(raw) > maxLine:
		raw, _ = json.Marshal(map[string]string{"omitted": fmt.Sprintf("%d bytes", len(raw))})
	}
	return raw
}

// shorten gives at most n bytes of a text, and always UTF-8.
func shorten(s string, n int) string {
	if len(s) <= n {
		return strings.ToValidUTF8(s, "�")
	}
	return strings.ToValidUTF8(s[:n], "") + " … (shortened)"
}

// flush lets the last lines go out, and says how many before them were left out.
func (h *host) flush() {
	h.mu.Lock()
	var left int
	var last []store.LogLine
	if h.tail != nil {
		left, last = h.tail.empty()
	}
	members := h.members
	h.mu.Unlock()
	for _, m := range members {
		m.flush()
	}
	if left > 0 {
		h.a.r.o.Lines(h.line(slog.LevelWarn, fmt.Sprintf("%d lines were left out here, the limit is %d at the beginning and %d at the end of an attempt", left, h.a.r.o.HeadLines, h.a.r.o.TailLines), nil))
	}
	for _, line := range last {
		h.a.r.o.Lines(line)
	}
}

func (h *host) Progress(fraction float64, note string) {
	h.a.r.o.Progress(h.a.Task.Run, h.idx, Progress{Fraction: min(max(fraction, 0), 1), Note: h.a.text(note, maxNote)})
}

// Advance is reported once for each dispatch, without waiting.
func (h *host) Advance() {
	if h.a.advanced.Swap(true) {
		return
	}
	t := h.a.Task
	err := h.a.r.o.Reporter.Report(context.WithoutCancel(h.a.ctx), t.Run, engine.Event{Kind: engine.Advanced, At: h.a.r.o.Now().UnixMicro(), Idx: t.Idx, Epoch: t.Epoch})
	if err != nil && h.a.process.Err() == nil {
		h.a.r.o.Log.Warn("report failed", "execution", t.Execution, "step", t.Key, "error", err)
	}
}

func (h *host) Count(c action.Counts) {
	h.a.r.o.Progress(h.a.Task.Run, h.idx, Progress{Fraction: -1, Counts: &c})
}

func (h *host) Member(id string) action.Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.members[id]; m != nil {
		return m
	}
	for _, m := range h.a.Task.Members {
		if m.ID == id && m.Idx != h.idx {
			if h.members == nil {
				h.members = map[string]*host{}
			}
			one := &host{a: h.a, idx: m.Idx, key: m.Key, level: minLevel(m.LogLevel)}
			h.members[id] = one
			return one
		}
	}
	return h
}

func (h *host) Spawn(ctx context.Context, steps []action.NewStep) error {
	left := maxSpawn
	for i := range steps {
		n := &steps[i]
		left -= spawnOverhead + len(n.Name) + len(n.Key) + len(n.Action) + size(n.Params, left)
		for _, name := range n.DependsOn {
			left -= len(name)
		}
		if left < 0 {
			return tooLarge("the steps of one call of Spawn are", maxSpawn, "spawn them in several calls, and hand large values over in files")
		}
	}
	spawns := make([]engine.Spawn, len(steps))
	for i := range steps {
		if err := h.a.r.completeSpawn(h.a.Task.Execution, &steps[i], &spawns[i]); err != nil {
			return action.Fail(err)
		}
	}
	t := h.a.Task
	return h.a.awaited(ctx, h.a.r.o.Reporter.Report(ctx, t.Run, engine.Event{Kind: engine.Spawned, At: h.a.r.o.Now().UnixMicro(), Idx: t.Idx, Epoch: t.Epoch, Spawns: spawns}))
}

// completeSpawn looks up everything that the engine needs to know of a new step.
func (r *Runner) completeSpawn(execution string, n *action.NewStep, out *engine.Spawn) error {
	invalid := func(format string, args ...any) error {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "spawned step " + n.Name + ": " + fmt.Sprintf(format, args...)}
	}
	if n.Name == "" || len(n.Name)+len(n.Key) > 1024 {
		return invalid("needs a name, and at most 1,024 bytes of name and key")
	}
	if n.OnFailure != "" && n.OnFailure != "fail" && n.OnFailure != "continue" {
		return invalid("on_failure is %q, not fail or continue", n.OnFailure)
	}
	full, err := r.o.Actions.Complete(*n)
	if err != nil {
		return err
	}
	act, _ := r.o.Actions.Lookup(full.Action)
	*out = engine.Spawn{Name: full.Name, Key: full.StepKey(), Action: full.Action, DependsOn: full.DependsOn, Timeout: full.Timeout,
		Continue: full.OnFailure == "continue", NotIdempotent: act.Spec.NotIdempotent, Spawns: act.Spec.Spawns}
	if out.Timeout <= 0 {
		out.Timeout = act.Spec.Timeout
	}
	switch {
	case n.Retry != nil:
		out.Retry = *n.Retry
	case act.Spec.Retry != nil:
		out.Retry = *act.Spec.Retry
	}
	if _, err := r.complete(full.Action, n.Params); err != nil {
		return invalid("%v", err)
	}
	raw, err := expr.Marshal(n.Params)
	if err != nil {
		return invalid("params: %v", err)
	}
	if n.Params != nil {
		out.Params = r.o.Secrets.Seal(execution, raw)
	}
	return nil
}

func (h *host) Data(ctx context.Context) (data map[string]json.RawMessage, err error) {
	err = h.a.await(ctx, func() (err error) {
		data, err = h.data(ctx)
		return err
	})
	return data, err
}

func (h *host) data(ctx context.Context) (map[string]json.RawMessage, error) {
	data := map[string]json.RawMessage{}
	for row, err := range h.a.r.o.Records.Outputs(ctx, h.a.Task.Run) {
		if err != nil {
			return nil, err
		}
		if len(row.Output) == 0 {
			continue // it completed without outputs
		}
		raw, err := h.load(ctx, row.Output)
		if err != nil {
			return nil, err
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(raw, &members); err != nil {
			return nil, fmt.Errorf("outputs of step %d: %w", row.Idx, err)
		}
		for k, v := range members {
			data[k] = v
		}
	}
	return data, nil
}

func (h *host) Outputs(ctx context.Context, key string) (json.RawMessage, error) {
	var raw []byte
	err := h.a.await(ctx, func() (err error) {
		raw, err = h.a.r.o.Records.Output(ctx, h.a.Task.Run, key)
		return err
	})
	if err != nil {
		return nil, err
	}
	return h.load(ctx, raw)
}

func (h *host) load(ctx context.Context, raw []byte) ([]byte, error) {
	if engine.IsRef(raw) {
		ref := string(raw)
		err := h.a.await(ctx, func() (err error) {
			raw, err = h.a.r.o.Blobs.Load(ctx, ref)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return h.a.r.o.Secrets.Open(h.a.Task.Execution, raw)
}

func (h *host) Recall(ctx context.Context, key string) (json.RawMessage, bool, error) {
	raw, ok, err := h.a.memo(ctx, key)
	if err != nil || !ok {
		return nil, false, err
	}
	raw, err = h.a.r.o.Secrets.Open(h.a.Task.Execution, raw)
	return raw, err == nil, err
}

func (h *host) Record(ctx context.Context, key string, value json.RawMessage) error {
	if len(key) > maxMemoKey {
		return tooLarge("the key of what is recorded is", maxMemoKey, "")
	}
	if len(value) > maxMemo {
		return tooLarge("what is recorded under "+key+" is", maxMemo, "write a file and record its path")
	}
	return h.a.putMemo(ctx, key, h.a.seal(value))
}

// memo returns the step's record under a key.
func (a *attempt) memo(ctx context.Context, key string) (value json.RawMessage, ok bool, err error) {
	err = a.await(ctx, func() (err error) {
		value, ok, err = a.r.o.Records.Memo(ctx, a.Task.Run, a.Task.Idx, key)
		return err
	})
	return value, ok, err
}

func (a *attempt) putMemo(ctx context.Context, key string, value json.RawMessage) error {
	m := store.Memo{Execution: a.Task.Run, Step: a.Task.Idx, Epoch: a.Task.Epoch, Key: key, Value: value}
	return a.await(ctx, func() error { return a.r.o.Records.PutMemo(ctx, m) })
}

// Own implements action.Host.
func (h *host) Own(ctx context.Context, state json.RawMessage) error { return h.a.own(ctx, state) }

// Eval evaluates a template with the step's values and the given names on top.
func (h *host) Eval(template string, extra map[string]any) (any, error) {
	t, err := expr.Parse(template)
	if err != nil {
		return nil, err
	}
	v, err := t.Eval(expr.Layered{Extra: extra, Under: h.a.templateScope()}, h.a.Task.Limits)
	if failed := h.a.scopeError(); failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	return h.a.localMedia(v)
}

// Scope implements action.Host.
func (h *host) Scope() action.Scope { return expr.Layered{Under: h.a.templateScope()} }
