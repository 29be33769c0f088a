package httpcall

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// params are the parameters of util.http.
type params struct {
	URL            string           `json:"url" required:"true" minLength:"1" doc:"Where to, http or https."`
	Method         string           `json:"method" doc:"GET, or POST when there is a body, unless named."`
	Query          map[string]any   `json:"query" doc:"Parameters added to the URL; lists repeat their name, null leaves it out."`
	Headers        map[string]any   `json:"headers" writeOnly:"true" doc:"Headers; lists repeat their name, null leaves it out."`
	JSON           any              `json:"json" doc:"The body: a value, sent as JSON."`
	Form           map[string]any   `json:"form" doc:"The body: a form without files; lists repeat their name."`
	Multipart      []part           `json:"multipart" maxItems:"1000" doc:"The body: a form with files, which are read while they are sent."`
	File           string           `json:"file" minLength:"1" doc:"The body: a file, relative to the pipeline's directory, read while it is sent."`
	Text           *string          `json:"text" doc:"The body: a text."`
	ContentType    string           `json:"content_type" doc:"Media type of ´text´ or ´file´."`
	Response       string           `json:"response" default:"auto" enum:"auto,json,text,file,events,lines,none" doc:"How to read the response; ´auto´ goes by its Content-Type."`
	Path           string           `json:"path" minLength:"1" doc:"Where ´response: file´ is written, relative to the pipeline's directory; it appears complete or not at all."`
	Spill          string           `json:"spill" minLength:"1" doc:"A file that takes a ´json´ or ´text´ response larger than ´max_bytes´, instead of failing."`
	MaxBytes       int64            `json:"max_bytes" minimum:"1" maximum:"1099511627776" doc:"Largest decoded response. By default 16 MiB, 10 GiB for a file."`
	Outputs        map[string]any   `json:"outputs" spec:"bare" doc:"Named outputs: an expression each, such as ´body.choices[0].message.content´, or {value, type, required}."`
	IncludeBody    *bool            `json:"include_body" doc:"Whether the body is among the outputs; by default when ´outputs´ names none."`
	SuccessIf      any              `json:"success_if" spec:"bare" names:"status,headers,body,url,response" doc:"Condition that makes the response a success, whatever its status; without it the status must be 2xx."`
	Timeouts       timeoutParams    `json:"timeouts" doc:"Limits of the phases."`
	Redirects      *int             `json:"redirects" default:"5" minimum:"0" maximum:"20" doc:"How many redirects are followed."`
	RetryOn        []any            `json:"retry_on" doc:"Statuses (´409´, ´5xx´) and kinds of failure that are worth another attempt beyond the table."`
	FailOn         []any            `json:"fail_on" doc:"Statuses and kinds that are not retried."`
	MaxDefer       *time.Duration   `json:"max_defer" default:"24h" minimum:"0" doc:"For how long a busy server may put the step back without using up attempts."`
	IdempotencyKey any              `json:"idempotency_key" doc:"Header Idempotency-Key: true, false or a text. The step's own key by default, unless the method is GET, HEAD or OPTIONS."`
	Poll           *pollParams      `json:"poll" spec:"raw" doc:"For a service that answers with a job: how to ask until it is done."`
	Callback       *callbackParams  `json:"callback" doc:"For a service that calls back when its work is done, at the address in the header X-Stepwell-Callback, which is also {{ callback.url }}."`
	Prices         map[string]price `json:"prices" doc:"Prices by model, ´*´ for any: {input, cached, output} per million tokens, {second} of audio, {request}."`

	hasJSON  bool
	header   http.Header
	query    url.Values
	outputs  []output
	timeouts outbound.Timeouts
	policy   outbound.Policy
}

type timeoutParams struct {
	Connect   time.Duration `json:"connect" minimum:"0.001" doc:"DNS and TCP connect; 10 s by default."`
	TLS       time.Duration `json:"tls" minimum:"0.001" doc:"TLS handshake; 10 s by default."`
	FirstByte time.Duration `json:"first_byte" minimum:"0.001" doc:"From the end of the request to the first byte of the response; only ´total´ by default."`
	Idle      time.Duration `json:"idle" minimum:"0.001" doc:"Idle time without a byte of either body; 1 min by default."`
	Total     time.Duration `json:"total" spec:"limit" minimum:"0.001" doc:"The whole exchange. Less than the step's timeout, of which it takes 95 % by default."`
}

