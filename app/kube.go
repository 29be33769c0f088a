package app

import (
	"context"

	"github.com/stepwell/stepwell/action/kube"
)

// openClusters checks the clusters of the options. Their secrets are the vault's, which is open by the time anything runs.
func (o *Options) openClusters() (*kube.Clusters, error) {
	k := o.Kubernetes
	if guard := o.secrets; guard != nil {
		k.Secret = func(ctx context.Context, name string) (string, error) { return guard.Vault.Get(ctx, name) }
		k.Hide = func(values ...string) { guard.Redactor.Add(values...) }
	}
	k.Now = o.Now
	return kube.NewClusters(k)
}
