package main

import (
	"errors"
	"fmt"
	"slices"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var kinds = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apps.AddToScheme, autoscaling.AddToScheme, core.AddToScheme, networking.AddToScheme, policy.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // two packages say the same kind
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}()

// manifests are the objects of a chart.
type manifests struct {
	objects []runtime.Object
	names   []string // Kind/name
	pods    []pod
}

// pod is what a controller makes.
type pod struct {
	of       string
	selector *meta.LabelSelector
	template *core.PodTemplateSpec
	claims   []core.PersistentVolumeClaim
}

// read takes one object. A key that its kind does not have, and one that comes twice, are errors.
func (m *manifests) read(text string) error {
	o, kind, err := kinds.Decode([]byte(text), nil, nil)
	if err != nil {
		return err
	}
	name := kind.Kind + "/" + o.(meta.Object).GetName()
	if slices.Contains(m.names, name) {
		return fmt.Errorf("%s comes twice", name)
	}
	m.objects, m.names = append(m.objects, o), append(m.names, name)
	switch o := o.(type) {
	case *apps.Deployment:
		m.pods = append(m.pods, pod{name, o.Spec.Selector, &o.Spec.Template, nil})
	case *apps.StatefulSet:
		m.pods = append(m.pods, pod{name, o.Spec.Selector, &o.Spec.Template, o.Spec.VolumeClaimTemplates})
	}
	return nil
}

// check says which references between the objects lead nowhere.
func (m *manifests) check() error {
	var all []error
	fail := func(name, format string, args ...any) { all = append(all, fmt.Errorf(name+": "+format, args...)) }
	for i, o := range m.objects {
		name := m.names[i]
		switch o := o.(type) {
		case *core.Service:
			found := m.selected(&meta.LabelSelector{MatchLabels: o.Spec.Selector})
			if len(found) != 1 {
				fail(name, "its selector finds the pods of %d controllers", len(found))
			}
			for _, p := range o.Spec.Ports {
				if len(found) == 1 && !found[0].hasPort(p.TargetPort) {
					fail(name, "%s has no port %s", found[0].of, p.TargetPort.String())
				}
			}
		case *policy.PodDisruptionBudget:
			if len(m.selected(o.Spec.Selector)) != 1 {
				fail(name, "its selector does not find the pods of one controller")
			}
		case *autoscaling.HorizontalPodAutoscaler:
			if r := o.Spec.ScaleTargetRef; !slices.Contains(m.names, r.Kind+"/"+r.Name) {
				fail(name, "there is no %s %s", r.Kind, r.Name)
			}
		case *networking.Ingress:
			for _, rule := range o.Spec.Rules {
				for _, p := range rule.HTTP.Paths {
					if !slices.Contains(m.names, "Service/"+p.Backend.Service.Name) {
						fail(name, "there is no service %s", p.Backend.Service.Name)
					}
				}
			}
		case *apps.StatefulSet:
			if !slices.Contains(m.names, "Service/"+o.Spec.ServiceName) {
				fail(name, "there is no service %s", o.Spec.ServiceName)
			}
		}
	}
	for _, p := range m.pods {
		if len(m.selected(p.selector)) != 1 {
			fail(p.of, "its selector does not find its own pods alone")
		}
		for _, err := range p.check() {
			fail(p.of, "%w", err)
		}
	}
	return errors.Join(all...)
}

func (m *manifests) selected(by *meta.LabelSelector) (found []pod) {
	selector, err := meta.LabelSelectorAsSelector(by)
	if err != nil {
		return nil
	}
	for _, p := range m.pods {
		if selector.Matches(labels.Set(p.template.Labels)) {
			found = append(found, p)
		}
	}
	return found
}

func (p *pod) hasPort(port intstr.IntOrString) bool {
	for _, c := range p.template.Spec.Containers {
		for _, has := range c.Ports {
			if has.Name == port.StrVal || has.ContainerPort == port.IntVal {
				return true
			}
		}
	}
	return false
}

// check holds the pod to what a restricted namespace asks for, and its mounts to its volumes.
func (p *pod) check() (all []error) {
	s := &p.template.Spec
	volumes := map[string]bool{}
	for _, v := range s.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range p.claims {
		volumes[c.Name] = true
	}
	if c := s.SecurityContext; c == nil || c.RunAsNonRoot == nil || !*c.RunAsNonRoot || c.SeccompProfile == nil {
		all = append(all, errors.New("its pod may run as root, or without a seccomp profile"))
	}
	for _, c := range s.Containers {
		if x := c.SecurityContext; x == nil || x.AllowPrivilegeEscalation == nil || *x.AllowPrivilegeEscalation || x.Capabilities == nil || !slices.Contains(x.Capabilities.Drop, "ALL") {
			all = append(all, fmt.Errorf("the container %s keeps capabilities", c.Name))
		}
		for _, mount := range c.VolumeMounts {
			if !volumes[mount.Name] {
				all = append(all, fmt.Errorf("the container %s mounts %s, which is not a volume", c.Name, mount.Name))
			}
		}
		for _, probe := range []*core.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
			if probe != nil && probe.HTTPGet != nil && !p.hasPort(probe.HTTPGet.Port) {
				all = append(all, fmt.Errorf("the container %s is asked at %s, which is not a port", c.Name, probe.HTTPGet.Port.String()))
			}
		}
	}
	return all
}
