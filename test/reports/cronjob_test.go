// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package reports_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/test/charts"
	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/program"
	"gatehouse.dev/test/servertest"
)

// name is that of everything in the example, and of the reports.
const name = "gatehouse-audit"

// A cronJob runs what the container of examples/audit runs, as its service account.
type cronJob struct {
	*testing.T
	cluster   *servertest.Cluster
	kubectl   servertest.Kubectl
	container corev1.Container
	// files has a directory for each volume of the container, and one with the service account's token.
	files string
}

// newCronJob starts a server with the example, and puts the programs and files where the container has them.
func newCronJob(t *testing.T) *cronJob {
	needs.Server(t)
	needs.Programs(t, "sh")
	c := servertest.Start(t)
	j := &cronJob{T: t, cluster: c, kubectl: c.Kubectl(t, name), files: t.TempDir()}
	crds := t.TempDir()
	if err := charts.PutReports(t.Context(), crds); err != nil {
		t.Fatal(err)
	}
	j.kubectl.OK("", "create", "--filename="+filepath.Join(crds, "openreports"))
	j.kubectl.OK("", "wait", "--for=condition=Established", "crd", "--all")
	servertest.Retry(t, "reports to be served", func() error {
		if _, stderr, code := j.kubectl.Run("", "get", "reports.openreports.io,clusterreports.openreports.io"); code != 0 {
			return errors.New(stderr)
		}
		return nil
	})
	j.kubectl.OK("", "apply", "--filename=../../examples/audit/cronjob.yaml")

	job, err := c.Client.BatchV1().CronJobs(name).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := job.Spec.JobTemplate.Spec.Template.Spec
	j.container = pod.Containers[0]
	account, err := c.Client.CoreV1().ServiceAccounts(name).CreateToken(t.Context(), pod.ServiceAccountName,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	configuration, err := c.Client.CoreV1().ConfigMaps(name).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	j.write("serviceaccount/token", account.Status.Token)
	j.write("serviceaccount/ca.crt", string(c.Config.CAData))
	for file, content := range configuration.Data {
		j.write("configuration/"+file, strings.ReplaceAll(j.here(content), "https://kubernetes.default.svc", c.Config.Host))
	}
	j.write("tmp/.keep", "")
	j.write("kubectl/bin/.keep", "")
	j.write("gatehouse/.keep", "")
	if err := os.Symlink(servertest.KubectlPath(t), filepath.Join(j.files, "kubectl/bin/kubectl")); err != nil {
		t.Fatal(err)
	}
	if _, err := program.BuildGatehouse(t.Context(), filepath.Join(j.files, "gatehouse")); err != nil {
		t.Fatal(err)
	}
	return j
}

// here replaces the container's paths by those of the test.
func (j *cronJob) here(text string) string {
	paths := []string{"/var/run/secrets/kubernetes.io/serviceaccount", filepath.Join(j.files, "serviceaccount")}
	for _, mount := range j.container.VolumeMounts {
		paths = append(paths, mount.MountPath, filepath.Join(j.files, mount.Name))
	}
	return strings.NewReplacer(paths...).Replace(text)
}

func (j *cronJob) write(file, content string) {
	j.Helper()
	file = filepath.Join(j.files, file)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600)); err != nil {
		j.Fatal(err)
	}
}

// run runs the container's command, and returns its output and exit code.
func (j *cronJob) run() (output string, code int) {
	j.Helper()
	cmd := exec.CommandContext(j.Context(), j.container.Command[0])
	for _, arg := range j.container.Command[1:] {
		cmd.Args = append(cmd.Args, j.here(arg))
	}
	for _, variable := range j.container.Env {
		cmd.Env = append(cmd.Env, variable.Name+"="+j.here(variable.Value))
	}
	said, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		j.Fatal(err)
	}
	return string(said), cmd.ProcessState.ExitCode()
}

// reports returns the names of the reports that the cluster has, with the numbers of failures.
func (j *cronJob) reports() string {
	j.Helper()
	found := j.kubectl.OK("", "get", "clusterreports.openreports.io,reports.openreports.io", "--all-namespaces",
		`--output=jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}: {.summary.fail} {.summary.error}{"\n"}{end}`)
	return strings.Join(strings.Fields(strings.ReplaceAll(found, "\n", ", ")), " ")
}

