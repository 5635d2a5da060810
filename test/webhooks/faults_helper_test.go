// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/servertest"
)

// A phase is one of the two in which webhooks are called.
type phase string

const (
	mutatingPhase   phase = "mutating"
	validatingPhase phase = "validating"
)

// webhookName is the name of the webhook that install installs by default.
func (p phase) webhookName() string { return string(p) + ".example.com" }

// faulty is a webhook of which a test expects the worst.
type faulty struct {
	name    string // mutating.example.com and validating.example.com by default
	backend admissionregistrationv1.WebhookClientConfig
	ignore  bool  // failurePolicy
	timeout int32 // timeoutSeconds, 10 by default
	labels  map[string]string
	rule    *admissionregistrationv1.RuleWithOperations // writes of configmaps by default
}

// install has writes of objects that have a webhook's labels, in the namespace, sent to it in the
// phase, and waits until they are. What it returns deletes the configuration; the test's end does
// that, too.
func install(t *testing.T, p phase, ns string, webhooks ...faulty) (remove func()) {
	t.Helper()
	isProbe := fmt.Sprintf("has(object.metadata.name) && object.metadata.name == %q", probeName+"-"+string(p))
	// A controller puts kube-root-ca.crt into each new namespace, when it comes to that.
	isForUs := fmt.Sprintf(`!(%s) && !(has(object.metadata.name) && object.metadata.name == "kube-root-ca.crt")`,
		isProbe)
	name := string(p) + "-" + ns
	all := make([]admissionregistrationv1.MutatingWebhook, 0, len(webhooks)+1)
	for _, w := range webhooks {
		policy := admissionregistrationv1.Fail
		if w.ignore {
			policy = admissionregistrationv1.Ignore
		}
		about := rule("", "v1", "configmaps", "CREATE", "UPDATE")
		if w.rule != nil {
			about = *w.rule
		}
		all = append(all, admissionregistrationv1.MutatingWebhook{
			Name: cmp.Or(w.name, p.webhookName()), ClientConfig: w.backend, FailurePolicy: &policy,
			TimeoutSeconds:  new(cmp.Or(w.timeout, 10)),
			ObjectSelector:  &metav1.LabelSelector{MatchLabels: w.labels},
			Rules:           []admissionregistrationv1.RuleWithOperations{about},
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "for-us", Expression: isForUs}},
		})
	}
	all = append(all, admissionregistrationv1.MutatingWebhook{
		Name:            "probe.example.com",
		ClientConfig:    webhooktest.New(t, webhooktest.Deny(http.StatusTeapot, "in force")).ClientConfig("/"),
		Rules:           []admissionregistrationv1.RuleWithOperations{rule("", "v1", "configmaps", "CREATE")},
		MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "probe", Expression: isProbe}},
	})
	for i := range all {
		all[i].NamespaceSelector, all[i].SideEffects, all[i].AdmissionReviewVersions = selector(ns),
			new(admissionregistrationv1.SideEffectClassNone), []string{"v1"}
	}

	api := client.AdmissionregistrationV1()
	var err error
	var del func(context.Context, string, metav1.DeleteOptions) error
	if p == mutatingPhase {
		c := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name},
			Webhooks: all}
		_, err = api.MutatingWebhookConfigurations().Create(t.Context(), c, metav1.CreateOptions{})
		del = api.MutatingWebhookConfigurations().Delete
	} else {
		c := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, w := range all {
			c.Webhooks = append(c.Webhooks, admissionregistrationv1.ValidatingWebhook{
				Name: w.Name, ClientConfig: w.ClientConfig, FailurePolicy: w.FailurePolicy,
				TimeoutSeconds: w.TimeoutSeconds, ObjectSelector: w.ObjectSelector, Rules: w.Rules,
				MatchConditions: w.MatchConditions, NamespaceSelector: w.NamespaceSelector, SideEffects: w.SideEffects,
				AdmissionReviewVersions: w.AdmissionReviewVersions,
			})
		}
		_, err = api.ValidatingWebhookConfigurations().Create(t.Context(), c, metav1.CreateOptions{})
		del = api.ValidatingWebhookConfigurations().Delete
	}
	if err != nil {
		t.Fatal(err)
	}
	remove = sync.OnceFunc(func() {
		if err := del(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(remove)
	servertest.Eventually(t, "the configuration to be in force", func() bool { return isProbed(t, p, ns) })
	return remove
}

// isProbed tells whether what install configures is in force.
func isProbed(t *testing.T, p phase, ns string) bool {
	err := createMap(t.Context(), ns, newMap(probeName+"-"+string(p)), "dryRun", metav1.DryRunAll)
	return apierrors.ReasonForError(err) == "" && err != nil
}

// eachPhase runs a test for both phases, with a namespace each. It returns when both are over, those
// that are parallel as well.
func eachPhase(t *testing.T, test func(t *testing.T, p phase, ns string)) {
	t.Run("phase", func(t *testing.T) {
		for _, p := range []phase{mutatingPhase, validatingPhase} {
			t.Run(string(p), func(t *testing.T) { test(t, p, namespace(t)) })
		}
	})
}

func newMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": "b"}}
}

// labelled is a configmap that is sent to the webhook of the name, which is its own name, too.
func labelled(webhook string) *corev1.ConfigMap {
	object := newMap(webhook)
	object.Labels = map[string]string{"webhook": webhook}
	return object
}

// createMap sends the configmap, with the parameters in the URL.
func createMap(ctx context.Context, ns string, object *corev1.ConfigMap, parameters ...string) error {
	request := client.CoreV1().RESTClient().Post().Namespace(ns).Resource("configmaps").Body(object)
	for i := 0; i < len(parameters); i += 2 {
		request.Param(parameters[i], parameters[i+1])
	}
	return request.Do(ctx).Error()
}

// deadConnection is the end of an error of a call down a connection that has just died.
var deadConnection = regexp.MustCompile(`(EOF|broken pipe|connection reset by peer|use of closed network connection)$`)

// noticed is what a write comes to once the server has noticed that its connection to a backend is
// dead: until then the call fails, though it wouldn't on a connection of its own.
func noticed(t *testing.T, write func() error) (err error) {
	t.Helper()
	servertest.Eventually(t, "the dead connection to be noticed", func() bool {
		err = write()
		return err == nil || !deadConnection.MatchString(err.Error())
	})
	return err
}

// wantStored checks whether there is such a configmap.
func wantStored(t *testing.T, ns, name string, stored bool) {
	t.Helper()
	_, err := client.CoreV1().ConfigMaps(ns).Get(t.Context(), name, metav1.GetOptions{})
	if stored && err != nil {
		t.Errorf("the object should be stored: %v", err)
	}
	if !stored && !apierrors.IsNotFound(err) {
		t.Errorf("the object should not be stored (%v)", err)
	}
}

// wantStatus checks an error's code, reason and message, which is a regular expression for all of
// it.
func wantStatus(t *testing.T, err error, code int32, reason metav1.StatusReason, message string) {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Errorf("the error is %v, want %d %s %s", err, code, reason, message)
		return
	}
	s := status.Status()
	if s.Code != code || s.Reason != reason || !regexp.MustCompile(`(?s)^(?:`+message+`)$`).MatchString(s.Message) {
		t.Errorf("the error is %d %s\n     %s\nwant %d %s\n     %s", s.Code, s.Reason, s.Message, code, reason, message)
	}
}

