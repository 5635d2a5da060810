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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/test/peers"
)

const (
	mutate, validate = "mutate", "validate"
	// webhookPlugins are the plugins in one call.
	webhookPlugins = "AlwaysPullImages,PodNodeSelector,PodTolerationRestriction,ExtendedResourceToleration," +
		"LimitPodHardAntiAffinityTopology"
	// slice is how many reviews all clients post in a row, lone how many one client does.
	slice, lone = 2000, 100
	// settled is how long an API server may take to see webhook configurations that are stored.
	settled = 2 * time.Second
)

// The sides' indices. From firstPolicies on they refuse, too.
const (
	_ = iota // nobody
	sayingYes
	_ // patching
	firstPolicies
)

// namespaceOf returns the namespace whose pods a side is asked about.
func namespaceOf(side string) string { return "bench-" + side }

// wantedAnnotations are a namespace's: they say what the plugins add to its pods.
var wantedAnnotations = map[string]string{
	"scheduler.alpha.kubernetes.io/node-selector": "env=prod",
	"scheduler.alpha.kubernetes.io/defaultTolerations": `[{"key":"dedicated","operator":"Equal","value":"shared",` +
		`"effect":"NoSchedule"}]`,
}

// makeWanted makes the changes to a pod that the plugins would make.
func makeWanted(pod *corev1.Pod) {
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].ImagePullPolicy = corev1.PullAlways
	}
	pod.Spec.NodeSelector["env"] = "prod"
	pod.Spec.Tolerations = []corev1.Toleration{
		{Key: "dedicated", Operator: corev1.TolerationOpEqual, Value: "shared", Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoSchedule},
	}
}

// A side is asked about the pods of its own namespace. It is nothing, a webhook that says yes,
// Gatehouse's, or a peer's.
type side struct {
	title, name string
	hook        *peers.Process    // nil if nothing is asked
	urls        map[string]string // by phase
	// kept makes pods that the plugins don't change, changed makes pods that they change.
	kept, changed           *load
	keptOne, keptMany       loadFigures
	changedOne, changedMany loadFigures
	memory, anonymous       samples                 // MB, after it all
	reviews                 map[string]*loadFigures // of one client, by phase
	oneCore                 loadFigures
}

func (s *side) namespace() string { return namespaceOf(s.name) }

// namespacesExcept returns the namespaces of all sides except one, separated by commas.
func namespacesExcept(sides []string, but string) string {
	var names []string
	for _, s := range sides {
		if s != but {
			names = append(names, namespaceOf(s))
		}
	}
	return strings.Join(append(names, metav1.NamespaceSystem), ",")
}

// webhookBench is one run: a kube-apiserver, and all sides beside it.
type webhookBench struct {
	options    options
	bin, dir   string
	server     *peers.Server
	client     kubernetes.Interface
	kubeconfig string
	names      []string // of the sides
	peers      []webhookPeer
	modules    []string // the directories of the peers' modules
	sides      []*side
	processes  []*peers.Process
	// singleCore has processes with one core, Gatehouse's and the webhook that says yes. Only this
	// process asks them.
	singleCore []*side
	// recorded has reviews of the API server, by phase.
	recorded map[string][][]byte
	notes    []string
}

// measureWebhook measures what `gatehouse webhook` costs beside a kube-apiserver.
func measureWebhook(ctx context.Context, o options, bin string) (string, error) {
	dir, err := os.MkdirTemp(bin, "webhook-")
	if err != nil {
		return "", err
	}
	b := &webhookBench{options: o, bin: bin, dir: dir, names: []string{"none", "bare", patchingSide, peers.Gatehouse}}
	defer b.stop()
	// As the image has it, which reads less of its file into memory.
	if err := goBuild(ctx, "..", filepath.Join(bin, peers.GatehouseWebhook), peers.Packages[peers.GatehouseWebhook],
		"-tags=grpcnotrace", "-ldflags=-s -w"); err != nil {
		return "", err
	}
	for _, p := range webhookPeers {
		module, err := buildPeer(ctx, filepath.Join(bin, p.name), p.module, p.pkg)
		if err != nil {
			b.notes = append(b.notes, fmt.Sprintf("%s doesn't build: %v", p.title, err))
			continue
		}
		b.names, b.modules = append(b.names, p.name), append(b.modules, module)
		b.peers = append(b.peers, p)
	}
	if err := b.start(ctx); err != nil {
		return "", err
	}
	for round := range o.rounds {
		if err := b.runRound(ctx, round); err != nil {
			return "", err
		}
	}
	if err := sleep(ctx, o.idle); err != nil {
		return "", err
	}
	for _, s := range b.sides {
		if s.hook == nil {
			continue
		}
		m, err := memoryOf(s.hook)
		if err != nil {
			return "", err
		}
		s.memory, s.anonymous = append(s.memory, m.rss), append(s.anonymous, m.anon)
	}
	return b.report(), nil
}

