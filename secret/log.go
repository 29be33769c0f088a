package secret

import (
	"context"
	"encoding/json"
	"log/slog"
)

// LogHandler redacts a program's own log: messages and attributes of every kind, with the secrets known when a line is
// written. An attribute "execution" adds the secrets of that execution.
func LogHandler(next slog.Handler, r *Redactor) slog.Handler {
	return &logHandler{next: next, redact: r}
}

// logHandler keeps the attributes that it is given for as long as secrets may become known that are in them.
type logHandler struct {
	next   slog.Handler
	redact *Redactor
	before []logStep
}

// logStep is one call of WithAttrs or WithGroup.
type logStep struct {
	group string
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler { return h.with(logStep{attrs: attrs}) }

// WithGroup implements slog.Handler.
func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.with(logStep{group: name})
}

func (h *logHandler) with(s logStep) slog.Handler {
	return &logHandler{h.next, h.redact, append(h.before[:len(h.before):len(h.before)], s)}
}

// Handle implements slog.Handler.
func (h *logHandler) Handle(ctx context.Context, line slog.Record) error {
	execution := h.execution(&line)
	next := h.next
	for _, s := range h.before {
		if s.group != "" {
			next = next.WithGroup(s.group)
			continue
		}
		next = next.WithAttrs(h.attrs(execution, s.attrs))
	}
	out := slog.NewRecord(line.Time, line.Level, h.text(execution, line.Message), line.PC)
	line.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(execution, a))
		return true
	})
	return next.Handle(ctx, out)
}

// execution is the execution that a line is about, "" for none.
func (h *logHandler) execution(line *slog.Record) (id string) {
	look := func(a slog.Attr) bool {
		if a.Key == "execution" && a.Value.Kind() == slog.KindString {
			id = a.Value.String()
		}
		return true
	}
	for _, s := range h.before {
		for _, a := range s.attrs {
			look(a)
		}
	}
	line.Attrs(look)
	return id
}

func (h *logHandler) text(execution, text string) string {
	return MaskText(h.redact.Text(execution, text))
}

func (h *logHandler) attrs(execution string, list []slog.Attr) []slog.Attr {
	out := make([]slog.Attr, len(list))
	for i, a := range list {
		out[i] = h.attr(execution, a)
	}
	return out
}

func (h *logHandler) attr(execution string, a slog.Attr) slog.Attr {
	return slog.Attr{Key: h.text(execution, a.Key), Value: h.value(execution, a.Value)}
}

// value redacts a value. Anything else than text that holds a secret becomes redacted text.
func (h *logHandler) value(execution string, v slog.Value) slog.Value {
	v = v.Resolve()
	switch v.Kind() {
	case slog.KindBool, slog.KindDuration, slog.KindTime:
		return v
	case slog.KindString:
		return slog.StringValue(h.text(execution, v.String()))
	case slog.KindGroup:
		return slog.GroupValue(h.attrs(execution, v.Group())...)
	}
	text := v.String() // of errors and other types with a String method
	if raw, ok := v.Any().([]byte); ok {
		text = string(raw)
	}
	if hidden := h.text(execution, text); hidden != text {
		return slog.StringValue(hidden)
	}
	if v.Kind() != slog.KindAny {
		return v
	}
	raw, err := json.Marshal(v.Any()) // as some handlers write it, pointers followed
	if err != nil {
		return v
	}
	if hidden := h.text(execution, string(raw)); hidden != string(raw) {
		return slog.StringValue(hidden)
	}
	return v
}
