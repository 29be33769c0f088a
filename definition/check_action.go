package definition

import (
	"fmt"
	"strings"

	"github.com/stepwell/stepwell/spec"
)

// actionCheck is an action's description, prepared once per Check.
type actionCheck struct {
	spec    *spec.Spec
	checker *spec.Checker
}

func (c *checker) actionNamed(name string) (*actionCheck, error) {
	if a, ok := c.actions[name]; ok {
		return a, nil
	}
	s, ok := c.cat.Spec(name)
	if !ok {
		c.actions[name] = nil
		return nil, nil
	}
	checker, err := spec.Compile(s.Params, s.OpenParams)
	if err != nil {
		return nil, err
	}
	a := &actionCheck{spec: s, checker: checker}
	c.actions[name] = a
	return a, nil
}

func (c *checker) action(here located, in loops) {
	step, path := here.step(), here.path()
	src := source{at: step.At, loose: step.loose, pos: step.Pos, base: path, scope: here.scope, index: here.index, in: in}
	a, err := c.actionNamed(step.Action)
	settings := src
	settings.site = InSettings
	c.members(step.Settings, nil, "settings", &settings)
	switch {
	case err != nil:
		c.Fail(posOf(step, "action"), path+".action", fmt.Sprintf("the action %q is described wrongly: %v", step.Action, err), "this is a mistake in the action, not in the document")
	case a == nil:
		hint := "list the known ones with: stepwell actions"
		if strings.Contains(step.Action, "{{") {
			hint = "the action cannot be a template"
		}
		c.Fail(posOf(step, "action"), path+".action", fmt.Sprintf("unknown action %q", step.Action), c.didYouMean(step.Action, c.cat.Names(), hint))
	case a.spec.Internal:
		c.Fail(posOf(step, "action"), path+".action", fmt.Sprintf("%q is used by Stepwell itself", step.Action), "")
	case a.spec.Stream != nil:
		c.Fail(posOf(step, "action"), path+".action", fmt.Sprintf("%q is a stream module, not an action", step.Action), "write module: and config:")
	default:
		c.mismatches(here, a.checker.CheckTemplated(step.Params), false)
		c.repeated(here, a.spec)
		c.limits(here, a.spec)
		if !c.silent { // an outline reports nothing
			c.validate(here, step.Action, step.Params)
		}
		c.members(step.Params, a.spec.Params, "params", &src)
		return
	}
	c.members(step.Params, nil, "params", &src)
}

// repeated checks the params of the action that an action such as util.while repeats: one with the
// params action and action_params. That the action is unknown is for its handler to say.
func (c *checker) repeated(here located, outer *spec.Spec) {
	if _, repeats := spec.FieldNamed(outer.Params, "action_params"); !repeats {
		return
	}
	params := here.step().Params
	name, _ := params["action"].(string)
	inner, err := c.actionNamed(name)
	values, ok := params["action_params"].(map[string]any)
	if inner == nil || err != nil || !ok && params["action_params"] != nil {
		return
	}
	found := inner.checker.CheckTemplated(values)
	for i := range found {
		m := &found[i]
		m.Keys = append([]string{"action_params"}, m.Keys...)
		m.Path, m.Message = "action_params."+m.Path, "action_params."+m.Message
	}
	c.mismatches(here, found, false)
}

// mismatches reports mismatches of a step's params.
func (c *checker) mismatches(here located, found []spec.Mismatch, asWarnings bool) {
	step := here.step()
	base := "params"
	if step.Module != "" {
		base = "config"
	}
	for _, m := range found {
		at := base
		for _, key := range m.Keys {
			at = spec.Below(at, key)
		}
		pos, ok := step.At[at]
		for !ok && strings.Contains(at, "/") { // missing: point at its parent
			at = at[:strings.LastIndexByte(at, '/')]
			pos, ok = step.At[at]
		}
		if !ok {
			pos = step.Pos
		}
		message := base + "." + m.Message
		if m.Path == "" {
			message = m.Message
		}
		c.Add(pos, here.path()+"."+base+"."+m.Path, message, m.Hint, asWarnings)
	}
}

// validate asks the handler about the parameters that contain no template, a module about all.
func (c *checker) validate(here located, name string, params map[string]any) {
	v, ok := c.cat.(validator)
	if !ok {
		return
	}
	step := here.step()
	fixed := make(map[string]any, len(params))
	for name, value := range params {
		if step.Module != "" || !spec.Contains(value, isTemplate) { // modules handle templates themselves
			fixed[name] = value
		}
	}
	where := "params"
	if step.Module != "" {
		where = "config"
	}
	validate := v.Validate
	if whole, ok := c.cat.(wholeValidator); ok && len(fixed) == len(params) {
		validate = whole.ValidateWhole
	}
	for _, err := range validate(name, fixed) {
		c.Fail(posOf(step, where), here.path()+"."+where, err.Error(), hintOf(err))
	}
}

func (c *checker) subPipeline(here located, in loops) {
	step, path := here.step(), here.path()
	src := source{at: step.At, loose: step.loose, pos: step.Pos, base: path, scope: here.scope, index: here.index, in: in, site: InPipeline}
	c.members(step.Params, nil, "params", &src)
	sub := c.def.Pipelines[step.Pipeline]
	if sub == nil {
		names := make([]string, 0, len(c.def.Pipelines))
		for name := range c.def.Pipelines {
			names = append(names, name)
		}
		hint := "register the pipeline first, or put its file beside this one"
		if strings.Contains(step.Pipeline, "{{") {
			hint = "the name of a pipeline cannot be a template"
		}
		c.Fail(posOf(step, "pipeline"), path+".pipeline", fmt.Sprintf("unknown pipeline %q", step.Pipeline), c.didYouMean(step.Pipeline, names, hint))
		return
	}
	checker, err := spec.Compile(sub.fields(), true)
	if err != nil {
		c.Fail(posOf(step, "pipeline"), path+".pipeline", fmt.Sprintf("the pipeline %q is declared wrongly: %v", step.Pipeline, err), "")
		return
	}
	c.mismatches(here, checker.CheckTemplated(step.Params), false)
	c.mismatches(here, sub.extra(step.Params), true)
}
