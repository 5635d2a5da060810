// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

var backendRules = []Rule{
	{"service-missing", Error, "a webhook's Service is not there", (*linting).serviceMissing},
	{"service-port", Error, "a webhook's Service lacks the port", (*linting).servicePort},
	{"endpoints-missing", Error, "nothing is behind a webhook's Service", (*linting).endpointsMissing},
}

// serviceMissing looks for Services that aren't among the objects. Files without any Service may be only a part
// of what is deployed.
func (l *linting) serviceMissing() {
	for _, w := range l.Webhooks {
		b := l.Backend(w)
		if b == nil || b.Service != nil || !l.Complete && !l.HasServices() {
			continue
		}
		severity, where := Error, "the cluster"
		if !l.Complete {
			severity, where = Warning, "the files, which have others"
		}
		l.add(at(w, "clientConfig/service"), severity, change{}, fmt.Sprintf("there is no Service %s in %s: each call fails, "+
			"and %s", b.Name, where, consequence(w.Fails())), "create the Service, or remove the webhook")
	}
}

// consequence says what becomes of a request if a call fails.
func consequence(fails bool) string {
	if fails {
		return "each request that it would be asked about is refused"
	}
	return "requests pass without it"
}

func (l *linting) servicePort() {
	for _, w := range l.Webhooks {
		b := l.Backend(w)
		if b == nil || b.Service == nil || b.Service.Spec.Type == corev1.ServiceTypeExternalName ||
			w.ClientConfig.Service == nil {
			continue
		}
		wanted := int32(443)
		if p := w.ClientConfig.Service.Port; p != nil {
			wanted = *p
		}
		has := false
		for _, p := range b.Service.Spec.Ports {
			has = has || p.Port == wanted
		}
		if !has {
			l.add(at(w, "clientConfig/service/port"), Error, change{}, fmt.Sprintf("Service %s has no port %d: each call "+
				"fails, and %s", b.Name, wanted, consequence(w.Fails())), "name one of the Service's ports, not of its pods'")
		}
	}
}

func (l *linting) endpointsMissing() {
	for _, w := range l.Webhooks {
		b := l.Backend(w)
		if b == nil || b.Service == nil || b.Service.Spec.Type == corev1.ServiceTypeExternalName {
			continue
		}
		switch {
		case b.KnowsEndpoints && b.Ready == 0:
			l.add(at(w, "clientConfig/service"), Error, change{}, fmt.Sprintf("Service %s has no ready endpoint: each call "+
				"fails, and %s", b.Name, consequence(w.Fails())), "find out why its pods aren't ready")
		case !b.KnowsEndpoints && len(b.Workloads) == 0 && len(l.Workloads) > 0 && len(b.Service.Spec.Selector) > 0:
			l.add(at(w, "clientConfig/service"), Warning, change{}, fmt.Sprintf("the selector of Service %s selects the pods "+
				"of no workload in the files: each call would fail, and %s", b.Name, consequence(w.Fails())),
				"make the Service's selector and the labels of the pods' template the same")
		}
	}
}
