// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/chromedp/chromedp/kb"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/test/chromium"
	"gatehouse.dev/test/servertest"
)

// meet is what the requests of the test meet: defaults, a policy that denies, a webhook that fails
// open, and one that never matches.
const meet = `
apiVersion: v1
kind: LimitRange
metadata: {name: defaults}
spec: {limits: [{type: Container, default: {cpu: 200m, memory: 128Mi}, defaultRequest: {cpu: 100m}}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-latest}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations:
  - expression: "object.spec.containers.all(c, !c.image.endsWith(':latest'))"
    message: images need a tag that stays
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-latest}
spec: {policyName: no-latest, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: sidecars}
webhooks:
- name: inject.sidecars.example
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  timeoutSeconds: 1
  clientConfig: {url: "https://127.0.0.1:1/inject"}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
- name: never.sidecars.example
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {url: "https://127.0.0.1:1/never"}
  rules: [{apiGroups: [batch], apiVersions: [v1], operations: [CREATE], resources: [cronjobs]}]
`

// width and height are those of a small screen on a desk.
const width, height = 1240, 700

// row is the element of a request's row that has a text.
func row(text string) string {
	return "[...document.querySelectorAll('#list .row')].find(r => r.textContent.includes(" + chromium.Quoted(text) + "))"
}

