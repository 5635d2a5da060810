// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"gatehouse.dev/internal/kubeversion"
	"gatehouse.dev/plugins"
	"gatehouse.dev/review"
)

// What a kube-apiserver is told is taken from wherever people have it, but for what is given.
func TestLike(t *testing.T) {
	t.Chdir(t.TempDir())
	const manifest = `apiVersion: v1
kind: Pod
metadata:
  annotations:
    kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint: 10.0.0.10:6443
  labels: {component: kube-apiserver, tier: control-plane}
  name: kube-apiserver
  namespace: kube-system
spec:
  containers:
  - image: registry.k8s.io/kube-apiserver:v1.36.0
    name: kube-apiserver
    command:
`
	const kubeadm = manifest + `    - kube-apiserver
    - --advertise-address=10.0.0.10
    - --allow-privileged=true
    - --authorization-mode=Node,RBAC
    - --client-ca-file=/etc/kubernetes/pki/ca.crt
    - --enable-admission-plugins=NodeRestriction,AlwaysPullImages
    - --etcd-servers=https://127.0.0.1:2379
    - --service-cluster-ip-range=10.96.0.0/12
    - --tls-cert-file=/etc/kubernetes/pki/apiserver.crt
`
	for name, content := range map[string]string{"admission.yaml": "", "none.txt": "nothing of that",
		"kubeadm.yaml": kubeadm,
		"configured.yaml": kubeadm + "    - --admission-control-config-file=/etc/kubernetes/admission.yaml\n" +
			"    - --allow-privileged=false\n",
		"shell.yaml": manifest +
			"    - /bin/sh\n    - -c\n    - exec /usr/local/bin/kube-apiserver --allow-privileged=true " +
			"--enable-admission-plugins=NodeRestriction,AlwaysPullImages 1>>/var/log/kube-apiserver.log 2>&1\n",
		"other.yaml": strings.ReplaceAll(kubeadm, "- kube-apiserver", "- etcd"),
		"script": "exec kube-apiserver \\\n  \"--enable-admission-plugins=NodeRestriction,AlwaysPullImages\" \\\n" +
			"  --allow_privileged '--service-cluster-ip-range'=10.96.0.0/12\n",
		"unit": "[Service]\nExecStart=/usr/bin/kube-apiserver --enable-admission-plugins " +
			"NodeRestriction,AlwaysPullImages " +
			"--allow-privileged\n",
		"cmdline": "kube-apiserver\x00--enable-admission-plugins=NodeRestriction\x00--allow-privileged=true\x00" +
			"--enable-admission-plugins=AlwaysPullImages\x00",
		"commented": "# --allow-privileged=maybe is what it was\nkube-apiserver --allow-privileged=true # and isn't\n" +
			"--enable-admission-plugins=NodeRestriction,AlwaysPullImages\n",
		"deployment.yaml": strings.Replace(kubeadm, "kind: Pod", "kind: Deployment", 1),
		"clusterconfig.yaml": "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n" +
			"apiServer: {extraArgs: [{name: enable-admission-plugins, value: NodeRestriction}]}\n",
		"entrypoint.yaml": strings.ReplaceAll(manifest, "    command:\n", "    args: [--allow-privileged=true, "+
			"'--enable-admission-plugins=NodeRestriction,AlwaysPullImages']\n"),
		"beside.yaml": strings.Replace(kubeadm, "    - kube-apiserver\n", "    - proxy\n    - --to=kube-apiserver\n",
			1),
		"flags":    "--allow-privileged --enable-admission-plugins=NodeRestriction,AlwaysPullImages\n",
		"k3s":      "k3s server --kube-apiserver-arg=enable-admission-plugins=NodeRestriction\n",
		"manager":  "kube-controller-manager --kubeconfig=/etc/kube-apiserver/config --feature-gates=A=true\n",
		"misspelt": "kube-apiserver --enable-admision-plugins=AlwaysPullImages --allow-privileged=true\n",
		"gate":     "kube-apiserver --feature-gate=A=true\n",
		"older": "kube-apiserver --allow-privileged --cloud-provider=aws " +
			"--enable-admission-plugins=NodeRestriction\n",
		"variable": "ExecStart=/usr/bin/kube-apiserver --allow-privileged $KUBE_ADMISSION_CONTROL\n",
		"value":    "kube-apiserver --v=$LEVEL --enable-admission-plugins=$(PLUGINS)\n",
		"open":     "kube-apiserver --allow-privileged='true",
		"wrong":    "kube-apiserver --allow-privileged=maybe",
	} {
		if err := os.WriteFile(filepath.Clean(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	noFlag := func(file, flag string) string {
		return "--like " + file + ": kube-apiserver " + kubeversion.Kubernetes() + " has no flag " + flag +
			" correct it, or pass over it with --allow-incomplete"
	}
	const all = "[NodeRestriction,AlwaysPullImages] true"
	for args, want := range map[string]string{
		"--like=kubeadm.yaml": all,
		"--like=shell.yaml":   all,
		"--like=script":       all,
		"--like=unit":         all,
		"--like=cmdline":      all,
		"--like=commented":    all,
		"--like=open":         "--like open: EOF found when expecting closing quote",
		"--like=kubeadm.yaml --enable-admission-plugins=LimitRanger --allow-privileged=false": "[LimitRanger] false",
		"--like=configured.yaml --admission-control-config-file=admission.yaml": "[NodeRestriction,AlwaysPullImages] " +
			"false",
		"--like=configured.yaml": "--like configured.yaml: " +
			"--admission-control-config-file=/etc/kubernetes/admission.yaml: " +
			"no such file or directory: say with --admission-control-config-file where it is on this machine",
		"--like=deployment.yaml": "--like deployment.yaml: it is a Deployment of v1, and not the manifest of a " +
			"kube-apiserver's pod",
		"--like=clusterconfig.yaml": "--like clusterconfig.yaml: it is a ClusterConfiguration of " +
			"kubeadm.k8s.io/v1beta4, and not the manifest of a kube-apiserver's pod",
		"--like=entrypoint.yaml": all,
		"--like=flags":           all,
		"--like=beside.yaml":     "--like beside.yaml: pod kube-apiserver has no container that runs kube-apiserver",
		"--like=k3s":             "--like k3s: neither the manifest of a kube-apiserver's pod nor its command line",
		"--like=manager":         "--like manager: neither the manifest of a kube-apiserver's pod nor its command line",
		"--like=misspelt": noFlag("misspelt", `--enable-admision-plugins, did you mean `+
			`"--enable-admission-plugins"?`),
		"--like=misspelt --allow-incomplete": "[] true",
		"--like=gate":                        noFlag("gate", `--feature-gate, did you mean "--feature-gates"?`),
		"--like=older":                       noFlag("older", "--cloud-provider:"),
		"--like=older --allow-incomplete":    "[NodeRestriction] true",
		"--like=variable": "--like variable: $KUBE_ADMISSION_CONTROL is a variable, whose value isn't known: " +
			"write the flags instead",
		"--like=value": "--like value: --enable-admission-plugins=$(PLUGINS): that is a variable, whose " +
			"value isn't known: write the value instead",
		"--like=other.yaml": "--like other.yaml: pod kube-apiserver has no container that runs kube-apiserver",
		"--like=none.txt":   "--like none.txt: neither the manifest of a kube-apiserver's pod nor its command line",
		"--like=gone":       "--like: open gone: no such file or directory",
		"--like=wrong": `--like wrong: --allow-privileged=maybe: strconv.ParseBool: parsing "maybe": invalid ` +
			`syntax`,
	} {
		flags := review.NewFlags(plugins.List)
		var groups cliflag.NamedFlagSets
		flags.Add(&groups)
		fs := pflag.NewFlagSet("review", pflag.ContinueOnError)
		for _, name := range groups.Order {
			fs.AddFlagSet(groups.FlagSets[name])
		}
		if err := fs.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		err := flags.ApplyLike(fs)
		got := fs.Lookup("enable-admission-plugins").Value.String() + " " + fs.Lookup("allow-privileged").Value.String()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", args, got, want)
		}
	}
}

// All of kube-apiserver's flags are known. Source: upstream's cmd/kube-apiserver/app/options.
func TestLikeKnowsAllFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "line")
	flags := review.NewFlags(plugins.List)
	var groups cliflag.NamedFlagSets
	flags.Add(&groups)
	fs := pflag.NewFlagSet("review", pflag.ContinueOnError)
	for _, name := range groups.Order {
		fs.AddFlagSet(groups.FlagSets[name])
	}
	if err := fs.Parse([]string{"--like=" + file}); err != nil {
		t.Fatal(err)
	}
	line := []string{"kube-apiserver"}
	for _, theirs := range options.NewServerRunOptions().Flags().FlagSets {
		theirs.VisitAll(func(flag *pflag.Flag) {
			if fs.Lookup(flag.Name) == nil { // the others would be set
				line = append(line, "--"+flag.Name+"="+flag.DefValue)
			}
		})
	}
	if len(line) < 100 {
		t.Fatalf("kube-apiserver has only %q", line)
	}
	if err := os.WriteFile(file, []byte(strings.Join(line, "\x00")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := flags.ApplyLike(fs); err != nil {
		t.Error(err)
	}
}
