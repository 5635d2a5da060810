// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"crypto/sha256"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// portName names the port of the pods.
	portName = "https"
	port     = 8443
	// servicePort is the Service's port, which API servers call.
	servicePort = 443

	configurationDir  = "/etc/gatehouse"
	configurationFile = "admission.yaml"

	// nobody is the user that has no rights to anything.
	nobody = 65534
	// gracePeriod is in seconds. It is longer than a process takes to end: it answers for five
	// seconds more, and finishes calls that may take 30.
	gracePeriod = 45
)

func (o *Options) selector() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "gatehouse", "app.kubernetes.io/instance": o.Name}
}

func (o *Options) labels() map[string]string {
	labels := o.selector()
	labels["app.kubernetes.io/part-of"] = "gatehouse"
	return labels
}

func (o *Options) clusterMetadata() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: o.Name, Labels: o.labels()}
}

func (o *Options) metadata() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: o.Name, Namespace: o.Namespace, Labels: o.labels()}
}

func (o *Options) namespace() *corev1.Namespace {
	labels := o.labels()
	labels["pod-security.kubernetes.io/enforce"] = "restricted"
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.Namespace, Labels: labels}}
}

func (o *Options) configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: o.metadata(), Data: map[string]string{configurationFile: o.Configuration}}
}

func (o *Options) service() *corev1.Service {
	return &corev1.Service{ObjectMeta: o.metadata(), Spec: corev1.ServiceSpec{Selector: o.selector(),
		Ports: []corev1.ServicePort{{Name: portName, Port: servicePort, Protocol: corev1.ProtocolTCP,
			TargetPort: intstr.FromString(portName)}}}}
}

// Args returns the flags with which the program is started in a pod.
func (o *Options) Args() []string {
	var plugins []string
	for i := range o.Plugins {
		plugins = append(plugins, o.Plugins[i].Name)
	}
	args := []string{"--plugins=" + strings.Join(plugins, ","), "--name=" + o.Name, "--namespace=" + o.Namespace,
		fmt.Sprintf("--service=%s/%s:%d", o.Namespace, o.Name, servicePort), fmt.Sprintf("--secure-port=%d", port)}
	if o.Configuration != "" {
		args = append(args, "--admission-control-config-file="+configurationDir+"/"+configurationFile)
	}
	return append(args, o.Flags...)
}

func (o *Options) deployment() *appsv1.Deployment {
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: o.labels()}, Spec: o.pod()}
	if o.Configuration != "" {
		// Pods are replaced when it changes.
		template.Annotations = map[string]string{
			"gatehouse.dev/configuration": fmt.Sprintf("%x", sha256.Sum256([]byte(o.Configuration)))}
	}
	return &appsv1.Deployment{ObjectMeta: o.metadata(), Spec: appsv1.DeploymentSpec{
		Replicas: new(o.Replicas),
		Selector: &metav1.LabelSelector{MatchLabels: o.selector()},
		Template: template,
		// A replica ends when another one serves.
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: new(intstr.FromInt32(0)),
				MaxSurge: new(intstr.FromInt32(1))}},
	}}
}

func (o *Options) pod() corev1.PodSpec {
	spec := corev1.PodSpec{
		ServiceAccountName:            o.Name,
		AutomountServiceAccountToken:  new(true),
		TerminationGracePeriodSeconds: new(int64(gracePeriod)),
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(nobody)),
			RunAsGroup:     new(int64(nobody)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		// The cluster may have only one node. If it has more, the end of one should not end all
		// replicas.
		Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 100,
				PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname,
					LabelSelector: &metav1.LabelSelector{MatchLabels: o.selector()}}}}}},
		Containers: []corev1.Container{o.container()},
	}
	if o.Configuration != "" {
		spec.Volumes = []corev1.Volume{{Name: "configuration", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: o.Name}}}}}
	}
	return spec
}

func (o *Options) container() corev1.Container {
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path,
			Port: intstr.FromString(portName), Scheme: corev1.URISchemeHTTPS}}}
	}
	ready := probe("/readyz")
	ready.PeriodSeconds = 2
	c := corev1.Container{
		Name:  "webhook",
		Image: o.Image,
		Args:  o.Args(),
		Ports: []corev1.ContainerPort{{Name: portName, ContainerPort: port, Protocol: corev1.ProtocolTCP}},
		// Reading a large cluster the first time takes more than running in it.
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("50m"), "memory": resource.MustParse("64Mi")},
			Limits:   corev1.ResourceList{"memory": resource.MustParse("256Mi")},
		},
		LivenessProbe:  probe("/livez"),
		ReadinessProbe: ready,
		SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem: new(true),
			Capabilities:           &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
	}
	if o.Configuration != "" {
		c.VolumeMounts = []corev1.VolumeMount{{Name: "configuration", MountPath: configurationDir, ReadOnly: true}}
	}
	return c
}

func (o *Options) disruptionBudget() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: o.metadata(), Spec: policyv1.PodDisruptionBudgetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: o.selector()}, MaxUnavailable: new(intstr.FromInt32(1))}}
}

// networkPolicy lets API servers reach the port, and nothing else. API servers aren't pods that
// could be selected: without their networks every address reaches the port. Outgoing connections
// aren't limited, because plugins call what their configuration names.
func (o *Options) networkPolicy() *networkingv1.NetworkPolicy {
	var from []networkingv1.NetworkPolicyPeer
	for _, network := range o.APIServers {
		from = append(from, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: network}})
	}
	return &networkingv1.NetworkPolicy{ObjectMeta: o.metadata(), Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: o.selector()},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{From: from, Ports: []networkingv1.NetworkPolicyPort{
			{Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromString(portName))}}}},
	}}
}
