package api

import (
	"context"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

// catalog are the operations that describe actions and modules.
func (s *server) catalog() {
	handle(s, "action.list", s.listActions)
	handle(s, "action.get", s.getAction)
	handle(s, "module.list", s.listModules)
	handle(s, "module.get", s.getModule)
}

// The shapes of fields of parameters and outputs, and of examples.
type (
	Field   = spec.Field
	Example = spec.Example
)

// Action describes an action or a stream module.
type Action struct {
	Type        string    `json:"type" doc:"Its name." example:"util.wait"`
	Aliases     []string  `json:"aliases,omitempty" nullable:"false"`
	Summary     string    `json:"summary"`
	Doc         string    `json:"doc,omitempty" doc:"More, in Markdown."`
	Params      []Field   `json:"params" nullable:"false"`
	OpenParams  bool      `json:"open_params,omitempty" doc:"Parameters beyond these are allowed."`
	Outputs     []Field   `json:"outputs" nullable:"false"`
	Examples    []Example `json:"examples" nullable:"false"`
	TimeoutSec  float64   `json:"timeout_seconds,omitempty" doc:"Of one attempt, unless the step says otherwise."`
	MaxAttempts int       `json:"max_attempts,omitempty" doc:"Tries, unless the step or the pipeline says otherwise."`
	Reserved    bool      `json:"reserved,omitempty" doc:"For steps that an admin wrote, unless the policy of another role allows it by its name."`
	Idempotent  bool      `json:"idempotent" doc:"It may run again after its worker died."`
	Role        string    `json:"role,omitempty" enum:"source,modifier,sink" doc:"Of a stream module."`
}

// ActionList lists actions.
type ActionList struct {
	Actions []Action `json:"actions" nullable:"false"`
}

// ModuleList lists stream modules.
type ModuleList struct {
	Modules []Action `json:"modules" nullable:"false"`
}

// ActionDetail is an action with the JSON Schema of its parameters.
type ActionDetail struct {
	Action
	Schema map[string]any `json:"schema" doc:"JSON Schema (2020-12) of the rendered parameters."`
}

func (s *server) listActions(context.Context, *struct{}) (*answer[ActionList], error) {
	return reply(ActionList{s.described(false)}, nil)
}

func (s *server) listModules(context.Context, *struct{}) (*answer[ModuleList], error) {
	return reply(ModuleList{s.described(true)}, nil)
}

func (s *server) described(modules bool) []Action {
	list := []Action{}
	for _, spec := range s.o.Catalog.Specs() {
		if !spec.Internal && (spec.Stream != nil) == modules {
			list = append(list, actionOf(&spec))
		}
	}
	return list
}

type catalogName struct {
	Name string `path:"type" maxLength:"200" doc:"Its name, or one of its aliases."`
}

func (s *server) getAction(_ context.Context, in *catalogName) (*answer[ActionDetail], error) {
	return s.describedOne(in.Name, false)
}

func (s *server) getModule(_ context.Context, in *catalogName) (*answer[ActionDetail], error) {
	return s.describedOne(in.Name, true)
}

func (s *server) describedOne(name string, module bool) (*answer[ActionDetail], error) {
	found, ok := s.o.Catalog.Spec(name)
	if !ok || found.Internal || (found.Stream != nil) != module {
		kind := map[bool]string{false: "action", true: "module"}[module]
		e := &stepwell.Error{Code: stepwell.CodeNotFound, Message: "no " + kind + " " + stepwell.Clip(name, 60)}
		var names []string
		for _, a := range s.described(module) {
			names = append(append(names, a.Type), a.Aliases...)
		}
		if near := spec.Closest(name, names); near != "" {
			e.Hint = "did you mean " + near + "?"
		}
		return nil, e
	}
	schema, _ := s.o.Catalog.Schema(name)
	return reply(ActionDetail{actionOf(found), schema}, nil)
}

func actionOf(s *spec.Spec) Action {
	a := Action{Type: s.Name, Aliases: s.Aliases, Summary: s.Summary, Doc: s.Doc, Params: fieldsOf(s.Params), OpenParams: s.OpenParams,
		Outputs: fieldsOf(s.Outputs), Examples: append([]Example{}, s.Examples...), TimeoutSec: s.Timeout.Seconds(), Reserved: s.Reserved, Idempotent: !s.NotIdempotent}
	if s.Retry != nil {
		a.MaxAttempts = s.Retry.MaxAttempts
	}
	if s.Stream != nil {
		a.Role = string(s.Stream.Role)
	}
	return a
}

// fieldsOf are fields as they are shown: without the default of a secret.
func fieldsOf(fields []Field) []Field {
	list := make([]Field, len(fields))
	for i, f := range fields {
		if f.Secret {
			f.Default = nil
		}
		if f.Items != nil {
			f.Items = &fieldsOf([]Field{*f.Items})[0]
		}
		if len(f.Fields) > 0 {
			f.Fields = fieldsOf(f.Fields)
		}
		list[i] = f
	}
	return list
}
