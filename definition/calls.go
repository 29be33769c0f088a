package definition

import "slices"

// Calls gives the names of the pipelines that steps run, at any depth and in every entry of a matrix, in order.
func (d *Definition) Calls() []string {
	var names []string
	var walk func([]Step)
	walk = func(steps []Step) {
		for i := range steps {
			if name := steps[i].Pipeline; name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
			walk(steps[i].Steps)
		}
	}
	walk(d.Steps)
	walk(d.OnFailure)
	walk(d.Finally)
	for _, entry := range d.Matrix {
		if sub := d.Pipelines[entry]; sub != nil {
			for _, name := range sub.Calls() {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}
