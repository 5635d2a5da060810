// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/test/peers"
)

// A webhookPeer does by policies what two of the plugins do: all pods of its namespace pull their
// images always and run on nodes with a label, and other pods are refused.
type webhookPeer struct {
	title, name, module, pkg string
	// crds are the folders of its module with its CustomResourceDefinitions.
	crds []string
	// objects exist before it starts, policies are created after.
	objects, policies string
	// run starts it, and registers it for its namespace.
	run func(ctx context.Context, b *webhookBench, s *side) error
}

var webhookPeers = []webhookPeer{
	{title: "Kyverno 1.19", name: "kyverno-controller", module: "github.com/kyverno/kyverno@v1.19.1",
		pkg: "./cmd/kyverno",
		crds: []string{"config/crds/kyverno", "config/crds/policies.kyverno.io", "config/crds/policyreport",
			"config/crds/reports"},
		objects: kyvernoObjects, policies: kyvernoPodPolicies, run: runKyverno},
	{title: "Gatekeeper 3.23", name: "gatekeeper", module: "github.com/open-policy-agent/gatekeeper/v3@v3.23.1",
		pkg:  ".",
		crds: []string{"charts/gatekeeper/crds"}, policies: gatekeeperPodPolicies, run: runGatekeeper},
}

// startPeer installs a peer and starts it, and waits until it does what its policies say.
func (b *webhookBench) startPeer(ctx context.Context, p webhookPeer, module string) error {
	log.SetLogger(logr.Discard()) // envtest's
	s := &side{title: p.title, name: p.name}
	var paths []string
	for _, folder := range p.crds {
		paths = append(paths, filepath.Join(module, folder))
	}
	if _, err := envtest.InstallCRDs(b.server.Config, envtest.CRDInstallOptions{Paths: paths,
		ErrorIfPathMissing: true, MaxTime: peers.ReadyTimeout}); err != nil {
		return err
	}
	if err := b.apply(ctx, strings.ReplaceAll(p.objects, "NAMESPACE", s.namespace())); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(b.dir, s.name), 0o700); err != nil {
		return err
	}
	if err := p.run(ctx, b, s); err != nil {
		return err
	}
	if err := b.apply(ctx, p.policies); err != nil {
		return s.hook.Failure(err)
	}
	if err := b.awaitInForce(ctx, s); err != nil {
		return s.hook.Failure(err)
	}
	b.sides = append(b.sides, s)
	return nil
}

// apply creates objects. The kinds of some are made by objects before them, so it tries again for a
// while.
func (b *webhookBench) apply(ctx context.Context, documents string) error {
	ctx, cancel := context.WithTimeout(ctx, peers.ReadyTimeout)
	defer cancel()
	for document := range strings.SplitSeq(documents, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), object); err != nil {
			return err
		}
		if object.Object == nil {
			continue
		}
		for {
			c, err := client.New(b.server.Config, client.Options{})
			if err == nil {
				if err = c.Create(ctx, object); err == nil || apierrors.IsAlreadyExists(err) {
					break
				}
			}
			if sleepErr := sleep(ctx, 50*peers.PollInterval); sleepErr != nil {
				return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), errors.Join(err, sleepErr))
			}
		}
	}
	return nil
}

