package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/view"
)

// triggerFlags say what a webhook or an event starts; a file may say the same, and more.
type triggerFlags struct {
	file, name, job, pipeline, action, project, auth, event, condition string
	params, filters                                                    []string
	ofEvent                                                            bool
}

func (b *triggerFlags) add(f *pflag.FlagSet) {
	f.StringVarP(&b.file, "file", "f", "", "YAML or JSON `file` with the body of the request, - for the input; flags count more")
	f.StringVar(&b.name, "name", "", "`name` for people")
	f.StringVar(&b.job, "job", "", "`id` of a schedule's job to start")
	f.StringVar(&b.pipeline, "pipeline", "", "id or name of the stored pipeline to start")
	f.StringVar(&b.action, "action", "", "`name` of a single action to start")
	f.StringVar(&b.project, "project", "", "`id` of a project that counts the items of the executions, or a template such as {{ event.project }}")
	f.StringArrayVarP(&b.params, "param", "p", nil, "`key=value` of a parameter; lists and objects as JSON")
	if b.ofEvent {
		f.StringVar(&b.event, "type", "", "`pattern` of the event's type, such as model.*")
		f.StringArrayVar(&b.filters, "filter", nil, "`path=value` that the event's data must have")
		f.StringVar(&b.condition, "condition", "", "`condition` about the event, such as 'event.data.p99 > 200'")
	} else {
		f.StringVar(&b.auth, "auth", "", "how callers prove themselves: secret, hmac, github, stripe or none")
	}
}

func (b *triggerFlags) flags() []string { return b.params }

func (b *triggerFlags) body(p *program) (object, error) {
	o := object{}
	if b.file != "" {
		var err error
		if o, err = p.readObject(b.file); err != nil {
			return nil, err
		}
	}
	for path, v := range map[string]string{"name": b.name, "job_id": b.job, "callback.workflow_id": b.pipeline, "callback.action_type": b.action, "callback.project": b.project,
		"auth": b.auth, "event_type": b.event, "condition": b.condition} {
		put(o, path, v)
	}
	filters, err := assignments(b.filters)
	if err != nil {
		return nil, err
	}
	if len(filters) > 0 {
		o["filters"] = filters
	}
	params, err := assignments(b.params)
	if err == nil && len(params) > 0 {
		put(o, "callback.params", params)
	}
	return o, err
}

func (p *program) newWebhooksCommand() *cobra.Command {
	r := &resource{path: "webhooks", items: "webhooks", what: "webhook",
		columns: []view.Column{{"ID", "webhook_id"}, {"NAME", "name"}, {"ENABLED", "enabled"}, {"AUTH", "auth"}, {"LAST", "last_triggered_at"}, {"COUNT", "trigger_count"}}}
	return p.group("webhooks", []string{"webhook"}, "Manage webhooks", "Manage webhooks: addresses that other systems call to start pipelines. A secret is shown once,\nwhen it is created.",
		p.listing(r, "List the webhooks"), p.showing(r, "Show a webhook"),
		p.sending("create", "Create a webhook and show its secret, once", "POST", func([]string) string { return pathTo("webhooks") }, &triggerFlags{}, "webhook_id", "Created webhook %s. Copy its secret now: it is not shown again."),
		p.updating(r, "Update a webhook; what is not given stays", &triggerFlags{}, "webhook_id", "Updated webhook %s."),
		p.verb("rotate ID", "Give a webhook another secret and show it, once", "POST", func(id string) string { return r.at(id, "rotate-secret") }, "Rotated the secret of webhook %s. Copy it now: it is not shown again."),
		p.newDeliveriesCommand(r),
		p.deleting(r, "Delete a webhook"))
}

func (p *program) newServerEventsCommand() *cobra.Command {
	r := &resource{path: "event-triggers", items: "event_triggers", what: "event trigger",
		columns: []view.Column{{"ID", "trigger_id"}, {"NAME", "name"}, {"TYPE", "event_type"}, {"ENABLED", "enabled"}, {"COUNT", "trigger_count"}}}
	triggers := p.group("triggers", []string{"trigger"}, "Manage event triggers", "Manage event triggers, which start pipelines when events arrive.",
		p.listing(r, "List the event triggers"), p.showing(r, "Show an event trigger"),
		p.sending("create", "Create an event trigger", "POST", func([]string) string { return pathTo("event-triggers") }, &triggerFlags{ofEvent: true}, "trigger_id", "Created event trigger %s."),
		p.updating(r, "Update an event trigger; what is not given stays", &triggerFlags{ofEvent: true}, "trigger_id", "Updated event trigger %s."),
		p.deleting(r, "Delete an event trigger"))
	return p.group("events", []string{"event"}, "Send events and manage their triggers", "Send events to steps that wait for them and to triggers.",
		p.sending("send TYPE", "Send an event", "POST", func([]string) string { return pathTo("events") }, &eventFlags{}, "event_id", "Sent event %s."), triggers)
}

// eventFlags make an event.
type eventFlags struct{ kind, key, id, data string }

func (e *eventFlags) add(f *pflag.FlagSet) {
	f.StringVar(&e.key, "key", "", "`key` that a step waits for (util.wait_for)")
	f.StringVar(&e.id, "id", "", "`id` by which a repetition is known; made up without it")
	f.StringVarP(&e.data, "data", "d", "", "the data, `JSON` or YAML")
}

func (e *eventFlags) take(args []string) { e.kind = args[0] }

func (e *eventFlags) body(*program) (object, error) {
	o := object{"type": e.kind}
	put(o, "key", e.key)
	put(o, "id", e.id)
	if e.data != "" {
		var data object
		if err := yaml.Unmarshal([]byte(e.data), &data); err != nil || data == nil {
			return nil, stepwell.Invalid(`write it like -d '{"city": "Oslo"}'`, "--data: %q is not an object", e.data)
		}
		o["data"] = data
	}
	return o, nil
}

func (p *program) newApprovalsCommand() *cobra.Command {
	r := &resource{path: "approvals", items: "approvals", what: "approval",
		columns: []view.Column{{"ID", "approval_id"}, {"PIPELINE", "pipeline"}, {"STEP", "step_id"}, {"MESSAGE", "message"}, {"UNTIL", "until"}, {"EXECUTION", "execution_id"}}}
	return p.group("approvals", []string{"approval"}, "Manage approvals", "Manage approvals: list the steps that wait for a decision (util.approval), approve or reject them. An ID is that of\nthe execution, or last for the newest one, a dot and the step.",
		p.listing(r, "List the steps that wait for a decision"),
		p.deciding(r, "approve", "Approve a waiting step"), p.deciding(r, "reject", "Reject a waiting step"))
}

func (p *program) deciding(r *resource, word, short string) *cobra.Command {
	var comment string
	cmd := p.askingOver(&connection{newest: newestExecution}, word+" ID", short, func(ctx context.Context, q *request) error {
		if !strings.Contains(q.args[0], ".") {
			return stepwell.Invalid("write EXECUTION.STEP, such as last.ask; `stepwell approvals list` shows those that are open", "%q does not name a step", view.Printable(q.args[0]))
		}
		body := object{}
		put(body, "comment", comment)
		answer, err := q.call(ctx, "POST", r.at(q.args[0], word), nil, body)
		if err != nil {
			return err
		}
		return p.answered(q.connection, answer, map[string]string{"approve": "approved: %s", "reject": "rejected: %s"}[word], view.Printable(q.args[0]))
	})
	cmd.Flags().StringVar(&comment, "comment", "", "`text` that is kept with the answer")
	return cmd
}
