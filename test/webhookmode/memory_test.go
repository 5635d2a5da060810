// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookmode_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/program"
	"gatehouse.dev/test/servertest"
)

// What the program may take: on disk as an image holds it, and of memory when nobody asks it.
const (
	mostBytes = 60_000_000
	mostIdle  = 60_000_000
)

// The program is small, and stays so beside a cluster of 1,000 namespaces and 10,000 pods: with
// five plugins that many would run, and with the one besides that keeps something of every pod.
func TestSize(t *testing.T) {
	needs.Nightly(t)
	t.Parallel()
	file, err := program.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Size() > mostBytes {
		t.Errorf("%v: the program has %d bytes, more than %d", err, info.Size(), mostBytes)
	}
	large := servertest.Start(t, gatehousetest.WithPlugins("NamespaceLifecycle"))
	populate(t, large)
	const five = "AlwaysPullImages,PodNodeSelector,ResourceQuota,DenyServiceExternalIPs,LimitRanger"
	for _, plugins := range []string{five, five + ",NodeRestriction"} {
		port := servertest.FreePort(t)
		r := run(t, file, fmt.Sprintf("--url=https://127.0.0.1:%d", port), fmt.Sprintf("--secure-port=%d", port),
			"--kubeconfig="+large.Kubeconfig, "--plugins="+plugins, "--shutdown-delay-duration=0s")
		r.port = port
		waitRegistered(t, r)
		resident, client := 0.0, insecure(t)
		servertest.Retry(t, "little memory with "+plugins, func() error {
			_, metrics := r.get(t, client, "/metrics")
			_, value, _ := strings.Cut(metrics, "\nprocess_resident_memory_bytes ")
			value, _, _ = strings.Cut(value, "\n")
			var err error
			if resident, err = strconv.ParseFloat(value, 64); err != nil {
				return err
			}
			if resident > mostIdle {
				return fmt.Errorf("%.1f MB are in memory, more than %d", resident/1e6, mostIdle/1_000_000)
			}
			return nil
		})
		t.Logf("%s: %.1f MB in memory", plugins, resident/1e6)
		r.stop(t)
	}
}

// populate makes 1,000 namespaces with ten pods each, as they are where they run.
func populate(t *testing.T, large *servertest.Cluster) {
	t.Helper()
	var makers sync.WaitGroup
	for maker := range 10 {
		makers.Go(func() {
			for i := range 100 {
				namespace := fmt.Sprintf("large-%d", 100*maker+i)
				_, err := large.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
					ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
				for n := 0; n < 10 && err == nil; n++ {
					_, err = large.Client.CoreV1().Pods(namespace).Create(t.Context(), running(n),
						metav1.CreateOptions{})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	makers.Wait()
}

// running is a pod that runs on a node, with what such pods have.
func running(n int) *corev1.Pod {
	p := pod(fmt.Sprintf("web-6b7f9c8d5-%05d", n), func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": "web", "pod-template-hash": "6b7f9c8d5"}
		p.Annotations = map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "8080"}
		p.Spec.NodeName, p.Spec.ServiceAccountName = fmt.Sprintf("node-%d", n), "default"
	})
	c := &p.Spec.Containers[0]
	for i := range 10 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", i), Value: "what it is set to"})
	}
	mounted := func(name string, source corev1.VolumeSource) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
	}
	mounted("configuration", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "web"}}})
	mounted("kube-api-access-x7k2q", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token",
				ExpirationSeconds: new(int64(3607))}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}}},
		}}})
	return p
}
