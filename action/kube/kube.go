// Package kube has the actions external.k8s.job and external.k8s.cronjob, the observer that ends the steps of jobs, and the clusters on
// which they and others work. It speaks to API servers by itself: five verbs on a few kinds need no client library.
//
// Clusters are those of the settings. Find gives one by the id that a step names; its Kubeconfig, Namespace and the set's AllowImage
// are for handlers that work on clusters by other means, such as the helm program:
//
//	cluster, err := clusters.Find(p.ClusterID)
//	namespace, err := cluster.Namespace(ctx, p.Namespace)
//	text, err := cluster.Kubeconfig(ctx)
package kube
