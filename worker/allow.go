package worker

import "github.com/stepwell/stepwell/engine"

// allowed is CodeDenied when the step may not use its action, or a member of its segment its module.
func (p *Pool) allowed(t *engine.Task) error {
	if p.o.Allow == nil {
		return nil
	}
	for i := range t.Members {
		if err := p.o.Allow(t.Step.Policy.Author, t.Members[i].Module); err != nil {
			return err
		}
	}
	return p.o.Allow(t.Step.Policy.Author, t.Step.Action)
}
