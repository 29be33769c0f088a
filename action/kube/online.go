package kube

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/stepwell/stepwell/spec"
)

// onlineTimeout bounds the check of one step by its cluster.
const onlineTimeout = 30 * time.Second

// online has the cluster check what a step would create (dryRun=All): fields, admission policies and rights. Values with templates are missing, and have
// their defaults.
func (c *Clusters) online(values map[string]any, p params) error {
	fields := jobSpec().Params
	if _, ok := p.(*cronParams); ok {
		fields = cronSpec().Params
	}
	checker, err := spec.Compile(fields, true)
	if err == nil {
		err = spec.BindTemplated(checker.Apply(values), p)
	}
	if err != nil {
		return err
	}
	if cron, ok := p.(*cronParams); ok && cron.State == "absent" {
		return nil
	}
	ctx, end := context.WithTimeout(context.Background(), onlineTimeout)
	defer end()
	cluster, err := c.Find(p.pod().ClusterID)
	if err != nil || cluster.access.Service != "" {
		return err
	}
	namespace, err := cluster.Namespace(ctx, p.pod().Namespace)
	if err != nil {
		return err
	}
	k, err := cluster.connect(ctx)
	if err != nil {
		return err
	}
	p.pod().Image = cmp.Or(p.pod().Image, "image")
	id := &identity{instance: c.o.Instance(), execution: "validate", step: "validate", key: "validate", nonce: "validate"}
	r := request{query: url.Values{"dryRun": {"All"}, "fieldValidation": {"Strict"}, "fieldManager": {"stepwell"}}}
	template := []string{"spec", "template", "spec"}
	var manifest object
	switch p := p.(type) {
	case *jobParams:
		r.method, r.path = http.MethodPost, jobPath(namespace, "")
		manifest, err = jobManifest(p, id, cmp.Or(p.JobName, "stepwell-validate"), namespace)
	case *cronParams:
		p.Name = cmp.Or(p.Name, "stepwell-validate")
		r.method, r.path, r.kind = http.MethodPatch, "/apis/batch/v1/namespaces/"+url.PathEscape(namespace)+"/cronjobs/"+url.PathEscape(p.Name), applyPatch
		r.query.Set("force", "true") // it may be there
		manifest, err = cronManifest(p, id, namespace)
		template = append([]string{"spec", "jobTemplate"}, template...)
	}
	if err != nil {
		return err
	}
	if err := c.allowImages(objectAt(manifest, template...)); err != nil {
		return err
	}
	r.body = manifest
	err = k.do(ctx, r, nil)
	if statusOf(err) == http.StatusConflict { // an earlier execution may have left that name
		return nil
	}
	return steer(err)
}
