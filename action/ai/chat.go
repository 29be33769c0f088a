package ai

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/spec"
)

type chatParams struct {
	service
	Prompt      any      `json:"prompt" doc:"The question: a text, or another value, sent as JSON. It comes after ´messages´."`
	System      string   `json:"system" doc:"The system prompt: the first message."`
	Messages    []any    `json:"messages" maxItems:"10000" doc:"The conversation so far, as the service takes it: {role, content} each."`
	Temperature *float64 `json:"temperature" minimum:"0" maximum:"2" doc:"Sampling temperature; the service's own by default."`
	MaxTokens   int      `json:"max_tokens" minimum:"1" doc:"Largest answer, in tokens; the service's own limit by default."`
	Tools       []any    `json:"tools" maxItems:"1000" doc:"Functions that the model may ask for: {type: function, function: {name, description, parameters}} each."`
	ToolChoice  any      `json:"tool_choice" doc:"´auto´, ´none´, ´required´, or {type: function, function: {name}}."`
	Stream      bool     `json:"stream" doc:"Whether the answer is streamed, so that a stalled connection is noticed after a minute."`
	Schema      any      `json:"schema" doc:"JSON Schema (draft 2020-12) that the answer must fit; ´result´ is then the parsed value."`
	SchemaAs    string   `json:"schema_as" default:"json_schema" enum:"json_schema,json_object,prompt" doc:"How the service is told of ´schema´: as its response format, as a message and the format json_object, or as a message alone."`
}

type chatOutputs struct {
	Result       any    `json:"result" doc:"The text, or the parsed value with ´schema´; null where tools are asked for instead."`
	Text         string `json:"text" doc:"The answer as it was written."`
	Model        string `json:"model" doc:"The model that answered."`
	FinishReason string `json:"finish_reason" doc:"´stop´, ´length´ (cut by a limit), ´tool_calls´ …"`
	ToolCalls    []any  `json:"tool_calls" doc:"The tool calls that the model asks for: {id, name, arguments} each."`
	Usage        usage  `json:"usage" doc:"What this attempt cost; failed attempts are counted separately."`
	RequestID    string `json:"request_id" doc:"The service's name of the request."`
}

func chat(client *outbound.Client) action.Action {
	a := action.Of(chatSpec(), func(ctx context.Context, call *action.Call, p chatParams) (*chatOutputs, error) {
		return p.ask(ctx, call, client)
	})
	return action.Checked(a, chatParams.problems)
}

// problems are the rules beyond those of single fields. Parameters with templates may be missing.
func (p chatParams) problems() []error {
	var problems []error
	for i, m := range p.Messages {
		if textAt(m, "role") == "" {
			problems = append(problems, stepwell.Invalid("write {role: user, content: …}", "messages[%d] has no role", i))
		}
	}
	for i, t := range p.Tools {
		if textAt(t, "type") == "" {
			problems = append(problems, stepwell.Invalid("write {type: function, function: {name: …, parameters: …}}", "tools[%d] has no type", i))
		}
	}
	if p.Schema != nil {
		if _, err := compileSchema(p.Schema); err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}

// ask makes one attempt.
func (p *chatParams) ask(ctx context.Context, call *action.Call, client *outbound.Client) (*chatOutputs, error) {
	if p.Prompt == nil && len(p.Messages) == 0 {
		return nil, action.Invalid("write prompt: \"…\"", "there is neither prompt nor messages")
	}
	refused, err := recallRefused(ctx, call)
	if err != nil {
		return nil, err
	}
	members, err := p.request(refused)
	if err != nil {
		return nil, action.Fail(err)
	}
	body := map[string]any{"json": members, "response": "json"}
	if p.Stream {
		body["response"] = "events"
	}
	if refused != nil { // another question, which its own key tells apart
		body["idempotency_key"] = fmt.Sprintf("%s/again-%d", call.IdempotencyKey(), refused.Attempt)
	}
	a, err := p.post(ctx, call, client, "chat/completions", body)
	if err != nil {
		return nil, err
	}
	used := usage{Input: a.Input, Output: a.Output, Cached: a.Cached}
	completion := a.Body
	if p.Stream {
		if completion, err = mergeChunks(a.Body); err != nil {
			return nil, unusable(ctx, call, outbound.KindTruncated, used, "%v", err)
		}
	}
	out, err := readCompletion(completion)
	switch {
	case action.IsFail(err):
		return nil, action.Used(used, err)
	case err != nil:
		return nil, unusable(ctx, call, outbound.KindResult, used, "%v", err)
	}
	out.Usage, out.Model, out.RequestID = used, cmp.Or(out.Model, p.Model), cmp.Or(a.RequestID, out.RequestID)
	return out, p.check(ctx, call, out)
}

// check holds the answer against the schema, and has the next attempt tell the model what is wrong.
func (p *chatParams) check(ctx context.Context, call *action.Call, out *chatOutputs) error {
	if p.Schema == nil || len(out.ToolCalls) > 0 {
		return nil
	}
	value, complaint, err := judge(p.Schema, out.Text)
	if err != nil {
		return action.Fail(err)
	}
	if complaint == "" {
		out.Result = value
		return nil
	}
	if out.FinishReason == "length" {
		complaint += "; it was cut off, so be shorter"
	}
	if err := recordRefused(ctx, call, out.Text, complaint); err != nil {
		return action.Used(out.Usage, err)
	}
	return unusable(ctx, call, outbound.KindResult, out.Usage, "the answer does not fit the schema: %s", complaint)
}

// request makes the body of the request.
func (p *chatParams) request(refused *refusedAnswer) (map[string]any, error) {
	messages, err := p.conversation(refused)
	if err != nil {
		return nil, err
	}
	m := map[string]any{"model": p.Model, "messages": messages}
	if p.Temperature != nil {
		m["temperature"] = *p.Temperature
	}
	if p.MaxTokens > 0 {
		m["max_tokens"] = p.MaxTokens
	}
	if len(p.Tools) > 0 {
		m["tools"] = p.Tools
	}
	if p.ToolChoice != nil {
		m["tool_choice"] = p.ToolChoice
	}
	if p.Stream {
		m["stream"], m["stream_options"] = true, map[string]any{"include_usage": true}
	}
	switch {
	case p.Schema == nil || p.SchemaAs == "prompt":
	case p.SchemaAs == "json_object":
		m["response_format"] = map[string]any{"type": "json_object"}
	default:
		m["response_format"] = map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "answer", "schema": p.Schema}}
	}
	p.addExtra(m)
	return m, nil
}

