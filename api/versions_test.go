package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
)

// TestVersionsByTheAPI: versions are activated, archived and compared under the pipeline's ETag, and what triggers start is
// the active one.
func TestVersionsByTheAPI(t *testing.T) {
	r := newRig(t)
	c, ctx := r.client("editor"), t.Context()
	made, err := c.Pipelines().Create(ctx, api.NewPipeline{Document: api.Document(greeting), Note: "first"})
	good(t, err)
	no, longer := false, strings.Replace(greeting, "\noutputs: {text:", "\n  - {id: more, action: util.log, params: {message: more}}\noutputs: {text:", 1)
	p, err := c.Pipelines().Update(ctx, made.ID, api.PipelineChange{Document: api.Document(longer), Note: "for later", Activate: &no}, "")
	good(t, err)
	if made.Active != 1 || p.Version != 2 || p.Active != 1 {
		t.Errorf("created %+v, changed %+v", made, p)
	}
	started := func(version int) {
		t.Helper()
		s, err := c.Execute(ctx, api.ExecuteRequest{Workflow: made.ID, Params: api.Object{"who": "Ann"}}, "")
		good(t, err)
		if x, err := c.Wait(ctx, s.ID); err != nil || x.Version != version {
			t.Errorf("version %d was started, %v; want %d", x.Version, err, version)
		}
	}
	started(1)

	_, tag, err := c.Pipelines().Get(ctx, made.ID)
	good(t, err)
	v, err := c.ActivateVersion(ctx, "greeting", 2, tag)
	good(t, err)
	if !v.Active || v.Version != 2 || v.Status != "active" || v.Note != "for later" || v.Document != "" || v.Author != "editor" {
		t.Errorf("activated: %+v", v)
	}
	_, err = c.ActivateVersion(ctx, "greeting", 1, tag) // the tag of before
	want(t, err, "precondition")
	_, err = c.ArchiveVersion(ctx, "greeting", 1, tag)
	want(t, err, "precondition")
	started(2)
	if e := r.audit.entriesOf("pipeline.version.activate"); len(e) != 2 || e[0].Object != made.ID || e[0].Actor != "editor" || string(e[0].Detail) != `{"version":"2"}` || e[1].Result != "precondition" {
		t.Errorf("audit: %+v", e)
	}

	_, err = c.ArchiveVersion(ctx, "greeting", 2, "")
	want(t, err, stepwell.CodeConflict)
	answer := r.do("editor", "POST", "/api/v1/pipelines/greeting/versions/1/archive", nil).is(200)
	now, tag, err := c.Pipelines().Get(ctx, made.ID)
	good(t, err)
	if o := answer.object(); o["status"] != "archived" || o["active"] != false || answer.header.Get("ETag") != tag || now.Active != 2 {
		t.Errorf("archived: %v, %s; now %s %+v", o, answer.header.Get("ETag"), tag, now)
	}
	refused := r.do("operator", "POST", "/api/v1/execute", api.ExecuteRequest{Workflow: made.ID, Version: 1, Params: api.Object{"who": "Ann"}}).problem(http.StatusConflict, stepwell.CodeConflict)
	if refused.Message != "version 1 of the pipeline greeting is archived" || refused.Hint == "" {
		t.Errorf("refused: %+v", refused)
	}
	list, err := c.PipelineVersions(ctx, api.ListVersions{PipelinePath: api.PipelinePath{ID: made.ID}})
	good(t, err)
	if l := list.Items; len(l) != 2 || !l[0].Active || l[0].Status != "active" || l[1].Active || l[1].Status != "archived" {
		t.Errorf("versions: %+v", l)
	}
	diff, err := c.DiffPipeline(ctx, made.ID, 2, 1)
	good(t, err)
	if strings.Join(diff.Removed, " ") != "more" || !strings.Contains(diff.Text, "-  - {id: more") {
		t.Errorf("diff: %+v", diff)
	}
	v, err = c.UnarchiveVersion(ctx, "greeting", 1, tag)
	good(t, err)
	if v.Status != "active" {
		t.Errorf("unarchived: %+v", v)
	}
	_, err = r.client("operator").ActivateVersion(ctx, "greeting", 1, "")
	want(t, err, stepwell.CodeForbidden)
	_, err = c.ActivateVersion(ctx, "greeting", 9, "")
	want(t, err, stepwell.CodeNotFound)
	r.do("editor", "POST", "/api/v1/pipelines", map[string]any{"document": failing, "activate": false}).problem(400, stepwell.CodeInvalid) // there is nothing else to be active
}
