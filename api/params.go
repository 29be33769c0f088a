package api

import (
	"reflect"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/secret"
)

// Texts of jobs, webhooks and event triggers are stored as written and shown to every viewer. So secrets are refused on
// input, and values that become secret later are shown as ***.

// shownObject is an object as it may be shown.
func (s *server) shownObject(o Object) Object {
	shown, ok := s.shownValue(map[string]any(o)).(map[string]any)
	if !ok {
		return nil
	}
	return shown
}

// shownValue redacts a JSON value; an unreadable one is hidden whole.
func (s *server) shownValue(v any) any {
	raw, err := expr.Marshal(v)
	if err != nil {
		return secret.Hidden
	}
	masked := s.json("", raw)
	if string(masked) == string(raw) {
		return v
	}
	if v, err = expr.Decode(masked); err != nil {
		return secret.Hidden
	}
	return v
}

// written returns the object to store in place of another (nil when there is none). Values sent back as ***, as they
// were shown, keep their stored value. A new secret is CodeInvalid; where names its place.
func (s *server) written(where string, o, stored Object) (Object, error) {
	if o == nil {
		return nil, nil
	}
	v, err := s.writtenValue(where, map[string]any(o), map[string]any(stored), map[string]any(s.shownObject(stored)))
	if err != nil {
		return nil, err
	}
	return v.(map[string]any), nil // as o is
}

func (s *server) writtenValue(where string, v, stored, shown any) (any, error) {
	var err error
	switch v := v.(type) {
	case map[string]any:
		was, _ := stored.(map[string]any)
		seen, _ := shown.(map[string]any)
		out := make(map[string]any, len(v))
		for name, e := range v {
			if out[name], err = s.writtenValue(where+"."+name, e, was[name], seen[name]); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		was, _ := stored.([]any)
		seen, _ := shown.([]any)
		out := make([]any, len(v))
		for i, e := range v {
			var before, told any
			if i < min(len(was), len(seen)) {
				before, told = was[i], seen[i]
			}
			if out[i], err = s.writtenValue(where, e, before, told); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	if v == shown && !reflect.DeepEqual(stored, shown) {
		return stored, nil
	}
	if v != secret.Hidden && s.shownValue(v) == any(secret.Hidden) {
		return nil, stepwell.Invalid("let the step that needs it read it: {{ secrets.NAME }}", "%s: this is the value of a secret, which everybody could read here", stepwell.Clip(where, 100))
	}
	return v, nil
}
