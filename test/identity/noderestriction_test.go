// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/test/servertest"
)

// kubelet is one node's, with its certificate.
type kubelet struct {
	name   string
	client *kubernetes.Clientset
	node   *corev1.Node
}

func (c *cluster) newKubelet(t *testing.T, name string) *kubelet {
	t.Helper()
	return &kubelet{name: name, client: c.withCertificate(t, "system:node:"+name, "system:nodes")}
}

// register makes the kubelet's Node, as it does.
func (k *kubelet) register(t *testing.T) *kubelet {
	t.Helper()
	node, err := k.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: k.name, Labels: map[string]string{corev1.LabelHostname: k.name, corev1.LabelOSStable: "linux"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	k.node = node
	return k
}

// twoNodes are the kubelets of two nodes whose names begin like the namespace's.
func (c *cluster) twoNodes(t *testing.T, namespace string) (mine, other *kubelet) {
	t.Helper()
	return c.newKubelet(t, namespace+"-mine").register(t), c.newKubelet(t, namespace+"-other").register(t)
}

func TestKubeletNode(t *testing.T) {
	everywhere(t, func(t *testing.T, c *cluster) {
		name := c.Namespace(t, nil)
		mine, other := c.newKubelet(t, name+"-mine"), c.newKubelet(t, name+"-other")
		foreign := fmt.Sprintf("node %q is not allowed to modify node %q", mine.name, other.name)
		ctx, nodes := t.Context(), mine.client.CoreV1().Nodes()

		_, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: other.name}},
			metav1.CreateOptions{})
		c.refused(t, "creating another node", err, foreign)
		_, err = nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: mine.name}},
			metav1.CreateOptions{})
		c.refused(t, "creating a node of any name", err, "is not allowed to modify node")
		const label = "node-restriction.kubernetes.io/pool"
		_, err = nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: mine.name,
			Labels: map[string]string{label: "a"}}}, metav1.CreateOptions{})
		c.refused(t, "creating the own node with an administrator's label", err,
			fmt.Sprintf("node %q is not allowed to set the following labels: %s", mine.name, label))
		mine.register(t)
		other.register(t)

		patch := func(node, patch string, subresources ...string) error {
			_, err := nodes.Patch(ctx, node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{},
				subresources...)
			return err
		}
		for what, body := range map[string]string{
			"a label of its own": `{"metadata": {"labels": {"example.com/rack": "7", "node.kubernetes.io/speed": ` +
				`"fast"}}}`,
			"its status": `{"status": {"conditions": [{"type": "Ready", "status": "True", "reason": ` +
				`"KubeletReady", "message": "ready"}]}}`,
			"an allocatable amount": `{"status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}}}`,
		} {
			subresources := []string{"status"}
			if what == "a label of its own" {
				subresources = nil
			}
			if err := patch(mine.name, body, subresources...); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			c.refused(t, "of another node: "+what, patch(other.name, body, subresources...), foreign)
		}
		c.refused(t, "an administrator's label", patch(mine.name, `{"metadata": {"labels": {"`+label+`": "a"}}}`),
			"is not allowed to modify labels: "+label)
		c.refused(t, "a role", patch(mine.name,
			`{"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}`, "status"),
			"is not allowed to modify labels: node-role.kubernetes.io/control-plane")
		c.refused(t, "its taints", patch(mine.name, `{"spec": {"taints": []}}`),
			fmt.Sprintf("node %q is not allowed to modify taints", mine.name))
		c.refused(t, "deleting another node", nodes.Delete(ctx, other.name, metav1.DeleteOptions{}), foreign)
		if c.open {
			if err := nodes.Delete(ctx, mine.name, metav1.DeleteOptions{}); err != nil {
				t.Errorf("deleting the own node: %v", err)
			}
		}
	})
}

