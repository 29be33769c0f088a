package access

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/stepwell/stepwell"
)

// Policy limits the actions and modules that the steps of pipelines may use. An action must be allowed by all of its
// rules.
type Policy struct {
	Actions   Rule            `json:"actions,omitzero" yaml:"actions" doc:"For all pipelines."`
	Roles     map[string]Rule `json:"roles,omitempty" yaml:"roles" doc:"For what an editor or an admin wrote."`
	Pipelines map[string]Rule `json:"pipelines,omitempty" yaml:"pipelines" doc:"For stored pipelines by id, and for all by a pattern of their name."`
}

// Rule names actions, by patterns in which * stands for any text.
type Rule struct {
	Allow []string `json:"allow,omitempty" yaml:"allow" maxItems:"1000" doc:"Without it, what is not denied is allowed."`
	Deny  []string `json:"deny,omitempty" yaml:"deny" maxItems:"1000" doc:"Counts more than allow."`
}

// Bounds of a policy.
const (
	maxRules    = 1000
	maxPatterns = 1000 // of a rule
	maxPattern  = 255  // bytes
)

// Validate checks a policy: CodeInvalid, with the place.
func (p *Policy) Validate() error {
	wrong := func(hint, format string, args ...any) error {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "policy: " + fmt.Sprintf(format, args...), Hint: hint}
	}
	if len(p.Pipelines) > maxRules {
		return wrong("at most 1000", "pipelines has too many rules")
	}
	for _, name := range slices.Sorted(maps.Keys(p.Roles)) {
		if r, ok := roleOf(name); !ok || r < Editor {
			return wrong("rules are for those who write pipelines: editor, admin", "roles.%s is not a role that writes pipelines", name)
		}
	}
	return p.each(func(at string, r Rule) error {
		for _, list := range []struct {
			name     string
			patterns []string
		}{{"allow", r.Allow}, {"deny", r.Deny}} {
			if len(list.patterns) > maxPatterns {
				return wrong("at most 1000", "%s.%s has too many patterns", at, list.name)
			}
			for i, pattern := range list.patterns {
				if _, err := path.Match(pattern, ""); err != nil || pattern == "" || len(pattern) > maxPattern {
					return wrong("a name such as util.exec, or a pattern such as util.*", "%s.%s[%d]: %q is not a pattern", at, list.name, i, pattern)
				}
			}
		}
		return nil
	})
}

// each calls f for the rules, in order.
func (p *Policy) each(f func(at string, r Rule) error) error {
	if err := f("actions", p.Actions); err != nil {
		return err
	}
	for _, part := range []struct {
		at    string
		rules map[string]Rule
	}{{"roles", p.Roles}, {"pipelines", p.Pipelines}} {
		for _, name := range slices.Sorted(maps.Keys(part.rules)) {
			if _, err := path.Match(name, ""); err != nil {
				return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("policy: %s: %q is not a pattern", part.at, name)}
			}
			if err := f(part.at+"."+name, part.rules[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Use is a step's use of an action.
type Use struct {
	Names    []string // of the action: its own, and others that it answers to
	Role     string   // of the author of the step's definition
	Pipeline string   // id of the stored pipeline that it stands in, "" for none
	Name     string   // of that pipeline or definition
	Reserved bool     // the action is for admins, unless a rule of the role allows it by its name
}

// Check is CodeDenied when a rule does not allow a use; the error names the rule and the pattern that decided.
func (p *Policy) Check(u Use) error {
	if p == nil {
		return nil
	}
	if err := p.Actions.check("actions", u); err != nil {
		return err
	}
	if r, ok := p.Roles[u.Role]; ok {
		if err := r.check("roles."+u.Role, u); err != nil {
			return err
		}
	}
	if len(p.Pipelines) == 0 {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.Pipelines)) {
		if name != u.Pipeline && !matches(name, u.Name) {
			continue
		}
		r := p.Pipelines[name]
		if err := r.check("pipelines."+name, u); err != nil {
			return err
		}
	}
	return nil
}

// lends reports whether the rule of the role allows a reserved action by its name.
func (p *Policy) lends(u Use) bool {
	r := p.Roles[u.Role]
	return slices.ContainsFunc(u.Names, func(name string) bool { return slices.Contains(r.Allow, name) })
}

func (r *Rule) check(at string, u Use) error {
	for _, pattern := range r.Deny {
		if u.matches(pattern) {
			return u.denied(fmt.Sprintf("%s.deny %q", at, pattern))
		}
	}
	if r.Allow == nil || slices.ContainsFunc(r.Allow, u.matches) {
		return nil
	}
	return u.denied(fmt.Sprintf("%s.allow %q", at, r.Allow[:min(len(r.Allow), 10)]))
}

func (u *Use) denied(why string) error {
	return &stepwell.Error{Code: stepwell.CodeDenied, Message: fmt.Sprintf("the policy does not allow %s to what %s %s wrote: %s", u.Names[0], article(u.Role), u.Role, why),
		Hint: "an admin can change the policy: stepwell policy show, stepwell policy set FILE"}
}

func article(role string) string {
	if role == "editor" || role == "admin" {
		return "an"
	}
	return "a"
}

func (u *Use) matches(pattern string) bool {
	return slices.ContainsFunc(u.Names, func(name string) bool { return matches(pattern, name) })
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// Changes are the patterns by which a policy differs from an earlier one, each with a sign before it and its rule, such as
// `+ roles.editor.deny util.exec`, and the allow lists that came or went as wholes; in order.
func (p *Policy) Changes(was *Policy) []string {
	now, before := p.lines(), was.lines()
	var list []string
	for _, line := range slices.Sorted(maps.Keys(before)) {
		if !now[line] {
			list = append(list, "- "+line)
		}
	}
	for _, line := range slices.Sorted(maps.Keys(now)) {
		if !before[line] {
			list = append(list, "+ "+line)
		}
	}
	return list
}

// lines are the rules, one pattern a line.
func (p *Policy) lines() map[string]bool {
	lines := map[string]bool{}
	_ = p.each(func(at string, r Rule) error { // f gives no errors, and the names have been checked
		for _, pattern := range r.Allow {
			lines[at+".allow "+pattern] = true
		}
		if r.Allow != nil && len(r.Allow) == 0 {
			lines[at+".allow nothing"] = true
		}
		for _, pattern := range r.Deny {
			lines[at+".deny "+pattern] = true
		}
		return nil
	})
	return lines
}
