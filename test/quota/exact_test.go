// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/apiserver/etcd"
	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

var load = flag.Duration("quota.load", 10*time.Second, "how long TestExact puts load on the quotas")

const clients = 100

// What is promised of quota, with two servers over one etcd and many clients that create, update
// and delete pods, fail at it in every way there is, and edit the limits meanwhile:
//
//	(a) the sum over the stored objects never exceeds the hard limits at any revision unless they were lowered,
//	(b) status.used equals that sum at every revision,
//	(c) no request is refused while there is room, and none fails because of a conflict on the quota.
//
// The history is read from etcd itself, revision by revision.
func TestExact(t *testing.T) {
	store := servertest.StartEtcd(t)
	var servers []kubernetes.Interface
	for range 2 {
		servers = append(servers, clientOf(gatehousetest.Start(t, over(store))))
	}
	vetoing(t, servers)
	const namespace = "busy"
	namespaceWith(t, servers[0], namespace, 0)
	for _, q := range busyQuotas() {
		if _, err := servers[0].CoreV1().ResourceQuotas(namespace).Create(t.Context(), q,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	h := record(t, store, namespace)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	counts := &tally{counts: map[string]int{}}
	for i := range clients {
		running.Go(func() {
			w := &worker{
				t: t, client: servers[i%len(servers)], namespace: namespace, history: h, tally: counts,
				random: rand.New(rand.NewPCG(uint64(i), 1)), id: i,
			}
			for ctx.Err() == nil {
				w.step(ctx)
			}
		})
	}
	running.Go(func() { editLimits(ctx, t, servers, namespace) })
	// On a busy machine it takes longer until all that can happen has happened.
	missing := counts.waitFor(*load, 6**load, "created", "refused", "deleted", "updated", "exists", "vetoed", "invalid")
	cancel()
	running.Wait()

	h.finish(t)
	h.check(t)
	t.Logf("%d revisions with pods or quotas; %s", len(h.states), counts)
	if len(missing) > 0 {
		t.Errorf("nothing was %s: the load doesn't test that", missing)
	}
}

// busyQuotas are small enough to be full most of the time.
func busyQuotas() []*corev1.ResourceQuota {
	limits := func(name string, hard map[corev1.ResourceName]string,
		scopes ...corev1.ResourceQuotaScope) *corev1.ResourceQuota {
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}, Scopes: scopes}}
		for k, v := range hard {
			q.Spec.Hard[k] = resource.MustParse(v)
		}
		return q
	}
	return []*corev1.ResourceQuota{
		limits("all", map[corev1.ResourceName]string{"pods": "40", "requests.cpu": "5", "count/pods": "45"}),
		limits("short", map[corev1.ResourceName]string{"pods": "15"}, corev1.ResourceQuotaScopeTerminating),
	}
}

