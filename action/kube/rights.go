package kube

import (
	"context"
	"net/http"
)

// right is something that the user of a cluster must be allowed.
type right struct{ group, resource, sub, verb string }

// rights are what jobs need; those of optional features are marked by what they are for.
var rights = func() (list []right) {
	for _, verb := range []string{"create", "get", "list", "watch", "delete", "patch"} {
		list = append(list, right{"batch", "jobs", "", verb})
	}
	for _, verb := range []string{"get", "list", "watch"} {
		list = append(list, right{"", "pods", "", verb})
	}
	return append(list, right{"", "pods", "log", "get"}, right{"", "events", "", "list"}, right{"", "secrets", "", "create"}, right{"", "secrets", "", "patch"},
		right{"batch", "cronjobs", "", "get"}, right{"batch", "cronjobs", "", "create"}, right{"batch", "cronjobs", "", "patch"}, right{"batch", "cronjobs", "", "delete"})
}()

func (r right) String() string {
	name := r.resource
	if r.sub != "" {
		name += "/" + r.sub
	}
	return r.verb + " " + name
}

// Missing asks the cluster (SelfSubjectAccessReview) what its user may not do in the default namespace, of all that the actions need. It changes
// nothing. The namespace is returned too.
func (c *Cluster) Missing(ctx context.Context) (namespace string, missing []string, err error) {
	if namespace, err = c.Namespace(ctx, ""); err != nil {
		return "", nil, err
	}
	k, err := c.connect(ctx)
	if err != nil {
		return namespace, nil, err
	}
	for _, r := range rights {
		var review struct {
			Status struct {
				Allowed bool `json:"allowed"`
			} `json:"status"`
		}
		about := object{"namespace": namespace, "group": r.group, "resource": r.resource, "verb": r.verb}
		if r.sub != "" {
			about["subresource"] = r.sub
		}
		err := k.do(ctx, request{method: http.MethodPost, path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body: object{
			"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": object{"resourceAttributes": about}}}, &review)
		if err != nil {
			return namespace, nil, atCluster(c.id, err)
		}
		if !review.Status.Allowed {
			missing = append(missing, r.String())
		}
	}
	return namespace, missing, nil
}