// The CronJob of examples/audit writes the findings into the cluster with no more rights than it has, whether the
// policies are in force or not. Each run takes the reports of earlier runs away, whatever comes of it, and leaves those
// of others alone.
func TestCronJob(t *testing.T) {
	j := newCronJob(t)
	j.kubectl.OK("", "create", "namespace", "shop")
	j.kubectl.OK("", "create", "deployment", "web", "--namespace=shop", "--image=web:latest")
	j.kubectl.OK(`{apiVersion: openreports.io/v1alpha1, kind: Report, metadata: {name: other, namespace: shop},
		summary: {fail: 7, error: 0}, results: []}`, "create", "--namespace=shop", "--filename=-")
	const other = ", shop/other: 7 0,"

	for _, enforced := range []bool{false, true} { // the second run replaces the reports of the first
		if enforced {
			j.kubectl.OK("", "create", "--filename="+filepath.Join(j.files, "configuration/policies.yaml"))
		}
		if said, code := j.run(); code != 0 {
			t.Fatalf("exit code %d:\n%s", code, said)
		}
		if got, want := j.reports(), "shop/gatehouse-audit: 1 0"+other; got != want {
			t.Fatalf("the reports are %q, want %q", got, want)
		}
	}

	// A kind that can't be listed is an error, in the report and of the Job.
	j.kubectl.OK("", "delete", "deployment", "web", "--namespace=shop")
	j.kubectl.OK("", "patch", "clusterrole", name, "--type=json",
		`--patch=[{"op": "replace", "path": "/rules/1/resources", "value": ["statefulsets"]}]`)
	servertest.Eventually(t, "the right to be gone", func() bool {
		_, _, code := j.kubectl.Run("", "auth", "can-i", "list", "deployments", "--all-namespaces",
			"--as=system:serviceaccount:"+name+":"+name)
		return code != 0
	})
	if said, code := j.run(); code != 2 || !strings.Contains(said, "deployments") {
		t.Errorf("without a right: exit code %d:\n%s", code, said)
	}
	if got, want := j.reports(), "/gatehouse-audit: 0 3"+other; got != want {
		t.Errorf("the reports are %q, want %q", got, want)
	}

	// An audit that is killed leaves no report of an earlier run.
	j.replaceGatehouse("echo half a report; kill -9 $$")
	if said, code := j.run(); code != 137 {
		t.Errorf("killed: exit code %d:\n%s", code, said)
	}
	if got := j.reports(); got != strings.TrimPrefix(other, ", ") {
		t.Errorf("the reports are %q, want those of others alone", got)
	}

	// A report that can't be written fails the Job.
	j.replaceGatehouse("echo half a report")
	if said, code := j.run(); code != 3 {
		t.Errorf("with a broken report: exit code %d:\n%s", code, said)
	}
}

// replaceGatehouse replaces the program by a script.
func (j *cronJob) replaceGatehouse(script string) {
	j.Helper()
	file := filepath.Join(j.files, "gatehouse/gatehouse")
	if err := os.Remove(file); err != nil {
		j.Fatal(err)
	}
	j.write("gatehouse/gatehouse", "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(file, 0o700); err != nil {
		j.Fatal(err)
	}
}

// The example's pod is one that its namespace takes, and the service account is no more than the example says.
func TestCronJobIsRestricted(t *testing.T) {
	j := newCronJob(t)
	job, err := j.cluster.Client.BatchV1().CronJobs(name).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "audit"}, Spec: job.Spec.JobTemplate.Spec.Template.Spec}
	if _, err := j.cluster.Client.CoreV1().Pods(name).Create(t.Context(), pod,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("the pod is refused: %v", err)
	}
	for _, right := range []string{"list secrets", "create pods", "delete pods", "list reports.openreports.io",
		"delete reports.openreports.io/other", "update reports.openreports.io/" + name} {
		if _, _, code := j.kubectl.Run("", append([]string{"auth", "can-i", "--all-namespaces",
			"--as=system:serviceaccount:" + name + ":" + name}, strings.Fields(right)...)...); code == 0 {
			t.Errorf("the service account may %s", right)
		}
	}
}
