// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package running_test

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision/client"
	"gatehouse.dev/internal/peers"
	"gatehouse.dev/test/servertest"
)

// about selects the decisions about the ConfigMaps that the tests create.
const about = "request.resource=configmaps,request.operation=CREATE,request.name!=kube-root-ca.crt"

// A member is one of several servers over one etcd.
type member struct {
	*servertest.Process
	*servertest.Cluster
	decisions rest.Interface
	warnings  *client.Warnings
}

// startMember starts a server over an etcd, and waits until the others there know it.
func startMember(t *testing.T, endpoint string) *member {
	t.Helper()
	m := &member{Process: servertest.NewProcess(t, "--etcd-servers="+endpoint), warnings: &client.Warnings{}}
	m.Start(t)
	m.connect(t)
	m.awaitKnown(t)
	return m
}

// awaitKnown waits until the other servers know this one, which they do a moment after it is ready: they
// answer only those that they know.
func (m *member) awaitKnown(t *testing.T) {
	t.Helper()
	servertest.Retry(t, "the other servers to know this one", func() error {
		_, err := m.list(t, m.decisions, "", metav1.ListOptions{})
		if said := m.warned(); err == nil && said != "" {
			err = errors.New(said)
		}
		return err
	})
}

func (m *member) connect(t *testing.T) {
	t.Helper()
	m.Cluster = m.Process.Connect(t)
	m.decisions = m.as(t, m.Config)
}

// as returns a client with which the warnings are the member's.
func (m *member) as(t *testing.T, config *rest.Config) rest.Interface {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS, config.WarningHandler = -1, m.warnings
	decisions, err := client.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return decisions
}

