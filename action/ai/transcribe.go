package ai

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/spec"
)

type transcribeParams struct {
	service
	File        string   `json:"file" required:"true" minLength:"1" doc:"The recording, relative to the pipeline's directory, read while it is sent."`
	Filename    string   `json:"filename" doc:"The file name sent to the service, many of which take the format from its extension; the file's own by default."`
	Language    string   `json:"language" doc:"Language of the recording, such as en; found out by default."`
	Prompt      string   `json:"prompt" doc:"Context for the model: names and words that occur, or the text before."`
	Temperature *float64 `json:"temperature" minimum:"0" maximum:"1" doc:"Sampling temperature; the service's own by default."`
	Format      string   `json:"format" default:"verbose_json" enum:"json,verbose_json,text,srt,vtt" doc:"Format of the answer; segments and duration are in ´verbose_json´ alone, which not all models have."`
}

type transcribeOutputs struct {
	Result    string  `json:"result" doc:"The transcript; subtitles with ´srt´ and ´vtt´."`
	Text      string  `json:"text" doc:"The same."`
	Segments  []any   `json:"segments" doc:"The segments: {start, end, text} each, in seconds."`
	Language  string  `json:"language" doc:"Language of the recording, if the service tells."`
	Duration  float64 `json:"duration" doc:"Seconds of sound, if the service tells."`
	Model     string  `json:"model" doc:"The requested model."`
	Usage     usage   `json:"usage" doc:"What this attempt cost; failed attempts are counted separately."`
	RequestID string  `json:"request_id" doc:"The service's name of the request."`
}

func transcribe(client *outbound.Client) action.Action {
	return action.Of(transcribeSpec(), func(ctx context.Context, call *action.Call, p transcribeParams) (*transcribeOutputs, error) {
		parts, err := p.form()
		if err != nil {
			return nil, action.Fail(err)
		}
		response := "json"
		if p.Format != "json" && p.Format != "verbose_json" {
			response = "text"
		}
		a, err := p.post(ctx, call, client, "audio/transcriptions", map[string]any{"multipart": parts, "response": response})
		if err != nil {
			return nil, err
		}
		used := usage{Input: a.Input, Output: a.Output, Cached: a.Cached}
		if text, ok := a.Body.(string); ok && response == "text" {
			return &transcribeOutputs{Result: text, Text: text, Segments: []any{}, Model: p.Model, Usage: used, RequestID: a.RequestID}, nil
		}
		m, _ := a.Body.(map[string]any)
		text, ok := m["text"].(string)
		if !ok {
			return nil, unusable(ctx, call, outbound.KindResult, used, "the answer is not a transcript: it has no text%s", errorIn(m))
		}
		seconds := cmp.Or(secondsAt(m["usage"], "seconds"), secondsAt(m, "duration"))
		used.Seconds = seconds
		return &transcribeOutputs{Result: text, Text: text, Segments: segmentsOf(m["segments"]), Language: textAt(m, "language"),
			Duration: cmp.Or(secondsAt(m, "duration"), seconds), Model: p.Model, Usage: used, RequestID: a.RequestID}, nil
	})
}

// form is the body of the request; the file comes last, so that a service knows what to do with it.
func (p *transcribeParams) form() ([]any, error) {
	members := map[string]any{"model": p.Model, "response_format": p.Format}
	for name, text := range map[string]string{"language": p.Language, "prompt": p.Prompt} {
		if text != "" {
			members[name] = text
		}
	}
	if p.Temperature != nil {
		members["temperature"] = *p.Temperature
	}
	p.addExtra(members)
	var parts []any
	for _, name := range slices.Sorted(maps.Keys(members)) {
		values, ok := members[name].([]any)
		if !ok {
			values = []any{members[name]}
		}
		for _, v := range values {
			text, err := textOf(v)
			if err != nil {
				return nil, err
			}
			parts = append(parts, map[string]any{"name": name, "value": text})
		}
	}
	return append(parts, map[string]any{"name": "file", "file": p.File, "filename": p.Filename}), nil
}

// segmentsOf keeps what templates use of the segments: models add their tokens, which are many.
func segmentsOf(v any) []any {
	list, _ := v.([]any)
	out := make([]any, 0, len(list))
	for _, s := range list {
		m, _ := s.(map[string]any)
		segment := map[string]any{}
		for _, name := range []string{"start", "end", "text", "speaker"} {
			if m[name] != nil {
				segment[name] = m[name]
			}
		}
		out = append(out, segment)
	}
	return out
}

// secondsAt is a member that is a number of seconds, 0 for none; some services write it as a text.
func secondsAt(v any, name string) float64 {
	m, _ := v.(map[string]any)
	var f float64
	switch n := m[name].(type) {
	case int64:
		f = float64(n)
	case float64:
		f = n
	case string:
		f, _ = json.Number(n).Float64()
	}
	if f < 0 || f > 1e9 || f != f {
		return 0
	}
	return f
}

func transcribeSpec() spec.Spec {
	return spec.Spec{
		Name:    "ai.transcribe",
		Summary: "Transcribes a recording, with any service that has OpenAI's transcription API.",
		Doc: "The file is read while it is sent, whatever its size; services have limits of their own (25 MB at OpenAI). Requests go out as those of `util.http` do, and what " +
			"is retried, put back (429 and 503 with Retry-After) or given up is in its table. The answer is at most 16 MiB.",
		Timeout: 30 * time.Minute,
		Retry:   policy,
		Examples: []spec.Example{{Title: "a lesson", YAML: "id: transcribe\naction: ai.transcribe\nparams:\n  url: https://api.openai.com/v1\n  key: \"{{ secrets.openai }}\"\n" +
			"  model: whisper-1\n  file: lesson.mp3\n  language: en"}},
	}
}
