// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// The first pod of a fresh server, and the first of a new namespace, created at once: the account
// and the certificate are the controllers' work, and the pod waits for the former.
func TestFirstPod(t *testing.T) {
	c := &cluster{Cluster: servertest.Start(t)}
	looksAsOnKubernetes(t, c.newPod(t, "default", "first", ""))
	for range 5 {
		namespace := c.Namespace(t, nil)
		looksAsOnKubernetes(t, c.newPod(t, namespace, "first", ""))
	}
}

// looksAsOnKubernetes compares with what `kubectl get pod` showed of such a pod on Kubernetes 1.36.
func looksAsOnKubernetes(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if pod.Spec.ServiceAccountName != "default" || pod.Spec.DeprecatedServiceAccount != "default" ||
		len(pod.Spec.Volumes) != 1 {
		t.Fatalf("account %q, %q, volumes %v", pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount,
			pod.Spec.Volumes)
	}
	name := pod.Spec.Volumes[0].Name
	if suffix, ok := strings.CutPrefix(name, "kube-api-access-"); !ok || len(suffix) != 5 {
		t.Errorf("the volume is named %s", name)
	}
	want := `{"name":"` + name + `","projected":{"sources":[` +
		`{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},` +
		`{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},` +
		`{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1",` +
		`"fieldPath":"metadata.namespace"}}]}}` +
		`],"defaultMode":420}}`
	if got, err := json.Marshal(pod.Spec.Volumes[0]); err != nil || string(got) != want {
		t.Errorf("the volume is\n%s, %v\nand should be\n%s", got, err, want)
	}
	mount := corev1.VolumeMount{Name: name, ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}
	if got := pod.Spec.Containers[0].VolumeMounts; !reflect.DeepEqual(got, []corev1.VolumeMount{mount}) {
		t.Errorf("the mounts are %v", got)
	}
}

// insidePod is the configuration that client-go makes of the files in a pod: the token, and the
// certificate in the ConfigMap.
func (c *cluster) insidePod(t *testing.T, pod *corev1.Pod) *rest.Config {
	t.Helper()
	token, err := c.Client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(t.Context(), pod.Spec.ServiceAccountName,
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{
				ExpirationSeconds: new(int64(3607)),
				BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name,
					UID: pod.UID},
			},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var ca string
	servertest.Retry(t, "the certificate", func() error {
		published, err := c.Client.CoreV1().ConfigMaps(pod.Namespace).Get(t.Context(), "kube-root-ca.crt",
			metav1.GetOptions{})
		if err == nil {
			ca = published.Data["ca.crt"]
		}
		return err
	})
	return &rest.Config{Host: c.Config.Host, BearerToken: token.Status.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: []byte(ca)}}
}

func whoAmI(ctx context.Context, config *rest.Config) (authenticationv1.UserInfo, error) {
	// A client of its own, so that no connection outlives what is tested.
	review, err := kubernetes.NewForConfigOrDie(config).AuthenticationV1().SelfSubjectReviews().
		Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return review.Status.UserInfo, nil
}

