// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/internal/inventory"
)

var backendRules = []Rule{
	{"service-missing", Error, "a webhook's Service is not there", (*linting).serviceMissing},
	{"service-port", Error, "a webhook's Service lacks the port", (*linting).servicePort},
	{"endpoints-missing", Error, "nothing is behind a webhook's Service", (*linting).endpointsMissing},
	{"conversion-outage", Warning, "objects are converted whenever they are read", (*linting).conversionOutage},
}

// serviceMissing looks for Services that aren't among the objects. Files without any Service may be only a part
// of what is deployed.
func (l *linting) serviceMissing() {
	for _, c := range l.callees() {
		b := l.BackendOf(c.clientConfig.Service)
		if b == nil || b.Service != nil || !l.Complete && !l.HasServices() {
			continue
		}
		severity, where := Error, "the cluster"
		if !l.Complete {
			severity, where = Warning, "the files, which have others"
		}
		l.add(c.at("service"), severity, change{}, fmt.Sprintf("there is no Service %s in %s: each call fails, "+
			"and %s", b.Name, where, c.consequence), "create the Service, or remove the webhook")
	}
}

func (l *linting) servicePort() {
	for _, c := range l.callees() {
		b := l.BackendOf(c.clientConfig.Service)
		if b == nil || b.Service == nil || b.Service.Spec.Type == corev1.ServiceTypeExternalName {
			continue
		}
		wanted := int32(443)
		if p := c.clientConfig.Service.Port; p != nil {
			wanted = *p
		}
		has := false
		for _, p := range b.Service.Spec.Ports {
			has = has || p.Port == wanted
		}
		if !has {
			l.add(c.at("service/port"), Error, change{}, fmt.Sprintf("Service %s has no port %d: each call "+
				"fails, and %s", b.Name, wanted, c.consequence), "name one of the Service's ports, not of its pods'")
		}
	}
}

func (l *linting) endpointsMissing() {
	for _, c := range l.callees() {
		b := l.BackendOf(c.clientConfig.Service)
		if b == nil || b.Service == nil || b.Service.Spec.Type == corev1.ServiceTypeExternalName {
			continue
		}
		switch {
		case b.KnowsEndpoints && b.Ready == 0:
			l.add(c.at("service"), Error, change{}, fmt.Sprintf("Service %s has no ready endpoint: each call "+
				"fails, and %s", b.Name, c.consequence), "find out why its pods aren't ready")
		case !b.KnowsEndpoints && len(b.Workloads) > 0 && !slices.ContainsFunc(b.Workloads, func(w *inventory.Workload) bool {
			return w.Replicas > 0
		}):
			l.add(c.at("service"), Error, change{}, fmt.Sprintf("%s %s, whose pods Service %s selects, has 0 replicas: each call "+
				"fails, and %s", b.Workloads[0].Kind.Kind, b.Workloads[0].Name, b.Name, c.consequence), "let it have replicas")
		case !b.KnowsEndpoints && len(b.Workloads) == 0 && len(l.Workloads) > 0 && len(b.Service.Spec.Selector) > 0:
			l.add(c.at("service"), Warning, change{}, fmt.Sprintf("the selector of Service %s selects the pods "+
				"of no workload in the files: each call would fail, and %s", b.Name, c.consequence),
				"make the Service's selector and the labels of the pods' template the same")
		}
	}
}