// awaitInForce waits until pods are changed.
func (b *webhookBench) awaitInForce(ctx context.Context, s *side) error {
	ctx, cancel := context.WithTimeout(ctx, 2*peers.ReadyTimeout)
	defer cancel()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err := b.client.CoreV1().ServiceAccounts(s.namespace()).Create(ctx, account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	for {
		pod, err := b.client.CoreV1().Pods(s.namespace()).Create(ctx, newPod("probe"),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && isWanted(pod) {
			return nil
		}
		if sleepErr := sleep(ctx, 20*peers.PollInterval); sleepErr != nil {
			return fmt.Errorf("its policies are not in force: %w", errors.Join(err, sleepErr))
		}
	}
}

// isWanted reports whether a pod has the changes of plugins and policies.
func isWanted(pod *corev1.Pod) bool {
	return pod.Spec.Containers[0].ImagePullPolicy == corev1.PullAlways && pod.Spec.NodeSelector["env"] == "prod"
}

// runKyverno starts Kyverno's admission controller as its chart does, outside the cluster, without
// the reports and events that it would write. It registers itself.
func runKyverno(ctx context.Context, b *webhookBench, s *side) error {
	ports, err := peers.FreePorts(2)
	if err != nil {
		return err
	}
	port, metrics := ports[0], ports[1]
	address := "127.0.0.1:" + port
	s.hook, err = startWithEnv(filepath.Join(b.dir, s.name), []string{"KYVERNO_NAMESPACE=kyverno",
		"KYVERNO_SERVICEACCOUNT_NAME=kyverno-admission-controller", "KYVERNO_ROLE_NAME=kyverno:admission-controller",
		"KYVERNO_DEPLOYMENT=kyverno-admission-controller", "KYVERNO_POD_NAME=bench", "KYVERNO_SVC=kyverno-svc",
		"INIT_CONFIG=kyverno", "METRICS_CONFIG=kyverno-metrics"}, filepath.Join(b.bin, "kyverno-controller"),
		"--kubeconfig="+b.kubeconfig, "--serverIP="+address, "--webhookServerHost=127.0.0.1",
		"--webhookServerPort="+port, "--metricsHost=127.0.0.1", "--metricsPort="+metrics, "--disableMetrics=true",
		"--controllerRuntimeMetricsAddress=0", "--admissionReports=false", "--enableReporting=",
		"--omitEvents=PolicyApplied,PolicySkipped,PolicyViolation,PolicyError",
		"--caSecretName=kyverno-svc.kyverno.svc.kyverno-tls-ca",
		"--tlsSecretName=kyverno-svc.kyverno.svc.kyverno-tls-pair",
		"--backgroundServiceAccountName=system:serviceaccount:kyverno:kyverno-background-controller",
		"--reportsServiceAccountName=system:serviceaccount:kyverno:kyverno-reports-controller")
	if err != nil {
		return err
	}
	b.processes = append(b.processes, s.hook)
	s.urls = map[string]string{mutate: "https://" + address + "/mutate/fail",
		validate: "https://" + address + "/validate/fail"}
	return s.hook.AwaitOK(ctx, "https://"+address+"/health/readiness")
}

// runGatekeeper starts Gatekeeper's manager as its Deployment does, but with a certificate of ours,
// and outside the cluster. It is registered as Gatehouse is.
func runGatekeeper(ctx context.Context, b *webhookBench, s *side) error {
	dir := filepath.Join(b.dir, s.name)
	certPEM, keyPEM, caPEM, err := bareCertificate()
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"tls.crt": certPEM, "tls.key": keyPEM, "ca.crt": caPEM} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	ports, err := peers.FreePorts(3)
	if err != nil {
		return err
	}
	port, health, metrics := ports[0], ports[1], ports[2]
	s.hook, err = startWithEnv(dir, []string{"POD_NAMESPACE=gatekeeper-system", "NAMESPACE=gatekeeper-system",
		"CONTAINER_NAME=manager"}, filepath.Join(b.bin, s.name), "--kubeconfig="+b.kubeconfig, "--host=127.0.0.1",
		"--port="+port, "--health-addr=127.0.0.1:"+health, "--prometheus-port="+metrics, "--cert-dir="+dir,
		"--disable-cert-rotation", "--debug-use-fake-pod", "--exempt-namespace=gatekeeper-system",
		"--operation=webhook", "--operation=mutation-webhook", "--operation=generate",
		"--disable-opa-builtin={http.send}")
	if err != nil {
		return err
	}
	b.processes = append(b.processes, s.hook)
	if err := s.hook.AwaitOK(ctx, "http://127.0.0.1:"+health+"/readyz"); err != nil {
		return err
	}
	url := "https://127.0.0.1:" + port + "/v1/"
	s.urls = map[string]string{mutate: url + "mutate", validate: url + "admit"}
	return b.register(ctx, s, caPEM)
}
