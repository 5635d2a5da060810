// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package requests_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/core"
)

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx:1"}}}}
}

func forbid(reason string) func(context.Context, admission.Attributes) error {
	return func(_ context.Context, a admission.Attributes) error {
		return admission.NewForbidden(a, errors.New(reason))
	}
}

// wantError checks the refusal that a client got.
func wantError(t testing.TB, err error, code int32, reason metav1.StatusReason, message string) {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("error is %v, want %d %s", err, code, message)
	}
	if s := status.Status(); s.Code != code || s.Reason != reason || s.Message != message {
		t.Errorf("refused with\n  %d %s %s\nwant\n  %d %s %s", s.Code, s.Reason, s.Message, code, reason, message)
	}
}

func wantLines(t testing.TB, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the plugins saw (-want +got):\n%s", diff)
	}
}

// podPhases says which plugin was asked in which phase. Controllers make other objects in every new
// namespace.
func podPhases(plugin, phase string, a admission.Attributes) string {
	if a.GetResource().Resource != "pods" {
		return ""
	}
	return plugin + " " + phase
}

func TestPhasesAndOrder(t *testing.T) {
	namespace := shared.namespace(t, "order")
	j := recording(t, namespace, podPhases, first, adopted, last)
	if _, err := shared.Client.CoreV1().Pods(namespace).Create(t.Context(), newPod("p"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wantLines(t, j.read(), "ProbeFirst admit", "ProbeAdopted admit", "ProbeLast admit", "ProbeFirst validate",
		"ProbeAdopted validate", "ProbeLast validate")

	j = recording(t, namespace, podPhases, last)
	first.during(t, namespace, hook{admit: forbid("not here")})
	// The pod is invalid, too, but that is found out later.
	_, err := shared.Client.CoreV1().Pods(namespace).Create(t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "invalid"}}, metav1.CreateOptions{})
	wantError(t, err, http.StatusForbidden, metav1.StatusReasonForbidden, `pods "invalid" is forbidden: not here`)
	wantLines(t, j.read())

	first.during(t, namespace, hook{validate: forbid("not there")})
	_, err = shared.Client.CoreV1().Pods(namespace).Create(t.Context(), newPod("refused"), metav1.CreateOptions{})
	wantError(t, err, http.StatusForbidden, metav1.StatusReasonForbidden, `pods "refused" is forbidden: not there`)
	wantLines(t, j.read(), "ProbeLast admit")

	pods, err := shared.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 {
		t.Errorf("stored are %v (%v), want only the pod that was admitted", pods.Items, err)
	}
}

// What a plugin makes of an object is validated as if the client had sent it.
func TestMutatedObjectIsValidated(t *testing.T) {
	namespace := shared.namespace(t, "mutated-invalid")
	j := recording(t, namespace, podPhases, last)
	first.during(t, namespace, hook{admit: func(_ context.Context, a admission.Attributes) error {
		if pod, ok := a.GetObject().(*corev1.Pod); ok {
			pod.Spec.Containers[0].Name = "Not_A_Label"
		}
		return nil
	}})
	_, err := shared.Client.CoreV1().Pods(namespace).Create(t.Context(), newPod("p"), metav1.CreateOptions{})
	wantError(t, err, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
		`Pod "p" is invalid: spec.containers[0].name: Invalid value: "Not_A_Label": `+strings.Join(
			validation.IsDNS1123Label("Not_A_Label"), ""))
	wantLines(t, j.read(), "ProbeLast admit")
}

// The mutating phase sees what the client sent, with its defaults; the validating phase what is
// going to be stored.
func TestFinalState(t *testing.T) {
	namespace := shared.namespace(t, "final")
	j := recording(t, namespace, func(_, phase string, a admission.Attributes) string {
		object, err := meta.Accessor(a.GetObject())
		if err != nil {
			return err.Error()
		}
		made := object.GetCreationTimestamp()
		known := fmt.Sprintf("%s: name %t uid %t time %t", phase, object.GetName() != "", object.GetUID() != "",
			!made.IsZero())
		switch object := a.GetObject().(type) {
		case *corev1.Pod:
			return fmt.Sprintf("%s restart %q phase %q qos %q", known, object.Spec.RestartPolicy, object.Status.Phase,
				object.Status.QOSClass)
		case *corev1.Service:
			return fmt.Sprintf("%s type %q ip %t", known, object.Spec.Type, object.Spec.ClusterIP != "")
		}
		return ""
	}, last)
	pod := newPod("")
	pod.GenerateName = "p-"
	if _, err := shared.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wantLines(t, j.read(),
		`admit: name false uid false time false restart "Always" phase "" qos ""`,
		`validate: name true uid true time true restart "Always" phase "Pending" qos "BestEffort"`)

	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	if _, err := shared.Client.CoreV1().Services(namespace).Create(t.Context(), service,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wantLines(t, j.read(),
		`admit: name true uid false time false type "ClusterIP" ip false`,
		`validate: name true uid true time true type "ClusterIP" ip true`)
}

// A plugin written for kube-apiserver works on internal types, between plugins that work on
// k8s.io/api's.
func TestAdoptedPlugin(t *testing.T) {
	namespace := shared.namespace(t, "adopted")
	var seen journal
	first.during(t, namespace, hook{admit: func(_ context.Context, a admission.Attributes) error {
		if pod, ok := a.GetObject().(*corev1.Pod); ok {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "added", Image: "nginx:2",
				TerminationMessagePath:   corev1.TerminationMessagePathDefault,
				TerminationMessagePolicy: corev1.TerminationMessageReadFile})
		}
		return nil
	}})
	adopted.during(t, namespace, hook{
		admit: func(ctx context.Context, a admission.Attributes) error {
			if pod, ok := a.GetObject().(*core.Pod); ok {
				seen.write(fmt.Sprintf("adopted, admit: %T of %d containers", pod, len(pod.Spec.Containers)))
			}
			return alwaysPull(ctx, a)
		},
		validate: func(_ context.Context, a admission.Attributes) error {
			if pod, ok := a.GetObject().(*core.Pod); ok {
				seen.write(fmt.Sprintf("adopted, validate: %T", pod))
			}
			return nil
		},
	})
	last.during(t, namespace, hook{admit: func(_ context.Context, a admission.Attributes) error {
		if pod, ok := a.GetObject().(*corev1.Pod); ok {
			seen.write(fmt.Sprintf("last, admit: %T pulls %s", pod, pod.Spec.Containers[1].ImagePullPolicy))
			pod.Labels = map[string]string{"last": "was-here"}
		}
		return nil
	}})
	pod, err := shared.Client.CoreV1().Pods(namespace).Create(t.Context(), newPod("p"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, seen.read(), "adopted, admit: *core.Pod of 2 containers", "last, admit: *v1.Pod pulls Always",
		"adopted, validate: *core.Pod")
	stored, err := shared.Client.CoreV1().Pods(namespace).Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(pod, stored); diff != "" {
		t.Errorf("what was answered is not what is stored (-answered +stored):\n%s", diff)
	}
	var containers []string
	for _, c := range stored.Spec.Containers {
		containers = append(containers, c.Name+" "+string(c.ImagePullPolicy))
	}
	if want := []string{"c Always", "added Always"}; !cmp.Equal(containers, want) ||
		stored.Labels["last"] != "was-here" {
		t.Errorf("stored are the containers %q and the labels %v", containers, stored.Labels)
	}
}
