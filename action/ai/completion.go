package ai

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/expr"
)

// readCompletion reads a chat completion. Only the first choice counts.
func readCompletion(body any) (*chatOutputs, error) {
	m, _ := body.(map[string]any)
	choices, _ := m["choices"].([]any)
	if len(choices) == 0 {
		return nil, errors.New("the answer is not a chat completion: it has no choices" + errorIn(body))
	}
	choice, _ := choices[0].(map[string]any)
	message, ok := choice["message"].(map[string]any)
	if !ok {
		return nil, errors.New("the answer is not a chat completion: its choice has no message")
	}
	if refusal := textAt(message, "refusal"); refusal != "" {
		return nil, action.Fail(stepwell.Errorf(stepwell.CodeFailed, "ask otherwise, or ask another model", "the model refused: %s", stepwell.Head(refusal, 500)))
	}
	out := &chatOutputs{Text: contentOf(message["content"]), Model: textAt(m, "model"), FinishReason: textAt(choice, "finish_reason"), RequestID: textAt(m, "id"), ToolCalls: []any{}}
	calls, _ := message["tool_calls"].([]any)
	for _, c := range calls {
		call, _ := c.(map[string]any)
		out.ToolCalls = append(out.ToolCalls, map[string]any{"id": textAt(call, "id"), "name": textAt(call["function"], "name"), "arguments": argumentsOf(call["function"])})
	}
	if out.Text != "" || len(out.ToolCalls) == 0 {
		out.Result = out.Text
	}
	return out, nil
}

// errorIn is what a service says went wrong in an answer with a good status.
func errorIn(body any) string {
	m, _ := body.(map[string]any)
	if text := cmp.Or(textAt(m["error"], "message"), textAt(m, "error")); text != "" {
		return " (" + stepwell.Head(text, 500) + ")"
	}
	return ""
}

// contentOf is the text of a message, which some services send in parts.
func contentOf(content any) string {
	parts, ok := content.([]any)
	if !ok {
		text, _ := content.(string)
		return text
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(textAt(p, "text"))
	}
	return b.String()
}

// argumentsOf are a tool's arguments, which come as JSON in a text; what is not JSON stays a text.
func argumentsOf(function any) any {
	text := textAt(function, "arguments")
	if v, err := expr.Decode([]byte(text)); err == nil {
		return v
	}
	return text
}

// maxToolCalls bounds the tool calls of a streamed answer.
const maxToolCalls = 128

// stream puts a streamed completion together again.
type stream struct {
	content, refusal strings.Builder
	id, model, end   string
	calls            map[int64]*toolCall
}

type toolCall struct {
	id, name  string
	arguments strings.Builder
}

// mergeChunks makes a completion of the events of a stream.
func mergeChunks(events any) (any, error) {
	list, _ := events.([]any)
	s := &stream{calls: map[int64]*toolCall{}}
	for _, e := range list {
		event, _ := e.(map[string]any)
		if err := s.add(event["data"]); err != nil {
			return nil, err
		}
	}
	if s.end == "" {
		return nil, errors.New("the stream ended before the answer did")
	}
	return s.completion(), nil
}

// add reads one chunk. The last one, with the usage, has no choices.
func (s *stream) add(data any) error {
	chunk, ok := data.(map[string]any)
	if text := errorIn(data); !ok || text != "" {
		return errors.New("the stream has an event that is not a piece of an answer" + text)
	}
	s.id, s.model = cmp.Or(s.id, textAt(chunk, "id")), cmp.Or(s.model, textAt(chunk, "model"))
	choices, _ := chunk["choices"].([]any)
	if len(choices) == 0 {
		return nil
	}
	choice, _ := choices[0].(map[string]any)
	s.end = cmp.Or(textAt(choice, "finish_reason"), s.end)
	delta, _ := choice["delta"].(map[string]any)
	s.content.WriteString(contentOf(delta["content"]))
	s.refusal.WriteString(textAt(delta, "refusal"))
	calls, _ := delta["tool_calls"].([]any)
	for _, c := range calls {
		piece, _ := c.(map[string]any)
		index, _ := piece["index"].(int64)
		at := s.calls[index]
		if at == nil {
			if len(s.calls) == maxToolCalls {
				return errors.New("the answer calls too many tools")
			}
			at = &toolCall{}
			s.calls[index] = at
		}
		at.id, at.name = cmp.Or(at.id, textAt(piece, "id")), cmp.Or(at.name, textAt(piece["function"], "name"))
		at.arguments.WriteString(textAt(piece["function"], "arguments"))
	}
	return nil
}

func (s *stream) completion() any {
	calls := []any{}
	for _, index := range slices.Sorted(maps.Keys(s.calls)) {
		c := s.calls[index]
		calls = append(calls, map[string]any{"id": c.id, "function": map[string]any{"name": c.name, "arguments": c.arguments.String()}})
	}
	message := map[string]any{"content": s.content.String(), "refusal": s.refusal.String(), "tool_calls": calls}
	return map[string]any{"id": s.id, "model": s.model, "choices": []any{map[string]any{"message": message, "finish_reason": s.end}}}
}

// unfenced is a text without the Markdown fence that models put around JSON.
func unfenced(text string) string {
	text = strings.TrimSpace(text)
	inner, fenced := strings.CutPrefix(text, "```")
	if !fenced {
		return text
	}
	_, inner, _ = strings.Cut(inner, "\n") // the name of a language
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(inner), "```"))
}
