// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/internal/count"
	"gatehouse.dev/internal/inventory"
)

var cycleRules = []Rule{
	{"own-pods", Error, "a webhook is asked about its own pods", (*linting).ownPods},
	{"own-namespace", Error, "a webhook is asked about what brings it back in its own namespace", (*linting).ownNamespace},
	{"own-certificate", Error, "a webhook is asked about its own certificate", (*linting).ownCertificate},
	{"kube-system", Error, "a webhook is asked about pods and workloads in kube-system", (*linting).kubeSystem},
	{"critical-workloads", Error, "a webhook is asked about pods that the cluster or the webhook needs",
		(*linting).criticalWorkloads},
}

// asked returns the words of the writes that a webhook is asked about, each once.
func (l *linting) asked(w *inventory.Webhook, writes ...*inventory.Write) (words []string) {
	for _, write := range writes {
		if asked, _ := l.Asks(l.ctx, w, write); asked && !slices.Contains(words, write.What) {
			words = append(words, write.What)
		}
	}
	return words
}

// outage says what happens to writes while a webhook can't be reached.
func outage(w *inventory.Webhook, writes []string) string {
	if w.Fails() {
		return "while it can't be reached, these are refused: " + sentence(writes)
	}
	return fmt.Sprintf("while it can't be reached, each of these waits up to %s: %s",
		count.Of(int(*w.TimeoutSeconds), "second"), sentence(writes))
}

// sentence lists words, and only the first ones of many.
func sentence(words []string) string {
	const most = 6
	if n := len(words); n > most {
		words = append(slices.Clone(words[:most-1]), fmt.Sprintf("%d more", n-most+1))
	}
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}

func (l *linting) ownPods() {
	for _, w := range l.Webhooks {
		b := l.Backend(w)
		if b == nil {
			continue
		}
		var writes []*inventory.Write
		for _, workload := range b.Workloads {
			writes = append(writes, inventory.PodCreation(workload))
		}
		if len(b.Workloads) == 0 {
			writes = append(writes, inventory.AnyPod(b.Name.Namespace))
		}
		if words := l.asked(w, writes...); len(words) > 0 {
			happens := "it is asked about its own pods: " + outage(w, words)
			if w.Fails() {
				happens += ". So it can't start again by itself"
			}
			l.add(at(w, "rules"), bySeverity(w.Fails()), l.excludeNamespaces(w, b.Name.Namespace), happens,
				"exclude its namespace with namespaceSelector, or its pods with objectSelector")
		}
	}
}

func (l *linting) ownNamespace() {
	for _, w := range l.Webhooks {
		b := l.Backend(w)
		if b == nil {
			continue
		}
		if words := l.asked(w, inventory.Healing(b.Name.Namespace)...); len(words) > 0 {
			l.add(at(w, "rules"), bySeverity(w.Fails()), l.excludeNamespaces(w, b.Name.Namespace),
				"it is asked about the objects that bring it back: "+outage(w, words),
				"exclude its namespace with namespaceSelector")
		}
	}
}

func (l *linting) ownCertificate() {
	for _, w := range l.Webhooks {
		namespace, name, ok := strings.Cut(w.Document.Object.GetAnnotations()[inventory.CertificateAnnotation], "/")
		if !ok {
			continue
		}
		words := l.asked(w, inventory.Certificates(namespace, name)...)
		if len(words) == 0 || !w.Fails() {
			continue
		}
		l.add(at(w, "rules"), Error, l.excludeNamespaces(w, namespace),
			"its own certificate is renewed by objects that it is asked about: "+outage(w, words)+
				". Once the certificate has expired, it can't be renewed",
			"exclude the certificate's namespace with namespaceSelector")
	}
}

func (l *linting) kubeSystem() {
	for _, w := range l.Webhooks {
		writes := []*inventory.Write{inventory.AnyPod("kube-system")}
		for _, workload := range l.Workloads {
			if workload.Namespace == "kube-system" && workload.Kind.Kind != "Pod" {
				writes = append(writes, inventory.PodCreation(workload))
			}
		}
		words := l.asked(w, append(writes, inventory.Healing("kube-system")...)...)
		if len(words) == 0 {
			continue
		}
		l.add(at(w, "rules"), bySeverity(w.Fails()), l.excludeNamespaces(w, "kube-system"),
			"kube-system is not excluded: "+outage(w, words)+". DNS, the network and the controllers that start pods "+
				"run there", "exclude kube-system with namespaceSelector")
	}
}

// injectsCertificates reports whether a workload copies certificates into webhook configurations.
func injectsCertificates(w *inventory.Workload) bool {
	return w.Labels["app.kubernetes.io/component"] == "cainjector" || w.Labels["app"] == "cainjector"
}

// hasInjectedCA reports whether another program writes a webhook's caBundle, by the configuration's annotations.
func hasInjectedCA(w *inventory.Webhook) bool {
	for key := range w.Document.Object.GetAnnotations() {
		if strings.Contains(key, "/inject-") && strings.Contains(key, "ca") {
			return true
		}
	}
	return false
}

func (l *linting) criticalWorkloads() {
	for _, w := range l.Webhooks {
		own := ""
		if b := l.Backend(w); b != nil {
			own = b.Name.Namespace
		}
		var words, namespaces []string
		for _, workload := range l.Workloads {
			if workload.Owner != nil || workload.Namespace == own || workload.Namespace == corev1.NamespaceNodeLease ||
				workload.Namespace == "kube-system" {
				continue // they have rules of their own
			}
			if !workload.Critical() && !(injectsCertificates(workload) && hasInjectedCA(w)) {
				continue
			}
			if found := l.asked(w, inventory.PodCreation(workload)); len(found) > 0 {
				words = append(words, found...)
				if !slices.Contains(namespaces, workload.Namespace) {
					namespaces = append(namespaces, workload.Namespace)
				}
			}
		}
		if len(words) > 0 {
			l.add(at(w, "rules"), bySeverity(w.Fails()), l.excludeNamespaces(w, namespaces...),
				outage(w, words)+". By their priority the cluster needs them, or they renew the webhook's certificate",
				"exclude their namespaces with namespaceSelector")
		}
	}
}
