// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/internal/review/suite"
)

// kubeconfigOf is a kubeconfig whose user has a field.
func kubeconfigOf(field string) string {
	return "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
		"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', certificate-authority: ca.pem}}]\n" +
		"users: [{name: u, user: {" + field + "}}]\n"
}

const admissionHead = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"

// imagePolicy is an admission configuration with a backend, whose kubeconfig is a file.
func imagePolicy(kubeconfig string) string {
	return admissionHead + "- name: ImagePolicyWebhook\n  configuration: {imagePolicy: {kubeConfigFile: " + kubeconfig +
		"}}\n"
}

// A suite is data: its flags have nothing called or run, and read nothing outside of its folder.
func TestSuitesAreData(t *testing.T) {
	t.Chdir(t.TempDir())
	const like = "kube-apiserver --admission-control-config-file="
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"out/admission.yaml": admissionHead, "out/token": "t", "out/exec": kubeconfigOf("exec: {command: x}"),
		"out/like": "kube-apiserver", "out/manifests/m.yaml": "", "out/plugin.yaml": "imagePolicy: {}",
		"s/ca.pem": "", "s/token": "t", "s/admission.yaml": admissionHead, "s/like": like + "s/admission.yaml",
		"s/like-out": like + "out/admission.yaml",
		"s/ok.kube":  kubeconfigOf("tokenFile: token"),
		"s/exec.kube": kubeconfigOf("exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, " +
			"args: [x]}"),
		"s/provider.kube": kubeconfigOf("auth-provider: {name: oidc}"),
		"s/token.kube":    kubeconfigOf("tokenFile: ../out/token"),
		"s/cert.kube":     kubeconfigOf("client-certificate: " + here + "/out/token"),
		"s/key.kube":      kubeconfigOf("client-key: to-token"),
		"s/ok.yaml":       imagePolicy("ok.kube"), "s/exec.yaml": imagePolicy("exec.kube"),
		"s/provider.yaml": imagePolicy("provider.kube"), "s/token.yaml": imagePolicy("token.kube"),
		"s/cert.yaml": imagePolicy("cert.kube"), "s/key.yaml": imagePolicy("key.kube"),
		"s/json.yaml": `{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins":
			[{"name": "ImagePolicyWebhook", "configuration": {"imagePolicy": {"kubeConfigFile": "exec.kube"}}}]}`,
		"s/path.yaml":          admissionHead + "- {name: ImagePolicyWebhook, path: nested/plugin.yaml}\n",
		"s/nested/plugin.yaml": "imagePolicy: {kubeConfigFile: ../exec.kube}\n",
		"s/path-out.yaml":      admissionHead + "- {name: ImagePolicyWebhook, path: ../out/plugin.yaml}\n",
		"s/static.yaml": admissionHead + "- {name: ValidatingAdmissionPolicy, configuration: " +
			"{staticManifestsDir: ../out}}\n",
		"s/linked.yaml": admissionHead + "- {name: ValidatingAdmissionPolicy, configuration: " +
			"{staticManifestsDir: links}}\n",
		"s/hook.yaml": admissionHead + "- {name: ValidatingAdmissionWebhook, configuration: " +
			"{kubeConfigFile: exec.kube}}\n",
		"s/cloud.yaml": admissionHead + "- {name: PersistentVolumeLabel, configuration: {aws: " +
			"{credentialsFile: /etc/passwd}}}\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("s/links", 0o700); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"s/to-token": "../out/token", "s/to-out": "../out",
		"s/to-admission.yaml": here + "/out/admission.yaml", "s/links/m.yaml": "../../out/manifests/m.yaml"} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	const outside, calls, exec = "outside of the folders that may be read", "--allow-calls", "--allow-exec"
	const config = "--admission-control-config-file="
	for name, test := range map[string]struct {
		flags   string
		all     []string
		allowed Allowed
		want    string
	}{
		"plugins":               {flags: "--enable-admission-plugins=AlwaysDeny, --authorize, --webhooks=fail"},
		"its own configuration": {flags: config + "ok.yaml"},
		"webhooks asked":        {flags: "--webhooks=ask", want: calls},
		"a webhook here":        {flags: "'--webhook=a=http://127.0.0.1:1'", want: calls},
		"in two words":          {flags: "--webhook, 'a=http://127.0.0.1:1'", want: calls},
		"allowed":               {flags: "--webhooks=ask", allowed: Allowed{Calls: true}},
		"given":                 {flags: "--webhooks=ask", all: []string{"--webhooks=ask"}},
		"one given, and another": {flags: "'--webhook=b=http://127.0.0.1:1'",
			all: []string{"--webhook=a=http://127.0.0.1:2"}, want: calls},
		"a configuration elsewhere": {flags: config + "../out/admission.yaml", want: outside},
		"at a path from the root":   {flags: config + here + "/out/admission.yaml", want: outside},
		"with another spelling":     {flags: "--admission_control_config_file=../out/admission.yaml", want: outside},
		"as a word of its own":      {flags: "--admission-control-config-file, out/admission.yaml", want: outside},
		"by a link":                 {flags: config + "to-admission.yaml", want: outside},
		"by a link to its folder":   {flags: config + "to-out/admission.yaml", want: outside},
		"elsewhere, allowed": {flags: config + "../out/admission.yaml", allowed: Allowed{true, true},
			want: outside},
		"elsewhere, given": {flags: config + "../out/admission.yaml", all: []string{config +
			"out/admission.yaml"}},
		"a program":                  {flags: config + "exec.yaml", want: exec},
		"a program, calls":           {flags: config + "exec.yaml", allowed: Allowed{Calls: true}, want: exec},
		"a program, allowed":         {flags: config + "exec.yaml", allowed: Allowed{Exec: true}},
		"a provider":                 {flags: config + "provider.yaml", want: exec},
		"a program of webhooks":      {flags: config + "hook.yaml", want: exec},
		"a program, in JSON":         {flags: config + "json.yaml", want: exec},
		"a program, by a path":       {flags: config + "path.yaml", want: exec},
		"a plugin's file elsewhere":  {flags: config + "path-out.yaml", want: outside},
		"a token elsewhere":          {flags: config + "token.yaml", want: outside},
		"a certificate elsewhere":    {flags: config + "cert.yaml", want: outside},
		"a key by a link":            {flags: config + "key.yaml", allowed: Allowed{true, true}, want: outside},
		"credentials elsewhere":      {flags: config + "cloud.yaml", want: outside},
		"manifests elsewhere":        {flags: config + "static.yaml", want: outside},
		"a manifest by a link":       {flags: config + "linked.yaml", want: outside},
		"like its own":               {flags: "--like=like"},
		"like another":               {flags: "--like=../out/like", want: outside},
		"like one that goes further": {flags: "--like=like-out", want: outside},
		"another cluster":            {flags: "--context=production", want: "unknown flag: --context"},
		"another store": {flags: "--etcd-servers=http://127.0.0.1:2379",
			want: "unknown flag: --etcd-servers"},
	} {
		t.Run(name, func(t *testing.T) {
			text := "apiVersion: gatehouse.dev/v1alpha1\nkind: AdmissionTest\nspec:\n  flags: [" + test.flags +
				"]\n  cases:\n" +
				"  - {name: a, object: {apiVersion: v1, kind: A}, expect: {verdict: Admitted}}\n"
			if err := os.WriteFile("s/suite.yaml", []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			suites, errs := suite.Read(t.Context(), []string{"s/suite.yaml"})
			if errs != nil {
				t.Fatal(errs)
			}
			_, err := reviewOptions(compiled.Plugins, test.all, test.allowed, &suites[0])
			switch {
			case test.want == "":
				if err != nil {
					t.Error(err)
				}
			case err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(),
				"spec.flags: "):
				t.Errorf("got %v, want %s", err, test.want)
			case test.want == calls || test.want == exec || test.want == outside:
				if !strings.HasPrefix(err.Error(), "s/suite.yaml:4: ") {
					t.Errorf("got %v, want it to say where", err)
				}
			}
		})
	}
}

// What a plugin's configuration names files by says so, or else nobody looks at them.
func TestFieldsSayThatTheyNameFiles(t *testing.T) {
	field := regexp.MustCompile(`pluginconfig\.Path\(\w+,\s*\*?([\w.]+)\)`)
	says := regexp.MustCompile(`(?i)(file|path|dir|directory)$`)
	n := 0
	for _, root := range []string{"../../../plugins", "../../../webhook", "../../policy"} {
		if err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, match := range field.FindAllSubmatch(data, -1) {
				if n++; !says.Match(match[1]) {
					t.Errorf("%s: %s names a file: confinement.fields must know it", path, match[1])
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if n == 0 {
		t.Error("nothing found")
	}
}