// conversation is what the model is sent: the messages, and the last answer that did not fit with what is wrong with it.
func (p *chatParams) conversation(refused *refusedAnswer) ([]any, error) {
	var list []any
	say := func(role, text string) { list = append(list, map[string]any{"role": role, "content": text}) }
	if p.System != "" {
		say("system", p.System)
	}
	if p.Schema != nil && p.SchemaAs != "json_schema" && p.SchemaAs != "" {
		schema, err := textOf(p.Schema)
		if err != nil {
			return nil, err
		}
		say("system", "Answer with JSON alone, which must fit this JSON Schema:\n"+schema)
	}
	list = append(list, p.Messages...)
	if p.Prompt != nil {
		text, err := textOf(p.Prompt)
		if err != nil {
			return nil, err
		}
		say("user", text)
	}
	if refused != nil {
		say("assistant", refused.Answer)
		say("user", "That answer does not fit the JSON Schema: "+refused.Complaint+". Answer again, with JSON alone that fits.")
	}
	return list, nil
}

func chatSpec() spec.Spec {
	return spec.Spec{
		Name:    "ai.chat",
		Summary: "Asks a language model, with any service that has OpenAI's chat completions API.",
		Doc:     chatDoc,
		Timeout: 10 * time.Minute,
		Retry:   policy,
		Examples: []spec.Example{
			{Title: "summarize a text", YAML: "id: summary\naction: ai.chat\nparams:\n  url: https://api.openai.com/v1\n  key: \"{{ secrets.openai }}\"\n" +
				"  model: gpt-4o-mini\n  system: You write summaries of lessons.\n  prompt: \"{{ steps.transcribe.outputs.result }}\"\n  temperature: 0.2"},
			{Title: "an answer as data", YAML: "id: quiz\naction: ai.chat\nparams:\n  url: http://127.0.0.1:11434/v1\n  model: llama3.2\n  prompt: \"Ten questions about {{ params.topic }}\"\n" +
				"  schema:\n    type: object\n    required: [questions]\n    properties:\n      questions: {type: array, maxItems: 10, items: {type: string}}"},
		},
	}
}

const chatDoc = `Requests go out as those of ` + "`util.http`" + ` do: only to addresses that are allowed, within the limits of the settings, and what
is retried, put back (429 and 503 with Retry-After) or given up is in its table. The answer is at most 16 MiB.

With ` + "`schema`" + ` the answer must be JSON that fits it; a Markdown fence around it is taken off. One that does not fit uses up the attempt: the
next one is asked with the answer and what is wrong with it at the end of the conversation. The tokens of every attempt count. The schema may refer to
its own parts only. ` + "`json_schema`" + ` is what OpenAI and most others understand; ` + "`json_object` and `prompt`" + ` are for services that do not.

A model that asks for tools ends the step with ` + "`tool_calls`" + `: a later step does what they say, and another ai.chat has the conversation so far in
` + "`messages`" + `. A model that refuses to answer fails the step permanently.`
