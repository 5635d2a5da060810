// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"gatehouse.dev/apiserver/pki"
	"gatehouse.dev/test/differential/pair"
	"gatehouse.dev/test/peers"
)

// callersConfiguration makes an API server present client certificates to webhooks, as
// docs/webhook-mode.md says.
const callersConfiguration = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ValidatingAdmissionWebhook
  configuration: &webhooks
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: %s
- name: MutatingAdmissionWebhook
  configuration: *webhooks
`

// authenticateCallers starts a kube-apiserver that presents client certificates to three
// installations with --client-ca-file: a good one, one of another authority, and none. Only the
// first installation accepts it.
func authenticateCallers(ctx context.Context, t *testing.T, bin string) {
	dir := t.TempDir()
	ours, anothers := filepath.Join(dir, "ours"), filepath.Join(dir, "anothers")
	known, err := pki.LoadAuthority(ours)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := pki.LoadAuthority(anothers)
	if err != nil {
		t.Fatal(err)
	}
	names := pair.PluginNames(t, nil)
	ports, err := peers.FreePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	shown := clientcmdapi.NewConfig()
	for port, authority := range map[string]*pki.Authority{ports[0]: known, ports[1]: stranger} {
		user := &clientcmdapi.AuthInfo{}
		if user.ClientCertificateData, user.ClientKeyData, err = authority.Client("kube-apiserver"); err != nil {
			t.Fatal(err)
		}
		shown.AuthInfos["127.0.0.1:"+port] = user
	}
	file, configuration := filepath.Join(dir, "webhooks.kubeconfig"), filepath.Join(dir, "admission.yaml")
	if err := errors.Join(clientcmd.WriteToFile(*shown, file),
		os.WriteFile(configuration, fmt.Appendf(nil, callersConfiguration, file), 0o600)); err != nil {
		t.Fatal(err)
	}
	server := startServer(ctx, t, bin, func(ctx context.Context, s *peers.Server) error {
		if err := s.RunKubeAPIServer(ctx, names, "--admission-control-config-file="+configuration); err != nil {
			return err
		}
		admin, err := s.Kubeconfig()
		if err != nil {
			return err
		}
		for i, plugin := range []string{"DenyServiceExternalIPs", "DefaultIngressClass", "DefaultStorageClass"} {
			address := "https://127.0.0.1:" + ports[i]
			p, err := s.Exec(peers.GatehouseWebhook, "--name=caller-"+ports[i], "--plugins="+plugin, "--kubeconfig="+admin,
				"--url="+address, "--bind-address=127.0.0.1", "--secure-port="+ports[i],
				"--client-ca-file="+filepath.Join(ours, "ca.crt"), "--shutdown-delay-duration=0s",
				"--skip-reachability-check") // two of them are to be unreachable
			if err != nil {
				return err
			}
			if err := p.AwaitOK(ctx, address+"/readyz"); err != nil {
				return err
			}
		}
		return nil
	})

	const service, ingress, claim = "/api/v1/namespaces/default/services",
		"/apis/networking.k8s.io/v1/namespaces/default/ingresses", "/api/v1/namespaces/default/persistentvolumeclaims"
	for _, r := range []request{
		{path: service, until: "Use of external IPs is denied by admission control", body: `{kind: Service,
apiVersion: v1, metadata: {name: a}, spec: {ports: [{port: 80}], externalIPs: [203.0.113.1]}}`},
		{path: ingress, until: "remote error: tls: unknown certificate authority", body: `{kind: Ingress,
apiVersion: networking.k8s.io/v1, metadata: {name: a},
spec: {defaultBackend: {service: {name: a, port: {number: 80}}}}}`},
		{path: claim, until: "a client certificate is required to call this webhook", body: `{
kind: PersistentVolumeClaim, apiVersion: v1, metadata: {name: a}, spec: {accessModes: [ReadWriteOnce],
resources: {requests: {storage: 1Gi}}}}`},
	} {
		r.verb, r.path = "POST", r.path+dryRun
		server.awaitAnswer(ctx, t, r)
	}
}