// mirrorPod is as the kubelet makes it.
func (k *kubelet) mirrorPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x",
				"kubernetes.io/config.hash": "x", "kubernetes.io/config.source": "file"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: k.name, UID: k.node.UID,
				Controller: new(true)}},
		},
		Spec: corev1.PodSpec{
			NodeName:   k.name,
			Containers: []corev1.Container{{Name: "main", Image: "registry.example/main:1"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists,
				Effect: corev1.TaintEffectNoExecute}},
		},
	}
}

func TestKubeletPods(t *testing.T) {
	everywhere(t, func(t *testing.T, c *cluster) {
		namespace := c.Namespace(t, nil)
		mine, other := c.twoNodes(t, namespace)
		ctx, pods := t.Context(), mine.client.CoreV1().Pods(namespace)
		own, foreign := c.newPod(t, namespace, "own", mine.name), c.newPod(t, namespace, "foreign", other.name)
		c.newPod(t, namespace, "evicted", mine.name)
		c.newPod(t, namespace, "unbound", "")
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}

		made := allowed[*corev1.Pod](t,
			"creating a mirror pod")(pods.Create(ctx, mine.mirrorPod("static"), metav1.CreateOptions{}))
		if len(made.Spec.Volumes) != 0 || made.Spec.ServiceAccountName != "" {
			t.Errorf("the mirror pod has become another: %+v", made.Spec)
		}
		_, err := pods.Create(ctx, other.mirrorPod("static-2"), metav1.CreateOptions{})
		c.refused(t, "creating another node's mirror pod", err,
			fmt.Sprintf("node %q can only create pods with spec.nodeName set to itself", mine.name))
		plain := mine.mirrorPod("plain")
		plain.Annotations = nil
		_, err = pods.Create(ctx, plain, metav1.CreateOptions{})
		c.refused(t, "creating a pod", err, fmt.Sprintf("node %q can only create mirror pods", mine.name))
		thief := mine.mirrorPod("thief")
		thief.Spec.Volumes = []corev1.Volume{{Name: "v",
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}}
		_, err = pods.Create(ctx, thief, metav1.CreateOptions{})
		c.refused(t, "creating a mirror pod with a secret", err,
			"a mirror pod may not reference secrets")

		status := func(pod *corev1.Pod, change func(*corev1.Pod)) error {
			pod = pod.DeepCopy()
			pod.ResourceVersion = ""
			change(pod)
			_, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
			return err
		}
		running := func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }
		if err := status(own, running); err != nil {
			t.Errorf("the status of its pod: %v", err)
		}
		c.refused(t, "the status of another node's pod", status(foreign, running),
			fmt.Sprintf("node %q can only update pod status for pods with spec.nodeName set to itself", mine.name))
		c.refused(t, "labels through the status", status(own,
			func(p *corev1.Pod) { p.Labels = map[string]string{"app": "bank"} }),
			fmt.Sprintf("node %q cannot update labels through pod status", mine.name))

		evict := func(name string) error {
			return pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}, DeleteOptions: &now})
		}
		onlyEvict := fmt.Sprintf("node %s can only evict pods with spec.nodeName set to itself", mine.name)
		if err := evict("evicted"); err != nil {
			t.Errorf("evicting its pod: %v", err)
		}
		c.refused(t, "evicting another node's pod", evict("foreign"), onlyEvict)
		c.refused(t, "evicting an unbound pod", evict("unbound"), onlyEvict)

		onlyDelete := fmt.Sprintf("node %q can only delete pods with spec.nodeName set to itself", mine.name)
		c.refused(t, "deleting another node's pod", pods.Delete(ctx, "foreign", now), onlyDelete)
		c.refused(t, "deleting an unbound pod", pods.Delete(ctx, "unbound", now), onlyDelete)
		for _, name := range []string{"own", "static"} {
			if err := pods.Delete(ctx, name, now); err != nil {
				t.Errorf("deleting its pod %s: %v", name, err)
			}
		}
	})
}

