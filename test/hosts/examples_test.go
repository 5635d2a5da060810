// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/program"
)

// example returns the text of a file of examples/ci.
func example(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root(t), "examples/ci", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// strict reads YAML whose unknown fields are errors.
func strict(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

// A ciServer runs scripts in a repository with manifests, as a CI server does.
type ciServer struct {
	repository string
	tools      string // the directory with the stand-ins
	env        []string
}

// newCIServer returns a server whose repository is like a team's: a kustomization with a base, whose pod has this image,
// and what the platform's team adds. curl is a stand-in that has the archive of the release.
func newCIServer(t *testing.T, image string) *ciServer {
	t.Helper()
	needs.Programs(t, "sh", "tar", "sha256sum")
	build(t)
	s := &ciServer{repository: t.TempDir(), tools: t.TempDir()}
	for name, content := range map[string]string{
		"base/pod.yaml":                 fmt.Sprintf(pod, image),
		"base/kustomization.yaml":       "resources: [pod.yaml]\n",
		"production/kustomization.yaml": "resources: [../base]\nnamespace: shop\npatches: [{path: patch.yaml}]\n",
		"production/patch.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n" +
			"spec: {containers: [{name: c, env: [{name: A, value: b}]}]}\n",
		"quota.yaml": "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: shop}\nspec: {hard: {pods: 1}}\n",
	} {
		write(t, filepath.Join(s.repository, "manifests", name), content)
	}
	write(t, filepath.Join(s.repository, "tests/pods.yaml"), hookFiles["suite/pods.yaml"])
	write(t, filepath.Join(s.repository, "tests/quota.yaml"), `apiVersion: gatehouse.dev/v1alpha1
kind: AdmissionTest
spec:
  state: [{apiVersion: v1, kind: Namespace, metadata: {name: shop}}, ../manifests/quota.yaml]
  cases:
  - name: within the quota
    object: {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, spec: {containers: [{name: c, image: nginx}]}}
    expect: {verdict: Admitted}
`)
	write(t, filepath.Join(s.repository, "state.yaml"), "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n")
	released := archive(t, "#!/bin/sh\nexec "+filepath.Join(bin, "gatehouse")+" \"$@\"\n")
	write(t, filepath.Join(s.tools, "archive"), released)
	kubectl, err := program.Kubectl(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"curl": `[ "$1 $2 $4" = "-fsSL -o https://github.com/gatehouse/gatehouse/releases/download/v$GATEHOUSE_VERSION/` +
			`gatehouse_${GATEHOUSE_VERSION}_linux_amd64.tar.gz" ] && cp ` + filepath.Join(s.tools, "archive") + ` "$3"`,
		"kubectl":   "exec " + kubectl + ` "$@"`,
		"kustomize": `[ "$*" = "build ." ] && exec ` + kubectl + " kustomize .",
		"gatehouse": "exec " + filepath.Join(bin, "gatehouse") + ` "$@"`,
	} {
		write(t, filepath.Join(s.tools, name), "#!/bin/sh\n"+script+"\n")
		if err := os.Chmod(filepath.Join(s.tools, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.env = append(os.Environ(), "PATH="+s.tools+":"+os.Getenv("PATH"), "GATEHOUSE_VERSION=0.2.0",
		fmt.Sprintf("GATEHOUSE_SHA256=%x", sha256.Sum256([]byte(released))))
	return s
}

// run runs a command in the repository.
func (s *ciServer) run(t *testing.T, command ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errors strings.Builder
	if _, err := os.Stat(filepath.Join(s.tools, command[0])); err == nil {
		command[0] = filepath.Join(s.tools, command[0])
	}
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.repository, s.env, &out, &errors
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errors.String(), cmd.ProcessState.ExitCode()
}

// TestScriptsOfCIServers runs the scripts of GitLab and Jenkins: they pass with a good pod, fail with a
// refused one, and write reports in both cases. They fail if the archive isn't the one that was named. They need no
// suites, and Jenkins, which keeps the files of earlier builds, downloads another version.
func TestScriptsOfCIServers(t *testing.T) {
	var gitlab struct {
		Variables map[string]string `json:"variables"`
		Gatehouse struct {
			Stage  string   `json:"stage"`
			Image  string   `json:"image"`
			Script []string `json:"script"`
			Cache  struct {
				Key   string   `json:"key"`
				Paths []string `json:"paths"`
			} `json:"cache"`
			Artifacts struct {
				When    string            `json:"when"`
				Reports map[string]string `json:"reports"`
			} `json:"artifacts"`
		} `json:"gatehouse"`
	}
	strict(t, example(t, "gitlab-ci.yml"), &gitlab)
	jenkins := regexp.MustCompile(`(?s)sh '''\n(.*?)'''`).FindStringSubmatch(example(t, "Jenkinsfile"))
	if jenkins == nil {
		t.Fatal("the Jenkinsfile has no script")
	}
	for name, script := range map[string]string{
		"GitLab":  strings.Join(gitlab.Gatehouse.Script, "\n"),
		"Jenkins": jenkins[1],
	} {
		t.Run(name, func(t *testing.T) {
			for image, want := range map[string]int{"nginx": 0, "''": 1} {
				s := newCIServer(t, image)
				stdout, stderr, code := s.run(t, "sh", "-ec", script)
				if code != want {
					t.Errorf("with the image %s: exit code %d, want %d\n%s%s", image, code, want, stdout, stderr)
				}
				reports, err := filepath.Glob(filepath.Join(s.repository, gitlab.Gatehouse.Artifacts.Reports["junit"]))
				if err != nil || len(reports) != 3 {
					t.Errorf("with the image %s: the reports are %q (%v)", image, reports, err)
				}
				if want == 0 {
					if err := os.RemoveAll(filepath.Join(s.repository, "tests")); err != nil {
						t.Fatal(err)
					}
					if name == "Jenkins" {
						released := archive(t, "#!/bin/sh\n# Later.\nexec "+filepath.Join(bin, "gatehouse")+" \"$@\"\n")
						write(t, filepath.Join(s.tools, "archive"), released)
						s.env = append(s.env, "GATEHOUSE_VERSION=0.2.1",
							fmt.Sprintf("GATEHOUSE_SHA256=%x", sha256.Sum256([]byte(released))))
					}
					if stdout, stderr, code := s.run(t, "sh", "-ec", script); code != 0 {
						t.Errorf("without suites: exit code %d\n%s%s", code, stdout, stderr)
					}
				}
				s.env = append(s.env, fmt.Sprintf("GATEHOUSE_SHA256=%064d", 7))
				if _, _, code := s.run(t, "sh", "-ec", script); code == 0 {
					t.Error("another archive passed")
				}
			}
		})
	}
}

// tekton has the fields of Tekton's tasks and pipelines that the example uses. Any other field is an error.
// Source: github.com/tektoncd/pipeline, pkg/apis/pipeline/v1.
type tekton struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Description string       `json:"description"`
		Params      []tektonPart `json:"params"`
		Workspaces  []struct {
			tektonPart
			ReadOnly bool `json:"readOnly"`
		} `json:"workspaces"`
		StepTemplate core.Container   `json:"stepTemplate"`
		Steps        []core.Container `json:"steps"`
		Tasks        []struct {
			Name       string       `json:"name"`
			TaskRef    tektonPart   `json:"taskRef"`
			Params     []tektonPart `json:"params"`
			Workspaces []tektonPart `json:"workspaces"`
		} `json:"tasks"`
	} `json:"spec"`
}

// A tektonPart is a parameter, its value, a workspace, or the name of a task.
type tektonPart struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Default     string `json:"default"`
	Value       string `json:"value"`
	Workspace   string `json:"workspace"`
}

// TestTekton runs the steps of the task, with the defaults of its parameters, and checks that the pipeline gives
// it what it has.
func TestTekton(t *testing.T) {
	documents := strings.Split(example(t, "tekton.yaml"), "\n---\n")
	if len(documents) != 2 {
		t.Fatalf("%d documents", len(documents))
	}
	var task, pipeline tekton
	strict(t, documents[0], &task)
	strict(t, documents[1], &pipeline)
	values := []string{"/gatehouse", filepath.Join(bin, "gatehouse")}
	params := map[string]bool{}
	for _, p := range task.Spec.Params {
		params[p.Name] = true
		values = append(values, "$(params."+p.Name+")", p.Default)
	}
	for _, used := range pipeline.Spec.Tasks {
		if used.TaskRef.Name != task.Metadata.Name || used.Workspaces[0].Name != task.Spec.Workspaces[0].Name ||
			used.Workspaces[0].Workspace != pipeline.Spec.Workspaces[0].Name {
			t.Errorf("the pipeline uses %+v", used)
		}
		for _, p := range used.Params {
			if !params[p.Name] || p.Value != "$(params."+pipeline.Spec.Params[0].Name+")" {
				t.Errorf("the pipeline sets %+v", p)
			}
		}
	}
	for image, want := range map[string]int{"nginx": 0, "''": 1} {
		s, failed := newCIServer(t, image), 0
		for _, step := range task.Spec.Steps {
			var command []string
			for _, word := range append(step.Command, step.Args...) {
				command = append(command, strings.NewReplacer(values...).Replace(word))
			}
			if stdout, stderr, code := s.run(t, command...); code != 0 {
				failed++
				if want == 0 {
					t.Errorf("step %s: exit code %d\n%s%s", step.Name, code, stdout, stderr)
				}
			}
		}
		if failed != want {
			t.Errorf("with the image %s %d steps failed, want %d", image, failed, want)
		}
	}
}

// TestArgoPreSync renders the application as Argo CD does, has Gatehouse judge all of it, and runs the hook with
// the files that the rendered objects mount.
func TestArgoPreSync(t *testing.T) {
	s := newCIServer(t, "nginx")
	rendered, stderr, code := s.run(t, "kubectl", "kustomize", filepath.Join(root(t), "examples/ci/argocd/presync"))
	if code != 0 {
		t.Fatal(stderr)
	}
	write(t, filepath.Join(s.repository, "rendered.yaml"), rendered)
	if stdout, stderr, code := s.run(t, "gatehouse", "review", "--state=state.yaml", "rendered.yaml"); code != 0 ||
		!strings.Contains(stdout, "7 admitted, 0 refused, 0 failed") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	var hook batch.Job
	mounted := map[string]core.ConfigMap{}
	for _, document := range strings.Split(rendered, "\n---\n") {
		switch {
		case strings.Contains(document, "\nkind: Job\n"):
			strict(t, document, &hook)
		case strings.Contains(document, "\nkind: ConfigMap\n"):
			var files core.ConfigMap
			strict(t, document, &files)
			mounted[files.Name] = files
			if files.Annotations["argocd.argoproj.io/hook"] != "PreSync" ||
				files.Annotations["argocd.argoproj.io/sync-wave"] != "-1" {
				t.Errorf("%s isn't there before the hook: %v", files.Name, files.Annotations)
			}
		}
	}
	for _, volume := range hook.Spec.Template.Spec.Volumes {
		if _, ok := mounted[volume.ConfigMap.Name]; !ok {
			t.Errorf("the hook mounts %s, which isn't there", volume.ConfigMap.Name)
		}
	}
	// A mounted ConfigMap is a directory with links, as the kubelet makes it.
	manifests := filepath.Join(s.repository, "mounted")
	data := mounted["gatehouse-manifests"].Data
	for name, content := range data {
		write(t, filepath.Join(manifests, "..2026", name), content)
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(manifests, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("..2026", filepath.Join(manifests, "..data")); err != nil {
		t.Fatal(err)
	}
	var args []string
	for _, arg := range hook.Spec.Template.Spec.Containers[0].Args {
		// The cluster is a fresh one with the namespace.
		arg = strings.Replace(arg, "--kubeconfig=/etc/gatehouse/kubeconfig", "--state=state.yaml", 1)
		args = append(args, strings.Replace(arg, "=/manifests", "="+manifests, 1))
	}
	if stdout, stderr, code := s.run(t, append([]string{"gatehouse"}, args...)...); code != 0 ||
		!strings.Contains(stdout, "1 admitted, 0 refused, 0 failed") {
		t.Errorf("%v: exit code %d\n%s%s", args, code, stdout, stderr)
	}
}

// TestArgoPlugin runs the command of the config management plugin: it prints the manifests, or nothing.
func TestArgoPlugin(t *testing.T) {
	var plugin struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			Generate struct {
				Command []string `json:"command"`
				Args    []string `json:"args"`
			} `json:"generate"`
		} `json:"spec"`
	}
	strict(t, example(t, "argocd/plugin/plugin.yaml"), &plugin)
	if application := example(t, "argocd/plugin/application.yaml"); !strings.Contains(application, "name: "+plugin.Metadata.Name+"\n") {
		t.Errorf("the application doesn't name the plugin %s", plugin.Metadata.Name)
	}
	for image, want := range map[string]int{"nginx": 0, "''": 1} {
		s := newCIServer(t, image)
		write(t, filepath.Join(s.repository, "kustomization.yaml"), "resources: [manifests/production]\n")
		s.env = append(s.env, "ARGOCD_ENV_STATE=state.yaml", "ARGOCD_APP_NAMESPACE=shop")
		stdout, stderr, code := s.run(t, append(plugin.Spec.Generate.Command, plugin.Spec.Generate.Args...)...)
		if code != want || strings.HasPrefix(stdout, "apiVersion: v1\nkind: Pod\n") != (want == 0) ||
			strings.Contains(stderr, "refused   Pod shop/p") != (want != 0) || want != 0 && stdout != "" {
			t.Errorf("with the image %s: exit code %d, want %d, output\n%s%s", image, code, want, stdout, stderr)
		}
	}
}

// TestFlux runs the script on two folders, one of which has a pod that is refused.
func TestFlux(t *testing.T) {
	s := newCIServer(t, "nginx")
	for folder, image := range map[string]string{"clusters/staging": "nginx", "clusters/production": "''"} {
		dir := filepath.Join(s.repository, folder)
		write(t, filepath.Join(dir, "pod.yaml"), fmt.Sprintf(pod, image))
		write(t, filepath.Join(dir, "kustomization.yaml"), "resources: [pod.yaml]\n")
		if err := os.Link(filepath.Join(s.repository, "state.yaml"), filepath.Join(dir, "state.yaml")); err != nil {
			t.Fatal(err)
		}
	}
	script := filepath.Join(root(t), "examples/ci/flux.sh")
	stdout, stderr, code := s.run(t, script, "clusters/production", "clusters/staging")
	if code != 1 || !strings.HasSuffix(stderr, "refused, or not judged: clusters/production\n") || !strings.Contains(stdout, "1 admitted, 0 refused") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := s.run(t, script, "clusters/staging"); code != 0 {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}