// decide makes the server decide about a ConfigMap.
func (m *member) decide(t *testing.T, namespace, name string) {
	t.Helper()
	if _, err := m.Client.CoreV1().ConfigMaps(namespace).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// warned returns the warnings since the last call.
func (m *member) warned() string { return strings.Join(m.warnings.Take(), "\n") }

// list returns a list of decisions about ConfigMaps.
func (m *member) list(t *testing.T, decisions rest.Interface, namespace string, options metav1.ListOptions) (
	*v1alpha1.DecisionList, error) {
	t.Helper()
	options.FieldSelector = about
	found := &v1alpha1.DecisionList{}
	return found, client.Request(decisions, namespace, options).Do(t.Context()).Into(found)
}

// names returns the names of the ConfigMaps in a list.
func names(list *v1alpha1.DecisionList) string {
	var all []string
	for i := range list.Items {
		all = append(all, list.Items[i].Request.Name)
	}
	return strings.Join(all, " ")
}

// expect checks which decisions a server lists.
func (m *member) expect(t *testing.T, namespace, want string) *v1alpha1.DecisionList {
	t.Helper()
	found, err := m.list(t, m.decisions, namespace, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(found); got != want {
		t.Errorf("the server at port %d lists %q, want %q", m.Port(), got, want)
	}
	return found
}

// get returns a decision by its name.
func (m *member) get(t *testing.T, namespace, name string) (*v1alpha1.Decision, error) {
	t.Helper()
	d := &v1alpha1.Decision{}
	err := client.Request(m.decisions, namespace, metav1.ListOptions{}).Name(name).Do(t.Context()).Into(d)
	return d, err
}

// A follower reads a watch of decisions about ConfigMaps.
type follower struct {
	watch.Interface
	t *testing.T
}

func (m *member) follow(t *testing.T, namespace string, options metav1.ListOptions) *follower {
	t.Helper()
	options.Watch, options.FieldSelector = true, about
	w, err := client.Request(m.decisions, namespace, options).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return &follower{w, t}
}

// next returns the next event, and the name of its ConfigMap.
func (f *follower) next() (watch.Event, string) { return f.within(2 * time.Minute) }

// within is next with a limit.
func (f *follower) within(limit time.Duration) (watch.Event, string) {
	f.t.Helper()
	select {
	case e, ok := <-f.ResultChan():
		if !ok {
			f.t.Fatal("the watch has ended")
		}
		if d, ok := e.Object.(*v1alpha1.Decision); ok {
			return e, d.Request.Name
		}
		return e, ""
	case <-time.After(limit):
		f.t.Fatal("no event")
	}
	return watch.Event{}, ""
}

// expect checks that the next events are about these ConfigMaps. It returns the last one's revision.
func (f *follower) expect(names ...string) (revision string) {
	f.t.Helper()
	for _, want := range names {
		e, name := f.next()
		if e.Type != watch.Added || name != want {
			f.t.Fatalf("got the event %s of %q, want ADDED of %q: %v", e.Type, name, want, e.Object)
		}
		revision = e.Object.(*v1alpha1.Decision).ResourceVersion
	}
	return revision
}

// Each of several servers has the decisions of all: by list, in pages, by name, and with selectors.
func TestServers(t *testing.T) {
	store := servertest.StartEtcd(t)
	one, two := startMember(t, store.Endpoint()), startMember(t, store.Endpoint())
	namespace := one.Namespace(t, nil)
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		[]*member{one, two}[i%2].decide(t, namespace, name)
	}
	for _, m := range []*member{one, two} {
		list := m.expect(t, namespace, "a b c d e")
		servers := map[string]string{}
		for i := range list.Items {
			d := &list.Items[i]
			servers[d.Request.Name] = d.Labels[v1alpha1.ServerLabel]
			found, err := m.get(t, namespace, d.Name)
			if err != nil || found.Request.Name != d.Request.Name || found.ResourceVersion != d.ResourceVersion {
				t.Errorf("the decision about %s is %v, %v", d.Request.Name, found, err)
			}
		}
		if servers["a"] == servers["b"] || servers["a"] != servers["c"] || servers["b"] != servers["d"] {
			t.Errorf("the servers are %v", servers)
		}
		ofTwo, err := m.list(t, m.decisions, namespace, metav1.ListOptions{
			LabelSelector: v1alpha1.ServerLabel + "=" + servers["b"]})
		if err != nil || names(ofTwo) != "b d" {
			t.Errorf("of the second server there are %q, %v", names(ofTwo), err)
		}
		for limit := int64(1); limit <= 5; limit++ {
			var paged []string
			options, revision := metav1.ListOptions{Limit: limit}, ""
			for {
				page, err := m.list(t, m.decisions, namespace, options)
				if err != nil {
					t.Fatal(err)
				}
				if revision == "" {
					revision = page.ResourceVersion
				}
				if page.ResourceVersion != revision || int64(len(page.Items)) > limit {
					t.Errorf("a page of %d at revision %s, want %d at %s", len(page.Items), page.ResourceVersion, limit,
						revision)
				}
				paged = append(paged, names(page))
				if options.Continue = page.Continue; page.Continue == "" {
					break
				}
			}
			if got := strings.Join(paged, " "); got != "a b c d e" {
				t.Errorf("in pages of %d there are %q", limit, got)
			}
		}
		if _, err := m.get(t, namespace, "nonesuch"); !apierrors.IsNotFound(err) {
			t.Errorf("a decision that nobody has: %v", err)
		}
		for _, options := range []metav1.ListOptions{{Continue: "x"}, {Continue: list.ResourceVersion},
			{Continue: list.ResourceVersion + "/nonesuch=1.0"}} {
			_, err := m.list(t, m.decisions, namespace, options)
			if !apierrors.IsBadRequest(err) && !apierrors.IsResourceExpired(err) {
				t.Errorf("a list that goes on from %q: %v", options.Continue, err)
			}
		}
		if said := m.warned(); said != "" {
			t.Errorf("the server warns: %s", said)
		}
	}
}

// A watch has the events of all servers, those that come later included. It goes on from where
// another one ended, at any server.
func TestServersWatch(t *testing.T) {
	store := servertest.StartEtcd(t)
	one, two := startMember(t, store.Endpoint()), startMember(t, store.Endpoint())
	namespace := one.Namespace(t, nil)
	one.decide(t, namespace, "a")
	two.decide(t, namespace, "b")
	list := one.expect(t, namespace, "a b")

	listed := one.follow(t, namespace, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	two.decide(t, namespace, "c")
	listed.expect("c")
	one.decide(t, namespace, "d")
	revision := listed.expect("d")
	three := startMember(t, store.Endpoint())
	three.decide(t, namespace, "e")
	listed.expect("e")
	three.follow(t, namespace, metav1.ListOptions{ResourceVersion: revision}).expect("e")

	whole := three.follow(t, namespace, metav1.ListOptions{SendInitialEvents: new(true), AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	var initial []string
	for {
		e, name := whole.next()
		if e.Type == watch.Bookmark {
			revision = e.Object.(*v1alpha1.Decision).ResourceVersion
			break
		}
		initial = append(initial, name)
	}
	slices.Sort(initial)
	if got := strings.Join(initial, " "); got != "a b c d e" {
		t.Errorf("the initial events are about %q", got)
	}
	two.decide(t, namespace, "f")
	whole.expect("f")
	two.follow(t, namespace, metav1.ListOptions{ResourceVersion: revision}).expect("f")
	if now := three.expect(t, namespace, "a b c d e f"); now.ResourceVersion == list.ResourceVersion {
		t.Error("the revision stays")
	}

	// A server that is started again has none of its decisions any more: the client lists again.
	two.Kill()
	two.Start(t)
	two.awaitKnown(t)
	if e, _ := whole.next(); e.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
		t.Errorf("after the start of another server: %v", e)
	}
	three.expect(t, namespace, "a d e")
	options := metav1.ListOptions{Watch: true, ResourceVersion: revision}
	if _, err := client.Request(one.decisions, namespace, options).Watch(t.Context()); !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch from before: %v", err)
	}
	// One that is stopped says so.
	now := one.expect(t, namespace, "a d e").ResourceVersion
	last := one.follow(t, namespace, metav1.ListOptions{ResourceVersion: now})
	if err := syscall.Kill(three.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if e, _ := last.next(); e.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
		t.Errorf("after the end of another server: %v", e)
	}
	one.expect(t, namespace, "a d")
	for _, m := range []*member{one, two} {
		if said := m.warned(); said != "" {
			t.Errorf("a server warns: %s", said)
		}
	}
}

// A server that was killed, or hangs, is named in a warning, in time. One that goes on is joined
// again.
func TestServersDown(t *testing.T) {
	store := servertest.StartEtcd(t)
	one, two, three := startMember(t, store.Endpoint()), startMember(t, store.Endpoint()), startMember(t, store.Endpoint())
	namespace := one.Namespace(t, nil)
	one.decide(t, namespace, "a")
	two.decide(t, namespace, "b")
	three.decide(t, namespace, "c")
	list := one.expect(t, namespace, "a b c")
	label := func(i int) string { return list.Items[i].Labels[v1alpha1.ServerLabel] }
	watching := one.follow(t, namespace, metav1.ListOptions{ResourceVersion: list.ResourceVersion})

	three.Kill()
	two.Suspend(t)
	began := time.Now()
	some := one.expect(t, namespace, "a")
	if took := time.Since(began); took > 10*peers.AnswerTimeout { // long before a request times out
		t.Errorf("the list took %s", took)
	}
	said := one.warned()
	for _, want := range []string{"the decisions of server " + label(1) + " are missing: no answer within",
		"the decisions of server " + label(2) + " are missing: dial tcp"} {
		if !strings.Contains(said, want) {
			t.Errorf("the server warns %q, want %q", said, want)
		}
	}
	began = time.Now()
	if _, err := one.get(t, namespace, "nonesuch"); !apierrors.IsServiceUnavailable(err) ||
		!strings.Contains(err.Error(), label(1)) || !strings.Contains(err.Error(), label(2)) {
		t.Errorf("a decision that the others may have: %v", err)
	}
	one.follow(t, namespace, metav1.ListOptions{ResourceVersion: some.ResourceVersion})
	if said := one.warned(); !strings.Contains(said, label(1)) || !strings.Contains(said, label(2)) {
		t.Errorf("the watch begins with the warning %q", said)
	}
	if took := time.Since(began); took >= 2*peers.AnswerTimeout { // as if it were asked both times
		t.Errorf("asking again took %s", took)
	}
	one.decide(t, namespace, "d")
	watching.expect("d")

	partial := one.follow(t, namespace, metav1.ListOptions{ResourceVersion: some.ResourceVersion})
	partial.expect("d")
	if err := syscall.Kill(two.PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// The list didn't have it.
	partial.expect("b")
	two.decide(t, namespace, "e")
	partial.expect("e")
	watching.expect("e")
	one.warned()
	one.expect(t, namespace, "a b d e")
	if said := one.warned(); strings.Contains(said, label(1)) || !strings.Contains(said, label(2)) {
		t.Errorf("the server warns %q", said)
	}
	// A minute later the third server counts as ended.
	if e, _ := watching.within(3 * time.Minute); e.Type != watch.Error ||
		!strings.Contains(apierrors.FromObject(e.Object).Error(), label(2)+" has ended") {
		t.Errorf("after the server's end: %v", e)
	}
	one.expect(t, namespace, "a b d e")
	if said := one.warned(); said != "" {
		t.Errorf("after the server's end: %s", said)
	}
}
