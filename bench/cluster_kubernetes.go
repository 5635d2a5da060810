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
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"

	"gatehouse.dev/test/peers"
)

const limitedPrefix = "limited-"

func limitedNamespace(i int) string { return fmt.Sprint(limitedPrefix, i) }

// kubernetesAround is what runs around an API server.
type kubernetesAround struct{ processes []*peers.Process }

func (k *kubernetesAround) stop() {
	for _, p := range k.processes {
		p.Stop()
	}
	k.processes = nil
}

// runKubernetes starts kube-controller-manager, kube-scheduler and kwok, which plays the nodes. None of
// them limits its own requests to what a small cluster needs.
func runKubernetes(s *peers.Server) (*kubernetesAround, error) {
	kubeconfig := filepath.Join(s.Dir, "around.kubeconfig")
	if err := clientcmd.WriteToFile(kubeconfigOf(s.Config), kubeconfig); err != nil {
		return nil, err
	}
	stages := filepath.Join(s.Dir, "kwok.yaml")
	if err := os.WriteFile(stages, []byte(strings.Join([]string{nodefast.DefaultNodeInit, heartbeat.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady, podfast.DefaultPodComplete, podfast.DefaultPodDelete}, "\n---\n")), 0o600); err != nil {
		return nil, err
	}
	k := &kubernetesAround{}
	for program, flags := range map[string][]string{
		peers.ControllerManager: {"--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=1000"},
		peers.Scheduler:         {"--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=1000"},
		peers.Kwok:              {"--config=" + stages, "--manage-all-nodes", "--node-lease-duration-seconds=40"},
	} {
		p, err := peers.StartProcess(s.Dir, filepath.Join(s.Programs, program), append(flags, "--kubeconfig="+kubeconfig)...)
		if err != nil {
			k.stop()
			return nil, err
		}
		k.processes = append(k.processes, p)
	}
	return k, nil
}

// kubeconfigOf is an administrator's configuration as a file has it.
func kubeconfigOf(c *rest.Config) clientcmdapi.Config {
	file := clientcmdapi.NewConfig()
	file.Clusters["bench"] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthority: c.CAFile, CertificateAuthorityData: c.CAData}
	file.AuthInfos["bench"] = &clientcmdapi.AuthInfo{ClientCertificate: c.CertFile, ClientCertificateData: c.CertData,
		ClientKey: c.KeyFile, ClientKeyData: c.KeyData}
	file.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: "bench"}
	file.CurrentContext = "bench"
	return *file
}

// installClusterWebhooks makes webhook configurations: two are asked about pods, half of the others are
// for another kind, and half for namespaces that aren't there.
func installClusterWebhooks(ctx context.Context, client kubernetes.Interface, hook *yesWebhook) error {
	return runParallel(ctx, clusterWebhooks, func(i int) error {
		w := admissionregistrationv1.ValidatingWebhook{
			Name:         fmt.Sprintf("cluster-%d.bench.example.com", i),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To(hook.url + "/" + validate), CABundle: hook.ca},
			Rules: []admissionregistrationv1.RuleWithOperations{
				matchResource("pods").ResourceRules[0].RuleWithOperations},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}
		switch {
		case i < askedWebhooks:
		case i%2 == 0:
			w.Rules[0].Resources = []string{"replicationcontrollers"}
		default:
			w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"not": "there"}}
		}
		_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx,
			&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("cluster-", i)},
				Webhooks: []admissionregistrationv1.ValidatingWebhook{w}}, metav1.CreateOptions{})
		return err
	})
}

// installClusterPolicies makes policies: some let pods pass, the others are for another kind.
func installClusterPolicies(ctx context.Context, client kubernetes.Interface) error {
	return runParallel(ctx, clusterPolicies, func(i int) error {
		kind := "replicationcontrollers"
		if i < pastPolicies {
			kind = "pods"
		}
		return createValidatingPolicy(ctx, client, i, kind, trueExpression(i), nil, "")
	})
}

// makeNodes makes nodes, which kwok makes ready.
func makeNodes(ctx context.Context, client kubernetes.Interface, n int) error {
	return runParallel(ctx, n, func(i int) error {
		name := fmt.Sprint("node-", i)
		_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"}}},
			metav1.CreateOptions{})
		return err
	})
}

// makeLimitedNamespaces makes namespaces with a quota that is never reached, and returns when each has
// its count and its service account.
func makeLimitedNamespaces(ctx context.Context, client kubernetes.Interface, n int) error {
	if err := runParallel(ctx, n, func(i int) error {
		name := limitedNamespace(i)
		_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{})
		if err != nil {
			return err
		}
		_, err = client.CoreV1().ResourceQuotas(name).Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "bench"},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1k"),
				corev1.ResourceRequestsCPU: resource.MustParse("1k")}}}, metav1.CreateOptions{})
		return err
	}); err != nil {
		return err
	}
	for {
		accounts, err := client.CoreV1().ServiceAccounts("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=default"})
		quotas, err2 := client.CoreV1().ResourceQuotas("").List(ctx, metav1.ListOptions{})
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		ready := 0
		for _, quota := range quotas.Items {
			if len(quota.Status.Used) > 0 {
				ready++
			}
		}
		if len(accounts.Items) >= n && ready >= n {
			return nil
		}
		if err := sleep(ctx, time.Second); err != nil {
			return fmt.Errorf("%d of %d namespaces have a service account, %d a counted quota: %w", len(accounts.Items), n, ready, err)
		}
	}
}
