package httpcall

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// params are the parameters of util.http.
type params struct {
	URL            string           `json:"url"`
	Method         string           `json:"method"`
	Query          map[string]any   `json:"query"`
	Headers        map[string]any   `json:"headers"`
	Form           map[string]any   `json:"form"`
	Multipart      []part           `json:"multipart"`
	File           string           `json:"file"`
	Text           *string          `json:"text"`
	ContentType    string           `json:"content_type"`
	Response       string           `json:"response"`
	Path           string           `json:"path"`
	Spill          string           `json:"spill"`
	MaxBytes       int64            `json:"max_bytes"`
	Outputs        map[string]any   `json:"outputs"`
	IncludeBody    *bool            `json:"include_body"`
	SuccessIf      any              `json:"success_if"`
	Timeouts       map[string]any   `json:"timeouts"`
	Redirects      *int             `json:"redirects"`
	RetryOn        []any            `json:"retry_on"`
	FailOn         []any            `json:"fail_on"`
	MaxDefer       any              `json:"max_defer"`
	IdempotencyKey any              `json:"idempotency_key"`
	Poll           *pollParams      `json:"poll"`
	Callback       *callbackParams  `json:"callback"`
	Prices         map[string]price `json:"prices"`

	json     any // as it was given, with every digit
	hasJSON  bool
	header   http.Header
	query    url.Values
	outputs  []output
	timeouts outbound.Timeouts
	policy   outbound.Policy
}

type part struct {
	Name        string `json:"name"`
	Value       any    `json:"value"`
	File        string `json:"file"`
	Filename    string `json:"filename"`
	ContentType string `json:"content_type"`
}

// output is one named output.
type output struct {
	name, value string
	field       spec.Field
}

// parse reads parameters and finds everything that is wrong with them. Those that hold templates may be
// missing.
func parse(values map[string]any) (*params, []error) {
	p := &params{}
	raw, err := expr.Marshal(values)
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		err = dec.Decode(p)
	}
	if err != nil {
		return nil, []error{action.Invalid("", "parameters: %v", err)}
	}
	p.json, p.hasJSON = values["json"]
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
			case string, bool, json.Number:
				out[key] = append(out[key], fmt.Sprint(v))
			default:
				return nil, action.Invalid("write a text, a number, true or false, or a list of them", "%s.%s is an object or a list of lists", name, key)
			}
		}
	}
	return out, nil
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
	p.timeouts = outbound.Timeouts{Connect: 10 * time.Second, TLS: 10 * time.Second, Idle: time.Minute}
	for name, into := range map[string]*time.Duration{"connect": &p.timeouts.Connect, "tls": &p.timeouts.TLS,
		"first_byte": &p.timeouts.FirstByte, "idle": &p.timeouts.Idle, "total": &p.timeouts.Total} {
		if p.Timeouts[name] == nil {
			continue
		}
		var err error
		if *into, err = duration(p.Timeouts[name]); err != nil {
			return action.Invalid("", "timeouts.%s: %v", name, err)
		}
	}
	t := p.timeouts
	if t.Total > 0 && (t.FirstByte > t.Total) {
		return action.Invalid("make total the longest", "timeouts.first_byte is longer than timeouts.total")
	}
	return nil
}

// duration reads a Duration, which JSON made a json.Number of.
func duration(v any) (time.Duration, error) {
	if n, ok := v.(json.Number); ok {
		f, err := n.Float64()
		if err != nil {
			return 0, err
		}
		v = f
	}
	return spec.ParseDuration(v)
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
		var err error
		if p.policy.MaxDefer, err = duration(p.MaxDefer); err != nil {
			return action.Invalid("", "max_defer: %v", err)
		}
		p.policy.MaxDefer = max(p.policy.MaxDefer, 1) // 0 means its default there, and never here
	}
	if err := p.policy.Check(); err != nil {
		return action.Fail(fmt.Errorf("retry_on, fail_on: %w", err))
	}
	return nil
}

func checkCondition(name string, v any) error {
	if text, ok := v.(string); ok {
		if _, err := expr.ParseCondition(text); err != nil {
			return action.Fail(fmt.Errorf("%s: %w", name, err))
		}
	}
	return nil
}

func checkExpression(name, text string) error {
	parse := expr.ParseExpression
	if tagged(text) {
		parse = expr.Parse
	}
	if _, err := parse(text); err != nil {
		return action.Fail(fmt.Errorf("%s: %w", name, err))
	}
	return nil
}

func tagged(text string) bool { return strings.Contains(text, "{{") || strings.Contains(text, "{%") }

// join makes one failure of all problems.
func join(problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	return action.Fail(errors.Join(problems...))
}