// A kubelet asks for tokens of accounts, bound to the pods on its node, for the audiences that their
// volumes name or that a role names.
//
// Source: k8s.io/kubernetes/test/integration/auth/node_test.go#TestNodeRestrictionServiceAccount 4c35f6f3
// Source: k8s.io/kubernetes/test/integration/auth/node_test.go#TestNodeRestrictionServiceAccountAudience 4f10b20d
func TestKubeletTokens(t *testing.T) {
	everywhere(t, func(t *testing.T, c *cluster) {
		namespace := c.Namespace(t, nil)
		mine, other := c.twoNodes(t, namespace)
		vault := func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "vault",
				VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
					Sources: []corev1.VolumeProjection{
						{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault", Path: "token"}},
					},
				}}}}
		}
		own, foreign := c.newPod(t, namespace, "own", mine.name, vault), c.newPod(t, namespace, "foreign", other.name)
		ask := func(pod *corev1.Pod, audiences ...string) error {
			request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
			if pod != nil {
				request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod",
					Name: pod.Name, UID: pod.UID}
			}
			_, err := mine.client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "default", request,
				metav1.CreateOptions{})
			return err
		}
		// The Node authorizer learns of the pod from a watch; the kubelet tries again until then.
		servertest.Retry(t, "the authorizer to know the pod", func() error { return ask(own) })
		if err := ask(own, "vault"); err != nil {
			t.Errorf("a token for the audience that a volume names: %v", err)
		}
		c.refused(t, "a token bound to nothing", ask(nil), "node requested token not bound to a pod")
		c.refused(t, "a token of another node's pod", ask(foreign),
			"node requested token bound to a pod scheduled on a different node")
		before := own.DeepCopy()
		before.UID = "before"
		c.refused(t, "a token of a pod that is gone", ask(before),
			"the UID in the bound object reference (before) does not match the UID in record")
		c.refused(t, "a token for two audiences", ask(own, "vault", "elsewhere"),
			"node may only request 0 or 1 audiences")
		if c.open {
			return // where everybody may request tokens for every audience
		}

		err := ask(own, "elsewhere")
		c.refused(t, "a token for another audience", err, "")
		says(t, err,
			`serviceaccounts "default" is forbidden: system:node:`+mine.name+
				` is not authorized to request tokens for audience "elsewhere"`)
		c.grantAudience(t, mine, "elsewhere")
		servertest.Retry(t, "the audience to be granted", func() error { return ask(own, "elsewhere") })
	})
}

// grantAudience lets a node have tokens for an audience.
func (c *cluster) grantAudience(t *testing.T, k *kubelet, audience string) {
	t.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: k.name},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"request-serviceaccounts-token-audience"},
			APIGroups: []string{""}, Resources: []string{audience}}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: k.name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: k.name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "system:node:" + k.name}},
	}
	allowed[*rbacv1.ClusterRole](t,
		"the role")(c.Client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}))
	allowed[*rbacv1.ClusterRoleBinding](t,
		"its binding")(c.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}))
}

func says(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestKubeletClaims(t *testing.T) {
	everywhere(t, func(t *testing.T, c *cluster) {
		namespace := c.Namespace(t, nil)
		mine, _ := c.twoNodes(t, namespace)
		amount := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		claim := allowed[*corev1.PersistentVolumeClaim](t,
			"the claim")(c.Client.CoreV1().PersistentVolumeClaims(namespace).Create(t.Context(),
			&corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: amount},
				},
			}, metav1.CreateOptions{}))
		c.newPod(t, namespace, "p", mine.name, func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "data",
				VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
				}}}
		})
		claims := mine.client.CoreV1().PersistentVolumeClaims(namespace)
		status := func(change func(*corev1.PersistentVolumeClaim)) error {
			changed := claim.DeepCopy()
			changed.ResourceVersion = ""
			change(changed)
			_, err := claims.UpdateStatus(t.Context(), changed, metav1.UpdateOptions{})
			return err
		}
		servertest.Retry(t, "the authorizer to know the pod", func() error {
			return status(func(p *corev1.PersistentVolumeClaim) { p.Status.Capacity = amount })
		})
		notAllowed := fmt.Sprintf("node %q is not allowed to update fields other than status.quantity and "+
			"status.conditions", mine.name)
		c.refused(t, "the phase", status(func(p *corev1.PersistentVolumeClaim) { p.Status.Phase = corev1.ClaimLost }),
			notAllowed)
		c.refused(t, "a label",
			status(func(p *corev1.PersistentVolumeClaim) { p.Labels = map[string]string{"a": "b"} }), notAllowed)
		_, err := claims.Update(t.Context(), claim, metav1.UpdateOptions{})
		c.refused(t, "the claim itself", err, "may only update PVC status")
		c.refused(t, "deleting the claim", claims.Delete(t.Context(), "data", metav1.DeleteOptions{}),
			"may only update PVC status")
	})
}