func (b *webhookBench) stop() {
	for i := len(b.processes) - 1; i >= 0; i-- {
		b.processes[i].Stop()
	}
	if b.server != nil {
		b.server.Stop()
	}
}

// start starts the kube-apiserver and all sides, and makes the first pods.
func (b *webhookBench) start(ctx context.Context) (err error) {
	if b.server, err = start(ctx, subjects[kubernetesPeer], b.bin, b.dir); err != nil {
		return err
	}
	if b.client, err = kubernetes.NewForConfig(b.server.Config); err != nil {
		return err
	}
	if b.kubeconfig, err = b.server.Kubeconfig(); err != nil {
		return err
	}
	for _, name := range b.names {
		if _, err := b.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: namespaceOf(name), Annotations: wantedAnnotations}}, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	none := &side{title: "nobody", name: "none"}
	ours := &side{title: "Gatehouse", name: peers.Gatehouse}
	bare := &side{title: "says yes", name: "bare"}
	patches := &side{title: "patches", name: patchingSide}
	b.sides = []*side{none, bare, patches, ours}
	if err := b.startOurs(ctx, ours, ours.name); err != nil {
		return err
	}
	for _, s := range []*side{bare, patches} {
		if err := b.startYes(ctx, s); err != nil {
			return err
		}
	}
	for i, p := range b.peers {
		if err := b.startPeer(ctx, p, b.modules[i]); err != nil {
			return fmt.Errorf("%s: %w", p.title, err)
		}
	}
	for _, s := range b.sides {
		if err := b.prepare(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
	}
	if err := b.readRecordings(); err != nil {
		return err
	}
	for _, s := range b.sides[firstPolicies:] {
		if err := b.checkRefusal(ctx, s); err != nil {
			return err
		}
	}
	return b.startSingleCore(ctx)
}

// checkRefusal checks that a side refuses to validate a pod that the plugins would change.
func (b *webhookBench) checkRefusal(ctx context.Context, s *side) error {
	review := replaceNamespace(b.recorded[mutate][0], namespaceOf("bare"), s.namespace())
	if err := (reviewPost{s.urls[validate], review}).post(ctx, insecureClient(1)); !errors.Is(err, errRefused) {
		return fmt.Errorf("%s lets a pod pass that is not as it is wanted: %w", s.title, err)
	}
	return nil
}