func TestPage(t *testing.T) {
	b := newBrowser(t)
	cluster := servertest.Start(t)
	namespace := "shop"
	if _, err := cluster.Client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubectl := cluster.Kubectl(t, namespace)
	kubectl.OK(meet, "apply", "--filename=-")
	address := command(t, "--kubeconfig="+cluster.Kubeconfig)
	b.As(width, height, "light", "no-preference")
	visit(b, address)
	b.Until("location.search === '' && document.querySelector('#state.live')")

	b.run(t, "requests appear as they come", func(t *testing.T) {
		servertest.Retry(t, "the policy to be in force", func() error {
			if _, _, code := kubectl.Run("", "run", "bad", "--image=shop/web:latest"); code == 0 {
				kubectl.OK("", "delete", "pod/bad")
				return fmt.Errorf("the pod was admitted")
			}
			return nil
		})
		b.Until(row("pods/bad"))
		kubectl.OK("", "run", "web", "--image=shop/web:1.4")
		kubectl.OK("", "run", "api", "--image=shop/api:2.0")
		for i := range 6 {
			kubectl.OK("", "create", "configmap", fmt.Sprintf("settings-%d", i), "--dry-run=server")
		}
		kubectl.OK("", "label", "pod/web", "tier=front")
		b.Until(row("configmaps/settings-5"))
		b.Until(row("pods/api"))
		if !chromium.See[bool](b.Page, row("pods/bad")+".classList.contains('Refused')") ||
			!chromium.See[bool](b.Page, row("pods/bad")+".textContent.includes('✗')") {
			t.Error("the refused request isn't marked")
		}
		b.shoot("requests")
	})

	b.run(t, "by keyboard alone", func(t *testing.T) {
		b.Press("/", "p", "o", "d", "s", "/", "b", "a", "d")
		b.Until("location.hash.includes('q=pods')")
		b.Until("document.querySelectorAll('#list .row').length < 5 && " + row("pods/bad"))
		b.Press(kb.Enter)
		b.Until("document.activeElement.id === 'list' && document.querySelector('.row.active')")
		if !chromium.See[bool](b.Page, "document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))"+
			".classList.contains('active')") {
			t.Error("the list doesn't say which row is active")
		}
		if chromium.See[string](b.Page, "getComputedStyle(document.querySelector('.row.active')).outlineStyle") == "none" {
			t.Error("the active row can't be seen")
		}
		b.Press(kb.Enter)
		b.Until("document.querySelector('#request h2')?.textContent.includes('pods/bad')")
		b.Until("location.hash.includes('open=')")
		b.shoot("refused")
		// into the picture, to what the first plugin changed, and on to the next
		chromium.See[any](b.Page, "document.querySelector('.picture .changed button.head').focus()")
		b.Press(kb.Enter)
		b.Until("document.activeElement.getAttribute('aria-expanded') === 'true'")
		b.Press("j")
		b.Until("document.activeElement.matches('.picture button.head')")
		b.Press("?")
		b.Until("document.querySelector('#keys').open")
		b.Press(kb.Escape)
		b.Until("!document.querySelector('#keys').open")
	})

	b.run(t, "the way through the chain", func(t *testing.T) {
		open := chromium.See[string](b.Page, "new URLSearchParams(location.hash.slice(1)).get('open')")
		id, _ := strings.CutPrefix(open, namespace+"/")
		whole := &v1alpha1.Decision{}
		get(t, cluster, namespace, id, whole)
		var want []string
		for _, step := range whole.Steps {
			want = append(want, step.Plugin)
		}
		got := chromium.See[[]string](b.Page, "[...document.querySelectorAll('.step > .head .name')].map(e => e.textContent)")
		if !slices.Equal(got, want) || len(want) < 10 {
			t.Errorf("the picture has\n%v, want\n%v", got, want)
		}
		refused := chromium.See[string](b.Page, "document.querySelector('.step.Refused > .head').textContent")
		if !strings.Contains(refused, whole.By) || !strings.Contains(refused, "✗") ||
			!strings.Contains(refused, "refused") || whole.By == "" {
			t.Errorf("who refused is marked as %q", refused)
		}
		call := chromium.See[string](b.Page, "document.querySelector('.step.Refused .call.Refused').innerText")
		if !strings.Contains(call, "no-latest") || !strings.Contains(call, "images need a tag that stays") {
			t.Errorf("the policy says %q", call)
		}
		webhook := chromium.See[string](b.Page, "document.querySelector('.call.open').innerText")
		if !strings.Contains(webhook, "inject.sidecars.example") || !strings.Contains(webhook, "failed open") {
			t.Errorf("the webhook that failed open says %q", webhook)
		}
		if !chromium.See[bool](b.Page, `[...document.querySelectorAll('.step > .head i')].every((bar, i, all) => bar.offsetWidth > 0 &&
			(i === 0 || bar.getBoundingClientRect().left >= all[i - 1].getBoundingClientRect().left - 1))`) {
			t.Error("the bars don't follow each other, or can't be seen")
		}
		diff := chromium.See[string](b.Page, "document.querySelector('.step.changed .diff').innerText")
		for _, text := range []string{"spec.containers[0].resources.limits", "memory: ", "128Mi"} {
			if !strings.Contains(diff, text) {
				t.Errorf("the diff lacks %s:\n%s", text, diff)
			}
		}
		if pass := chromium.See[string](b.Page, "document.querySelector('#request .pass').innerText"); !strings.Contains(pass,
			"Change the object so that the policy's expression holds") {
			t.Errorf("to pass it says %q", pass)
		}
		b.As(width, height, "dark", "no-preference")
		b.Press("e")
		b.Until("[...document.querySelectorAll('.step > .head[aria-expanded]')].every(e => e.ariaExpanded === 'true')")
		if light := chromium.See[string](b.Page, "getComputedStyle(document.body).backgroundColor"); light != "rgb(18, 21, 24)" {
			t.Errorf("in the dark the page is %s", light)
		}
		b.shoot("request-dark")
		b.Press("t") // light, whatever the system says
		b.Until("getComputedStyle(document.body).backgroundColor === 'rgb(246, 247, 248)'")
		b.Press("t", "t")
		b.Press(kb.Escape)
		b.Until("document.activeElement.id === 'list' && !location.hash.includes('open=')")
	})

	b.run(t, "filters", func(t *testing.T) {
		b.Press("x")
		b.Until("!location.hash.includes('q=')")
		chromium.See[any](b.Page, "document.querySelector('#verdicts [value=Refused]').click()")
		b.Until("location.hash.includes('verdict=Refused') && document.querySelectorAll('#list .row').length > 0 && " +
			"!document.querySelector('#list .row:not(.Refused)')")
		b.Press("x", "/", "-", "p", "o", "d", "s", kb.Enter)
		b.Until("document.querySelectorAll('#list .row').length > 5 && !" + row("pods/web"))
		b.Press("x")
		b.Until(row("pods/web"))
		// what is in the address is what is shown
		visit(b, strings.Split(address, "?")[0]+"#ns=shop&res=configmaps")
		b.Until(row("configmaps/settings-5") + " && !" + row("pods/web"))
		b.Until("document.querySelector('#ns').value === 'shop'")
		b.Press("p")
		b.Until("document.querySelector('#pause').ariaPressed === 'true'")
		kubectl.OK("", "create", "configmap", "later")
		b.Until("!document.querySelector('#newer').hidden")
		if chromium.See[bool](b.Page, row("configmaps/later")+" !== undefined") {
			t.Error("a list that is paused goes on")
		}
		b.Press("p")
		b.Until(row("configmaps/later"))
	})

	b.run(t, "leases and conflicts", func(t *testing.T) {
		kubectl.OK(lease, "create", "--filename=-")
		kubectl.OK("", "annotate", "lease/alive", "a=b")
		kubectl.Fails(lease, []string{"create", "--filename=-"}, "already exists")
		b.Press("x")
		const rows, alive = "[...document.querySelectorAll('#list .row", "e.innerText.includes('leases/alive')"
		b.Until(rows + ".AlreadyExists')].some(e => " + alive + ")")
		const update = rows + "')].some(e => " + alive + " && e.innerText.includes('UPDATE'))"
		if chromium.See[bool](b.Page, update) {
			t.Error("an update of a lease is shown")
		}
		chromium.See[any](b.Page, "document.querySelector('#leases').click()")
		b.Until("location.hash.includes('leases=shown') && " + update)
		chromium.See[any](b.Page, "document.querySelector('#leases').click()")
		b.Until("!" + update)
	})

	b.run(t, "views by address and back", func(t *testing.T) {
		b.As(width, height, "light", "no-preference")
		b.Press("2")
		b.Until("!document.querySelector('#chain').hidden && location.hash.includes('view=chain')")
		b.Press("3")
		b.Until("!document.querySelector('#parts').hidden")
		chromium.See[any](b.Page, "history.back()")
		b.Until("!document.querySelector('#chain').hidden && document.querySelectorAll('#chain tbody tr').length > 12")
		chromium.See[any](b.Page, "history.back()")
		b.Until("!document.querySelector('#requests').hidden")
		chromium.See[any](b.Page, "location.hash = 'view=parts'")
		b.Until("!document.querySelector('#parts').hidden && " +
			"document.querySelector('#parts').innerText.includes('never matched')")
		chromium.See[any](b.Page, "history.back()")
		b.Until("!document.querySelector('#requests').hidden && " + row("configmaps/later"))
		// The cells of the header are above those of the rows.
		if !chromium.See[bool](b.Page, `[...document.querySelectorAll('#heads > span')].every((head) => Math.abs(
			head.getBoundingClientRect().left -
			document.querySelector('#list .row > .' + head.className).getBoundingClientRect().left) < 1)`) {
			t.Error("the header isn't aligned with the rows")
		}
	})

	b.run(t, "sums", func(t *testing.T) {
		b.As(width, height, "light", "no-preference")
		b.Press("x", "2")
		b.Until("document.querySelectorAll('#chain tbody tr').length > 12")
		b.Until("document.querySelector('#chain .lead').innerText.includes('refusal')")
		b.shoot("chain")
		b.Press("3")
		b.Until("document.querySelector('#parts')?.innerText.includes('never matched')")
		text := chromium.See[string](b.Page, "document.querySelector('#parts').innerText")
		for _, want := range []string{"inject.sidecars.example", "never.sidecars.example", "no-latest", "⚠"} {
			if !strings.Contains(text, want) {
				t.Errorf("the view lacks %s:\n%s", want, text)
			}
		}
		b.shoot("parts")
		b.As(360, 740, "light", "no-preference")
		b.Press("1", "/", "w", "e", "b", kb.Enter, kb.Enter)
		b.Until("document.querySelector('#request h2')?.checkVisibility()")
		if wide := chromium.See[int](b.Page, "document.documentElement.scrollWidth"); wide > 360 {
			t.Errorf("at 360 pixels the page is %d wide", wide)
		}
		b.shoot("narrow")
	})
	b.quiet(address)
}

