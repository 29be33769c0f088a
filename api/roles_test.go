package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/api"
)

// TestEveryOperationAsEverybody asks for every operation as everybody, and compares with what the table of docs/security.md says: viewers read,
// operators start, stop and decide, editors write definitions, admins have secrets, keys and the policy.
func TestEveryOperationAsEverybody(t *testing.T) {
	want := map[string]access.Role{}
	for role, ids := range map[access.Role]string{
		0: "webhook.trigger callback health ready healthz readyz session.get session.open session.close auth.login auth.callback",
		access.Viewer: `stream search queue schema.get template.list template.get pipeline.plan schedule.fires schedule.preview execution.logs.histogram execution.events.columns execution.attempts execution.attempts.columns execution.field.stream execution.compare execution.stats execution.streams execution.streams.failures execution.footprints execution.footprints.items execution.footprints.item execution.list execution.get execution.graph execution.field execution.steps execution.logs execution.stream execution.events execution.history execution.definition execution.source execution.costs execution.promises execution.why execution.what_if
			execution.retry.preview execution.restart.preview pipeline.list pipeline.validate pipeline.get pipeline.versions pipeline.version pipeline.partitions pipeline.partitions.get pipeline.partitions.compare pipeline.matrix pipeline.diff schedule.list schedule.get
			schedule.next schedule.firings webhook.list webhook.get event_trigger.list event_trigger.get approval.list approval.get action.list action.get module.list module.get steps.get metrics
			metrics.prometheus me project.list project.get project.tags lesson.list lesson.get lesson.media lesson.media.options lesson.uploads lesson.usage project.usage pipeline.version.usage upload.get project.progress project.events worker.list plugin.list cluster.list cluster.get
			pipeline_run.list pipeline_run.queue pipeline_run.events pipeline_run.get`,
		access.Operator: `execution.start pipeline.partitions.start execution.cancel execution.pause execution.resume execution.retry execution.restart webhook.test schedule.pause schedule.resume schedule.trigger
			schedule.backfill webhook.validate event.receive approval.approve approval.reject steps.retry project.total project.status project.discovered project.items project.reset worker.drain
			pipeline_run.start pipeline_run.preview pipeline_run.restart pipeline_run.pause pipeline_run.stop pipeline_run.resume`,
		access.Editor: `pipeline.create pipeline.update pipeline.delete pipeline.version.activate pipeline.version.archive pipeline.version.unarchive schedule.create schedule.update schedule.delete webhook.create webhook.update webhook.delete webhook.rotate webhook.deliveries
			event_trigger.create event_trigger.update event_trigger.delete project.create project.update project.delete lesson.create lesson.update lesson.delete lesson.media.set lesson.media.delete upload.append upload.delete`,
		access.Admin:  "secret.list secret.set secret.delete key.create key.list key.get key.revoke key.delete policy.get policy.set audit.list cluster.create cluster.delete",
		access.Worker: "worker.join worker.turn worker.stream worker.claim worker.spawn worker.log worker.progress worker.memo worker.own worker.callback worker.data worker.outputs worker.media",
	} {
		for id := range strings.FieldsSeq(ids) {
			want[id] = role
		}
	}
	r := newRig(t)
	for _, op := range api.Operations() {
		least, known := want[op.ID]
		if !known {
			t.Errorf("%s is not in the table of this test", op.ID)
			continue
		}
		for role := access.Role(0); role <= access.Worker; role++ {
			name := role.String()
			if role == 0 {
				name = ""
			}
			got := r.do(name, op.Method, strings.NewReplacer("{", "", "}", "").Replace(op.Path), nil)
			refused := got.status == http.StatusUnauthorized && role == 0 || got.status == http.StatusForbidden && (op.Method == http.MethodHead || strings.Contains(string(got.body), "is needed for this"))
			if may := least == 0 || role.May(least); may == refused && (least > 0 || role > 0 || got.status != http.StatusUnauthorized) {
				t.Errorf("%s as %q: %d %s", op.ID, name, got.status, got.body)
			}
		}
	}
}

// TestInlineIsForEditors: who may only start what is stored gets nothing else started, neither a definition nor an action.
func TestInlineIsForEditors(t *testing.T) {
	r := newRig(t)
	definition := map[string]any{"name": "mine", "steps": []any{map[string]any{"id": "a", "action": "util.exec", "params": map[string]any{"command": "id"}}}}
	for _, request := range []map[string]any{
		{"workflow_definition": definition},
		{"action_type": "util.exec", "params": map[string]any{"command": "id"}},
		{"action_type": "util.log", "params": map[string]any{"message": "harmless"}},
	} {
		p := r.do("operator", "POST", "/api/v1/execute", request).problem(403, stepwell.CodeForbidden)
		if !strings.Contains(p.Message, "editor is needed for this") {
			t.Errorf("%v", p)
		}
		if e := r.audit.last(); e.Action != "execution.start" || e.Actor != "operator" || e.Result != "forbidden" {
			t.Errorf("the audit log says %+v", e)
		}
	}
	if got := r.do("viewer", "GET", "/api/v1/executions", nil).is(200).object(); len(got["executions"].([]any)) > 0 {
		t.Errorf("executions were started: %v", got)
	}
	r.do("editor", "POST", "/api/v1/pipelines", map[string]any{"document": map[string]any{"name": "stored", "steps": []any{map[string]any{"id": "a", "action": "util.noop"}}}}).is(201)
	r.do("operator", "POST", "/api/v1/execute", map[string]any{"workflow_id": "stored"}).is(201)
	r.do("editor", "POST", "/api/v1/execute", map[string]any{"action_type": "util.noop"}).is(201)
}
