package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/stepwell/stepwell/view"
)

func (p *program) newPolicyCommand() *cobra.Command {
	return p.group("policy", nil, "Manage which actions steps may use", "Manage which actions steps may use. A policy has rules for all pipelines (actions), for what an editor\nor an admin wrote (roles), and for some pipelines, by id or by a pattern of their name (pipelines); each\n"+
		"has lists allow and deny of actions, such as util.exec or util.*. An action must be allowed by all rules that apply.",
		p.newPolicyShow(), p.newPolicySet())
}

func (p *program) newPolicyShow() *cobra.Command {
	return p.asking("show", "Show the policy", func(ctx context.Context, q *request) error {
		answer, err := q.call(ctx, "GET", pathTo("policy"), nil, nil)
		if err != nil {
			return err
		}
		return p.showPolicy(q.connection, answer)
	})
}

// showPolicy writes what can be given to `policy set` again, and as comments what cannot be changed there.
func (p *program) showPolicy(c *connection, answer object) error {
	if c.output.value == "json" {
		return view.WriteJSON(p.out, answer)
	}
	settings := answer["settings"]
	delete(answer, "settings")
	delete(answer, "updated_by")
	text, err := yaml.Marshal(answer)
	if err != nil {
		return err
	}
	if _, err := p.out.Write(text); err != nil {
		return err
	}
	if o, ok := settings.(object); !ok || len(o) == 0 {
		return nil
	}
	if text, err = yaml.Marshal(settings); err != nil {
		return err
	}
	fmt.Fprintln(p.out, "# and, by the server's settings:")
	for line := range bytes.Lines(text) {
		fmt.Fprintf(p.out, "#   %s", line)
	}
	return nil
}

// policyFile is the body of a policy. An empty file allows everything.
type policyFile struct{ name string }

func (f *policyFile) add(*pflag.FlagSet) {}

func (f *policyFile) take(args []string) { f.name = args[0] }

func (f *policyFile) body(p *program) (object, error) { return p.readObject(f.name) }

func (p *program) newPolicySet() *cobra.Command {
	send := func(ctx context.Context, r *request, body object, answer *object) error {
		return r.client.Call(ctx, "PUT", pathTo("policy"), nil, body, answer)
	}
	return p.sendingBy("set FILE", "Replace the policy by that of a YAML or JSON file (- for standard input)", &policyFile{}, send,
		func(r *request, answer object) error { return p.showPolicy(r.connection, answer) })
}
