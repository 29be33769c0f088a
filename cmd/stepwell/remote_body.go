package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
)

// maxBody bounds what a command sends.
const maxBody = 16 << 20

// readText reads a file, or what comes in for "-".
func (p *program) readText(name string) (string, error) {
	if name != "-" {
		raw, err := readFile(name, maxBody+1)
		if err == nil && len(raw) > maxBody {
			err = stepwell.Invalid("", "%s is larger than %d MiB", name, maxBody>>20)
		}
		return string(raw), err
	}
	raw, err := io.ReadAll(io.LimitReader(p.in, maxBody+1))
	if err == nil && len(raw) > maxBody {
		err = stepwell.Invalid("", "the input is larger than %d MiB", maxBody>>20)
	}
	return string(raw), err
}

// readObject reads a YAML or JSON object.
func (p *program) readObject(name string) (object, error) {
	text, err := p.readText(name)
	if err != nil {
		return nil, err
	}
	var o object
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		return nil, stepwell.Invalid("it is a YAML or JSON object of names and values", "%s: %v", name, err)
	}
	if o == nil {
		o = object{}
	}
	return o, nil
}

// assignments reads key=value flags: values are JSON or YAML where they are such, else text.
func assignments(flags []string) (object, error) {
	o := object{}
	for _, f := range flags {
		key, text, ok := strings.Cut(f, "=")
		if !ok || key == "" {
			return nil, stepwell.Invalid("", "-p %s: is not of the form key=value", f)
		}
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil || strings.Contains(text, ": ") && !strings.HasPrefix(text, "{") {
			v = text
		}
		if _, is := v.(time.Time); is {
			v = text // the server knows what the parameter is
		}
		o[key] = v
	}
	return o, nil
}

// put sets a value at a path such as schedule.expression, unless it is empty.
func put(o object, path string, v any) {
	if v == nil || v == "" {
		return
	}
	name, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		o[name] = v
		return
	}
	inner, ok := o[name].(object)
	if !ok {
		inner = object{}
		o[name] = inner
	}
	put(inner, rest, v)
}

// bodied is flags that make a request's body.
type bodied interface {
	add(*pflag.FlagSet)
	body(p *program) (object, error)
}

// taker is a bodied whose body depends on the arguments too.
type taker interface{ take(args []string) }

// sending makes a command that sends what its flags say, and shows the answer; id is where the answer says what the
// thing is called.
func (p *program) sending(use, short, method string, path func(args []string) string, f bodied, id, line string) *cobra.Command {
	var c connection
	n := len(strings.Fields(use)) - 1
	what := "an argument"
	if n > 0 {
		what = strings.Fields(use)[1]
	}
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  arguments(n, n, what),
		RunE: func(_ *cobra.Command, args []string) error {
			if t, ok := f.(taker); ok {
				t.take(args)
			}
			body, err := f.body(p)
			if err != nil {
				return err
			}
			return p.calling(&c, func(ctx context.Context, client *api.Client) error {
				answer := object{}
				if err := client.Call(ctx, method, path(args), nil, body, &answer); err != nil {
					return err
				}
				return p.shown(&c, answer, line, cell(answer[id]))
			})
		},
	}
	f.add(cmd.Flags())
	c.add(p, cmd.Flags())
	return cmd
}

// shown shows an answer: as JSON, or a line and the answer's fields.
func (p *program) shown(c *connection, answer object, line string, args ...any) error {
	if c.output.value == "json" {
		return writeJSON(p.out, answer)
	}
	if line != "" {
		if _, err := fmt.Fprintf(p.out, line+"\n", args...); err != nil {
			return err
		}
	}
	return p.showObject(answer)
}
