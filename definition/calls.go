package definition

import "slices"

// everyStep visits the steps of lists and of the groups inside them.
func everyStep(visit func(s *Step), lists ...[]Step) {
	for _, list := range lists {
		for i := range list {
			visit(&list[i])
			everyStep(visit, list[i].Steps)
		}
	}
}

// Calls gives the names of the pipelines that steps run, at any depth and in every entry of a matrix, in order.
func (d *Definition) Calls() []string {
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	everyStep(func(s *Step) { add(s.Pipeline) }, d.Steps, d.OnFailure, d.Finally)
	for _, entry := range d.Matrix {
		if sub := d.Pipelines[entry]; sub != nil {
			for _, name := range sub.Calls() {
				add(name)
			}
		}
	}
	return names
}
