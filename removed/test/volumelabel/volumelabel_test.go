// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package volumelabel_test runs PersistentVolumeLabel in a real server, over clouds that answer as
// EC2 and Compute Engine do, and uses it with kubectl.
package volumelabel_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"k8s.io/klog/v2"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/backends"
	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/servertest"
)

const configuration = `
apiVersion: gatehouse.dev/v1alpha1
kind: PersistentVolumeLabelConfiguration
aws: {region: us-east-1, endpoint: %s, certificateAuthorityFile: %s, credentialsFile: %s}
gce: {project: %s, region: us-central1, endpoint: %s/compute/v1, certificateAuthorityFile: %s, credentialsFile: %s}
`

// volume is a manifest; source and metadata are in YAML's flow style.
func volume(name, source, metadata string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: %s%s}\nspec: {capacity: {storage: "+
		"1Gi}, accessModes: [ReadWriteOnce], %s}\n", name, metadata, source)
}

func TestPersistentVolumeLabel(t *testing.T) {
	needs.Nightly(t)
	ec2 := backends.EC2(t, map[string]string{"vol-1": "us-east-1a", "vol-2": "us-east-1b"})
	gce := backends.GCE(t, backends.Disk{Name: "zonal", Zone: "us-central1-b"},
		backends.Disk{Name: "regional", Replicas: []string{"us-central1-c", "us-central1-a"}})
	clouds := fmt.Sprintf(configuration, ec2.URL, ec2.AuthorityFile, ec2.CredentialsFile, backends.Project, gce.URL,
		gce.AuthorityFile, gce.CredentialsFile)
	c := servertest.Start(t, gatehousetest.WithPlugins("PersistentVolumeLabel"),
		servertest.Configured(t, map[string]string{"PersistentVolumeLabel": clouds}))
	k := c.Kubectl(t, "default")
	// says wants kubectl to print this, and nothing else, whether it succeeds or not.
	says := func(want, stdin string, args ...string) {
		t.Helper()
		stdout, stderr, _ := k.Run(stdin, args...)
		if got := stderr + stdout; got != want {
			t.Errorf("kubectl %s prints\n%s\nwant\n%s", strings.Join(args, " "), got, want)
		}
	}

	const columns = `--output=jsonpath={.metadata.labels.topology\.kubernetes\.io/region} ` +
		`{.metadata.labels.topology\.kubernetes\.io/zone}{range ` +
		`.spec.nodeAffinity.required.nodeSelectorTerms[*]}{range .matchExpressions[*]} {.key} {.operator} ` +
		`{.values}{end}{end}`
	for name, test := range map[string]struct{ source, want string }{
		"ebs": {"awsElasticBlockStore: {volumeID: 'aws://us-east-1a/vol-1'}",
			`us-east-1 us-east-1a topology.kubernetes.io/region In ["us-east-1"] topology.kubernetes.io/zone In ` +
				`["us-east-1a"]`},
		"zonal": {"gcePersistentDisk: {pdName: zonal}",
			`us-central1 us-central1-b topology.kubernetes.io/region In ["us-central1"] topology.kubernetes.io/zone ` +
				`In ["us-central1-b"]`},
		"regional": {"gcePersistentDisk: {pdName: regional}",
			`us-central1 us-central1-a__us-central1-c topology.kubernetes.io/region In ["us-central1"] ` +
				`topology.kubernetes.io/zone In ["us-central1-a","us-central1-c"]`},
		"path": {"hostPath: {path: /data}", " "},
	} {
		says("persistentvolume/"+name+" created (server dry run)\n", volume(name, test.source, ""), "create",
			"--dry-run=server", "--filename=-")
		says("persistentvolume/"+name+" created\n", volume(name, test.source, ""), "apply", "--filename=-")
		says(test.want, "", "get", "persistentvolume", name, columns)
		says("persistentvolume/"+name+" unchanged\n", volume(name, test.source, ""), "apply", "--filename=-")
		says("persistentvolume/"+name+" labeled\n", "", "label", "persistentvolume", name, "app=db")
	}

	// Refused, with the cloud's reason; nothing is stored.
	says(`Error from server (Forbidden): error when creating "STDIN": persistentvolumes "none" is forbidden: error `+
		`querying AWS EBS volume vol-3: InvalidVolume.NotFound: The volume 'vol-3' does not exist.`+"\n",
		volume("none", "awsElasticBlockStore: {volumeID: vol-3}", ""), "create", "--filename=-")
	says(`Error from server (Forbidden): error when creating "STDIN": persistentvolumes "none" is forbidden: error `+
		`querying GCE PD volume none: GCE persistent disk not found: diskName="none" region="us-central1"`+"\n",
		volume("none", "gcePersistentDisk: {pdName: none}", ""), "create", "--filename=-")
	says(`Error from server (NotFound): persistentvolumes "none" not found`+"\n", "", "get", "persistentvolume", "none")

	// A label that contradicts the cloud is the user's; a throttling cloud is waited for.
	ec2.Next(backends.Repeat(2,
		backends.EC2Error(http.StatusServiceUnavailable, "RequestLimitExceeded", "Request limit exceeded."))...)
	says(`Warning: metadata.labels[topology.kubernetes.io/zone]: is "us-east-1a", but the volume is in `+
		`"us-east-1b": no node has both, so pods with this volume will not be scheduled; leave the label out, or `+
		`correct it`+"\npersistentvolume/wrong created\n",
		volume("wrong", "awsElasticBlockStore: {volumeID: vol-2}",
			", labels: {topology.kubernetes.io/zone: us-east-1a}"), "create", "--filename=-")
	says(`us-east-1 us-east-1a topology.kubernetes.io/region In ["us-east-1"] topology.kubernetes.io/zone In `+
		`["us-east-1b"]`, "", "get", "persistentvolume", "wrong", columns)

	// Secrets are in neither the log nor what kubectl printed, which is known.
	logged := log.String()
	key, err := os.ReadFile(gce.CredentialsFile)
	if err != nil {
		t.Fatal(err)
	}
	_, private, _ := strings.Cut(string(key), `PRIVATE KEY-----\n`)
	for _, secret := range []string{backends.SecretAccessKey, backends.SessionToken, "ya29.", private[:40]} {
		if strings.Contains(logged, secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}

// log is what the server logs.
var log logBuffer

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestMain(m *testing.M) {
	needs.NotShort()
	klog.LogToStderr(false)
	klog.SetOutput(&log)
	os.Exit(m.Run())
}
