package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/view"
)

// maxBody bounds what a command sends: as much as a pipeline document may have.
const maxBody = maxDocument - 1

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

// launching is a bodied with -p flags for what its body's callback starts.
type launching interface{ flags() []string }

// declareCallback reads the -p flags of a callback again when it names a stored pipeline, as `pipelines start` does. A pipeline
// that is not there may be stored later: its parameters stay as they were read.
func (p *program) declareCallback(ctx context.Context, client *client.Client, body object, f bodied) error {
	l, ok := f.(launching)
	callback, _ := body["callback"].(object)
	name, _ := callback["workflow_id"].(string)
	params, _ := callback["params"].(object)
	if !ok || name == "" || len(params) == 0 {
		return nil
	}
	declared, err := p.declaredParams(ctx, client, name, 0, l.flags())
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return nil
	}
	maps.Copy(params, declared)
	return err
}

// taker is a bodied whose body depends on the arguments too.
type taker interface{ take(args []string) }

// sending makes a command that sends what its flags say, and shows the answer; id is where the answer says what the
// thing is called.
func (p *program) sending(use, short, method string, path func(args []string) string, f bodied, id, line string) *cobra.Command {
	send := func(ctx context.Context, r *request, body object, answer *object) error {
		if err := p.declareCallback(ctx, r.client, body, f); err != nil {
			return err
		}
		err := r.client.Call(ctx, method, path(r.args), nil, body, answer)
		if d, ok := f.(*documentFlags); ok {
			err = problemsIn(d.file, err)
		}
		return err
	}
	return p.sendingBy(use, short, f, send, func(r *request, answer object) error {
		return p.shown(r.connection, answer, line, view.Cell(answer[id]))
	})
}

// sendingBy is sending by a function, as which show shows the answer. The body is made before anybody is asked.
func (p *program) sendingBy(use, short string, f bodied, send func(ctx context.Context, r *request, body object, answer *object) error, show func(r *request, answer object) error) *cobra.Command {
	var body object
	cmd := p.askingOver(&connection{own: f.add, sends: true}, use, short, func(ctx context.Context, r *request) error {
		answer := object{}
		if err := send(ctx, r, body, &answer); err != nil {
			return err
		}
		return show(r, answer)
	})
	cmd.PreRunE = func(_ *cobra.Command, args []string) (err error) {
		if t, ok := f.(taker); ok {
			t.take(args)
		}
		body, err = f.body(p)
		return err
	}
	return cmd
}

// shown shows an answer: as JSON, or a line and the answer's fields.
func (p *program) shown(c *connection, answer object, line string, args ...any) error {
	if c.output.value == "json" {
		return view.WriteJSON(p.out, answer)
	}
	warnings := answer["warnings"]
	delete(answer, "warnings")
	if line != "" {
		if _, err := fmt.Fprintf(p.out, line+"\n", args...); err != nil {
			return err
		}
	}
	if err := view.WriteObject(p.out, answer); err != nil {
		return err
	}
	return view.WriteWarnings(p.err, warnings)
}
