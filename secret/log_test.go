package secret_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/secret"
)

// pointed is shown by JSON, and not by fmt.
type pointed struct{ In *inside }

type inside struct{ Value string }

func TestLogHidesEverywhere(t *testing.T) {
	v := "s3cr3t/\"value\"\n"
	mine := "only-of-one-execution"
	for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var b bytes.Buffer
		r := secret.NewRedactor()
		log := slog.New(secret.LogHandler(handler(&b), r)).With("early", v).WithGroup("g").With("inner", v)
		r.Add(v, "471100471100") // after the log was made
		r.Pin(run, mine)
		log.Info("message with "+v, "string", v, "error", errors.New("of "+v), "bytes", []byte(v), "number", 471100471100, "any", map[string]any{"k": []string{v}},
			"pointer", pointed{&inside{v}}, slog.Group("group", "a", v), v, 1, "duration", time.Second, "execution", run, "mine", mine)
		log.WithGroup("").Warn("plain", "n", 7, "d", 3*time.Second, "b", true)
		text := b.String()
		for _, form := range []string{"s3cr3t", `value\"`, "471100471100", mine} {
			if strings.Contains(text, form) {
				t.Errorf("%s: %s is left in %s", name, form, text)
			}
		}
		if strings.Count(text, secret.Hidden) < 11 || !strings.Contains(text, "plain") {
			t.Errorf("%s: %s", name, text)
		}
		if name == "json" {
			last := text[strings.Index(text, "\n")+1:]
			var line map[string]any
			if err := json.Unmarshal([]byte(last), &line); err != nil || line["g"].(map[string]any)["n"] != 7.0 || line["early"] != secret.Hidden {
				t.Errorf("%v, %s", err, last)
			}
		}
	}
}

func TestLogLeavesLevelsAndValuesAlone(t *testing.T) {
	var b bytes.Buffer
	h := secret.LogHandler(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: slog.LevelWarn}), secret.NewRedactor())
	if h.Enabled(context.Background(), slog.LevelInfo) || !h.Enabled(context.Background(), slog.LevelError) {
		t.Error("levels are others")
	}
	slog.New(h).Warn("m", "list", []int{1, 2}, "token", "\u2983sealed:AAAA\u2984 is hidden")
	var line map[string]any
	if err := json.Unmarshal(b.Bytes(), &line); err != nil || len(line["list"].([]any)) != 2 || line["token"] != "*** is hidden" {
		t.Errorf("%v, %s", err, b.Bytes())
	}
}