func TestKubeletLease(t *testing.T) {
	everywhere(t, func(t *testing.T, c *cluster) {
		mine, other := c.twoNodes(t, c.Namespace(t, nil))
		for _, k := range []*kubelet{mine, other} {
			own := k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: k.name},
				Spec: coordinationv1.LeaseSpec{HolderIdentity: &k.name}}
			lease = allowed[*coordinationv1.Lease](t,
				"creating its lease")(own.Create(t.Context(), lease, metav1.CreateOptions{}))
			lease.Spec.LeaseDurationSeconds = new(int32(40))
			allowed[*coordinationv1.Lease](t,
				"renewing its lease")(own.Update(t.Context(), lease, metav1.UpdateOptions{}))
		}
		leases := mine.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
		const foreign = "can only access node lease with the same name as the requesting node"
		_, err := leases.Create(t.Context(),
			&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: mine.name + "-2"}}, metav1.CreateOptions{})
		c.refused(t, "creating a lease of another name", err, foreign)
		_, err = leases.Create(t.Context(),
			&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{GenerateName: mine.name}}, metav1.CreateOptions{})
		c.refused(t, "creating a lease of any name", err, foreign)
		_, err = leases.Patch(t.Context(), other.name, types.MergePatchType,
			[]byte(`{"spec": {"holderIdentity": "me"}}`), metav1.PatchOptions{})
		c.refused(t, "taking another node's lease", err, foreign)
		c.refused(t, "deleting another node's lease", leases.Delete(t.Context(), other.name, metav1.DeleteOptions{}),
			foreign)
		_, err = mine.client.CoordinationV1().Leases("kube-system").Create(t.Context(),
			&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: mine.name}}, metav1.CreateOptions{})
		c.refused(t, "a lease elsewhere", err, `can only access leases in the "kube-node-lease" system namespace`)
		if err := leases.Delete(t.Context(), mine.name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting its lease: %v", err)
		}
	})
}

func TestKubeletCSINode(t *testing.T) {
	everywhere(t, func(t *testing.T, c *cluster) {
		mine, other := c.twoNodes(t, c.Namespace(t, nil))
		const foreign = "can only access CSINode with the same name as the requesting node"
		nodes := mine.client.StorageV1().CSINodes()
		made := func(name string) *storagev1.CSINode {
			return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
		}
		_, err := nodes.Create(t.Context(), made(other.name), metav1.CreateOptions{})
		c.refused(t, "creating another node's", err, foreign)
		for _, k := range []*kubelet{mine, other} {
			allowed[*storagev1.CSINode](t, "creating its own")(k.client.StorageV1().CSINodes().Create(t.Context(),
				made(k.name), metav1.CreateOptions{}))
		}
		patch := []byte(`{"spec": {"drivers": [{"name": "d", "nodeID": "n"}]}}`)
		allowed[*storagev1.CSINode](t, "updating its own")(nodes.Patch(t.Context(), mine.name, types.MergePatchType,
			patch, metav1.PatchOptions{}))
		_, err = nodes.Patch(t.Context(), other.name, types.MergePatchType, patch, metav1.PatchOptions{})
		c.refused(t, "updating another node's", err, foreign)
		c.refused(t, "deleting another node's", nodes.Delete(t.Context(), other.name, metav1.DeleteOptions{}), foreign)
		if err := nodes.Delete(t.Context(), mine.name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting its own: %v", err)
		}
	})
}

