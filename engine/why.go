package engine

import "github.com/stepwell/stepwell"

// Reason says why a step, or the execution, is in its state.
type Reason struct {
	Code    string   `json:"code"`
	Message string   `json:"message"`
	Steps   []string `json:"steps,omitempty"` // keys of those that are the reason
}

// Why explains the state of the step with a key, or with "" that of the execution. It looks at every
// step. An unknown key is CodeNotFound.
func (r *Run) Why(key string) ([]Reason, error) {
	if key == "" {
		return []Reason{{Code: r.status.String(), Message: "the execution is " + r.status.String()}}, nil
	}
	if r.main != nil {
		var found place
		r.visit(func(p place) {
			if p.key() == key {
				found = p
			}
		})
		if found.s != nil {
			s := found.node().status
			return []Reason{{Code: s.String(), Message: "the step is " + s.String(), Steps: r.missing(found)}}, nil
		}
	}
	return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: "no step " + key}
}