// With what is mounted in it a pod reaches the server, trusts it, and is who it is; as long as it
// is.
func TestTokenOfAPod(t *testing.T) {
	t.Parallel() // it waits
	c := guarded()
	namespace := c.Namespace(t, nil)
	pods := c.Client.CoreV1().Pods(namespace)
	pod := c.newPod(t, namespace, "p", "")
	config := c.insidePod(t, pod)

	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(config.BearerToken, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims struct {
		Kubernetes struct {
			Namespace string
			Pod       struct{ Name, UID string }
		} `json:"kubernetes.io"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(claims.Kubernetes), fmt.Sprintf("{%s {p %s}}", namespace, pod.UID); got != want {
		t.Errorf("the token claims %s, not %s", got, want)
	}

	user, err := whoAmI(t.Context(), config)
	if err != nil || user.Username != "system:serviceaccount:"+namespace+":default" {
		t.Fatalf("the pod is %q, %v", user.Username, err)
	}
	if got := user.Extra["authentication.kubernetes.io/pod-uid"]; len(got) != 1 || got[0] != string(pod.UID) {
		t.Errorf("the pod's uid is %v", got)
	}

	if err := pods.Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// Another of its name isn't it.
	c.newPod(t, namespace, "p", "")
	// it remembers for ten seconds whom it has authenticated
	servertest.Retry(t, "the server to forget the token", func() error {
		if user, err := whoAmI(t.Context(), config); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("the pod is gone, and its token is %s's: %v", user.Username, err)
		}
		return nil
	})
	_, err = c.Client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "default",
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{
				APIVersion: "v1", Kind: "Pod", Name: "p", UID: pod.UID,
			}},
		}, metav1.CreateOptions{})
	if !apierrors.IsConflict(err) {
		t.Errorf("a token for a pod that is gone: %v", err)
	}
}

func TestAccountOfAPod(t *testing.T) {
	c := guarded()
	namespace := c.Namespace(t, nil)
	accounts, pods := c.Client.CoreV1().ServiceAccounts(namespace), c.Client.CoreV1().Pods(namespace)
	robot := func(s *corev1.PodSpec) { s.ServiceAccountName = "robot" }
	named := func(changes ...func(*corev1.PodSpec)) *corev1.Pod {
		pod := servertest.Pod("p")
		for _, change := range changes {
			change(&pod.Spec)
		}
		return pod
	}

	_, err := pods.Create(t.Context(), named(robot), metav1.CreateOptions{})
	want := `pods "p" is forbidden: error looking up service account ` + namespace +
		`/robot: serviceaccount "robot" not found`
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}

	allowed[*corev1.ServiceAccount](t, "creating the account")(accounts.Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "robot",
			Annotations: map[string]string{"kubernetes.io/enforce-mountable-secrets": "true"}},
		ImagePullSecrets:             []corev1.LocalObjectReference{{Name: "pull"}},
		Secrets:                      []corev1.ObjectReference{{Name: "listed"}},
		AutomountServiceAccountToken: new(false),
	}, metav1.CreateOptions{}))
	made := allowed[*corev1.Pod](t,
		"a pod right after its account")(pods.Create(t.Context(), named(robot), metav1.CreateOptions{}))
	if got := made.Spec; len(got.ImagePullSecrets) != 1 || got.ImagePullSecrets[0].Name != "pull" ||
		len(got.Volumes) != 0 {
		t.Errorf("pull secrets %v, volumes %v", got.ImagePullSecrets, got.Volumes)
	}

	made.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "debug", Image: "registry.example/debug:1", ImagePullPolicy: corev1.PullAlways,
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			EnvFrom: []corev1.EnvFromSource{
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "x"}}},
			},
		},
	}}
	_, err = pods.UpdateEphemeralContainers(t.Context(), "p", made, metav1.UpdateOptions{})
	want = `pods "p" is forbidden: ephemeral container debug with envFrom referencing secret.secretName="x" is not ` +
		`allowed because service account robot does not reference that secret`
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	made.Spec.EphemeralContainers[0].EnvFrom[0].SecretRef.Name = "listed"
	allowed[*corev1.Pod](t,
		"an ephemeral container with a secret that is listed")(pods.UpdateEphemeralContainers(t.Context(), "p", made,
		metav1.UpdateOptions{}))
}

// Where no controller makes accounts a pod is refused, after a while, and isn't where the plugin is
// off.
func TestWithoutControllers(t *testing.T) {
	t.Parallel() // it waits
	withoutControllers := gatehousetest.WithConfig(func(c *server.Config) { c.Controllers.Controllers = nil })
	c := &cluster{Cluster: servertest.Start(t, withoutControllers)}
	_, err := c.Client.CoreV1().Pods("default").Create(t.Context(), servertest.Pod("p"), metav1.CreateOptions{})
	const want = `pods "p" is forbidden: error looking up service account default/default: serviceaccount "default" ` +
		`not found`
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}

	c = &cluster{Cluster: servertest.Start(t, withoutControllers, gatehousetest.WithoutPlugins("ServiceAccount"))}
	if pod := c.newPod(t, "default", "p", ""); pod.Spec.ServiceAccountName != "" || len(pod.Spec.Volumes) != 0 {
		t.Errorf("account %q, volumes %v", pod.Spec.ServiceAccountName, pod.Spec.Volumes)
	}
}
