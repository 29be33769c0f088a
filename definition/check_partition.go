package definition

import (
	"fmt"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

// partition reports partitions that cannot be named: parameters that do not exist or are no texts, values that are no times.
func (c *checker) partition() {
	p := c.def.Settings.Partition
	if p == nil {
		return
	}
	const at = "settings.partition"
	pos := func(path string) Pos {
		for _, path := range []string{"settings/partition/" + path, "settings/partition"} {
			if found, ok := c.def.At[path]; ok {
				return found
			}
		}
		return c.def.Pos
	}
	if len(c.def.Matrix) > 0 {
		c.Fail(pos(""), at, "a pipeline with strategy.matrix has no partitions", "take a parameter for what the entries differ in")
		return
	}
	for i, name := range p.By {
		place := pos(fmt.Sprintf("by/%d", i))
		path := spec.ElementPath(at+".by", i)
		param := slices.IndexFunc(c.def.Parameters, func(of Parameter) bool { return of.Name == name })
		switch {
		case slices.Index(p.By, name) < i:
			c.Fail(place, path, fmt.Sprintf("by names %s twice", spec.Quote(name)), "")
		case param < 0:
			c.Fail(place, path, fmt.Sprintf("there is no parameter %s", spec.Quote(name)), spec.DidYouMean(name, c.params))
		default:
			c.partitionBy(&c.def.Parameters[param], place, path, pos("values/"+name))
		}
	}
	for _, name := range p.Unknown() {
		c.Fail(pos("values/"+name), at+".values."+name, fmt.Sprintf("%s is not in by", spec.Quote(name)), spec.DidYouMean(name, p.By))
	}
	for i, id := range p.Watch {
		if !slices.ContainsFunc(c.def.Steps, func(s Step) bool { return s.ID == id }) {
			c.Fail(pos(fmt.Sprintf("watch/%d", i)), spec.ElementPath(at+".watch", i), fmt.Sprintf("there is no step %s at the top level", spec.Quote(id)), spec.DidYouMean(id, idsOf(c.def.Steps)))
		}
	}
}

func (c *checker) partitionBy(param *Parameter, place Pos, path string, valuesAt Pos) {
	values, given := c.def.Settings.Partition.Values[param.Name]
	switch {
	case param.Secret:
		c.Fail(place, path, fmt.Sprintf("the parameter %q is secret, and the names of partitions are recorded", param.Name), "")
	case param.Type != spec.String:
		c.Fail(place, path, fmt.Sprintf("the parameter %q is no text", param.Name), "type: string")
	case !given && len(param.Enum) == 0:
		c.Fail(place, path, fmt.Sprintf("nothing says which values %q has", param.Name), "give the parameter an enum, or settings.partition.values."+param.Name)
	case given:
		if err := values.Check(); err != nil {
			c.Fail(valuesAt, "settings.partition.values."+param.Name, err.Error(), stepwell.HintOf(err))
			return
		}
		for _, v := range values.List {
			if len(param.Enum) > 0 && !slices.Contains(param.Enum, v) {
				c.Fail(valuesAt, "settings.partition.values."+param.Name, fmt.Sprintf("%s is not in the enum of %s", spec.Quote(v), param.Name), spec.DidYouMean(v, param.Enum))
			}
		}
	}
}
