// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/terminal"
)

const (
	// tourNamespace is where the tour writes.
	tourNamespace = "shop"
	// tourPatience is how long the tour waits for what controllers and watches do in a moment.
	tourPatience = 20 * time.Second
	// goodImage and badImage are an image that the tour's policy admits, and one that it refuses.
	goodImage, badImage = "nginx:1.29", "nginx:latest"
)

const tourPolicy = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-latest}
spec:
  matchConstraints:
    resourceRules:
    - operations: [CREATE]
      apiGroups: [""]
      apiVersions: [v1]
      resources: [pods]
  validations:
  - expression: object.spec.containers.all(c, !c.image.endsWith(':latest'))
    message: name the image's version
`

const tourBinding = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-latest}
spec: {policyName: no-latest, validationActions: [Deny]}
`

// tourSteps are the steps of gatehouse demo.
var tourSteps = []tourStep{
	{title: "what becomes of a pod", show: (*tour).showPod,
		text: "Plugins change objects before they are stored. A pod that is sent with a name\nand an image is stored with more than that.\n"},
	{title: "a refused write", show: (*tour).showRefusal,
		text: "Plugins also refuse. Not even an administrator may delete this namespace.\n"},
	{title: "why", follows: true, show: (*tour).showWhy,
		text: "The server records each decision. gatehouse why says who refused, and what\nwould have to change.\n"},
	{title: "a policy", show: (*tour).showPolicy,
		text: "Policies are rules of your own, in CEL. This one wants images with a version.\n"},
	{title: "a quota", show: (*tour).showQuota,
		text: "Quotas limit what a namespace may hold. This one allows one pod, and the second\none is refused.\n"},
}

func (t *tour) showPod(ctx context.Context) error {
	if err := t.ensurePod(ctx); err != nil {
		return err
	}
	return t.explainPod(ctx, "web", v1alpha1.Admitted)
}

func (t *tour) showRefusal(ctx context.Context) error {
	t.command("kubectl delete namespace default")
	return refused(t.send(ctx, t.client.CoreV1().RESTClient().Delete().Resource("namespaces").Name("default"), nil),
		http.StatusForbidden, "")
}

// showWhy shows what gatehouse why says of the refusal of showRefusal.
func (t *tour) showWhy(ctx context.Context) error {
	t.command("gatehouse why --last-refused")
	var found *v1alpha1.Decision
	err := until(ctx, "the server has recorded the refusal", func(ctx context.Context) (_ bool, err error) {
		found, err = t.why.client.LastRefused(ctx, metav1.NamespaceDefault)
		return err == nil && found != nil && found.Request.Name == metav1.NamespaceDefault && found.By != "", err
	})
	if err != nil {
		return err
	}
	return t.why.explain(found)
}

