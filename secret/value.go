package secret

import (
	"encoding/json"
	"strings"

	"github.com/stepwell/stepwell/expr"
)

// OpenValue opens the sealed values in a template value, which is not changed; without a token the result is the value
// itself. Errors as with OpenJSON.
func (s *Sealer) OpenValue(execution string, v any) (any, error) {
	out, _, err := s.open(execution, v)
	return out, err
}

func (s *Sealer) open(execution string, v any) (out any, changed bool, err error) {
	switch v := v.(type) {
	case string:
		if !strings.Contains(v, tokenHead) {
			return v, false, nil
		}
		fresh, other, err := s.openText(execution, v)
		if err != nil || !other {
			return fresh, true, err
		}
		value, err := expr.Decode([]byte(fresh))
		return value, true, err
	case expr.Raw:
		fresh, err := s.OpenJSON(execution, v)
		return expr.Raw(fresh), Sealed(v), err
	case json.RawMessage:
		fresh, err := s.OpenJSON(execution, v)
		return json.RawMessage(fresh), Sealed(v), err
	case []any:
		return s.openList(execution, v)
	case map[string]any:
		return s.openMap(execution, v)
	}
	return v, false, nil
}

func (s *Sealer) openList(execution string, v []any) (any, bool, error) {
	var out []any
	for i, one := range v {
		fresh, changed, err := s.open(execution, one)
		if err != nil {
			return nil, false, err
		}
		if changed && out == nil {
			out = append(make([]any, 0, len(v)), v...)
		}
		if changed {
			out[i] = fresh
		}
	}
	if out == nil {
		return v, false, nil
	}
	return out, true, nil
}

func (s *Sealer) openMap(execution string, v map[string]any) (any, bool, error) {
	out := v
	changed := false
	for name, one := range v {
		fresh, c, err := s.open(execution, one)
		if err != nil {
			return nil, false, err
		}
		key, k, err := s.open(execution, name)
		if err != nil {
			return nil, false, err
		}
		if !c && !k {
			continue
		}
		if !changed {
			changed = true
			out = make(map[string]any, len(v))
			for n, o := range v {
				out[n] = o
			}
		}
		if text, ok := key.(string); ok && k {
			delete(out, name)
			name = text
		}
		out[name] = fresh
	}
	return out, changed, nil
}

// texts calls do for every string of a value, and for numbers as they are written.
func texts(v any, do func(string) bool) bool {
	switch v := v.(type) {
	case string:
		return do(v)
	case []any:
		for _, one := range v {
			if !texts(one, do) {
				return false
			}
		}
	case map[string]any:
		for name, one := range v {
			if !do(name) || !texts(one, do) {
				return false
			}
		}
	case int64, float64, json.Number:
		if raw, err := expr.Marshal(v); err == nil {
			return do(string(raw))
		}
	case expr.Raw:
		value, err := expr.Decode(v)
		return err != nil || texts(value, do)
	}
	return true
}