const lease = `apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: alive}
`

// Who may not see decisions is told which role to ask for, and sees them once it is bound.
func TestWithoutRights(t *testing.T) {
	b := newBrowser(t)
	cluster := servertest.Start(t)
	address := command(t, "--kubeconfig="+cluster.Kubeconfig, "--as=alice", "-n", "default")
	visit(b, address)
	b.Until("document.querySelector('#problem').innerText.includes('gatehouse:decisions-viewer')")
	if says := chromium.See[string](b.Page, "document.querySelector('#problem').innerText"); !strings.Contains(says, `"alice"`) ||
		!strings.Contains(says, "kubectl create rolebinding") || !strings.Contains(says, "--namespace=default") {
		t.Errorf("says %s", says)
	}
	grant(t, cluster.Client, "default", "alice")
	b.Until("document.querySelector('#state.live') && document.querySelector('#problem').hidden")
	cluster.Kubectl(t, "default").OK("", "create", "configmap", "seen")
	b.Until(row("configmaps/seen"))
	b.quiet(address)
}

func grant(t *testing.T, client kubernetes.Interface, namespace, user string) {
	t.Helper()
	if _, err := client.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "viewer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: v1alpha1.ViewerRole},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// The documents' pictures are there, are shown, and are small.
func TestScreenshots(t *testing.T) {
	document, err := os.ReadFile("../../docs/dashboard.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range screenshots {
		file := "dashboard-" + name + ".png"
		info, err := os.Stat(filepath.Join(images, file))
		if err != nil || info.Size() == 0 || info.Size() > 100<<10 {
			t.Errorf("%s: %v, %v; GATEHOUSE_SCREENSHOTS=1 makes it", file, info, err)
		}
		if !strings.Contains(string(document), "(images/"+file+")") {
			t.Errorf("docs/dashboard.md doesn't show %s", file)
		}
	}
}
