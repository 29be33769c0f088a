package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

// Encode is the canonical JSON of a definition: equal definitions encode to equal bytes, and Decode
// gives an equal definition back, apart from positions. A float keeps a sign of being one: 2.0 is
// not written as 2.
func Encode(d *Definition) ([]byte, error) {
	if hasWholeFloat(d) {
		d = markFloats(d)
	}
	return json.Marshal(d)
}

// Decode reads Encode's form. Whole numbers become int64, others float64. Anything but one complete definition is
// CodeInvalid.
func Decode(raw []byte) (*Definition, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	d := &Definition{}
	if n := listed(raw); n >= manySteps {
		d.Steps = make([]Step, 0, n) // a list that grows costs half of the time
	}
	if err := dec.Decode(d); err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "definition snapshot", Err: err}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "definition snapshot: there is something behind its end"}
	}
	if len(d.Steps) == 0 && cap(d.Steps) > 0 {
		d.Steps = nil
	}
	mapValues(d, nativeNumbers)
	return d, nil
}

// manySteps is from how many steps on Decode makes room for all of them at once.
const manySteps = 1000

// listed counts the objects in the lists that are members of an object: of a definition its steps, parameters and the like.
func listed(raw []byte) (n int) {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '{':
			if depth == 2 {
				n++
			}
			depth++
		case '[':
			depth++
		case '}', ']':
			depth--
		}
	}
	return n
}

// mapValues replaces every free value in a definition by f of it.
func mapValues(d *Definition, f func(any) any) {
	eachValue(d, func(v any, set func(any)) { set(f(v)) })
}

// eachValue visits every free value in a definition; set puts another in its place.
func eachValue(d *Definition, visit func(v any, set func(any))) {
	object := func(m *map[string]any) {
		if *m != nil {
			visit(*m, func(v any) { *m, _ = v.(map[string]any) })
		}
	}
	slot := func(at *any) { visit(*at, func(v any) { *at = v }) }
	for i := range d.Parameters {
		slot(&d.Parameters[i].Default)
	}
	object(&d.Offer)
	for i := range d.Outputs {
		slot(&d.Outputs[i].Value)
	}
	everyStep(func(s *Step) {
		object(&s.Params)
		object(&s.Settings)
		object(&s.Config)
		if s.ForEach != nil {
			slot(&s.ForEach.Items)
		}
	}, d.Steps, d.Finally, d.OnFailure)
	for _, sub := range d.Pipelines {
		if sub != nil {
			eachValue(sub, visit)
		}
	}
}

// nativeNumbers turns the numbers of a decoded value into int64 and float64, in place. An integer
// beyond 64 bits becomes a float.
func nativeNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if !strings.ContainsAny(v.String(), ".eE") {
			if n, err := v.Int64(); err == nil {
				return n
			}
		}
		f, err := v.Float64()
		if err != nil {
			return v.String() // beyond float64: the only thing that loses nothing
		}
		return f
	case map[string]any:
		for key, inner := range v {
			v[key] = nativeNumbers(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = nativeNumbers(inner)
		}
	}
	return v
}

func hasWholeFloat(d *Definition) bool {
	found := false
	eachValue(d, func(v any, _ func(any)) { found = found || spec.Contains(v, wholeFloat) })
	return found
}

func wholeFloat(v any) bool {
	f, ok := v.(float64)
	return ok && f == math.Trunc(f) && math.Abs(f) < 1e21
}

// markFloats copies a definition with whole floats written "2.0".
func markFloats(d *Definition) *Definition {
	c := *d
	c.Parameters = append([]Parameter(nil), d.Parameters...)
	c.Outputs = append([]Output(nil), d.Outputs...)
	c.Steps, c.Finally, c.OnFailure = copySteps(d.Steps), copySteps(d.Finally), copySteps(d.OnFailure)
	c.Pipelines = nil
	mapValues(&c, markedFloats)
	if d.Pipelines != nil {
		c.Pipelines = make(map[string]*Definition, len(d.Pipelines))
		for name, sub := range d.Pipelines {
			if sub != nil {
				sub = markFloats(sub)
			}
			c.Pipelines[name] = sub
		}
	}
	return &c
}

func copySteps(steps []Step) []Step {
	if steps == nil {
		return nil
	}
	c := append([]Step{}, steps...)
	for i := range c {
		if f := c[i].ForEach; f != nil {
			loop := *f
			c[i].ForEach = &loop
		}
		c[i].Steps = copySteps(c[i].Steps)
	}
	return c
}

// markedFloats copies a value with whole floats as JSON numbers that keep their point.
func markedFloats(v any) any {
	switch v := v.(type) {
	case float64:
		if wholeFloat(v) {
			return json.Number(strconv.FormatFloat(v, 'f', 1, 64))
		}
	case map[string]any:
		c := make(map[string]any, len(v))
		for key, inner := range v {
			c[key] = markedFloats(inner)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, inner := range v {
			c[i] = markedFloats(inner)
		}
		return c
	}
	return v
}