func TestKubeletResourceSlices(t *testing.T) {
	everywhere(t, func(t *testing.T, c *cluster) {
		mine, other := c.twoNodes(t, c.Namespace(t, nil))
		slice := func(k *kubelet) *resourcev1.ResourceSlice {
			return &resourcev1.ResourceSlice{
				ObjectMeta: metav1.ObjectMeta{Name: k.name},
				Spec: resourcev1.ResourceSliceSpec{
					Driver: "d.example.com", NodeName: &k.name,
					Pool: resourcev1.ResourcePool{Name: k.name, Generation: 1, ResourceSliceCount: 1},
				},
			}
		}
		slices := mine.client.ResourceV1().ResourceSlices()
		_, err := slices.Create(t.Context(), slice(other), metav1.CreateOptions{})
		c.refused(t, "creating another node's", err,
			"can only create ResourceSlice with the same NodeName as the requesting node")
		for _, k := range []*kubelet{mine, other} {
			allowed[*resourcev1.ResourceSlice](t,
				"creating its own")(k.client.ResourceV1().ResourceSlices().Create(t.Context(), slice(k),
				metav1.CreateOptions{}))
		}
		const foreign = "can only delete ResourceSlice with the same NodeName as the requesting node"
		c.refused(t, "deleting another node's", slices.Delete(t.Context(), other.name, metav1.DeleteOptions{}), foreign)
		err = slices.DeleteCollection(t.Context(), metav1.DeleteOptions{},
			metav1.ListOptions{FieldSelector: "spec.nodeName=" + other.name})
		c.refused(t, "deleting all of another node's", err, foreign)
		if err := slices.DeleteCollection(t.Context(), metav1.DeleteOptions{},
			metav1.ListOptions{FieldSelector: "spec.nodeName=" + mine.name}); err != nil {
			t.Errorf("deleting all of its own: %v", err)
		}
		if left, err := c.Client.ResourceV1().ResourceSlices().List(t.Context(),
			metav1.ListOptions{FieldSelector: "spec.nodeName=" + mine.name}); err != nil || len(left.Items) != 0 {
			t.Errorf("%d are left, %v", len(left.Items), err)
		}
	})
}

func TestKubeletCertificates(t *testing.T) {
	everywhere(t, func(t *testing.T, c *cluster) {
		mine, other := c.twoNodes(t, c.Namespace(t, nil))
		ask := func(signer, commonName string, usages ...certificatesv1.KeyUsage) error {
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
				Subject:  pkix.Name{CommonName: commonName, Organization: []string{"system:nodes"}},
				DNSNames: []string{"n"},
			}, key)
			if err != nil {
				t.Fatal(err)
			}
			_, err = mine.client.CertificatesV1().CertificateSigningRequests().Create(t.Context(),
				&certificatesv1.CertificateSigningRequest{
					ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
					Spec: certificatesv1.CertificateSigningRequestSpec{
						SignerName: signer, Usages: append(usages, certificatesv1.UsageDigitalSignature),
						Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
					},
				}, metav1.CreateOptions{})
			return err
		}
		for signer, usage := range map[string]certificatesv1.KeyUsage{
			certificatesv1.KubeletServingSignerName:             certificatesv1.UsageServerAuth,
			certificatesv1.KubeAPIServerClientKubeletSignerName: certificatesv1.UsageClientAuth,
		} {
			if err := ask(signer, "system:node:"+mine.name, usage); err != nil {
				t.Errorf("%s for itself: %v", signer, err)
			}
			err := ask(signer, "system:node:"+other.name, usage)
			c.refused(t, signer+" for another", err, "can only create a node CSR with CN=system:node:"+mine.name)
		}
	})
}

// A user in the group whose name is no node's.
func TestNobodysKubelet(t *testing.T) {
	client := unguarded().withCertificate(t, "alice", "system:nodes")
	_, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "alice"}},
		metav1.CreateOptions{})
	unguarded().refused(t, "a node of hers", err, `could not determine node from user "alice"`)
}