// calling is how a call failure of a webhook reads, to the cause.
func calling(webhook string) string {
	return `Internal error occurred: failed calling webhook "` + regexp.QuoteMeta(webhook) + `": `
}

// wantAlive checks that the server answers, and stores what no webhook is asked about.
func wantAlive(t *testing.T) {
	t.Helper()
	if body, err := client.CoreV1().RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context()); err != nil {
		t.Errorf("/readyz: %v: %s", err, body)
	}
	if err := createMap(t.Context(), namespace(t), newMap("alive")); err != nil {
		t.Error(err)
	}
}

// samples are the lines of the server's metrics.
type samples []string

func scrape(t *testing.T) samples {
	t.Helper()
	body, err := client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(body), "\n")
}

// sum is that of all samples of a metric whose labels are the given ones, `name="value"`, and any
// others.
func (s samples) sum(metric string, labels ...string) (sum float64) {
	for _, line := range s {
		sample, ok := strings.CutPrefix(line, metric+"{")
		if !ok || slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(sample, label) }) {
			continue
		}
		value, _ := strconv.ParseFloat(sample[strings.LastIndexByte(sample, ' ')+1:], 64)
		sum += value
	}
	return sum
}

// leakFree fails the test if, after all that was registered for its end after this, requests or
// calls of webhooks go on that don't now. The server and the backends are all in this process, so
// that none can hide. Connections are for unconnected to count.
func leakFree(t *testing.T) {
	t.Helper()
	before := len(atWork())
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		var left []string
		// What is given up takes a while to notice. Each look stops the world.
		err := wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, 2*time.Minute, true,
			func(context.Context) (bool, error) {
				left = atWork()
				return len(left) <= before, nil
			})
		if err != nil {
			t.Errorf("%d goroutines are at work, where %d were:\n%s", len(left), before, strings.Join(left, "\n\n"))
		}
	})
}

// atWork are the goroutines that serve writes, admit them, call webhooks or answer as one. Others
// come and go as the server's controllers want it, for a while after its start.
func atWork() []string {
	return slices.DeleteFunc(stacks(), func(stack string) bool {
		return !slices.ContainsFunc([]string{
			"gatehouse.dev/webhook/", "gatehouse.dev/chain.(*generation)", "/endpoints/handlers.createHandler",
			"/endpoints/handlers.UpdateResource", "/endpoints/handlers.PatchResource",
			"/endpoints/handlers/finisher.", "/server/filters.(*timeoutHandler).ServeHTTP.func",
		}, func(part string) bool { return strings.Contains(stack, part) })
	})
}

// stacks are those of all goroutines.
func stacks() []string {
	for size := 1 << 20; ; size *= 2 {
		all := make([]byte, size)
		if n := runtime.Stack(all, true); n < size {
			return strings.Split(string(all[:n]), "\n\n")
		}
	}
}

// settled waits until the server has done with all creations, also with those whose clients don't
// wait for them any more.
func settled(t *testing.T) {
	t.Helper()
	servertest.Eventually(t, "the server to be done with all requests", func() bool {
		return !slices.ContainsFunc(stacks(),
			func(stack string) bool { return strings.Contains(stack, "/endpoints/handlers.createHandler") })
	})
}

// unconnected waits until the server has no connection to the backend any more.
func unconnected(t *testing.T, b *webhooktest.Server) {
	t.Helper()
	servertest.Eventually(t, "no connection to the backend", func() bool { return b.Connections() == 0 })
}