// editLimits lowers and raises a limit, and sets and lifts another one, all the time, and each time
// at another server.
func editLimits(ctx context.Context, t *testing.T, servers []kubernetes.Interface, namespace string) {
	for i := 0; ctx.Err() == nil; i++ {
		memory := []string{`"4Gi"`, `null`}[i/2%2]
		patch := fmt.Sprintf(`{"spec":{"hard":{"pods":"%d","requests.memory":%s}}}`, 30+10*(i%3), memory)
		_, err := servers[i%len(servers)].CoreV1().ResourceQuotas(namespace).Patch(ctx, "all", types.MergePatchType,
			[]byte(patch), metav1.PatchOptions{})
		if err != nil && ctx.Err() == nil {
			t.Errorf("editing the limit: %v", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// worker is one client.
type worker struct {
	t         *testing.T
	client    kubernetes.Interface
	namespace string
	history   *history
	tally     *tally
	random    *rand.Rand
	id, n     int
	mine      []string
	tolerant  bool // of servers that are away
}

var createOptions = metav1.CreateOptions{}

// step does one thing at random.
func (w *worker) step(ctx context.Context) {
	pods := w.client.CoreV1().Pods(w.namespace)
	switch choice := w.random.IntN(20); {
	case choice < 9:
		w.n++
		p := pod(fmt.Sprintf("p-%d-%d", w.id, w.n))
		if w.random.IntN(3) == 0 {
			seconds := int64(3600)
			p.Spec.ActiveDeadlineSeconds = &seconds
		}
		if w.create(ctx, p) == nil {
			w.mine = append(w.mine, p.Name)
		}
	case choice < 10 && len(w.mine) > 0: // exists already
		w.create(ctx, pod(w.mine[w.random.IntN(len(w.mine))]))
	case choice < 11: // a validating webhook says no
		w.create(ctx, vetoed(fmt.Sprintf("veto-%d", w.id)))
	case choice < 12: // doesn't validate
		p := pod(fmt.Sprintf("invalid-%d", w.id))
		p.Spec.RestartPolicy = "Sometimes"
		w.create(ctx, p)
	case choice < 13: // the client goes away
		gone, cancel := context.WithTimeout(ctx, time.Duration(w.random.IntN(3000))*time.Microsecond)
		defer cancel()
		name := fmt.Sprintf("gone-%d-%d", w.id, w.n)
		w.n++
		_, _ = pods.Create(gone, pod(name), metav1.CreateOptions{})
		w.mine = append(w.mine, name)
	case choice < 15 && len(w.mine) > 0: // from one scope into the other, and the end of a pod
		name := w.mine[w.random.IntN(len(w.mine))]
		patch, subresource := `{"spec":{"activeDeadlineSeconds":1800}}`, ""
		if w.random.IntN(3) == 0 {
			patch, subresource = `{"status":{"phase":"Succeeded"}}`, "status"
		}
		_, err := pods.Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{},
			subresources(subresource)...)
		w.judge(ctx, "updated", err)
	case len(w.mine) > 0:
		i := w.random.IntN(len(w.mine))
		name := w.mine[i]
		w.mine = append(w.mine[:i], w.mine[i+1:]...)
		now := int64(0)
		w.judge(ctx, "deleted", pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	}
}

func subresources(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

func (w *worker) create(ctx context.Context, p *corev1.Pod) error {
	before := w.history.revision(ctx)
	_, err := w.client.CoreV1().Pods(w.namespace).Create(ctx, p, metav1.CreateOptions{})
	if exceeded(err) {
		w.history.refused(before, w.history.revision(ctx), p, err)
	}
	w.judge(ctx, "created", err)
	return err
}

// judge counts what happened, and fails the test where it must not.
func (w *worker) judge(ctx context.Context, success string, err error) {
	var status *apierrors.StatusError
	switch {
	case err == nil:
		w.tally.add(success)
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
	case exceeded(err):
		w.tally.add("refused")
	case apierrors.IsForbidden(err):
		w.tally.add("vetoed")
	case apierrors.IsAlreadyExists(err):
		w.tally.add("exists")
	case apierrors.IsNotFound(err):
		w.tally.add("missing")
	case apierrors.IsInvalid(err):
		w.tally.add("invalid")
	case w.tolerant && (!errors.As(err, &status) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsUnauthorized(err)):
		w.tally.add("away")
	case errors.As(err, &status):
		w.t.Errorf("%s: %d %s", success, status.ErrStatus.Code, status.ErrStatus.Message)
	default:
		w.t.Errorf("%s: %v", success, err)
	}
}

type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (t *tally) add(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[what]++
}

// waitFor waits for at least that long, and then until all of what has happened, but not for longer
// than most.
func (t *tally) waitFor(least, most time.Duration, what ...string) (missing []string) {
	started := time.Now()
	for range time.Tick(100 * time.Millisecond) {
		t.mu.Lock()
		missing = slices.DeleteFunc(slices.Clone(what), func(kind string) bool { return t.counts[kind] > 0 })
		t.mu.Unlock()
		if passed := time.Since(started); passed > most || passed > least && len(missing) == 0 {
			break
		}
	}
	return missing
}

func (t *tally) String() string { return fmt.Sprint(t.counts) }

// over makes a server store in that etcd.
func over(store *etcd.Server) gatehousetest.Option {
	return gatehousetest.WithConfig(func(c *server.Config) { c.API.Etcd.StorageConfig.Transport.ServerList = []string{store.Endpoint()} })
}

// vetoing makes a validating webhook that refuses pods labelled veto, and waits until all servers
// ask it.
func vetoing(t *testing.T, servers []kubernetes.Interface) {
	t.Helper()
	backend := webhooktest.New(t, webhooktest.Deny(http.StatusForbidden, "vetoed"))
	rule := admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
			Resources: []string{"pods"}},
	}
	none := admissionregistrationv1.SideEffectClassNone
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "veto"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "veto.example.com", ClientConfig: backend.ClientConfig("/"), SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"},
			Rules:                   []admissionregistrationv1.RuleWithOperations{rule},
			ObjectSelector:          &metav1.LabelSelector{MatchLabels: map[string]string{"veto": "yes"}},
		}},
	}
	if _, err := servers[0].AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(),
		configuration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, server := range servers {
		for {
			_, err := server.CoreV1().Pods("default").Create(t.Context(), vetoed("probe"),
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if apierrors.IsForbidden(err) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func vetoed(name string) *corev1.Pod {
	p := pod(name)
	p.Labels = map[string]string{"veto": "yes"}
	return p
}