type part struct {
	Name        string `json:"name" required:"true" minLength:"1" doc:"Name of the field."`
	Value       any    `json:"value" doc:"Its value; other values than text are sent as JSON."`
	File        string `json:"file" doc:"Or a file, relative to the pipeline's directory."`
	Filename    string `json:"filename" doc:"The file name sent to the server; the file's own by default."`
	ContentType string `json:"content_type" doc:"Media type; by the file name's extension by default."`
}

// output is one named output.
type output struct {
	name, value string
	field       spec.Field
}

var bindParams = spec.BinderOf[params]()

// parse reads parameters and finds all errors. Parameters with templates may be missing.
func parse(values map[string]any) (*params, []error) {
	p := &params{}
	err := bindParams.Bind(values, p)
	if err != nil {
		return nil, []error{action.Invalid(stepwell.HintOf(err), "parameters: %v", err)}
	}
	_, p.hasJSON = values["json"]
	var problems []error
	add := func(err error) {
		if err != nil {
			problems = append(problems, err)
		}
	}
	p.Method = strings.ToUpper(p.Method)
	if p.MaxBytes == 0 {
		if p.MaxBytes = 16 << 20; p.Response == "file" {
			p.MaxBytes = maxFile
		}
	}
	add(p.checkBody())
	add(p.checkResponse())
	p.header, err = headerOf(p.Headers)
	add(err)
	p.query, err = valuesOf("query", p.Query)
	add(err)
	p.outputs, err = outputsOf(p.Outputs)
	add(err)
	add(checkCondition("success_if", p.SuccessIf))
	add(p.readTimeouts())
	add(p.readPolicy())
	if p.Poll != nil {
		add(p.Poll.read(p))
	}
	if p.Callback != nil {
		add(p.checkCallback())
	}
	return p, problems
}

// maxFile bounds a response in a file.
const maxFile = 10 << 30

// maxMemory bounds a response in memory; outputs have their own, lower bound.
const maxMemory = 64 << 20

func (p *params) checkBody() error {
	var given []string
	for name, is := range map[string]bool{"json": p.hasJSON, "form": p.Form != nil, "multipart": p.Multipart != nil, "file": p.File != "", "text": p.Text != nil} {
		if is {
			given = append(given, name)
		}
	}
	slices.Sort(given)
	if len(given) > 1 {
		return action.Invalid("leave all but one of them out", "%s are bodies", strings.Join(given, " and "))
	}
	if p.ContentType != "" && len(given) == 1 && p.File == "" && p.Text == nil {
		return action.Invalid("it belongs to text and file; set the header Content-Type otherwise", "content_type has no meaning for %s", given[0])
	}
	if len(given) == 1 && (p.Method == http.MethodGet || p.Method == http.MethodHead) && given[0] != "json" {
		return action.Invalid("leave the method out, or write POST", "%s is a body, which %s does not have", given[0], p.Method)
	}
	for i, part := range p.Multipart {
		if part.File != "" && part.Value != nil {
			return action.Invalid("leave one of them out", "multipart[%d]: value stands beside file", i)
		}
	}
	return nil
}

func (p *params) checkResponse() error {
	switch {
	case p.Response == "": // a template, or the default where it is not applied
	case p.Path != "" && p.Response != "file":
		return action.Invalid("write response: file beside it", "path has no meaning for response %s", p.Response)
	case p.Spill != "" && slices.Contains([]string{"file", "events", "lines", "none"}, p.Response):
		return action.Invalid("it belongs to json, text and auto", "spill has no meaning for response %s", p.Response)
	case p.MaxBytes > maxMemory && p.Response != "file":
		return action.Invalid("write larger responses to a file: response: file, or spill", "max_bytes is more than %d MiB", maxMemory>>20)
	case p.Poll != nil && (p.Response == "file" || p.Response == "none"):
		return action.Invalid("use json, or fetch the file in a step of its own", "poll cannot read response %s", p.Response)
	}
	return nil
}