func (t *tour) showPolicy(ctx context.Context) error {
	if err := t.ensureNamespace(ctx); err != nil {
		return err
	}
	t.command("kubectl apply -f - <<END\n" + tourPolicy + "---\n" + tourBinding + "END")
	client := t.client.AdmissionregistrationV1().RESTClient()
	policy, binding := &admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	if err := errors.Join(yaml.UnmarshalStrict([]byte(tourPolicy), policy), yaml.UnmarshalStrict([]byte(tourBinding), binding)); err != nil {
		return err
	}
	if err := t.send(ctx, client.Post().Resource("validatingadmissionpolicies"), policy); err != nil {
		return err
	}
	if err := t.send(ctx, client.Post().Resource("validatingadmissionpolicybindings"), binding); err != nil {
		return err
	}
	// Policies are in force a moment after they are written.
	err := until(ctx, "the policy is in force", func(ctx context.Context) (bool, error) {
		_, err := t.client.CoreV1().Pods(tourNamespace).Create(ctx, tourPod("probe", badImage),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && !apierrors.IsInvalid(err) {
			return false, err
		}
		return err != nil, nil
	})
	if err != nil {
		return err
	}
	err = refused(t.sendPod(ctx, "latest", badImage), http.StatusUnprocessableEntity,
		policy.Spec.Validations[0].Message)
	if err != nil {
		return err
	}
	return t.explainPod(ctx, "latest", v1alpha1.Refused)
}

func (t *tour) showQuota(ctx context.Context) error {
	if err := t.ensurePod(ctx); err != nil {
		return err
	}
	const name = "one-pod"
	t.command("kubectl create quota " + name + " --hard=pods=1 -n " + tourNamespace)
	quota := &corev1.ResourceQuota{}
	quota.Name = name
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(1, resource.DecimalSI)}
	client := t.client.CoreV1()
	if err := t.send(ctx, client.RESTClient().Post().Namespace(tourNamespace).Resource("resourcequotas"), quota); err != nil {
		return err
	}
	err := until(ctx, "the quota counts the first pod", func(ctx context.Context) (bool, error) {
		now, err := client.ResourceQuotas(tourNamespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		used := now.Status.Used[corev1.ResourcePods]
		return used.Value() == 1, nil
	})
	if err != nil {
		return err
	}
	if err := refused(t.sendPod(ctx, "second", goodImage), http.StatusForbidden, name); err != nil {
		return err
	}
	return t.explainPod(ctx, "second", v1alpha1.Refused)
}

// ensureNamespace creates the tour's namespace, unless a step has.
func (t *tour) ensureNamespace(ctx context.Context) error {
	client := t.client.CoreV1()
	if _, err := client.Namespaces().Get(ctx, tourNamespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return err
	}
	t.command("kubectl create namespace " + tourNamespace)
	namespace := &corev1.Namespace{}
	namespace.Name = tourNamespace
	if err := t.send(ctx, client.RESTClient().Post().Resource("namespaces"), namespace); err != nil {
		return err
	}
	return until(ctx, "the namespace has a service account", func(ctx context.Context) (bool, error) {
		_, err := client.ServiceAccounts(tourNamespace).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// ensurePod creates the tour's first pod, unless a step has.
func (t *tour) ensurePod(ctx context.Context) error {
	if err := t.ensureNamespace(ctx); err != nil {
		return err
	}
	if _, err := t.client.CoreV1().Pods(tourNamespace).Get(ctx, "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return err
	}
	return t.sendPod(ctx, "web", goodImage)
}

// tourPod returns the pod that kubectl run makes.
func tourPod(name, image string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Name, pod.Labels = name, map[string]string{"run": name}
	pod.Spec.Containers = []corev1.Container{{Name: name, Image: image}}
	return pod
}

// sendPod creates a pod, and shows the command and the answer.
func (t *tour) sendPod(ctx context.Context, name, image string) error {
	t.command(fmt.Sprintf("kubectl run %s --image=%s -n %s", name, image, tourNamespace))
	return t.send(ctx, t.client.CoreV1().RESTClient().Post().Namespace(tourNamespace).Resource("pods"), tourPod(name, image))
}

// command shows the command that does the same as the next request.
func (t *tour) command(text string) {
	fmt.Fprintf(t.out, "\n$ %s\n", text)
}

// send sends a request, and shows the server's answer.
func (t *tour) send(ctx context.Context, request *rest.Request, body runtime.Object) error {
	if body != nil {
		request.Body(body)
	}
	code := 0
	err := request.Do(ctx).StatusCode(&code).Error()
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		code = int(status.Status().Code)
	} else if err != nil {
		return err // there is no answer
	}
	color, message := terminal.Green, ""
	if err != nil {
		color, message = terminal.Red, ": "+terminal.Line(err.Error())
	}
	fmt.Fprint(t.out, t.style.Format(fmt.Sprintf("  %d %s%s\n", code, http.StatusText(code), message),
		terminal.Palette{Indented: map[string]terminal.Color{strconv.Itoa(code): color}}))
	return err
}

// refused returns nil if err is a refusal with a status code and a word in its message.
func refused(err error, code int, word string) error {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return fmt.Errorf("the server admitted it, and should refuse it with %d", code)
	case !errors.As(err, &status) || int(status.Status().Code) != code || !strings.Contains(err.Error(), word):
		return fmt.Errorf("the server should refuse it with %d: %w", code, err)
	}
	return nil
}

// explainPod shows what gatehouse why says of a pod whose creation had this verdict, by a plugin that changed
// or refused it.
func (t *tour) explainPod(ctx context.Context, name string, verdict v1alpha1.Verdict) error {
	t.command(fmt.Sprintf("gatehouse why pod/%s -n %s", name, tourNamespace))
	mapping, err := t.why.client.Resource("pod")
	if err != nil {
		return err
	}
	what := fmt.Sprintf("the server has recorded that pod %s was %s", name, strings.ToLower(string(verdict)))
	err = until(ctx, what, func(ctx context.Context) (bool, error) {
		found, err := t.why.client.Object(ctx, mapping, tourNamespace, name)
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(found.Decisions, func(d v1alpha1.Decision) bool {
			return d.Verdict == verdict && (d.By != "" || len(d.ChangedBy) > 0)
		}), nil
	})
	if err != nil {
		return err
	}
	t.why.namespace = tourNamespace
	return t.why.explainObject(ctx, "pod", name)
}

// until asks until it is so, with patience.
func until(ctx context.Context, what string, isSo wait.ConditionWithContextFunc) error {
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, tourPatience, true, isSo)
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("waited %s until %s", tourPatience, what)
	}
	return err
}
