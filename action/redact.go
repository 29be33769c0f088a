package action

import "github.com/stepwell/stepwell/spec"

// Redact returns parameters for recording and showing: those that the action's Spec declares secret, at any depth, are
// replaced. The parameters themselves are not changed; without secrets the result is the same map.
func (a *Action) Redact(params map[string]any) map[string]any {
	return spec.Redact(params, a.Spec.Params)
}

// Secretive reports whether the Spec declares any parameter secret.
func (a *Action) Secretive() bool { return spec.Secretive(a.Spec.Params) }
