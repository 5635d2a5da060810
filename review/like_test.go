package review_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

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
		"open":  "kube-apiserver --allow-privileged='true",
		"wrong": "kube-apiserver --allow-privileged=maybe",
	} {
		if err := os.WriteFile(filepath.Clean(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
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