// prepare makes a side's first pods, and checks that the plugins have changed the right ones.
func (b *webhookBench) prepare(ctx context.Context, s *side) error {
	beside := &peers.Server{Config: b.server.Config}
	if s.hook != nil {
		beside.Processes = []*peers.Process{s.hook}
	}
	s.reviews = map[string]*loadFigures{mutate: {}, validate: {}}
	s.kept = &load{server: beside, namespace: s.namespace(), prefix: "kept-", shape: makeWanted}
	s.changed = &load{server: beside, namespace: s.namespace(), prefix: "web-"}
	for _, l := range []*load{s.changed, s.kept} {
		if err := l.prepare(ctx); err != nil {
			return err
		}
		pod, err := b.client.CoreV1().Pods(s.namespace()).Get(ctx, fmt.Sprint(l.prefix, l.pods-1), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if isWanted(pod) != (l == s.kept || s.name != "none" && s.name != "bare") {
			return fmt.Errorf("pod %s has imagePullPolicy %s and node selector %v", pod.Name,
				pod.Spec.Containers[0].ImagePullPolicy, pod.Spec.NodeSelector)
		}
	}
	return nil
}

// startOurs starts `gatehouse webhook`, which is asked about the pods of the side named about, or
// of none.
func (b *webhookBench) startOurs(ctx context.Context, s *side, about string, env ...string) error {
	port, err := peers.FreePort()
	if err != nil {
		return err
	}
	dir := filepath.Join(b.dir, s.name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	url := "https://127.0.0.1:" + port
	flags := []string{"--kubeconfig=" + b.kubeconfig, "--plugins=" + webhookPlugins, "--url=" + url,
		"--bind-address=127.0.0.1", "--secure-port=" + port, "--shutdown-delay-duration=0", "--name=" + s.name,
		"--namespace=" + s.name + "-system", "--exempt-namespaces=" + namespacesExcept(b.names, about)}
	program, profiled := filepath.Join(b.bin, peers.GatehouseWebhook), b.options.profile != ""
	if profiled { // one that writes a profile at its end
		env = append(env, profiledWebhook+"="+filepath.Join(b.options.profile, s.name+".pprof"))
		if program, err = os.Executable(); err != nil {
			return err
		}
	}
	if s.hook, err = startWithEnv(dir, env, program, flags...); err != nil {
		return err
	}
	b.processes = append(b.processes, s.hook)
	s.urls = map[string]string{mutate: url + "/mutate", validate: url + "/validate"}
	if err := s.hook.AwaitOK(ctx, url+"/readyz"); err != nil {
		return err
	}
	_, _, err = b.awaitRegistered(ctx, s.name)
	return err
}

// awaitRegistered waits until the webhook configurations with this name have webhooks.
func (b *webhookBench) awaitRegistered(ctx context.Context, name string) (
	*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration,
	error) {
	ctx, cancel := context.WithTimeout(ctx, 2*peers.ReadyTimeout)
	defer cancel()
	api := b.client.AdmissionregistrationV1()
	for {
		m, err := api.MutatingWebhookConfigurations().Get(ctx, name, metav1.GetOptions{})
		v, validateErr := api.ValidatingWebhookConfigurations().Get(ctx, name, metav1.GetOptions{})
		err = errors.Join(err, validateErr)
		if err == nil && len(m.Webhooks) > 0 && len(v.Webhooks) > 0 {
			return m, v, sleep(ctx, settled)
		}
		if sleepErr := sleep(ctx, 20*peers.PollInterval); sleepErr != nil {
			return nil, nil, fmt.Errorf("webhook configurations %s: %w", name, errors.Join(err, sleepErr))
		}
	}
}

// startYes starts the webhook that says yes, and registers it.
func (b *webhookBench) startYes(ctx context.Context, s *side) error {
	if err := b.runYes(ctx, s); err != nil {
		return err
	}
	ca, err := os.ReadFile(filepath.Join(b.dir, s.name, caFile))
	if err != nil {
		return err
	}
	return b.register(ctx, s, ca)
}

// register makes webhook configurations for a side. They are copies of Gatehouse's, for the side's
// namespace.
func (b *webhookBench) register(ctx context.Context, s *side, ca []byte) error {
	m, v, err := b.awaitRegistered(ctx, peers.Gatehouse)
	if err != nil {
		return err
	}
	client := func(phase string) admissionregistrationv1.WebhookClientConfig {
		url := s.urls[phase]
		return admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca}
	}
	only := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace()}}
	m.ObjectMeta, v.ObjectMeta = metav1.ObjectMeta{Name: s.name}, metav1.ObjectMeta{Name: s.name}
	for i := range m.Webhooks {
		m.Webhooks[i].ClientConfig, m.Webhooks[i].NamespaceSelector = client(mutate), only
	}
	for i := range v.Webhooks {
		v.Webhooks[i].ClientConfig, v.Webhooks[i].NamespaceSelector = client(validate), only
	}
	api := b.client.AdmissionregistrationV1()
	_, err = api.MutatingWebhookConfigurations().Create(ctx, m, metav1.CreateOptions{})
	if err == nil {
		_, err = api.ValidatingWebhookConfigurations().Create(ctx, v, metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	return sleep(ctx, settled)
}

func (b *webhookBench) runYes(ctx context.Context, s *side, env ...string) error {
	port, err := peers.FreePort()
	if err != nil {
		return err
	}
	dir := filepath.Join(b.dir, s.name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	url := "https://127.0.0.1:" + port + "/"
	s.urls = map[string]string{mutate: url + mutate, validate: url + validate}
	if s.name == patchingSide {
		s.urls[mutate] = url + patchingSide
	}
	if s.hook, err = startBare(ctx, dir, port, env...); err == nil {
		b.processes = append(b.processes, s.hook)
	}
	return err
}
