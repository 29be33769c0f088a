package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/view"
)

func schedules() *resource {
	return &resource{path: "scheduler/jobs", items: "jobs", what: "schedule",
		columns: []view.Column{{"ID", "job_id"}, {"NAME", "name"}, {"SCHEDULE", "schedule.expression"}, {"ZONE", "schedule.timezone"}, {"ENABLED", "enabled"},
			{"NEXT", "next_run_at"}, {"LAST", "last_run_at"}, {"RUNS", "run_count"}}}
}

func (p *program) newSchedulesCommand() *cobra.Command {
	r := schedules()
	verb := func(use, short, name, line string) *cobra.Command {
		return p.verb(use, short, "POST", func(id string) string { return r.at(id, name) }, line)
	}
	return p.group("schedules", []string{"schedule"}, "Manage schedules", "Manage schedules: they start pipelines and actions by time.",
		p.listing(r, "List the schedules"), p.showing(r, "Show a schedule"), p.newScheduleCreate(r), p.newScheduleUpdate(r),
		p.deleting(r, "Delete a schedule; its executions continue"),
		verb("pause ID", "Pause a schedule", "pause", "Paused schedule %s."),
		verb("resume ID", "Resume a schedule", "resume", "Resumed schedule %s."),
		verb("trigger ID", "Start a schedule once, now", "trigger", "Triggered schedule %s."),
		p.newNextRuns(r), p.newFirings(r), p.newBackfill(r))
}

// scheduleFlags say in flags what a file may say too.
type scheduleFlags struct {
	file, name, cron, every, once, zone, pipeline, action, project string
	params                                                         []string
}

func (s *scheduleFlags) add(f *pflag.FlagSet) {
	f.StringVarP(&s.file, "file", "f", "", "YAML or JSON `file` with the body of the request, - for the input; flags count more")
	f.StringVar(&s.name, "name", "", "`name` for people")
	f.StringVar(&s.cron, "cron", "", "cron `expression`, such as \"0 9 * * 1-5\"")
	f.StringVar(&s.every, "every", "", "`interval`, such as 1h30m")
	f.StringVar(&s.once, "once", "", "a single `time`, such as 2026-12-24T18:00:00Z")
	f.StringVar(&s.zone, "timezone", "", "IANA `zone`, such as Europe/Berlin")
	f.StringVar(&s.pipeline, "pipeline", "", "id or name of the stored pipeline to start")
	f.StringVar(&s.action, "action", "", "`name` of a single action to start")
	f.StringVar(&s.project, "project", "", "`id` of a project that counts the items of the executions")
	f.StringArrayVarP(&s.params, "param", "p", nil, "`key=value` of a parameter; lists and objects as JSON")
}

func (s *scheduleFlags) flags() []string { return s.params }

// body is the request: the file, with the flags over it.
func (s *scheduleFlags) body(p *program) (object, error) {
	o := object{}
	if s.file != "" {
		var err error
		if o, err = p.readObject(s.file); err != nil {
			return nil, err
		}
	}
	put(o, "name", s.name)
	given := 0
	for kind, expression := range map[string]string{"cron": s.cron, "interval": s.every, "one_time": s.once} {
		if expression != "" {
			given++
			put(o, "schedule.type", kind)
			put(o, "schedule.expression", expression)
		}
	}
	if given > 1 {
		return nil, stepwell.Invalid("", "--cron, --every and --once exclude each other")
	}
	put(o, "schedule.timezone", s.zone)
	put(o, "callback.project", s.project)
	if s.pipeline != "" {
		put(o, "callback.type", "workflow")
		put(o, "callback.workflow_id", s.pipeline)
	}
	if s.action != "" {
		put(o, "callback.type", "action")
		put(o, "callback.action_type", s.action)
	}
	params, err := assignments(s.params)
	if err == nil && len(params) > 0 {
		put(o, "callback.params", params)
	}
	return o, err
}

func (p *program) newScheduleCreate(*resource) *cobra.Command {
	cmd := p.sending("create", "Create a schedule", "POST", func([]string) string { return pathTo("scheduler", "jobs") }, &scheduleFlags{}, "job_id", "Created schedule %s.")
	cmd.Example = "  stepwell schedules create --name nightly --pipeline ingest \\\n      --cron \"0 3 * * *\" --timezone Europe/Berlin"
	return cmd
}

func (p *program) newScheduleUpdate(r *resource) *cobra.Command {
	return p.updating(r, "Update a schedule; what is not given stays", &scheduleFlags{}, "job_id", "Updated schedule %s.")
}

func (p *program) newNextRuns(r *resource) *cobra.Command {
	var count int
	cmd := p.asking("next ID", "Show the next times of a schedule", func(ctx context.Context, q *request) error {
		answer, err := q.call(ctx, "GET", r.at(q.args[0], "next-runs"), url.Values{"count": {strconv.Itoa(count)}}, nil)
		if err != nil {
			return err
		}
		return q.show(answer, func() (err error) {
			times, _ := answer["next_runs"].([]any)
			for _, at := range times {
				_, err = fmt.Fprintln(p.out, view.Cell(at))
			}
			return err
		})
	})
	cmd.Flags().IntVar(&count, "count", 10, "how many times")
	return cmd
}

func (p *program) newFirings(r *resource) *cobra.Command {
	var most int
	columns := []view.Column{{"SCHEDULED", "scheduled_at"}, {"TO", "to"}, {"COUNT", "count"}, {"STATUS", "status"}, {"REASON", "reason"}, {"EXECUTION", "execution_id"}, {"ERROR", "error"}}
	cmd := p.asking("firings ID", "List the firings of a schedule: ran, caught up, dropped, refused", func(ctx context.Context, q *request) error {
		if most < 1 || most > maxList {
			return stepwell.Invalid(fmt.Sprintf("give a number from 1 to %d", maxList), "limit: %d is out of range", most)
		}
		rows, err := q.client.Pages(ctx, r.at(q.args[0], "firings"), "firings", url.Values{}, most)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if q.output.value == "text" && row["to"] == row["scheduled_at"] {
				delete(row, "to")
			}
		}
		return q.table(rows, columns, "no firings")
	})
	cmd.Flags().IntVar(&most, "limit", 100, "at most so many")
	return cmd
}

func (p *program) newBackfill(r *resource) *cobra.Command {
	var from, to string
	cmd := p.asking("backfill ID --from TIME --to TIME", "Start a schedule for past times, once for each", func(ctx context.Context, q *request) error {
		if from == "" || to == "" {
			return stepwell.Invalid("usage: stepwell schedules backfill ID --from TIME --to TIME", "--from and --to are missing")
		}
		answer, err := q.call(ctx, "POST", r.at(q.args[0], "backfill"), nil, object{"from": from, "to": to})
		if err != nil {
			return err
		}
		return p.shown(q.connection, answer, "")
	})
	cmd.Flags().StringVar(&from, "from", "", "first `time`, such as 2026-01-01T00:00:00Z")
	cmd.Flags().StringVar(&to, "to", "", "`time` before which it ends")
	return cmd
}
