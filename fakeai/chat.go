package fakeai

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
)

// chatRequest is what chat reads of a request; the rest is ignored.
type chatRequest struct {
	Model         string    `json:"model"`
	Messages      []message `json:"messages"`
	MaxTokens     int       `json:"max_tokens"`
	Completion    int       `json:"max_completion_tokens"`
	N             int       `json:"n"`
	Stream        bool      `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Tools          []tool          `json:"tools"`
	ToolChoice     json.RawMessage `json:"tool_choice"`
	ResponseFormat struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Schema any `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type tool struct {
	Type     string `json:"type"`
	Function struct {
		Name       string `json:"name"`
		Parameters any    `json:"parameters"`
	} `json:"function"`
}

// completion is the answer, before it is written at once or in pieces.
type completion struct {
	id, model, text, end string
	call                 *calledTool
	input, output        int
}

type calledTool struct{ id, name, arguments string }

func (s *Server) chat(x *exchange) error {
	raw, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, maxBody))
	if err != nil {
		return &refusal{http.StatusRequestEntityTooLarge, "too_large", "the body is larger than 16 MiB, or ended early"}
	}
	var req chatRequest
	if err := json.Unmarshal(raw, &req); err != nil {
		return invalid("the body is not a chat completion request: %v", err)
	}
	if len(raw) <= maxShown {
		s.told(func() { x.asked.Body = raw })
	}
	switch {
	case req.Model == "":
		return invalid("model is missing")
	case len(req.Messages) == 0:
		return invalid("messages is empty")
	case req.N > 1:
		return invalid("n is more than 1, which this stand-in does not do")
	}
	c, err := req.answer(raw, x.invalid)
	if err != nil {
		return err
	}
	if req.Stream {
		return c.stream(x.w, req.StreamOptions.IncludeUsage)
	}
	writeJSON(x.w, http.StatusOK, map[string]any{"id": c.id, "object": "chat.completion", "created": created, "model": c.model, "usage": c.usage(),
		"choices": []any{map[string]any{"index": 0, "message": c.message(), "finish_reason": c.end, "logprobs": nil}}})
	return nil
}

// created is the time of every answer: the same request has the same answer.
const created = 1700000000

// tokens counts about as models do: four letters each.
func tokens(text string) int { return (len(text) + 3) / 4 }

// answer makes the answer to a request.
func (r *chatRequest) answer(raw []byte, invalid int) (*completion, error) {
	sum := sha256.Sum256(raw)
	hash := hex.EncodeToString(sum[:4])
	c := &completion{id: "chatcmpl-" + hash, model: r.Model, end: "stop"}
	last, refused := "", 0
	for i := range r.Messages {
		text := r.Messages[i].text()
		c.input += tokens(text)
		if r.Messages[i].Role == "user" {
			last = text
		}
		if found := refusedBefore.FindStringSubmatch(text); found != nil && r.Messages[i].Role == "assistant" {
			refused, _ = strconv.Atoi(found[1]) // digits, a few of them
		}
	}
	var err error
	format := r.ResponseFormat.Type
	t := r.calls(last)
	switch {
	case t != nil:
		c.end, c.call = "tool_calls", &calledTool{id: "call_" + hash, name: t.Function.Name}
		c.call.arguments, err = fitting(t.Function.Parameters, hash)
		c.output = tokens(c.call.arguments)
		return c, err
	case (format == "json_schema" || format == "json_object") && refused < invalid:
		c.text = fmt.Sprintf(`{"not_what_was_asked_for": %d}`, refused+1)
		if refused%2 == 0 {
			c.text = "Here you are: " + c.text // which is not even JSON
		}
	case format == "json_schema":
		c.text, err = fitting(r.ResponseFormat.JSONSchema.Schema, hash)
	case format == "json_object":
		c.text = fmt.Sprintf(`{"answer": %q}`, answerText(hash, last))
	default:
		c.text = answerText(hash, last)
	}
	if most := max(r.MaxTokens, r.Completion); most > 0 && tokens(c.text) > most {
		c.text, c.end = stepwell.Head(c.text, most*4), "length"
	}
	c.output = tokens(c.text)
	return c, err
}

