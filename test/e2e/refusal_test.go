// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Whatever is wrong with a command line or with a file it names, the server doesn't start and says
// in one sentence what and where.
func TestRefusals(t *testing.T) {
	t.Parallel()
	files := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(files, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
	provision := head + "- name: NamespaceAutoProvision\n"
	garbage := file("garbage.pem", "not a certificate\n")
	missing := filepath.Join(files, "missing")

	tests := []struct {
		name  string
		flags []string
		code  int
		says  []string
	}{
		// The command line.
		{"unknown flag", []string{"--no-such-flag"}, 2, []string{"unknown flag: --no-such-flag", "--help"}},
		{"an argument", []string{"now"}, 2, []string{"takes no arguments", "now"}},
		{"bad value", []string{"--max-requests-inflight=many"}, 2, []string{"max-requests-inflight", "many"}},
		{"unknown feature gate", []string{"--feature-gates=NoSuchFeature=true"}, 2,
			[]string{"feature gate", "NoSuchFeature"}},
		{"feature gate without value", []string{"--feature-gates=WatchList"}, 2,
			[]string{"missing bool value", "WatchList"}},

		// The chain.
		{"unknown plugin", []string{"--enable-admission-plugins=NoSuch"}, 2,
			[]string{"enable-admission-plugins", "NoSuch"}},
		{"unknown plugin disabled", []string{"--disable-admission-plugins=NoSuch"}, 2,
			[]string{"disable-admission-plugins", "NoSuch"}},
		{"unknown plugin in the deprecated flag", []string{"--admission-control=NoSuch"}, 2,
			[]string{"admission-control", "NoSuch"}},
		{"enabled and disabled",
			[]string{"--enable-admission-plugins=NamespaceExists", "--disable-admission-plugins=NamespaceExists"}, 2,
			[]string{"NamespaceExists", "enable", "disable"}},
		{"both ways to choose",
			[]string{"--admission-control=AlwaysAdmit", "--enable-admission-plugins=NamespaceExists"}, 2,
			[]string{"admission-control", "enable-admission-plugins"}},
		{"no configuration file", []string{"--admission-control-config-file=" + missing}, 2,
			[]string{missing, "no such file"}},
		{"broken configuration file", []string{"--admission-control-config-file=" + file("broken.yaml", "kind: [\n")},
			2, []string{"broken.yaml"}},
		{"another kind", []string{"--admission-control-config-file=" +
			file("kind.yaml", "apiVersion: v1\nkind: Pod\n")}, 2, []string{"kind.yaml", "Pod"}},
		{"unknown field", []string{"--admission-control-config-file=" + file("field.yaml", provision+"  pathh: x\n")},
			2, []string{"field.yaml", "pathh"}},
		{"configuration of no plugin",
			[]string{"--admission-control-config-file=" + file("none.yaml", head+"- name: NoSuch\n")}, 2,
			[]string{"none.yaml", "NoSuch"}},
		{"configuration of a plugin that is off",
			[]string{"--admission-control-config-file=" + file("off.yaml", provision+"  configuration: {}\n")}, 2,
			[]string{"off.yaml", "NamespaceAutoProvision"}},
		{"no configuration file of a plugin", []string{"--enable-admission-plugins=NamespaceAutoProvision",
			"--admission-control-config-file=" + file("path.yaml", provision+"  path: missing.yaml\n")}, 2,
			[]string{"NamespaceAutoProvision", filepath.Join(files, "missing.yaml")}},
		{"a configuration that its plugin refuses", []string{"--enable-admission-plugins=EventRateLimit",
			"--admission-control-config-file=" + file("refused.yaml", head+"- name: EventRateLimit\n"+
				"  configuration: {apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, "+
				"limits: 3}\n")},
			2, []string{"EventRateLimit", "refused.yaml", "limits"}},

		// The API server.
		{"runtime-config names no group", []string{"--runtime-config=nosuch/v1=true"}, 2, []string{"nosuch/v1"}},
		{"runtime-config without sense", []string{"--runtime-config=api/all=maybe"}, 2,
			[]string{"runtime-config", "api/all", "maybe"}},
		{"unknown authorization mode", []string{"--authorization-mode=Everything"}, 2,
			[]string{"authorization-mode", "Everything"}},
		{"authorization mode twice", []string{"--authorization-mode=RBAC,RBAC"}, 2,
			[]string{"authorization-mode", "RBAC", "more than once"}},
		{"webhook authorization without its file", []string{"--authorization-mode=Webhook"}, 2,
			[]string{"authorization-mode Webhook", "config file not passed"}},
		{"bad service range", []string{"--service-cluster-ip-range=10.0.0.0/33"}, 2,
			[]string{"service-cluster-ip-range", "10.0.0.0/33"}},
		{"tiny service range", []string{"--service-cluster-ip-range=10.0.0.0/31"}, 2,
			[]string{"service-cluster-ip-range", "10.0.0.0/31"}},
		{"two service ranges of a family", []string{"--service-cluster-ip-range=10.0.0.0/24,10.1.0.0/24"}, 2,
			[]string{"service-cluster-ip-range", "famil"}},
		{"a certificate without its key", []string{"--tls-cert-file=" + garbage}, 2,
			[]string{"tls-cert-file", "tls-private-key-file"}},
		{"a certificate that is none", []string{"--tls-cert-file=" + garbage, "--tls-private-key-file=" + garbage}, 2,
			[]string{garbage}},
		{"a client authority that is none", []string{"--client-ca-file=" + garbage}, 2, []string{garbage}},
		{"a client authority that isn't there", []string{"--client-ca-file=" + missing}, 2,
			[]string{missing, "no such file"}},
		{"no token file", []string{"--token-auth-file=" + missing}, 2,
			[]string{"--token-auth-file", missing, "no such file"}},
		{"a token file that is none", []string{"--token-auth-file=" + file("tokens.csv", "a,b\n")}, 2,
			[]string{"--token-auth-file", "tokens.csv"}},
		{"a kind in a version without it", []string{"--runtime-config=extensions/v1beta1/podsecuritypolicy=true"}, 2,
			[]string{"runtime-config", "extensions/v1beta1/podsecuritypolicy", "policy/v1beta1/podsecuritypolicies"}},
		{"a former feature gate that is off", []string{"--feature-gates=ExpandPersistentVolumes=false"}, 2,
			[]string{"ExpandPersistentVolumes", "locked to true"}},
		{"service account keys without the signing key", []string{"--service-account-key-file=" + garbage}, 2,
			[]string{"service-account-key-file", "service-account-signing-key-file"}},
		{"a signing key that is none", []string{"--service-account-signing-key-file=" + garbage}, 2,
			[]string{"service-account-signing-key-file", garbage}},
		{"half of OIDC", []string{"--oidc-issuer-url=https://issuer.example"}, 2, []string{"oidc-client-id"}},
		{"an authentication configuration that is none",
			[]string{"--authentication-config=" + file("authn.yaml", "kind: Pod\napiVersion: v1\n")}, 2,
			[]string{"authn.yaml"}},
		{"an audit policy that is none", []string{"--audit-log-path=-", "--audit-policy-file=" +
			file("audit.yaml", "rules: 3\n")}, 2, []string{"audit.yaml"}},
		{"a tracing configuration that is none",
			[]string{"--tracing-config-file=" + file("tracing.yaml", "kind: Pod\napiVersion: v1\n")}, 2,
			[]string{"--tracing-config-file", "tracing.yaml", "Pod"}},
		{"no tracing configuration", []string{"--tracing-config-file=" + missing}, 2,
			[]string{"tracing-config-file", missing, "does not exist"}},
		{"a decision log where none can be", []string{"--decision-log-path=" + garbage + "/decisions.log"}, 2,
			[]string{"--decision-log-path", garbage, "not a directory"}},
		{"room for less than no decision", []string{"--decision-max-count=-1"}, 2,
			[]string{"--decision-max-count", "-1"}},
		{"etcd's key without its certificate",
			[]string{"--etcd-servers=https://127.0.0.1:1", "--etcd-keyfile=" + garbage}, 2,
			[]string{"--etcd-keyfile"}},
		{"an authority of etcd that isn't there",
			[]string{"--etcd-servers=https://127.0.0.1:1", "--etcd-cafile=" + missing}, 2,
			[]string{"--etcd-cafile", missing, "no such file"}},
		{"quotas apart from what they limit", []string{"--etcd-servers-overrides=/resourcequotas#http://127.0.0.1:1"},
			2,
			[]string{"etcd-servers-overrides", "/resourcequotas#http://127.0.0.1:1", "main etcd cluster"}},
		{"an unknown controller", []string{"--controllers=nosuch"}, 2, []string{"controllers", "nosuch"}},
		{"an address of nobody", []string{"--bind-address=192.0.2.1"}, 1, []string{"192.0.2.1", "bind-address"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cmd := serveCommand(t, test.flags...)
			says(t, refusedBy(t, test.code, startFor(t, cmd)), test.says...)
		})
	}
}

// A start that is refused leaves a data directory as it was: the next one finds everything.
func TestRefusedStartKeepsData(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	srv := serve(t, "--data-dir="+dir)
	createConfigMap(t, srv.client, "kept")
	srv.stop(t)
	for _, flag := range []string{"--authorization-mode=Everything", "--enable-admission-plugins=NoSuch",
		"--client-ca-file=/no/such", "--no-such-flag", "--audit-policy-file=/no/such"} {
		p := startFor(t, serveCommand(t, "--data-dir="+dir, flag))
		if code, err := p.wait(stopTimeout); err != nil || code == 0 {
			t.Errorf("%s: exit code %d, %v", flag, code, err)
		}
	}
	srv = serve(t, "--data-dir="+dir)
	if _, err := srv.client.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