// valuesOf makes texts of the members of an object; null leaves one out.
func valuesOf(name string, members map[string]any) (map[string][]string, error) {
	out := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		list, ok := members[key].([]any)
		if !ok {
			list = []any{members[key]}
		}
		for _, v := range list {
			switch v.(type) {
			case nil:
			case map[string]any, []any:
				return nil, action.Invalid("write a text, a number, true or false, or a list of them", "%s.%s is an object or a list of lists", name, key)
			default:
				out[key] = append(out[key], scalarText(v))
			}
		}
	}
	return out, nil
}

// scalarText is a number, a text or a truth value as it is written in JSON, a text without quotes.
func scalarText(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	raw, err := expr.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}

func headerOf(members map[string]any) (http.Header, error) {
	values, err := valuesOf("headers", members)
	if err != nil {
		return nil, err
	}
	h := http.Header{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, v := range values[name] {
			h.Add(name, v)
		}
	}
	return h, nil
}

// reserved are the names that outputs have already.
var reserved = []string{"status", "headers", "body", "file", "job", "metrics"}

var outputTypes = []spec.Type{spec.String, spec.Integer, spec.Number, spec.Boolean, spec.Array, spec.Object, spec.Any}

func outputsOf(members map[string]any) ([]output, error) {
	var out []output
	for _, name := range slices.Sorted(maps.Keys(members)) {
		o := output{name: name, field: spec.Field{Name: name, Type: spec.Any}}
		switch v := members[name].(type) {
		case string:
			o.value = v
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				if err := o.set(key, v[key]); err != nil {
					return nil, err
				}
			}
		}
		if o.value == "" {
			return nil, action.Invalid("write an expression such as body.id, or {value: body.id, type: string, required: true}", "outputs.%s has no expression", name)
		}
		if slices.Contains(reserved, name) {
			return nil, action.Invalid("give it another name", "outputs.%s is an output already", name)
		}
		if err := checkExpression("outputs."+name, o.value); err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// set reads one member of {value, type, required}.
func (o *output) set(key string, v any) error {
	text, isText := v.(string)
	flag, isFlag := v.(bool)
	switch {
	case key == "value" && isText:
		o.value = text
	case key == "type" && isText && slices.Contains(outputTypes, spec.Type(text)):
		o.field.Type = spec.Type(text)
	case key == "required" && isFlag:
		o.field.Required = flag
	default:
		return action.Invalid(fmt.Sprintf("known are value (an expression), type (one of %v) and required (true or false)", outputTypes), "outputs.%s.%s is not understood", o.name, key)
	}
	return nil
}

func (p *params) readTimeouts() error {
	t := p.Timeouts
	p.timeouts = outbound.Timeouts{Connect: cmp.Or(t.Connect, 10*time.Second), TLS: cmp.Or(t.TLS, 10*time.Second),
		FirstByte: t.FirstByte, Idle: cmp.Or(t.Idle, time.Minute), Total: t.Total}
	if t.Total > 0 && t.FirstByte > t.Total {
		return action.Invalid("make total the longest", "timeouts.first_byte is longer than timeouts.total")
	}
	return nil
}

func (p *params) readPolicy() error {
	for _, list := range []struct {
		from []any
		into *[]string
	}{{p.RetryOn, &p.policy.RetryOn}, {p.FailOn, &p.policy.FailOn}} {
		for _, rule := range list.from {
			*list.into = append(*list.into, fmt.Sprint(rule))
		}
	}
	if p.MaxDefer != nil {
		p.policy.MaxDefer = max(*p.MaxDefer, 1) // 0 means its default there, and never here
	}
	if err := p.policy.Check(); err != nil {
		return action.Fail(fmt.Errorf("retry_on, fail_on: %w", err))
	}
	return nil
}

func checkCondition(name string, v any) error {
	if err := action.CheckCondition(v); err != nil {
		return action.Fail(fmt.Errorf("%s: %w", name, err))
	}
	return nil
}

func checkExpression(name, text string) error {
	parse := expr.ParseExpression
	if action.Tagged(text) {
		parse = expr.Parse
	}
	if _, err := parse(text); err != nil {
		return action.Fail(fmt.Errorf("%s: %w", name, err))
	}
	return nil
}

// join makes one failure of all problems.
func join(problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	return action.Fail(errors.Join(problems...))
}