// refusedBefore finds in a quoted answer how many have been wrong so far.
var refusedBefore = regexp.MustCompile(`"not_what_was_asked_for": (\d{1,6})\}`)

func answerText(hash, question string) string {
	return "Answer " + hash + ": you asked " + stepwell.Head(strings.Join(strings.Fields(question), " "), 200)
}

// calls is the tool that the answer calls: one that must be, or one that the last question names; nil for none.
func (r *chatRequest) calls(question string) *tool {
	var named struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	choice := ""
	if json.Unmarshal(r.ToolChoice, &choice) != nil {
		_ = json.Unmarshal(r.ToolChoice, &named) // what is neither calls nothing
	}
	if choice == "none" || r.Messages[len(r.Messages)-1].Role == "tool" {
		return nil
	}
	for i := range r.Tools {
		name := r.Tools[i].Function.Name
		if choice == "required" || name != "" && (name == named.Function.Name || strings.Contains(question, name)) {
			return &r.Tools[i]
		}
	}
	return nil
}

// text is the content of a message, which may be in parts.
func (m *message) text() string {
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(m.Content, &parts) // anything else has no text
	for _, p := range parts {
		text += p.Text
	}
	return text
}

func (c *completion) usage() map[string]any {
	return map[string]any{"prompt_tokens": c.input, "completion_tokens": c.output, "total_tokens": c.input + c.output}
}

func (c *completion) message() map[string]any {
	if c.call == nil {
		return map[string]any{"role": "assistant", "content": c.text, "refusal": nil}
	}
	return map[string]any{"role": "assistant", "content": nil, "refusal": nil, "tool_calls": []any{
		map[string]any{"id": c.call.id, "type": "function", "function": map[string]any{"name": c.call.name, "arguments": c.call.arguments}}}}
}

// stream writes the answer as server-sent events, a few words each.
func (c *completion) stream(w http.ResponseWriter, withUsage bool) error {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	var failed error
	send := func(choices []any, usage any) {
		chunk := map[string]any{"id": c.id, "object": "chat.completion.chunk", "created": created, "model": c.model, "choices": choices}
		if withUsage {
			chunk["usage"] = usage
		}
		raw, err := json.Marshal(chunk)
		if err == nil {
			_, err = fmt.Fprintf(w, "data: %s\n\n", raw)
		}
		failed = errors.Join(failed, err, flush.Flush())
	}
	delta := func(members map[string]any, end any) {
		send([]any{map[string]any{"index": 0, "delta": members, "finish_reason": end}}, nil)
	}
	delta(map[string]any{"role": "assistant", "content": ""}, nil)
	if c.call != nil {
		delta(map[string]any{"tool_calls": []any{map[string]any{"index": 0, "id": c.call.id, "type": "function", "function": map[string]any{"name": c.call.name, "arguments": ""}}}}, nil)
		for _, piece := range pieces(c.call.arguments) {
			delta(map[string]any{"tool_calls": []any{map[string]any{"index": 0, "function": map[string]any{"arguments": piece}}}}, nil)
		}
	}
	for _, piece := range pieces(c.text) {
		delta(map[string]any{"content": piece}, nil)
	}
	delta(map[string]any{}, c.end)
	if withUsage {
		send([]any{}, c.usage())
	}
	if failed == nil {
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}
	return nil // a client that has gone needs no answer
}

// pieces divides a text into a hundred at most.
func pieces(text string) (out []string) {
	size := max(16, len(text)/100)
	for text != "" {
		piece := stepwell.Head(text, size)
		out, text = append(out, piece), text[len(piece):]
	}
	return out
}
