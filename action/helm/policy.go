package helm

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

// unbound are kinds of objects that belong to no namespace.
var unbound = []string{"APIService", "CertificateSigningRequest", "ClusterRole", "ClusterRoleBinding", "ClusterTrustBundle", "CSIDriver", "CSINode", "CustomResourceDefinition", "DeviceClass", "FlowSchema", "IngressClass",
	"IPAddress", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration", "Namespace", "Node", "PersistentVolume", "PriorityClass", "PriorityLevelConfiguration", "ResourceSlice", "RuntimeClass",
	"ServiceCIDR", "StorageClass", "StorageVersion", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration", "VolumeAttachment", "VolumeAttributesClass"}

// checkObjects refuses what a chart renders to where a step may not make it.
func (i *installation) checkObjects(ctx context.Context, manifests []string) error {
	for _, text := range manifests {
		decoder := yaml.NewDecoder(strings.NewReader(text))
		for {
			var object map[string]any
			err := decoder.Decode(&object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return action.Invalid("", "what the chart renders to is not YAML of objects: %s", i.without(err.Error()))
			}
			if err := i.checkObject(ctx, object); err != nil {
				return err
			}
		}
	}
	return nil
}

func (i *installation) checkObject(ctx context.Context, object map[string]any) error {
	kind, _ := object["kind"].(string)
	meta, _ := object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	what := kind + " " + stepwell.Clip(name, 80)
	if items, ok := object["items"].([]any); ok && strings.HasSuffix(kind, "List") {
		for _, item := range items {
			if inner, ok := item.(map[string]any); ok {
				if err := i.checkObject(ctx, inner); err != nil {
					return err
				}
			}
		}
	}
	if slices.Contains(unbound, kind) && !i.cluster.Everywhere() {
		return action.Fail(stepwell.Errorf(stepwell.CodeDenied, "it belongs to no namespace: allow all of them, kubernetes.clusters."+i.cluster.ID()+".namespaces: [\"*\"]", "the chart has a %s", what))
	}
	if namespace, ok := meta["namespace"].(string); ok && namespace != "" && namespace != i.namespace {
		if _, err := i.cluster.Namespace(ctx, namespace); err != nil {
			return lasting(&stepwell.Error{Code: stepwell.CodeOf(err), Message: "the chart has a " + what, Hint: stepwell.HintOf(err), Err: err})
		}
	}
	return i.checkImages(what, object)
}

// checkImages finds containers wherever an object has some.
func (i *installation) checkImages(what string, v any) error {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if list, ok := inner.([]any); ok && (key == "containers" || key == "initContainers" || key == "ephemeralContainers") {
				for _, one := range list {
					container, _ := one.(map[string]any)
					if image, ok := container["image"].(string); ok {
						if err := i.h.o.Clusters.AllowImage(image); err != nil {
							return action.Fail(&stepwell.Error{Code: stepwell.CodeOf(err), Message: "the chart's " + what, Hint: stepwell.HintOf(err), Err: err})
						}
					}
				}
			}
			if err := i.checkImages(what, inner); err != nil {
				return err
			}
		}
	case []any:
		for _, inner := range v {
			if err := i.checkImages(what, inner); err != nil {
				return err
			}
		}
	}
	return nil
}
