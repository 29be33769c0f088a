package definition

import (
	"cmp"
	"fmt"
	"time"

	"github.com/stepwell/stepwell/spec"
)

// defaultTimeout is the limit of an attempt for which neither the step nor its action has one.
const defaultTimeout = 5 * time.Minute

// limits reports times among the params, such as that of a request, that are not shorter than the timeout of their step:
// the step would end first, and nobody would learn which call took so long.
func (c *checker) limits(here located, about *spec.Spec) {
	step := here.step()
	timeout := cmp.Or(time.Duration(step.TimeoutSeconds*float64(time.Second)), about.Timeout, defaultTimeout)
	for i := range about.Params {
		c.limit(here, &about.Params[i], step.Params, "params", timeout)
	}
}

func (c *checker) limit(here located, f *spec.Field, values map[string]any, at string, timeout time.Duration) {
	v, given := values[f.Name]
	inner, nested := v.(map[string]any)
	if !nested && !f.Limit {
		return // as nearly all
	}
	at = spec.Below(at, f.Name)
	if nested {
		for i := range f.Fields {
			c.limit(here, &f.Fields[i], inner, at, timeout)
		}
	}
	if !f.Limit {
		return
	}
	if !given {
		v = f.Default
	}
	limit, err := spec.ParseDuration(v)
	if err != nil || limit < timeout {
		return
	}
	step, place := here.step(), at
	if !given {
		place = "timeout_seconds"
	}
	c.Fail(posOf(step, place), spec.PlainPath(here.path(), at),
		fmt.Sprintf("%s is %s, which is not less than the step's timeout of %s", spec.PlainPath("", at), limit, timeout),
		"raise timeout_seconds of the step, or lower "+spec.PlainPath("", at))
}
